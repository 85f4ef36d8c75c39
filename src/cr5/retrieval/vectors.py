"""Vectors as rows: documents as unit vectors, and inner products of corresponding rows."""

import numpy as np

from cr5._typing import Array, Ints, Sparse


def document_vectors(
    X: Sparse,
    map: Array,  # noqa: A002
    offset: Array,
    further: Array | None = None,
    scale: Array | None = None,
) -> Array:
    """X map - offset, every row at unit length; a document without words becomes 0.

    X: documents x words; map: words x rank; further: the rows of the map for further columns of X, if it has any;
    scale: what the rows of the map are to be multiplied by, if it is quantised.
    """
    of_words = X[:, : len(map)] if further is not None and len(further) else X
    vectors = np.asarray(of_words @ map) if scale is None else times_quantised(of_words, map, scale)
    if of_words is not X:
        vectors += X[:, len(map) :] @ further
    vectors -= offset
    vectors[X.indptr[1:] == X.indptr[:-1]] = 0
    vectors /= _lengths(vectors)
    return vectors


def text_vector(
    columns: Ints,
    values: Array,
    map: Array,  # noqa: A002
    offset: Array,
    further: Array,
    scale: Array | None = None,
) -> Array:
    """What ``document_vectors`` computes for one row, given by its columns and values, without sparse matrices."""
    words = int(np.searchsorted(columns, len(map)))  # those of the map come first
    vector = _weighted_sum(columns[:words], values[:words], map, scale)
    if words < len(columns):
        vector += _weighted_sum(columns[words:] - len(map), values[words:], further)
    if not len(columns):
        return vector
    vector -= offset
    square = row_products(vector[None], vector[None])[0]
    return np.asarray(vector / np.sqrt(square)) if square > 0 else vector


def _weighted_sum(columns: Ints, values: Array, rows: Array, scale: Array | None = None) -> Array:
    """The sum of some rows times values, from the first to the last, as sparse matrices add them."""
    chosen = rows[columns]
    if scale is not None:
        values, chosen = values * (scale if len(scale) == 1 else scale[columns]), chosen.astype(np.float32)
    return np.asarray(np.add.reduce(values[:, None] * chosen, axis=0))


def times_quantised(X: Sparse, values: Array, scale: Array) -> Array:
    """X (scale values) in single precision, of which only the rows that X uses are converted.

    scale: 1 number, or one for each row of the values, which are float16 or int8.
    """
    if X.shape[0] == 1:
        return _weighted_sum(X.indices, X.data, values, scale)[None]
    from scipy.sparse import csr_array

    is_used = np.zeros(len(values), bool)
    is_used[X.indices] = True
    used = np.flatnonzero(is_used)
    number = np.empty(len(values), np.int32)
    number[used] = np.arange(len(used), dtype=np.int32)
    columns = number[X.indices]
    data = X.data * (scale if len(scale) == 1 else scale[X.indices])
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
