"""A disk that is full, a folder that cannot be written, and other refusals of the operating system."""

import errno
import json
import os
import shutil
import sys
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import running
from limits import fill
from raw_server import until
from serving import QUERY, StartServer, error_message
from starlette.testclient import TestClient

from cr5.cli.running import run_command
from cr5.index import Index
from cr5.index.stores.lance import LanceStore
from cr5.server.app import create_app
from cr5.server.errors import system_error

pytestmark = pytest.mark.slow


def body(concept: str, text: str = QUERY) -> dict[str, Any]:
    return {"documents": [{"concept": concept, "lang": "aa", "text": text}]}


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), 507, "the disk of the index is full"),
        (RuntimeError("LanceError(IO): failed (os error 28), a.rs:1"), 507, "the disk of the index is full"),
        (OSError(errno.EROFS, "Read-only file system"), 503, "cannot be written (read-only file system)"),
        (OSError(errno.EACCES, "Permission denied"), 503, "cannot be written (permission denied)"),
        (OSError(errno.EMFILE, "Too many open files"), 503, "no file descriptor left"),
        (MemoryError(), 503, "no memory left"),
    ],
)  # fmt: skip
def test_a_write_that_the_system_refuses_loses_nothing_and_the_service_goes_on(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    error: Exception, status: int, words: str,
) -> None:  # fmt: skip
    client, upsert = start_server(), LanceStore._upsert
    before = client.get("/info").json()["documents"]

    def fail(*given: Any) -> None:
        raise error

    monkeypatch.setattr(LanceStore, "_upsert", fail)
    assert words in error_message(client.post("/documents", json=body("refused")), status)
    assert "Traceback" not in caplog.text
    assert client.get("/info").json()["documents"] == before
    assert client.get("/search", params={"q": QUERY}).status_code == 200
    monkeypatch.setattr(LanceStore, "_upsert", upsert)
    assert client.post("/documents", json=body("accepted")).json()["new"] == 1
    assert client.get("/documents/aa:accepted").json()["text"] == QUERY


def test_writes_to_an_index_whose_folder_is_away_are_refused_until_it_is_back(
    index_folder: Path, tmp_path: Path
) -> None:
    folder, away = tmp_path / "served", tmp_path / "away"
    shutil.copytree(index_folder, folder)
    with TestClient(create_app(Index.open(folder)), base_url="http://localhost") as client:
        folder.rename(away)
        assert "folder of the index is missing" in error_message(client.post("/documents", json=body("new")), 503)
        assert "folder of the index is missing" in error_message(client.delete("/documents/aa:new"), 503)
        assert client.get("/health").status_code == 200
        away.rename(folder)
        assert client.post("/documents", json=body("new")).json()["new"] == 1


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES])
def test_what_the_system_refuses_to_a_search_is_not_said_of_the_index_but_named_in_the_log(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    client = start_server()

    def fail(*given: Any, **options: Any) -> None:
        raise OSError(number, os.strerror(number), "/tmp/spill")

    monkeypatch.setattr(Index, "search", fail)
    answer = client.get("/search", params={"q": QUERY})
    message = error_message(answer, 507 if number == errno.ENOSPC else 503)
    assert "index" not in message
    assert "document" not in message
    assert "/tmp/spill" in caplog.text


def test_a_server_whose_index_cannot_be_read_is_alive_but_not_ready_until_it_can(
    start_server: StartServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client, unusable = start_server(), "the index cannot be used at the moment; the server's log has the details"
    until(lambda: client.get("/ready").status_code == 200)
    (tmp_path / "index").rename(tmp_path / "elsewhere")
    answers = [client.get(path) for path in ("/ready", "/search?q=a")]
    assert client.get("/health").json() == {"status": "ok", "version": "0.1.0", "generation": 1}
    (tmp_path / "elsewhere").rename(tmp_path / "index")
    assert client.get("/ready").json() == {"status": "ready"}

    def fail(*given: Any) -> None:
        raise RuntimeError("a damaged\nfile")

    monkeypatch.setattr(Index, "get", fail)
    answers.append(client.get("/ready"))
    assert client.get("/health").status_code == 200
    assert [error_message(answer, 503) for answer in answers] == [unusable] * 3
    assert "the index cannot be read: a damaged\\nfile" in caplog.text


def test_other_errors_are_not_those_of_the_system() -> None:
    assert system_error(ValueError("x")) is None
    assert system_error(OSError("x")) is None
    assert system_error(FileNotFoundError(errno.ENOENT, "x")) is None


def test_a_full_disk_is_one_sentence_and_nothing_is_lost(index_folder: Path, small_disk: Path) -> None:
    folder = small_disk / "index"
    shutil.copytree(index_folder, folder)
    with TestClient(create_app(Index.open(folder)), raise_server_exceptions=False) as client:
        filling = fill(small_disk)
        message = error_message(client.post("/documents", json=body("new", QUERY * 500)), 507)
        assert message == "the disk of the index is full, and no document was changed; free some space, then try again"
        assert client.get("/search", params={"q": QUERY}).status_code == 200
        assert client.get("/documents/aa:new").status_code == 404
        filling.unlink()
        assert client.post("/documents", json=body("new")).json()["new"] == 1


def test_a_full_disk_is_one_sentence_on_the_command_line(
    index_folder: Path, model_folder: Path, small_disk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"concept": "new", "lang": "aa", "text": "%s"}\n' % (QUERY * 500), encoding="utf-8")
    folder = small_disk / "index"
    shutil.copytree(index_folder, folder)
    fill(small_disk)
    for target in (folder, small_disk / "other"):
        arguments = ["index", str(model_folder), str(corpus), "-o", str(target)]
        assert run_command(arguments) == 1
        printed = capsys.readouterr().err
        assert "no space left on device" in printed
        assert "; free some space" in printed
        assert "Traceback" not in printed
        assert "(os error" not in printed
        assert "[(" not in printed


@pytest.mark.services
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of another process")
def test_a_server_without_memory_refuses_large_requests_and_goes_on(index_folder: Path, tmp_path: Path) -> None:
    import resource

    folder = tmp_path / "index"
    shutil.copytree(index_folder, folder)
    documents = [{"concept": f"c{i}", "lang": "aa", "text": QUERY * 20} for i in range(100)]
    with running.server(folder) as (server, address):
        host = urlsplit(address).netloc

        def post(path: str, sent: dict[str, Any]) -> tuple[int, str]:
            with closing(HTTPConnection(host, timeout=120)) as connection:
                connection.request("POST", path, json.dumps(sent), {"Content-Type": "application/json"})
                answer = connection.getresponse()
                return answer.status, answer.read().decode()

        for _ in range(2):  # so that its threads have begun
            assert post("/documents", {"documents": documents})[0] == 200
            assert post("/embed", {"lang": "aa", "texts": [QUERY]})[0] == 200
        used = int(Path(f"/proc/{server.pid}/statm").read_text().split()[0]) * resource.getpagesize()
        before = resource.prlimit(server.pid, resource.RLIMIT_AS, (used + 30_000_000, resource.RLIM_INFINITY))
        changed = [document | {"text": document["text"] + "x"} for document in documents]
        for path, sent in (("/documents", {"documents": changed}), ("/embed", {"lang": "aa", "texts": [QUERY * 20]})):
            status, text = post(path, sent)
            assert status == 503
            assert "the server has no memory left; try again later" in text
        resource.prlimit(server.pid, resource.RLIMIT_AS, before)
        status, text = post("/documents", {"documents": changed})
        assert (status, json.loads(text)["renewed"]) == (200, 100)
