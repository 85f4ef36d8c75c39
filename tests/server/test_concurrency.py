"""Requests at the same time: timeouts, too many requests, errors, and writing while reading."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import madeup
import pytest
from serving import QUERY, StartServer, error_message

from cr5 import Cr5, Document
from cr5.index import Index, snapshot
from cr5.server import handlers

pytestmark = pytest.mark.slow


def hold_documents(monkeypatch: pytest.MonkeyPatch, release: threading.Event) -> threading.Semaphore:
    """Let documents wait until the release is set; whoever waits there releases what is returned."""
    plain, arrived = handlers.document, threading.Semaphore(0)

    def document(*arguments: Any, **options: Any) -> Any:
        arrived.release()
        release.wait(60)
        return plain(*arguments, **options)

    monkeypatch.setattr(handlers, "document", document)
    return arrived


def test_a_request_that_takes_too_long_fails_and_others_go_on(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    hold_documents(monkeypatch, release)
    client = start_server(timeout_seconds=2)
    answer = client.get("/documents/aa:Q001")
    assert error_message(answer, 503) == "not finished within 2 s; request less, or try again later"
    assert answer.headers["retry-after"] == "5"
    assert client.get("/health").status_code == 200
    release.set()


def test_too_many_concurrent_requests_are_refused(start_server: StartServer, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    arrived = hold_documents(monkeypatch, release)
    client = start_server(max_concurrent_requests=2)
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(client.get, "/documents/aa:Q001") for _ in range(2)]
        assert all(arrived.acquire(timeout=60) for _ in waiting)
        answer = client.get("/nowhere")
        release.set()
        assert error_message(answer, 503) == "the server is handling too many requests; try again later"
        assert [future.result().status_code for future in waiting] == [200, 200]


def test_the_details_of_an_internal_error_are_only_in_the_log(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*arguments: Any, **options: Any) -> None:
        raise ZeroDivisionError("the secret")

    monkeypatch.setattr(handlers, "search", fail)
    answer = start_server().get("/search", params={"q": "x"})
    assert error_message(answer, 500) == "internal server error; the server's log has the details"
    assert "the secret" in caplog.text
    assert "Traceback" in caplog.text


def test_the_details_of_a_damaged_index_are_not_sent_to_clients(start_server: StartServer, tmp_path: Path) -> None:
    client = start_server()
    (tmp_path / "index" / "index.json").write_text("{")
    assert (
        error_message(client.get("/info"), 503)
        == "the index cannot be used at the moment; the server's log has the details"
    )


def test_a_write_waits_for_another_writer_but_not_forever(start_server: StartServer, tmp_path: Path) -> None:
    client, body = start_server(timeout_seconds=8), {"documents": [{"concept": "c", "lang": "aa", "text": QUERY}]}
    with ThreadPoolExecutor(1) as pool, snapshot.writer_lock(tmp_path / "index"):
        assert error_message(client.post("/documents", json=body), 503) == (
            "another process is writing the index; try again later"
        )
        assert client.get("/search", params={"q": QUERY, "lang": "aa"}).status_code == 200
        late = pool.submit(client.post, "/documents", json=body)
        time.sleep(0.2)
        assert not late.done()
    assert late.result().json()["new"] == 1


def test_searches_succeed_while_documents_are_written(start_server: StartServer, documents: list[Document]) -> None:
    client, stop = start_server(), threading.Event()

    def read() -> list[int]:
        statuses = []
        while not stop.is_set():
            statuses.append(client.get("/search", params={"q": QUERY}).status_code)
            statuses.append(client.get("/similar", params={"id": "aa:Q001"}).status_code)
        return statuses

    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(read) for _ in range(3)]

        def write(number: int) -> int:
            item = {"concept": f"new{number}", "lang": "aa", "text": documents[3 * number].text}
            assert client.post("/documents", json={"documents": [item]}).json()["new"] == 1
            return int(client.delete(f"/documents/aa:new{number}").json()["deleted"])

        try:
            assert [write(number) for number in range(4)] == [1] * 4
        finally:
            stop.set()
        assert {status for reader in readers for status in reader.result()} == {200}


def test_searches_succeed_while_the_index_is_rebuilt_with_another_model(
    start_server: StartServer, tmp_path: Path, documents: list[Document]
) -> None:
    client, stop = start_server(), threading.Event()
    other = tmp_path / "model"
    Cr5(**madeup.SETTINGS | {"rank": 40}).fit(madeup.split(documents)[0]).save(other)

    def read() -> set[int]:
        statuses = set()
        while not stop.is_set():
            answer = client.get("/search", params={"q": QUERY})
            statuses.add(answer.status_code)
        return statuses

    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(read)
        try:
            writer = Index.open(tmp_path / "index")
            writer.reindex(other)
            writer.close()
            assert client.get("/info").json()["rank"] == 40
        finally:
            stop.set()
        assert reader.result() == {200}
    assert client.get("/health").json()["generation"] == 2
