"""The processes that serve: one by itself, or several at one socket."""

import ctypes
import errno
import ipaddress
import logging
import multiprocessing
import os
import signal
import socket
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
from cr5.server.connection import Connection
from cr5.server.limits import QUERY, ServerSettings

LOOPBACK = ("localhost", "127.0.0.1", "::1")
HEAD = 12 * QUERY + 2**14  # bytes of a request before its body: a character of a query may take twelve
START = 60  # seconds that a worker may take to start on a busy machine
PAUSE = 5  # seconds until a worker that cannot open the index is followed by the next that tries
LARGE = 2**17  # bytes of a piece of memory that goes back to the system when it is freed
_MMAP_THRESHOLD = -3  # the number of this setting in glibc's malloc.h
log = logging.getLogger("cr5.server")


@dataclass(frozen=True)
class Factory:
    """Opens the index and makes the application, in whichever process it is called."""

    folder: Path
    settings: ServerSettings

    def __call__(self) -> FastAPI:
        """A new application."""
        return_memory()
        if parent := multiprocessing.parent_process():
            signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a terminal that is closed sends it to all
            threading.Thread(target=_follow, args=(parent,), daemon=True).start()
        try:
            return create_app(Index.open(self.folder, store=self.settings.store), self.settings)
        except Cr5Error as error:
            if parent is None:
                raise
            log.error("%s", error)  # the others go on meanwhile, and this one is replaced
            time.sleep(PAUSE)
            raise SystemExit(1) from None


class Workers(Multiprocess):
    """Processes at one socket, and the one that looks after them."""

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket]) -> None:
        super().__init__(config, sockets)
        self.should_exit = _Ending(self.signal_queue)

    def keep_subprocess_alive(self) -> None:
        """Replace who has died, at once: with its end of the pipe open here, the answer of a dead one is waited for."""
        for process in self.processes:
            process.child_conn.close()
        super().keep_subprocess_alive()


class _Ending(threading.Event):
    """Is set as soon as the signal has come, even if workers are being replaced and nobody has looked at it yet."""

    def __init__(self, signals: list[int]) -> None:
        super().__init__()
        self._signals = signals

    def is_set(self) -> bool:
        return super().is_set() or signal.SIGTERM in self._signals or signal.SIGINT in self._signals


def return_memory() -> bool:
    """Let glibc give large pieces of memory back at once; False with another C library, which is left alone.

    By itself it keeps pieces as large as the largest that was ever freed, up to 32 MB. Every search reads vectors into
    such pieces, and every thread keeps its own: a process grows for minutes, until each has had its worst search.
    """
    adjust = getattr(ctypes.CDLL(None), "mallopt", None)
    return adjust is not None and bool(adjust(_MMAP_THRESHOLD, LARGE))


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens at an address; port 0 is any that is free."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise Cr5Error(f"there is no address {host!r}; give --host 127.0.0.1, or an address of this machine") from None
    family, kind, protocol, _, address = found[0]
    listening = socket.socket(family, kind, protocol)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(address)
        listening.listen(2048)
    except OSError as error:
        listening.close()
        raise _unbindable(error, host, port) from None
    listening.set_inheritable(True)
    return listening


def _unbindable(error: OSError, host: str, port: int) -> Cr5Error:
    if error.errno == errno.EADDRINUSE:
        return Cr5Error(f"port {port} of {host} is taken; stop what runs there, or give another --port")
    if error.errno in (errno.EACCES, errno.EPERM):
        return Cr5Error(f"port {port} is not for everybody; give a --port from 1024 on")
    if error.errno == errno.EADDRNOTAVAIL:
        return Cr5Error(f"this machine has no address {host}; give --host 127.0.0.1, or one that it has")
    return Cr5Error(f"cannot listen at {host}, port {port} ({os.strerror(error.errno or 0).lower()}); choose others")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def address(listening: socket.socket) -> str:
    """The address of a server, as a browser takes it."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def serve(listening: socket.socket, folder: Path, settings: ServerSettings, workers: int = 1) -> None:
    """Answer until SIGINT or SIGTERM, and end what has begun.

    SIGHUP replaces workers one by one; one by itself needs no sign, since an index follows what is written to it.
    """
    log.setLevel(logging.INFO)
    options = {
        "log_level": "warning", "access_log": False, "server_header": False, "proxy_headers": False, "ws": "none",
        "http": Connection, "h11_max_incomplete_event_size": HEAD, "timeout_worker_healthcheck": START,
        "timeout_graceful_shutdown": int(settings.timeout) + 1,
    }  # fmt: skip
    if workers == 1:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        server = uvicorn.Server(uvicorn.Config(Factory(folder, settings)(), **options))  # type: ignore[arg-type]

        def end(number: int, frame: FrameType | None) -> None:
            server.should_exit = True

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, end)  # uvicorn has its own meanwhile, and raises theirs again when it has ended
        server.run([listening])
        return
    with tempfile.TemporaryDirectory(prefix="cr5-") as figures:
        rate = None if settings.rate is None else -(-settings.rate // workers)  # each counts for itself
        shared = replace(settings, figures=Path(figures), rate=rate)
        config = uvicorn.Config(Factory(folder, shared), factory=True, workers=workers, **options)  # type: ignore[arg-type]
        Workers(config, [listening]).run()


def _follow(parent: BaseProcess) -> None:
    """End with the process that looks after the workers, however it has ended: nobody else would free the port."""
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
