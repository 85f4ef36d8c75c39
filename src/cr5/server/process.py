"""Server processes: a single one, or several workers that share a socket under a supervisor."""

import ctypes
import errno
import ipaddress
import logging
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType

import uvicorn
from fastapi import FastAPI
from uvicorn.supervisors import Multiprocess

from cr5.errors import Cr5Error
from cr5.index import Index
from cr5.server.app import create_app
from cr5.server.connection import GracefulConnection
from cr5.server.metrics import SHARED_FOLDER_VARIABLE
from cr5.server.settings import MAX_QUERY_CHARS, ServerSettings

LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")
MAX_HEADER_BYTES = 12 * MAX_QUERY_CHARS + 2**14  # a character of a query takes up to 12 bytes in a URL
WORKER_START_SECONDS = 60  # that a worker may take to start on a busy machine
RESTART_PAUSE_SECONDS = 5  # before a worker that cannot open the index is replaced
MMAP_THRESHOLD_BYTES = 2**17  # freed blocks of at least this size go back to the operating system
_M_MMAP_THRESHOLD = -3  # the number of this parameter in glibc's malloc.h
log = logging.getLogger("cr5.server")


@dataclass(frozen=True)
class AppFactory:
    """Opens the index and creates the application, in whichever process it is called."""

    folder: Path
    settings: ServerSettings

    def __call__(self) -> FastAPI:
        """A new application."""
        return_freed_memory()
        if supervisor := multiprocessing.parent_process():
            _ignore_hangup()  # a terminal that closes sends it to all processes
            threading.Thread(target=_stop_with, args=(supervisor,), daemon=True).start()
        try:
            return create_app(Index.open(self.folder, store=self.settings.store), self.settings)
        except Cr5Error as error:
            if supervisor is None:
                raise
            log.error("%s", error)  # the other workers go on, and the supervisor replaces this one
            time.sleep(RESTART_PAUSE_SECONDS)
            raise SystemExit(1) from None


class Supervisor(Multiprocess):
    """The process that starts the workers, replaces those that die and stops them."""

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket]) -> None:
        super().__init__(config, sockets)
        self.should_exit = _StopEvent(self.signal_queue)

    def keep_subprocess_alive(self) -> None:
        """Replace workers that have died, without a delay.

        While this process holds the worker's end of the health-check pipe open, uvicorn waits for the response of a
        dead worker until its timeout; closing that end reveals the death at once.
        """
        for process in self.processes:
            process.child_conn.close()
        super().keep_subprocess_alive()


class _StopEvent(threading.Event):
    """Set as soon as a signal to stop has arrived, even if uvicorn is still busy replacing workers."""

    def __init__(self, signals: list[int]) -> None:
        super().__init__()
        self._signals = signals

    def is_set(self) -> bool:
        return super().is_set() or signal.SIGTERM in self._signals or signal.SIGINT in self._signals


def return_freed_memory() -> bool:
    """Make glibc return large freed blocks to the system at once; False with another C library, where nothing is done.

    By default glibc raises its threshold to the largest block ever freed, up to 32 MB, and keeps smaller ones. Every
    search reads vectors into such blocks, and every thread keeps its own, so that a process would grow for minutes.
    """
    mallopt = None if sys.platform == "win32" else getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(_M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES))


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens on an address; port 0 chooses a free one."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise Cr5Error(f"`host={host}` is not an address; use `host=127.0.0.1` or one of this machine") from None
    family, kind, protocol, _, address = addresses[0]
    listening = socket.socket(family, kind, protocol)
    if sys.platform != "win32":  # where it would let two servers use the same port
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(address)
        listening.listen(2048)
    except OSError as error:
        listening.close()
        raise _bind_error(error, host, port) from None
    listening.set_inheritable(True)
    return listening


def _bind_error(error: OSError, host: str, port: int) -> Cr5Error:
    if error.errno == errno.EADDRINUSE:
        return Cr5Error(f"`port={port}` of {host} is in use; stop the program that uses it, or choose another `port`")
    if error.errno in (errno.EACCES, errno.EPERM):
        return Cr5Error(f"`port={port}` needs administrator rights; choose a `port` of 1024 or more")
    if error.errno == errno.EADDRNOTAVAIL:
        return Cr5Error(f"`host={host}` is not an address of this machine; use `host=127.0.0.1` or one that it has")
    reason = os.strerror(error.errno or 0).lower()
    return Cr5Error(f"cannot listen on `host={host}`, `port={port}` ({reason}); choose others")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def url(listening: socket.socket) -> str:
    """The URL of a server that listens on a socket."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def serve(listening: socket.socket, folder: Path, settings: ServerSettings, workers: int = 1) -> None:
    """Serve an index until SIGINT or SIGTERM, and finish the requests that have begun.

    SIGHUP replaces the workers one by one; a single process ignores it, since an open index follows changes anyway.
    """
    log.setLevel(logging.INFO)
    options = {
        "log_level": "warning", "access_log": False, "server_header": False, "proxy_headers": False, "ws": "none",
        "http": GracefulConnection, "h11_max_incomplete_event_size": MAX_HEADER_BYTES,
        "timeout_worker_healthcheck": WORKER_START_SECONDS,
        "timeout_graceful_shutdown": int(settings.timeout_seconds) + 1,
    }  # fmt: skip
    if workers == 1:
        _ignore_hangup()
        server = uvicorn.Server(uvicorn.Config(AppFactory(folder, settings)(), **options))  # type: ignore[arg-type]

        def stop(number: int, frame: FrameType | None) -> None:
            server.should_exit = True

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, stop)  # uvicorn replaces these while it runs, and raises the signal again afterwards
        server.run([listening])
        return
    with tempfile.TemporaryDirectory(prefix="cr5-") as metrics_folder:
        os.environ[SHARED_FOLDER_VARIABLE] = metrics_folder  # which the workers inherit
        rate = settings.requests_per_minute
        share = None if rate is None else -(-rate // workers)  # each worker limits the requests that reach it
        settings = replace(settings, metrics_folder=Path(metrics_folder), requests_per_minute=share)
        config = uvicorn.Config(AppFactory(folder, settings), factory=True, workers=workers, **options)  # type: ignore[arg-type]
        try:
            Supervisor(config, [listening]).run()
        finally:
            del os.environ[SHARED_FOLDER_VARIABLE]


def _ignore_hangup() -> None:
    if hasattr(signal, "SIGHUP"):  # not on Windows
        signal.signal(signal.SIGHUP, signal.SIG_IGN)


def _stop_with(supervisor: BaseProcess) -> None:
    """Stop this worker when the supervisor has ended, even if it was killed: otherwise the port would stay in use."""
    supervisor.join()
    os.kill(os.getpid(), signal.SIGTERM)
