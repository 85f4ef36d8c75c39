"""The engine of one NVIDIA card: every array lies in its memory, and the products are kernels of our own.

The speed of a product X V is that of fetching a row of V for every nonzero, so the kernel is arranged
around the caches: it multiplies a panel of columns at a time, narrow enough for the panel to lie in the
second-level cache, and takes the nonzeros of frequent words range by range of documents, whose rows then
lie in the first-level cache of the multiprocessor that works on them. Long rows are cut into pieces whose
sums are added in a fixed order: the same data give the same bits.
"""

import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from string import Template
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from cr5._typing import Array, Ints, Mask, Sparse
from cr5.errors import Cr5Error
from cr5.machine import available_cores
from cr5.training.engines import Facts

PANEL = 2**17  # rows that a function sees at a time: sums in single precision, and what it needs beside, stay small
RANGE = 512  # rows of V whose part of a panel, 128 bytes each, fits into a first-level cache with others
LEAST = 32  # nonzeros in a range that pay for a piece of their own
LONGEST = 1024  # nonzeros of any piece: one warp works through them alone
TASK, THREADS = 2**14, 256  # nonzeros that a thread block shares out, and its threads
LANES, VECTORS = 8, 1  # threads that fetch a row of a panel, 16 bytes at once, and how often
BATCH = 2  # rows that they fetch before they add the first
LARGE = 2**23  # bytes that are worth a thread of their own on the way back

_SOURCE = Template("""
typedef $number T;
typedef $weight S;
const int LANES = $lanes, VECTORS = $vectors, GROUPS = 32 / LANES, NUMBERS = 16 / sizeof(T);
const int BATCH = $batch;  // nonzeros that each group fetches before it adds
struct __align__(16) Vector { T at[NUMBERS]; };

// U += X V. A thread block takes one task, some pieces of rows of X, for one panel of columns; a warp takes
// one piece after another. Its groups of lanes each fetch the row of V of another nonzero.
// Six blocks fit on a multiprocessor where a thread has 40 registers; more threads hide more waiting.
extern "C" __global__ void __launch_bounds__($threads, 6) multiply(
    const int* __restrict__ tasks, const int* __restrict__ targets, const long long* __restrict__ begins,
    const int* __restrict__ lengths, const int* __restrict__ indices, const S* __restrict__ data,
    const Vector* __restrict__ V, long long step, long long width, T* __restrict__ U, T* __restrict__ partials)
{
    const int lane = threadIdx.x % 32, group = lane / LANES;
    const int column = blockIdx.y * LANES * VECTORS + lane % LANES;
    const int last = tasks[blockIdx.x + 1];
    for (int piece = tasks[blockIdx.x] + threadIdx.x / 32; piece < last; piece += blockDim.x / 32) {
        const int length = lengths[piece];
        const int* index_at = indices + begins[piece];
        const S* weight_at = data + begins[piece];
        T sum[VECTORS][NUMBERS] = {};
        for (int k = 0; k < length; k += 32) {
            // Beyond the end the last nonzero stands once more, with weight 0.
            const int at = min(k + lane, length - 1);
            const unsigned place = __ldcs(index_at + at) * unsigned(step);  // in vectors: enough for 64 GB
            const S weight = k + lane < length ? __ldcs(weight_at + at) : S(0);
            #pragma unroll 1
            for (int s = 0; s < min(32, length - k); s += GROUPS * BATCH) {
                Vector found[BATCH][VECTORS];
                #pragma unroll
                for (int b = 0; b < BATCH; b++) {
                    const Vector* row = V + __shfl_sync(~0u, place, s + b * GROUPS + group) + column;
                    #pragma unroll
                    for (int v = 0; v < VECTORS; v++)
                        if (column + v * LANES < step) found[b][v] = row[v * LANES];
                }
                #pragma unroll
                for (int b = 0; b < BATCH; b++) {
                    const T a = __shfl_sync(~0u, weight, s + b * GROUPS + group);
                    #pragma unroll
                    for (int v = 0; v < VECTORS; v++)
                        #pragma unroll
                        for (int i = 0; i < NUMBERS; i++) sum[v][i] += a * found[b][v].at[i];
                }
            }
        }
        const long long target = targets[piece];
        T* row = target < 0 ? partials + ~target * width : U + target * width;
        #pragma unroll
        for (int v = 0; v < VECTORS; v++)
            #pragma unroll
            for (int i = 0; i < NUMBERS; i++) {
                T total = sum[v][i];
                #pragma unroll
                for (int far = LANES; far < 32; far *= 2) total += __shfl_xor_sync(~0u, total, far);
                const long long place = (column + v * LANES) * NUMBERS + i;
                if (i % GROUPS == group && place < width) row[place] = target < 0 ? total : row[place] + total;
            }
    }
}

// U[rows[r]] += partials[slots[r]] + partials[slots[r] + 1] + ... up to slots[r + 1]
extern "C" __global__ void add_up(
    const int* __restrict__ rows, const int* __restrict__ slots, const T* __restrict__ partials, long long width,
    T* __restrict__ U)
{
    const long long place = (long long) blockIdx.y * blockDim.x + threadIdx.x;
    if (place >= width) return;
    T total = 0;
    for (long long slot = slots[blockIdx.x]; slot < slots[blockIdx.x + 1]; slot++)
        total += partials[slot * width + place];
    U[rows[blockIdx.x] * width + place] += total;
}
""")
_IN_C = {"float32": "float", "float64": "double"}
_SHAPE = {"threads": THREADS, "lanes": LANES, "vectors": VECTORS, "batch": BATCH}


