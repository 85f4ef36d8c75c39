"""Links: which units (sentences, paragraphs) of two texts say the same.

A link joins p units of one side with q of the other, x with y. Its value is

    sqrt((p + q) / 2) (z(x, y) - LENGTH_WEIGHT |ln(length of y / expected length)|) - UNIT_COST (p + q) / 2
    - MERGE_COST (p + q - 2)

where z(x, y) is the similarity s(x, y) of the joined units by all views of a model, less the means r(x) and r(y) of the
similarities of x and y with the units of the other side, each counted half, in standard deviations; and the expected
length is that of x times the ratio of both texts. A unit without a counterpart adds 0. The settings were chosen on
Europarl with two models (``benchmarks/alignment.py``).
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

from cr5._typing import Array, Sparse
from cr5.errors import Cr5Error
from cr5.features.counts import WordCounts, count_words
from cr5.model import Cr5
from cr5.retrieval.block_products import WeightedView
from cr5.retrieval.scorer import Scorer
from cr5.retrieval.text_similarity import pair_similarities, similarities
from cr5.retrieval.top_k import mutual_nearest, search_views

Move: TypeAlias = tuple[int, int]
MOVES: tuple[Move, ...] = ((1, 1), (1, 2), (2, 1), (2, 2), (1, 3), (3, 1))
LENGTH_WEIGHT, UNIT_COST, MERGE_COST = 1.6, 0.4, 0.4  # in standard deviations of similarities
MIN_FREE_VALUE = 0.5  # smallest value of a link that the order of the units does not support
MIN_GAIN = 0.02  # least increase of a link's similarity for which a unit is added to it
LENGTH_PRIOR = 10  # characters added to every length, since the lengths of short units vary most
MAX_LENGTH_RATIO = 1.5  # in nats: a larger ratio costs no more
# A text of few units says little about the similarities of unrelated ones: typical values count as so many units.
PRIOR_UNITS, PRIOR_MEAN, PRIOR_DEVIATION = 4, 0.03, 0.05
MAX_CELLS = 1_000_000  # pairs of units that are aligned at a time; longer texts are cut
MAX_FREE_CELLS = 50_000_000
GAP_A, GAP_B = -1, -2  # a choice that leaves out a unit; other choices are positions in the moves


class Link(NamedTuple):
    """Units of both sides, by their numbers, that say the same, and their similarity; one side may be empty."""

    a: tuple[int, ...]
    b: tuple[int, ...]
    score: float

    @property
    def sides(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The units of both sides."""
        return self.a, self.b


class Units:
    """The units of a text in one language: their word counts and their lengths in characters."""

    def __init__(self, texts: Sequence[str], lang: str, model: Cr5) -> None:
        self.lang = lang
        self.counts = count_words(list(texts), lang, model.settings.tokeniser)
        self.lengths = np.array([len(text) for text in texts], np.float64)

    def __len__(self) -> int:
        return len(self.lengths)

    def joined(self, groups: Sparse) -> "Units":
        """Units that join some of these: ``groups`` (groups x units) has a 1 for each unit of a group."""
        units = object.__new__(Units)
        units.lang = self.lang
        units.counts = WordCounts(self.counts.words, (groups @ self.counts.matrix).tocsr()).drop_unused_words()
        units.lengths = groups @ self.lengths
        return units

    def runs(self, rows: range, size: int) -> "Units":
        """Every ``size`` consecutive units of some rows, joined."""
        starts = np.arange(rows.start, max(rows.stop - size + 1, rows.start))
        return self.joined(_membership([range(start, start + size) for start in starts.tolist()], len(self)))


def align_units(
    model: Cr5,
    units_a: Sequence[str],
    lang_a: str,
    units_b: Sequence[str],
    lang_b: str,
    *,
    free: bool = False,
    min_value: float = MIN_FREE_VALUE,
    moves: Sequence[Move] = MOVES,
    max_cells: int = MAX_CELLS,
) -> list[Link]:
    """The links between the units of two texts in different languages, in the order of the first text.

    By default the order is the same on both sides: the links with the largest sum of values (see the module), found by
    dynamic programming, each of them of one of the sizes in ``moves``. With ``free``, units may be in any order: those
    that are each other's best are linked if the value is at least ``min_value``, and others join a link if that makes
    it more similar. Every unit is in exactly one link; one without a counterpart has a link of its own. Texts of more
    than ``max_cells`` pairs of units are cut where the best pairs of units follow each other.
    """
    a, b = (Units(units, lang, model) for units, lang in ((units_a, lang_a), (units_b, lang_b)))
    if free:
        return _free_links(model, a, b, min_value)
    links: list[Link] = []
    for rows_a, rows_b in _parts(model.scorer(), a, b, max_cells):
        links += _best_path(*_link_values(model.scorer(), a, rows_a, b, rows_b, moves), moves, (rows_a, rows_b))
    return links


