"""Several server processes that share a listening socket, and the supervisor that starts, replaces and stops them."""

import ctypes
import logging
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import connection
from multiprocessing.connection import Connection as Pipe
from multiprocessing.context import SpawnProcess
from types import FrameType
from typing import Any, cast

from cr5.server.http_server import drop_new_connections
from cr5.server.logs import EVENT_LOG

log, events = logging.getLogger("cr5.server"), logging.getLogger(EVENT_LOG)

POLL_SECONDS = 0.2  # the longest wait before the supervisor checks for signals

# Runs a server on the socket. Its other arguments: whether all workers are warm, whether to warm up before the first
# connection is accepted, and what to call when this worker is warm.
Work = Callable[[socket.socket, Callable[[], bool], bool, Callable[[], None]], None]


@dataclass
class Worker:
    """A server process; ``pipe`` gets a message when it is warm."""

    process: SpawnProcess
    pipe: Pipe
    warm: bool = False

    def stop(self) -> None:
        """Ask the process to finish its requests and end."""
        self.process.terminate()

    def retire(self) -> None:
        """Ask the process to answer one more request on each of its connections, and end."""
        os.kill(cast(int, self.process.pid), signal.SIGUSR1)


class Supervisor:
    """Keeps ``count`` workers running until SIGINT or SIGTERM; SIGHUP replaces them one by one.

    A worker that has been replaced goes on while its clients have idle connections. The next SIGHUP has no effect until
    all such workers have ended, so that there are never more than twice ``count`` and one.

    Until all workers are warm, each accepts connections from its start, so that /health answers. Later ones are warm
    before they accept any. A worker must be warm, or dead, ``start_seconds`` after its start when it replaces another.
    """

    def __init__(self, work: Work, listening: socket.socket, count: int, start_seconds: float) -> None:
        self._work, self._listening, self._count, self._start_seconds = work, listening, count, start_seconds
        self._context = multiprocessing.get_context("spawn")
        # Without a lock, which a killed worker could leave locked.
        self._all_warm: ctypes.c_byte = self._context.RawValue("b", 0)
        self._workers: list[Worker] = []
        self._retiring: list[Worker] = []
        self._hangups = 0
        self._stopping = self._forced = False

    def run(self) -> None:
        """Start the workers and keep them running."""
        signal.signal(signal.SIGTERM, self._note_stop)
        signal.signal(signal.SIGINT, self._note_stop)
        if hasattr(signal, "SIGHUP"):
            signal.signal(signal.SIGHUP, self._note_hangup)
        self._workers = [self._start() for _ in range(self._count)]
        while not self._stopping:
            self._wait(POLL_SECONDS)
            self._replace_dead()
            if self._hangups and not (self._stopping or self._retiring):
                self._hangups = 0
                self._replace_all()
        # The socket is open in the workers only: each accepts what has arrived before it closes its own copy.
        drop_new_connections(self._listening)
        self._listening.close()
        for worker in [*self._workers, *self._retiring]:
            worker.stop()
        for worker in [*self._workers, *self._retiring]:
            while worker.process.is_alive():
                worker.process.join(POLL_SECONDS)
                if self._forced:
                    worker.process.kill()
            worker.pipe.close()

    def _note_stop(self, number: int, frame: FrameType | None) -> None:
        self._forced = self._stopping and number == signal.SIGINT
        self._stopping = True

    def _note_hangup(self, number: int, frame: FrameType | None) -> None:
        self._hangups += 1

    def _start(self) -> Worker:
        receiving, sending = self._context.Pipe(duplex=False)
        arguments = (self._work, self._listening, self._all_warm, sending)
        process = self._context.Process(target=_run_worker, args=arguments)
        process.start()
        sending.close()
        return Worker(process, receiving)

    def _wait(self, seconds: float, *more: Worker) -> None:
        """Wait until a worker ends or becomes warm, or a signal arrives."""
        workers = [*self._workers, *more]
        cold = [worker.pipe for worker in workers if not worker.warm]
        ready: list[Any] = connection.wait([*(worker.process.sentinel for worker in workers), *cold], seconds)
        for worker in workers:
            if worker.pipe in ready:
                try:
                    worker.warm = bool(worker.pipe.recv())
                except (EOFError, OSError):
                    worker.process.join()  # it has ended, or is about to
        if self._workers and all(worker.warm for worker in self._workers):
            self._all_warm.value = 1

    def _replace_dead(self) -> None:
        for worker in [worker for worker in self._retiring if not worker.process.is_alive()]:
            worker.pipe.close()
            self._retiring.remove(worker)
        for number, worker in enumerate(self._workers):
            if not worker.process.is_alive() and not self._stopping:
                log.error("worker %d has ended with status %s", worker.process.pid, worker.process.exitcode)
                worker.pipe.close()
                self._workers[number] = self._start()

    def _replace_all(self) -> None:
        """Replace each worker by a new one, which answers before the old one stops."""
        events.info("SIGHUP: replacing the workers", extra={"fields": {"event": "reload"}})
        for number, old in enumerate(self._workers):
            new, end = self._start(), time.monotonic() + self._start_seconds
            while not (new.warm or self._stopping) and new.process.is_alive() and time.monotonic() < end:
                self._wait(POLL_SECONDS, new)
            if not new.warm:
                problem = "was not ready in time" if new.process.is_alive() else "has ended before it was ready"
                new.process.kill()
                new.process.join()
                if not self._stopping:
                    log.error("a new worker %s; the old ones go on", problem)
                return
            self._workers[number] = new
            if old.warm and old.process.is_alive():
                old.retire()
            else:
                old.stop()
            self._retiring.append(old)


def _run_worker(work: Work, listening: socket.socket, all_warm: ctypes.c_byte, pipe: Pipe) -> None:
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a terminal that closes sends it to all processes
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # until the server handles it
    supervisor = multiprocessing.parent_process()
    threading.Thread(target=_stop_with, args=(supervisor,), daemon=True).start()
    work(listening, lambda: bool(all_warm.value), bool(all_warm.value), lambda: pipe.send(True))


def _stop_with(supervisor: Any) -> None:
    """Stop this worker when the supervisor has ended, even if it was killed: otherwise the port would stay in use."""
    supervisor.join()
    os.kill(os.getpid(), signal.SIGTERM)
