"""The Dask workers of an engine: tasks are submitted to numbered slots, and lost workers are replaced."""

import itertools
import logging
import threading
import time
import uuid
from asyncio import CancelledError as Cancelled
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from concurrent.futures import Future as Outcome
from functools import partial
from typing import Any, TypeAlias

from cr5.cluster import connect_to_scheduler
from cr5.errors import Cr5Error, MissingPackageError
from cr5.machine import available_cores
from cr5.training.engines import dask_tasks

POLL_SECONDS = 0.1  # between two looks at the cluster while waiting for it
SHARED_BYTES = 10_000  # of a function's arguments: larger ones are sent once, not with every task
FIXED_PLACEMENT = {  # arrays stay where this engine puts them: Dask neither moves work to idle workers ...
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.active-memory-manager.start": False,  # ... nor drops one of two copies
}
RESUME_ADVICE = "then run the fit again with the same `checkpoint` to continue"
MEMORY_ADVICE = f"give the workers more memory, or start more of them; {RESUME_ADVICE}"

Future: TypeAlias = Any


class Workers:
    """Submits tasks to slots, and waits for results while watching which workers are alive.

    A slot is a number; ``slots`` maps it to the address of a worker, another one after a loss. It is a
    preference: a task whose worker is lost runs on another.
    """

    def __init__(self, scheduler: str | None, workers: int | None, timeout_seconds: float) -> None:
        try:
            import dask
            from distributed import LocalCluster
        except ModuleNotFoundError as error:
            raise MissingPackageError("the dask engine needs Dask; install it with pip install 'cr5[dask]'") from error
        self.timeout_seconds = timeout_seconds
        self.local_cluster: Any = None
        if scheduler is None:
            with dask.config.set(FIXED_PLACEMENT):
                self.local_cluster = LocalCluster(
                    n_workers=workers or available_cores(),
                    threads_per_worker=1,
                    host="127.0.0.1",
                    dashboard_address="127.0.0.1:0",
                    worker_dashboard_address="127.0.0.1:0",
                    silence_logs=logging.CRITICAL,  # lost workers are handled here
                )
        self.address = self.local_cluster.scheduler_address if self.local_cluster else str(scheduler)
        self.client = connect_to_scheduler(self.address, timeout_seconds=min(timeout_seconds, 10))
        self.slots: list[str] = []
        self.replicas: list[tuple[Future, str]] = []  # copies of arrays, and the workers that hold them
        self.no_workers_since: float | None = None
        self.paused_since: dict[str, float] = {}  # by worker: for lack of memory it takes no tasks
        self.memory_checked = 0.0
        self.run_id, self.tasks = uuid.uuid4().hex, itertools.count()
        self.last_shared: tuple[Any, Any] = None, None

    def close(self) -> None:
        """Disconnect; a cluster that was started here is stopped."""
        self.replicas, self.last_shared = [], (None, None)
        self.client.close()
        if self.local_cluster:
            self.local_cluster.close()

    def wait_for_workers(self) -> int:
        """Give every worker a slot, once there is one; returns their number."""
        while not self.slots:
            self.refresh()
            if not self.slots:
                time.sleep(POLL_SECONDS)
        return len(self.slots)

    def submit(self, function: Callable[..., Any], *arguments: Any, slot: int = 0) -> Future:
        """A future of ``function(*arguments)``; futures among the arguments stand for their results."""
        return self.client.submit(function, *arguments, key=self._key(function), **self._preference(slot))

    def submit_all(self, function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]) -> list[Future]:
        """A future for every task, a tuple of slot and arguments; one message for each slot."""
        result: list[Future] = [None] * len(tasks)
        for slot in sorted({task[0] for task in tasks}):
            here = [i for i, task in enumerate(tasks) if task[0] == slot]
            columns = [list(column) for column in zip(*(tasks[i][1:] for i in here), strict=True)]
            keys = [self._key(function) for _ in here]
            futures = self.client.map(function, *columns, key=keys, **self._preference(slot))
            for i, future in zip(here, futures, strict=True):
                result[i] = future
        return result

    def _key(self, function: Callable[..., Any]) -> str:
        return f"{getattr(function, '__name__', 'task').strip('_<>')}-{self.run_id}-{next(self.tasks)}"

    def _preference(self, slot: int) -> dict[str, Any]:
        return {"workers": self.slots[slot : slot + 1] or None, "allow_other_workers": bool(self.slots)}

    def submit_large(self, function: Callable[..., Any], *arguments: Any, slot: int = 0) -> Future:
        """``submit`` with large arguments, without Dask's warning: the task has to carry its data."""
        import dask

        with dask.config.set({"distributed.admin.large-graph-warning-threshold": 2**60}):
            return self.submit(function, *arguments, slot=slot)

    def share_function(self, function: Callable[..., Any]) -> Any:
        """A function as (function, arguments, keywords), whose size Dask can see; a future of it if that is large."""
        from dask.sizeof import sizeof

        if function is self.last_shared[0]:  # the same matrices for several partitions
            return self.last_shared[1]
        call: Any = (function, (), {})
        if isinstance(function, partial):
            call = (function.func, function.args, function.keywords)
        if sizeof(call) > SHARED_BYTES:
            call = self.submit_large(dask_tasks.identity, call)
        self.last_shared = function, call
        return call

    def gather(self, futures: Sequence[Future]) -> list[Any]:
        """The results of futures, in this process."""
        return list(self.wait(self.client.gather, list(futures)))

    def run(self, function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]) -> list[Any]:
        """The results of ``submit_all``, in this process."""
        return self.gather(self.submit_all(function, tasks))

    def memory(self) -> int:
        """The bytes that all workers together may use."""
        self.wait_for_workers()
        return sum(self.wait(partial(self.client.run, dask_tasks.memory_limit, on_error="ignore")).values())

    def wait(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The result of a function of the client; raises Cr5Error where the cluster will never answer."""
        from distributed import KilledWorker
        from distributed.comm import CommClosedError

        outcome = _start(function, *arguments)
        while True:
            try:
                return outcome.result(POLL_SECONDS)
            except KilledWorker as error:
                times = error.allowed_failures + 1
                raise Cr5Error(
                    f"a task has lost its worker {times} times in a row, probably for lack of memory; {MEMORY_ADVICE}"
                ) from error
            except (Cancelled, CancelledError, CommClosedError) as error:
                raise self._scheduler_lost() from error
            except TimeoutError:
                if outcome.done() and isinstance(outcome.exception(), TimeoutError):
                    raise
            self.refresh()
            self._check_memory()

    def refresh(self) -> None:
        """Find out which workers are alive, and give the slots of lost ones to others."""
        try:
            alive = sorted(_start(self.client.nthreads).result(max(self.timeout_seconds, 5)))
        except (OSError, TimeoutError, Cancelled, CancelledError) as error:
            raise self._scheduler_lost() from error
        if self.local_cluster and len(alive) < len(self.local_cluster.worker_spec):
            # Dask gives up a worker whose process takes longer than 15 s to start again; this starts another.
            self.local_cluster.scale(len(self.local_cluster.worker_spec))
        if not alive:
            self.no_workers_since = self.no_workers_since or time.monotonic()
            if time.monotonic() - self.no_workers_since > self.timeout_seconds:
                raise Cr5Error(
                    f"the cluster at {self.address} has had no worker for {self.timeout_seconds:g} s; "
                    f"start workers, {RESUME_ADVICE}"
                )
            return
        self.no_workers_since = None
        self.slots = reassigned(self.slots or alive, alive)
        # A lost copy need not be computed again: its original still exists.
        self.replicas = [(copy, worker) for copy, worker in self.replicas if worker in alive]

    def _check_memory(self) -> None:
        """Raise if a worker stays paused, as Dask does to workers that are nearly out of memory."""
        now = time.monotonic()
        if now - self.memory_checked < self.timeout_seconds / 4:
            return
        self.memory_checked = now
        try:
            states = _start(partial(self.client.run, dask_tasks.worker_status, on_error="ignore")).result(
                self.timeout_seconds
            )
        except (OSError, TimeoutError, Cancelled, CancelledError):
            return  # busy, or lost: ``refresh`` finds out
        self.paused_since = {w: self.paused_since.get(w, now) for w, state in states.items() if state == "paused"}
        for worker, since in self.paused_since.items():
            if now - since >= self.timeout_seconds:
                raise Cr5Error(
                    f"worker {worker} has been out of memory for {self.timeout_seconds:g} s; {MEMORY_ADVICE}"
                )

    def _scheduler_lost(self) -> Cr5Error:
        return Cr5Error(f"the scheduler at {self.address} is lost; start it and its workers, {RESUME_ADVICE}")


def reassigned(slots: list[str], alive: list[str]) -> list[str]:
    """The worker of every slot: shared evenly among those that are alive, with as few changes as possible."""
    max_slots = -(-len(slots) // len(alive))
    workers = [name if name in alive and slots[:i].count(name) < max_slots else "" for i, name in enumerate(slots)]
    for i, name in enumerate(workers):
        workers[i] = name or min(alive, key=workers.count)
    return workers


def _start(function: Callable[..., Any], *arguments: Any) -> "Outcome[Any]":
    """Run a function in a daemon thread, which need not be waited for."""
    outcome: Outcome[Any] = Outcome()

    def run() -> None:
        try:
            outcome.set_result(function(*arguments))
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return outcome
