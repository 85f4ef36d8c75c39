"""The engine of one machine: arrays in memory, or in scratch files within a budget, and kernels on all cores."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Self, get_args

import numpy as np

from cr5._typing import Array, Ints, Mask, Sparse
from cr5.errors import Cr5Error, Cr5TypeError, whole_number
from cr5.machine import available_cores, available_memory, run_on_threads
from cr5.storage.scratch import ScratchArrays
from cr5.training.engines import BlockInfo, Engine
from cr5.training.engines.local import LocalEngine, LocalPartition
from cr5.training.engines.registry import EngineName, class_name

if TYPE_CHECKING:  # compiled loops, which are loaded when a fit begins
    from cr5.training.engines.kernels import Matrix

CHUNK_ROWS = 2048  # rows per call of a mapped function; they stay in the cache between its operations
NONZEROS_AT_ONCE = 2**22  # nonzeros per step of a pass over a sparse matrix, to keep temporary arrays small
MAX_SPANS = 256  # about this many spans (neighbouring chunks for one thread), or one per chunk if there are fewer
SCRATCH_BYTES = 2**28  # part of a memory budget that is reserved for temporary arrays, whatever the data
LEAST_BUDGET = 2 * SCRATCH_BYTES


def add_column_sums(total: Array, X: Sparse, power: int, release: Callable[..., None] = lambda *arrays: None) -> None:
    """total += the sum of every column of X, or of its squares, in double precision."""
    for begin in range(0, X.nnz, NONZEROS_AT_ONCE):
        end = min(begin + NONZEROS_AT_ONCE, X.nnz)
        values = X.data[begin:end].astype(np.float64) ** power
        total += np.bincount(X.indices[begin:end], values, minlength=len(total))
        release(X.data, X.indices)


def inverse_diagonal(
    diagonal: Array, M: Sparse | None, ridge: float, release: Callable[..., None] = lambda *arrays: None
) -> Array:
    """The two columns of ``Engine.inverse_diagonal`` for one language; ``diagonal``: words x 1."""
    inverse, weight = 1 / (diagonal[:, 0] + ridge), np.ones(len(diagonal))
    if M is not None:
        subword_diagonal = np.zeros(M.shape[1])
        for rows, columns, squares in _squares(M, release):
            subword_diagonal += np.bincount(columns, squares * diagonal[rows, 0], minlength=len(subword_diagonal))
        for rows, columns, squares in _squares(M, release):
            inverse += np.bincount(rows, squares / (subword_diagonal[columns] + ridge), minlength=len(inverse))
            weight += np.bincount(rows, squares, minlength=len(weight))
    return np.stack([inverse, weight], axis=1)


def _squares(M: Sparse, release: Callable[..., None]) -> Iterator[tuple[Ints, Ints, Array]]:
    """Rows, columns and squares of the nonzeros, some at a time."""
    for begin in range(0, M.nnz, NONZEROS_AT_ONCE):
        end = min(begin + NONZEROS_AT_ONCE, M.nnz)
        rows = np.searchsorted(M.indptr, np.arange(begin, end), side="right") - 1
        yield rows, M.indices[begin:end], M.data[begin:end].astype(np.float64) ** 2
        release(M.data, M.indices)


def _slices_of_equal_work(indptr: Ints, nonzeros: int) -> list[slice]:
    """Consecutive rows with about so many nonzeros; an empty row is work, too."""
    work = indptr.astype(np.int64) + np.arange(len(indptr))
    parts = max(1, -(-int(work[-1] - work[0]) // nonzeros))
    cuts = np.searchsorted(work, np.linspace(work[0], work[-1], parts + 1)).tolist()
    return [slice(first, last) for first, last in pairwise(cuts) if first < last]


def transpose(X: Sparse, scratch: ScratchArrays, threads: int) -> Sparse:
    """X' by rows: in memory a range of rows on each thread, within a budget as many at a time as it allows.

    Each range takes one pass over X.
    """
    if scratch.budget_bytes is None:
        return _transpose_in_memory(X, threads)
    from scipy.sparse import csr_array

    from cr5.training.engines.kernels import copy_columns

    sizes = np.zeros(X.shape[1], np.int64)
    for begin in range(0, X.nnz, NONZEROS_AT_ONCE):
        sizes += np.bincount(X.indices[begin : begin + NONZEROS_AT_ONCE], minlength=X.shape[1])
        scratch.release(X.indices)
    indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(X.indptr.dtype)
    max_nonzeros = scratch.budget_bytes // 4 // (X.dtype.itemsize + X.indices.itemsize)

    def parts() -> Iterator[Sparse]:
        first = 0
        while first < X.shape[1]:
            last = max(first + 1, int(np.searchsorted(indptr, indptr[first] + max_nonzeros, side="right")) - 1)
            places = indptr[first : last + 1] - indptr[first]
            rows, values = np.empty(places[-1], X.indices.dtype), np.empty(places[-1], X.dtype)
            for begin in range(0, X.shape[0], CHUNK_ROWS):
                ends = X.indptr[begin : begin + CHUNK_ROWS + 1]
                part = slice(ends[0], ends[-1])
                copy_columns(first, last, begin, ends, X.indices[part], X.data[part], places, rows, values)
                scratch.release(X.indices, X.data)
            bounds = indptr[first : last + 1] - indptr[first]
            yield csr_array((values, rows, bounds), shape=(last - first, X.shape[0]), copy=False)
            first = last

    return scratch.stack_rows(parts(), (X.shape[1], X.shape[0]), X.nnz, X.dtype, X.indices.dtype)


def _transpose_in_memory(X: Sparse, threads: int) -> Sparse:
    """X' by rows. Every thread reads all of X, and copies the columns of one range at a time."""
    from scipy.sparse import csr_array

    from cr5.training.engines.kernels import copy_columns, count_columns

    sizes = np.zeros(X.shape[1], np.int64)
    equal = np.linspace(0, X.shape[1], threads + 1).astype(np.int64).tolist()
    ranges = iter(list(pairwise(equal)))

    def count() -> None:
        for first, last in ranges:  # next() on it is atomic
            count_columns(first, X.indices, sizes[first:last])

    run_on_threads(count, threads)
    indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(X.indptr.dtype)
    rows, values = np.empty(X.nnz, X.indices.dtype), np.empty(X.nnz, X.dtype)
    parts = iter(_slices_of_equal_work(indptr, -(-(X.nnz + len(indptr)) // threads)))

    def copy() -> None:
        for part in parts:  # next() on it is atomic
            places = indptr[part].copy()
            copy_columns(part.start, part.stop, 0, X.indptr, X.indices, X.data, places, rows, values)

    run_on_threads(copy, threads)
    return csr_array((values, rows, indptr), shape=(X.shape[1], X.shape[0]), copy=False)


def engine_or_cpu(engine: Engine | None, threads: int | None = None) -> Engine:
    """The engine that a caller has passed, checked; for None the cores of this machine, or ``threads`` of them."""
    if threads is not None:
        whole_number("threads", threads, 1)
    if engine is None:
        return CpuEngine(threads=threads)
    if isinstance(engine, type) or not hasattr(engine, "count_words"):
        known = ", ".join(f"`{class_name(name)}()`" for name in get_args(EngineName))
        raise Cr5TypeError(f"`engine={engine!r}` is not an engine; pass one of {known}")
    return engine


class CpuEngine(LocalEngine):
    """All blocks in this process, one after another, each product on ``threads`` threads, by default all cores.

    With ``memory``, a number of bytes, arrays are in files under ``scratch_folder`` and are mapped into memory a few
    rows or columns at a time, so that the fit stays within that budget. ``chunk_rows`` is the number of rows that are
    processed at a time; ``panel_rows`` is its earlier name.
    """

    scratch: ScratchArrays
    blocks: list["_Block"]

    def __init__(
        self,
        memory: int | None = None,
        scratch_folder: Path | None = None,
        *,
        threads: int | None = None,
        chunk_rows: int = CHUNK_ROWS,
        panel_rows: int | None = None,
    ) -> None:
        if memory is not None and memory < LEAST_BUDGET:
            raise Cr5Error(f"`memory={memory:_}` is too small; use `memory>={LEAST_BUDGET // 2**20} * 2**20`")
        if threads is None:
            threads = available_cores()
        self.memory, self.threads = memory, whole_number("threads", threads, 1)
        self.chunk_rows = chunk_rows if panel_rows is None else panel_rows
        self.scratch = ScratchArrays(memory, scratch_folder)
        super().__init__(partial(CpuPartition, self.scratch, self.chunk_rows, self.threads))

    def put(self, lang: str, X: Sparse, concepts: Ints, subwords: Sparse | None = None) -> None:
        has_any = subwords is not None and subwords.shape[1]
        M = _MatrixAndTranspose(subwords, self.scratch, self.threads) if has_any else None
        self._add_language(lang, X.shape[1], M)
        self._add(self._block(len(self.langs) - 1, X, concepts))

    def _block(self, language: int, X: Sparse, concepts: Ints) -> "_Block":
        return _Block(language, X, concepts, self.scratch, self.threads)

    def _add(self, block: "_Block") -> None:
        self._add_block(block, documents=block.X.shape[0], concepts=1 + int(block.concepts.max(initial=-1)))

    def block_info(self) -> list[BlockInfo]:
        return [
            BlockInfo(b.language, b.X.shape[0], b.X.shape[1], b.nonzeros, str(b.X.dtype), *self._subword_info(b))
            for b in self.blocks
        ]

    def compute(self, function: Callable[..., Any], *arrays: Array) -> Any:
        return function(*arrays)

    def check_memory(self, needed: int) -> None:
        free = available_memory()
        if needed <= free or (self.memory is not None and self.memory <= free):
            return
        problem = f"the fit needs {needed / 1e9:.1f} GB of memory, {free / 1e9:.1f} GB are free"
        if self.memory is not None:
            problem += f", and `memory={self.memory:_}` is more than that"
        unit = 10**9 if free >= 2 * 10**9 else 10**8
        budget = max(free // 2 // unit * unit, LEAST_BUDGET)  # there must be memory for the rest of the process, too
        shown = f"{budget:_}" if budget > LEAST_BUDGET else f"{budget // 2**20} * 2**20"
        advice = f"set a budget with `memory={shown}`, or lower `rank` or `max_words`"
        if budget > free:
            advice = (
                f"close other programs, or allow more: with a budget, a fit needs {LEAST_BUDGET / 1e9:.1f} GB at least"
            )
        raise Cr5Error(f"{problem}; {advice}")

    def subset(self, selected: Mask) -> Self:
        result = self._without_documents()
        for block in self.blocks:
            rows = np.flatnonzero(selected[block.concepts])
            X = self.scratch.select_rows(block.X, rows)
            result._add(self._block(block.language, X, block.concepts[rows]))
        return result

    def fetch_documents(self, selected: Mask) -> tuple[dict[str, Sparse], dict[str, Ints]]:
        rows = [np.flatnonzero(selected[block.concepts]) for block in self.blocks]
        parts = list(zip(self.langs, self.blocks, rows, strict=True))
        return {lang: b.X[r] for lang, b, r in parts}, {lang: b.concepts[r] for lang, b, r in parts}

    def fold(self, source: str, target: str) -> None:
        for M, named in zip(self.subword_matrices, self.words.arrays, strict=True):
            V: Array = named[source]
            folded = self._multiply(M.rows, self._multiply(M.columns, V)) if M else self.scratch.empty(V.shape, V.dtype)
            for begin in range(0, len(V), self._rows(len(V))):
                rows = slice(begin, begin + self._rows(len(V)))
                folded[rows] = folded[rows] + V[rows] if M else V[rows]
                self.scratch.release(V, folded)
            named[target] = folded

    def multiply(
        self, source: str, target: str, start: Sequence[Array] | None = None, *, may_round: bool = False
    ) -> None:
        starts: Sequence[Array | None] = start or [None] * len(self.blocks)
        for block, V, named, row in zip(self.blocks, self.words.arrays, self.documents.arrays, starts, strict=True):
            named[target] = self._multiply(block.rows, V[source], row)

    def multiply_transposed(self, source: str, target: str, *, may_round: bool = False) -> None:
        for block, U, named in zip(self.blocks, self.documents.arrays, self.words.arrays, strict=True):
            named[target] = self._multiply(block.columns, U[source])
            del U[source]

    def concept_sums(self, name: str) -> None:
        from cr5.training.engines.kernels import Tuning, add_rows

        [named] = self.concepts.arrays
        first = self.documents.arrays[0][name]
        sums = named[name] = self.scratch.empty((len(named["id"]), first.shape[1]), first.dtype)
        for begin in range(0, max(len(sums), 1), self._rows(len(sums))):
            rows = slice(begin, begin + self._rows(len(sums)))
            sums[rows] = 0
            for block, G in zip(self.blocks, self.documents.arrays, strict=True):
                indptr, documents = block.documents_by_concept(len(sums))
                add_rows(indptr[begin : rows.stop + 1], documents, G[name], sums[rows], Tuning(self.threads))
                self.scratch.release(G[name])
            self.scratch.release(sums)

    def broadcast_concepts(self, source: str, target: str) -> None:
        S = self.concepts.arrays[0][source]
        for block, named in zip(self.blocks, self.documents.arrays, strict=True):
            U = named[target] = self.scratch.empty((len(block.concepts), S.shape[1]), S.dtype)
            chunks = iter([slice(begin, begin + self.chunk_rows) for begin in range(0, len(U), self.chunk_rows)])

            def copy(U: Array = U, concepts: Ints = block.concepts, chunks: Iterator[slice] = chunks) -> None:
                for rows in chunks:  # next() on it is atomic
                    # The numbers are valid: another mode than "clip" would copy the rows twice.
                    np.take(S, concepts[rows], axis=0, out=U[rows], mode="clip")
                    self.scratch.release(S, U)

            run_on_threads(copy, self.threads)

    def column_sums(self, target: str, power: int) -> None:
        from cr5.training.engines.kernels import add_row_sums

        for block, named in zip(self.blocks, self.words.arrays, strict=True):
            X, total = block.columns.X, np.zeros(block.X.shape[1])
            rows = iter(_slices_of_equal_work(X.indptr, NONZEROS_AT_ONCE))

            def add_up(X: Sparse = X, total: Array = total, rows: Iterator[slice] = rows) -> None:
                for some in rows:  # next() on it is atomic
                    add_row_sums(X.indptr[some.start : some.stop + 1], X.data, power, total[some])
                    self.scratch.release(X.data)

            run_on_threads(add_up, self.threads)
            named[target] = total[:, None]

    def inverse_diagonal(self, source: str, target: str, ridge: float) -> None:
        for M, named in zip(self.subword_matrices, self.words.arrays, strict=True):
            named[target] = inverse_diagonal(named[source], M.X if M else None, ridge, self.scratch.release)

    def _rows(self, count: int) -> int:
        """The number of rows between two releases of scratch arrays."""
        return self.chunk_rows if self.memory else max(count, 1)

    def _multiply(self, matrix: "Matrix", V: Array, start: Array | None = None) -> Array:
        """X V, plus ``start`` in every row.

        Within a budget column panel by column panel, each for a few rows of X at a time.
        """
        X = matrix.X
        U = self.scratch.empty((X.shape[0], V.shape[1]), V.dtype)
        if self.memory is None or not U.size:
            matrix.multiply(V, U, start)
            return U
        from scipy.sparse import csr_array

        from cr5.training.engines.kernels import Matrix

        width = max(16, self.memory // 4 // max(len(V) * V.itemsize, 1) // 16 * 16)
        share = self.memory // 8
        for left in range(0, V.shape[1], width):
            columns = slice(left, left + width)
            panel = np.empty((len(V), min(width, V.shape[1] - left)), V.dtype)
            for begin in range(0, len(V), self.chunk_rows):
                panel[begin : begin + self.chunk_rows] = V[begin : begin + self.chunk_rows, columns]
                self.scratch.release(V)
            weight = X.indptr.astype(np.int64) * (X.data.itemsize + X.indices.itemsize) + np.arange(len(X.indptr)) * (
                U.shape[1] * U.itemsize
            )
            cuts = np.searchsorted(weight, np.arange(0, weight[-1] + share, share), side="right") - 1
            for begin, end in zip(cuts[:-1], np.append(cuts[1:-1], X.shape[0]), strict=True):
                low, high = X.indptr[begin], X.indptr[end]
                arrays = X.data[low:high], X.indices[low:high], X.indptr[begin : end + 1] - low
                part = csr_array(arrays, shape=(end - begin, X.shape[1]), copy=False)
                row = None if start is None else start[columns]
                Matrix(part, matrix.tuning).multiply(panel, U[begin:end, columns], row)
                self.scratch.release(X.data, X.indices, U)
        return U


class _MatrixAndTranspose:
    """A sparse matrix X and, from the first use on, X', both by rows: a product with X by columns would be slow."""

    def __init__(self, X: Sparse, scratch: ScratchArrays, threads: int) -> None:
        self.X, self.scratch, self.threads = scratch.store_matrix(X), scratch, threads
        self.nonzeros = int(X.nnz)

    @cached_property
    def rows(self) -> "Matrix":
        """X by rows."""
        return self._matrix(self.X)

    @cached_property
    def columns(self) -> "Matrix":
        """X' by rows."""
        return self._matrix(transpose(self.X, self.scratch, self.threads))

    def _matrix(self, X: Sparse) -> "Matrix":
        from cr5.training.engines.kernels import Matrix, Tuning

        return Matrix(X, Tuning(self.threads))


class _Block(_MatrixAndTranspose):
    """One language's documents and their concepts."""

    def __init__(self, language: int, X: Sparse, concepts: Ints, scratch: ScratchArrays, threads: int) -> None:
        super().__init__(X, scratch, threads)
        self.language, self.concepts = language, concepts
        self._documents: tuple[Ints, Ints] = np.zeros(0, np.int64), np.zeros(0, np.int64)

    def documents_by_concept(self, count: int) -> tuple[Ints, Ints]:
        """The documents of every concept: indptr, and the documents' numbers."""
        if len(self._documents[0]) != count + 1:
            sizes = np.bincount(self.concepts, minlength=count)
            self._documents = np.concatenate([[0], np.cumsum(sizes)]), np.argsort(self.concepts, kind="stable")
        return self._documents


class CpuPartition(LocalPartition):
    """Arrays in memory or in scratch files, mapped over chunk by chunk on several threads."""

    def __init__(self, scratch: ScratchArrays, chunk_rows: int, threads: int) -> None:
        super().__init__()
        self.scratch, self.chunk_rows, self.threads = scratch, chunk_rows, threads

    def map(self, function: Callable[..., Any], *arguments: Sequence[Any]) -> list[Any]:
        blocks = zip(self.sizes, self.arrays, *arguments, strict=True)
        tasks = [_Task(function, each, size, named, self.scratch, self.chunk_rows) for size, named, *each in blocks]
        # Chunks that one thread processes one after another, as many whatever the number of threads: their results are
        # added in the order of the rows, so that the sum does not depend on it.
        at_once = max(1, sum(self.sizes) // self.chunk_rows // MAX_SPANS) * self.chunk_rows
        work = [
            (task, slice(begin, min(begin + at_once, max(task.size, 1))))
            for task in tasks
            for begin in range(0, max(task.size, 1), at_once)
        ]
        # One thread for each span, instead of all threads for each operation: they need not wait for each other.
        if self.threads == 1 or sum(self.sizes) <= self.chunk_rows:
            for task, rows in work:
                task.add(task.run(rows))
        else:
            waiting: deque[tuple[_Task, Future[Any]]] = deque()
            with ThreadPoolExecutor(self.threads) as pool:
                for task, rows in work:
                    waiting.append((task, pool.submit(task.run, rows)))
                    if len(waiting) > 2 * self.threads:
                        first, future = waiting.popleft()
                        first.add(future.result())
                for first, future in waiting:
                    first.add(future.result())
        return [task.finish() for task in tasks]

    def get(self, name: str) -> list[Array]:
        results = []
        for named in self.arrays:
            result = np.empty_like(named[name])
            for begin in range(0, len(result), self.chunk_rows):
                result[begin : begin + self.chunk_rows] = named[name][begin : begin + self.chunk_rows]
                self.scratch.release(named[name])
            results.append(result)
        return results

    def set(self, name: str, arrays: Sequence[Array]) -> None:
        for named, array in zip(self.arrays, arrays, strict=True):
            named[name] = array.copy() if self.scratch.budget_bytes is None else self.scratch.store(array)


class _Task:
    """A function that is being mapped over the rows of one block, some rows at a time."""

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: list[Any],
        size: int,
        named: dict[str, Array],
        scratch: ScratchArrays,
        chunk_rows: int,
    ) -> None:
        self.function, self.arguments, self.size, self.named, self.scratch = function, arguments, size, named, scratch
        self.chunk_rows = chunk_rows
        self.fresh: dict[str, Array] = {}
        self.renamed: dict[str, str] = {}  # new names of whole arrays, with the old ones
        self.deleted: set[str] = set()
        self.total: Any = None
        self.lock = Lock()

    def run(self, rows: slice) -> Any:
        """Call the function on some rows, a chunk at a time, and store what it assigned; returns the sum of results."""
        total = None
        for begin in range(rows.start, rows.stop, self.chunk_rows):
            total = add_in_place(total, self._run_chunk(slice(begin, min(begin + self.chunk_rows, rows.stop))))
        return total

    def _run_chunk(self, rows: slice) -> Any:
        given = {name: array[rows] for name, array in self.named.items()}
        seen = dict(given)
        result = self.function(seen, *self.arguments)
        new = {name: value for name, value in seen.items() if value is not given.get(name)}
        self.deleted = given.keys() - seen.keys()
        deleted = sorted(self.deleted)
        for name, value in list(new.items()):
            if old := next((old for old in deleted if value is given[old]), None):
                self.renamed[name] = old
                del new[name]
                deleted.remove(old)  # a second name needs an array of its own
            elif any(np.may_share_memory(value, other) for other in given.values()):
                new[name] = value.copy()  # a view of a given array must not change with it
        for name, value in new.items():
            self._target(name, value)[rows] = value
        self.scratch.release(*self.named.values(), *self.fresh.values())
        return result

    def _target(self, name: str, value: Array) -> Array:
        """The array that rows of a name are written to: the present one if shape and dtype fit."""
        with self.lock:
            if name not in self.fresh:
                old, shape = self.named.get(name), (self.size, value.shape[1])
                fits = old is not None and (old.shape, old.dtype) == (shape, value.dtype)
                self.fresh[name] = old if old is not None and fits else self.scratch.empty(shape, value.dtype)
            return self.fresh[name]

    def add(self, result: Any) -> None:
        """Add the result of the next rows."""
        self.total = add_in_place(self.total, result)

    def finish(self) -> Any:
        """Store the new arrays and delete the old ones; returns the sum of the results."""
        self.named |= self.fresh | {name: self.named[old] for name, old in self.renamed.items()}
        for name in self.deleted:
            del self.named[name]
        return self.total


def add_in_place(total: Any, result: Any) -> Any:
    """total + result, in the memory of ``total`` if it is an array."""
    if total is None:
        return result
    return np.add(total, result, out=total) if isinstance(total, np.ndarray) else total + result
