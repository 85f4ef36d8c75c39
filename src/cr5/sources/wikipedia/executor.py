"""An executor for independent tasks: processes on this machine, or the workers of a Dask cluster."""

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from typing import ParamSpec, TypeVar

from cr5.errors import Cr5Error
from cr5.machine import available_cores
from cr5.machine.cluster import connect_to_scheduler

P = ParamSpec("P")
T = TypeVar("T")


@contextmanager
def open_executor(workers: int | None = None, scheduler: str | None = None) -> Iterator[Executor]:
    """Start ``workers`` processes, by default one per core, or use the workers of the Dask ``scheduler``.

    The workers of a cluster must see the same files as this process. If the block raises, local processes are
    terminated at once; tasks on a cluster keep running, and are not waited for. Tasks must therefore be safe to repeat.
    """
    if scheduler is not None and workers is not None:
        raise Cr5Error(
            f"`workers={workers}` starts local processes and `scheduler={scheduler}` uses a running cluster; "
            "give only one of them"
        )
    with _local_processes(workers or available_cores()) if scheduler is None else _cluster(scheduler) as executor:
        yield executor


@contextmanager
def _local_processes(count: int) -> Iterator[Executor]:
    # Spawned, not forked: a fork of a process that has threads can deadlock.
    pool = _UninterruptedPool(count, get_context("spawn"), _watch_parent)
    try:
        yield pool
    except BaseException as error:
        processes = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        if isinstance(error, BrokenProcessPool):
            raise Cr5Error(
                "a worker process was killed, possibly because memory ran out; run the same command again with fewer "
                "`workers`"
            ) from error
        raise
    pool.shutdown()


class _UninterruptedPool(ProcessPoolExecutor):
    """A pool whose processes never receive Ctrl-C, not even while they start: only the parent handles it."""

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        if not hasattr(signal, "pthread_sigmask"):  # Windows
            return super().submit(function, *args, **kwargs)
        # A process that is started here inherits the signal mask.
        previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return super().submit(function, *args, **kwargs)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)


def _watch_parent() -> None:
    threading.Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    """Exit when the parent process has ended: no more tasks can come."""
    if parent := parent_process():
        parent.join()
        os._exit(1)


@contextmanager
def _cluster(address: str) -> Iterator[Executor]:
    with _without_logs("distributed.client", "tornado.application"), connect_to_scheduler(address) as client:
        from distributed import KilledWorker

        if not client.nthreads():
            raise Cr5Error(f"the scheduler at {address} has no workers; start some with dask worker {address}")
        executor = client.get_executor(pure=False, retries=2)
        try:
            yield executor
        except BaseException as error:
            executor.shutdown(wait=False)
            if isinstance(error, CancelledError):
                raise Cr5Error(
                    f"the connection to the scheduler at {address} was lost; restart the scheduler, then run the same "
                    "command again"
                ) from error
            if isinstance(error, KilledWorker):
                raise Cr5Error(
                    f"a task killed several workers of {address}, possibly because memory ran out; give the workers "
                    "more memory, then run the same command again"
                ) from error
            raise
        executor.shutdown()


@contextmanager
def _without_logs(*names: str) -> Iterator[None]:
    """Silence these loggers: a scheduler that disappears is reported by our own message."""
    levels = {name: logging.getLogger(name).level for name in names}
    try:
        for name in names:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
