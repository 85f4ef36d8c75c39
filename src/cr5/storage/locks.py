"""File locks: exclusive between processes and between threads, and released by the system when a process is killed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

_POLL_SECONDS = 0.01


@contextmanager
def locked(path: Path, *, error_if_locked: Exception | None = None) -> Iterator[None]:
    """Hold the lock on ``path``, a lock file that is created if it is missing and never removed.

    While the lock is held elsewhere, raise ``error_if_locked``; without it, wait.
    """
    from filelock import lock_descriptor

    with path.open("ab") as file:
        if error_if_locked is None:
            lock_descriptor(file.fileno(), poll_interval=_POLL_SECONDS)
        elif not try_lock(file):
            raise error_if_locked
        try:
            yield
        finally:
            unlock(file)


def try_lock(file: IO[Any]) -> bool:
    """Lock an open file unless it is locked elsewhere; return whether it is locked now."""
    from filelock import lock_descriptor

    return lock_descriptor(file.fileno(), blocking=False)


def unlock(file: IO[Any]) -> None:
    """Release the lock on an open file, also if a forked process holds the same file open."""
    from filelock import unlock_descriptor

    unlock_descriptor(file.fileno())
