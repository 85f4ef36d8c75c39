"""Vectors to rank, and the definitions of ranks and CSLS."""

import numpy as np

from cr5._typing import Array, Ints
from cr5.retrieval.block_products import BlockSizes, Matrix, WeightedView
from cr5.retrieval.top_k import Measure, Ranking, Retrieval, retrieve_views, search_views
from cr5.retrieval.vectors import unit_rows

MEASURES: list[Measure] = ["cosine", "csls"]


def unit(n: int, size: int = 6, seed: int = 0) -> Array:
    X = np.random.default_rng(seed).standard_normal((n, size)).astype(np.float32)
    return unit_rows(X)


def grid_vectors(n: int, seed: int) -> Array:
    """Vectors whose products are small whole numbers, with ties and zero vectors among them."""
    return np.random.default_rng(seed).integers(-1, 2, (n, 3)).astype(np.float32)


def search(
    queries: Matrix,
    candidates: Matrix,
    k: int,
    *,
    measure: Measure = "cosine",
    background: Matrix | None = None,
    sizes: BlockSizes | None = None,
) -> Ranking:
    """``search_views`` in one view."""
    return search_views([WeightedView(queries, candidates, background=background)], k, measure=measure, sizes=sizes)


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
    """``retrieve_views`` in one view."""
    views = [WeightedView(queries, candidates, background=background)]
    return retrieve_views(views, query_concepts, candidate_concepts, k=k, sizes=sizes)


def mean_of_nearest(vector: Array, others: Array) -> float:
    """r(v): the mean cosine to the 10 nearest, or to all where there are fewer."""
    return float(np.mean(sorted((float(vector @ other) for other in others), reverse=True)[:10]))


def csls(queries: Array, candidates: Array, background: Array | None = None) -> Array:
    """2 cos(q, c) - r(q) - r(c), straight from the definition."""
    others = queries if background is None else background
    r_queries = [mean_of_nearest(q, candidates) for q in queries]
    r_candidates = [mean_of_nearest(c, others) for c in candidates]
    scores = np.empty((len(queries), len(candidates)))
    for i, q in enumerate(queries):
        for j, c in enumerate(candidates):
            scores[i, j] = 2 * float(q @ c) - r_queries[i] - r_candidates[j]
    return scores


def slow_ranks(scores: Array, asked: Ints, answers: Ints) -> list[int]:
    """1 + the wrong candidates that are no worse than the best right one, but for rounding."""
    ranks = []
    for row, concept in zip(scores, asked, strict=True):
        right = [s for s, c in zip(row, answers, strict=True) if c == concept]
        if right:
            ranks.append(1 + sum(s >= max(right) - 1e-6 for s, c in zip(row, answers, strict=True) if c != concept))
    return ranks
