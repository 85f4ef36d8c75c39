"""The engine of one machine: blocks in memory, compiled kernels on all cores."""

from collections.abc import Callable, Sequence
from typing import Any

import numba
import numpy as np
from scipy.sparse import csr_array

from cr5._typing import Array, Ints, Sparse

_TASKS_PER_THREAD = 16
_SMALL = 1_000_000  # multiplications that are over before a second thread has woken up


@numba.njit(fastmath=True, cache=True)  # type: ignore[untyped-decorator]
def _multiply_rows(first: int, last: int, indptr: Ints, indices: Ints, data: Array, V: Array, U: Array) -> None:
    """Rows first to last of U = X V, four nonzeros at once so that a row of U is passed over less often."""
    width = V.shape[1]
    for i in range(first, last):
        row = U[i]
        row[:] = 0
        begin, end = indptr[i], indptr[i + 1]
        bulk = begin + (end - begin) // 4 * 4
        for k in range(begin, bulk, 4):
            a, b, c, d = data[k], data[k + 1], data[k + 2], data[k + 3]
            Va, Vb, Vc, Vd = V[indices[k]], V[indices[k + 1]], V[indices[k + 2]], V[indices[k + 3]]
            for j in range(width):
                row[j] += a * Va[j] + b * Vb[j] + c * Vc[j] + d * Vd[j]
        for k in range(bulk, end):
            a = data[k]
            Va = V[indices[k]]
            for j in range(width):
                row[j] += a * Va[j]


@numba.njit(parallel=True, fastmath=True, cache=True)  # type: ignore[untyped-decorator]
def _multiply(starts: Ints, indptr: Ints, indices: Ints, data: Array, V: Array, U: Array) -> None:
    """U = X V, task by task: task t is the rows from starts[t] to starts[t + 1]."""
    for task in numba.prange(len(starts) - 1):
        _multiply_rows(starts[task], starts[task + 1], indptr, indices, data, V, U)


class Matrix:
    """A sparse matrix that multiplies a dense block on all cores."""

    def __init__(self, X: Sparse) -> None:
        self.X = X
        self.threads = 0
        self.starts: Ints = np.zeros(1, np.int64)

    def __matmul__(self, V: Array) -> Array:
        X, V = self.X, np.ascontiguousarray(V)
        U = np.empty((X.shape[0], V.shape[1]), V.dtype)
        if X.nnz * V.shape[1] < _SMALL:
            _multiply_rows(0, X.shape[0], X.indptr, X.indices, X.data, V, U)
            return U
        if self.threads != numba.get_num_threads():
            self.threads = numba.get_num_threads()
            # Tasks of equal work: a frequent word's row is thousands of times a rare one's.
            tasks = self.threads * _TASKS_PER_THREAD
            work = X.indptr.astype(np.int64) + np.arange(len(X.indptr))
            self.starts = np.searchsorted(work, np.linspace(0, work[-1], tasks + 1)).astype(np.int64)
        _multiply(self.starts, X.indptr, X.indices, X.data, V, U)
        return U


class CpuBlock:
    """One language's documents in both orientations: a transposed product is many times slower."""

    def __init__(self, X: Sparse, concepts: Ints, concept_count: int) -> None:
        ones = np.ones(len(concepts), X.dtype)
        Y = csr_array((ones, concepts, np.arange(len(concepts) + 1)), shape=(len(concepts), concept_count))
        self.X, self.Xt, self.Yt = Matrix(X), Matrix(X.T.tocsr()), Matrix(Y.T.tocsr())
        self.concepts = concepts
        self.shape: tuple[int, int] = X.shape
        self.store: dict[str, Array] = {}

    def times(self, V: Array) -> Array:
        return self.X @ V

    def transposed_times(self, U: Array) -> Array:
        return self.Xt @ U

    def concept_sums(self, U: Array) -> Array:
        return self.Yt @ U

    def column_squares(self) -> Array:
        X = self.X.X
        return np.bincount(X.indices, weights=X.data.astype(np.float64) ** 2, minlength=X.shape[1])


class CpuEngine:
    """All blocks in this process, one after another, each product on all cores."""

    def __init__(self) -> None:
        self.blocks: list[CpuBlock] = []

    def put(self, X: Sparse, concepts: Ints, concept_count: int) -> None:
        self.blocks.append(CpuBlock(X, concepts, concept_count))

    def map(self, function: Callable[..., Any], *arguments: Sequence[Any]) -> list[Any]:
        return [function(block, *each) for block, *each in zip(self.blocks, *arguments, strict=True)]
