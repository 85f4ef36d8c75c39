"""The engine of one GPU: over NumPy where there is none, and against the other engine where there is one."""

import sys
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from gpu_stand_in import SMALL, OutOfMemoryError, stand_in
from oracle import dense_maps, with_subwords
from problems import problem, random_subwords
from scipy.sparse import csr_array, random_array

from cr5._typing import Array, Sparse
from cr5.errors import Cr5Error
from cr5.training.engines import Engine
from cr5.training.engines.cpu import CpuEngine
from cr5.training.engines.gpu import GpuEngine
from cr5.training.engines.gpu_device import GpuSizes
from cr5.training.engines.gpu_matrix import Pieces, cut_into_pieces
from cr5.training.solver import reduced_rank_ridge


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = stand_in()
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


def has_gpu() -> bool:
    """Whether there is a GPU."""
    try:
        import cupy

        return bool(cupy.cuda.runtime.getDeviceCount())
    except Exception:  # not installed, no driver, no GPU: each raises an error of its own
        return False


on_a_gpu = pytest.mark.skipif(not has_gpu(), reason="needs CuPy and an NVIDIA GPU")


# The message where there is no GPU.


def test_a_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(Cr5Error) as raised:
        GpuEngine()
    assert str(raised.value) == "the gpu engine needs CuPy; install it with pip install 'cr5[gpu]'"


def test_a_broken_cupy_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> ModuleType:
        raise ImportError("failed to import\nlibcuda.so.1: cannot open shared object file")

    monkeypatch.setattr("importlib.import_module", broken)
    with pytest.raises(Cr5Error) as raised:
        GpuEngine()
    assert "cannot load CuPy (libcuda.so.1: cannot open shared object file)" in str(raised.value)
    assert '`engine="cpu"`' in str(raised.value)


def test_a_missing_gpu_is_named_with_the_error_of_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    failure = "cudaErrorNoDevice: no CUDA-capable device is detected"
    monkeypatch.setitem(sys.modules, "cupy", stand_in(failure=failure))
    with pytest.raises(Cr5Error) as raised:
        GpuEngine()
    assert "no working NVIDIA GPU (cudaErrorNoDevice: no CUDA-capable device is detected)" in str(raised.value)


def test_a_fit_that_the_gpu_cannot_hold_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", stand_in(free=8 * 10**9))
    engine = GpuEngine()
    engine.check_memory(8 * 10**9)
    with pytest.raises(Cr5Error) as raised:
        engine.check_memory(12 * 10**9)
    for fact in ("12.0 GB", "8.0 GB", "Stand-in 1000", "`rank`"):
        assert fact in str(raised.value)


def test_documents_on_the_gpu_count_as_memory_that_the_fit_has(cupy: Any) -> None:
    engine = filled(GpuEngine(sizes=SMALL), has_subwords=True)
    cupy.cuda.runtime.memGetInfo = lambda: (0, 0)
    held = sum(block.nbytes for block in engine.blocks)  # type: ignore[attr-defined]
    held += sum(M.nbytes for M in engine.subword_matrices if M)  # type: ignore[attr-defined]
    engine.check_memory(held)
    with pytest.raises(Cr5Error, match="lower `rank`"):
        engine.check_memory(held + 1)


def test_running_out_of_memory_during_a_fit_is_reported_in_one_sentence(cupy: Any) -> None:
    engine = filled(GpuEngine(sizes=SMALL))

    def greedy(rows: Any) -> None:
        raise OutOfMemoryError("out of memory allocating 5 bytes")

    with pytest.raises(Cr5Error) as raised:
        engine.words.map(greedy)
    assert str(raised.value) == (
        "the Stand-in 1000 ran out of memory with 3.0 GB in use (out of memory allocating 5 bytes); "
        'use `engine="cpu"`, or lower `rank`'
    )


# Everything but CUDA, over NumPy.

SHAPES = {
    "square": (40, 40, 0.2),
    "wide": (7, 900, 0.1),
    "tall": (900, 7, 0.3),
    "one column": (50, 1, 0.5),
    "one row": (1, 50, 0.5),
    "dense": (40, 60, 1.0),
    "nothing in it": (20, 30, 0.0),
    "no rows": (0, 12, 0.0),
}


