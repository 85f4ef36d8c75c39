"""Sparse matrices on the GPU: how rows are cut into pieces, and products with dense blocks."""

from typing import Any, NamedTuple

import numpy as np

from cr5._typing import Array, Ints, Mask
from cr5.training.engines.gpu_device import LANES, THREADS, VECTORS, Device, GpuSizes, Kernels, may_be_rounded


class GpuCsr(NamedTuple):
    """A sparse matrix by rows, on the GPU: indptr int64, indices int32."""

    indptr: Any
    indices: Any
    data: Any
    shape: tuple[int, int]


class MatrixAndTranspose:
    """A sparse matrix X and X', both by rows."""

    def __init__(self, device: Device, rows: GpuCsr) -> None:
        self.device, self.nonzeros = device, len(rows.data)
        self.X = Matrix(device, rows)
        self.transposed = Matrix(device, _transposed(device.cupy, rows), in_order=True)
        self.nbytes = self.X.nbytes + self.transposed.nbytes


class Block(MatrixAndTranspose):
    """One language's documents, and the matrix that sums them by concept."""

    def __init__(self, device: Device, language: int, rows: GpuCsr, concepts: Any) -> None:
        super().__init__(device, rows)
        self.language, self.concepts = language, concepts
        documents = len(concepts)
        one_each = device.cupy.arange(documents + 1), concepts.astype(np.int32), device.cupy.ones(documents, np.float32)
        one_hot = GpuCsr(*one_each, (documents, int(concepts.max()) + 1 if documents else 0))
        self.sums = Matrix(device, _transposed(device.cupy, one_hot), in_order=True, is_one_hot=True)
        self.nbytes += self.sums.nbytes

    def take_concepts(self, S: Any) -> Any:
        """The row of every document's concept."""
        if not S.flags.c_contiguous or S.base is not None:
            return S.take(self.concepts, axis=0)
        U = self.device.cupy.empty((len(self.concepts), S.shape[1]), S.dtype)
        if U.size:
            take_rows = self.device.kernels_for(S.dtype, S.dtype, S.dtype).take_rows
            sizes = np.int64(len(U)), np.int64(U.shape[1])
            take_rows(*_rows_of_threads(len(U)), (sizes[0], self.concepts, S, sizes[1], U))
        return U

    def select(self, selected: Mask) -> tuple[GpuCsr, Any]:
        """The documents of the selected concepts: their rows and their concepts."""
        cupy, X = self.device.cupy, self.X.rows
        rows = cupy.flatnonzero(cupy.asarray(selected)[self.concepts])
        begins = X.indptr[rows]
        indptr = cupy.concatenate([cupy.zeros(1, np.int64), cupy.cumsum(X.indptr[rows + 1] - begins)])
        owner = _owners(cupy, indptr)
        place = cupy.arange(len(owner)) + (begins - indptr[:-1])[owner]
        return GpuCsr(indptr, X.indices[place], X.data[place], (len(rows), X.shape[1])), self.concepts[rows]


