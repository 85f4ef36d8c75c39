"""Vectors as rows: documents as unit vectors, and inner products of corresponding rows."""

import numpy as np

from cr5._typing import Array, Sparse


def document_vectors(
    X: Sparse,
    map: Array,  # noqa: A002
    offset: Array,
    further: Array | None = None,
    unit: Array | None = None,
) -> Array:
    """X map - offset, every row at unit length; a document without words becomes 0.

    X: documents x words; map: words x rank; further: the rows of the map for further columns of X, if it has any;
    unit: what the rows of the map are to be multiplied by, if it is quantised.
    """
    of_words = X[:, : len(map)] if further is not None and len(further) else X
    vectors = np.asarray(of_words @ map) if unit is None else times_quantised(of_words, map, unit)
    if of_words is not X:
        vectors += X[:, len(map) :] @ further
    vectors -= offset
    vectors[X.indptr[1:] == X.indptr[:-1]] = 0
    vectors /= _lengths(vectors)
    return vectors


def times_quantised(X: Sparse, values: Array, unit: Array) -> Array:
    """X (unit values) in single precision, of which only the rows that X uses are converted.

    unit: 1 number, or one for each row of the values, which are float16 or int8.
    """
    from scipy.sparse import csr_array

    if X.shape[0] == 1:  # no column occurs twice
        used, columns = X.indices, np.arange(len(X.indices), dtype=np.int32)
    else:
        is_used = np.zeros(len(values), bool)
        is_used[X.indices] = True
        used = np.flatnonzero(is_used)
        number = np.empty(len(values), np.int32)
        number[used] = np.arange(len(used), dtype=np.int32)
        columns = number[X.indices]
    data = X.data * (unit if len(unit) == 1 else unit[X.indices])
    compact = csr_array((data, columns, X.indptr), shape=(X.shape[0], len(used)))
    return np.asarray(compact @ values[used].astype(np.float32))


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
