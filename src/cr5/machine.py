"""What this machine offers a process: cores, memory and BLAS threads."""

import os
from functools import cache
from pathlib import Path
from typing import Any

from threadpoolctl import ThreadpoolController


def one_blas_thread() -> Any:
    """A context in which dense products and decompositions run on the thread that asks for them.

    Rows are shared out among threads already, and small decompositions gain nothing from a second
    thread; on busy cores, threads of BLAS that wait for each other cost ten times what they save.
    """
    return _blas().limit(limits=1, user_api="blas")


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


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
