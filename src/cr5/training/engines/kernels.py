"""The compiled loops of the CPU engine, first of all the product of a sparse matrix and a dense block, U = X V.

The speed is that of loading rows of V, one for every nonzero of X. Three things keep them in the caches: V is
divided into panels of columns, each copied to rows of whole, aligned cache lines; a panel's row of U stays in
registers while its nonzeros are added up; and the rows of X are cut into pieces where their indices leave a block of V,
so that a core finishes one block, which its second-level cache holds, before the next. Where the rows of V or U are
used too rarely for that to pay, the rows of X are multiplied one by one, with V where it is.

Whatever the panels, blocks and threads, an element of U is one chain of multiply-adds in the order of
the nonzeros: the same bits, alone or with other columns, on one core or many.
"""

import threading
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numba
import numpy as np
from numba.extending import intrinsic

from cr5._typing import Array, Ints, Mask, Sparse
from cr5.machine import available_cores, run_on_threads
from cr5.machine.compiler import compiled
from cr5.training.engines.vectors import aligned, flat, has_whole_rows, load, multiply_add, store, zero_lanes

_WIDE, _NARROW = 256, 128  # bytes of a panel's row: 4 or 2 of the widest vector registers, 16 or 8 of the narrowest
_BLOCK = 4096  # rows of V: 1 MB of a panel
_MIN_PIECE = 16  # nonzeros that are worth a cut, which loads and stores the row of U once more


@dataclass(frozen=True)
class Tuning:
    """How a product is divided. It affects the speed only: the result is the same to the last bit.

    threads: all cores by default. min_parallel_products: with fewer multiplications, one thread finishes before a
    second has started. reuse: V is copied to panels if X has at least that many nonzeros for each row of V and U.
    panel_bytes: the memory of the panels that are copied at once, beside the first. parts_per_thread: the parts of X
    for each thread; slower threads process fewer of them.
    """

    threads: int = field(default_factory=available_cores)
    min_parallel_products: int = 2_000_000
    reuse: int = 16
    panel_bytes: int = 2**26
    parts_per_thread: int = 8


