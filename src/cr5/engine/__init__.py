"""Where a language's block of the data lives, and who multiplies with it.

An engine has two verbs: *put* a language's block once, and *map* a plain function next to every
block, NumPy in, NumPy out. Nothing outside this folder names a device, a worker or a future.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from cr5._typing import Array, Ints, Sparse


class Block(Protocol):
    """A language's data as a mapped function sees it. ``store`` keeps arrays between two calls."""

    concepts: Ints
    store: dict[str, Array]

    @property
    def shape(self) -> tuple[int, int]:
        """Documents, words."""
        ...

    def times(self, V: Array) -> Array:
        """X V: words x m -> documents x m."""
        ...

    def transposed_times(self, U: Array) -> Array:
        """X' U: documents x m -> words x m."""
        ...

    def concept_sums(self, U: Array) -> Array:
        """Y' U: documents x m -> concepts x m."""
        ...

    def column_squares(self) -> Array:
        """diag(X'X): the sum of squares of every word's column."""
        ...


class Engine(Protocol):
    """Holds the blocks and runs functions next to them."""

    def put(self, X: Sparse, concepts: Ints, concept_count: int) -> None:
        """Take in one language's documents x words and the concept of every document."""
        ...

    def map(self, function: Callable[..., Any], *arguments: Sequence[Any]) -> list[Any]:
        """Call ``function(block, *one of each argument)`` for every block, in the order of put."""
        ...


def available_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def available_memory() -> int:
    """The bytes that this machine, or the container this runs in, has free."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        used = int(Path("/sys/fs/cgroup/memory.current").read_text())
        counted = dict(line.split() for line in Path("/sys/fs/cgroup/memory.stat").read_text().splitlines())
        used -= int(counted["inactive_file"])  # files that were read and can be forgotten
        return free if limit == "max" else min(free, int(limit) - used)
    except (OSError, ValueError, KeyError):
        return free
