"""The products of two matrices' rows, block by block on all threads.

A block of products is processed while it is still in the cache, and the full matrix of products never exists.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import numpy as np

from cr5._typing import Array, Ints, Sparse
from cr5.machine import available_cores, one_blas_thread

Matrix: TypeAlias = Array | Sparse
Blocks: TypeAlias = Iterator[tuple[slice, Array]]
Result = TypeVar("Result")


@dataclass(frozen=True)
class BlockSizes:
    """How a search is divided into blocks and among threads, which affects memory and speed but not the result.

    queries: the largest block of queries. candidates: the smallest block of candidates. products: the largest block of
    products, unless that leaves too few candidates (2**19 float32 are 2 MB, which a core's cache holds).
    """

    queries: int = 8192
    candidates: int = 256
    products: int = 2**19
    threads: int = field(default_factory=available_cores)


def map_blocks(
    function: Callable[[Blocks], Result], rows: Matrix, columns: Matrix, sizes: BlockSizes, chosen: Ints | None = None
) -> list[Result]:
    """Call ``function`` on every thread with blocks of rows and their products with all columns.

    Each item is a slice of the rows, or of ``chosen``, the numbers of some of them, and the products, rows x columns.
    The threads share the blocks, and each gets its own in ascending order. Returns the result of every thread.
    """
    number = rows.shape[0] if chosen is None else len(chosen)
    step = max(sizes.candidates, min(sizes.products // max(columns.shape[0], 1), -(-number // sizes.threads)))
    starts = iter(range(0, number, step))  # next() on it is atomic, so that the threads can share it
    right: Any = columns.T
    right = right.tocsr() if _is_sparse(right) else np.asarray(right, np.float32)

    def blocks() -> Blocks:
        memory = np.empty(min(step, number) * right.shape[1], np.float32)
        for start in starts:
            block = slice(start, min(start + step, number))
            yield block, _product(rows[block if chosen is None else chosen[block]], right, memory)

    with one_blas_thread():
        if number <= step:
            return [function(blocks())]
        with ThreadPoolExecutor(sizes.threads) as pool:
            return list(pool.map(lambda _: function(blocks()), range(sizes.threads)))


def _product(left: Matrix, right: Any, memory: Array) -> Array:
    if _is_sparse(left) or _is_sparse(right):
        product: Any = left @ right
        return np.ascontiguousarray(product.toarray() if _is_sparse(product) else product, np.float32)
    out = memory[: left.shape[0] * right.shape[1]].reshape(left.shape[0], right.shape[1])
    return np.asarray(np.dot(np.asarray(left, np.float32), right, out=out))


def _is_sparse(matrix: Matrix) -> bool:
    return not isinstance(matrix, np.ndarray)
