"""Several servers with one index in PostgreSQL, on machines that network namespaces imitate; links that are cut."""

import json
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import madeup
import network as imitated
import postgres as private
import psycopg
import pytest
import running
from network import CLIENT, Network

from cr5 import Document
from cr5.index import Index
from cr5.index.stores.postgres_database import CONNECTION_OPTIONS, Database

pytestmark = [pytest.mark.services, pytest.mark.slow]

DATABASE, WRITERS, READER = "10.77.0.2", ("10.77.0.11", "10.77.0.12"), "10.77.0.13"
SERVERS = (*WRITERS, READER)
ADDRESS = f"postgresql://postgres@{DATABASE}/postgres"
TIMEOUTS = "connect_timeout=2&tcp_user_timeout=3000&keepalives_idle=1&keepalives_interval=1&keepalives_count=2"
STORE = f"{ADDRESS}?{TIMEOUTS}"  # shorter timeouts than the usual ones, so that the tests are short
KEY, HEADERS = "secret", {"X-API-Key": "secret"}
MAX_SECONDS = 60  # for an answer, on a busy machine; the limit of the server is 30
QUERY = madeup.text("aa", [3, 4, 5])
SEARCH = "/search?group=concept&q=" + QUERY
UNUSABLE = {"error": "the index cannot be used at the moment; the server's log has the details"}
BUSY = {"error": "another process is writing the index; try again later"}


@dataclass
class Service:
    """A database, two servers that share the folder of its index, and a third one with a copy that only reads it."""

    network: Network
    folder: Path
    urls: dict[str, str]  # by the address of the machine
    logs: dict[str, Path]
    socket: str  # the address of the database without the network

    def request(self, server: str, path: str, method: str = "GET", *, at: str = CLIENT, **options: Any) -> Any:
        """The response to a request that a machine sends."""
        with self.network.inside(at):
            url = self.urls[server] + path
            return httpx2.request(method, url, headers=HEADERS, timeout=MAX_SECONDS, verify=False, **options)

    def add(self, server: str, concept: str, *, at: str = CLIENT) -> Any:
        """The response to the addition of a document."""
        body = {"documents": [{"concept": concept, "lang": "aa", "text": QUERY}]}
        return self.request(server, "/documents", "POST", at=at, json=body)

    def is_ready(self, server: str) -> bool:
        """Whether a server says that it is ready, on its own machine."""
        answer = self.request(server, "/ready", at=server)
        assert answer.status_code in (200, 503)
        return bool(answer.status_code == 200)