class GpuEngine:
    """All blocks on one card, one after another."""

    def __init__(self, card: "_Card | None" = None) -> None:
        self.card = card or _Card()
        self.langs: list[str] = []
        self.blocks: list[_Block] = []
        self.words, self.documents, self.concepts = (GpuRoom(self.card) for _ in range(3))

    def put(self, lang: str, X: Any, concepts: Any) -> None:
        """Take in documents x words: SciPy's CSR, or anything with its arrays, here or on the card already."""
        with self.card.watched():
            cupy = self.card.cupy
            rows = _Rows(
                cupy.asarray(X.indptr, dtype=np.int64), cupy.asarray(X.indices, dtype=np.int32),
                cupy.asarray(X.data), X.shape,
            )  # fmt: skip
            self.langs.append(lang)
            self.words.add(X.shape[1])
            self._add(_Block(self.card, len(self.langs) - 1, rows, cupy.asarray(concepts, dtype=np.int64)))

    def _add(self, block: "_Block") -> None:
        self.blocks.append(block)
        self.documents.add(block.X.shape[0])
        count = max(block.sums.shape[0] for block in self.blocks)
        if not self.concepts.stores or count > self.concepts.sizes[0]:
            self.concepts.stores, self.concepts.sizes = [], []
            self.concepts.add(count)
            self.concepts.set("id", [np.arange(count)[:, None]])

    def facts(self) -> list[Facts]:
        return [
            Facts(block.language, *block.X.shape, len(block.X.rows.data), str(block.X.rows.data.dtype))
            for block in self.blocks
        ]

    def compute(self, function: Callable[..., Any], *arrays: Array) -> Any:
        """Call a function of small arrays on the card, NumPy in, NumPy out."""
        with self.card.watched():
            return self.card.fetch(function(*map(self.card.send, arrays)))

    def reserve(self, needed: int) -> None:
        free = self.card.free() + sum(block.nbytes for block in self.blocks)  # the documents are part of the need
        if needed > free:
            raise Cr5Error(
                f"the fit needs {needed / 1e9:.1f} GB of memory, the {self.card.name} has {free / 1e9:.1f} GB free; "
                "compute with --engine cpu, or lower --rank"
            )

    def part(self, kept: Mask) -> "GpuEngine":
        result = GpuEngine(self.card)
        result.langs, result.words, result.concepts = self.langs, self.words, self.concepts
        with self.card.watched():
            for block in self.blocks:
                rows, concepts = block.chosen(kept)
                result._add(_Block(self.card, block.language, rows, concepts))
        return result

    def take(self, kept: Mask) -> tuple[dict[str, Sparse], dict[str, Ints]]:
        blocks, numbers, fetch = {}, {}, self.card.cupy.asnumpy
        for lang, block in zip(self.langs, self.blocks, strict=True):
            rows, concepts = block.chosen(kept)
            small = np.int32 if len(rows.data) < 2**31 else np.int64  # SciPy wants one type for both
            indices, indptr = fetch(rows.indices).astype(small, copy=False), fetch(rows.indptr).astype(small)
            blocks[lang] = csr_array((fetch(rows.data), indices, indptr), shape=rows.shape)
            numbers[lang] = fetch(concepts)
        return blocks, numbers

    def times(self, name: str) -> None:
        with self.card.watched():
            for block, V, store in zip(self.blocks, self.words.stores, self.documents.stores, strict=True):
                store.pop(name, None)
                store[name] = block.X.times(V[name])

    def transposed_times(self, source: str, target: str) -> None:
        with self.card.watched():
            for block, U, store in zip(self.blocks, self.documents.stores, self.words.stores, strict=True):
                store.pop(target, None)
                store[target] = block.transposed.times(U.pop(source))

    def concept_sums(self, name: str) -> None:
        with self.card.watched():
            first = self.documents.stores[0][name]
            shape = self.concepts.sizes[0], first.shape[1]
            self.concepts.stores[0].pop(name, None)
            sums = self.concepts.stores[0][name] = self.card.cupy.zeros(shape, first.dtype)
            for block, G in zip(self.blocks, self.documents.stores, strict=True):
                block.sums.add_times(G[name], sums)

    def spread(self, source: str, target: str) -> None:
        with self.card.watched():
            S = self.concepts.stores[0][source]
            for block, store in zip(self.blocks, self.documents.stores, strict=True):
                store.pop(target, None)
                store[target] = S.take(block.concepts, axis=0)

    def column_sums(self, target: str, power: int) -> None:
        with self.card.watched():
            for block, store in zip(self.blocks, self.words.stores, strict=True):
                ones = self.card.cupy.ones((block.X.shape[0], 1))
                store[target] = block.transposed.times(ones, power)