class Matrix:
    """A sparse matrix on the GPU that multiplies a dense block.

    ``in_order``: its rows' indices ascend; ``is_one_hot``: its elements are 1.
    """

    def __init__(self, device: Device, rows: GpuCsr, in_order: bool = False, is_one_hot: bool = False) -> None:
        self.device, self.rows, self.shape, self.is_one_hot = device, rows, rows.shape, is_one_hot
        indices = rows.indices if in_order else None
        pieces = cut_into_pieces(device.cupy.asnumpy(rows.indptr), indices, rows.shape[1], device.cupy, device.sizes)
        self.pieces, self.partials = Pieces(*map(device.cupy.asarray, pieces)), int(pieces.slots[-1])
        self.nbytes = sum(array.nbytes for array in (*rows[:3], *self.pieces))

    def multiply(self, V: Any, power: int | None = None, *, start: Array | None = None, may_round: bool = False) -> Any:
        """X V, plus ``start`` in every row; or with the elements of X to a power, in double precision."""
        U = self.device.cupy.zeros((self.shape[0], V.shape[1]), V.dtype)
        if start is not None:
            U[:] = self.device.send(start.astype(V.dtype))
        data = self.rows.data if power is None else self.rows.data.astype(np.float64) ** power
        self.add_product(V, U, data, may_round=may_round)
        return U

    def add_product(self, V: Any, U: Any, data: Any = None, *, may_round: bool = False) -> None:
        """U += X V; with ``may_round``, V is rounded to bfloat16 if it can be."""
        cupy, pieces, width = self.device.cupy, self.pieces, V.shape[1]
        data = self.rows.data if data is None else data
        if not U.size or not len(pieces.targets):
            return
        is_whole = V.flags.c_contiguous and V.base is None  # a view may begin anywhere
        stored = np.dtype(np.uint16) if may_round and may_be_rounded(V) else V.dtype
        kernels = self.device.kernels_for(data.dtype, stored, V.dtype)
        partials = cupy.empty((self.partials, width), V.dtype)
        arrays = pieces.targets, pieces.begins, pieces.lengths, self.rows.indices
        if self.is_one_hot and is_whole:
            count = len(pieces.targets)
            kernels.add_rows(*_rows_of_threads(count), (np.int32(count), *arrays, V, np.int64(width), U, partials))
        else:
            numbers = 16 // stored.itemsize
            step = -(-width // numbers)  # vectors of 16 bytes in a row
            if stored != V.dtype or width % numbers or not is_whole:
                V = self._padded(V, step * numbers, stored, kernels)
            sizes = np.int64(step), np.int64(width)
            grid = len(pieces.tasks) - 1, -(-step // (LANES * VECTORS))
            kernels.multiply(grid, (THREADS,), (pieces.tasks, *arrays, data, V, *sizes, U, partials))
        if len(pieces.cut):
            grid = len(pieces.cut), -(-width // 128)
            kernels.add_up(grid, (128,), (pieces.cut, pieces.slots, partials, np.int64(width), U))

    def _padded(self, V: Any, columns: int, stored: Any, kernels: Kernels) -> Any:
        """V with zeros in further columns, as it is ``stored``: uint16 for the upper halves of rounded numbers."""
        rows, width = V.shape
        padded = self.device.cupy.empty((rows, columns), stored)
        if stored == V.dtype:
            padded[:, :width] = V
            padded[:, width:] = 0
        else:
            sizes = np.int64(rows), np.int64(width), np.int64(columns)
            kernels.to_bfloat16(*_rows_of_threads(rows), (*sizes, V, padded))
        return padded


def _rows_of_threads(rows: int) -> tuple[tuple[int], tuple[int, int]]:
    """The grid and the thread blocks of a kernel in which 64 threads process one row."""
    return (-(-rows // 4),), (64, 4)


class Pieces(NamedTuple):
    """How the rows of a sparse matrix are cut into pieces, and these divided into tasks.

    Piece i is lengths[i] nonzeros from begins[i] on. Its sum goes to row targets[i], or to partial sum ~targets[i]; row
    cut[r] is the sum of those from slots[r] up to slots[r + 1]. Task t is the pieces from tasks[t] up to tasks[t + 1].
    """

    targets: Any
    begins: Any
    lengths: Any
    tasks: Any
    cut: Any
    slots: Any


def cut_into_pieces(indptr: Ints, indices: Any, columns: int, xp: Any, sizes: GpuSizes) -> Pieces:
    """Cut rows with enough nonzeros where their columns leave a range, and pieces that are still long evenly.

    ``indices`` are those of the matrix, on the GPU, or None where they do not ascend within a row.
    """
    lengths, ranges = np.diff(indptr), -(-columns // sizes.range_rows)
    dense = (lengths >= sizes.min_piece * ranges) & (indices is not None and ranges > 1)
    row, place = _counted(np.where(dense, ranges, 1))
    in_range, begins = dense[row], indptr[row]
    if in_range.any():
        low, high, bounds = (
            xp.asarray(a) for a in (begins[in_range], indptr[row[in_range] + 1], place[in_range] * sizes.range_rows)
        )
        begins[in_range] = xp.asnumpy(_first_at_least(xp, indices, low, high, bounds))
    nonzeros = np.diff(begins, append=indptr[-1])
    counts = -(-nonzeros // sizes.max_piece)
    whole, part = _counted(counts)
    first, last = (begins[whole] + nonzeros[whole] * each // counts[whole] for each in (part, part + 1))
    row, place, in_range = row[whole], place[whole], in_range[whole]
    piece_counts = np.bincount(row, minlength=len(lengths))
    cut = np.flatnonzero(piece_counts > 1)
    targets = np.where(piece_counts[row] > 1, ~(np.cumsum(piece_counts[row] > 1) - 1), row)
    # Range by range, the longest pieces first, so that no warp ends with a long one; then the other rows.
    order = np.lexsort((np.where(in_range, first - last, row), np.where(in_range, place, ranges)))
    nonzeros = (last - first)[order]
    return Pieces(
        targets[order].astype(np.int32),
        first[order],
        nonzeros.astype(np.int32),
        _tasks(nonzeros, np.where(in_range, place, ranges)[order], sizes.task_nonzeros),
        cut.astype(np.int32),
        np.concatenate([[0], np.cumsum(piece_counts[cut])]).astype(np.int32),
    )


def _counted(counts: Ints) -> tuple[Ints, Ints]:
    """Each i repeated counts[i] times, and the number of each repetition, from 0."""
    owner = np.repeat(np.arange(len(counts)), counts)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)


def _tasks(nonzeros: Ints, ranges: Ints, task_nonzeros: int) -> Ints:
    """Where tasks begin, and the end of the last: each is within one range, and all have about equal work."""
    work = np.cumsum(nonzeros + 32) // task_nonzeros
    starts = np.flatnonzero((np.diff(work, prepend=-1) > 0) | (np.diff(ranges, prepend=-1) > 0))
    return np.append(starts, len(nonzeros)).astype(np.int32)


def _first_at_least(xp: Any, indices: Any, low: Any, high: Any, bounds: Any) -> Any:
    """The first position from low to high where the ascending indices reach a bound; high if none does."""
    for _ in range(int((high - low).max()).bit_length()):
        middle = (low + high) // 2
        less = (low < high) & (indices[xp.minimum(middle, len(indices) - 1)] < bounds)
        low, high = xp.where(less, middle + 1, low), xp.where(less, high, middle)
    return low


def _owners(xp: Any, indptr: Any) -> Any:
    """The row of every nonzero."""
    return (xp.searchsorted(indptr, xp.arange(int(indptr[-1])), side="right") - 1).astype(np.int32)


def _transposed(xp: Any, rows: GpuCsr) -> GpuCsr:
    """The same matrix by columns."""
    order = xp.argsort(rows.indices, kind="stable")
    begins = xp.searchsorted(rows.indices[order], xp.arange(rows.shape[1] + 1, dtype=np.int32))
    return GpuCsr(begins.astype(np.int64), _owners(xp, rows.indptr)[order], rows.data[order], rows.shape[::-1])
