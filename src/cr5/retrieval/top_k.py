"""Exact search: rank the rows of one matrix for the rows of another, by cosine or CSLS.

Blocks of candidates are multiplied with all queries, and each block of products is used in full while it is in the
cache: a candidate's neighbourhood is in its row, so that CSLS costs one product, not two. Each thread processes blocks
on its own; the results of the threads are merged at the end.
"""

from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from cr5._typing import Array, Ints
from cr5.retrieval.block_products import Blocks, BlockSizes, Matrix, map_blocks
from cr5.retrieval.csls import empty_heaps, means_of_largest, neighbourhood_means

Measure: TypeAlias = Literal["cosine", "csls"]

TIE_TOLERANCE = 1e-6  # relative, for scores above 1; equal products that were rounded differently differ by less


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
    """weight q'c - penalty[c]; a penalty of None is the neighbourhood mean r(c) over all queries."""

    weight: float
    penalty: Array | None


class _Counterparts(NamedTuple):
    """Queries in groups that share a concept: members[starts[g] : starts[g + 1]]; and each candidate's group."""

    groups: Ints
    starts: Ints
    members: Ints


def nearest(queries: Matrix, candidates: Matrix, k: int, *, penalty: Array | None = None) -> Ranking:
    """The k candidates with the largest q'c - penalty[c]; ties go to the lower index."""
    score = _Score(1, np.zeros(candidates.shape[0]) if penalty is None else penalty)
    return Ranking(*_search(queries, candidates, k, [score], None, BlockSizes())[0][1:])


def search(
    queries: Matrix,
    candidates: Matrix,
    k: int,
    *,
    measure: Measure = "cosine",
    background: Matrix | None = None,
    sizes: BlockSizes | None = None,
) -> Ranking:
    """Rank candidates by cosine, or by CSLS = 2 cos(q, c) - r(q) - r(c).

    A candidate's neighbourhood mean r(c) is taken over ``background``, vectors of the query language: the
    queries themselves unless others are given. A query's own r(q) cannot change its ranking, so the
    scores leave it out: 2 cos(q, c) - r(c).
    """
    sizes = sizes or BlockSizes()
    score = _score(measure, queries, candidates, background, sizes)
    return Ranking(*_search(queries, candidates, k, [score], None, sizes)[0][1:])


def counterpart_ranks(
    queries: Matrix,
    query_concepts: Ints,
    candidates: Matrix,
    candidate_concepts: Ints,
    *,
    measure: Measure = "cosine",
    sizes: BlockSizes | None = None,
) -> Ints:
    """The rank of each query's counterpart, as in ``retrieve``.

    Queries whose concept no candidate has are left out, also of the neighbourhood means.
    """
    sizes = sizes or BlockSizes()
    has_counterpart = np.isin(query_concepts, candidate_concepts)
    queries, concepts = queries[has_counterpart], (query_concepts[has_counterpart], candidate_concepts)
    score = _score(measure, queries, candidates, None, sizes)
    return _search(queries, candidates, 0, [score], concepts, sizes)[0].ranks


def retrieve(
    queries: Matrix,
    query_concepts: Ints,
    candidates: Matrix,
    candidate_concepts: Ints,
    *,
    k: int = 10,
    background: Matrix | None = None,
    sizes: BlockSizes | None = None,
) -> dict[Measure, Retrieval]:
    """Both measures in one pass: the k best candidates, and the rank of each query's counterpart.

    The counterpart is the best candidate of the query's concept. Its rank is 1 + the number of candidates of other
    concepts that score no less; other candidates of the query's concept are ignored. Ties are decided against the
    counterpart, also if the scores are equal but for rounding, so that equal vectors get the last rank.
    CSLS is as in ``search``.
    """
    sizes = sizes or BlockSizes()
    measures: tuple[Measure, ...] = ("cosine", "csls")
    scores = [_score(measure, queries, candidates, background, sizes) for measure in measures]
    found = _search(queries, candidates, k, scores, (query_concepts, candidate_concepts), sizes)
    return dict(zip(measures, found, strict=True))


