"""CSLS against its definition, one vector at a time; and unit rows."""

import numpy as np
import pytest

from cr5._typing import Array
from cr5.retrieval.block_products import BlockSizes
from cr5.retrieval.csls import NEIGHBOURS, csls, csls_penalty, means_of_largest, neighbourhood_means
from cr5.retrieval.vectors import row_products, unit_rows


def unit(n: int, size: int = 6, seed: int = 0) -> Array:
    return unit_rows(np.random.default_rng(seed).standard_normal((n, size)).astype(np.float32))


def mean_of_nearest(vector: Array, others: Array) -> float:
    return float(np.mean(sorted((float(vector @ other) for other in others), reverse=True)[:NEIGHBOURS]))


@pytest.mark.parametrize("sizes", [None, BlockSizes(7, 2, 5)])
def test_neighbourhood_means_are_means_of_ten_or_fewer_and_zero_of_none(sizes: BlockSizes | None) -> None:
    vectors = unit(5)
    for n in (25, 10, 3):
        others = unit(n, seed=1)
        expected = [mean_of_nearest(vector, others) for vector in vectors]
        np.testing.assert_allclose(neighbourhood_means(vectors, others, sizes=sizes), expected, atol=1e-6)
    assert neighbourhood_means(vectors, unit(0)).tolist() == [0] * 5


def test_means_of_largest_leave_out_what_is_minus_infinity() -> None:
    nothing = [-np.inf] * 12
    products = np.array([[*range(1, 13)], [3, 1, 2, *nothing[3:]], [5, *nothing[1:]], nothing], np.float32)
    assert means_of_largest(products).tolist() == [7.5, 2, 5, 0]
    assert means_of_largest(products[:, :0]).tolist() == [0, 0, 0, 0]


def test_the_penalty_ranks_the_candidates_of_a_query_as_csls_does() -> None:
    queries, candidates = unit(8), unit(20, seed=1)
    cosines = queries @ candidates.T
    query_means, candidate_means = neighbourhood_means(queries, candidates), neighbourhood_means(candidates, queries)
    scores = csls(cosines, query_means[:, None], candidate_means)
    assert scores[2, 3] == pytest.approx(2 * cosines[2, 3] - query_means[2] - candidate_means[3])
    np.testing.assert_array_equal(np.argsort(-scores), np.argsort(-(cosines - csls_penalty(candidate_means))))


def test_unit_rows_have_length_one_and_zero_rows_stay_zero() -> None:
    vectors = np.array([[3, 4], [0, 0], [0, 1e-3]], np.float32)
    rows = unit_rows(vectors)
    np.testing.assert_allclose(rows, [[0.6, 0.8], [0.0, 0.0], [0.0, 1.0]], rtol=1e-6)
    assert rows.dtype == np.float32
    assert vectors[0, 0] == 3


def test_row_products_are_the_diagonal_of_the_matrix_product() -> None:
    np.testing.assert_allclose(row_products(unit(5), unit(5, seed=1)), np.diag(unit(5) @ unit(5, seed=1).T), rtol=1e-5)
