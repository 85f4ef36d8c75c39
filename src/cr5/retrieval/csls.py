"""CSLS, cosine similarity corrected for hubs: csls(q, c) = 2 cos(q, c) - r(q) - r(c).

r(v), the neighbourhood mean of a vector, is its mean cosine with the ``NEIGHBOURS`` nearest vectors of the other
language; code and files call it ``hubness``. It is large for hubs, which are close to very many vectors.
"""

import numpy as np

from cr5._typing import Array
from cr5.retrieval.block_products import Blocks, BlockSizes, Matrix, WeightedView, map_blocks
from cr5.retrieval.heaps import empty_heaps

NEIGHBOURS = 10


def csls(cosines: Array, query_means: Array, candidate_means: Array) -> Array:
    """2 cos(q, c) - r(q) - r(c), from the cosines and the neighbourhood means of both sides."""
    return np.asarray(2 * cosines - query_means - candidate_means)


def csls_penalty(candidate_means: Array) -> Array:
    """r(c) / 2: cos(q, c) - r(c) / 2 ranks the candidates of a query as CSLS does."""
    return np.asarray(candidate_means / 2)


def neighbourhood_means(vectors: Matrix, background: Matrix, *, sizes: BlockSizes | None = None) -> Array:
    """r(v): the mean product of each vector with its nearest in ``background``; 0 if that is empty."""
    from cr5.retrieval.kernels import keep_largest

    sizes = sizes or BlockSizes()
    largest = empty_heaps(vectors.shape[0], min(NEIGHBOURS, background.shape[0]))

    def process(blocks: Blocks) -> None:
        for block, [products] in blocks:
            keep_largest(products, largest[block])

    for i in range(0, background.shape[0], sizes.queries):
        map_blocks(process, [WeightedView(background[i : i + sizes.queries], vectors)], sizes)
    return _mean(largest)


def means_of_largest(products: Array) -> Array:
    """r(v) from a row of products for each v; entries of -inf are ignored, and a row without others gives 0."""
    from cr5.retrieval.kernels import keep_largest

    largest = empty_heaps(len(products), min(NEIGHBOURS, products.shape[1]))
    keep_largest(products, largest)
    return _mean(largest)


def _mean(largest: Array) -> Array:
    present = largest > -np.inf
    sums = np.where(present, largest, 0).sum(axis=1, dtype=np.float64)
    return np.asarray(sums / np.maximum(present.sum(axis=1), 1), np.float32)
