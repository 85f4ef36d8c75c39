"""How shards are shared among the workers of a cluster."""

import numpy as np
import pytest

pytest.importorskip("distributed")


from cr5.training.engines.dask import share_bounds
from cr5.training.engines.dask_workers import reassigned

pytestmark = pytest.mark.dask


def test_boundaries_of_shares_are_those_of_languages_where_these_are_close() -> None:
    np.testing.assert_array_equal(share_bounds(np.array([0, 49, 100]), 2), [49])  # no sliver of the second language
    np.testing.assert_array_equal(share_bounds(np.array([0, 20, 100]), 2), [50])
    np.testing.assert_array_equal(share_bounds(np.array([0, 100]), 4), [25, 50, 75])


@pytest.mark.parametrize(
    ("places", "there", "expected"),
    [("ab", "ab", "ab"), ("ab", "a", "aa"), ("aa", "ac", "ac"), ("abcd", "acde", "aecd"), ("ab", "cd", "cd")],
)
def test_the_shards_of_dead_workers_go_to_the_workers_with_the_fewest(places: str, there: str, expected: str) -> None:
    assert "".join(reassigned(list(places), list(there))) == expected
