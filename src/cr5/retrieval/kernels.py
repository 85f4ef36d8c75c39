"""The kernels of exact search: from products of candidates with queries to the best candidates and to ranks.

Products are candidates x queries. The kernels run without the global interpreter lock, on one thread each.
"""

import numpy as np

from cr5._typing import Array, Ints, Mask
from cr5.machine.compiler import compiled, count_bits, prefetch

LANES = 64  # products compared at a time, which the compiler vectorises
ROWS_AT_ONCE = 32  # rows of sign codes compared at a time
CACHE_LINE = 64  # bytes
ROWS_AHEAD = 8  # how many rows earlier those that are scattered are fetched
EMPTY = -1  # an empty entry of a hash table
# Entries of a hash table per column; a larger table is faster to search and slower to build.
SLOTS_TO_FIND, SLOTS_TO_ADD = 16, 4


@compiled
def replace_worst(scores: Array, indices: Ints, score: float, index: int) -> None:
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
                replace_worst(top, indices, product, 0)
        for first in range(0, products.shape[1], LANES):
            piece = products[c, first : first + LANES]
            better = False
            for product in piece:
                better |= product >= top[0]
            if better:
                for product in piece:
                    if product >= top[0] and product > heap[0]:
                        replace_worst(heap, indices, product, 0)


@compiled
def keep_top(
    products: Array, weight: float, penalty: Array, start: int, worst: Array, indices: Ints, scores: Array
) -> None:
    """Push candidates onto the heaps of the queries, whose roots have the scores ``worst``."""
    for c in range(len(products)):
        for first in range(0, len(worst), LANES):
            piece, thresholds = products[c, first : first + LANES], worst[first : first + LANES]
            better = False
            for i in range(len(piece)):
                better |= weight * piece[i] - penalty[c] > thresholds[i]
            if better:
                for i in range(len(piece)):
                    score = weight * piece[i] - penalty[c]
                    if score > thresholds[i]:
                        replace_worst(scores[first + i], indices[first + i], score, start + c)
                        thresholds[i] = scores[first + i, 0]


@compiled
def keep_top_both(
    products: Array, rows: Ints, columns: Ints, offset: int, row_scores: Array, row_indices: Ints,
    column_scores: Array, column_indices: Ints,
) -> None:  # fmt: skip
    """Push products onto the heaps of their rows, with offset + column, and of their columns, with the row.

    The heaps are those of ``rows`` and ``columns``, the numbers of the rows and columns of the products.
    """
    worst = np.empty(len(columns), np.float32)
    for i in range(len(columns)):
        worst[i] = column_scores[columns[i], 0]
    for r in range(len(rows)):
        heap, indices = row_scores[rows[r]], row_indices[rows[r]]
        for first in range(0, len(columns), LANES):
            piece, thresholds, worst_of_row = products[r, first : first + LANES], worst[first : first + LANES], heap[0]
            better = False
            for i in range(len(piece)):
                better |= (piece[i] > thresholds[i]) | (piece[i] > worst_of_row)
            if better:
                for i in range(len(piece)):
                    column = columns[first + i]
                    if piece[i] > thresholds[i]:
                        replace_worst(column_scores[column], column_indices[column], piece[i], rows[r])
                        thresholds[i] = column_scores[column, 0]
                    if piece[i] > heap[0]:
                        replace_worst(heap, indices, piece[i], offset + column)


@compiled
def count_no_worse(
    products: Array, weight: float, penalty: Array, thresholds: Array, groups: Ints, starts: Ints, members: Ints,
    counts: Ints,
) -> None:  # fmt: skip
    """Count, for each query, the candidates of other concepts that score as much as its threshold or more."""
    for c in range(len(products)):
        row = products[c]
        for q in range(len(counts)):
            counts[q] += weight * row[q] - penalty[c] >= thresholds[q]
        for q in members[starts[groups[c]] : starts[groups[c] + 1]]:
            counts[q] -= weight * row[q] - penalty[c] >= thresholds[q]


@compiled
def best_counterpart_scores(
    products: Array, weight: float, penalty: Array, groups: Ints, starts: Ints, members: Ints, best: Array
) -> None:
    """Keep the score of each query's counterpart: the best candidate of the same concept."""
    for c in range(len(products)):
        for q in members[starts[groups[c]] : starts[groups[c] + 1]]:
            best[q] = max(best[q], weight * products[c, q] - penalty[c])


@compiled(fastmath={"reassoc", "contract"})
def multiply_vector(rows: Array, query: Array) -> Array:
    """Products of one query with rows; with several threads, BLAS would mostly wait."""
    products = np.zeros(len(rows), np.float32)
    for row in range(len(rows)):
        product = np.float32(0)
        for j in range(rows.shape[1]):
            product += rows[row, j] * query[j]
        products[row] = product
    return products


