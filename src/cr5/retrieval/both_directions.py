"""Nearest rows in both directions at once: every product serves the row of either side.

The rows of one side are in inverted lists: that of a centroid has the rows whose inner product with it is largest. Rows
of the other side are compared with those in the lists of their nearest centroids. With one list, the search is exact.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from cr5._typing import Array, Ints
from cr5.machine import available_cores, one_blas_thread
from cr5.progress import Progress, ProgressCallback, no_progress
from cr5.retrieval.clustering import kmeans, sampling_step
from cr5.retrieval.heaps import best_first, empty_heaps
from cr5.retrieval.top_k import nearest

QUERY_ROWS = 65_536  # rows of the left side at a time
BLOCK_SHAPE = 1024, 512  # right x left rows of a block of products, which fits into a core's cache
NONE = -1


class BothDirections(NamedTuple):
    """The positions of the nearest rows of the other side, best first; -1 where a row was compared with fewer than k.

    left: left rows x k, right: right rows x k.
    """

    left: Ints
    right: Ints


def nearest_in_both_directions(
    left: Array,
    right: Array,
    k: int,
    *,
    lists: int = 1,
    probes: int = 1,
    query_rows: int = QUERY_ROWS,
    block_shape: tuple[int, int] = BLOCK_SHAPE,
    threads: int | None = None,
    progress: ProgressCallback = no_progress,
) -> BothDirections:
    """The k rows of the other side with the largest products, among those that were compared.

    Rows of ``left`` are compared with those of ``right`` in the ``probes`` lists of their nearest centroids, of all
    ``lists``. Both may be in half precision; only a block of them is converted at a time.
    ``query_rows`` rows of ``left`` are searched with at a time, in blocks of ``block_shape`` products, right x left.
    """
    centroids = kmeans(right[:: sampling_step(len(right), lists)].astype(np.float32), lists) if lists > 1 else None
    order, starts = _by_list(np.zeros((len(right), 1), int) if centroids is None else nearest(right, centroids, 1)[0])
    found = np.empty((len(left), min(k, len(right))), np.int64)
    indices, scores = _heaps(len(right), min(k, len(left)))
    threads = threads or available_cores()
    for begin in range(0, len(left), query_rows):
        queries = left[begin : begin + query_rows].astype(np.float32)
        probed = np.zeros((len(queries), 1), int) if centroids is None else nearest(queries, centroids, probes)[0]
        by_list, ends = _by_list(probed)
        blocks = list(_blocks(by_list // probed.shape[1], ends, order, starts, block_shape[0]))
        parts = _compare(queries, right, blocks, block_shape, scores, indices, begin, found.shape[1], threads)
        query_indices, query_scores = zip(*parts, strict=True)
        found[begin : begin + query_rows] = best_first(query_indices, query_scores, found.shape[1])[0]
        progress(Progress("search", min(begin + query_rows, len(left)), len(left)))
    return BothDirections(found, best_first([indices], [scores], scores.shape[1])[0])


def _by_list(lists: Ints) -> tuple[Ints, Ints]:
    """Positions in ``lists`` (rows x lists of each), sorted by list, and where each list begins and the last ends."""
    flat = lists.ravel()
    order = np.argsort(flat, kind="stable")
    return order, np.searchsorted(flat[order], np.arange(flat.max(initial=-1) + 2))


def _blocks(
    queries: Ints, query_starts: Ints, rows: Ints, starts: Ints, block_rows: int
) -> Iterator[tuple[Ints, Ints]]:
    """Rows of a list, ``block_rows`` of them at a time, and the queries that they are compared with."""
    for number in range(min(len(starts), len(query_starts)) - 1):
        compared = queries[query_starts[number] : query_starts[number + 1]]
        for begin in range(starts[number], starts[number + 1] if len(compared) else 0, block_rows):
            yield rows[begin : min(begin + block_rows, starts[number + 1])], compared


def _compare(
    queries: Array,
    right: Array,
    blocks: list[tuple[Ints, Ints]],
    block_shape: tuple[int, int],
    scores: Array,
    indices: Ints,
    offset: int,
    k: int,
    threads: int,
) -> list[tuple[Ints, Array]]:
    """Push the products of all blocks onto the heaps of the right rows; return those of the queries, by thread."""
    from cr5.retrieval.kernels import keep_top_both

    shared = iter(blocks)  # next() on it is atomic. No two blocks have a right row in common
    block_rows, block_columns = block_shape

    def process(_: int) -> tuple[Ints, Array]:
        query_indices, query_scores = _heaps(len(queries), k)
        memory = np.empty(block_rows * block_columns, np.float32)
        for rows, columns in shared:
            vectors = right[rows].astype(np.float32)
            for begin in range(0, len(columns), block_columns):
                part = columns[begin : begin + block_columns]
                products = memory[: len(rows) * len(part)].reshape(len(rows), len(part))
                np.dot(vectors, queries[part].T, out=products)
                keep_top_both(products, rows, part, offset, scores, indices, query_scores, query_indices)
        return query_indices, query_scores

    with one_blas_thread():
        if threads == 1:
            return [process(0)]
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(process, range(threads)))


def _heaps(rows: int, k: int) -> tuple[Ints, Array]:
    return np.full((rows, k), NONE, np.int64), empty_heaps(rows, k)
