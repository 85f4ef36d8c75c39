"""A server in this process for tests that speak to it through raw sockets."""

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from cr5.index import Index
from cr5.server.app import create_app
from cr5.server.http_server import HttpServer
from cr5.server.process import MAX_HEADER_BYTES, listen
from cr5.server.readiness import Readiness
from cr5.server.settings import ServerSettings

TIMEOUT_SECONDS = 60  # generous, because the machine may be busy
QUICK_STOP = {"stop_quiet_seconds": 0.01, "stop_accept_seconds": 0.1, "stop_idle_seconds": 0.01, "discard_seconds": 1.0}


class RawServer:
    """A running server; ``server.table`` has its connections."""

    def __init__(self, server: HttpServer, port: int) -> None:
        self.server, self.port = server, port

    def connect(self, receive_buffer: int | None = None) -> socket.socket:
        """A new connection."""
        connection = socket.socket()
        connection.settimeout(TIMEOUT_SECONDS)
        if receive_buffer:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        connection.connect(("127.0.0.1", self.port))
        return connection

    def send(self, request: bytes) -> bytes:
        """All that the server sends on a new connection until it closes that, which it has to."""
        with self.connect() as connection:
            connection.sendall(request)
            return read_all(connection)

    def get(self, path: str, *headers: str) -> tuple[int, bytes]:
        """The status and the whole response of a GET request."""
        lines = [f"GET {path} HTTP/1.1", "Host: 127.0.0.1", "Connection: close", *headers, "", ""]
        answer = self.send("\r\n".join(lines).encode())
        return statuses(answer)[0], answer


@contextmanager
def raw_server(folder: Path, **settings: Any) -> Iterator[RawServer]:
    """A server of an index with some settings."""
    listening, chosen, readiness = listen("127.0.0.1", 0), ServerSettings(**QUICK_STOP | settings), Readiness()
    port = listening.getsockname()[1]
    app = create_app(Index.open(folder), chosen, readiness)
    config = uvicorn.Config(app, log_config=None, access_log=False, server_header=False, ws="none", http="h11",
                            loop="asyncio", h11_max_incomplete_event_size=MAX_HEADER_BYTES)  # fmt: skip
    server = HttpServer(config, chosen, readiness)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        yield RawServer(server, port)
    finally:
        server.should_exit = True
        thread.join(TIMEOUT_SECONDS)
        assert not thread.is_alive()


def read_all(connection: socket.socket) -> bytes:
    """Everything until the end of the connection; a reset fails."""
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts)


def wait_until(holds: Callable[[], bool]) -> bool:
    """Whether a condition holds before long."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not (found := holds()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return found


def was_closed(connection: socket.socket) -> bool:
    """Whether the server closes a connection without a response, by an end or by a reset."""
    try:
        return connection.recv(65536) == b""
    except ConnectionError:
        return True


def statuses(answer: bytes) -> list[int]:
    """The statuses of all responses in what a connection has received."""
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3})", answer)]


def until(holds: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + TIMEOUT_SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)
