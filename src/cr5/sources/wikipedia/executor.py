"""A crew for tasks that need nothing from each other: processes of this machine, or the workers of a cluster."""

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from cr5.errors import Cr5Error
from cr5.machine import available_cores

if TYPE_CHECKING:
    from distributed import Client

P = ParamSpec("P")
T = TypeVar("T")


@contextmanager
def open_crew(workers: int | None = None, scheduler: str | None = None) -> Iterator[Executor]:
    """``workers`` processes, one a core if not told, or those of a Dask ``scheduler``, which must see the same files.

    An error within the block ends processes at once, and leaves a cluster's to their tasks without waiting for them:
    tasks must be such that they can be done again.
    """
    if scheduler is not None and workers is not None:
        raise Cr5Error("--workers starts processes here, --scheduler names a cluster that runs; give one of them")
    with _processes(workers or available_cores()) if scheduler is None else _cluster(scheduler) as executor:
        yield executor


@contextmanager
def _processes(count: int) -> Iterator[Executor]:
    # Spawned: a fork of a process with threads may never wake up.
    pool = _Pool(count, get_context("spawn"), _begin)
    try:
        yield pool
    except BaseException as error:
        processes = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        if isinstance(error, BrokenProcessPool):
            raise Cr5Error(
                "a process that worked on this was ended from outside, perhaps for want of memory; run the same "
                "command again, with fewer --workers"
            ) from error
        raise
    pool.shutdown()


class _Pool(ProcessPoolExecutor):
    """Processes that Ctrl-C does not reach, from their first moment on: it is for whoever gives the tasks."""

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        # Whatever process this starts inherits what is blocked.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return super().submit(function, *args, **kwargs)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Without somebody who gives tasks there is nothing to do."""
    if parent := parent_process():
        parent.join()
        os._exit(1)


@contextmanager
def _cluster(address: str) -> Iterator[Executor]:
    try:
        from distributed import KilledWorker
    except ModuleNotFoundError as error:
        raise Cr5Error("a cluster needs Dask; install it with pip install 'cr5[dask]'") from error
    with _quiet("distributed.client", "tornado.application"), _connected(address) as client:
        executor = client.get_executor(pure=False, retries=2)
        try:
            yield executor
        except BaseException as error:
            executor.shutdown(wait=False)
            if isinstance(error, CancelledError):
                raise Cr5Error(
                    f"the scheduler at {address} has gone; start it again, and run the same command again"
                ) from error
            if isinstance(error, KilledWorker):
                raise Cr5Error(
                    f"workers of {address} ended over a task, perhaps for want of memory; give them more, and run the "
                    "same command again"
                ) from error
            raise
        executor.shutdown()


def _connected(address: str) -> "Client":
    from distributed import Client

    try:
        client = Client(address, timeout=10, set_as_default=False)
    except (OSError, ValueError) as error:
        raise Cr5Error(
            f"no Dask scheduler answers at {address}; start one with dask scheduler, or mend the address"
        ) from error
    if not client.nthreads():
        client.close()
        raise Cr5Error(f"the scheduler at {address} has no workers; start some with dask worker {address}")
    return client


@contextmanager
def _quiet(*names: str) -> Iterator[None]:
    """Without what Dask logs when a scheduler goes, which is said in our words."""
    levels = {name: logging.getLogger(name).level for name in names}
    try:
        for name in names:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
