"""One NVIDIA GPU: its memory, its kernels, and the errors when there is none or it is full.

The speed of a product X V is that of fetching a row of V for every nonzero, so the kernel is designed around the
caches: it multiplies a panel of columns at a time, narrow enough for the panel to fit into the second-level cache,
and takes the nonzeros of frequent words range by range of documents, whose rows then stay in the first-level cache
of the multiprocessor that works on them. Long rows are cut into pieces whose sums are added in a fixed order: the
same data give the same bits.
"""

import importlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from string import Template
from typing import Any, NamedTuple

import numpy as np

from cr5._typing import Array
from cr5.errors import Cr5Error, MissingPackageError
from cr5.machine import available_cores

THREADS = 256  # threads per block
LANES, VECTORS = 8, 1  # threads that fetch a row of a panel, 16 bytes each, and how often each of them does
BATCH = 2  # rows that they fetch before they add the first


@dataclass(frozen=True)
class GpuSizes:
    """How work is divided on the GPU: results differ in rounding only, memory and speed depend on it.

    A mapped function is called with ``chunk_rows`` rows at a time, so that sums in single precision and temporary
    arrays stay small. ``range_rows`` rows of a panel of V, 128 bytes each, fit into a first-level cache beside others.
    A row's nonzeros in a range become a piece of their own if there are ``min_piece``; a piece has at most
    ``max_piece``, which one warp processes alone, and a thread block about ``task_nonzeros``. Every ``copy_bytes`` of
    an array get a thread of their own on the way to the host.
    """

    chunk_rows: int = 2**18
    range_rows: int = 512
    min_piece: int = 32
    max_piece: int = 1024
    task_nonzeros: int = 2**14
    copy_bytes: int = 2**23


