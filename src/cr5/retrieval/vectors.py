"""Vectors as rows: documents as unit vectors, and inner products of corresponding rows."""

import numpy as np

from cr5._typing import Array, Sparse


def document_vectors(X: Sparse, map: Array, offset: Array, further: Array | None = None) -> Array:  # noqa: A002
    """X map - offset, every row at unit length; a document without words becomes 0.

    X: documents x words; map: words x rank; further: the rows of the map for further columns of X, if it has any.
    """
    if further is None or not len(further):
        vectors = np.asarray(X @ map)
    else:
        vectors = np.asarray(X[:, : len(map)] @ map)
        vectors += X[:, len(map) :] @ further
    vectors -= offset
    vectors[X.indptr[1:] == X.indptr[:-1]] = 0
    vectors /= _lengths(vectors)
    return vectors


def unit_rows(vectors: Array) -> Array:
    """v / |v| for every row v; a row of zeros stays zero."""
    return np.asarray(vectors / _lengths(vectors))


def cosines_with(vector: Array, rows: Array) -> Array:
    """The cosine of a vector (rank) with every row (rows x rank); 0 for a row of zeros."""
    norms = np.sqrt(row_products(rows, rows) * (vector @ vector))
    return np.asarray((rows @ vector) / np.where(norms > 0, norms, 1))


def _lengths(vectors: Array) -> Array:
    """|v| of every row v, as a column; 1 for a row of zeros."""
    norms = np.sqrt(row_products(vectors, vectors))
    return np.asarray(np.where(norms > 0, norms, 1)[:, None])


def row_products(left: Array, right: Array) -> Array:
    """The inner product of row i of ``left`` with row i of ``right``, for every i."""
    return np.asarray(np.einsum("ij,ij->i", left, right))
