"""Sparse rows against SciPy and dense arrays."""

import numpy as np
import pytest
from scipy.sparse import csr_array, hstack

from cr5._typing import Array, Sparse
from cr5.retrieval.block_products import multiply_chosen
from cr5.retrieval.kernels import sparse_products
from cr5.retrieval.sparse_rows import arrays_of, hstack_rows, multiply_matrices

# Columns that differ by powers of two collide in a table whose size is one.
WIDTHS = [1, 7, 300, 2**20]


def sparse(rows: int, width: int, nonzeros: int, seed: int) -> Sparse:
    """Random rows, every third of them empty, with unsorted and repeated columns that are mostly multiples of 64."""
    random = np.random.default_rng(seed)
    sizes = np.where(np.arange(rows) % 3 == 1, 0, nonzeros)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    columns = random.integers(0, width, offsets[-1])
    columns = np.where(random.random(len(columns)) < 0.7, columns // 64 * 64, columns)
    return csr_array((random.standard_normal(offsets[-1]).astype(np.float32), columns, offsets), shape=(rows, width))


def by_definition(queries: Sparse, candidates: Sparse, chosen: Array) -> Array:
    products = (queries.astype(float) @ candidates.astype(float).T).toarray()
    return np.asarray(np.take_along_axis(products, chosen, axis=1))


@pytest.mark.parametrize("width", WIDTHS)
def test_products_with_chosen_rows_are_those_of_the_matrices(width: int) -> None:
    queries, candidates = sparse(5, width, 40, 0), sparse(50, width, 60, 1)
    chosen = np.random.default_rng(2).integers(0, 50, (5, 20))  # with repetitions, in any order
    expected = by_definition(queries, candidates, chosen)
    np.testing.assert_allclose(multiply_chosen(queries, candidates, chosen), expected, atol=1e-4)
    dense = queries.toarray() if width < 1000 else None
    if dense is not None:
        np.testing.assert_allclose(multiply_chosen(dense, candidates.toarray(), chosen), expected, atol=1e-4)


@pytest.mark.parametrize("chosen", [50, 1000, -1])
@pytest.mark.parametrize("is_sparse", [True, False])
def test_a_row_that_does_not_exist_cannot_be_chosen(chosen: int, is_sparse: bool) -> None:
    queries, candidates = sparse(2, 300, 40, 0), sparse(50, 300, 60, 1)
    pair = (queries, candidates) if is_sparse else (queries.toarray(), candidates.toarray())
    with pytest.raises(IndexError, match=f"{chosen}.* there are 50"):
        multiply_chosen(*pair, np.array([[0, 1], [2, chosen]]))


def test_products_of_one_row_need_nothing_but_arrays() -> None:
    columns, values = arrays_of(sparse(1, 300, 40, 0))[1:]
    matrix = arrays_of(sparse(50, 300, 60, 1))
    chosen = np.array([7, 7, 1, 49])
    found = sparse_products(columns, values, *matrix, chosen)
    assert found.dtype == np.float32
    np.testing.assert_allclose(
        found, by_definition(sparse(1, 300, 40, 0), sparse(50, 300, 60, 1), chosen[None])[0], atol=1e-4
    )
    assert found[2] == 0  # an empty row
    assert not sparse_products(columns[:0], values[:0], *matrix, chosen).any()
    assert len(sparse_products(columns, values, *matrix, chosen[:0])) == 0


@pytest.mark.parametrize("width", WIDTHS)
def test_the_product_of_sparse_matrices_has_each_column_of_a_row_once(width: int) -> None:
    left, right = sparse(40, 30, 9, 0), sparse(30, width, 50, 1)
    found = multiply_matrices(left, right)
    assert abs(found - left @ right).max() < 1e-4
    assert all(np.shares_memory(*pair) for pair in zip(arrays_of(found)[1:], (found.indices, found.data), strict=True))
    rows = np.repeat(np.arange(40), np.diff(found.indptr))
    assert len(set(zip(rows.tolist(), found.indices.tolist(), strict=True))) == found.nnz
    assert multiply_matrices(left[:0], right).shape == (0, width)
    assert multiply_matrices(left, csr_array((30, width), dtype=np.float32)).nnz == 0


def test_matrices_that_do_not_fit_are_not_multiplied() -> None:
    with pytest.raises(ValueError, match=r"\(4, 30\) and \(29, 7\)"):
        multiply_matrices(sparse(4, 30, 9, 0), sparse(29, 7, 5, 1))


def test_stacked_rows_are_those_of_a_wider_matrix() -> None:
    first, second = sparse(40, 30, 9, 0), sparse(40, 70, 4, 1)
    np.testing.assert_array_equal(hstack_rows(first, second).toarray(), hstack([first, second]).toarray())
    assert hstack_rows(first[:0], second[:0]).shape == (0, 100)