_SOURCE = Template("""
typedef $number T;
typedef $stored N;  // of V: T, or unsigned short for the upper half of a float, which is a bfloat16
typedef $weight S;
const int LANES = $lanes, VECTORS = $vectors, GROUPS = 32 / LANES, NUMBERS = 16 / sizeof(N);
const int BATCH = $batch;  // nonzeros that each group fetches before it adds
struct __align__(16) Vector { N at[NUMBERS]; };

__device__ __forceinline__ float number(float stored) { return stored; }
__device__ __forceinline__ double number(double stored) { return stored; }
__device__ __forceinline__ float number(unsigned short stored) { return __uint_as_float(unsigned(stored) << 16); }

// U += X V. A thread block takes one task, some pieces of rows of X, for one panel of columns; a warp takes
// one piece after another. Its groups of lanes each fetch the row of V of another nonzero.
// Six blocks fit on a multiprocessor where a thread has 40 registers, five where it has 48; more threads hide more
// waiting, and sums of twice as many columns need more registers.
extern "C" __global__ void __launch_bounds__($threads, sizeof(N) < sizeof(T) ? 5 : 6) multiply(
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
                        for (int i = 0; i < NUMBERS; i++) sum[v][i] += a * number(found[b][v].at[i]);
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

// As multiply, for weights of 1 and V whose rows have ``width`` numbers. A row of threads takes one piece.
extern "C" __global__ void add_rows(
    int pieces, const int* __restrict__ targets, const long long* __restrict__ begins,
    const int* __restrict__ lengths, const int* __restrict__ indices, const T* __restrict__ V, long long width,
    T* __restrict__ U, T* __restrict__ partials)
{
    const long long piece = (long long) blockIdx.x * blockDim.y + threadIdx.y;
    if (piece >= pieces) return;
    const long long target = targets[piece], begin = begins[piece];
    const int length = lengths[piece];
    for (long long place = threadIdx.x; place < width; place += blockDim.x) {
        T total = 0;
        for (int k = 0; k < length; k++) total += V[indices[begin + k] * width + place];
        if (target < 0) partials[~target * width + place] = total;
        else U[target * width + place] += total;
    }
}

// U[r] = S[numbers[r]]
extern "C" __global__ void take_rows(
    long long rows, const long long* __restrict__ numbers, const T* __restrict__ S, long long width, T* __restrict__ U)
{
    const long long row = (long long) blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    const T* from = S + numbers[row] * width;
    for (long long place = threadIdx.x; place < width; place += blockDim.x) U[row * width + place] = from[place];
}

// To the nearest bfloat16. NaN stays NaN: adding to its bits could overflow to zero, and hide it.
__device__ __forceinline__ unsigned rounded(float value)
{
    return value == value ? (__float_as_uint(value) + 0x8000u) & 0xffff0000u : 0x7fc00000u;
}

// V = V rounded to bfloat16
extern "C" __global__ void round_numbers(long long count, float* V)
{
    const long long place = (long long) blockIdx.x * blockDim.x + threadIdx.x;
    if (place < count) V[place] = __uint_as_float(rounded(V[place]));
}

// The upper halves of the numbers of V, rounded to bfloat16, in rows of ``padded`` numbers.
extern "C" __global__ void to_bfloat16(
    long long rows, long long width, long long padded, const float* __restrict__ V, unsigned short* __restrict__ halves)
{
    const long long row = (long long) blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    for (long long place = threadIdx.x; place < padded; place += blockDim.x)
        halves[row * padded + place] = place < width ? rounded(V[row * width + place]) >> 16 : 0;
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
_IN_C = {"float32": "float", "float64": "double", "uint16": "unsigned short"}
_SHAPE = {"threads": THREADS, "lanes": LANES, "vectors": VECTORS, "batch": BATCH}


def may_be_rounded(V: Any) -> bool:
    """Whether products round an array where they may: it is of single precision and not a part of another array."""
    return bool(V.dtype == np.float32 and V.flags.c_contiguous and V.base is None)


class Kernels(NamedTuple):
    """The compiled functions of ``_SOURCE``."""

    multiply: Any
    add_rows: Any
    take_rows: Any
    round_numbers: Any
    to_bfloat16: Any
    add_up: Any


class Device:
    """The GPU that CuPy finds, and the transfer of arrays and functions to and from it."""

    def __init__(self, sizes: GpuSizes | None = None) -> None:
        self.sizes = sizes or GpuSizes()
        try:
            self.cupy: Any = importlib.import_module("cupy")
        except ImportError as error:
            if isinstance(error, ModuleNotFoundError) and error.name == "cupy":
                raise MissingPackageError(
                    "the gpu engine needs CuPy; install it with pip install 'cr5[gpu]'"
                ) from error
            why = str(error).strip().splitlines()[-1]
            raise Cr5Error(
                f"the gpu engine cannot load CuPy ({why}); install the one for your version of CUDA, "
                'or use `engine="cpu"`'
            ) from error
        runtime = self.cupy.cuda.runtime
        try:
            self.number = runtime.getDevice()
            self.name = runtime.getDeviceProperties(self.number)["name"].decode()
            self.pool = self.cupy.get_default_memory_pool()
        except runtime.CUDARuntimeError as error:
            raise Cr5Error(
                f"the gpu engine found no working NVIDIA GPU ({error}); "
                'check the output of nvidia-smi, or use `engine="cpu"`'
            ) from error
        self.kernels: dict[tuple[str, str, str], Kernels] = {}

    def kernels_for(self, weights: Any, stored: Any, numbers: Any) -> "Kernels":
        """The kernels for X of one dtype, V stored in another, and U of a third, compiled on first use."""
        types = _IN_C[str(weights)], _IN_C[str(stored)], _IN_C[str(numbers)]
        if types not in self.kernels:
            source = _SOURCE.substitute(weight=types[0], stored=types[1], number=types[2], **_SHAPE)
            module = self.cupy.RawModule(code=source, options=("-std=c++17",))
            self.kernels[types] = Kernels(*map(module.get_function, Kernels._fields))
        return self.kernels[types]

    def round(self, V: Any) -> None:
        """Round an array of single precision to bfloat16, in place."""
        if may_be_rounded(V) and V.size:
            round_numbers = self.kernels_for(V.dtype, V.dtype, V.dtype).round_numbers
            round_numbers((-(-V.size // THREADS),), (THREADS,), (np.int64(V.size), V))

    def send(self, value: Any) -> Any:
        """A value on the GPU: an array, or a function with the arrays that are bound to it."""
        if isinstance(value, np.ndarray):
            return self.cupy.asarray(value)
        if isinstance(value, partial):
            keywords = {name: self.send(each) for name, each in value.keywords.items()}
            return partial(self.send(value.func), *map(self.send, value.args), **keywords)
        return value

    def fetch(self, value: Any) -> Any:
        """A result as NumPy arrays in double precision: an array, a tuple of them, or None."""
        if isinstance(value, tuple):
            return tuple(self.fetch(each) for each in value)
        return value if value is None else self.cupy.asnumpy(value).astype(np.float64, copy=False)

    def copy(self, array: Any) -> Array:
        """A copy on the host. Large arrays go through page-locked memory, which the GPU writes to directly."""
        if array.nbytes <= self.sizes.copy_bytes:
            return np.asarray(self.cupy.asnumpy(array))
        result = np.empty(array.shape, array.dtype)
        step = max(1, self.sizes.copy_bytes // array[:1].nbytes)
        self.cupy.cuda.runtime.deviceSynchronize()  # the array was computed on another stream than those that copy it

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
        """The free bytes of the GPU, after CuPy has released its memory pool."""
        self.pool.free_all_blocks()
        return int(self.cupy.cuda.runtime.memGetInfo()[0])

    @contextmanager
    def memory_errors(self) -> Iterator[None]:
        """Within this block, running out of memory raises a Cr5Error."""
        try:
            yield
        except self.cupy.cuda.memory.OutOfMemoryError as error:
            used = self.pool.used_bytes()
            raise Cr5Error(
                f"the {self.name} ran out of memory with {used / 1e9:.1f} GB in use ({error}); "
                'use `engine="cpu"`, or lower `rank`'
            ) from error