@compiled(fastmath={"reassoc", "contract"})
def multiply_bytes(scales: Array, numbers: Array, query: Array) -> Array:
    """Products of one query with rows of bytes (int8), each with its scale."""
    products = np.empty(len(numbers), np.float32)
    for row in range(len(numbers)):
        product = np.float32(0)
        for j in range(numbers.shape[1]):
            product += np.float32(numbers[row, j]) * query[j]
        products[row] = scales[row] * product
    return products


@compiled
def keep_nearest_signs(
    signs: Array, factors: Array, live: Mask, begins: Ints, ends: Ints, bases: Array, planes: Array, step: float,
    least: float, total: float, first: int, scores: Array, rows: Ints,
) -> None:  # fmt: skip
    """Push the rows of several ranges onto the heap of those with the largest estimated product with a query.

    The estimate is that of ``cr5.index.sign_codes``, with four bit planes. ``first`` is the number of the first row.
    Rows that are not live, deleted ones, are left out.
    """
    for_weighted, for_positive, constant = np.float32(2 * step), np.float32(2 * least), np.float32(total)
    words, all_words = signs.shape[1], signs.reshape(-1)
    # The loops over the words of several rows, and over these rows, are vectorised. A count has both the weighted
    # number of bits, in its lower half, and that of positive signs.
    repeated = np.empty((4, ROWS_AT_ONCE * words), np.uint64)
    for i in range(repeated.shape[1]):
        repeated[:, i] = planes[:, i % words]
    plane0, plane1, plane2, plane3 = repeated
    word_counts, counts = np.empty(ROWS_AT_ONCE * words, np.int64), np.empty(ROWS_AT_ONCE, np.int64)
    estimates = np.empty(ROWS_AT_ONCE, np.float32)
    for part in range(len(begins)):
        for row in range(begins[part], ends[part], ROWS_AT_ONCE):
            n = min(ROWS_AT_ONCE, ends[part] - row)
            if part + 1 < len(begins):  # what the processor does not expect: the rows of the next range
                ahead = begins[part + 1] + row - begins[part]
                end = min(ahead + ROWS_AT_ONCE, ends[part + 1])
                for i in range(ahead * words, end * words, CACHE_LINE // signs.itemsize):
                    prefetch(all_words, i)
                for i in range(ahead, end, CACHE_LINE // factors.itemsize):
                    prefetch(factors, i)
            own_words, own_factors = all_words[row * words : (row + n) * words], factors[row : row + n]
            for i in range(len(own_words)):
                word = own_words[i]
                weighted = count_bits(word & plane0[i]) + (count_bits(word & plane1[i]) << 1)
                weighted += (count_bits(word & plane2[i]) << 2) + (count_bits(word & plane3[i]) << 3)
                word_counts[i] = weighted + (count_bits(word) << 32)
            counts[:] = 0
            for i in range(words):
                for j in range(n):
                    counts[j] += word_counts[j * words + i]
            better = False
            for j in range(n):
                weighted, positive = np.float32(np.int32(counts[j])), np.float32(np.int32(counts[j] >> 32))
                product = for_weighted * weighted + for_positive * positive - constant
                estimates[j] = bases[part] + own_factors[j] * product
                better |= estimates[j] > scores[0]
            if better:
                for j in range(n):
                    if estimates[j] > scores[0] and live[row + j]:
                        replace_worst(scores, rows, estimates[j], first + row + j)


@compiled
def decode_codes(scales: Array, coarse: Array, fine: Array, steps: float, rows: Ints, out: Array) -> None:
    """out = scale (coarse + fine / steps) for some rows of quantised vectors (int8)."""
    step = np.float32(1) / np.float32(steps)
    for i in range(len(rows)):
        for j in range(coarse.shape[1]):
            number = np.float32(coarse[rows[i], j]) + np.float32(fine[rows[i], j]) * step
            out[i, j] = scales[rows[i]] * number


@compiled(fastmath={"reassoc", "contract"})
def multiply_codes(scales: Array, coarse: Array, fine: Array, steps: float, rows: Ints, query: Array) -> Array:
    """Products of one query with some rows of quantised vectors, as ``decode_codes`` would decode them."""
    products, step = np.zeros(len(rows), np.float32), np.float32(1) / np.float32(steps)
    rank, all_coarse, all_fine = coarse.shape[1], coarse.reshape(-1), fine.reshape(-1)
    for i in range(len(rows)):
        if i + ROWS_AHEAD < len(rows):
            first = rows[i + ROWS_AHEAD] * rank
            for j in range(first, first + rank, CACHE_LINE):
                prefetch(all_coarse, j)
                prefetch(all_fine, j)
        product = np.float32(0)
        for j in range(coarse.shape[1]):
            number = np.float32(coarse[rows[i], j]) + np.float32(fine[rows[i], j]) * step
            product += number * query[j]
        products[i] = scales[rows[i]] * product
    return products


@compiled(fastmath={"reassoc", "contract"})
def keep_nearest(rows: Array, query: Array, chosen: Mask, scores: Array, best: Ints) -> None:
    """Push the chosen rows onto the heap of those with the largest products with a query."""
    for row in range(len(rows)):
        if chosen[row]:
            product = np.float32(0)
            for j in range(rows.shape[1]):
                product += rows[row, j] * query[j]
            if product > scores[0]:
                replace_worst(scores, best, product, row)


@compiled
def means_of_nearest(rows: Array, query: Array, starts: Ints, k: int) -> Array:
    """The mean of the k largest products of a query with each group of rows, ``starts[i]`` to ``starts[i + 1]``."""
    products, means = multiply_vector(rows, query).reshape(1, -1), np.zeros(len(starts) - 1, np.float32)
    for group in range(len(means)):
        own = products[:, starts[group] : starts[group + 1]]
        largest = np.full((1, min(k, own.shape[1])), -np.inf, np.float32)
        if largest.size:
            keep_largest(own, largest)
            means[group] = largest.sum() / largest.size
    return means


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
def sparse_products(
    query_columns: Ints, query_values: Array, offsets: Ints, columns: Ints, values: Array, chosen: Ints
) -> Array:
    """The products of one sparse row, the query, with the chosen rows of a sparse matrix, float32.

    The matrix has row i at ``offsets[i]`` to ``offsets[i + 1]`` of its columns and values, in any order. The time is
    that of reading the chosen rows, however many columns and rows there are.
    """
    mask = _table_mask(SLOTS_TO_FIND * len(query_columns))
    keys, table = np.full(mask + 1, EMPTY, np.int32), np.zeros(mask + 1, np.float32)
    products = np.empty(len(chosen), np.float32)
    for i in range(len(query_columns)):
        slot = _slot(keys, query_columns[i], mask)
        keys[slot] = query_columns[i]
        table[slot] += query_values[i]
    for i in range(len(chosen)):
        product = np.float32(0)
        for j in range(offsets[chosen[i]], offsets[chosen[i] + 1]):
            product += values[j] * table[_slot(keys, columns[j], mask)]  # an empty slot has 0
        products[i] = product
    return products


@compiled
def multiply_sparse(
    left_offsets: Ints, left_columns: Ints, left_values: Array,
    right_offsets: Ints, right_columns: Ints, right_values: Array,
) -> tuple[Ints, Ints, Array]:  # fmt: skip
    """The product of two sparse matrices by rows, in time and memory that do not depend on the number of columns.

    The columns of a row are in the order in which they first occur.
    """
    rows = len(left_offsets) - 1
    offsets, most, longest = np.zeros(rows + 1, np.int64), np.zeros(rows, np.int64), 0
    for row in range(rows):
        for i in range(left_offsets[row], left_offsets[row + 1]):
            most[row] += right_offsets[left_columns[i] + 1] - right_offsets[left_columns[i]]
        longest = max(longest, most[row])
    size = _table_mask(SLOTS_TO_ADD * longest) + 1
    keys, places = np.full(size, EMPTY, np.int32), np.empty(size, np.int32)
    slots, n = np.empty(longest, np.uint32), 0
    columns, values = np.empty(longest, np.int32), np.empty(longest, np.float32)
    for row in range(rows):
        first, mask = n, _table_mask(SLOTS_TO_ADD * most[row])
        if n + most[row] > len(columns):
            columns, values = _longer(columns, 2 * (n + most[row])), _longer(values, 2 * (n + most[row]))
        for i in range(left_offsets[row], left_offsets[row + 1]):
            for j in range(right_offsets[left_columns[i]], right_offsets[left_columns[i] + 1]):
                product = np.float32(left_values[i]) * right_values[j]
                slot = _slot(keys, right_columns[j], mask)
                if keys[slot] == EMPTY:
                    keys[slot], places[slot], slots[n - first] = right_columns[j], n - first, slot
                    columns[n], values[n] = right_columns[j], product
                    n += 1
                else:
                    values[first + places[slot]] += product
        for i in range(n - first):
            keys[slots[i]] = EMPTY
        offsets[row + 1] = n
    return offsets, columns[:n].copy(), values[:n].copy()


@compiled
def _table_mask(min_slots: int) -> np.uint32:
    """The size of a table with at least this many slots, minus 1; the size is a power of two."""
    size = 2
    while size < min_slots:
        size *= 2
    return np.uint32(size - 1)


@compiled
def _slot(keys: Ints, key: int, mask: np.uint32) -> np.uint32:
    """The slot of a column in a table, or the empty one where it would be."""
    slot = np.uint32(key) & mask
    while keys[slot] != key and keys[slot] != EMPTY:
        slot = (slot + np.uint32(1)) & mask
    return slot


@compiled
def _longer(array: Array, size: int) -> Array:
    longer = np.empty(size, array.dtype)
    longer[: len(array)] = array
    return longer
