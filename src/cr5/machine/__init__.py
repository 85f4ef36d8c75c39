"""The machine: the cores and the memory that this process may use, and the threads that compute on them."""

import math
import os
import platform
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path("/")


def run_on_threads(function: Callable[[], Any], threads: int) -> None:
    """Call a function on several threads at the same time, the caller's among them, and wait for all of them.

    ``function`` must take its work from a shared queue. A call that starts late, because the pool was busy, finds
    nothing left and returns. Threads of Python, unlike those of OpenMP, can be started again after a fork and by
    several callers at once.
    """
    others = [_thread_pool(os.getpid()).submit(function) for _ in range(threads - 1)]
    try:
        function()
    finally:
        for other in others:
            if not other.cancel():
                other.result()


@cache
def _thread_pool(process: int) -> ThreadPoolExecutor:
    """The threads of a process; a forked one starts its own."""
    return ThreadPoolExecutor(available_cores(), "cr5")


class _BlasLimit:
    """Limits BLAS to one thread as long as any caller needs it.

    The limit is that of the process. If two callers that overlap each restored what they had found, the second would
    leave BLAS limited for good.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._callers = 0
        self._limiter: Any = None

    def acquire(self) -> None:
        with self.lock:
            if not self._callers:
                self._limiter = _blas("scipy.linalg" in sys.modules).limit(limits=1, user_api="blas")
            self._callers += 1

    def release(self) -> None:
        with self.lock:
            self._callers -= 1
            if not self._callers:
                self._limiter.restore_original_limits()

    def renew_lock(self) -> None:
        """Forget a lock that another thread of the forking process held."""
        self.lock = threading.Lock()


@cache
def _blas(cache_key: bool) -> Any:
    """The BLAS libraries that are loaded; looked up again once SciPy is loaded, which brings one of its own."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


_blas_limit = _BlasLimit()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_blas_limit.renew_lock)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """A context in which dense products and decompositions run on the calling thread only.

    The rows are already divided among threads, and small decompositions gain nothing from a second thread; on busy
    cores, BLAS threads that wait for each other cost ten times what they save.
    """
    _blas_limit.acquire()
    try:
        yield
    finally:
        _blas_limit.release()


def available_cores(root: Path = ROOT) -> int:
    """The number of cores that this process may use: those that it is bound to, or what its container may take."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return math.ceil(min([cores, *(_core_limit(folder) for folder in _control_groups("cpu", root))]))


def available_memory(root: Path = ROOT) -> int:
    """The free bytes of this machine, or of the container that the process runs in."""
    return int(min([_free_memory(root), *(_unused_memory(folder) for folder in _control_groups("memory", root))]))


def _control_groups(controller: str, root: Path) -> Iterator[Path]:
    """The folders of the control groups (cgroups) of this process, of version 1 or 2: its own and those around it.

    A container that sees only its own control group has that at the top, whatever the path in /proc/self/cgroup.
    """
    top, own = root / "sys/fs/cgroup", ""
    with suppress(OSError, ValueError):
        for line in _text(root / "proc/self/cgroup").splitlines():
            _, controllers, path = line.split(":", 2)
            if controller in controllers.split(","):
                top, own = root / "sys/fs/cgroup" / controller, path
            elif not controllers and not own:
                own = path
    for depth in range(len(Path(own.strip("/")).parts) + 1):
        yield top.joinpath(*Path(own.strip("/")).parts[:depth])


def _core_limit(folder: Path) -> float:
    """The cores that a control group may use at a time, on average; a fraction is possible."""
    with suppress(OSError, ValueError):  # "max" is not a number: there is no limit
        quota, period = map(int, _text(folder / "cpu.max").split())
        return quota / period
    with suppress(OSError, ValueError):
        quota = int(_text(folder / "cpu.cfs_quota_us"))
        return quota / int(_text(folder / "cpu.cfs_period_us")) if quota > 0 else math.inf
    return math.inf


def _unused_memory(folder: Path) -> float:
    """The bytes that a control group may still use."""
    for limit, used, cached in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        with suppress(OSError, ValueError, KeyError):
            details = dict(line.split() for line in _text(folder / "memory.stat").splitlines())
            in_use = int(_text(folder / used)) - int(details[cached])  # cached files can be dropped
            return int(_text(folder / limit)) - in_use
    return math.inf


def _free_memory(root: Path) -> int:
    """The free bytes of the machine; on systems that do not tell, all of its memory."""
    with suppress(OSError, StopIteration):
        lines = _text(root / "proc/meminfo").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    if sys.platform == "win32":
        import ctypes

        status = (ctypes.c_uint64 * 8)(64)  # MEMORYSTATUSEX: its own size in bytes, total and free memory, ...
        ctypes.windll.kernel32.GlobalMemoryStatusEx(status)
        return int(status[2])
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _text(path: Path) -> str:
    return path.read_text(encoding="ascii")


def package_versions() -> dict[str, str]:
    """The versions of Python and of the packages that a tokenisation or a fit can depend on."""
    from importlib.metadata import version

    packages = ("cr5", "numpy", "scipy", "numba", "pyarrow", "icu4py")
    return {"python": platform.python_version()} | {name: version(name) for name in packages}