def _score(
    measure: Measure, queries: Matrix, candidates: Matrix, background: Matrix | None, sizes: BlockSizes
) -> _Score:
    if measure == "cosine":
        return _Score(1, np.zeros(candidates.shape[0]))
    if background is None and queries.shape[0] <= sizes.queries:
        return _Score(2, None)
    return _Score(2, neighbourhood_means(candidates, queries if background is None else background, sizes=sizes))


def _search(
    queries: Matrix,
    candidates: Matrix,
    k: int,
    scores: list[_Score],
    concepts: tuple[Ints, Ints] | None,
    sizes: BlockSizes,
) -> list[Retrieval]:
    """One result for every score. The ranks need ``concepts``, of the queries and of the candidates."""
    scores = [_Score(weight, None if p is None else p.astype(np.float32)) for weight, p in scores]
    k = min(k, candidates.shape[0])
    parts = []
    for i in range(0, max(queries.shape[0], 1), sizes.queries):
        rows = slice(i, i + sizes.queries)
        counterparts = _match(concepts[0][rows], concepts[1]) if concepts else _no_counterparts(candidates.shape[0])
        parts.append(_search_block(queries[rows], candidates, k, scores, counterparts, sizes))
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
    queries: Matrix, candidates: Matrix, k: int, scores: list[_Score], counterparts: _Counterparts, sizes: BlockSizes
) -> list[Retrieval]:
    from cr5.retrieval.kernels import count_no_worse, keep_top

    n = queries.shape[0]
    thresholds = _thresholds(queries, candidates, scores, counterparts, sizes)

    def process(blocks: Blocks) -> list[tuple[Ints, Ints, Array]]:
        results = [(np.zeros((n, 1), np.int32), np.zeros((n, k), np.int64), empty_heaps(n, k)) for _ in scores]
        worst = [np.full(n, -np.inf if k else np.inf, np.float32) for _ in scores]
        for block, products in blocks:
            for i, score in enumerate(scores):
                counts, indices, best = results[i]
                weight, penalty = np.float32(score.weight), _penalty(score, block, products)
                groups, starts, members = counterparts
                count_no_worse(products, weight, penalty, thresholds[i], groups[block], starts, members, counts.ravel())
                keep_top(products, weight, penalty, block.start, worst[i], indices, best)
        return results

    found = []
    for i, parts in enumerate(zip(*map_blocks(process, candidates, queries, sizes), strict=True)):
        counts, indices, best = (np.hstack(arrays) for arrays in zip(*parts, strict=True))
        ranks = np.where(np.isinf(thresholds[i]), 0, 1 + counts.sum(axis=1, dtype=np.int64))
        order = np.lexsort((indices, -best), axis=1)[:, :k]
        top = np.take_along_axis(indices, order, axis=1), np.take_along_axis(best, order, axis=1)
        found.append(Retrieval(ranks, *top))
    return found


def _thresholds(
    queries: Matrix, candidates: Matrix, scores: list[_Score], counterparts: _Counterparts, sizes: BlockSizes
) -> Array:
    """scores x queries: the score from which on a candidate counts against the counterpart; inf if there is none."""
    from cr5.retrieval.kernels import best_counterpart_scores

    groups, starts, members = counterparts
    relevant = np.flatnonzero(np.diff(starts)[groups])
    scores = [_Score(weight, None if p is None else p[relevant]) for weight, p in scores]

    def process(blocks: Blocks) -> Array:
        best = empty_heaps(len(scores), queries.shape[0])
        for block, products in blocks:
            for score, row in zip(scores, best, strict=True):
                weight, penalty = np.float32(score.weight), _penalty(score, block, products)
                best_counterpart_scores(products, weight, penalty, groups[relevant[block]], starts, members, row)
        return best

    best = np.max(map_blocks(process, candidates, queries, sizes, relevant), axis=0)
    return np.where(np.isinf(best), np.float32(np.inf), best - np.float32(TIE_TOLERANCE) * np.maximum(1, np.abs(best)))


def _penalty(score: _Score, block: slice, products: Array) -> Array:
    return means_of_largest(products) if score.penalty is None else score.penalty[block]
