"""Numbers of concepts compared with sets."""

import numpy as np
import pytest

from cr5.corpus.texts import shared_numbers


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_shared_numbers_are_those_of_two_arrays_or_more(dtype: type[np.generic]) -> None:
    random = np.random.default_rng(0)
    arrays = [random.integers(0, 50, size).astype(dtype) for size in (40, 0, 20, 10)]
    expected = sorted({n for n in range(50) if sum(n in array.tolist() for array in arrays) >= 2})
    found = shared_numbers(arrays)
    assert found.tolist() == expected
    assert found.dtype == dtype
    assert shared_numbers(arrays[:1]).tolist() == []
