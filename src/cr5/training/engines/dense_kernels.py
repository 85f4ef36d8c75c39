"""The compiled loops for products of dense matrices of which one has few rows or columns.

A panel of B, as wide as registers allow, is copied to whole, aligned cache lines; for a few rows of A at a time, its
products are added up in registers. BLAS copies A as well, which pays in a product of large matrices, but not here; and
it is half as fast where it takes a processor for an older one. To the last bit, an element of the result does not
depend on the rows and columns beside it.
"""

import llvmlite.binding
import numba
import numpy as np

from cr5._typing import Array
from cr5.machine.compiler import compiled
from cr5.training.engines.vectors import aligned, flat, has_whole_rows, load, multiply_add, store, zero_lanes

_DEPTH = 128  # numbers that are added up before the sum is added to others
_ROWS = 6  # rows of a tile, the part of the result that is in registers
_BLOCK = 56 * _ROWS  # rows of A and C that fit into the second-level cache
# Bytes of a row of a tile: of the registers, 24 of 32 hold a tile with AVX-512, and 12 of 16, half as wide, with AVX2.
_WIDTH = 256 if llvmlite.binding.get_host_cpu_features().get("avx512f") else 64


@numba.njit  # type: ignore[untyped-decorator]
def _add_tile(
    top: int, last: int, depth: int, A: Array, A_step: int, step: int, panel: Array, C: Array, C_step: int, place: int
) -> None:
    """C += A panel for six rows from ``top`` on; the last row stands in for those beyond it, with the same result."""
    i0, i1, i2 = top, min(top + 1, last), min(top + 2, last)
    i3, i4, i5 = min(top + 3, last), min(top + 4, last), min(top + 5, last)
    p0, p1, p2 = place + i0 * C_step, place + i1 * C_step, place + i2 * C_step
    p3, p4, p5 = place + i3 * C_step, place + i4 * C_step, place + i5 * C_step
    # Unsigned indices need no check for negative ones.
    a0, a1, a2 = np.uint64(i0 * A_step), np.uint64(i1 * A_step), np.uint64(i2 * A_step)
    a3, a4, a5 = np.uint64(i3 * A_step), np.uint64(i4 * A_step), np.uint64(i5 * A_step)
    zero, width, one = zero_lanes(C, _WIDTH), _WIDTH // C.itemsize, C.dtype.type(1)
    c0, c1, c2, c3, c4, c5 = zero, zero, zero, zero, zero, zero
    for k in range(depth):
        v, j = load(zero, panel, k * width), np.uint64(k * step)
        c0, c1, c2 = multiply_add(A[a0 + j], v, c0), multiply_add(A[a1 + j], v, c1), multiply_add(A[a2 + j], v, c2)
        c3, c4, c5 = multiply_add(A[a3 + j], v, c3), multiply_add(A[a4 + j], v, c4), multiply_add(A[a5 + j], v, c5)
    c0, c1 = multiply_add(one, load(zero, C, p0), c0), multiply_add(one, load(zero, C, p1), c1)
    c2, c3 = multiply_add(one, load(zero, C, p2), c2), multiply_add(one, load(zero, C, p3), c3)
    c4, c5 = multiply_add(one, load(zero, C, p4), c4), multiply_add(one, load(zero, C, p5), c5)
    store(c0, C, p0)
    store(c1, C, p1)
    store(c2, C, p2)
    store(c3, C, p3)
    store(c4, C, p4)
    store(c5, C, p5)


@compiled
def _add_product(
    A: Array, A_step: int, step: int, B: Array, B_step: int, depth: int, C: Array, symmetric: bool, panels: Array,
    edge: Array,
) -> None:  # fmt: skip
    """C += A B, copied to below the diagonal if it is symmetric. Panels and edge are memory for all of B and a tile."""
    rows, columns = C.shape
    flat_C, width, zero = C.reshape(-1), _WIDTH // C.itemsize, zero_lanes(C, _WIDTH)
    for low in range(0, rows, _BLOCK):
        for begin in range(0, depth, _DEPTH):
            few, some_A = min(_DEPTH, depth - begin), A[begin * step :]
            for k in range(few):
                for left in range(0, columns, width):
                    place, first = left * _DEPTH + k * width, (begin + k) * B_step + left
                    if left + width <= columns:
                        store(load(zero, B, first), panels, place)
                        continue
                    for j in range(columns - left):
                        panels[place + j] = B[first + j]
            for left in range(0, columns, width):
                here, panel = min(width, columns - left), panels[left * _DEPTH :]
                high = min(low + _BLOCK, left + here if symmetric else rows, rows)
                for top in range(low, high, _ROWS):
                    if here == width:
                        _add_tile(top, rows - 1, few, some_A, A_step, step, panel, flat_C, columns, left)
                        continue
                    some_C = C[top : top + _ROWS, left:]
                    for i in range(len(some_C)):
                        for j in range(here):
                            edge[i * width + j] = some_C[i, j]
                    _add_tile(top, rows - 1, few, some_A, A_step, step, panel, edge, width, -top * width)
                    for i in range(len(some_C)):
                        for j in range(here):
                            some_C[i, j] = edge[i * width + j]
    if symmetric:
        for i in range(rows):
            for j in range(i):
                C[i, j] = C[j, i]


def add_product(A: Array, B: Array, C: Array, *, symmetric: bool = False) -> None:
    """C += A B in the dtype of C; A may be the transpose of an array."""
    A, B = A.astype(C.dtype, copy=False), B.astype(C.dtype, copy=False)
    if has_whole_rows(A):
        (memory, A_step), step = flat(A), 1
    else:
        (memory, step), A_step = flat(A.T if has_whole_rows(A.T) else np.ascontiguousarray(A.T)), 1
    of_B, B_step = flat(B if has_whole_rows(B) else np.ascontiguousarray(B))
    width = _WIDTH // C.itemsize
    of_panels = -(-C.shape[1] // width) * width * _DEPTH
    buffer = aligned((of_panels + width * _ROWS) * C.itemsize).view(C.dtype)
    _add_product(
        memory, A_step, step, of_B, B_step, len(B), C, symmetric, buffer[:of_panels], buffer[of_panels:]
    )  # fmt: skip
