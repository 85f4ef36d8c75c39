"""Products of dense matrices of which one has few rows or columns: compiled loops on a CPU, elsewhere operators."""

from collections.abc import Sequence

import numpy as np

from cr5._typing import Array


def combination(parts: Sequence[tuple[Array, Array]]) -> Array:
    """The sum of A B over pairs of arrays, rows x k and k x columns."""
    if not isinstance(parts[0][0], np.ndarray):
        first, *more = (A @ B for A, B in parts)
        return sum(more, start=first)
    from cr5.training.engines.dense_kernels import add_product

    (first, of_first), *_ = parts
    result = np.zeros((len(first), of_first.shape[1]), np.result_type(first, of_first))
    for A, B in parts:
        add_product(A, B, result)
    return result


def product(A: Array, B: Array) -> Array:
    """A B"""
    return combination([(A, B)])


def inner_products(A: Array, B: Array) -> Array:
    """A'B for arrays with the same rows; A may be B."""
    if not isinstance(A, np.ndarray):
        products: Array = A.T @ B
        return products
    from cr5.training.engines.dense_kernels import add_product

    result = np.zeros((A.shape[1], B.shape[1]), np.result_type(A, B))
    add_product(A.T, B, result, symmetric=A is B)
    return result
