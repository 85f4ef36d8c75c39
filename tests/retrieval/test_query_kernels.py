"""The kernels that compare one query with many rows, against the same in NumPy."""

from itertools import pairwise

import numpy as np
import pytest

from cr5.retrieval.csls import NEIGHBOURS, means_of_largest
from cr5.retrieval.kernels import keep_nearest, means_of_nearest

ROWS = np.random.default_rng(0).normal(size=(60, 7)).astype(np.float32)
QUERY = ROWS[3]


def test_the_nearest_of_the_chosen_rows_are_kept() -> None:
    chosen = np.arange(60) % 3 == 0
    scores, best = np.full(5, -np.inf, np.float32), np.full(5, 60)
    keep_nearest(ROWS, QUERY, chosen, scores, best)
    products = np.where(chosen, ROWS @ QUERY, -np.inf)
    assert sorted(best.tolist()) == sorted(np.argsort(-products)[:5].tolist())
    np.testing.assert_allclose(scores, products[best], rtol=1e-5)


@pytest.mark.parametrize("starts", [[0, 60], [0, 25, 25, 30, 60], [0, 0]])
def test_the_means_of_the_nearest_are_those_of_each_group_and_0_without_rows(starts: list[int]) -> None:
    products = ROWS @ QUERY
    expected = [means_of_largest(products[None, begin:end])[0] for begin, end in pairwise(starts)]
    found = means_of_nearest(ROWS, QUERY, np.array(starts), NEIGHBOURS)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
