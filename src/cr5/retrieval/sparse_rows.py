"""Sparse rows: products and rows side by side, in time that depends on their nonzeros and not on the columns.

SciPy's product takes memory for every column, which for the row of one short text is most of the time.
"""

import numpy as np

from cr5._typing import Array, Ints, Sparse


def arrays_of(matrix: Sparse) -> tuple[Ints, Ints, Array]:
    """Offsets, columns and values, always of the same types, so that the loops over them are compiled once."""
    types = (matrix.indptr, np.int64), (matrix.indices, np.int32), (matrix.data, np.float32)
    offsets, columns, values = (array.astype(kind, copy=False) for array, kind in types)
    return offsets, columns, values


def multiply_matrices(left: Sparse, right: Sparse) -> Sparse:
    """left @ right, float32; the columns of a row are not sorted."""
    from cr5.retrieval.kernels import multiply_sparse

    if left.shape[1] != right.shape[0]:  # the kernel would not notice
        raise ValueError(f"matrices of shapes {left.shape} and {right.shape} cannot be multiplied")
    offsets, columns, values = multiply_sparse(*arrays_of(left), *arrays_of(right))
    return _matrix(offsets, columns, values, right.shape[1])


def hstack_rows(first: Sparse, second: Sparse) -> Sparse:
    """The rows [first, second], float32."""
    (a_offsets, a_columns, a_values), (b_offsets, b_columns, b_values) = arrays_of(first), arrays_of(second)
    position = np.arange(len(a_columns)) + np.repeat(b_offsets[:-1], np.diff(a_offsets))
    b_position = np.arange(len(b_columns)) + np.repeat(a_offsets[1:], np.diff(b_offsets))
    number = len(position) + len(b_position)
    columns, values = np.empty(number, np.int32), np.empty(number, np.float32)
    columns[position], values[position] = a_columns, a_values
    columns[b_position], values[b_position] = b_columns + np.int32(first.shape[1]), b_values
    return _matrix(a_offsets + b_offsets, columns, values, first.shape[1] + second.shape[1])


def _matrix(offsets: Ints, columns: Ints, values: Array, width: int) -> Sparse:
    """A matrix of these arrays; SciPy would convert the columns to the type of the offsets."""
    from scipy.sparse import csr_array

    narrow = offsets.astype(columns.dtype) if len(columns) <= np.iinfo(columns.dtype).max else offsets
    return csr_array((values, columns, narrow), shape=(len(offsets) - 1, width))
