"""The products of the rows of matrices, block by block on all threads; several views of the same rows are added.

A block of products is processed while it is still in the cache, and the full matrix of products never exists.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, TypeAlias, TypeVar

import numpy as np

from cr5._typing import Array, Ints, Mask, Sparse
from cr5.errors import Cr5Error
from cr5.machine import available_cores, one_blas_thread
from cr5.retrieval.sparse_rows import arrays_of

Matrix: TypeAlias = Array | Sparse
Blocks: TypeAlias = Iterator[tuple[slice, list[Array]]]
Result = TypeVar("Result")
FEW_ROWS = 16  # up to this many rows are multiplied one by one


@dataclass(frozen=True)
class WeightedView:
    """One view of queries and candidates: it adds weight q'c to a score.

    queries, candidates: rows of as many dimensions, dense or sparse, the same texts in every view. ``background`` are
    rows in the language of the queries over which CSLS takes neighbourhoods, by default the queries.
    """

    queries: Matrix
    candidates: Matrix
    weight: float = 1.0
    background: Matrix | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.weight < np.inf:
            raise Cr5Error(f"`weight={self.weight:g}` must be 0 or more; the weight 0 switches a view off")
        if self.queries.shape[1] != self.candidates.shape[1]:  # the kernels would read memory of other arrays
            raise Cr5Error(
                f"`queries` have {self.queries.shape[1]:,} dimensions and `candidates` {self.candidates.shape[1]:,}; "
                "give rows of the same view"
            )

    def select_queries(self, rows: "Mask | Ints | slice") -> "WeightedView":
        """Only some of the queries; the background stays."""
        return replace(self, queries=self.queries[rows])


@dataclass(frozen=True)
class BlockSizes:
    """How a search is divided into blocks and among threads, which affects memory and speed but not the result.

    queries: the largest block of queries. candidates: the smallest block of candidates. products: the largest block of
    products, unless that leaves too few candidates (2**19 float32 are 2 MB, which a core's cache holds). Up to
    products_on_one_thread, the work is done before further threads would have started.
    """

    queries: int = 8192
    candidates: int = 256
    products: int = 2**19
    products_on_one_thread: int = 2**15
    threads: int = field(default_factory=available_cores)


def map_blocks(
    function: Callable[[Blocks], Result],
    views: Sequence[WeightedView],
    sizes: BlockSizes,
    candidate_rows: Ints | None = None,
) -> list[Result]:
    """Call ``function`` on every thread with blocks of candidates and their products with all queries.

    Each item is a slice of the candidates, or of ``candidate_rows``, the positions of some of them, and for every view
    its weighted products, candidates x queries. The threads share the blocks, and each gets its own in ascending order.
    Returns the result of every thread.
    """
    number = views[0].candidates.shape[0] if candidate_rows is None else len(candidate_rows)
    queries = views[0].queries.shape[0]
    step = max(sizes.candidates, min(sizes.products // max(queries, 1), -(-number // sizes.threads)))
    starts = iter(range(0, number, step))  # next() on it is atomic, so that the threads can share it
    factors = [_right_factor(view.queries, view.weight) for view in views]

    def blocks() -> Blocks:
        memory = [np.empty(min(step, number) * queries, np.float32) for _ in views]
        for start in starts:
            block = slice(start, min(start + step, number))
            rows = block if candidate_rows is None else candidate_rows[block]
            yield (
                block,
                [
                    _product(view.candidates[rows], right, out)
                    for view, right, out in zip(views, factors, memory, strict=True)
                ],
            )

    with one_blas_thread():
        if number <= step or number * queries <= sizes.products_on_one_thread:
            return [function(blocks())]
        with ThreadPoolExecutor(sizes.threads) as pool:
            return list(pool.map(lambda _: function(blocks()), range(sizes.threads)))


def multiply_rows(left: Matrix, right: Matrix) -> Array:
    """The inner products of all rows of two small matrices, dense or sparse: rows of left x rows of right."""
    if left.shape[0] <= FEW_ROWS and _is_sparse(left) and _is_sparse(right):
        # The transposed matrix, which is stored by dimensions, would take longer to make than the products.
        chosen = np.broadcast_to(np.arange(right.shape[0]), (left.shape[0], right.shape[0]))
        return multiply_chosen(left, right, chosen)
    memory = np.empty(left.shape[0] * right.shape[0], np.float32)
    return _product(left, _right_factor(right), memory)


def multiply_chosen(left: Matrix, right: Matrix, chosen: Ints) -> Array:
    """The inner products of each row of left with its own choice of rows of right: rows of left x choices."""
    if chosen.size and not 0 <= chosen.min() <= chosen.max() < right.shape[0]:  # the kernel would not notice
        raise IndexError(f"rows {chosen.min()} to {chosen.max()} are chosen, and there are {right.shape[0]}, from 0 on")
    products = np.empty(chosen.shape, np.float32)
    if _is_sparse(left) and _is_sparse(right):
        from cr5.retrieval.kernels import sparse_products

        (offsets, columns, values), matrix = arrays_of(left), arrays_of(right)
        for i, (start, end) in enumerate(pairwise(offsets.tolist())):
            products[i] = sparse_products(columns[start:end], values[start:end], *matrix, chosen[i])
        return products
    for i, rows in enumerate(chosen):
        products[i] = _product(right[rows], _right_factor(left[i : i + 1]), products[i])[:, 0]
    return products


def multiply_pairs(left: Matrix, right: Matrix, rows: Ints, columns: Ints) -> Array:
    """The inner products of row ``rows[i]`` of left and row ``columns[i]`` of right; the rows ascend."""
    if not (_is_sparse(left) and _is_sparse(right)):
        return np.asarray((left[rows] * right[columns]).sum(axis=1), np.float32).ravel()
    from cr5.retrieval.kernels import sparse_products

    products = np.empty(len(rows), np.float32)
    (offsets, left_columns, values), matrix = arrays_of(left), arrays_of(right)
    starts = [*np.flatnonzero(np.diff(rows, prepend=-1)).tolist(), len(rows)]
    for begin, end in pairwise(starts):
        row = slice(offsets[rows[begin]], offsets[rows[begin] + 1])
        products[begin:end] = sparse_products(left_columns[row], values[row], *matrix, columns[begin:end])
    return products


def _right_factor(queries: Matrix, weight: float = 1) -> Any:
    """weight queries', the factor that every block of candidates is multiplied with."""
    right: Any = queries.T
    right = right.tocsr() if _is_sparse(right) else np.asarray(right, np.float32)
    return right if weight == 1 else right * np.float32(weight)


def _product(left: Matrix, right: Any, memory: Array) -> Array:
    if _is_sparse(left) and _is_sparse(right):
        from cr5.retrieval.kernels import add_sparse_products

        # Right is stored by its rows, the dimensions: the queries of each.
        out = memory[: left.shape[0] * right.shape[1]].reshape(left.shape[0], right.shape[1])
        out[:] = 0
        add_sparse_products(out, np.float32(1), *arrays_of(left), *arrays_of(right))
        return out
    if _is_sparse(left) or _is_sparse(right):
        product: Any = left @ right
        return np.ascontiguousarray(product.toarray() if _is_sparse(product) else product, np.float32)
    out = memory[: left.shape[0] * right.shape[1]].reshape(left.shape[0], right.shape[1])
    return np.asarray(np.dot(np.asarray(left, np.float32), right, out=out))


def _is_sparse(matrix: Matrix) -> bool:
    return not isinstance(matrix, np.ndarray)
