"""Exact search: rank the rows of one matrix for the rows of another, by cosine or CSLS."""

from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from scipy.sparse import issparse

from cr5._typing import Array, Ints, Sparse

Measure: TypeAlias = Literal["cosine", "csls"]
Rows: TypeAlias = Array | Sparse

BLOCK = 512
NEIGHBOURHOOD = 10


class Ranking(NamedTuple):
    """The best candidates of every query, best first, and their scores."""

    indices: Ints
    scores: Array


def nearest(queries: Rows, candidates: Rows, k: int, *, penalty: Array | None = None) -> Ranking:
    """The k candidates with the largest q'c - penalty; rows are unit vectors, ties go to the lower index."""
    k = min(k, candidates.shape[0])
    indices = np.empty((queries.shape[0], k), np.int64)
    scores = np.empty((queries.shape[0], k), np.float32)
    for i in range(0, queries.shape[0], BLOCK):
        similarity = _similarity(queries[i : i + BLOCK], candidates, penalty)
        if k < similarity.shape[1]:
            top = np.argpartition(-similarity, k - 1, axis=1)[:, :k]
            # The partition takes any of those that tie for the last place.
            least = np.take_along_axis(similarity, top, axis=1).min(axis=1, keepdims=True, initial=np.inf)
            tied = np.flatnonzero((similarity >= least).sum(axis=1) > k)
            top[tied] = np.argsort(-similarity[tied], axis=1, kind="stable")[:, :k]
        else:
            top = np.tile(np.arange(k), (len(similarity), 1))
        best = np.take_along_axis(similarity, top, axis=1)
        order = np.lexsort((top, -best), axis=1)
        indices[i : i + BLOCK] = np.take_along_axis(top, order, axis=1)
        scores[i : i + BLOCK] = np.take_along_axis(best, order, axis=1)
    return Ranking(indices, scores)


def neighbourhood(vectors: Rows, background: Rows, k: int = NEIGHBOURHOOD) -> Array:
    """r(v): the mean cosine of each vector to its k nearest in the background of the other language; 0 if empty."""
    scores = nearest(vectors, background, k).scores
    return np.asarray(scores.sum(axis=1) / max(scores.shape[1], 1))


def search(
    queries: Rows, candidates: Rows, k: int, *, measure: Measure = "cosine", background: Rows | None = None
) -> Ranking:
    """Rank candidates by cosine, or by CSLS = 2 cos(q, c) - r(q) - r(c).

    A candidate's neighbourhood r(c) is taken over ``background``, vectors of the query language: the
    queries themselves unless others are given. A query's own r(q) cannot change its ranking, so the
    scores leave it out: 2 cos(q, c) - r(c).
    """
    if measure == "cosine":
        return nearest(queries, candidates, k)
    penalty = neighbourhood(candidates, queries if background is None else background) / 2
    indices, scores = nearest(queries, candidates, k, penalty=penalty)
    return Ranking(indices, 2 * scores)


def counterpart_ranks(
    queries: Rows, query_concepts: Ints, candidates: Rows, candidate_concepts: Ints, *, measure: Measure = "cosine"
) -> Ints:
    """The rank of the best candidate of each query's own concept; 1 is the top.

    Queries whose concept no candidate has are left out. Ties count against the answer, so that
    vectors that are all alike score nothing.
    """
    asked = np.isin(query_concepts, candidate_concepts)
    queries, query_concepts = queries[asked], query_concepts[asked]
    penalty = neighbourhood(candidates, queries) / 2 if measure == "csls" else None
    result = np.empty(queries.shape[0], np.int64)
    for i in range(0, queries.shape[0], BLOCK):
        similarity = _similarity(queries[i : i + BLOCK], candidates, penalty)
        right = query_concepts[i : i + BLOCK, None] == candidate_concepts
        best = np.where(right, similarity, -np.inf).max(axis=1, keepdims=True)
        result[i : i + BLOCK] = 1 + ((similarity >= best) & ~right).sum(axis=1)
    return result


def _similarity(queries: Rows, candidates: Rows, penalty: Array | None) -> Array:
    product: Any = queries @ candidates.T
    similarity = product.toarray() if issparse(product) else product
    return np.asarray(similarity if penalty is None else similarity - penalty)