@pytest.fixture(scope="module")
def started(
    model_folder: Path, documents: list[Document], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    if reason := imitated.reason_not_to_run():
        pytest.skip(reason)
    folder, copy = (tmp_path_factory.mktemp("network") / name for name in ("index", "copy"))
    with Network([DATABASE, *SERVERS]) as machines, ExitStack() as stack:
        with machines.inside(DATABASE):
            socket = stack.enter_context(private.server(DATABASE))
        with machines.inside(), closing(Index.create(folder, model_folder, store=STORE)) as index:
            index.add(documents)
        shutil.copytree(folder, copy)
        urls, logs, processes = dict[str, str](), dict[str, Path](), dict[str, Any]()
        with ThreadPoolExecutor() as pool:

            def start(server: str) -> str:
                logs[server] = folder.parent / f"{server}.log"
                options = ["--host", server, "--api-key", KEY, "--store", STORE, "--log-file", logs[server]]
                with machines.inside(server):
                    if server == READER:
                        started = running.server(copy, "--read-only", *options)
                    else:
                        started = running.server(folder, *options)
                    processes[server], url = stack.enter_context(started)
                    return url

            urls |= zip(SERVERS, pool.map(start, SERVERS), strict=True)
        for process in processes.values():
            stack.callback(process.terminate)  # all of them, before the first is waited for
        yield Service(machines, folder, urls, logs, socket)


@pytest.fixture
def service(started: Service) -> Iterator[Service]:
    """The servers, all ready; after a test no log has a traceback."""
    until(lambda: all(map(started.is_ready, SERVERS)))
    yield started
    started.network.restore()
    for log in started.logs.values():
        assert "Traceback" not in log.read_text() if log.exists() else True


def until(holds: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + 2 * MAX_SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


@contextmanager
def repeated(work: Callable[[], object], threads: int = 1) -> Iterator[None]:
    """Do something again and again in other threads, until the context ends or it fails."""
    over = threading.Event()

    def repeat() -> None:
        while not over.is_set():
            work()

    with ThreadPoolExecutor(threads) as pool:
        repeating = [pool.submit(repeat) for _ in range(threads)]
        try:
            yield
        finally:
            over.set()
    for one in repeating:
        one.result()


def test_every_server_gives_the_same_answers(service: Service) -> None:
    for path in (SEARCH, "/search?mode=dense&q=" + QUERY, "/similar?id=aa:Q001", "/documents/bb:Q003", "/info"):
        answers = [service.request(server, path) for server in SERVERS]
        assert [answer.status_code for answer in answers] == [200] * len(SERVERS)
        first, *others = [answer.json() | {"milliseconds": 0, "writable": True} for answer in answers]
        assert others == [first] * len(others)


def test_a_document_added_through_one_server_is_found_through_the_others(service: Service) -> None:
    for writer, other in (WRITERS, WRITERS[::-1]):
        assert service.add(writer, "new").json()["new"] == 1
        for server in SERVERS:
            hits = service.request(server, SEARCH).json()["hits"]
            assert "aa:new" in [hit["id"] for hit in hits]
        assert service.request(other, "/documents/aa:new", "DELETE").json() == {"deleted": 1}
        for server in SERVERS:
            assert service.request(server, "/documents/aa:new").status_code == 404


@pytest.mark.parametrize("cut", [(WRITERS[0],), (DATABASE,)], ids=["server", "database"])
def test_servers_without_a_link_to_the_database_answer_503_until_it_is_back(service: Service, cut: tuple[str]) -> None:
    lost = SERVERS if DATABASE in cut else cut
    answers = {server: list[tuple[int, Any]]() for server in SERVERS}

    def ask(server: str) -> None:
        answer = service.request(server, SEARCH, at=server)
        answers[server].append((answer.status_code, answer.json() if answer.status_code != 200 else None))

    def last(server: str) -> int:
        return answers[server][-1][0] if answers[server] else 0

    with ExitStack() as stack:
        for server in SERVERS:
            stack.enter_context(repeated(lambda server=server: ask(server), 3))  # type: ignore[misc]
        until(lambda: all(last(server) == 200 for server in SERVERS))
        service.network.cut(*cut)
        until(lambda: all(last(server) == 503 for server in lost))
        assert not any(map(service.is_ready, lost))
        assert all(service.request(server, "/health", at=server).status_code == 200 for server in SERVERS)
        service.network.restore()
        until(lambda: all(map(service.is_ready, SERVERS)) and all(last(server) == 200 for server in SERVERS))
    for server in SERVERS:
        refused = [answer for answer in answers[server] if answer[0] != 200]
        assert refused == [(503, UNUSABLE)] * len(refused)
        assert server in lost or not refused


def test_acknowledged_documents_are_neither_lost_nor_doubled_when_links_are_cut(service: Service) -> None:
    numbers, tried, acknowledged = iter(range(10**6)), list[str](), {server: list[str]() for server in WRITERS}
    before = service.request(READER, "/info").json()["documents"]["aa"]

    def add(server: str) -> None:
        concept = f"n{next(numbers)}"
        tried.append(concept)
        answer = service.add(server, concept, at=server)
        if answer.status_code == 200:
            acknowledged[server].append(concept)
        else:
            assert answer.status_code == 503
            assert answer.json() in (UNUSABLE, BUSY)

    def grow(*servers: str) -> None:
        """Wait until some more documents have been added through each of these servers."""
        sizes = {server: len(acknowledged[server]) for server in servers}
        until(lambda: all(len(acknowledged[server]) > size + 2 for server, size in sizes.items()))

    with repeated(lambda: add(WRITERS[0])), repeated(lambda: add(WRITERS[1])):
        grow(*WRITERS)
        for cut, others in (((WRITERS[0],), [WRITERS[1]]), ((DATABASE,), [])):
            service.network.cut(*cut)
            until(lambda cut=cut: not service.is_ready(WRITERS[0]))  # type: ignore[misc]
            grow(*others)
            service.network.restore()
            grow(*WRITERS)
    safe = {concept for concepts in acknowledged.values() for concept in concepts}
    lacking = sorted({*tried} - safe)
    assert {service.add(WRITERS[0], concept).status_code for concept in lacking} <= {200}
    with service.network.inside(), closing(Index.open(service.folder, store=STORE)) as index:
        found = Counter(concept for rows in index.scan(["concept"]) for concept in rows["concept"].to_pylist())
        assert [found[concept] for concept in tried] == [1] * len(tried)
        assert index.count()["aa"] == before + len(tried)
        assert index.about()["full_text"] == len(index)
        index.delete([f"aa:{concept}" for concept in tried])


def test_a_transaction_whose_link_is_cut_does_not_keep_others_from_writing(service: Service) -> None:
    table = json.loads((service.folder / "index.json").read_text())["table"]
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    with ThreadPoolExecutor() as pool, psycopg.connect(service.socket) as lock, lock.cursor() as cursor:
        cursor.execute(f"LOCK TABLE {table}__hubness IN SHARE MODE")  # the row of the document is written before
        first = pool.submit(service.add, WRITERS[0], "new", at=WRITERS[0])
        until(lambda: cursor.execute(waiting).fetchone() == (1,))
        service.network.cut(WRITERS[0])
        lock.rollback()
        until(lambda: service.add(WRITERS[1], "new").status_code == 200)
        assert (first.result().status_code, first.result().json()) == (503, UNUSABLE)
        assert service.request(READER, "/documents/aa:new").json()["text"] == QUERY
        service.network.restore()
        until(lambda: service.is_ready(WRITERS[0]))
    assert service.request(WRITERS[0], "/documents/aa:new", "DELETE").json() == {"deleted": 1}


def test_both_ends_of_a_connection_notice_that_the_other_has_disappeared(service: Service) -> None:
    database = Database(ADDRESS, "any")
    with service.network.inside(), closing(database), database.connection() as connection:
        names = ("tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count", "tcp_user_timeout")
        query = "SELECT setting::int FROM pg_settings WHERE name = %s"
        there = [connection.execute(query, [name]).fetchone() for name in names]
        here: list[int] = [CONNECTION_OPTIONS[name.replace("tcp_keep", "keep")] for name in names]
    assert there == [(value,) for value in here]
