"""Dense products against NumPy's operators, bit for bit against themselves."""

from typing import Any

import numpy as np
import pytest

from cr5._typing import Array
from cr5.training.engines.dense import combination, inner_products, product

SHAPES = [(1, 1, 1), (7, 5, 3), (6, 64, 64), (13, 70, 65), (700, 129, 33), (5, 0, 3), (0, 4, 3), (4, 3, 0)]
ERRORS = {"float32": 1e-5, "float64": 1e-13}


def normal(rows: int, columns: int, dtype: Any = np.float64, seed: int = 0) -> Array:
    return np.random.default_rng([seed, rows, columns]).standard_normal((rows, columns)).astype(dtype)


def assert_product(found: Array, A: Array, B: Array, dtype: str) -> None:
    """It has the dtype, and the errors of its elements are small beside the lengths of row and column."""
    expected = A.astype("float64") @ B.astype("float64")
    lengths = np.outer(np.linalg.norm(A, axis=1), np.linalg.norm(B, axis=0))
    assert found.dtype == dtype
    assert found.shape == expected.shape
    assert np.all(abs(found - expected) <= ERRORS[dtype] * lengths)


@pytest.mark.parametrize("dtype", ERRORS)
@pytest.mark.parametrize(("rows", "inner", "columns"), SHAPES)
def test_products_are_those_of_the_operators(rows: int, inner: int, columns: int, dtype: str) -> None:
    A, B, C = normal(rows, inner, dtype), normal(inner, columns, dtype), normal(rows, columns, dtype)
    assert_product(product(A, B), A, B, dtype)
    assert_product(inner_products(A, C), A.T, C, dtype)
    assert_product(inner_products(A, A), A.T, A, dtype)
    assert_product(combination([(A, B), (C, C.T @ C)]), np.hstack([A, C]), np.vstack([B, C.T @ C]), dtype)


@pytest.mark.parametrize("dtype", ERRORS)
def test_any_part_of_an_array_is_multiplied_and_none_is_changed(dtype: str) -> None:
    A, B = normal(40, 30, dtype), normal(30, 80, dtype)
    before = A.copy(), B.copy()
    A.flags.writeable = False
    for of_A in (A[:, 3:17], A[5:, ::2], A[::-1], np.asfortranarray(A), A[3:4]):
        for of_B in (B[: of_A.shape[1], 1:], B[::-1][: of_A.shape[1]], np.asfortranarray(B[: of_A.shape[1]])):
            assert_product(product(of_A, of_B), of_A, of_B, dtype)
        assert_product(inner_products(of_A, of_A), of_A.T, of_A, dtype)
        assert_product(inner_products(of_A, normal(len(of_A), 66, dtype)), of_A.T, normal(len(of_A), 66, dtype), dtype)
    assert np.array_equal(A, before[0])
    assert np.array_equal(B, before[1])


def test_a_product_of_two_dtypes_has_the_wider_one() -> None:
    A, B = normal(9, 5, "float32"), normal(5, 4)
    assert_product(product(A, B), A, B, "float64")
    assert_product(inner_products(A, normal(9, 3)), A.T, normal(9, 3), "float64")


def test_an_element_does_not_depend_on_the_other_rows_and_columns() -> None:
    A, B, C = normal(500, 300, "float32"), normal(300, 130, "float32"), normal(500, 130, "float32")
    whole = product(A, B)
    assert np.array_equal(product(A[17:24], B[:, 60:71]), whole[17:24, 60:71])
    assert np.array_equal(inner_products(A[:, 7:8], C[:, 60:]), inner_products(A, C)[7:8, 60:])


def test_the_inner_products_of_an_array_with_itself_are_symmetric() -> None:
    A = normal(300, 150, "float32")
    found = inner_products(A, A)
    assert np.array_equal(found, found.T)
    assert np.array_equal(np.triu(found), np.triu(inner_products(A, A.copy())))


def test_arrays_of_other_libraries_are_multiplied_by_their_operators() -> None:
    class Foreign:
        def __init__(self, name: str) -> None:
            self.name = name

        @property
        def T(self) -> "Foreign":
            return Foreign(f"{self.name}'")

        def __matmul__(self, other: "Foreign") -> "Foreign":
            return Foreign(f"({self.name} {other.name})")

        def __add__(self, other: "Foreign") -> "Foreign":
            return Foreign(f"{self.name} + {other.name}")

    A, B, C, D = (Foreign(name) for name in "ABCD")
    given: Any = [(A, B), (C, D)]
    found: Any = combination(given)
    inner: Any = inner_products(given[0][0], given[0][1])
    assert (found.name, inner.name) == ("(A B) + (C D)", "(A' B)")
