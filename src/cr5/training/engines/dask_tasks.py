"""The tasks that Dask workers run: pure functions of shards and arrays.

No task writes into its arguments: another task may need them again.
"""

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from cr5._typing import Array, Ints, Mask, Sparse
from cr5.machine import available_memory
from cr5.training.engines.cpu import CHUNK_ROWS, add_column_sums, add_in_place, inverse_diagonal

if TYPE_CHECKING:
    from cr5.training.engines.kernels import Matrix

ArrayType: TypeAlias = tuple[int, Any]  # columns and dtype

_KERNEL_LOCK = threading.Lock()  # one product at a time, which uses all threads of the worker


def _multiply_on_worker_threads(matrix: "Matrix", V: Array, start: Array | None = None) -> Array:
    """X V, plus ``start`` in every row, on as many cores as the worker has threads."""
    U = np.empty((matrix.X.shape[0], V.shape[1]), V.dtype)
    with _KERNEL_LOCK:
        matrix.multiply(V, U, start)
    return U


class ShardData:
    """A shard: its documents by rows and by columns, and the concepts that occur, in order.

    sums: occurring concepts x documents, one-hot; concept_rows: the row of every document's concept in it.
    """

    def __init__(self, X: Sparse, concepts: Ints) -> None:
        from distributed import get_worker
        from scipy.sparse import csr_array

        from cr5.training.engines.kernels import Matrix, Tuning

        self.concepts = np.asarray(concepts)
        tuning = Tuning(threads=get_worker().state.nthreads)
        self.rows, self.columns = Matrix(X, tuning), Matrix(X.T.tocsr(), tuning)
        self.occurring, self.concept_rows = np.unique(self.concepts, return_inverse=True)
        count, index = len(self.concepts), X.indices.dtype
        order = np.argsort(self.concept_rows, kind="stable")
        indptr = np.searchsorted(self.concepts, self.occurring, sorter=order)
        arrays = np.ones(count, X.dtype), order.astype(index), np.append(indptr, count).astype(index)
        self.sums = Matrix(csr_array(arrays, shape=(len(self.occurring), count)), tuning)

    def __sizeof__(self) -> int:
        arrays = self.concepts, self.occurring, self.concept_rows
        return _nbytes(self.rows.X, self.columns.X, self.sums.X) + sum(array.nbytes for array in arrays)


class SubwordData:
    """The subwords of a language, words x subwords, by rows and by columns."""

    def __init__(self, M: Sparse) -> None:
        from distributed import get_worker

        from cr5.training.engines.kernels import Matrix, Tuning

        tuning = Tuning(threads=get_worker().state.nthreads)
        self.rows, self.columns = Matrix(M, tuning), Matrix(M.T.tocsr(), tuning)

    def __sizeof__(self) -> int:
        return _nbytes(self.rows.X, self.columns.X)


def _nbytes(*matrices: Sparse) -> int:
    return sum(array.nbytes for X in matrices for array in (X.data, X.indices, X.indptr))


def load_shard(load: Callable[..., tuple[Sparse, Ints]], *inputs: Any) -> ShardData:
    return ShardData(*load(*inputs))


def subword_data(M: Sparse | None, words: int) -> SubwordData:
    """M, or one without columns for a language without subwords."""
    from scipy.sparse import csr_array

    return SubwordData(csr_array((words, 0)) if M is None else M)


def select_shard(documents: ShardData, selected: Mask) -> ShardData:
    return ShardData(*select_rows(documents, selected))


def select_rows(documents: ShardData, selected: Mask) -> tuple[Sparse, Ints]:
    rows = np.flatnonzero(selected[documents.concepts])
    return documents.rows.X[rows], documents.concepts[rows]


def describe_shard(documents: ShardData) -> tuple[int, int, int, str, int]:
    """Documents, words, nonzeros, dtype, and the last concept."""
    X = documents.rows.X
    return *X.shape, int(X.nnz), str(X.dtype), int(documents.concepts.max(initial=-1))


def count_occurring(documents: ShardData, bounds: list[int]) -> Ints:
    """How many concepts of every range occur."""
    return np.diff(np.searchsorted(documents.occurring, bounds))


def occurring_concepts(documents: ShardData, begin: int, end: int) -> Ints:
    """The concepts of a range that occur, counted from its beginning."""
    first, last = np.searchsorted(documents.occurring, [begin, end])
    return documents.occurring[first:last] - begin


