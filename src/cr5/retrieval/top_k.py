"""Exact search: rank the rows of one matrix for the rows of another, by cosine or CSLS.

The rows may have several views, whose weighted products are added. CSLS corrects each view for hubs by itself: the
score is the sum over views of weight (2 q'c - r(c)).

Blocks of candidates are multiplied with all queries, and each block of products is used in full while it is in the
cache: a candidate's neighbourhood is in its row, so that CSLS costs one product, not two. Each thread processes blocks
on its own; the results of the threads are merged at the end.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from cr5._typing import Array, Ints
from cr5.errors import Cr5Error
from cr5.retrieval.block_products import Blocks, BlockSizes, Matrix, WeightedView, map_blocks
from cr5.retrieval.csls import means_of_largest, neighbourhood_means
from cr5.retrieval.heaps import best_first, empty_heaps

Measure: TypeAlias = Literal["cosine", "csls"]

TIE_TOLERANCE = 1e-6  # relative, for scores above 1; equal products that were rounded differently differ by less


def tie_threshold(scores: Array) -> Array:
    """The lowest score that counts as equal to each score, whatever the rounding: ties count against a right answer."""
    return np.asarray(scores - scores.dtype.type(TIE_TOLERANCE) * np.maximum(1, np.abs(scores)))


class Ranking(NamedTuple):
    """The best candidates of every query, best first, and their scores: queries x k each."""

    indices: Ints
    scores: Array


class Retrieval(NamedTuple):
    """The rank of every query's counterpart, and the best candidates.

    ranks: queries; 1 is the top, 0 where no candidate has the query's concept. indices and scores:
    queries x k, best first, ties to the lower index.
    """

    ranks: Ints
    indices: Ints
    scores: Array


class _Score(NamedTuple):
    """weight q'c - penalty[c]; a penalty of None is the sum of the views' neighbourhood means r(c) over all queries."""

    weight: float
    penalty: Array | None


class _Counterparts(NamedTuple):
    """Queries in groups that share a concept: members[starts[g] : starts[g + 1]]; and each candidate's group."""

    groups: Ints
    starts: Ints
    members: Ints


def nearest(queries: Matrix, candidates: Matrix, k: int, *, penalty: Array | None = None) -> Ranking:
    """The k candidates with the largest q'c - penalty[c]; ties go to the lower index."""
    return nearest_in_views([WeightedView(queries, candidates)], k, penalty=penalty)


def nearest_in_views(views: Sequence[WeightedView], k: int, *, penalty: Array | None = None) -> Ranking:
    """As ``nearest``, where q'c is the sum of the weighted products of the views."""
    views = _checked(views)
    score = _Score(1, np.zeros(views[0].candidates.shape[0]) if penalty is None else penalty)
    return Ranking(*_search(views, k, [score], None, BlockSizes())[0][1:])


def mutual_nearest(nearest_b: Ints, nearest_a: Ints) -> Ints:
    """The rows of a that are the nearest of their nearest row of b; -1 stands for none."""
    rows = np.flatnonzero(nearest_b >= 0)
    return np.asarray(rows[nearest_a[nearest_b[rows]] == rows])


def search_views(
    views: Sequence[WeightedView], k: int, *, measure: Measure = "cosine", sizes: BlockSizes | None = None
) -> Ranking:
    """Rank candidates by the sum of the views' cosines, weight q'c, or of their CSLS, weight (2 q'c - r(q) - r(c)).

    A candidate's neighbourhood mean r(c) is taken over the view's ``background``, vectors of the query language: the
    queries themselves unless others are given. A query's own r(q) cannot change its ranking, so the scores leave it
    out: 2 q'c - r(c).
    """
    views, sizes = _checked(views), sizes or BlockSizes()
    return Ranking(*_search(views, k, [_score(measure, views, sizes)], None, sizes)[0][1:])


def retrieve_views(
    views: Sequence[WeightedView],
    query_concepts: Ints,
    candidate_concepts: Ints,
    *,
    k: int = 10,
    sizes: BlockSizes | None = None,
) -> dict[Measure, Retrieval]:
    """Both measures in one pass, by the scores of ``search_views``: the k best, and the rank of each counterpart.

    The counterpart is the best candidate of the query's concept. Its rank is 1 + the number of candidates of other
    concepts that score no less; other candidates of the query's concept are ignored. Ties are decided against the
    counterpart, also if the scores are equal but for rounding, so that equal vectors get the last rank.
    """
    views, sizes = _checked(views), sizes or BlockSizes()
    measures: tuple[Measure, ...] = ("cosine", "csls")
    scores = [_score(measure, views, sizes) for measure in measures]
    found = _search(views, k, scores, (query_concepts, candidate_concepts), sizes)
    return dict(zip(measures, found, strict=True))


def _checked(views: Sequence[WeightedView]) -> list[WeightedView]:
    """The views with a weight above 0; if there are none, the first one."""
    sizes = {(view.queries.shape[0], view.candidates.shape[0]) for view in views}
    if len(sizes) != 1:
        listed = ", ".join(f"{queries:,} x {candidates:,}" for queries, candidates in sorted(sizes))
        raise Cr5Error(f"views must have the same queries and candidates, and these have {listed or 'none'}")
    return [view for view in views if view.weight > 0] or list(views[:1])


