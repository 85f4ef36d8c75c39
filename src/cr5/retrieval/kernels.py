"""The kernels of exact search: from products of candidates with queries to the best candidates and to ranks.

Products are candidates x queries. The kernels run without the global interpreter lock, on one thread each.
"""

import numpy as np

from cr5._typing import Array, Ints, Mask
from cr5.compiler import compiled

LANES = 64  # products that are compared at a time, which the compiler vectorises


@compiled
def _replace_worst(scores: Array, indices: Ints, score: float, index: int) -> None:
    """Replace the root of a heap, its worst score; of equal scores the one with the higher index is worse."""
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


@compiled
def keep_largest(products: Array, best: Array) -> None:
    """Push the products of each row onto that row's heap of its k largest."""
    k = best.shape[1]
    lanes, top, indices = np.empty(LANES, np.float32), np.empty(k, np.float32), np.zeros(k, np.int64)
    for c in range(len(products) if k else 0):
        heap = best[c]
        # lanes[i] is the maximum over positions congruent to i mod LANES. At least k products are >= the k-th largest
        # lane, so smaller ones can be skipped.
        lanes[:] = -np.inf
        for first in range(0, products.shape[1], LANES):
            piece = products[c, first : first + LANES]
            for i in range(len(piece)):
                lanes[i] = piece[i] if piece[i] > lanes[i] else lanes[i]
        top[:] = heap[0]
        for product in lanes:
            if product > top[0]:
                _replace_worst(top, indices, product, 0)
        for first in range(0, products.shape[1], LANES):
            piece = products[c, first : first + LANES]
            better = False
            for product in piece:
                better |= product >= top[0]
            if better:
                for product in piece:
                    if product >= top[0] and product > heap[0]:
                        _replace_worst(heap, indices, product, 0)


@compiled
def keep_top(
    products: Array, weight: float, penalty: Array, start: int, worst: Array, indices: Ints, scores: Array
) -> None:
    """Push candidates onto the heaps of the queries, whose roots have the scores ``worst``."""
    for c in range(len(products)):
        for first in range(0, len(worst), LANES):
            piece, least = products[c, first : first + LANES], worst[first : first + LANES]
            better = False
            for i in range(len(piece)):
                better |= weight * piece[i] - penalty[c] > least[i]
            if better:
                for i in range(len(piece)):
                    score = weight * piece[i] - penalty[c]
                    if score > least[i]:
                        _replace_worst(scores[first + i], indices[first + i], score, start + c)
                        least[i] = scores[first + i, 0]


@compiled
def count_no_worse(
    products: Array, weight: float, penalty: Array, least: Array, groups: Ints, starts: Ints, members: Ints,
    counts: Ints,
) -> None:  # fmt: skip
    """Count, for each query, the candidates of other concepts that score ``least`` or more."""
    for c in range(len(products)):
        row = products[c]
        for q in range(len(counts)):
            counts[q] += weight * row[q] - penalty[c] >= least[q]
        for q in members[starts[groups[c]] : starts[groups[c] + 1]]:
            counts[q] -= weight * row[q] - penalty[c] >= least[q]


@compiled
def best_counterpart_scores(
    products: Array, weight: float, penalty: Array, groups: Ints, starts: Ints, members: Ints, best: Array
) -> None:
    """Keep the score of each query's counterpart: the best candidate of the same concept."""
    for c in range(len(products)):
        for q in members[starts[groups[c]] : starts[groups[c] + 1]]:
            best[q] = max(best[q], weight * products[c, q] - penalty[c])


@compiled(fastmath={"reassoc", "contract"})
def multiply(rows: Array, query: Array) -> Array:
    """Products of one query with rows; with several threads, BLAS would mostly wait."""
    products = np.zeros(len(rows), np.float32)
    for row in range(len(rows)):
        product = np.float32(0)
        for j in range(rows.shape[1]):
            product += rows[row, j] * query[j]
        products[row] = product
    return products


@compiled(fastmath={"reassoc", "contract"})
def multiply_codes(
    codes: Array, scales: Array, live: Mask, begins: Ints, ends: Ints, query: Array, products: Array
) -> None:
    """Products of a query with quantised rows (int8), for several ranges of rows: scale (codes ' query).

    The product of a row that is not live, a deleted one, is -inf.
    """
    n = 0
    for part in range(len(begins)):
        for row in range(begins[part], ends[part]):
            product = np.float32(0)
            for j in range(codes.shape[1]):
                product += np.float32(codes[row, j]) * query[j]
            products[n] = product * scales[row] if live[row] else -np.inf
            n += 1


@compiled
def add_sparse_products(
    products: Array, weight: float, offsets: Ints, columns: Ints, values: Array,
    posting_offsets: Ints, posting_rows: Ints, posting_values: Array,
) -> None:  # fmt: skip
    """products[c, q] += weight c'q, for sparse candidates by row and sparse queries by column."""
    for c in range(len(products)):
        for i in range(offsets[c], offsets[c + 1]):
            value = weight * values[i]
            for j in range(posting_offsets[columns[i]], posting_offsets[columns[i] + 1]):
                products[c, posting_rows[j]] += value * posting_values[j]


@compiled
def row_products_with(
    size: int, own_columns: Ints, own_values: Array, offsets: Ints, columns: Ints, values: Array
) -> Array:
    """The products of sparse rows with one sparse row, which is spread over its ``size`` dimensions."""
    spread, products = np.zeros(size, np.float32), np.zeros(len(offsets) - 1, np.float32)
    for i in range(len(own_columns)):
        spread[own_columns[i]] += own_values[i]
    for row in range(len(products)):
        product = np.float32(0)
        for i in range(offsets[row], offsets[row + 1]):
            product += values[i] * spread[columns[i]]
        products[row] = product
    return products