class _Scale(NamedTuple):
    """The scale of similarities, their standard deviation over single units; and ln(length of b / length of a)."""

    deviation: float
    ratio: float

    def values(self, found: Array, a: Units, b: Units, move: Move) -> Array:
        """The values of links of one size: joined units of a x joined units of b."""
        rows, columns = (_mean(found, axis) for axis in (1, 0))
        z = (found - (rows[:, None] + columns) / 2) / self.deviation
        logs = [np.log(units.lengths + LENGTH_PRIOR) for units in (a, b)]
        lengths = np.minimum(np.abs(logs[1] - logs[0][:, None] - self.ratio), MAX_LENGTH_RATIO)
        return _value(z - LENGTH_WEIGHT * lengths, move)


def _value(z: Array, move: Move) -> Array:
    units = sum(move)
    return np.asarray(np.sqrt(units / 2) * z - UNIT_COST * units / 2 - MERGE_COST * (units - 2), np.float32)


def _mean(found: Array, axis: int) -> Array:
    total, number = found.sum(axis=axis, dtype=np.float64), found.shape[axis]
    return np.asarray((total + PRIOR_UNITS * PRIOR_MEAN) / (number + PRIOR_UNITS))


def _scale(found: Array, a: Units, b: Units) -> _Scale:
    squares = (
        np.square(found - found.mean() if found.size else found).sum(dtype=np.float64)
        + PRIOR_UNITS**2 * PRIOR_DEVIATION**2
    )
    ratio = np.log(max(b.lengths.sum(), 1) / max(a.lengths.sum(), 1))
    return _Scale(float(np.sqrt(squares / (found.size + PRIOR_UNITS**2))), float(ratio))


# Links in the order of both texts


def _link_values(
    scorer: Scorer, a: Units, rows_a: range, b: Units, rows_b: range, moves: Sequence[Move]
) -> tuple[dict[Move, Array], dict[Move, Array]]:
    """For links of every size, joined units of a x joined units of b: values, and similarities."""
    runs_a = {size: a.runs(rows_a, size) for size in {1, *(p for p, _ in moves)}}
    runs_b = {size: b.runs(rows_b, size) for size in {1, *(q for _, q in moves)}}
    found = {
        (p, q): similarities(scorer, runs_a[p].counts, a.lang, runs_b[q].counts, b.lang) for p, q in {(1, 1), *moves}
    }
    scale = _scale(found[1, 1], runs_a[1], runs_b[1])
    values = {(p, q): scale.values(found[p, q], runs_a[p], runs_b[q], (p, q)) for p, q in moves}
    return values, found


def _best_path(
    values: Mapping[Move, Array], found: Mapping[Move, Array], moves: Sequence[Move], rows: tuple[range, range]
) -> list[Link]:
    """The links with the largest sum of values, by dynamic programming over how much of both sides is aligned."""
    n, m = map(len, rows)
    best, choice = np.zeros((n + 1, m + 1), np.float32), np.full((n + 1, m + 1), GAP_B, np.int8)
    for i in range(1, n + 1):
        best[i], choice[i] = best[i - 1], GAP_A
        for number, (p, q) in enumerate(moves):
            if i >= p and m >= q:
                reached = best[i - p, : m - q + 1] + values[p, q][i - p]
                better = reached > best[i, q:]
                best[i, q:][better], choice[i, q:][better] = reached[better], number
        reached = np.maximum.accumulate(best[i])  # leaving out units of b adds nothing
        choice[i, 1:][reached[:-1] >= best[i, 1:]] = GAP_B
        best[i] = reached
    links: list[Link] = []
    i, j = n, m
    while i or j:
        number = int(choice[i, j])
        p, q = {GAP_A: (1, 0), GAP_B: (0, 1)}.get(number) or moves[number]
        i, j = i - p, j - q
        score = float(found[p, q][i, j]) if number >= 0 else 0.0
        links.append(Link(tuple(rows[0][i : i + p]), tuple(rows[1][j : j + q]), score))
    return links[::-1]


def _parts(scorer: Scorer, a: Units, b: Units, max_cells: int) -> Iterator[tuple[range, range]]:
    """The rows of both sides in parts of not many more than ``max_cells`` pairs, cut at places where both texts can be.

    They can be cut where two pairs of units that are each other's best follow each other on both sides, in the longest
    chain of such pairs.
    """
    begin = 0, 0
    if len(a) * len(b) > max_cells:
        mutual = _mutual_best(scorer, a, b)
        chain = _longest_chain(mutual)
        for (i, j), (next_i, next_j) in pairwise(chain):
            follows = (next_i, next_j) == (i + 1, j + 1)
            if follows and (next_i - begin[0]) * (next_j - begin[1]) > max_cells // 2:
                yield range(begin[0], next_i), range(begin[1], next_j)
                begin = next_i, next_j
    yield range(begin[0], len(a)), range(begin[1], len(b))


