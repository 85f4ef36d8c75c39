"""Vectors as rows: unit length, and inner products of corresponding rows."""

import numpy as np

from cr5._typing import Array


def unit_rows(vectors: Array) -> Array:
    """v / |v| for every row v; a row of zeros stays zero."""
    norms = np.sqrt(row_products(vectors, vectors))
    return np.asarray(vectors / np.where(norms > 0, norms, 1)[:, None])


def row_products(left: Array, right: Array) -> Array:
    """The inner product of row i of ``left`` with row i of ``right``, for every i."""
    return np.asarray(np.einsum("ij,ij->i", left, right))