@intrinsic  # type: ignore[untyped-decorator]
def _count(_: Any, counters: Any, which: Any, more: Any) -> Any:
    """Return counters[which] and add ``more`` to it, atomically and sequentially consistent."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        counters_, which_, more_ = arguments
        data = context.make_array(counters)(context, builder, counters_).data
        return builder.atomic_rmw("add", builder.gep(data, [which_]), more_, "seq_cst")

    return numba.types.int64(counters, numba.types.intp, numba.types.int64), generate


def _adder(size: int) -> Any:
    """The inner loop of the product, for as many columns as ``size`` bytes hold."""

    def add(
        begin: int, end: int, indices: Ints, data: Array, V: Array, step: int, column: int, before: Array, at: int,
        U: Array, place: int,
    ) -> None:  # fmt: skip
        """U[place], ... = before[at], ... + data[k] V[indices[k], column], ... for all k."""
        number, lanes = U.dtype.type, zero_lanes(U, size)
        row = load(lanes, before, at)
        for k in range(begin, end):
            row = multiply_add(number(data[k]), load(lanes, V, indices[k] * step + column), row)
        store(row, U, place)

    return numba.njit(add)


def _packer(size: int) -> Any:
    def pack(first: int, last: int, V: Array, step: int, column: int, panel: Array, panel_step: int) -> None:
        """Rows first to last of a panel: as many columns of V as ``size`` bytes hold."""
        for i in range(first, last):
            store(load(zero_lanes(V, size), V, i * step + column), panel, i * panel_step)

    return numba.njit(pack)


_add_wide, _add_narrow = _adder(_WIDE), _adder(_NARROW)
_pack_wide, _pack_narrow = _packer(_WIDE), _packer(_NARROW)


@compiled
def _multiply_rows(
    first: int, last: int, columns: Ints, is_wide: Mask, indptr: Ints, indices: Ints, data: Array, V: Array,
    V_step: int, width: int, start: Array, U: Array, U_step: int,
) -> None:  # fmt: skip
    """Rows first to last of U = start + X V, without copying V."""
    number = U.dtype.type
    for i in range(first, last):
        begin, end = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        for p in range(len(columns)):
            place = i * U_step + columns[p]
            if is_wide[p]:
                _add_wide(begin, end, indices, data, V, V_step, columns[p], start, columns[p], U, place)
            else:
                _add_narrow(begin, end, indices, data, V, V_step, columns[p], start, columns[p], U, place)
        if not len(columns):
            row = U[i * U_step : i * U_step + width]
            row[:] = start
            for k in range(begin, end):
                a, v = number(data[k]), V[indices[k] * V_step :]
                for j in range(width):
                    row[j] = multiply_add(a, v[j], row[j])


@numba.njit  # type: ignore[untyped-decorator]
def _work(
    counters: Ints, columns: Ints, is_wide: Mask, panels: Array, bounds: Ints, rows: Ints, begins: Ints, ends: Ints,
    indptr: Ints, indices: Ints, data: Array, V: Array, V_step: int, start: Array, U: Array, U_step: int,
) -> None:  # fmt: skip
    """Process parts of panels until none is left: first copy (pack) them, then multiply with packed ones.

    counters: the tasks that were started, the parts packed of every panel, the panels finished of every part.
    """
    height, parts = panels.shape[1], len(bounds) - 1
    tasks, finished = parts * len(columns), 1 + len(columns)
    task = _count(counters, 0, 1)
    while task < 2 * tasks:
        p, t = task % tasks // parts, task % parts
        column, panel, step = columns[p], panels[p].reshape(-1), (_WIDE if is_wide[p] else _NARROW) // U.itemsize
        if task < tasks:
            first, last = t * height // parts, (t + 1) * height // parts
            if is_wide[p]:
                _pack_wide(first, last, V, V_step, column, panel, step)
            else:
                _pack_narrow(first, last, V, V_step, column, panel, step)
            _count(counters, 1 + p, 1)
        else:
            # Rarely, another thread has not finished packing, or the panel before, which may overlap this one.
            while _count(counters, 1 + p, 0) < parts or _count(counters, finished + t, 0) < p:
                pass
            for piece in range(bounds[t], bounds[t + 1]):
                i, begin, end = rows[piece], begins[piece], ends[piece]
                place = i * U_step + column
                before, at = (start, column) if begin == indptr[i] else (U, place)
                if is_wide[p]:
                    _add_wide(begin, end, indices, data, panel, step, 0, before, at, U, place)
                else:
                    _add_narrow(begin, end, indices, data, panel, step, 0, before, at, U, place)
            _count(counters, finished + t, 1)
        task = _count(counters, 0, 1)


@compiled
def _multiply(
    counters: Ints, columns: Ints, is_wide: Mask, panels: Array, bounds: Ints, rows: Ints, begins: Ints, ends: Ints,
    indptr: Ints, indices: Ints, data: Array, V: Array, V_step: int, width: int, start: Array, U: Array, U_step: int,
) -> None:  # fmt: skip
    """One thread's share of U = start + X V: the threads process part after part, and slower ones process fewer.

    Panel p has the columns from columns[p] on, part t of it the pieces from bounds[t] to bounds[t + 1].
    Without panels to pack V into, part t is the rows from bounds[t] to bounds[t + 1].
    """
    if len(panels):
        _work(
            counters, columns, is_wide, panels, bounds, rows, begins, ends, indptr, indices, data, V, V_step, start,
            U, U_step,
        )  # fmt: skip
    else:
        t = _count(counters, 0, 1)
        while t < len(bounds) - 1:
            first, last = bounds[t], bounds[t + 1]
            _multiply_rows(first, last, columns, is_wide, indptr, indices, data, V, V_step, width, start, U, U_step)
            t = _count(counters, 0, 1)


@compiled
def _cut(indptr: Ints, indices: Ints, rows: Ints, begins: Ints, blocks: Ints) -> int:
    """Cut every row into pieces: its nonzeros in one block, or in several that have few. Returns their number."""
    count = 0
    for i in range(len(indptr) - 1):
        k, end = indptr[i], indptr[i + 1]
        rows[count], begins[count], blocks[count] = i, k, 0
        cut = False
        while k < end:
            begin, block = k, indices[k] // _BLOCK
            while k < end and indices[k] // _BLOCK == block:
                k += 1
            long = k - begin >= _MIN_PIECE
            if begin > indptr[i] and (cut or long):
                count += 1
                # Of an unsorted row, a later piece may be in an earlier block; it is still processed after it.
                rows[count], begins[count], blocks[count] = i, begin, max(block, blocks[count - 1])
            elif begin == indptr[i]:
                blocks[count] = block
            cut = long
        count += 1
    return count


@compiled
def _add_rows(indptr: Ints, documents: Ints, G: Array, S: Array) -> None:
    """S[c] += the sum of G over the documents of concept c."""
    for c in range(len(S)):
        for k in range(indptr[c], indptr[c + 1]):
            S[c] += G[documents[k]]


def add_rows(indptr: Ints, documents: Ints, G: Array, S: Array, tuning: Tuning) -> None:
    """S[c] += the sum of G over documents[indptr[c]], ..., documents[indptr[c + 1] - 1], on all cores."""
    if G.size < tuning.min_parallel_products:
        _add_rows(indptr, documents, G, S)
        return
    work = indptr.astype(np.int64) + np.arange(len(indptr))
    cuts = np.searchsorted(work, np.linspace(work[0], work[-1], tuning.threads * tuning.parts_per_thread + 1))
    parts = iter([slice(first, last) for first, last in pairwise(cuts.tolist())])  # next() on it is atomic

    def run() -> None:
        for part in parts:
            _add_rows(indptr[part.start : part.stop + 1], documents, G, S[part])

    run_on_threads(run, tuning.threads)


@compiled
def copy_columns(
    first: int, last: int, begin: int, indptr: Ints, indices: Ints, data: Array, places: Ints, rows: Ints,
    values: Array,
) -> None:  # fmt: skip
    """Copy the nonzeros of columns ``first`` to ``last`` to ``places``, row by row from ``begin`` on."""
    for i in range(len(indptr) - 1):
        for k in range(indptr[i] - indptr[0], indptr[i + 1] - indptr[0]):
            if first <= indices[k] < last:
                place = places[indices[k] - first]
                rows[place], values[place] = begin + i, data[k]
                places[indices[k] - first] += 1


@compiled
def count_columns(first: int, indices: Ints, sizes: Ints) -> None:
    """Add the nonzeros of every column to ``sizes``, which is for those from ``first`` on."""
    last = first + len(sizes)
    for k in range(len(indices)):
        if first <= indices[k] < last:
            sizes[indices[k] - first] += 1


@compiled
def add_row_sums(indptr: Ints, data: Array, power: int, total: Array) -> None:
    """total += the sum of every row's numbers, or of their squares, in double precision."""
    for i in range(len(indptr) - 1):
        for k in range(indptr[i], indptr[i + 1]):
            number = np.float64(data[k])
            total[i] += number * number if power == 2 else number


