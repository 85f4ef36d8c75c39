"""A faulty HTTP server, whose every answer a test can plan, and checks of the files downloaded from it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from local_server import USER_AGENT, Fault, FileHandler, LocalServer

from cr5.errors import Cr5Error
from cr5.sources.http.download import FetchedFile, fetch

CONTENT = bytes(range(256)) * 40  # 10,240 bytes
OTHER = CONTENT[::-1] + b"more"
TARGET = Path("dump.bz2")
DEFAULTS: dict[str, Any] = {"user_agent": USER_AGENT, "sleep": lambda _: None, "timeout": 30.0}


class Server(LocalServer):
    """A server of one file, whatever the path; the answers to the next requests are ``planned``."""

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.content, self.etag, self.modified = CONTENT, '"1"', "Thu, 01 Jan 2026 00:00:00 GMT"
        self.planned: list[Fault] = []  # for the next requests; after these, ``answer_of`` decides
        self.answer_of: Callable[[str], Fault] = lambda path: Fault()
        self.url = f"{self.url}/dump.bz2"

    def fault_of(self, method: str, target: str) -> Fault:
        """The planned answer, which may change the file."""
        with self.lock:
            answer = self.planned.pop(0) if self.planned else None
            if answer is not None and answer.change is not None:
                self.content, self.etag = answer.change, f'"{int(self.etag[1:-1]) + 1}"'
        return answer or self.answer_of(target)

    @property
    def ranges(self) -> list[str]:
        """The requested ranges, in order."""
        return [request.headers.get("range", "all") for request in self.requests if request.method == "GET"]


class _Handler(FileHandler):
    local: Server

    def reply(self, path: str) -> None:
        self.send_file(self.local.content, {"ETag": self.local.etag, "Last-Modified": self.local.modified})


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
    """Whether the file is right; nothing may be left beside it."""
    assert files() == {"dump.bz2"}
    return fetched.path.read_bytes() == content
