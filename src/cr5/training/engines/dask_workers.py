"""The Dask workers of an engine: tasks are submitted to numbered slots, and lost workers are replaced."""

import itertools
import logging
import threading
import time
import uuid
from asyncio import CancelledError as Cancelled
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import CancelledError
from concurrent.futures import Future as Outcome
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

from cr5.errors import ClusterError, MissingPackageError, WorkersLost, warn
from cr5.machine import available_cores
from cr5.machine.cluster import connect_to_scheduler
from cr5.message_parts import plural
from cr5.training.engines import dask_tasks

POLL_SECONDS = 0.1  # interval between two looks at the cluster while waiting for it
SHARED_BYTES = 10_000  # arguments of a function that are larger are sent once, not with every task
FIXED_PLACEMENT = {  # arrays stay where this engine puts them: Dask neither moves work to idle workers ...
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.active-memory-manager.start": False,  # ... nor drops one of two copies
}
HEARTBEAT_POLL_SECONDS = 1.0  # interval of checking heartbeats, which workers send every 0.5 s or, if many, 2 s
MIN_ANSWER_SECONDS = 5.0  # minimum time for a scheduler to answer, however short the timeout is
MIN_SILENT_SECONDS = 5.0  # minimum time before a worker counts as silent, however short the timeout is
CLOSE_SECONDS = 5.0  # timeout for closing a connection; closing one that is cut never ends
MEMORY_ADVICE = "give the workers more memory, or start more of them"

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
        self.heartbeats = Heartbeats()
        self.warned: set[str] = set()  # workers that a warning was given about; "" stands for all of them
        self.paused_since: dict[str, float] = {}  # by worker: for lack of memory it takes no tasks
        self.run_id, self.tasks = uuid.uuid4().hex, itertools.count()
        self.last_shared: tuple[Any, Any] = None, None

    def close(self) -> None:
        """Disconnect; a cluster that was started here is stopped."""
        self.replicas, self.last_shared = [], (None, None)
        with suppress(OSError, TimeoutError, Cancelled, CancelledError):
            _start(self.client.close).result(CLOSE_SECONDS)
        if self.local_cluster:
            self.local_cluster.close()

    def wait_for_workers(self) -> int:
        """Give every worker a slot, once there is one; returns their number."""
        self.heartbeats.restart()
        while not self.slots:
            self.refresh()
            if not self.slots:
                self._check_workers()
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
        self.heartbeats.restart()
        while True:
            try:
                return outcome.result(POLL_SECONDS)
            except KilledWorker as error:
                times = error.allowed_failures + 1
                raise ClusterError(
                    f"a task has lost its worker {times} times in a row, probably for lack of memory; {MEMORY_ADVICE}"
                ) from error
            except (Cancelled, CancelledError, CommClosedError) as error:
                raise self._scheduler_lost() from error
            except TimeoutError:
                if outcome.done() and isinstance(outcome.exception(), TimeoutError):
                    raise
            self.refresh()
            self._check_workers()

    def refresh(self) -> None:
        """Find out which workers are alive, and give the slots of lost ones to others."""
        alive = sorted(self._ask_scheduler(self.client.nthreads))
        if self.local_cluster and len(alive) < len(self.local_cluster.worker_spec):
            # Dask gives up a worker whose process takes longer than 15 s to start again; this starts another.
            self.local_cluster.scale(len(self.local_cluster.worker_spec))
        if alive:
            self.slots = reassigned(self.slots or alive, alive)
            # A lost copy need not be computed again: its original still exists.
            self.replicas = [(copy, worker) for copy, worker in self.replicas if worker in alive]

    def _ask_scheduler(self, function: Callable[[], Any]) -> Any:
        """The result of a function of the client that needs only the scheduler.

        A connection whose network is cut does not end: there is just no answer.
        """
        outcome, limit = _start(function), max(self.timeout_seconds, MIN_ANSWER_SECONDS)
        try:
            with suppress(TimeoutError):
                return outcome.result(limit / 3)
            if not outcome.done():
                self._warn(f"the scheduler at {self.address} has not answered for {limit / 3:.0f} s", limit)
            return outcome.result(limit * 2 / 3)
        except TimeoutError as error:
            if outcome.done():  # the client itself has given up
                raise self._scheduler_lost() from error
            raise ClusterError(
                f"the scheduler at {self.address} has not answered for {limit:g} s; check that it is running and that "
                "the network reaches it"
            ) from error
        except (OSError, Cancelled, CancelledError) as error:
            raise self._scheduler_lost() from error

    def _check_workers(self) -> None:
        """Warn about workers that are silent; raise if all of them stay so, or if one stays out of memory."""
        now, limit, beats = time.monotonic(), self.timeout_seconds, self.heartbeats
        if now - beats.checked < min(HEARTBEAT_POLL_SECONDS, limit / 4):
            return
        workers = self._ask_scheduler(partial(self.client.sync, self.client.scheduler.identity))["workers"]
        beats.note({name: about["last_seen"] for name, about in workers.items()})
        if workers:
            limit = max(limit, MIN_SILENT_SECONDS)
        if beats.silent_seconds() >= limit:
            raise ClusterError(f"{self._no_worker(workers, limit)}; start workers, or restore their network")
        silent = {name for name in workers if beats.silent_seconds(name) >= limit / 3}
        if len(silent) == len(workers):  # also if there are none
            silent, message = {""}, self._no_worker(workers, round(limit / 3) if workers else 0)
        else:
            message = (
                f"{plural(len(silent), 'worker')} of the cluster at {self.address} ({', '.join(sorted(silent))}) sent "
                f"no heartbeat for {limit / 3:.0f} s; the others take over once the scheduler stops waiting"
            )
        if silent - self.warned:
            self._warn(message, limit if "" in silent else None)
        self.warned = silent
        self._check_memory({name for name, about in workers.items() if about["status"] == "paused"})

    def _check_memory(self, paused: set[str]) -> None:
        """Raise if a worker stays paused, as Dask does to workers that are nearly out of memory."""
        now = time.monotonic()
        self.paused_since = {worker: self.paused_since.get(worker, now) for worker in paused}
        for worker, since in self.paused_since.items():
            if now - since >= self.timeout_seconds:
                raise ClusterError(
                    f"worker {worker} has been out of memory for {self.timeout_seconds:g} s; {MEMORY_ADVICE}"
                )

    def _no_worker(self, workers: Collection[str], seconds: float) -> str:
        if workers:
            return f"no worker of the cluster at {self.address} has sent a heartbeat for {seconds:g} s"
        return f"the cluster at {self.address} has " + (f"had no worker for {seconds:g} s" if seconds else "no worker")

    def _warn(self, state: str, limit: float | None) -> None:
        wait = "" if limit is None else f"; the fit ends if that stays so for {limit:g} s (`timeout_seconds`)"
        warn(state + wait, WorkersLost)

    def _scheduler_lost(self) -> ClusterError:
        return ClusterError(f"the scheduler at {self.address} is lost; start it and its workers")


class Heartbeats:
    """When each worker last sent its scheduler a heartbeat, by the clock of this process.

    The times of the scheduler's clock are only compared with each other.
    """

    def __init__(self) -> None:
        self.last_seen: dict[str, float] = {}  # by the scheduler's clock
        self.heard: dict[str, float] = {}  # by this process's
        self.restart()

    def restart(self) -> None:
        """Measure silence from now on: earlier messages were not received."""
        self.since, self.checked = time.monotonic(), 0.0

    def note(self, last_seen: dict[str, float]) -> None:
        """Note what the scheduler says about its workers now."""
        self.checked = time.monotonic()
        for worker, seen in last_seen.items():
            if self.last_seen.get(worker) != seen:
                self.heard[worker] = self.checked
        self.last_seen = last_seen

    def silent_seconds(self, worker: str | None = None) -> float:
        """For how long a worker, or every worker, also those that are lost, has been silent."""
        heard = list(self.heard.values()) if worker is None else [self.heard.get(worker, 0.0)]
        return self.checked - max([self.since, *heard])


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