def concept_numbers(begin: int, end: int) -> Ints:
    return np.arange(begin, end)[:, None]


def identity(value: Any) -> Any:
    return value


def item(parts: Sequence[Any], i: int) -> Any:
    return parts[i]


def slice_rows(rows: Array, begin: int, end: int) -> Array:
    return rows[begin:end]


def multiply(documents: ShardData, V: Array, start: Array | None) -> Array:
    return _multiply_on_worker_threads(documents.rows, V, start)


def multiply_transposed(documents: ShardData, U: Array, before: Array | None) -> Array:
    product = _multiply_on_worker_threads(documents.columns, U)
    return product if before is None else np.add(product, before, out=product)


def column_sums(documents: ShardData, power: int, before: Array | None) -> Array:
    X = documents.rows.X
    total = np.zeros(X.shape[1]) if before is None else before[:, 0].copy()
    add_column_sums(total, X, power)
    return total[:, None]


def fold(subwords: SubwordData, V: Array) -> Array:
    """V + M M'V."""
    if not subwords.rows.X.shape[1]:
        return V
    product = _multiply_on_worker_threads(subwords.rows, _multiply_on_worker_threads(subwords.columns, V))
    return np.add(product, V, out=product)


def inverse_diagonal_of_words(diagonal: Array, subwords: SubwordData | None, ridge: float) -> Array:
    return inverse_diagonal(diagonal, subwords.rows.X if subwords else None, ridge)


def sum_arrays(parts: list[Array]) -> Array:
    if len(parts) == 1:
        return parts[0]
    total = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total


def shard_concept_sums(documents: ShardData, G: Array) -> Array:
    """The sum of G over the documents of every concept that occurs."""
    return _multiply_on_worker_threads(documents.sums, G)


def concept_sums(shape: tuple[int, int, Any], occurring: list[Ints], shards: list[int], parts: list[Array]) -> Array:
    """The sums of a range of concepts, from those of its shards."""
    total = np.zeros(shape[:2], shape[2])
    for shard, part in zip(shards, parts, strict=True):
        total[occurring[shard]] += part
    return total


def take_concepts(S: Array, occurring: list[Ints], shard: int) -> Array:
    """The rows of the concepts that occur in a shard."""
    return S[occurring[shard]]


def document_rows(documents: ShardData, parts: list[Array], array_type: ArrayType) -> Array:
    """A row for every document, from those of the concepts that occur, range by range."""
    if not parts:
        return np.empty((0, array_type[0]), array_type[1])
    return np.concatenate(parts)[documents.concept_rows]


def apply_function(
    call: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]],
    size: int,
    given: dict[str, Array],
    each: list[Any],
    outcome: tuple[list[str], bool],
) -> Any:
    """Call a function on a few rows at a time; returns the arrays that it assigns and the sum of its results.

    Arrays that were sent to this worker are copied where that is necessary, so that the bits do not depend on it.
    """
    (function, first, named), (written, returns) = call, outcome
    first, each = tuple(map(_aligned, first)), list(map(_aligned, each))
    named = {name: _aligned(value) for name, value in named.items()}
    fresh: dict[str, Array] = {}
    total = None
    for begin in range(0, max(size, 1), CHUNK_ROWS):
        rows = slice(begin, begin + CHUNK_ROWS)
        seen = {name: _aligned(array[rows]) for name, array in given.items()}
        result = function(*first, seen, *each, **named)
        total = add_in_place(total, result)
        for name in written:
            if name not in fresh:
                fresh[name] = np.empty((size, seen[name].shape[1]), seen[name].dtype)
            fresh[name][rows] = seen[name]
    parts = [fresh[name] for name in written] + [total] * returns
    return parts[0] if len(parts) == 1 else parts


def _aligned(value: Any) -> Any:
    """The value, copied if it is an array at an address that is not a multiple of its item size.

    In a message an array may begin at any byte. NumPy multiplies such an array in another way, with other last bits.
    """
    return np.require(value, requirements=["ALIGNED"]) if isinstance(value, np.ndarray) else value


def memory_limit(dask_worker: Any) -> int:
    return int(dask_worker.memory_manager.memory_limit or available_memory())
