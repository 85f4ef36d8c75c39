"""Exact search: rank the rows of one matrix for the rows of another, by cosine or CSLS.

Blocks of candidates are multiplied with all queries, and whatever is asked of a product is taken from it
while it is in the cache: a candidate's neighbourhood is in its row, so that CSLS costs one product, not two.
Each thread takes block after block and multiplies on its own; what the threads have found is merged at the end.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
from scipy.sparse import issparse

from cr5._typing import Array, Ints, Sparse
from cr5.machine import available_cores, one_blas_thread
from cr5.retrieval.kernels import count_better, keep, keep_answers, keep_best

Measure: TypeAlias = Literal["cosine", "csls"]
Rows: TypeAlias = Array | Sparse
Blocks: TypeAlias = Iterator[tuple[slice, Array]]
Found = TypeVar("Found")

NEIGHBOURHOOD = 10
TIE = 1e-6  # relative, for scores above 1: what rounding does to the same product in different blocks is less
QUERIES = 8192  # at once, at the most
BLOCK = 256  # candidates at once, at the least
CELLS = 2**19  # products at once, if these are enough for a block: 2 MB, which a core's cache holds


class Ranking(NamedTuple):
    """The best candidates of every query, best first, and their scores."""

    indices: Ints
    scores: Array


class Hits(NamedTuple):
    """What was found for every query: the rank of its counterpart, and the best candidates.

    ranks: queries; 1 is the top, 0 where no candidate has the query's concept. indices and scores:
    queries x k, best first, ties to the lower index.
    """

    ranks: Ints
    indices: Ints
    scores: Array


class _Score(NamedTuple):
    """weight q'c - penalty, a number for every candidate; None: its neighbourhood r(c) over all queries."""

    weight: float
    penalty: Array | None


class _Answers(NamedTuple):
    """Queries in groups that share a concept: members[starts[g] : starts[g + 1]]; and each candidate's group."""

    groups: Ints
    starts: Ints
    members: Ints


def nearest(queries: Rows, candidates: Rows, k: int, *, penalty: Array | None = None) -> Ranking:
    """The k candidates with the largest q'c - penalty; ties go to the lower index."""
    score = _Score(1, np.zeros(candidates.shape[0]) if penalty is None else penalty)
    return Ranking(*_find(queries, candidates, k, [score])[0][1:])


def neighbourhood(vectors: Rows, background: Rows, k: int = NEIGHBOURHOOD) -> Array:
    """r(v): the mean product of each vector with its k nearest in the background of the other language; 0 if empty."""
    best = _nothing(vectors.shape[0], min(k, background.shape[0]))

    def work(blocks: Blocks) -> None:
        for block, products in blocks:
            keep_best(products, best[block])

    for i in range(0, background.shape[0], QUERIES):
        _share_out(vectors, background[i : i + QUERIES], work)
    return _mean(best)


def search(
    queries: Rows, candidates: Rows, k: int, *, measure: Measure = "cosine", background: Rows | None = None
) -> Ranking:
    """Rank candidates by cosine, or by CSLS = 2 cos(q, c) - r(q) - r(c).

    A candidate's neighbourhood r(c) is taken over ``background``, vectors of the query language: the
    queries themselves unless others are given. A query's own r(q) cannot change its ranking, so the
    scores leave it out: 2 cos(q, c) - r(c).
    """
    score = _score(measure, queries, candidates, background)
    return Ranking(*_find(queries, candidates, k, [score])[0][1:])


def counterpart_ranks(
    queries: Rows, query_concepts: Ints, candidates: Rows, candidate_concepts: Ints, *, measure: Measure = "cosine"
) -> Ints:
    """The rank of the best candidate of each query's own concept, as in ``retrieve``.

    Queries whose concept no candidate has are left out, also of the neighbourhoods.
    """
    asked = np.isin(query_concepts, candidate_concepts)
    queries, concepts = queries[asked], (query_concepts[asked], candidate_concepts)
    return _find(queries, candidates, 0, [_score(measure, queries, candidates, None)], concepts)[0].ranks


def retrieve(
    queries: Rows,
    query_concepts: Ints,
    candidates: Rows,
    candidate_concepts: Ints,
    *,
    k: int = 10,
    background: Rows | None = None,
) -> dict[Measure, Hits]:
    """Both measures in one pass: the k best candidates, and the rank of the best one of each query's own concept.

    The rank is 1 + the number of candidates of other concepts that score no less; others of its own never
    count. Ties count against the answer, also those that rounding blurs, so that vectors that are all
    alike score nothing. CSLS is as in ``search``.
    """
    measures: tuple[Measure, ...] = ("cosine", "csls")
    scores = [_score(measure, queries, candidates, background) for measure in measures]
    hits = _find(queries, candidates, k, scores, (query_concepts, candidate_concepts))
    return dict(zip(measures, hits, strict=True))


def _score(measure: Measure, queries: Rows, candidates: Rows, background: Rows | None) -> _Score:
    if measure == "cosine":
        return _Score(1, np.zeros(candidates.shape[0]))
    if background is None and queries.shape[0] <= QUERIES:
        return _Score(2, None)
    return _Score(2, neighbourhood(candidates, queries if background is None else background))