class GpuRoom:
    """A dictionary of arrays on the card for every block."""

    def __init__(self, card: "_Card") -> None:
        self.card = card
        self.sizes: list[int] = []
        self.stores: list[dict[str, Any]] = []

    def add(self, rows: int) -> None:
        self.sizes.append(rows)
        self.stores.append({})

    def map(self, function: Callable[..., Any], *arguments: Sequence[Any]) -> list[Any]:
        with self.card.watched():
            function = self.card.send(function)
            blocks = zip(self.sizes, self.stores, *arguments, strict=True)
            results = [self._map_one(function, size, store, map(self.card.send, each)) for size, store, *each in blocks]
            return [self.card.fetch(result) for result in results]  # now that all are under way

    def _map_one(self, function: Callable[..., Any], size: int, store: dict[str, Any], given: Iterable[Any]) -> Any:
        arguments = list(given)
        if size <= PANEL:
            return function(store, *arguments)
        total = None
        fresh: dict[str, Any] = {}
        for begin in range(0, size, PANEL):
            rows = slice(begin, begin + PANEL)
            before = {name: array[rows] for name, array in store.items()}
            seen = dict(before)
            result = function(seen, *arguments)
            total = result if total is None else total + result
            for name, value in seen.items():
                if value is before.get(name):
                    continue
                if name not in fresh:
                    fits = name in store and (store[name].shape[1], store[name].dtype) == (value.shape[1], value.dtype)
                    shape = size, value.shape[1]
                    fresh[name] = store[name] if fits else self.card.cupy.empty(shape, value.dtype)
                fresh[name][rows] = value
        store |= fresh
        for name in before.keys() - seen.keys():
            del store[name]
        return total

    def get(self, name: str) -> list[Array]:
        return [self.card.copy(store[name]) for store in self.stores]

    def set(self, name: str, arrays: Sequence[Array]) -> None:
        with self.card.watched():
            for store, array in zip(self.stores, arrays, strict=True):
                store[name] = self.card.cupy.array(array, order="C")


