"""Ridge selection: a path of fits, each started from the last, scored by retrieval of held-out concepts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from cr5._typing import Array, Ints, Mask, Sparse
from cr5.corpus.texts import shared_numbers
from cr5.errors import Cr5Error
from cr5.progress import Progress, ProgressCallback, no_progress
from cr5.retrieval.csls import csls, means_of_largest
from cr5.retrieval.top_k import tie_threshold
from cr5.training.engines import Engine
from cr5.training.solver import Fit, solve

RIDGES = (30.0, 10.0, 3.0, 1.0, 0.3, 0.1)  # largest first: an easy problem, and each next one is close to it
LARGEST_RIDGE, SMALLEST_RIDGE = 1000.0, 0.001  # how far a path is extended if the criterion still rises at its end
DEFAULT_RIDGE = 3.0  # ridge for corpora with too few concepts to choose on
FIRST_STEPS, NEXT_STEPS = 3, 1  # solver steps at the first ridge and at each later one: enough to rank ridges
MIN_SHARED = 40  # concepts that two languages must share for some of them to be held out
HELD_OUT_FRACTION, MIN_HELD_OUT, MAX_HELD_OUT = 0.1, 500, 1000  # share of these concepts, and its limits
MAX_HELD_OUT_FRACTION = 0.2  # limits MIN_HELD_OUT in a small corpus
INVERSE_TEMPERATURES = 2.0 ** np.arange(10)  # each the double of the last, so that its powers are squares
EASY_PRECISION = 0.5  # if more documents are found at the first ridge, shortened versions are searched as well
KEPT_SHARES = (0.7, 0.5)  # shares of a document's words that the shortened versions keep
MAX_PAIRS = 30  # at most this many language pairs, drawn at random, are scored
MAX_WEIGHT_PAIRS = 6  # language pairs whose vectors are kept, to choose the weight of the strings view


@dataclass(frozen=True)
class PathPoint:
    """One ridge of the path, by retrieval of held-out documents by CSLS, mean of all ordered language pairs.

    log_likelihood: of the right answer, under a softmax of the scores. standard_error: of its difference from the
    best one of the path, over concepts. precision: P@1. reciprocal_rank: its mean.
    """

    ridge: float
    log_likelihood: float
    standard_error: float
    precision: float
    reciprocal_rank: float
    energy: float
    steps: int
    seconds: float


class HeldOut(NamedTuple):
    """A document of every held-out concept in each language, in the order of the concepts.

    rows: their positions among the language's documents. vectors: unit rows by the fit with the chosen ridge.
    """

    concepts: dict[str, Ints]
    rows: dict[str, Ints]
    vectors: dict[str, Array]


@dataclass(frozen=True)
class RidgePath:
    """The ridges in the order in which they were fitted, the one chosen, and a note for the reader.

    shares: of the words of a held-out document that are left in it, for each version of it that was searched.
    queries: held-out documents, once for each language that they are searched in. held_out: these documents, which
    are not saved.
    """

    points: list[PathPoint]
    ridge: float
    queries: int = 0
    shares: tuple[float, ...] = (1.0,)
    note: str = ""
    held_out: HeldOut | None = field(default=None, compare=False, repr=False)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        values = asdict(replace(self, held_out=None))
        del values["held_out"]
        return values

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "RidgePath":
        """The path that ``to_json`` was called on."""
        points = [PathPoint(**point) for point in values["points"]]
        return cls(**(values | {"points": points, "shares": tuple(values["shares"])}))


class Scores(NamedTuple):
    """How well documents are retrieved: see ``PathPoint``.

    by_concept, ranks_by_concept: the parts of each concept, which add up to log_likelihood and reciprocal_rank.
    """

    log_likelihood: float
    by_concept: Array
    ranks_by_concept: Array
    precision: float
    reciprocal_rank: float
    queries: int


class _Tried(NamedTuple):
    """A ridge that was fitted, with its scores by concept and the vectors of held-out documents."""

    point: PathPoint
    by_concept: Array
    ranks_by_concept: Array
    vectors: dict[str, Array]


def select_ridge(
    engine: Engine,
    concepts: Mapping[str, Ints],
    embed: Callable[[Fit, Mapping[str, Sparse]], dict[str, Array]],
    squares: Mapping[str, Array] | None = None,
    *,
    rank: int,
    seed: int = 0,
    ridges: tuple[float, ...] = RIDGES,
    progress: ProgressCallback = no_progress,
    should_stop: Callable[[], bool] = lambda: False,
    solver: Callable[..., Fit] | None = None,
    default: float = DEFAULT_RIDGE,
    **options: Any,
) -> RidgePath:
    """Fit every ridge without the held-out concepts, and choose by the retrieval of their counterparts.

    Of the ridges whose mean reciprocal rank is within one standard error of the best, the most likely one is chosen; if
    all are within one standard error of the best in likelihood, too, the largest. Where most documents are found, as
    translations of each other are at any ridge, they are also searched with some of their words removed at random,
    different ones in each language, and the scores are averaged. The path ends early after two ridges in a row below
    the best.

    ``concepts`` are those of the engine's documents; ``embed`` turns documents into unit rows by a fit; ``squares``
    are the ``squared_lengths`` of words. Of languages that the engine does not have, ``embed``
    returns a unit row for each held-out concept, the same with every fit. ``default`` is the ridge where too few
    concepts are shared; ``solver`` fits, with the arguments of ``solve``.
    """
    held = held_out(concepts, seed)
    if not held.any():
        shared = len(shared_numbers(concepts.values()))
        note = f"the ridge is {default:g}, not chosen: {shared} shared concepts are too few to hold some out"
        return RidgePath([], default, note=note)
    left = len(np.unique(np.concatenate([ids[~held[ids]] for ids in concepts.values()])))
    if rank >= left:
        raise Cr5Error(
            f'`rank={rank}` is too large: `ridge="auto"` holds out {int(held.sum())} concepts and leaves {left}; '
            f"use `rank<={left - 1}`, or give `ridge` as a number"
        )
    training = engine.subset(~held)
    documents, document_concepts, rows = one_for_each_concept(*engine.fetch_documents(held))
    rows = {lang: np.flatnonzero(held[concepts[lang]])[chosen] for lang, chosen in rows.items()}
    for lang in concepts.keys() - rows.keys():
        document_concepts[lang] = np.unique(concepts[lang][held[concepts[lang]]])
    kept_langs = {lang for pair in scored_pairs(document_concepts, MAX_WEIGHT_PAIRS) for lang in pair}
    tried: list[_Tried] = []
    versions, queries = [documents], 0
    shares: tuple[float, ...] = (1.0,)
    ridge: float | None = ridges[0]
    note = ""
    while ridge is not None:
        progress(Progress("choose the ridge", len(tried), max(len(ridges), len(tried) + 1), note))
        is_near = bool(tried) and ridge < tried[-1].point.ridge  # the Z of the last fit is a good start
        few_steps: dict[str, Any] = options | {"tol": 0.0, "max_steps": NEXT_STEPS if is_near else FIRST_STEPS}
        fit = (solver or solve)(
            training, rank=rank, ridge=ridge, seed=seed, should_stop=should_stop,
            start="engine" if is_near else None, **few_steps,
        )  # fmt: skip
        vectors = [embed(fit, version) for version in versions]
        scores = _mean([score(each, document_concepts) for each in vectors])
        if not tried and scores.precision > EASY_PRECISION:
            shortened = _shortened(documents, squares or {}, seed)
            scores = _mean([scores, *(score(embed(fit, version), document_concepts) for version in shortened)])
            versions, shares = [documents, *shortened], (1.0, *KEPT_SHARES)
        queries = scores.queries
        point = PathPoint(
            ridge, scores.log_likelihood, 0.0, scores.precision, scores.reciprocal_rank,
            fit.energy, fit.steps, fit.seconds,
        )  # fmt: skip
        kept = {lang: vectors[0][lang] for lang in kept_langs}
        tried.append(_Tried(point, scores.by_concept, scores.ranks_by_concept, kept))
        del fit, vectors  # they need memory while the next fit is computed
        note = f"ridge {ridge:g}: log likelihood {scores.log_likelihood:.3f}"
        ridge = _next_ridge(tried, ridges)
        if ridge is not None and should_stop():
            planned = max(len(ridges), len(tried) + 1)
            best = _best(tried).point.ridge
            note = f"the ridge was not chosen: interrupted after {len(tried)} of {planned} values; it is {best:g}"
            path = replace(_choose(tried, queries, shares), ridge=best, note=note)
            break
    else:
        path = _choose(tried, queries, shares)
    [vectors_of_chosen] = [each.vectors for each in tried if each.point.ridge == path.ridge]
    return replace(path, held_out=HeldOut(document_concepts, rows, vectors_of_chosen))


def _best(tried: Sequence[_Tried]) -> _Tried:
    """The most likely of the ridges whose mean reciprocal rank is within one standard error of the best.

    The likelihood also tells ridges apart at which everything is found.
    """
    return max(_within_error_of_best(tried), key=lambda each: each.point.log_likelihood)


def _within_error_of_best(tried: Sequence[_Tried]) -> list[_Tried]:
    """The ridges whose mean reciprocal rank is within one standard error of the best."""
    first = max(tried, key=lambda each: each.point.reciprocal_rank)
    errors = [standard_error(each.ranks_by_concept - first.ranks_by_concept) for each in tried]
    limits = [first.point.reciprocal_rank - error for error in errors]
    return [each for each, limit in zip(tried, limits, strict=True) if each.point.reciprocal_rank >= limit]


def standard_error(by_concept: Array) -> float:
    """The standard error of the sum of ``by_concept``, if concepts were drawn again."""
    return float(np.sqrt(len(by_concept)) * by_concept.std(ddof=1)) if len(by_concept) > 1 else 0.0


def _next_ridge(tried: Sequence[_Tried], ridges: Sequence[float]) -> float | None:
    """The next of ``ridges`` until two are below the best; then further ones if the path still rises at an end."""
    best = _best(tried)
    smaller = [ridge for ridge in ridges if ridge < min(each.point.ridge for each in tried)]
    if smaller and sum(each.point.ridge < best.point.ridge for each in tried) < 2:
        return smaller[0]
    if not _rises_to_an_end(tried):
        return None
    ordered = sorted(each.point.ridge for each in tried)
    further = ordered[1] / 10 if best.point.ridge == ordered[0] else ordered[-2] * 10  # 0.3, 0.1: 0.03
    return further if SMALLEST_RIDGE <= further <= LARGEST_RIDGE else None


def _rises_to_an_end(tried: Sequence[_Tried]) -> bool:
    """Whether the best ridge is the largest or smallest and exceeds its neighbour by more than its own standard error.

    The standard error of the difference is not used: towards large ridges the maps converge, and negligible
    differences stay significant.
    """
    ordered, best = sorted(tried, key=lambda each: each.point.ridge), _best(tried)
    if len(ordered) == 1 or (best is not ordered[0] and best is not ordered[-1]):
        return False
    neighbour = ordered[1] if best is ordered[0] else ordered[-2]
    return best.point.log_likelihood - neighbour.point.log_likelihood > standard_error(best.by_concept)


def _choose(tried: Sequence[_Tried], queries: int, shares: tuple[float, ...]) -> RidgePath:
    best = _best(tried)
    points = [replace(each.point, standard_error=standard_error(each.by_concept - best.by_concept)) for each in tried]
    highest = best.point.log_likelihood
    likely = {point.ridge for point in points if point.log_likelihood >= highest - point.standard_error}
    good = [each.point.ridge for each in _within_error_of_best(tried) if each.point.ridge in likely]
    note, ridge = "", best.point.ridge
    if len(good) == len(points) > 2:
        ridge = max(good)
        note = f"the ridge hardly matters: all from {min(good):g} to {max(good):g} are within one standard error"
    elif _rises_to_an_end(tried):
        is_smallest = best.point.ridge == min(point.ridge for point in points)
        end, further = ("smallest", "smaller") if is_smallest else ("largest", "larger")
        note = f"the best ridge, {best.point.ridge:g}, is the {end} that was tried; a {further} one may be better"
    return RidgePath(points, ridge, queries, shares, note)


def held_out_count(shared: int) -> int:
    """How many of the concepts that two languages share are held out; 0 if there are too few."""
    if shared < MIN_SHARED:
        return 0
    smallest = min(MIN_HELD_OUT, int(MAX_HELD_OUT_FRACTION * shared))
    return min(max(int(HELD_OUT_FRACTION * shared), smallest), MAX_HELD_OUT)


def held_out(concepts: Mapping[str, Ints], seed: int) -> Mask:
    """A mask over concepts: those that are held out of training, each in two languages or more."""
    shared = shared_numbers(concepts.values())
    mask = np.zeros(1 + max(int(ids.max(initial=-1)) for ids in concepts.values()), bool)
    mask[np.random.default_rng(seed).choice(shared, held_out_count(len(shared)), replace=False)] = True
    return mask


def one_for_each_concept(
    blocks: Mapping[str, Sparse], concepts: Mapping[str, Ints]
) -> tuple[dict[str, Sparse], dict[str, Ints], dict[str, Ints]]:
    """The longest document of each concept in every language, in the order of the concepts; these, and its rows."""
    chosen_X, chosen_concepts, rows = {}, {}, {}
    for lang, X in blocks.items():
        longest_first = np.lexsort((-np.diff(X.indptr), concepts[lang]))
        chosen_concepts[lang], first = np.unique(concepts[lang][longest_first], return_index=True)
        rows[lang] = longest_first[first]
        chosen_X[lang] = X[rows[lang]]
        chosen_X[lang].sort_indices()
    return chosen_X, chosen_concepts, rows


def _shortened(documents: Mapping[str, Sparse], squares: Mapping[str, Array], seed: int) -> list[dict[str, Sparse]]:
    """A version of the documents for each of ``KEPT_SHARES`` of their words."""
    random = np.random.default_rng(seed)
    return [
        {lang: some_words(X, share, random, squares.get(lang)) for lang, X in documents.items()}
        for share in KEPT_SHARES
    ]


def squared_lengths(subwords: Mapping[str, Sparse | None]) -> dict[str, Array]:
    """For every word of a language with subwords, the squared length of its features, from words x subwords."""
    return {lang: 1 + M.power(2).sum(axis=1) for lang, M in subwords.items() if M is not None}


def some_words(X: Sparse, share: float, random: np.random.Generator, squares: Array | None = None) -> Sparse:
    """A share of every row's nonzeros, drawn at random, at least one, scaled to unit rows; see ``squared_lengths``."""
    lengths = np.diff(X.indptr)
    rows = np.repeat(np.arange(X.shape[0]), lengths)
    shuffled = np.lexsort((random.random(X.nnz), rows))
    position = np.arange(X.nnz) - X.indptr[rows]
    kept = np.sort(shuffled[position < np.maximum(share * lengths, 1)[rows]])
    data, rows = X.data[kept], rows[kept]
    lengths_squared = data.astype(np.float64) ** 2 * (1 if squares is None else squares[X.indices[kept]])
    norms = np.sqrt(np.bincount(rows, lengths_squared, minlength=X.shape[0]))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=X.shape[0]))]).astype(X.indptr.dtype)
    return csr_array(((data / norms[rows]).astype(X.dtype), X.indices[kept], indptr), shape=X.shape)