def _find(
    queries: Rows, candidates: Rows, k: int, scores: list[_Score], concepts: tuple[Ints, Ints] | None = None
) -> list[Hits]:
    """The hits of every score. The ranks need ``concepts``, of the queries and of the candidates."""
    scores = [_Score(weight, None if p is None else p.astype(np.float32)) for weight, p in scores]
    parts = []
    for i in range(0, max(queries.shape[0], 1), QUERIES):
        some = queries[i : i + QUERIES]
        answers = _match(concepts[0][i : i + QUERIES], concepts[1]) if concepts else _no_answers(candidates.shape[0])
        parts.append(_find_some(some, candidates, min(k, candidates.shape[0]), scores, answers))
    return [Hits(*map(np.concatenate, zip(*hits, strict=True))) for hits in zip(*parts, strict=True)]


def _match(query_concepts: Ints, candidate_concepts: Ints) -> _Answers:
    names, groups = np.unique(query_concepts, return_inverse=True)
    members = np.argsort(groups)
    starts = np.searchsorted(groups[members], np.arange(len(names) + 2))  # the last group is empty
    asked = np.isin(candidate_concepts, names)
    return _Answers(np.where(asked, np.searchsorted(names, candidate_concepts), len(names)), starts, members)


def _no_answers(candidates: int) -> _Answers:
    return _Answers(np.zeros(candidates, np.int64), np.zeros(2, np.int64), np.empty(0, np.int64))


def _find_some(queries: Rows, candidates: Rows, k: int, scores: list[_Score], answers: _Answers) -> list[Hits]:
    n = queries.shape[0]
    least = _least(queries, candidates, scores, answers)

    def work(blocks: Blocks) -> list[tuple[Ints, Ints, Array]]:
        found = [(np.zeros((n, 1), np.int32), np.zeros((n, k), np.int64), _nothing(n, k)) for _ in scores]
        worst = [np.full(n, -np.inf if k else np.inf, np.float32) for _ in scores]
        for block, products in blocks:
            for i, score in enumerate(scores):
                counts, indices, best = found[i]
                weight, penalty = np.float32(score.weight), _penalty(score, block, products)
                groups, starts, members = answers
                count_better(products, weight, penalty, least[i], groups[block], starts, members, counts.ravel())
                keep(products, weight, penalty, block.start, worst[i], indices, best)
        return found

    hits = []
    for i, parts in enumerate(zip(*_share_out(candidates, queries, work), strict=True)):
        counts, indices, best = (np.hstack(arrays) for arrays in zip(*parts, strict=True))
        ranks = np.where(np.isinf(least[i]), 0, 1 + counts.sum(axis=1, dtype=np.int64))
        order = np.lexsort((indices, -best), axis=1)[:, :k]
        top = np.take_along_axis(indices, order, axis=1), np.take_along_axis(best, order, axis=1)
        hits.append(Hits(ranks, *top))
    return hits


def _least(queries: Rows, candidates: Rows, scores: list[_Score], answers: _Answers) -> Array:
    """The score from which on a candidate counts against each query's answer, scores x queries; infinite without."""
    groups, starts, members = answers
    own = np.flatnonzero(np.diff(starts)[groups])
    scores = [_Score(weight, None if p is None else p[own]) for weight, p in scores]

    def work(blocks: Blocks) -> Array:
        best = _nothing(len(scores), queries.shape[0])
        for block, products in blocks:
            for score, row in zip(scores, best, strict=True):
                weight, penalty = np.float32(score.weight), _penalty(score, block, products)
                keep_answers(products, weight, penalty, groups[own[block]], starts, members, row)
        return best

    best = np.max(_share_out(candidates, queries, work, own), axis=0)
    return np.where(np.isinf(best), np.float32(np.inf), best - np.float32(TIE) * np.maximum(1, np.abs(best)))


def _penalty(score: _Score, block: slice, products: Array) -> Array:
    if score.penalty is not None:
        return score.penalty[block]
    best = _nothing(len(products), min(NEIGHBOURHOOD, products.shape[1]))
    keep_best(products, best)
    return _mean(best)


def _nothing(rows: int, k: int) -> Array:
    return np.full((rows, k), -np.inf, np.float32)


def _mean(best: Array) -> Array:
    return np.asarray(best.sum(axis=1, dtype=np.float64) / max(best.shape[1], 1), np.float32)


_alone = threading.Lock()


def _share_out(rows: Rows, columns: Rows, work: Callable[[Blocks], Found], chosen: Ints | None = None) -> list[Found]:
    """Call ``work`` on every thread with blocks of all or some rows and their products with all columns.

    The threads share the blocks, and each gets its own in ascending order. Returns what each found.
    """
    number, threads = rows.shape[0] if chosen is None else len(chosen), available_cores()
    step = max(BLOCK, min(CELLS // max(columns.shape[0], 1), -(-number // threads)))
    shared = iter(range(0, number, step))  # whose next() no other thread can interrupt
    right: Any = columns.T
    right = right.tocsr() if issparse(right) else np.asarray(right, np.float32)

    def blocks() -> Blocks:
        memory = np.empty(min(step, number) * right.shape[1], np.float32)
        for first in shared:
            block = slice(first, min(first + step, number))
            yield block, _product(rows[block if chosen is None else chosen[block]], right, memory)

    # One search at a time: of two that overlap, the second would leave BLAS with the one thread that it found.
    with _alone, one_blas_thread():
        if number <= step:
            return [work(blocks())]
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(lambda _: work(blocks()), range(threads)))


def _product(left: Rows, right: Any, memory: Array) -> Array:
    if issparse(left) or issparse(right):
        product: Any = left @ right
        return np.ascontiguousarray(product.toarray() if issparse(product) else product, np.float32)
    out = memory[: left.shape[0] * right.shape[1]].reshape(left.shape[0], right.shape[1])
    return np.asarray(np.dot(np.asarray(left, np.float32), right, out=out))
