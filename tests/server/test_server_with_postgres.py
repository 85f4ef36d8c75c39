"""The server with an index in PostgreSQL: the same responses, and a database that stops, hangs and comes back."""

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import madeup
import postgres as private
import psycopg
import pytest
import running
from starlette.testclient import TestClient

from cr5 import Cr5, Document
from cr5.cli import run
from cr5.errors import IndexBusyError
from cr5.index import Index
from cr5.server.app import create_app
from cr5.server.settings import ServerSettings

pytestmark = [pytest.mark.services, pytest.mark.slow]

TIMEOUT_SECONDS = 120  # generous, because the machine may be busy

QUERY = madeup.text("aa", [3, 4, 5])
UNUSABLE = "the index cannot be used at the moment; the server's log has the details"
READS = ["/search?q=" + QUERY, "/similar?id=aa:Q001", "/explain?q=" + QUERY + "&id=bb:Q003", "/documents/aa:Q001"]
READS += ["/info", "/ready", "/metrics"]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with private.server() as address:
        yield address


@pytest.fixture(scope="module")
def built(url: str, model_folder: Path, documents: list[Document], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index in the database; every test deletes what it adds."""
    folder = tmp_path_factory.mktemp("web") / "index"
    index = Index.create(folder, model_folder, store=url)
    index.add(documents)
    index.close()
    return folder


@pytest.fixture
def client(built: Path, url: str) -> Iterator[TestClient]:
    app = create_app(Index.open(built, store=url), ServerSettings(store=url))
    with TestClient(app, raise_server_exceptions=False) as client:
        until(lambda: client.get("/ready").status_code == 200)
        yield client


def test_an_index_in_a_database_gives_the_same_responses_as_one_in_a_folder(
    client: TestClient, model_folder: Path, documents: list[Document], tmp_path: Path
) -> None:
    index = Index.create(tmp_path / "index", model_folder)
    index.add(documents)
    with TestClient(create_app(index)) as other:
        for path in READS[:4]:
            here, there = client.get(path), other.get(path)
            assert here.status_code == there.status_code == 200, here.text
            assert rounded(here.json() | {"milliseconds": 0}) == rounded(there.json() | {"milliseconds": 0})


def rounded(value: Any) -> Any:
    """A response with its numbers rounded to the precision of both stores."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return pytest.approx(value, abs=1e-5) if isinstance(value, float) else value


def test_documents_in_a_database_can_be_added_read_found_and_deleted(
    client: TestClient, documents: list[Document]
) -> None:
    new = {"concept": "new", "lang": "aa", "text": documents[0].text, "title": "New", "url": "https://x.test/"}
    assert client.post("/documents", json={"documents": [new]}).json()["new"] == 1
    assert client.get("/documents/aa:new").json() == new | {"id": "aa:new", "fields": {}}
    found = client.get("/similar", params={"id": "aa:Q000", "k": 1, "in": "aa"}).json()["hits"]
    assert [hit["id"] for hit in found] == ["aa:new"]
    assert client.delete("/documents/aa:new").json() == {"deleted": 1}
    assert client.get("/documents/aa:new").status_code == 404


def test_a_stopped_database_is_reported_and_used_again_when_it_is_back(
    client: TestClient, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    [folder] = parse_qs(urlsplit(url).query)["host"]
    database = private.get_server(folder)  # type: ignore[attr-defined]
    assert [client.get(path).status_code for path in READS] == [200] * len(READS)
    item = {"concept": "new", "lang": "aa", "text": QUERY}
    database.stop()
    try:
        refused = [client.get(path) for path in READS]
        assert client.get("/health").status_code == 200
        refused += [client.post("/documents", json={"documents": [item]}), client.delete("/documents/aa:new")]
    finally:
        database.ensure_postgres_running()
    for answer in refused:
        assert (answer.status_code, answer.json()) == (503, {"error": UNUSABLE})
        assert answer.headers["retry-after"] == "5"
    assert caplog.messages
    assert {message.split(":")[0].split(" cannot")[0] for message in caplog.messages} == {f"PostgreSQL at {folder}"}
    assert "Traceback" not in caplog.text
    assert [client.get(path).status_code for path in READS] == [200] * len(READS)
    assert client.post("/documents", json={"documents": [item]}).json()["new"] == 1
    assert client.delete("/documents/aa:new").json() == {"deleted": 1}


@contextmanager
def hanging(url: str, built: Path) -> Iterator[None]:
    """The database is running but does not respond."""
    [folder] = parse_qs(urlsplit(url).query)["host"]
    with running.stopped(int(Path(folder, "postmaster.pid").read_text().split()[0])):
        yield


@contextmanager
def locked(url: str, built: Path) -> Iterator[None]:
    """Another connection has locked the tables of the index."""
    table = json.loads((built / "index.json").read_text())["table"]
    with psycopg.connect(url) as connection:
        connection.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        yield


@pytest.mark.parametrize("out_of_reach", [hanging, locked])
def test_a_database_that_hangs_does_not_block_requests_that_do_not_need_it(
    built: Path, url: str, out_of_reach: Callable[[str, Path], AbstractContextManager[None]]
) -> None:
    settings = ServerSettings(store=url, threads=2, timeout_seconds=4, max_concurrent_requests=16)  # 12 reads
    item, texts = {"concept": "new", "lang": "aa", "text": QUERY}, {"lang": "aa", "texts": [QUERY]}
    app = create_app(Index.open(built, store=url), settings)
    with TestClient(app, raise_server_exceptions=False) as client, ThreadPoolExecutor(20) as pool:
        until(lambda: client.get("/ready").status_code == 200)
        assert [client.get(path).status_code for path in READS] == [200] * len(READS)
        with out_of_reach(url, built):
            waiting = [pool.submit(client.post, "/documents", json={"documents": [item]})]
            waiting += [pool.submit(client.get, path) for path in 5 * READS[:4]]
            until(lambda: sum(one.done() for one in waiting) >= 20 - 12)
            others = [client.post("/embed", json=texts), *map(client.get, ["/", "/docs", "/health"])]
            refused = [one.result(TIMEOUT_SECONDS) for one in waiting] + [client.get("/ready")]
        assert [answer.status_code for answer in others] == [200] * len(others)
        assert [answer.status_code for answer in refused] == [503] * len(refused)
        until(lambda: client.get("/ready").status_code == 200)
        assert [client.get(path).status_code for path in READS] == [200] * len(READS)
        assert client.post("/documents", json={"documents": [item]}).status_code == 200
        assert client.delete("/documents/aa:new").json() == {"deleted": 1}


def test_a_server_stops_even_if_a_write_waits_for_the_database(built: Path, url: str) -> None:
    settings = ServerSettings(store=url, timeout_seconds=2, shutdown_seconds=1)
    table = json.loads((built / "index.json").read_text())["table"]

    def write() -> int:
        with TestClient(create_app(Index.open(built, store=url), settings)) as client:
            item = {"concept": "new", "lang": "aa", "text": QUERY}
            return client.post("/documents", json={"documents": [item]}).status_code

    with ThreadPoolExecutor(1) as pool, psycopg.connect(url) as connection:
        connection.execute(f"LOCK TABLE {table} IN SHARE MODE")  # which keeps writers out
        assert pool.submit(write).result(TIMEOUT_SECONDS) == 503
        connection.rollback()
    with closing(Index.open(built, store=url)) as index:
        assert index.get(["aa:new"]) == []


def test_a_search_on_the_command_line_fails_if_the_database_hangs(
    built: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with hanging(url, built):
        assert run(["search", str(built), QUERY, "--store", f"{url}&connect_timeout=2"]) == 1
    assert capsys.readouterr().err == (
        f"error: PostgreSQL at {url.partition('host=')[2]} cannot be reached (connection timeout expired); "
        "check address, user and password\n"
    )


def until(holds: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + TIMEOUT_SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_database_may_be_restarted_between_two_requests(client: TestClient, url: str) -> None:
    [folder] = parse_qs(urlsplit(url).query)["host"]
    database = private.get_server(Path(folder))  # type: ignore[attr-defined]
    assert [client.get(path).status_code for path in READS] == [200] * len(READS)
    database.stop()
    database.ensure_postgres_running()
    assert [client.get(path).status_code for path in READS] == [200] * len(READS)


def test_workers_go_on_while_the_index_is_rebuilt_and_one_of_them_is_killed(
    url: str, model_folder: Path, documents: list[Document], tmp_path: Path
) -> None:
    folder, some = tmp_path / "index", madeup.split(documents)[0]
    Cr5(**(madeup.SETTINGS | {"rank": 20})).fit(some).save(tmp_path / "other")
    with closing(Index.create(folder, model_folder, store=url)) as index:
        index.add(some)
    over, added = threading.Event(), list[str]()
    answered, broken = list[int](), list[httpx2.TransportError]()

    def search(address: str) -> None:
        while not over.is_set():
            try:
                answered.append(
                    httpx2.get(f"{address}/search", params={"q": QUERY}, timeout=TIMEOUT_SECONDS).status_code
                )
            except httpx2.TransportError as error:
                broken.append(error)

    def add(address: str) -> None:
        while not over.is_set():
            body = {"documents": [{"concept": f"n{len(added)}", "lang": "aa", "text": QUERY}]}
            try:
                if httpx2.post(f"{address}/documents", json=body, timeout=TIMEOUT_SECONDS).status_code == 200:
                    added.append(body["documents"][0]["concept"])
            except httpx2.TransportError as error:
                broken.append(error)

    def more(said: list[Any]) -> bool:
        """Wait until the list has grown."""
        before = len(said)
        until(lambda: len(said) > before + 2)
        return True

    with running.server(folder, "--workers", 2, "--store", url) as (server, address), ThreadPoolExecutor(3) as pool:
        asking = [pool.submit(search, address), pool.submit(search, address), pool.submit(add, address)]
        try:
            assert more(answered)
            assert more(added)
            with closing(Index.open(folder, store=url)) as index:
                until(lambda: rebuilt(index, tmp_path / "other"))
            assert more(answered)
            assert more(added)
            assert broken == []
            victim, _ = running.workers(server.pid)
            os.kill(victim, signal.SIGKILL)  # with it go the requests that it was answering
            until(lambda: len(running.workers(server.pid)) == 2 and victim not in running.workers(server.pid))
            assert more(answered)
            assert more(added)
        finally:
            over.set()
        assert [one.result(TIMEOUT_SECONDS) for one in asking] == [None] * 3
        assert set(answered) == {200}
        assert len(broken) <= 3
        assert httpx2.get(f"{address}/metrics", timeout=TIMEOUT_SECONDS).text.count("cr5_index_generation 2") == 1
        workers = running.workers(server.pid)
        server.send_signal(signal.SIGTERM)
        assert server.wait(TIMEOUT_SECONDS) == 0
        assert not any(running.is_running(pid) for pid in workers)
        until(lambda: connections(url) == 0)
    with closing(Index.open(folder, store=url)) as index:
        assert len(index.get([f"aa:{concept}" for concept in added])) == len(added)


def rebuilt(index: Index, model: Path) -> bool:
    """Encode everything with another model, unless another process is writing."""
    try:
        index.reindex(model)
    except IndexBusyError:
        return False
    return True


def connections(url: str) -> int:
    """The number of other connections."""
    query = "SELECT count(*) - 1 FROM pg_stat_activity WHERE backend_type = 'client backend'"
    with psycopg.connect(url) as connection:
        found = connection.execute(query).fetchone()
    assert found is not None
    return int(found[0])
