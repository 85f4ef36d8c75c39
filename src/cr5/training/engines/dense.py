"""Products of dense matrices of which one has few rows or columns: compiled loops on a CPU, elsewhere operators.

And formulas of arrays, element by element, which a GPU computes in one pass.
"""

from collections.abc import Callable, Sequence
from functools import cache, wraps
from typing import Any, TypeVar, cast

import numpy as np

from cr5._typing import Array

Formula = TypeVar("Formula", bound=Callable[..., Any])


def elementwise(formula: Formula) -> Formula:
    """A function of arrays that uses operators only; on a GPU it becomes one kernel."""

    @wraps(formula)
    def compute(*arrays: Array) -> Any:
        return formula(*arrays) if isinstance(arrays[0], np.ndarray) else _as_kernel(formula)(*arrays)

    return cast(Formula, compute)


@cache
def _as_kernel(formula: Callable[..., Any]) -> Callable[..., Any]:
    import cupy

    kernel: Callable[..., Any] = cupy.fuse(formula)
    return kernel


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
