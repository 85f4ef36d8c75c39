"""Heaps of the k largest scores of every row, as the kernels fill them."""

from collections.abc import Sequence

import numpy as np

from cr5._typing import Array, Ints


def empty_heaps(rows: int, k: int) -> Array:
    """rows x k: heaps filled with -inf, which any score replaces."""
    return np.full((rows, k), -np.inf, np.float32)


def best_first(indices: Sequence[Ints], scores: Sequence[Array], k: int) -> tuple[Ints, Array]:
    """The k largest scores of each row of the heaps of several threads, best first, and their indices.

    Ties go to the lower index.
    """
    all_indices, all_scores = np.hstack(indices), np.hstack(scores)
    order = np.lexsort((all_indices, -all_scores), axis=1)[:, :k]
    return np.take_along_axis(all_indices, order, axis=1), np.take_along_axis(all_scores, order, axis=1)
