"""Many files: in order, over few connections, and all ended by the first error."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from faulty import AGENT, CONTENT, DEFAULTS, TARGET, Answer, Server, files, serving, settle, sha1

from cr5.errors import Cr5Error
from cr5.progress import Progress
from cr5.sources.http.client import StoppedError
from cr5.sources.http.download import Fetched
from cr5.sources.http.queue import Item, fetch_all


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle(tmp_path, monkeypatch)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


def several(server: Server, count: int) -> list[Item]:
    return [(f"{server.url}?{i}", Path(f"{i}.bz2"), sha1(CONTENT)) for i in range(count)]


def get_all(server: Server, count: int, **options: Any) -> list[Fetched]:
    return fetch_all(several(server, count), **DEFAULTS | options)


@pytest.mark.parametrize("connections", [1, 2])
def test_many_files_come_in_order_over_few_connections(server: Server, connections: int) -> None:
    seen: list[Progress] = []
    server.plan = [Answer(drop=300), Answer(503), Answer(drop=9000)]
    found = get_all(server, 7, connections=connections, progress=seen.append)
    assert [f.path.name for f in found] == [f"{i}.bz2" for i in range(7)]
    assert all(f.path.read_bytes() == CONTENT for f in found)
    assert server.most_open <= connections
    assert {(p.stage, p.total) for p in seen} == {("download files", 7)}
    assert (seen[-1].done, max(p.done for p in seen)) == (7, 7)
    if connections == 1:
        assert list(dict.fromkeys(path for _, path, _ in server.asked)) == [f"/dump.bz2?{i}" for i in range(7)]
    assert fetch_all([], agent=AGENT) == []


def test_the_first_error_stops_the_others_and_keeps_their_parts(server: Server) -> None:
    waiting = threading.Event()

    def nap(seconds: float) -> None:
        waiting.set()
        time.sleep(0.01)

    def reply(path: str) -> Answer:
        """File 0 comes in part and then waits for long; then file 1 is not there."""
        if path.endswith("?1"):
            waiting.wait(60)
            return Answer(404)
        return Answer(503, {"Retry-After": "3000"}) if waiting.is_set() else Answer(drop=4000)

    server.reply = reply
    with pytest.raises(Cr5Error) as caught:
        get_all(server, 4, sleep=nap)
    assert str(caught.value) == (
        f"{server.url}?1: not there, the server answers 404 Not Found; check the address, or take a newer dump"
    )
    assert files() == {"0.bz2.part", "0.bz2.part.json"}
    assert Path("0.bz2.part").read_bytes() == CONTENT[:4000]
    assert {path for _, path, _ in server.asked} == {"/dump.bz2?0", "/dump.bz2?1"}


def test_an_interrupt_ends_all_at_once(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    join = threading.Thread.join

    def interrupted(thread: threading.Thread, timeout: float | None = None) -> None:
        if timeout == 0.2 and server.asked:
            raise KeyboardInterrupt
        join(thread, timeout)

    server.reply = lambda path: Answer(503, {"Retry-After": "3000"})
    monkeypatch.setattr(threading.Thread, "join", interrupted)
    with pytest.raises(KeyboardInterrupt):
        get_all(server, 4, sleep=lambda _: time.sleep(0.01))
    assert files() == set()


def test_a_request_to_stop_ends_all(server: Server) -> None:
    with pytest.raises(StoppedError, match=r"stopped, nothing had come yet; run it again to go on$"):
        get_all(server, 4, stop=lambda: True)


@pytest.mark.parametrize("connections", [0, 3])
def test_more_than_two_connections_are_refused(server: Server, connections: int) -> None:
    with pytest.raises(Cr5Error) as caught:
        get_all(server, 1, connections=connections)
    assert str(caught.value) == f"{connections} connections at once are not polite; choose 1 or 2"


def test_a_list_is_checked_before_its_first_file(server: Server) -> None:
    with pytest.raises(Cr5Error) as caught:
        fetch_all([(server.url, TARGET, None), (server.url, Path("x/../dump.bz2").resolve(), None)], agent=AGENT)
    assert str(caught.value) == f"{TARGET.resolve()}: named twice; give every file a place of its own"
    with pytest.raises(Cr5Error, match=r"^'b' is no address"):
        fetch_all([(server.url, TARGET, None), ("b", Path("b"), None)], agent=AGENT)
    assert server.asked == []
