"""Spherical k-means: the centroids of inverted lists of vectors."""

import numpy as np

from cr5._typing import Array
from cr5.retrieval.top_k import nearest
from cr5.retrieval.vectors import unit_rows

TRAINING_VECTORS_PER_CENTROID, ROUNDS = 20, 6
LISTS_PER_SQRT_ROW = 4  # number of lists / sqrt(number of rows)


def number_of_lists(rows: int) -> int:
    """The number of inverted lists for this many rows, a power of two."""
    return int(2 ** round(np.log2(LISTS_PER_SQRT_ROW * rows**0.5)))


def sampling_step(rows: int, lists: int) -> int:
    """The step at which sampled rows are enough to train this many centroids."""
    return max(1, rows // (TRAINING_VECTORS_PER_CENTROID * lists))


def kmeans(vectors: Array, number: int) -> Array:
    """``number`` centroids of length 1 (number x rank). Centroids without vectors restart at random vectors."""
    rng = np.random.default_rng(0)
    centroids = vectors[rng.choice(len(vectors), number, replace=False)]
    for _ in range(ROUNDS):
        chosen = nearest(vectors, centroids, 1).indices[:, 0]
        order, used = np.argsort(chosen, kind="stable"), np.unique(chosen)
        sums = np.add.reduceat(vectors[order], np.searchsorted(chosen[order], used), axis=0)
        centroids = vectors[rng.choice(len(vectors), number, replace=False)]
        centroids[used] = unit_rows(sums)
    return np.asarray(centroids)
