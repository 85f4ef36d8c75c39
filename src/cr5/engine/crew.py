"""A crew for tasks that need nothing from each other: processes of this machine, or the workers of a cluster."""

import signal
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context

from cr5.engine import available_cores
from cr5.errors import UserError


@contextmanager
def open_crew(workers: int | None = None, scheduler: str | None = None) -> Iterator[Executor]:
    """``workers`` processes, one a core if not told, or those of a Dask ``scheduler``, which must see the same files.

    An error within the block ends them at once: their tasks must be such that they can be done again.
    """
    if scheduler is not None and workers is not None:
        raise UserError("--workers starts processes here, --scheduler names a cluster that runs; give one of them")
    if scheduler is not None:
        with _cluster(scheduler) as executor:
            yield executor
        return
    # Spawned: a fork of a process with threads may never wake up.
    pool = ProcessPoolExecutor(workers or available_cores(), get_context("spawn"), _begin)
    try:
        yield pool
    except BaseException:
        processes = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        raise
    pool.shutdown()


def _begin() -> None:
    """Ctrl-C is for whoever gives the tasks."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _cluster(address: str) -> Iterator[Executor]:
    try:
        from distributed import Client
    except ModuleNotFoundError as error:
        raise UserError("a cluster needs Dask; install it with pip install 'cr5[dask]'") from error
    try:
        client = Client(address, timeout=10, set_as_default=False)
    except (OSError, ValueError) as error:
        raise UserError(
            f"no Dask scheduler answers at {address}; start one with dask scheduler, or mend the address"
        ) from error
    with client:
        if not client.nthreads():
            raise UserError(f"the scheduler at {address} has no workers; start some with dask worker {address}")
        with client.get_executor(pure=False, retries=2) as executor:
            yield executor