def score(vectors: Mapping[str, Array], concepts: Mapping[str, Ints], max_pairs: int = MAX_PAIRS) -> Scores:
    """Retrieve documents by CSLS over the ordered pairs of languages; every pair has the same weight.

    vectors: a unit row for every concept; concepts: their numbers, ascending. The temperature of the softmax is the one
    of the largest likelihood.
    """
    held = len(np.unique(np.concatenate(list(concepts.values()))))
    sums = np.zeros((held, len(INVERSE_TEMPERATURES) + 2))
    directions = queries = 0
    for a, b, rows_a, rows_b, places in matching_rows(concepts, scored_pairs(concepts, max_pairs)):
        cosines = np.ascontiguousarray(vectors[a][rows_a] @ vectors[b][rows_b].T, np.float32)
        means = means_of_largest(cosines), means_of_largest(np.ascontiguousarray(cosines.T))
        scores = csls(cosines, means[0][:, None], means[1])
        for direction in (scores, scores.T):
            sums[places] += _score_queries(direction) / len(places)
        directions, queries = directions + 2, queries + 2 * len(places)
    sums /= directions
    by_concept = _at_the_best_temperature(sums[:, :-2])
    precision, reciprocal_rank = sums[:, -2:].sum(axis=0)
    return Scores(float(by_concept.sum()), by_concept, sums[:, -1], float(precision), float(reciprocal_rank), queries)