class _Card:
    """The card that CuPy found, what it holds, and what to say when there is none or it is full."""

    def __init__(self) -> None:
        try:
            self.cupy: Any = importlib.import_module("cupy")
        except ImportError as error:
            if isinstance(error, ModuleNotFoundError) and error.name == "cupy":
                raise Cr5Error("the gpu engine needs CuPy; install it with pip install 'cr5[gpu]'") from error
            why = str(error).strip().splitlines()[-1]
            raise Cr5Error(
                f"the gpu engine cannot load CuPy ({why}); install the one for your version of CUDA, "
                "or compute with --engine cpu"
            ) from error
        runtime = self.cupy.cuda.runtime
        try:
            self.number = runtime.getDevice()
            self.name = runtime.getDeviceProperties(self.number)["name"].decode()
            self.pool = self.cupy.get_default_memory_pool()
        except runtime.CUDARuntimeError as error:
            raise Cr5Error(
                f"the gpu engine found no NVIDIA card that works ({error}); "
                "see what nvidia-smi says, or compute with --engine cpu"
            ) from error
        self.kernels: dict[tuple[str, str], tuple[Any, Any]] = {}

    def kernels_for(self, weights: Any, numbers: Any) -> tuple[Any, Any]:
        """The kernels for X of one type and V of another, from the first use on."""
        types = _IN_C[str(weights)], _IN_C[str(numbers)]
        if types not in self.kernels:
            source = _SOURCE.substitute(weight=types[0], number=types[1], **_SHAPE)
            kernels = self.cupy.RawModule(code=source, options=("-std=c++17",))
            self.kernels[types] = kernels.get_function("multiply"), kernels.get_function("add_up")
        return self.kernels[types]

    def send(self, value: Any) -> Any:
        """The same on the card: an array, or a function with the arrays that it was bound to."""
        if isinstance(value, np.ndarray):
            return self.cupy.asarray(value)
        if isinstance(value, partial):
            keywords = {name: self.send(each) for name, each in value.keywords.items()}
            return partial(self.send(value.func), *map(self.send, value.args), **keywords)
        return value

    def fetch(self, value: Any) -> Any:
        """A result as NumPy's, in double precision: an array, several, or none."""
        if isinstance(value, tuple):
            return tuple(self.fetch(each) for each in value)
        return value if value is None else self.cupy.asnumpy(value).astype(np.float64, copy=False)

    def copy(self, array: Any) -> Array:
        """An array here. Large ones come through page-locked memory, which the card writes to by itself."""
        if array.nbytes <= LARGE:
            return np.asarray(self.cupy.asnumpy(array))
        result = np.empty(array.shape, array.dtype)
        step = max(1, LARGE // array[:1].nbytes)
        self.cupy.cuda.runtime.deviceSynchronize()  # other streams than the one that computed the array fetch it

        def fetch(begin: int) -> None:
            with self.cupy.cuda.Device(self.number):
                part = array[begin : begin + step]
                memory = self.cupy.cuda.alloc_pinned_memory(part.nbytes)
                here = np.frombuffer(memory, part.dtype, part.size).reshape(part.shape)
                self.cupy.asnumpy(part, stream=self.cupy.cuda.Stream(non_blocking=True), out=here)
                result[begin : begin + step] = here

        with ThreadPoolExecutor(min(8, available_cores())) as pool:
            list(pool.map(fetch, range(0, len(array), step)))
        return result

    def free(self) -> int:
        """The bytes that the card has free, once what CuPy keeps for later has gone back."""
        self.pool.free_all_blocks()
        return int(self.cupy.cuda.runtime.memGetInfo()[0])

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Say in a sentence when the memory runs out in here."""
        try:
            yield
        except self.cupy.cuda.memory.OutOfMemoryError as error:
            used = self.pool.used_bytes()
            raise Cr5Error(
                f"the {self.name} ran out of memory with {used / 1e9:.1f} GB in use ({error}); "
                "compute with --engine cpu, or lower --rank"
            ) from error


class _Rows(NamedTuple):
    """A sparse matrix by rows, on the card: indptr int64, indices int32."""

    indptr: Any
    indices: Any
    data: Any
    shape: tuple[int, int]


class _Block:
    """One language's documents by rows and by columns, and by the concept that each is of."""

    def __init__(self, card: _Card, language: int, rows: _Rows, concepts: Any) -> None:
        self.card, self.language, self.concepts = card, language, concepts
        self.X = _Matrix(card, rows)
        self.transposed = _Matrix(card, _transposed(card.cupy, rows), in_order=True)
        documents = len(concepts)
        one_each = card.cupy.arange(documents + 1), concepts.astype(np.int32), card.cupy.ones(documents, np.float32)
        one_hot = _Rows(*one_each, (documents, int(concepts.max()) + 1 if documents else 0))
        self.sums = _Matrix(card, _transposed(card.cupy, one_hot), in_order=True)
        self.nbytes = sum(matrix.nbytes for matrix in (self.X, self.transposed, self.sums))

    def chosen(self, kept: Mask) -> tuple[_Rows, Any]:
        """The documents of some concepts: their rows and their concepts."""
        cupy, X = self.card.cupy, self.X.rows
        rows = cupy.flatnonzero(cupy.asarray(kept)[self.concepts])
        begins = X.indptr[rows]
        indptr = cupy.concatenate([cupy.zeros(1, np.int64), cupy.cumsum(X.indptr[rows + 1] - begins)])
        owner = _owners(cupy, indptr)
        place = cupy.arange(len(owner)) + (begins - indptr[:-1])[owner]
        return _Rows(indptr, X.indices[place], X.data[place], (len(rows), X.shape[1])), self.concepts[rows]


class _Matrix:
    """A sparse matrix on the card that multiplies a dense block; ``in_order`` are the indices of its rows."""

    def __init__(self, card: _Card, rows: _Rows, in_order: bool = False) -> None:
        self.card, self.rows, self.shape = card, rows, rows.shape
        pieces = _cut(card.cupy.asnumpy(rows.indptr), rows.indices if in_order else None, rows.shape[1], card.cupy)
        self.pieces, self.partials = _Pieces(*map(card.cupy.asarray, pieces)), int(pieces.slots[-1])
        self.nbytes = sum(array.nbytes for array in (*rows[:3], *self.pieces))

    def times(self, V: Any, power: int | None = None) -> Any:
        """X V, or with the elements of X to a power, in double precision."""
        U = self.card.cupy.zeros((self.shape[0], V.shape[1]), V.dtype)
        self.add_times(V, U, self.rows.data if power is None else self.rows.data.astype(np.float64) ** power)
        return U

    def add_times(self, V: Any, U: Any, data: Any = None) -> None:
        """U += X V."""
        cupy, pieces, width = self.card.cupy, self.pieces, V.shape[1]
        data = self.rows.data if data is None else data
        if not U.size or not len(pieces.targets):
            return
        numbers = 16 // V.itemsize
        step = -(-width // numbers)  # vectors of 16 bytes in a row
        if width % numbers or not V.flags.c_contiguous or V.base is not None:  # a view may begin anywhere
            padded = cupy.empty((len(V), step * numbers), V.dtype)
            padded[:, :width] = V
            padded[:, width:] = 0
            V = padded
        multiply, add_up = self.card.kernels_for(data.dtype, V.dtype)
        partials = cupy.empty((self.partials, width), V.dtype)
        arrays = pieces.targets, pieces.begins, pieces.lengths, self.rows.indices, data, V
        panels = -(-step // (LANES * VECTORS))
        sizes = np.int64(step), np.int64(width)
        multiply((len(pieces.tasks) - 1, panels), (THREADS,), (pieces.tasks, *arrays, *sizes, U, partials))
        if len(pieces.cut):
            grid = len(pieces.cut), -(-width // 128)
            add_up(grid, (128,), (pieces.cut, pieces.slots, partials, np.int64(width), U))


class _Pieces(NamedTuple):
    """How the rows of a sparse matrix are cut and shared out.

    Piece i is lengths[i] nonzeros from begins[i] on. Its sum goes to row targets[i], or to partial sum
    ~targets[i]; row cut[r] is the sum of those from slots[r] up to slots[r + 1]. Task t is the pieces
    from tasks[t] up to tasks[t + 1].
    """

    targets: Any
    begins: Any
    lengths: Any
    tasks: Any
    cut: Any
    slots: Any


def _cut(indptr: Ints, indices: Any, columns: int, xp: Any) -> _Pieces:
    """Cut rows that have enough nonzeros for it where their columns leave a range, and what is still long evenly.

    ``indices`` are those of the matrix, on the card, or None where a row does not have them in order.
    """
    lengths, ranges = np.diff(indptr), -(-columns // RANGE)
    dense = (lengths >= LEAST * ranges) & (indices is not None and ranges > 1)
    row, place = _counted(np.where(dense, ranges, 1))
    near, begins = dense[row], indptr[row]
    if near.any():
        low, high, bounds = (xp.asarray(a) for a in (begins[near], indptr[row[near] + 1], place[near] * RANGE))
        begins[near] = xp.asnumpy(_first_at_least(xp, indices, low, high, bounds))
    sizes = np.diff(begins, append=indptr[-1])
    counts = -(-sizes // LONGEST)
    of, turn = _counted(counts)
    first, last = (begins[of] + sizes[of] * each // counts[of] for each in (turn, turn + 1))
    row, place, near = row[of], place[of], near[of]
    many = np.bincount(row, minlength=len(lengths))
    cut = np.flatnonzero(many > 1)
    targets = np.where(many[row] > 1, ~(np.cumsum(many[row] > 1) - 1), row)
    # Range by range, the longest pieces first, so that no warp is left with one in the end; then the other rows.
    order = np.lexsort((np.where(near, first - last, row), np.where(near, place, ranges)))
    sizes = (last - first)[order]
    return _Pieces(
        targets[order].astype(np.int32),
        first[order],
        sizes.astype(np.int32),
        _tasks(sizes, np.where(near, place, ranges)[order]),
        cut.astype(np.int32),
        np.concatenate([[0], np.cumsum(many[cut])]).astype(np.int32),
    )


def _counted(counts: Ints) -> tuple[Ints, Ints]:
    """0 as often as counts[0] says, 1 as often as counts[1], ...; and how often it has come before."""
    owner = np.repeat(np.arange(len(counts)), counts)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)


def _tasks(sizes: Ints, ranges: Ints) -> Ints:
    """Where tasks begin, and the end: each in one range, and of about equal work."""
    work = np.cumsum(sizes + 32) // TASK
    starts = np.flatnonzero((np.diff(work, prepend=-1) > 0) | (np.diff(ranges, prepend=-1) > 0))
    return np.append(starts, len(sizes)).astype(np.int32)


def _first_at_least(xp: Any, indices: Any, low: Any, high: Any, bounds: Any) -> Any:
    """The first place from low to high where the indices, which rise, reach a bound; or high."""
    for _ in range(int((high - low).max()).bit_length()):
        middle = (low + high) // 2
        less = (low < high) & (indices[xp.minimum(middle, len(indices) - 1)] < bounds)
        low, high = xp.where(less, middle + 1, low), xp.where(less, high, middle)
    return low


def _owners(xp: Any, indptr: Any) -> Any:
    """The row of every nonzero."""
    return (xp.searchsorted(indptr, xp.arange(int(indptr[-1])), side="right") - 1).astype(np.int32)


def _transposed(xp: Any, rows: _Rows) -> _Rows:
    """The same matrix by columns."""
    order = xp.argsort(rows.indices, kind="stable")
    begins = xp.searchsorted(rows.indices[order], xp.arange(rows.shape[1] + 1, dtype=np.int32))
    return _Rows(begins.astype(np.int64), _owners(xp, rows.indptr)[order], rows.data[order], rows.shape[::-1])
