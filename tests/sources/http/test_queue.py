"""The download queue: files in order, over few connections, all stopped by the first error."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from faulty import CONTENT, DEFAULTS, TARGET, Server, files
from local_server import USER_AGENT, Fault, sha1

from cr5.errors import Cr5Error
from cr5.progress import Progress
from cr5.sources.http.client import NotFoundError, StoppedError
from cr5.sources.http.download import FetchedFile
from cr5.sources.http.queue import QueuedFile, fetch_all


def several(server: Server, count: int) -> list[QueuedFile]:
    return [QueuedFile(f"{server.url}?{i}", Path(f"{i}.bz2"), sha1(CONTENT)) for i in range(count)]


def get_all(server: Server, count: int, **options: Any) -> list[FetchedFile]:
    return fetch_all(several(server, count), **DEFAULTS | options)


@pytest.mark.parametrize("connections", [1, 2])
def test_files_are_downloaded_in_order_over_few_connections(server: Server, connections: int) -> None:
    seen: list[Progress] = []
    server.planned = [Fault(drop=300), Fault(503), Fault(drop=9000)]
    fetched = get_all(server, 7, progress=seen.append, connections=connections)
    assert [f.path.name for f in fetched] == [f"{i}.bz2" for i in range(7)]
    assert all(f.path.read_bytes() == CONTENT for f in fetched)
    assert server.most_open <= connections
    assert {(p.stage, p.total) for p in seen} == {("download files", 7)}
    assert (seen[-1].done, max(p.done for p in seen)) == (7, 7)
    if connections == 1:
        assert list(dict.fromkeys(path for _, path, _ in server.requests)) == [f"/dump.bz2?{i}" for i in range(7)]
    assert fetch_all([], user_agent=USER_AGENT) == []


def test_the_first_error_stops_the_others_and_keeps_their_partial_files(server: Server) -> None:
    waiting = threading.Event()

    def nap(seconds: float) -> None:
        waiting.set()
        time.sleep(0.01)

    def reply(path: str) -> Fault:
        """File 0 is cut and then waits for long; then file 1 does not exist."""
        if path.endswith("?1"):
            waiting.wait(60)
            return Fault(404)
        return Fault(503, {"Retry-After": "3000"}) if waiting.is_set() else Fault(drop=4000)

    server.answer_of = reply
    with pytest.raises(NotFoundError, match=r"/dump\.bz2\?1: .* 404 Not Found"):
        get_all(server, 4, sleep=nap)
    assert files() == {"0.bz2.part", "0.bz2.part.json"}
    assert Path("0.bz2.part").read_bytes() == CONTENT[:4000]
    assert {path for _, path, _ in server.requests} == {"/dump.bz2?0", "/dump.bz2?1"}


def test_an_interrupt_stops_all_downloads_at_once(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    join = threading.Thread.join

    def interrupted(thread: threading.Thread, timeout: float | None = None) -> None:
        if timeout == 0.2 and server.requests:
            raise KeyboardInterrupt
        join(thread, timeout)

    server.answer_of = lambda path: Fault(503, {"Retry-After": "3000"})
    monkeypatch.setattr(threading.Thread, "join", interrupted)
    with pytest.raises(KeyboardInterrupt):
        get_all(server, 4, sleep=lambda _: time.sleep(0.01))
    assert files() == set()


def test_should_stop_stops_all_downloads(server: Server) -> None:
    with pytest.raises(StoppedError, match="stopped, nothing was received yet"):
        get_all(server, 4, should_stop=lambda: True)


def test_all_files_are_checked_before_the_first_request(server: Server) -> None:
    first = QueuedFile(server.url, TARGET, None)
    with pytest.raises(Cr5Error, match=f"{TARGET.resolve()}: two files"):
        fetch_all([first, QueuedFile(server.url, Path("x/../dump.bz2").resolve(), None)], user_agent=USER_AGENT)
    with pytest.raises(Cr5Error, match=r"^'b' is not an address"):
        fetch_all([first, QueuedFile("b", Path("b"), None)], user_agent=USER_AGENT)
    assert server.requests == []
