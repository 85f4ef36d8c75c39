"""A local HTTP server during a block, which records the requests and whose answers can be made to fail."""

import hashlib
import re
import socket
import struct
import threading
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self

USER_AGENT = "cr5-tests (tests@example.org)"


def sha1(content: bytes) -> str:
    """The digest of a file, as it is published."""
    return f"sha1:{hashlib.sha1(content).hexdigest()}"


@dataclass(frozen=True)
class Fault:
    """How one answer differs from the right one."""

    status: int = 0  # instead of the right one, with an empty body unless ``body`` is given
    headers: Mapping[str, str | None] = field(default_factory=dict)  # in addition: Retry-After, Location; None: omitted
    drop: int | None = None  # the connection ends after this many bytes of the body
    reset: bool = False  # and it is reset, not closed
    hang: bool = False  # nothing comes, or nothing more after the bytes before the drop
    ranges: bool = True  # False: a range is ignored, and the whole file is sent
    conditions: bool = True  # False: If-Range is ignored
    chunked: bool = False
    body: bytes | None = None  # instead of the right bytes, with their ETag
    extra: bytes = b""  # after the body
    change: bytes | None = None  # from this request on, the file of a ``faulty.Server`` has this content
    delay: float = 0.0  # seconds before the answer


class Request(NamedTuple):
    """A request as it was received."""

    method: str
    path: str
    headers: dict[str, str]  # names in lower case


class QuietServer(ThreadingHTTPServer):
    """A server on a free port of 127.0.0.1, which ignores clients that close their connection."""

    daemon_threads = True

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


class QuietHandler(BaseHTTPRequestHandler):
    """Sends requests of all methods to ``do_GET``, and logs nothing."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass

    def do_GET(self) -> None:
        raise NotImplementedError

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        self.do_GET()

    def do_PUT(self) -> None:
        self.do_GET()


class LocalServer:
    """Serves during its block; ``faults`` are by path, one for each request.

    ``most_open`` is the largest number of simultaneous connections; ``release`` ends all waits.
    """

    def __init__(self, handler: type["FileHandler"]) -> None:
        self.faults: dict[str, list[Fault]] = {}
        self.requests: list[Request] = []
        self.release = threading.Event()
        self.open = self.most_open = 0
        self.lock = threading.Lock()
        self._server = QuietServer(type("Handler", (handler,), {"local": self}))
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.release.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def fault_of(self, method: str, target: str) -> Fault:
        """The planned fault of a request; ``target`` is its path with the query."""
        with self.lock:
            planned = self.faults.get(urllib.parse.unquote(target.partition("?")[0]))
            return planned.pop(0) if planned else Fault()

    def fail(self, path: str, *faults: Fault) -> None:
        """Answer the next requests for this path with these faults, in order."""
        self.faults.setdefault(path, []).extend(faults)

    def requests_for(self, part: str, method: str = "GET") -> list[Request]:
        """The requests whose path contains this part."""
        return [request for request in self.requests if part in request.path and request.method == method]


class FileHandler(QuietHandler):
    """Records a request, and answers it by ``reply`` unless its fault has a status; ``send`` heeds the fault."""

    local: Any

    def do_GET(self) -> None:
        local, self.close_connection = self.local, True
        path, _, self.query = self.path.partition("?")
        path = urllib.parse.unquote(path)
        self.asked = {name.lower(): value for name, value in self.headers.items()}
        self.content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with local.lock:
            local.open, self.entered = local.open + 1, 1
            local.most_open = max(local.open, local.most_open)
            local.requests.append(Request(self.command, self.path, self.asked))
        try:
            self.fault = local.fault_of(self.command, self.path)
            local.release.wait(self.fault.delay)
            if self.fault.hang and self.fault.drop is None:
                local.release.wait(120)
            elif self.fault.status:
                self.send(self.fault.status, {}, self.fault.body or b"")
            else:
                self.reply(path)
        finally:
            self.leave()

    def reply(self, path: str) -> None:
        """Send the right answer."""
        raise NotImplementedError

    def leave(self) -> None:
        """Count the connection as closed."""
        with self.local.lock:
            self.local.open -= self.entered
            self.entered = 0

    def send_file(self, content: bytes, sent: dict[str, str]) -> None:
        """Send a file, or the range of it that was asked for."""
        content, status = content if self.fault.body is None else self.fault.body, 200
        wanted = re.fullmatch(r"bytes=([0-9]+)-([0-9]*)", self.asked.get("range", ""))
        is_valid = self.asked.get("if-range") in (None, sent.get("ETag"), sent.get("Last-Modified"))
        if wanted and self.fault.ranges and (is_valid or not self.fault.conditions):
            start, end = int(wanted[1]), min(int(wanted[2] or len(content)), len(content) - 1)
            if start > end:
                return self.send(416, {"Content-Range": f"bytes */{len(content)}"}, b"")
            sent["Content-Range"] = f"bytes {start}-{end}/{len(content)}"
            content, status = content[start : end + 1], 206
        return self.send(status, sent, content)

    def send(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Send an answer as the fault wants it."""
        fault = self.fault
        size = {"Transfer-Encoding": "chunked"} if fault.chunked else {"Content-Length": str(len(body))}
        self.send_response(status)
        for name, value in {**headers, **size, **fault.headers, "Connection": "close"}.items():
            if value is not None:
                self.send_header(name, value)
        if fault.chunked:
            body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (body[:5000], body[5000:], b""))
        body = b"" if self.command == "HEAD" else body[: fault.drop] + fault.extra
        if not body or status >= 400:  # the client may read no more of an error than this
            self.leave()
        self.end_headers()
        if not body:
            return
        self.wfile.write(body[:-1])
        self.leave()  # before the last byte: after it the client may send its next request before this thread continues
        self.wfile.write(body[-1:])
        self.wfile.flush()
        if fault.hang:
            self.local.release.wait(120)
        if fault.reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
