"""The server over an index in PostgreSQL: the same answers, and a database that goes away and comes back."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from starlette.testclient import TestClient

import madeup
import postgres as private
from cr5 import Document
from cr5.index.catalogue import Index
from cr5.web.limits import ServerSettings
from cr5.web.server import create_app

QUERY = madeup.text("aa", [3, 4, 5])
UNUSABLE = "the index cannot be used now; the log of the server tells why"
READS = ["/search?q=" + QUERY, "/similar?id=aa:Q001", "/explain?q=" + QUERY + "&id=bb:Q003", "/documents/aa:Q001"]
READS += ["/info", "/health", "/metrics"]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with private.server() as address:
        yield address


@pytest.fixture(scope="module")
def built(url: str, model_folder: Path, documents: list[Document], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index in the database. What a test adds, it deletes."""
    folder = tmp_path_factory.mktemp("web") / "index"
    index = Index.create(folder, model_folder, store=url)
    index.add(documents)
    index.close()
    return folder


@pytest.fixture
def client(built: Path, url: str) -> Iterator[TestClient]:
    app = create_app(Index.open(built, store=url), ServerSettings(store=url))
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


def test_an_index_in_a_database_answers_as_one_in_a_folder_does(
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
    """An answer whose numbers are only as exact as both stores promise."""
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
    assert client.get("/documents/aa:new").json() == new | {"id": "aa:new"}
    found = client.get("/similar", params={"id": "aa:Q000", "k": 1, "in": "aa"}).json()["hits"]
    assert [hit["id"] for hit in found] == ["aa:new"]
    assert client.delete("/documents/aa:new").json() == {"deleted": 1}
    assert client.get("/documents/aa:new").status_code == 404


def test_a_database_that_goes_away_is_told_in_a_sentence_and_used_again_when_it_is_back(
    client: TestClient, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    [folder] = parse_qs(urlsplit(url).query)["host"]
    database = private.get_server(folder)  # type: ignore[attr-defined]
    assert [client.get(path).status_code for path in READS] == [200] * len(READS)
    item = {"concept": "new", "lang": "aa", "text": QUERY}
    database.stop()
    try:
        refused = [client.get(path) for path in READS]
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


def test_a_database_that_was_started_anew_between_two_requests_is_not_noticed(client: TestClient, url: str) -> None:
    [folder] = parse_qs(urlsplit(url).query)["host"]
    database = private.get_server(Path(folder))  # type: ignore[attr-defined]
    assert [client.get(path).status_code for path in READS] == [200] * len(READS)
    database.stop()
    database.ensure_postgres_running()
    assert [client.get(path).status_code for path in READS] == [200] * len(READS)
