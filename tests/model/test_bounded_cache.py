"""A cache of values that take long to make, shared by threads."""

from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest

from cr5.model.bounded_cache import BoundedCache


def test_threads_that_ask_at_once_make_a_value_once() -> None:
    cache, numbers = BoundedCache[str, int](2), count(1)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: cache.get("a", lambda: next(numbers)), range(30)))
    assert found == [1] * 30


def test_only_the_values_that_were_made_last_are_kept() -> None:
    cache, made = BoundedCache[str, str](3), list[str]()

    def get(key: str) -> str:
        def make() -> str:
            made.append(key)
            return key

        return cache.get(key, make)

    assert [get(key) for key in "abcd"] == list("abcd")
    assert [get(key) for key in "bcd"] == list("bcd")
    assert made == list("abcd")
    assert get("a") == "a"
    assert made == list("abcda")


def test_a_value_that_is_kept_does_not_wait_for_another_that_is_made() -> None:
    cache = BoundedCache[str, int](2)
    assert cache.get("a", lambda: 1) == 1
    with ThreadPoolExecutor(1) as pool:
        assert cache.get("b", lambda: pool.submit(cache.get, "a", lambda: 3).result(timeout=20) + 1) == 2


def test_a_value_that_cannot_be_made_is_tried_again() -> None:
    cache = BoundedCache[str, float](2)
    with pytest.raises(ZeroDivisionError):
        cache.get("a", lambda: 1 / 0)
    assert cache.get("a", lambda: 1.0) == 1
