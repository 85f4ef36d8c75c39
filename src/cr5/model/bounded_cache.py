"""A cache that makes each value once and keeps a limited number of them."""

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class BoundedCache(Generic[Key, Value]):
    """At most ``max_values`` values by their keys; each is made when it is first asked for.

    The value that was made first is removed first. Threads may share a cache: only one of them makes a value.
    """

    def __init__(self, max_values: int) -> None:
        self._max_values, self._lock = max_values, Lock()
        self._values: dict[Key, Value] = {}

    def get(self, key: Key, make: Callable[[], Value]) -> Value:
        """The value of a key, which ``make`` returns if there is none yet."""
        if (value := self._values.get(key)) is not None:  # without waiting for another one that is being made
            return value
        with self._lock:
            if key not in self._values:
                while len(self._values) >= self._max_values:
                    del self._values[next(iter(self._values))]
                self._values[key] = make()
            return self._values[key]
