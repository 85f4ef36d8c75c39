"""What a server process runs: an index on a listening socket, alone or in several workers."""

import ctypes
import errno
import gc
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
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

import uvicorn

from cr5.errors import Cr5Error, Cr5Warning
from cr5.index import Index
from cr5.index.ingest import IngestSettings
from cr5.server import logs
from cr5.server.app import create_app
from cr5.server.http_server import HttpServer
from cr5.server.limits import MAX_QUERY_CHARS
from cr5.server.metrics import SHARED_FOLDER_VARIABLE
from cr5.server.readiness import Readiness
from cr5.server.settings import ServerSettings
from cr5.server.workers import Supervisor

LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")
MAX_HEADER_BYTES = 12 * MAX_QUERY_CHARS + 2**14  # a character of a query takes up to 12 bytes in a URL
WORKER_START_SECONDS = 120  # timeout for the start of a worker on a busy machine
RESTART_PAUSE_SECONDS = 5  # pause before a worker that cannot open the index is replaced
MMAP_THRESHOLD_BYTES = 2**17  # freed blocks of at least this size go back to the operating system
INGEST_SETTINGS = IngestSettings(optimise_beside=True)  # requests do not wait until files are merged
_M_MMAP_THRESHOLD = -3  # the number of this parameter in glibc's malloc.h
log = logging.getLogger("cr5.server")


def return_freed_memory() -> bool:
    """Make glibc return large freed blocks to the system at once; False with another C library, where nothing is done.

    By default glibc raises its threshold to the largest block ever freed, up to 32 MB, and keeps smaller ones. Every
    search reads vectors into such blocks, and every thread keeps its own, so that a process would grow for minutes.
    """
    mallopt = None if sys.platform == "win32" else getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(_M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES))


def freeze_objects() -> None:
    """Let the garbage collector pass over all objects that there are, since nearly all stay as long as the process.

    Otherwise it visits these 300,000 objects again and again while a large body is parsed, and nothing else runs. If
    the index is rebuilt later, what is in memory of the version before remains until the process ends.
    """
    gc.collect()
    gc.freeze()


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

    SIGHUP replaces the workers one by one; a single process only logs it, since an open index follows changes anyway.
    """
    logs.configure(settings.log_format, settings.log_file)
    if workers == 1:
        if hasattr(signal, "SIGHUP"):  # not on Windows
            signal.signal(signal.SIGHUP, _log_hangup)
        ServerProcess(folder, settings)(listening)
        return
    with tempfile.TemporaryDirectory(prefix="cr5-") as metrics_folder:
        os.environ[SHARED_FOLDER_VARIABLE] = metrics_folder  # which the workers inherit
        rate = settings.requests_per_minute
        share = None if rate is None else -(-rate // workers)  # each worker limits the requests that reach it
        settings = replace(settings, metrics_folder=Path(metrics_folder), requests_per_minute=share)
        try:
            Supervisor(ServerProcess(folder, settings), listening, workers, WORKER_START_SECONDS).run()
        finally:
            del os.environ[SHARED_FOLDER_VARIABLE]


def _log_hangup(number: int, frame: FrameType | None) -> None:
    message = (
        "SIGHUP has no effect on a single worker: a new snapshot of the index is used without it; start the server "
        "with --workers 2 or more to have workers replaced"
    )
    threading.Thread(target=log.warning, args=(message,)).start()  # the signal may have interrupted another line


@dataclass(frozen=True)
class ServerProcess:
    """Opens the index and serves it, in whichever process it is called."""

    folder: Path
    settings: ServerSettings

    def __call__(
        self,
        listening: socket.socket,
        others_are_warm: Callable[[], bool] = lambda: True,
        warm_first: bool = False,
        on_warm: Callable[[], None] = lambda: None,
    ) -> None:
        """Serve until SIGINT or SIGTERM."""
        settings = self.settings
        return_freed_memory()
        logs.configure(settings.log_format, settings.log_file)
        warnings.simplefilter("ignore", Cr5Warning)  # responses say what has been left out or replaced

        def finish_start() -> None:
            freeze_objects()
            on_warm()

        readiness = Readiness(others_are_warm, finish_start)
        try:
            app = create_app(
                Index.open(self.folder, store=settings.store, settings=INGEST_SETTINGS), settings, readiness
            )
        except Cr5Error as error:
            if multiprocessing.parent_process() is None:
                raise
            log.error("%s", error)  # the other workers go on, and the supervisor replaces this one
            time.sleep(RESTART_PAUSE_SECONDS)
            raise SystemExit(1) from None
        config = uvicorn.Config(
            app, log_config=None, access_log=False, server_header=False, proxy_headers=False, ws="none", http="h11",
            loop="asyncio", h11_max_incomplete_event_size=MAX_HEADER_BYTES,
            timeout_graceful_shutdown=int(settings.timeout_seconds) + 1,
        )  # fmt: skip
        is_worker = multiprocessing.parent_process() is not None
        server = HttpServer(config, settings, readiness, warm_first=warm_first, shares_socket=is_worker)

        def stop(number: int, frame: FrameType | None) -> None:
            server.should_exit = True

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, stop)  # uvicorn replaces these while it runs, and raises the signal again afterwards
        if is_worker and hasattr(signal, "SIGUSR1"):  # not on Windows
            signal.signal(signal.SIGUSR1, lambda *_: server.retire())
        server.run([listening])