def sparse(shape: str, dtype: Any = np.float64) -> Sparse:
    """Random, with empty rows and columns."""
    rows, columns, density = SHAPES[shape]
    X = random_array((rows, columns), density=density, rng=np.random.default_rng(rows), format="csr").toarray()
    X[rows // 2 :: 17] = 0
    X[:, columns // 2 :: 19] = 0
    return csr_array(X.astype(dtype))


def filled(engine: Any, dtype: Any = np.float64, has_subwords: bool = False) -> Engine:
    """Three languages; with subwords, the second still has none."""
    blocks = {lang: sparse(shape, dtype) for lang, shape in (("a", "square"), ("b", "tall"), ("c", "dense"))}
    subwords = random_subwords(blocks) if has_subwords else {}
    for lang, X in blocks.items():
        concepts = np.random.default_rng(X.shape[0]).integers(0, 30, X.shape[0])
        engine.put(lang, X, concepts, subwords.get(lang))
    return engine  # type: ignore[no-any-return]


def dense(rows: int, columns: int, dtype: Any = np.float64) -> Array:
    return np.random.default_rng(rows).standard_normal((rows, columns)).astype(dtype)


def everything(engine: Engine, width: int) -> list[Array]:
    """All that an engine computes, product by product."""
    dtype = engine.block_info()[0].dtype
    engine.words.set("V", [dense(facts.words, width, dtype) for facts in engine.block_info()])
    engine.fold("V", "F")
    engine.multiply("F", "V")
    found = engine.documents.get("V")
    engine.concept_sums("V")
    found += engine.concepts.get("V") + engine.concepts.get("id")
    engine.broadcast_concepts("V", "U")
    found += engine.documents.get("U")
    engine.multiply_transposed("U", "W")
    engine.column_sums("sum", 1)
    engine.column_sums("squares", 2)
    engine.inverse_diagonal("squares", "spread", 1.0)
    return found + [array for name in ("F", "W", "sum", "squares", "spread") for array in engine.words.get(name)]


def cut(X: Sparse, indices: Any) -> Pieces:
    return cut_into_pieces(X.indptr.astype(np.int64), indices, X.shape[1], sys.modules["cupy"], SMALL)


@pytest.mark.usefixtures("cupy")
@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_pieces_cover_every_nonzero_once_and_tasks_every_piece(shape: str, in_order: bool) -> None:
    X = sparse(shape)
    pieces = cut(X, X.indices if in_order else None)
    here = [np.arange(b, b + n) for b, n in zip(pieces.begins, pieces.lengths, strict=True)]
    np.testing.assert_array_equal(np.sort(np.concatenate([[], *here])), np.arange(X.nnz))
    assert (pieces.lengths > 0).all()
    assert (pieces.lengths <= SMALL.max_piece).all()
    if len(pieces.lengths):
        assert (pieces.tasks[0], pieces.tasks[-1]) == (0, len(pieces.lengths))
        assert (np.diff(pieces.tasks) > 0).all()


@pytest.mark.usefixtures("cupy")
def test_a_dense_matrix_is_cut_by_ranges_and_a_long_row_evenly() -> None:
    X = sparse("dense")
    ordered, unordered = (cut(X, indices) for indices in (X.indices, None))

    def ranges(pieces: Any) -> int:
        """The most ranges that a task has to do with."""
        places = np.concatenate([np.arange(b, b + n) for b, n in zip(pieces.begins, pieces.lengths, strict=True)])
        ends = np.cumsum(pieces.lengths)[pieces.tasks[1:-1] - 1]
        return max(len(np.unique(task // SMALL.range_rows)) for task in np.split(X.indices[places], ends))

    assert ranges(ordered) == 1
    assert ranges(unordered) > 1
    assert len(ordered.cut) == len(unordered.cut) == np.count_nonzero(np.diff(X.indptr))


@pytest.mark.usefixtures("cupy")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [1, 3, 8])
@pytest.mark.parametrize("has_subwords", [False, True])
def test_all_products_equal_those_of_the_other_engine(width: int, dtype: Any, has_subwords: bool) -> None:
    both = (everything(filled(engine, dtype, has_subwords), width) for engine in (GpuEngine(sizes=SMALL), CpuEngine()))
    close: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-3} if dtype == np.float32 else {"rtol": 1e-12, "atol": 1e-11}
    for found, expected in zip(*both, strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, **close)


@pytest.mark.usefixtures("cupy")
@pytest.mark.parametrize("shape", SHAPES)
def test_a_matrix_of_any_shape_can_be_put(shape: str) -> None:
    found: list[list[Array]] = []
    for engine in (GpuEngine(sizes=SMALL), CpuEngine()):
        X = sparse(shape)
        engine.put("a", X, np.arange(X.shape[0]) // 2)
        assert engine.block_info()[0][1:4] == (*X.shape, X.nnz)
        found.append(everything(engine, 5) if X.shape[0] else [])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.usefixtures("cupy")
@pytest.mark.parametrize("has_subwords", [False, True])
def test_a_subset_has_the_documents_of_some_concepts_and_shares_the_partitions(has_subwords: bool) -> None:
    kept = np.arange(30) % 3 > 0
    parts = []
    for engine in (filled(e, has_subwords=has_subwords) for e in (GpuEngine(sizes=SMALL), CpuEngine())):
        part = engine.subset(kept)
        assert part.words is engine.words
        assert part.concepts is engine.concepts
        assert part.block_info() != engine.block_info()
        parts.append((part.block_info(), everything(part, 4)))
    assert parts[0][0] == parts[1][0]
    for found, expected in zip(parts[0][1], parts[1][1], strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-11)


@pytest.mark.usefixtures("cupy")
@pytest.mark.parametrize("kept", [np.arange(30) % 3 > 0, np.zeros(30, bool)], ids=["some", "none"])
def test_fetched_documents_are_those_that_were_put(kept: Any) -> None:
    (blocks, numbers), (others, other_numbers) = (
        filled(e).fetch_documents(kept) for e in (GpuEngine(sizes=SMALL), CpuEngine())
    )
    for lang, X in others.items():
        np.testing.assert_array_equal(blocks[lang].toarray(), X.toarray())
        np.testing.assert_array_equal(numbers[lang], other_numbers[lang])
        assert isinstance(blocks[lang], csr_array)


@pytest.mark.usefixtures("cupy")
def test_small_arrays_are_computed_with_on_the_gpu_and_come_back() -> None:
    A = np.diag([2.0, 1.0])
    values, vectors = GpuEngine(sizes=SMALL).compute(lambda A, B: tuple(np.linalg.eigh(A + B)), A, A)
    np.testing.assert_allclose(values, [2, 4])
    assert vectors.dtype == np.float64


def _scale(rows: Any, each: Any, factor: Any, name: str) -> Any:
    rows["new"] = rows.pop("V") * factor + each
    rows["id"] = rows["id"] + 0
    return rows["new"].sum(axis=0)


@pytest.mark.parametrize("chunk", [7, 1000])
def test_map_sends_arrays_stores_assigned_ones_and_adds_up_results(cupy: Any, chunk: int) -> None:
    sent: list[Any] = []

    def send(array: Any, **options: Any) -> Any:
        sent.append(array)
        return np.asarray(array, **options)

    cupy.asarray = send
    engine = filled(GpuEngine(sizes=replace(SMALL, chunk_rows=chunk)))
    V = dense(30, 4)
    engine.concepts.set("V", [V])
    sent.clear()
    factor, each = np.arange(4.0), np.array(1.5)
    [total] = engine.concepts.map(partial(_scale, factor=factor, name="V"), [each])
    assert sent[0] is factor
    assert sent[1] is each
    assert len(sent) == 2
    np.testing.assert_allclose(total, (V * factor + each).sum(axis=0))
    np.testing.assert_array_equal(engine.concepts.get("new")[0], V * factor + each)
    assert set(engine.concepts.arrays[0]) == {"id", "new"}  # type: ignore[attr-defined]


@pytest.mark.usefixtures("cupy")
def test_bound_arguments_that_are_not_arrays_reach_the_function_unchanged() -> None:
    def say(rows: Any, first: str, second: int, third: Any) -> Any:
        return np.array([len(first), second, third is None])

    engine = filled(GpuEngine(sizes=SMALL))
    [found] = engine.concepts.map(partial(partial(say, third=None), second=3), ["abc"])
    assert found.dtype == np.float64
    assert set(found / found[0]) == {1, 1 / 3}


@pytest.mark.slow
@pytest.mark.usefixtures("cupy")
@pytest.mark.parametrize("intercept", ["language", "shared"])
@pytest.mark.parametrize("has_subwords", [False, True])
def test_the_solver_finds_the_dense_solution(intercept: Any, has_subwords: bool) -> None:
    check(intercept, SMALL, has_subwords)


# The same on a real GPU.


def check(intercept: Any, sizes: GpuSizes, has_subwords: bool) -> None:
    blocks, labels = problem(3, 90, 60, 50)
    subwords = random_subwords(blocks) if has_subwords else {}
    same: dict[str, Any] = {"rank": 6, "ridge": 1.0, "intercept": intercept}
    engine = GpuEngine(sizes=sizes)
    fit = reduced_rank_ridge(blocks, labels, subwords, engine=engine, tol=1e-7, max_steps=300, **same)
    _, eigenvalues = dense_maps(with_subwords(blocks, subwords), labels, **same)
    assert fit.converged
    np.testing.assert_allclose(fit.eigenvalues, eigenvalues, rtol=1e-6)


@on_a_gpu
@pytest.mark.parametrize("intercept", ["language", "shared"])
@pytest.mark.parametrize("has_subwords", [False, True])
def test_the_solver_finds_the_dense_solution_on_a_gpu(intercept: Any, has_subwords: bool) -> None:
    check(intercept, GpuSizes(), has_subwords)


@on_a_gpu
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [1, 3, 30, 320, 350])
@pytest.mark.parametrize("sizes", [SMALL, GpuSizes()], ids=["small", "default"])
@pytest.mark.parametrize("has_subwords", [False, True])
def test_all_products_on_a_gpu_equal_those_of_the_other_engine(
    width: int, dtype: Any, sizes: GpuSizes, has_subwords: bool
) -> None:
    both = (everything(filled(engine, dtype, has_subwords), width) for engine in (GpuEngine(sizes=sizes), CpuEngine()))
    close: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-3} if dtype == np.float32 else {"rtol": 1e-12, "atol": 1e-11}
    for found, expected in zip(*both, strict=True):
        np.testing.assert_allclose(found, expected, **close)


@on_a_gpu
def test_a_second_run_on_a_gpu_gives_the_same_bits() -> None:
    first, second = (everything(filled(GpuEngine(), np.float32, has_subwords=True), 350) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


@on_a_gpu
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("has_subwords", [False, True])
def test_eigenvalues_on_a_gpu_are_those_of_the_other_engine(dtype: Any, has_subwords: bool) -> None:
    blocks, labels = problem(3, 400, 300, 200, dtype=dtype)
    subwords = random_subwords(blocks) if has_subwords else {}
    options: dict[str, Any] = {"rank": 30, "ridge": 1.0, "tol": 1e-3}
    found = reduced_rank_ridge(blocks, labels, subwords, engine=GpuEngine(), **options)
    expected = reduced_rank_ridge(blocks, labels, subwords, **options)
    np.testing.assert_allclose(found.eigenvalues, expected.eigenvalues, rtol=1e-4)


@on_a_gpu
def test_nan_is_not_hidden_by_rounding() -> None:
    device = GpuEngine().device
    values = device.cupy.asarray(np.array([1 + 2**-9, -np.inf, np.nan], np.float32))
    values.view(np.uint32)[2] = 0x7FFFFFFF  # what the operations of a GPU give
    device.round(values)
    np.testing.assert_array_equal(values.get(), [1, -np.inf, np.nan])
