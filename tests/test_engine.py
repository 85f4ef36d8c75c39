"""Every product of an engine against SciPy's."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

import cr5.engine
from cr5._typing import Array, Sparse
from cr5.engine import available_cores, available_memory, cpu
from cr5.engine.cpu import CpuEngine, Matrix

SHAPES = {
    "square": (40, 40, 0.2),
    "wide": (7, 900, 0.1),
    "tall": (900, 7, 0.3),
    "one column": (50, 1, 0.5),
    "one row": (1, 50, 0.5),
    "dense": (20, 30, 1.0),
    "nothing in it": (20, 30, 0.0),
    "no rows": (0, 12, 0.0),
    "no columns": (12, 0, 0.0),
}
ABOVE, BELOW = 0, 10**12  # thresholds that any product is above or below


def sparse(shape: str, dtype: Any = np.float32, index: Any = np.int32) -> Sparse:
    """Random, with empty rows and rows of every length modulo 4."""
    rows, columns, density = SHAPES[shape]
    X = random_array((rows, columns), density=density, rng=np.random.default_rng(rows + columns), format="csr")
    X = X.astype(dtype)
    if rows > 2:
        keep = np.ones(rows)
        keep[[0, rows // 2, -1]] = 0
        X = csr_array(X * keep[:, None].astype(dtype))
        X.eliminate_zeros()
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    return X


def dense(rows: int, columns: int, dtype: Any = np.float32) -> Array:
    return np.random.default_rng(rows).standard_normal((rows, columns)).astype(dtype)


def engine(X: Sparse, concept_count: int = 9) -> CpuEngine:
    result = CpuEngine()
    result.put(X, np.random.default_rng(0).integers(0, concept_count, X.shape[0]), concept_count)
    return result


@pytest.fixture(params=[ABOVE, BELOW], ids=["many threads", "one thread"])
def threshold(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "_SMALL", request.param)


@pytest.fixture
def threads() -> Iterator[None]:
    before = numba.get_num_threads()
    yield
    numba.set_num_threads(before)


@pytest.mark.usefixtures("threshold")
@pytest.mark.parametrize("width", [1, 5, 64])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_products_equal_those_of_scipy(shape: str, dtype: Any, index: Any, width: int) -> None:
    X = sparse(shape, dtype, index)
    V, U = dense(X.shape[1], width, dtype), dense(X.shape[0], width, dtype)
    [block] = engine(X).blocks
    close: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-4} if dtype == np.float32 else {"rtol": 1e-12, "atol": 1e-12}
    for found, expected in (
        (block.times(V), X.astype(float) @ V.astype(float)),
        (block.transposed_times(U), X.T.astype(float) @ U.astype(float)),
    ):
        assert found.dtype == dtype
        np.testing.assert_allclose(found, expected, **close)


@pytest.mark.usefixtures("threshold")
def test_single_precision_data_multiply_a_double_precision_block_in_double_precision() -> None:
    X = sparse("square")
    ones = np.ones((X.shape[0], 1))
    [block] = engine(X).blocks
    assert block.transposed_times(ones).dtype == np.float64
    np.testing.assert_allclose(block.transposed_times(ones)[:, 0], X.astype(float).sum(axis=0), rtol=1e-12)


@pytest.mark.usefixtures("threshold")
@pytest.mark.parametrize("layout", ["transposed", "strided", "no columns"])
def test_a_block_may_lie_in_memory_as_it_likes(layout: str) -> None:
    X = sparse("square")
    V = {"transposed": dense(6, 40).T, "strided": dense(80, 12)[::2, ::2], "no columns": dense(40, 0)}[layout]
    np.testing.assert_allclose(Matrix(X) @ V, X @ V, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("threshold")
@pytest.mark.parametrize("shape", ["square", "tall", "no rows"])
def test_concept_sums_add_up_the_documents_of_a_concept(shape: str) -> None:
    X = sparse(shape)
    [block] = engine(X).blocks
    U = dense(X.shape[0], 5)
    expected = np.zeros((9, 5))
    np.add.at(expected, block.concepts, U)
    np.testing.assert_allclose(block.concept_sums(U), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", SHAPES)
def test_column_squares_are_the_diagonal_of_the_gram_matrix(shape: str) -> None:
    X = sparse(shape)
    [block] = engine(X).blocks
    np.testing.assert_allclose(block.column_squares(), (X.toarray().astype(float) ** 2).sum(axis=0), rtol=1e-6)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("shape", ["square", "tall", "wide", "one row"])
def test_any_number_of_threads_gives_the_same_bits(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "_SMALL", ABOVE)
    X = sparse(shape)
    matrix, V = Matrix(X), dense(X.shape[1], 16)
    found = []
    for count in [*range(1, numba.config.NUMBA_NUM_THREADS + 1), 1]:
        numba.set_num_threads(count)
        found.append(matrix @ V)  # the same matrix: it has to notice that the threads have changed
    assert all(np.array_equal(found[0], other) for other in found)


@pytest.mark.parametrize("tasks", [1, 2, 7, 64])
def test_tasks_cover_every_row_once_however_unequal_the_rows_are(tasks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "_SMALL", ABOVE)
    monkeypatch.setattr(cpu, "_TASKS_PER_THREAD", tasks)
    lengths = np.array([0, 0, 500, 0, 1, 0, 3, 499, 0])
    X = csr_array((np.ones(lengths.sum(), np.float32), np.tile(np.arange(500), 3)[: lengths.sum()],
                   np.concatenate([[0], np.cumsum(lengths)])), shape=(9, 500))  # fmt: skip
    matrix = Matrix(X)
    np.testing.assert_allclose((matrix @ np.ones((500, 1), np.float32))[:, 0], lengths)
    assert (matrix.starts[0], matrix.starts[-1]) == (0, 9)
    assert (np.diff(matrix.starts) >= 0).all()


def test_map_calls_a_function_next_to_every_block_in_the_order_of_put() -> None:
    both = engine(sparse("square"))
    both.put(sparse("tall"), np.zeros(900, int), 9)
    assert both.map(lambda block, name: (name, block.shape), ["a", "b"]) == [("a", (40, 40)), ("b", (900, 7))]
    both.map(lambda block: block.store.update(kept=np.zeros(1)))
    assert all("kept" in store for store in both.map(lambda block: block.store))


def test_this_machine_has_memory_free() -> None:
    assert available_memory() > 0
    assert available_cores() >= 1


GB = 2**30
MEMINFO = {"/proc/meminfo": f"MemTotal: {64 * GB // 1024} kB\nMemAvailable: {32 * GB // 1024} kB\n"}
CACHE = {"/sys/fs/cgroup/memory.stat": f"anon {2 * GB}\ninactive_file {3 * GB}\n"}
CONTAINER = {"/sys/fs/cgroup/memory.max": f"{8 * GB}\n", "/sys/fs/cgroup/memory.current": f"{5 * GB}\n"} | CACHE
UNLIMITED = CONTAINER | {"/sys/fs/cgroup/memory.max": "max\n"}


@pytest.mark.parametrize(
    ("files", "free"),
    [
        (MEMINFO, 32 * GB),
        (MEMINFO | UNLIMITED, 32 * GB),
        (MEMINFO | CONTAINER, 6 * GB),  # what files left in the cache makes way
        ({}, None),
    ],
    ids=["machine", "unlimited container", "container", "neither says"],
)
def test_free_memory_is_what_the_machine_and_its_container_both_allow(
    files: dict[str, str], free: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Files:
        def __init__(self, name: str) -> None:
            self.name = name

        def read_text(self) -> str:
            if self.name not in files:
                raise FileNotFoundError(self.name)
            return files[self.name]

    monkeypatch.setattr(cr5.engine, "Path", Files)
    assert available_memory() == free if free is not None else available_memory() > 0


def test_nothing_outside_the_engine_folder_names_a_device() -> None:
    source = Path(cr5.engine.__file__).parent.parent
    for path in source.rglob("*.py"):
        if path.parent.name != "engine":
            assert "numba" not in path.read_text().replace('"numba"', ""), path