def _score(measure: Measure, views: Sequence[WeightedView], sizes: BlockSizes) -> _Score:
    if measure == "cosine":
        return _Score(1, np.zeros(views[0].candidates.shape[0]))
    if views[0].queries.shape[0] <= sizes.queries and all(view.background is None for view in views):
        return _Score(2, None)
    return _Score(2, _sum([_neighbourhood_means(view, sizes) for view in views]))


def _neighbourhood_means(view: WeightedView, sizes: BlockSizes) -> Array:
    background = view.queries if view.background is None else view.background
    means = neighbourhood_means(view.candidates, background, sizes=sizes)
    return means if view.weight == 1 else means * np.float32(view.weight)


def _sum(arrays: Sequence[Array]) -> Array:
    """The sum of arrays of one shape, in the first of them."""
    total, *others = arrays
    for other in others:
        total += other
    return total


def _search(
    views: Sequence[WeightedView], k: int, scores: list[_Score], concepts: tuple[Ints, Ints] | None, sizes: BlockSizes
) -> list[Retrieval]:
    """One result for every score. The ranks need ``concepts``, of the queries and of the candidates."""
    scores = [_Score(weight, None if p is None else p.astype(np.float32)) for weight, p in scores]
    queries, candidates = views[0].queries.shape[0], views[0].candidates.shape[0]
    k = min(k, candidates)
    parts = []
    for i in range(0, max(queries, 1), sizes.queries):
        rows = slice(i, i + sizes.queries)
        counterparts = _match(concepts[0][rows], concepts[1]) if concepts else _no_counterparts(candidates)
        parts.append(_search_block([view.select_queries(rows) for view in views], k, scores, counterparts, sizes))
    return [Retrieval(*map(np.concatenate, zip(*each, strict=True))) for each in zip(*parts, strict=True)]


def _match(query_concepts: Ints, candidate_concepts: Ints) -> _Counterparts:
    names, groups = np.unique(query_concepts, return_inverse=True)
    members = np.argsort(groups)
    starts = np.searchsorted(groups[members], np.arange(len(names) + 2))  # the last group is empty
    wanted = np.isin(candidate_concepts, names)
    return _Counterparts(np.where(wanted, np.searchsorted(names, candidate_concepts), len(names)), starts, members)


def _no_counterparts(candidates: int) -> _Counterparts:
    return _Counterparts(np.zeros(candidates, np.int64), np.zeros(2, np.int64), np.empty(0, np.int64))


def _search_block(
    views: Sequence[WeightedView], k: int, scores: list[_Score], counterparts: _Counterparts, sizes: BlockSizes
) -> list[Retrieval]:
    from cr5.retrieval.kernels import count_no_worse, keep_top

    n = views[0].queries.shape[0]
    thresholds = _thresholds(views, scores, counterparts, sizes)

    def process(blocks: Blocks) -> list[tuple[Ints, Ints, Array]]:
        results = [(np.zeros((n, 1), np.int32), np.zeros((n, k), np.int64), empty_heaps(n, k)) for _ in scores]
        worst = [np.full(n, -np.inf if k else np.inf, np.float32) for _ in scores]
        for block, parts in blocks:
            penalties, products = [_penalty(score, block, parts) for score in scores], _sum(parts)
            for i, (score, penalty) in enumerate(zip(scores, penalties, strict=True)):
                counts, indices, best = results[i]
                weight = np.float32(score.weight)
                groups, starts, members = counterparts
                count_no_worse(products, weight, penalty, thresholds[i], groups[block], starts, members, counts.ravel())
                keep_top(products, weight, penalty, block.start, worst[i], indices, best)
        return results

    found = []
    for i, parts in enumerate(zip(*map_blocks(process, views, sizes), strict=True)):
        counts, indices, best = zip(*parts, strict=True)
        ranks = np.where(np.isinf(thresholds[i]), 0, 1 + np.hstack(counts).sum(axis=1, dtype=np.int64))
        found.append(Retrieval(ranks, *best_first(indices, best, k)))
    return found


def _thresholds(
    views: Sequence[WeightedView], scores: list[_Score], counterparts: _Counterparts, sizes: BlockSizes
) -> Array:
    """scores x queries: the score at or above which a candidate counts against the counterpart; inf without one."""
    from cr5.retrieval.kernels import best_counterpart_scores

    groups, starts, members = counterparts
    relevant = np.flatnonzero(np.diff(starts)[groups])
    scores = [_Score(weight, None if p is None else p[relevant]) for weight, p in scores]

    def process(blocks: Blocks) -> Array:
        best = empty_heaps(len(scores), views[0].queries.shape[0])
        for block, parts in blocks:
            penalties, products = [_penalty(score, block, parts) for score in scores], _sum(parts)
            for score, penalty, row in zip(scores, penalties, best, strict=True):
                weight = np.float32(score.weight)
                best_counterpart_scores(products, weight, penalty, groups[relevant[block]], starts, members, row)
        return best

    best = np.max(map_blocks(process, views, sizes, relevant), axis=0)
    return np.where(np.isinf(best), np.float32(np.inf), tie_threshold(best))


def _penalty(score: _Score, block: slice, products: Sequence[Array]) -> Array:
    """The penalties of a block of candidates, whose weighted products with all queries are given for each view."""
    return _sum([means_of_largest(part) for part in products]) if score.penalty is None else score.penalty[block]
