"""The kernels of exact search: from products of candidates with queries to the best candidates and to ranks.

Products are candidates x queries. They run without the interpreter's lock, on one thread each.
"""

import numba
import numpy as np

from cr5._typing import Array, Ints, Mask

PIECE = 64  # products that are looked through together


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _replace_worst(scores: Array, indices: Ints, score: float, index: int) -> None:
    """Put a score in the place of the first, the worst of a heap; of equal scores the higher index is worse."""
    i, child = 0, 1
    while child < len(scores):
        other = child + 1
        if other < len(scores) and (
            scores[other] < scores[child] or (scores[other] == scores[child] and indices[other] > indices[child])
        ):
            child = other
        if scores[child] > score or (scores[child] == score and indices[child] < index):
            break
        scores[i], indices[i] = scores[child], indices[child]
        i, child = child, 2 * child + 1
    scores[i], indices[i] = score, index


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def keep_largest(products: Array, best: Array) -> None:
    """Put what is larger in a row of products into that row's heap."""
    k = best.shape[1]
    lanes, top, indices = np.empty(PIECE, np.float32), np.empty(k, np.float32), np.zeros(k, np.int64)
    for c in range(len(products) if k else 0):
        heap = best[c]
        # The largest of the products whose place leaves the same remainder: k products or more reach the k-th of
        # these, and few others do.
        lanes[:] = -np.inf
        for first in range(0, products.shape[1], PIECE):
            piece = products[c, first : first + PIECE]
            for i in range(len(piece)):
                lanes[i] = piece[i] if piece[i] > lanes[i] else lanes[i]
        top[:] = heap[0]
        for product in lanes:
            if product > top[0]:
                _replace_worst(top, indices, product, 0)
        for first in range(0, products.shape[1], PIECE):
            piece = products[c, first : first + PIECE]
            better = False
            for product in piece:
                better |= product >= top[0]
            if better:
                for product in piece:
                    if product >= top[0] and product > heap[0]:
                        _replace_worst(heap, indices, product, 0)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def keep_top(
    products: Array, weight: float, penalty: Array, start: int, worst: Array, indices: Ints, scores: Array
) -> None:
    """Put the candidates that are better than the ``worst`` of a query's heap into it."""
    for c in range(len(products)):
        for first in range(0, len(worst), PIECE):
            piece, least = products[c, first : first + PIECE], worst[first : first + PIECE]
            better = False
            for i in range(len(piece)):
                better |= weight * piece[i] - penalty[c] > least[i]
            if better:
                for i in range(len(piece)):
                    score = weight * piece[i] - penalty[c]
                    if score > least[i]:
                        _replace_worst(scores[first + i], indices[first + i], score, start + c)
                        least[i] = scores[first + i, 0]


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def count_no_worse(
    products: Array, weight: float, penalty: Array, least: Array, groups: Ints, starts: Ints, members: Ints,
    counts: Ints,
) -> None:  # fmt: skip
    """Count the candidates of other concepts that score ``least`` or more."""
    for c in range(len(products)):
        row = products[c]
        for q in range(len(counts)):
            counts[q] += weight * row[q] - penalty[c] >= least[q]
        for q in members[starts[groups[c]] : starts[groups[c] + 1]]:
            counts[q] -= weight * row[q] - penalty[c] >= least[q]


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def best_counterpart_scores(
    products: Array, weight: float, penalty: Array, groups: Ints, starts: Ints, members: Ints, best: Array
) -> None:
    """Keep the score of the best candidate of each query's own concept."""
    for c in range(len(products)):
        for q in members[starts[groups[c]] : starts[groups[c] + 1]]:
            best[q] = max(best[q], weight * products[c, q] - penalty[c])


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def multiply(rows: Array, query: Array) -> Array:
    """Products of a query with rows: for one query, BLAS would keep all cores busy with waiting."""
    products = np.zeros(len(rows), np.float32)
    for row in range(len(rows)):
        product = np.float32(0)
        for j in range(rows.shape[1]):
            product += rows[row, j] * query[j]
        products[row] = product
    return products


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def multiply_codes(
    codes: Array, scales: Array, alive: Mask, begins: Ints, ends: Ints, query: Array, products: Array
) -> None:
    """Products of a query with rows kept as whole numbers, range after range: scale (codes ' query).

    A row that is not alive gets the least there is.
    """
    n = 0
    for part in range(len(begins)):
        for row in range(begins[part], ends[part]):
            product = np.float32(0)
            for j in range(codes.shape[1]):
                product += np.float32(codes[row, j]) * query[j]
            products[n] = product * scales[row] if alive[row] else -np.inf
            n += 1
