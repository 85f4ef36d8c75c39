"""A limit on how many threads compute at the same time."""

import os
import threading
import weakref
from collections import deque
from contextlib import AbstractContextManager

from cr5.machine import available_cores

_limits: "weakref.WeakSet[ConcurrencyLimit]" = weakref.WeakSet()


class ConcurrencyLimit(AbstractContextManager[None]):
    """A context that as many threads can be in as there are cores; others wait, and enter in the order they came in.

    More threads than cores would only take the cores and the lock of the interpreter from each other. A thread must not
    enter the context twice. A forked process starts with an empty one.
    """

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads
        self.reset()
        _limits.add(self)

    def reset(self) -> None:
        """Forget the threads inside, which a forked process does not have."""
        self._lock, self._inside, self._waiting = threading.Lock(), 0, deque[threading.Lock]()

    def __enter__(self) -> None:
        self._threads = self._threads or available_cores()
        with self._lock:
            if self._inside < self._threads:
                self._inside += 1
                return
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        try:
            turn.acquire()  # until a thread that leaves hands over its place
        except BaseException:
            with self._lock:
                is_waiting = turn in self._waiting
                if is_waiting:
                    self._waiting.remove(turn)
            if not is_waiting:
                self.__exit__(None, None, None)
            raise

    def __exit__(self, *_: object) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._inside -= 1


def _reset_all() -> None:
    for limit in _limits:
        limit.reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_all)
