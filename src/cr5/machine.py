"""The machine: its available cores and memory, and the threads of BLAS."""

import os
from functools import cache
from pathlib import Path
from typing import Any

from threadpoolctl import ThreadpoolController


def one_blas_thread() -> Any:
    """A context manager in which dense products and decompositions run on the calling thread only.

    The rows are already divided among threads, and small decompositions gain nothing from a second thread; on busy
    cores, BLAS threads that wait for each other cost ten times what they save.
    """
    return _blas().limit(limits=1, user_api="blas")


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


def available_cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def available_memory() -> int:
    """The free bytes of this machine, or of the container that the process runs in."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        used = int(Path("/sys/fs/cgroup/memory.current").read_text())
        details = dict(line.split() for line in Path("/sys/fs/cgroup/memory.stat").read_text().splitlines())
        used -= int(details["inactive_file"])  # cached files, which can be dropped
        return free if limit == "max" else min(free, int(limit) - used)
    except (OSError, ValueError, KeyError):
        return free
