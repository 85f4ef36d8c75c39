"""A local HTTP server during a block, which records the requests and whose answers can be made to fail."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self


@dataclass(frozen=True)
class Fault:
    """How one answer differs from the right one."""

    status: int = 0  # instead of the right one, with an empty body
    headers: Mapping[str, str] = field(default_factory=dict)  # in addition: Retry-After, Location
    drop: int | None = None  # the connection ends after this many bytes of the body
    ranges: bool = True  # False: a range is ignored, and the whole file is sent
    body: bytes | None = None  # instead of the right bytes, with their ETag
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
    """Serves during its block; ``faults`` are by path, one for each request."""

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        self.faults: dict[str, list[Fault]] = {}
        self.requests: list[Request] = []
        self._lock = threading.Lock()
        self._server = QuietServer(handler)
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def fail(self, path: str, *faults: Fault) -> None:
        """Answer the next requests for this path with these faults, in order."""
        self.faults.setdefault(path, []).extend(faults)

    def requests_for(self, part: str, method: str = "GET") -> list[Request]:
        """The requests whose path contains this part."""
        return [request for request in self.requests if part in request.path and request.method == method]
