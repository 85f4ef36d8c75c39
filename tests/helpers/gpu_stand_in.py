"""A stand-in for CuPy: NumPy, with the kernels in Python. It has all of the GPU engine but CUDA."""

from contextlib import nullcontext
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from cr5._typing import Array
from cr5.training.engines.gpu_device import LANES, VECTORS, GpuSizes


class CudaError(RuntimeError):
    pass


class OutOfMemoryError(MemoryError):
    pass


def multiply(grid: tuple[int, int], block: tuple[int], given: tuple[Any, ...]) -> None:
    tasks, targets, begins, lengths, indices, data, V, step, width, U, partials = given
    assert grid[1] * LANES * VECTORS >= step == V.shape[1] * V.itemsize // 16
    if V.dtype == np.uint16:
        V = (V.astype(np.uint32) << 16).view(np.float32)
    for task in range(grid[0]):
        for piece in range(tasks[task], tasks[task + 1]):
            here = slice(begins[piece], begins[piece] + lengths[piece])
            row = data[here].astype(V.dtype) @ V[indices[here], :width]
            if targets[piece] < 0:
                partials[~targets[piece]] = row
            else:
                U[targets[piece]] += row


def add_rows(grid: tuple[int], block: tuple[int, int], given: tuple[Any, ...]) -> None:
    pieces, targets, begins, lengths, indices, V, width, U, partials = given
    assert grid[0] * block[1] >= pieces == len(targets)
    assert width == V.shape[1]
    for piece in range(pieces):
        total = V[indices[begins[piece] : begins[piece] + lengths[piece]]].sum(axis=0)
        if targets[piece] < 0:
            partials[~targets[piece]] = total
        else:
            U[targets[piece]] += total


def take_rows(grid: tuple[int], block: tuple[int, int], given: tuple[Any, ...]) -> None:
    rows, numbers, S, width, U = given
    assert grid[0] * block[1] >= rows == len(U)
    assert width == S.shape[1]
    U[:] = S[numbers]


def rounded(V: Array) -> Array:
    """The bits of numbers whose upper halves are the nearest bfloat16."""
    return np.where(np.isnan(V), np.uint32(0x7FC00000), V.view(np.uint32) + np.uint32(0x8000))


def round_numbers(grid: tuple[int], block: tuple[int], given: tuple[Any, ...]) -> None:
    count, V = given
    assert grid[0] * block[0] >= count == V.size
    V[:] = (rounded(V) & np.uint32(0xFFFF0000)).view(np.float32)


def to_bfloat16(grid: tuple[int], block: tuple[int, int], given: tuple[Any, ...]) -> None:
    rows, width, padded, V, halves = given
    assert grid[0] * block[1] >= rows == len(V)
    assert (width, padded) == (V.shape[1], halves.shape[1])
    halves[:] = 0
    halves[:, :width] = rounded(V) >> 16


def add_up(grid: tuple[int, int], block: tuple[int], given: tuple[Any, ...]) -> None:
    rows, slots, partials, width, U = given
    assert grid[1] * block[0] >= width
    for r in range(grid[0]):
        U[rows[r]] += partials[slots[r] : slots[r + 1]].sum(axis=0)


def asnumpy(array: Array, stream: None = None, out: Array | None = None) -> Array:
    if out is None:
        return np.array(array)
    out[:] = array
    return out


def stand_in(free: int = 2**40, failure: str = "") -> ModuleType:
    def properties(device: int) -> dict[str, bytes]:
        if failure:
            raise CudaError(failure)
        return {"name": b"Stand-in 1000"}

    class Module:
        def __init__(self, **_: Any) -> None:
            pass

        def get_function(self, name: str) -> Any:
            kernels = multiply, add_rows, take_rows, round_numbers, to_bfloat16, add_up
            return {each.__name__: each for each in kernels}[name]

    class Cupy(ModuleType):
        def __getattr__(self, name: str) -> Any:
            return getattr(np, name)

    cupy: Any = Cupy("cupy")
    runtime = SimpleNamespace(
        getDevice=lambda: 0,
        getDeviceProperties=properties,
        memGetInfo=lambda: (free, 2**40),
        CUDARuntimeError=CudaError,
        deviceSynchronize=lambda: None,
    )
    cupy.cuda = SimpleNamespace(runtime=runtime, memory=SimpleNamespace(OutOfMemoryError=OutOfMemoryError))
    cupy.get_default_memory_pool = lambda: SimpleNamespace(free_all_blocks=lambda: None, used_bytes=lambda: 3 * 10**9)
    cupy.cuda.alloc_pinned_memory, cupy.cuda.Stream = bytearray, lambda **_: None
    cupy.cuda.Device = lambda number: nullcontext()
    cupy.RawModule, cupy.asnumpy = Module, asnumpy
    return cupy  # type: ignore[no-any-return]


SMALL = GpuSizes(chunk_rows=20, range_rows=16, min_piece=4, max_piece=8, task_nonzeros=128, copy_bytes=100)
"""Small ranges, pieces and chunks, so that small matrices have several of each."""
