"""Sparse times dense against SciPy's, bit for bit against itself."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from cr5._typing import Array, Sparse
from cr5.storage.scratch import ScratchArrays
from cr5.training.engines.cpu import transpose
from cr5.training.engines.kernels import Matrix, Tuning, add_row_sums

SHAPES = {
    "square": (40, 40, 0.2),
    "wide": (7, 900, 0.1),
    "tall": (900, 7, 0.3),
    "several blocks": (50, 10_000, 0.02),
    "one column": (50, 1, 0.5),
    "one row": (1, 50, 0.5),
    "dense": (20, 30, 1.0),
    "nothing in it": (20, 30, 0.0),
    "no rows": (0, 12, 0.0),
    "no columns": (12, 0, 0.0),
}
NEVER = 10**12
WAYS = {
    "one thread": Tuning(min_parallel_products=NEVER),
    "rows": Tuning(min_parallel_products=0, reuse=NEVER),
    "panels": Tuning(min_parallel_products=0, reuse=0),
    "panels one by one": Tuning(min_parallel_products=0, reuse=0, panel_bytes=0),
}
KINDS: list[tuple[Any, Any]] = [(np.float32, np.int32), (np.float32, np.int64), (np.float64, np.int32)]


def sparse(shape: str, dtype: Any = np.float32, index: Any = np.int32) -> Sparse:
    """Random, with empty rows and one whose nonzeros are nearly all in one place."""
    rows, columns, density = SHAPES[shape]
    X = random_array((rows, columns), density=density, rng=np.random.default_rng(rows + columns), format="csr")
    X = X.astype(dtype)
    if rows > 2:
        keep = np.ones((rows, columns), dtype)
        keep[[0, rows // 2, -1]] = 0
        keep[1, columns // 3 :] = 0
        X = csr_array(X * keep)
        X.eliminate_zeros()
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    return X


def dense(rows: int, columns: int, dtype: Any = np.float32) -> Array:
    return np.random.default_rng(rows).standard_normal((rows, columns)).astype(dtype)


@pytest.fixture(params=list(WAYS.values()), ids=list(WAYS))
def tuning(request: pytest.FixtureRequest) -> Tuning:
    chosen: Tuning = request.param
    return chosen


@pytest.mark.parametrize(("dtype", "index"), KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_products_equal_those_of_scipy(shape: str, dtype: Any, index: Any, tuning: Tuning) -> None:
    X = sparse(shape, dtype, index)
    close: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-4} if dtype == np.float32 else {"rtol": 1e-12, "atol": 1e-12}
    for width in (0, 1, 5, 16, 31, 32, 33, 50, 64, 65, 110, 150):
        V = dense(X.shape[1], width, dtype)
        found = Matrix(X, tuning) @ V
        assert found.dtype == dtype
        np.testing.assert_allclose(found, X.astype(float) @ V.astype(float), **close)


def test_single_precision_data_multiply_a_double_precision_block_in_double_precision(tuning: Tuning) -> None:
    X, V = sparse("square"), dense(40, 50, np.float64)
    found = Matrix(X, tuning) @ V
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, X.astype(float) @ V, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("layout", ["transposed", "strided", "columns", "backwards", "repeated", "no columns"])
def test_a_block_may_have_any_memory_layout(layout: str, tuning: Tuning) -> None:
    X = sparse("square")
    V = {
        "transposed": dense(70, 40).T,
        "strided": dense(80, 140)[::2, ::2],
        "columns": dense(40, 200)[:, 3:73],
        "backwards": dense(40, 70)[::-1],
        "repeated": np.broadcast_to(dense(1, 70), (40, 70)),
        "no columns": dense(40, 0),
    }[layout]
    np.testing.assert_allclose(Matrix(X, tuning) @ V, X @ V, rtol=1e-4, atol=1e-5)


def test_a_product_may_be_written_into_columns_of_a_wider_array_and_touches_no_others(tuning: Tuning) -> None:
    X, V = sparse("several blocks"), dense(10_000, 200)
    U = np.full((50, 210), np.nan, np.float32)
    Matrix(X, tuning).multiply(V[:, 10:80], U[:, 5:75])
    np.testing.assert_array_equal(U[:, 5:75], Matrix(X, tuning) @ V[:, 10:80])
    assert np.isnan(U[:, :5]).all()
    assert np.isnan(U[:, 75:]).all()


@pytest.mark.parametrize("shape", ["square", "several blocks"])
def test_a_row_may_be_added_to_every_row_of_a_product(shape: str, tuning: Tuning) -> None:
    X = sparse(shape, np.float64)
    for width in (1, 31, 64, 110, 150):
        V, start = dense(X.shape[1], width, np.float64), np.arange(width) + 0.5
        for order in "CF":
            U = np.empty((X.shape[0], width), order=order)  # type: ignore[call-overload]
            Matrix(X, tuning).multiply(V, U, start)
            np.testing.assert_allclose(U, X @ V + start, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_product_may_be_written_into_an_array_of_any_order_and_precision(dtype: Any) -> None:
    X, V, U = sparse("square"), dense(40, 50), np.empty((40, 50), dtype, order="F")
    Matrix(X).multiply(V, U)
    np.testing.assert_array_equal(U, Matrix(X) @ V)


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^a matrix of shape \(40, 40\) does not multiply \(39, 5\) into \(40, 5\)$"):
        _ = Matrix(sparse("square")) @ dense(39, 5)


@pytest.mark.parametrize("shape", ["square", "several blocks"])
@pytest.mark.parametrize(("dtype", "index"), KINDS)
def test_a_column_has_the_same_bits_among_any_others_and_with_any_tuning(shape: str, dtype: Any, index: Any) -> None:
    X = sparse(shape, dtype, index)
    V = dense(X.shape[1], 190, dtype)
    expected = Matrix(X, WAYS["one thread"]) @ V
    for name, tuning in WAYS.items():
        for first, last in [(0, 190), (0, 1), (0, 64), (64, 128), (7, 39), (7, 20), (100, 190), (96, 161)]:
            found = Matrix(X, tuning) @ V[:, first:last]
            np.testing.assert_array_equal(found, expected[:, first:last], err_msg=name)


@pytest.mark.parametrize("way", ["rows", "panels"])
@pytest.mark.parametrize("shape", ["square", "tall", "wide", "several blocks", "one row"])
def test_any_number_of_threads_gives_the_same_bits(shape: str, way: str) -> None:
    X = sparse(shape)
    V, found = dense(X.shape[1], 90), []
    for count in range(1, 5):
        matrix = Matrix(X, replace(WAYS[way], threads=count))
        found += [matrix @ V for _ in range(5)]
    assert all(np.array_equal(found[0], other) for other in found)


def test_the_nonzeros_of_a_row_may_be_in_any_order(tuning: Tuning) -> None:
    X, V = sparse("several blocks"), dense(10_000, 40)
    order = np.concatenate([np.random.default_rng(i).permutation(np.arange(a, b))
                            for i, (a, b) in enumerate(zip(X.indptr[:-1], X.indptr[1:], strict=True))])  # fmt: skip
    mixed = csr_array((X.data[order], X.indices[order], X.indptr), shape=X.shape)
    np.testing.assert_allclose(Matrix(mixed, tuning) @ V, X @ V, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_a_matrix_may_be_mapped_from_read_only_files(tmp_path: Path) -> None:
    X, V = sparse("square"), dense(40, 40)
    for name in ("data", "indices", "indptr"):
        np.save(tmp_path / f"{name}.npy", getattr(X, name))
    data, indices, indptr = (np.load(tmp_path / f"{name}.npy", "r") for name in ("data", "indices", "indptr"))
    mapped = csr_array((data, indices, indptr), shape=X.shape, copy=False)
    assert not mapped.data.flags.writeable
    np.testing.assert_array_equal(Matrix(mapped, WAYS["panels"]) @ V, Matrix(X, WAYS["panels"]) @ V)


@pytest.mark.parametrize("parts", [1, 2, 7, 64])
def test_parts_cover_every_row_once_however_unequal_the_rows_are(parts: int) -> None:
    lengths = np.array([0, 0, 500, 0, 1, 0, 3, 499, 0])
    X = csr_array((np.ones(lengths.sum(), np.float32), np.tile(np.arange(500), 3)[: lengths.sum()],
                   np.concatenate([[0], np.cumsum(lengths)])), shape=(9, 500))  # fmt: skip
    matrix = Matrix(X, replace(WAYS["panels"], parts_per_thread=parts))
    np.testing.assert_array_equal(matrix @ np.ones((500, 40), np.float32), np.repeat(lengths[:, None], 40, axis=1))
    assert (matrix.starts[0], matrix.starts[-1]) == (0, 9)
    assert (np.diff(matrix.starts) >= 0).all()


def test_the_pieces_of_rows_cover_every_nonzero_once() -> None:
    X = sparse("several blocks")
    matrix = Matrix(X, WAYS["panels"])
    _ = matrix @ dense(10_000, 64)
    _, rows, begins, ends = matrix.pieces
    assert len(rows) > X.shape[0]
    order = np.argsort(begins, kind="stable")
    nonempty = order[begins[order] < ends[order]]
    np.testing.assert_array_equal(np.concatenate([np.arange(begins[i], ends[i]) for i in nonempty]), np.arange(X.nnz))
    assert set(rows.tolist()) == set(range(X.shape[0]))


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_transpose_is_the_same_on_any_number_of_threads(shape: str, threads: int) -> None:
    X = sparse(shape)
    found, expected = transpose(X, ScratchArrays(), threads), csr_array(X.T)
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
        assert getattr(found, name).dtype == getattr(X, name).dtype


@pytest.mark.parametrize("power", [1, 2])
def test_sums_of_rows_are_added_to_in_double_precision(power: int) -> None:
    X, total = sparse("dense"), np.arange(20.0)
    add_row_sums(X.indptr, X.data, power, total)
    rows = enumerate(np.split(X.data, X.indptr[1:-1]))
    np.testing.assert_array_equal(total, [sum((float(a) ** power for a in row), float(i)) for i, row in rows])