def scored_pairs(concepts: Mapping[str, Ints], most: int) -> list[tuple[str, str]]:
    """The pairs of languages that share concepts; of more than ``most``, always the same ones."""
    pairs = [(a, b) for a, b in combinations(concepts, 2) if np.isin(concepts[a], concepts[b]).any()]
    chosen = np.random.default_rng(0).permutation(len(pairs))[:most]
    return [pairs[i] for i in sorted(chosen)]


def matching_rows(
    concepts: Mapping[str, Ints], pairs: Sequence[tuple[str, str]]
) -> Iterator[tuple[str, str, Ints, Ints, Ints]]:
    """Pairs of languages, the rows of either that have a concept of both, and the place of this among all concepts."""
    all_concepts = np.unique(np.concatenate(list(concepts.values())))
    for a, b in pairs:
        shared, rows_a, rows_b = np.intersect1d(concepts[a], concepts[b], assume_unique=True, return_indices=True)
        yield a, b, rows_a, rows_b, np.searchsorted(all_concepts, shared)


def _mean(scores: Sequence[Scores]) -> Scores:
    """The mean scores of the same queries, asked with several versions of their documents."""
    likelihood, precision, reciprocal_rank = (
        float(np.mean([getattr(each, name) for each in scores]))
        for name in ("log_likelihood", "precision", "reciprocal_rank")
    )
    by_concept, ranks = (
        np.mean([getattr(each, name) for each in scores], axis=0) for name in ("by_concept", "ranks_by_concept")
    )
    return Scores(likelihood, by_concept, ranks, precision, reciprocal_rank, scores[0].queries)


