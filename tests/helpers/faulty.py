"""A faulty HTTP server, whose every answer a test can plan, and checks of the files downloaded from it."""

import hashlib
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from local_server import QuietHandler, QuietServer

from cr5.errors import Cr5Error
from cr5.sources.http.download import FetchedFile, fetch

USER_AGENT = "cr5-tests (tests@example.org)"
CONTENT = bytes(range(256)) * 40  # 10,240 bytes
OTHER = CONTENT[::-1] + b"more"
TARGET = Path("dump.bz2")
DEFAULTS: dict[str, Any] = {"user_agent": USER_AGENT, "sleep": lambda _: None, "timeout": 30.0}


def sha1(content: bytes) -> str:
    return f"sha1:{hashlib.sha1(content).hexdigest()}"


@dataclass
class Answer:
    """How one request is answered; by default, correctly."""

    status: int = 0
    headers: dict[str, str | None] = field(default_factory=dict)  # None: omitted
    drop: int | None = None  # the connection ends after this many bytes of the body
    reset: bool = False  # and it is reset, not closed
    ranges: bool = True  # whether Range is honoured
    conditions: bool = True  # whether If-Range is honoured
    hang: bool = False
    chunked: bool = False
    body: bytes | None = None
    change: bytes | None = None  # from this request on, the file has this content
    extra: bytes = b""


class Server(QuietServer):
    def __init__(self) -> None:
        super().__init__(Handler)
        self.content, self.etag, self.modified = CONTENT, '"1"', "Thu, 01 Jan 2026 00:00:00 GMT"
        self.planned: list[Answer] = []  # for the next requests; after these, ``reply`` decides
        self.reply: Callable[[str], Answer] = lambda path: Answer()
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.release = threading.Event()
        self.open = self.most_open = 0
        self.count = threading.Lock()
        self.url = f"http://127.0.0.1:{self.server_address[1]}/dump.bz2"

    @property
    def ranges(self) -> list[str]:
        """The requested ranges, in order."""
        return [headers.get("range", "all") for method, _, headers in self.requests if method == "GET"]


class Handler(QuietHandler):
    server: Server

    def do_GET(self) -> None:
        server = self.server
        with server.count:
            server.open, self.entered = server.open + 1, 1
            server.most_open = max(server.open, server.most_open)
            headers = {key.lower(): value for key, value in self.headers.items()}
            server.requests.append((self.command, self.path, headers))
            answer = server.planned.pop(0) if server.planned else None
        answer = answer or server.reply(self.path)
        with server.count:
            if answer.change is not None:
                server.content, server.etag = answer.change, f'"{int(server.etag[1:-1]) + 1}"'
        try:
            self.answer(answer, headers)
        finally:
            self.close_connection = True
            self.leave()

    def leave(self) -> None:
        with self.server.count:
            self.server.open -= self.entered
            self.entered = 0

    def answer(self, answer: Answer, headers: dict[str, str]) -> None:
        server = self.server
        if answer.hang and answer.drop is None:
            server.release.wait(120)
            return
        body, status = server.content if answer.body is None else answer.body, answer.status or 200
        sent: dict[str, str | None] = {"ETag": server.etag, "Last-Modified": server.modified}
        valid = headers.get("if-range") in (None, server.etag, server.modified) or not answer.conditions
        if status == 200 and "range" in headers and answer.ranges and valid:
            start = int(headers["range"].removeprefix("bytes=").removesuffix("-"))
            if start >= len(body):
                status, sent["Content-Range"], body = 416, f"bytes */{len(body)}", b""
            else:
                status = 206
                sent["Content-Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
                body = body[start:]
        sent["Transfer-Encoding" if answer.chunked else "Content-Length"] = (
            "chunked" if answer.chunked else str(len(body))
        )
        self.send_response(status)
        for key, value in (sent | answer.headers).items():
            if value is not None:
                self.send_header(key, value)
        self.send_header("Connection", "close")
        if answer.chunked:
            body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (body[:5000], body[5000:], b""))
        body = (body if answer.drop is None else body[: answer.drop]) + answer.extra
        if self.command == "HEAD" or not body or status >= 400:  # the client may read no more of an error than this
            self.leave()
        if self.command == "HEAD" or not body:
            self.end_headers()
            return
        self.end_headers()
        self.wfile.write(body[:-1])
        self.leave()  # before the last byte: after it the client may send its next request before this thread continues
        self.wfile.write(body[-1:])
        self.wfile.flush()
        if answer.hang:
            server.release.wait(120)
        if answer.reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()


@contextmanager
def serving() -> Iterator[Server]:
    """Run a server during the block."""
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.release.set()
        server.shutdown()
        thread.join()


def isolate(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in this folder, without proxies and without waiting for the disk."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(os, "fsync", lambda _: None)


def get(server: Server, path: Path = TARGET, **options: Any) -> FetchedFile:
    return fetch(server.url, path, **DEFAULTS | options)


def message(server: Server, path: Path = TARGET, error: type[Cr5Error] = Cr5Error, **options: Any) -> str:
    """The message of the error; the final file must not have changed."""
    before = path.read_bytes() if path.exists() else None
    with pytest.raises(error) as caught:
        get(server, path, **options)
    assert (path.read_bytes() if path.exists() else None) == before
    return str(caught.value).replace(server.url, "URL")


def files() -> set[str]:
    return {path.name for path in Path().iterdir()}


def is_complete(fetched: FetchedFile, content: bytes = CONTENT) -> bool:
    """Whether the file is right; nothing but its record may be left beside it."""
    assert files() == {"dump.bz2", "dump.bz2.fetched.json"}
    return fetched.path.read_bytes() == content