class Matrix:
    """A sparse matrix that multiplies a dense block on all cores."""

    def __init__(self, X: Sparse, tuning: Tuning | None = None) -> None:
        self.X, self.tuning = X, tuning or Tuning()

    def __matmul__(self, V: Array) -> Array:
        """X V as a new array of V's dtype."""
        U = np.empty((self.X.shape[0], V.shape[1]), V.dtype)
        self.multiply(V, U)
        return U

    def multiply(self, V: Array, U: Array, start: Array | None = None) -> None:
        """U = X V in place, plus ``start`` in every row; columns of wider arrays are fine.

        Rows that are not contiguous cost a copy.
        """
        X, width = self.X, V.shape[1]
        if V.shape[0] != X.shape[1] or U.shape != (X.shape[0], width):
            raise ValueError(f"a matrix of shape {X.shape} does not multiply {V.shape} into {U.shape}")
        if not U.size:
            return
        if U.dtype != V.dtype or not has_whole_rows(U):
            result = np.empty(U.shape, V.dtype)
            self.multiply(V, result, start)
            U[:] = result
            return
        start = np.zeros(width, V.dtype) if start is None else start.astype(V.dtype)
        V, V_step = flat(V if has_whole_rows(V) else V.copy(order="C"))
        U, U_step = flat(U)
        columns, is_wide = _panels(width, V.itemsize)
        arrays, dense = (X.indptr, X.indices, X.data), (V, V_step, width, start, U, U_step)
        if X.nnz * width < self.tuning.min_parallel_products:
            _multiply_rows(0, X.shape[0], columns, is_wide, *arrays, *dense)
            return
        if not len(columns) or X.nnz < self.tuning.reuse * sum(X.shape):
            panels, none = np.empty((0, 0, 1), V.dtype), np.empty(0, np.uint64)
            rows = self.starts, none.astype(np.int64), none, none
            self._run(np.zeros(1, np.int64), columns, is_wide, panels, *rows, *arrays, *dense)
            return
        at_once = min(len(columns), 1 + self.tuning.panel_bytes // (1 + X.shape[1] * _WIDE))
        panels = (
            _panel_buffer(at_once * X.shape[1] * _WIDE).view(V.dtype).reshape(at_once, X.shape[1], _WIDE // V.itemsize)
        )
        for p in range(0, len(columns), at_once):
            some = columns[p : p + at_once], is_wide[p : p + at_once]
            counters = np.zeros(1 + at_once + len(self.starts), np.int64)
            self._run(counters, *some, panels, *self.pieces, *arrays, *dense)

    def _run(self, *arguments: Any) -> None:
        run_on_threads(lambda: _multiply(*arguments), self.tuning.threads)

    @cached_property
    def starts(self) -> Ints:
        """Cuts the rows into parts of equal work: a frequent word's row is thousands of times a rare one's."""
        work = self.X.indptr.astype(np.int64) + np.arange(len(self.X.indptr))
        parts = self.tuning.threads * self.tuning.parts_per_thread
        return np.searchsorted(work, np.linspace(0, work[-1], parts + 1)).astype(np.int64)

    @cached_property
    def pieces(self) -> tuple[Ints, ...]:
        """bounds, rows, begins, ends: the pieces of all rows, part by part, block by block."""
        X = self.X
        most = X.shape[0] + 2 * X.nnz // _MIN_PIECE
        rows, begins, blocks = (np.empty(most, np.int64) for _ in range(3))
        count = _cut(X.indptr, X.indices, rows, begins, blocks)
        rows, blocks = rows[:count], blocks[:count]
        begins = begins[:count].astype(np.uint64)  # unsigned indices need no check for negative ones
        ends = np.append(begins[1:], np.uint64(X.nnz))
        order = np.lexsort((blocks, np.searchsorted(self.starts, rows, side="right")))
        return np.searchsorted(rows, self.starts), rows[order], begins[order], ends[order]


def _panels(width: int, itemsize: int) -> tuple[Ints, Mask]:
    """The first column of every panel and whether it is wide, none if V is too narrow; the last ends where V does."""
    wide, narrow = _WIDE // itemsize, _NARROW // itemsize
    columns = [*range(0, width - wide + 1, wide)]
    is_wide = [True] * len(columns)
    rest = width % wide
    if rest > narrow and columns:
        columns, is_wide = [*columns, width - wide], [*is_wide, True]
    elif rest > narrow:
        columns, is_wide = [0, width - narrow], [False, False]
    elif rest and width >= narrow:
        columns, is_wide = [*columns, width - narrow], [*is_wide, False]
    return np.array(columns, np.int64), np.array(is_wide, bool)


_buffers = threading.local()


def _panel_buffer(size: int) -> Array:
    """Bytes that begin with a cache line, reused for the next product of this thread: fresh memory is slow."""
    buffer: Array = getattr(_buffers, "panels", np.empty(0, np.uint8))
    if len(buffer) < size:
        buffer = _buffers.panels = aligned(size)
    return buffer[:size]