def _mutual_best(scorer: Scorer, a: Units, b: Units) -> list[tuple[int, int]]:
    """The units that are each other's best by CSLS, in the order of a."""
    rows = scorer.weighted_views(a.counts, a.lang, b.counts, b.lang)
    of_a = search_views(rows, 1, measure="csls").indices[:, 0]
    of_b = search_views(
        [WeightedView(view.candidates, view.queries, view.weight) for view in rows], 1, measure="csls"
    ).indices[:, 0]
    mutual = mutual_nearest(of_a, of_b)
    return list(zip(mutual.tolist(), of_a[mutual].tolist(), strict=True))


def _longest_chain(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest sequence of pairs in which both numbers increase, of pairs in the order of the first."""
    ends: list[int] = []  # the smallest j at which a chain of each length ends
    last: list[int] = []  # the position of that pair
    before = [-1] * len(pairs)
    for number, (_, j) in enumerate(pairs):
        length = bisect_left(ends, j)
        before[number] = last[length - 1] if length else -1
        ends[length : length + 1], last[length : length + 1] = [j], [number]
    chain, number = [], last[-1] if last else -1
    while number >= 0:
        chain.append(pairs[number])
        number = before[number]
    return chain[::-1]


# Links in any order


def _free_links(model: Cr5, a: Units, b: Units, min_value: float) -> list[Link]:
    if len(a) * len(b) > MAX_FREE_CELLS:
        raise Cr5Error(
            f"texts of {len(a):,} and {len(b):,} units are too long for `free=True`; "
            "leave it out, or find parallel sentences with `mine`"
        )
    scorer = model.scorer()
    found = similarities(scorer, a.counts, a.lang, b.counts, b.lang)
    values = _scale(found, a, b).values(found, a, b, (1, 1))
    links = []
    if values.size:
        best_of_a, best_of_b = values.argmax(axis=1), values.argmax(axis=0)
        mutual = [(i, int(j)) for i, j in enumerate(best_of_a) if best_of_b[j] == i and values[i, j] >= min_value]
        links = [Link((i,), (j,), float(found[i, j])) for i, j in mutual]
        links = _add_units(scorer, a, b, links, [(i, int(j)) for i, j in enumerate(best_of_a) if values[i, j] > 0])
        links = _add_units(scorer, a, b, links, [(int(i), j) for j, i in enumerate(best_of_b) if values[i, j] > 0])
    links += [Link((i,), (), 0.0) for i in sorted(set(range(len(a))) - {i for link in links for i in link.a})]
    links += [Link((), (j,), 0.0) for j in sorted(set(range(len(b))) - {j for link in links for j in link.b})]
    return sorted(links, key=lambda link: (link.a or (len(a),), link.b))


def _add_units(
    scorer: Scorer, a: Units, b: Units, links: Sequence[Link], pairs: Sequence[tuple[int, int]]
) -> list[Link]:
    """Links with the units added that make them more similar; ``pairs`` has the best counterpart of each such unit."""
    of_a, of_b = ({i: k for k, link in enumerate(links) for i in link.sides[side]} for side in (0, 1))
    trials = []
    for i, j in pairs:
        if (i in of_a) != (j in of_b):
            k = of_a[i] if i in of_a else of_b[j]
            trials.append((k, Link(tuple(sorted({i, *links[k].a})), tuple(sorted({j, *links[k].b})), 0.0)))
    if not trials:
        return list(links)
    joined = [
        units.joined(_membership([t[1].sides[side] for t in trials], len(units))) for side, units in enumerate((a, b))
    ]
    scores = pair_similarities(scorer, joined[0].counts, a.lang, joined[1].counts, b.lang)
    best = dict(enumerate(links))
    for (k, link), score in zip(trials, scores.tolist(), strict=True):
        if score > max(best[k].score, links[k].score + MIN_GAIN):
            best[k] = link._replace(score=score)
    return list(best.values())


def _membership(groups: Sequence[Sequence[int]], size: int) -> Sparse:
    """groups x units: 1 where a group has a unit, otherwise 0."""
    from scipy.sparse import csr_array

    columns = np.array([unit for group in groups for unit in group], np.int32)
    offsets = np.concatenate([[0], np.cumsum([len(group) for group in groups], dtype=np.int32)])
    return csr_array((np.ones(len(columns), np.int32), columns, offsets), shape=(len(groups), size))