def _score_queries(scores: Array) -> Array:
    """For every row, whose right answer is on the diagonal: its log likelihoods, whether it is first, and 1 / rank."""
    right, top, ranks = np.diagonal(scores), scores.max(axis=1), ranks_on_diagonal(scores)
    powers = np.exp(INVERSE_TEMPERATURES[0] * (scores - top[:, None]))
    columns = []
    for inverse_temperature in INVERSE_TEMPERATURES:
        columns.append(inverse_temperature * (right - top) - np.log(powers.sum(axis=1)))
        powers *= powers
    return np.stack([*columns, ranks == 1, 1 / ranks], axis=1)


def ranks_on_diagonal(scores: Array) -> Ints:
    """For every row its rank of the right answer, which is on the diagonal; of equal scores, that one comes last."""
    right = np.diagonal(scores)
    return np.asarray((scores >= tie_threshold(right)[:, None]).sum(axis=1))


def _at_the_best_temperature(values: Array) -> Array:
    """concepts x temperatures -> concepts, where the parabola through the largest sum and its neighbours peaks."""
    total = values.sum(axis=0)
    best = int(total.argmax())
    if best in (0, len(total) - 1):
        return np.asarray(values[:, best])
    left, middle, right = total[best - 1 : best + 2]
    t = (left - right) / (2 * (left - 2 * middle + right))
    return np.asarray(values[:, best - 1 : best + 2] @ [t * (t - 1) / 2, 1 - t * t, t * (t + 1) / 2])
