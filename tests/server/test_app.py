"""The server: every answer as agreed, every limit with its sentence, nothing let out that should stay inside."""

import base64
import hmac
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

import httpx2
import hypothesis
import madeup
import numpy as np
import pytest
import running
import schemathesis
import typer
from hypothesis.errors import Unsatisfiable
from prometheus_client.parser import text_string_to_metric_families
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance
from starlette.testclient import TestClient

from cr5 import Cr5, Document
from cr5.cli.render import console
from cr5.cli.serve import serve
from cr5.errors import Cr5Error
from cr5.index import Index, snapshot
from cr5.server import handlers, process
from cr5.server.access import RateLimiter, client_of, has_key, host_of
from cr5.server.app import create_app
from cr5.server.handlers import snippet, web_url
from cr5.server.metrics import SHARED_FOLDER_VARIABLE
from cr5.server.middleware import SECURITY_HEADERS
from cr5.server.projection import Projection
from cr5.server.reference import render_reference
from cr5.server.settings import ServerSettings

JSON = {"content-type": "application/json"}
QUERY = madeup.text("aa", [3, 4, 5])
Serving = Callable[..., TestClient]


@pytest.fixture(scope="module")
def built(model_folder: Path, documents: list[Document], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of all documents. Only to be read, or copied."""
    folder = tmp_path_factory.mktemp("web") / "index"
    index = Index.create(folder, model_folder)
    index.add(documents)
    index.close()
    return folder


@pytest.fixture(scope="module")
def client(built: Path) -> Iterator[TestClient]:
    """A server that only reads."""
    with TestClient(create_app(Index.open(built), ServerSettings(read_only=True))) as client:
        yield client


@pytest.fixture
def serving(built: Path, tmp_path: Path) -> Iterator[Serving]:
    """Starts servers with settings, over a copy that may be written."""
    folder = tmp_path / "index"
    shutil.copytree(built, folder)
    opened: list[TestClient] = []

    def start(**settings: Any) -> TestClient:
        app = create_app(Index.open(folder), ServerSettings(**settings))
        opened.append(TestClient(app, raise_server_exceptions=False).__enter__())
        return opened[-1]

    yield start
    for client in opened:
        client.__exit__(None, None, None)


def error(answer: httpx2.Response, status: int) -> str:
    """The sentence of a refusal, whose form and headers are checked."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert {name: answer.headers.get(name) for name in SECURITY_HEADERS} == SECURITY_HEADERS
    [(key, sentence)] = answer.json().items()
    assert key == "error"
    return str(sentence)


# Answers


def test_a_search_finds_what_the_index_finds(client: TestClient, built: Path) -> None:
    found = client.get("/search", params={"q": QUERY, "in": "bb,cc", "k": 5, "measure": "cosine"}).json()
    result = Index.open(built).search(QUERY, k=5, langs=["bb", "cc"], measure="cosine")
    hits = result.hits
    assert [hit["id"] for hit in found["hits"]] == [hit.id for hit in hits]
    assert [hit["score"] for hit in found["hits"]] == pytest.approx([hit.cosine for hit in hits])
    assert (found["query"], found["lang"], found["guessed"], found["known"]) == (QUERY, "aa", True, 1.0)
    assert found["confidence"] == pytest.approx(result.query.confidence)
    assert found["measure"] == "cosine"
    assert found["milliseconds"] > 0
    assert {hit["lang"] for hit in found["hits"]} <= {"bb", "cc"}
    assert set(found["hits"][0]) == {
        "id", "concept", "lang", "title", "url", "snippet", "score", "cosine", "x", "y",
    }  # fmt: skip


def test_a_language_that_is_given_is_not_guessed_and_an_empty_one_is(client: TestClient) -> None:
    given = client.get("/search", params={"q": QUERY, "lang": "bb"}).json()
    assert (given["lang"], given["guessed"], given["confidence"], given["hits"]) == ("bb", False, 1.0, [])
    empty = client.get("/search", params={"q": QUERY, "lang": "", "in": ""}).json()
    assert (empty["lang"], empty["guessed"], len(empty["hits"])) == ("aa", True, 10)


def test_similar_documents_are_those_of_the_concept(client: TestClient) -> None:
    found = client.get("/similar", params={"id": "aa:Q001", "k": 2}).json()
    assert {hit["id"] for hit in found["hits"]} == {"bb:Q001", "cc:Q001"}
    assert (found["query"], found["lang"], found["guessed"]) == ("aa 1", "aa", False)
    only = client.get("/similar", params={"id": "aa:Q001", "k": 1, "in": "cc"}).json()
    assert [hit["id"] for hit in only["hits"]] == ["cc:Q001"]


def test_places_on_the_map_are_the_widest_projection(built: Path) -> None:
    vectors = Index.open(built).background.stacked
    points = np.array(Projection.fit(vectors).transform(vectors))
    widest = np.linalg.svd(vectors - vectors.mean(axis=0), compute_uv=False)[:2]
    np.testing.assert_allclose(np.linalg.norm(points, axis=0), widest, rtol=1e-4)
    np.testing.assert_allclose(points.mean(axis=0), 0, atol=1e-5)


def test_a_query_lies_where_its_own_text_lies_on_the_map(client: TestClient, documents: list[Document]) -> None:
    [text] = [d.text for d in documents if (d.lang, d.concept) == ("aa", "Q001")]
    found = client.get("/search", params={"q": text, "k": 1, "in": "aa"}).json()
    assert found["hits"][0]["id"] == "aa:Q001"
    assert found["at"] == pytest.approx([found["hits"][0]["x"], found["hits"][0]["y"]], abs=1e-5)


def test_an_explanation_is_that_of_the_model(client: TestClient, model: Cr5, documents: list[Document]) -> None:
    [text] = [d.text for d in documents if (d.lang, d.concept) == ("bb", "Q003")]
    expected = model.explain(QUERY, "aa", text, "bb")
    found = client.get("/explain", params={"q": QUERY, "id": "bb:Q003"}).json()
    assert found["similarity"] == pytest.approx(expected.similarity, abs=1e-6)
    assert [word for word, _ in found["query_words"]] == [word for word, _ in expected.words_a]
    assert [word for word, _ in found["document_words"]] == [word for word, _ in expected.words_b]
    assert [tuple(pair[:2]) for pair in found["pairs"]] == [pair[:2] for pair in expected.pairs]


def test_an_explanation_may_be_between_two_documents(client: TestClient) -> None:
    found = client.get("/explain", params={"of": "aa:Q003", "id": "bb:Q003"}).json()
    other = client.get("/explain", params={"of": "aa:Q003", "id": "bb:Q004"}).json()
    assert found["similarity"] > 0.8 > other["similarity"]


def test_a_long_document_is_explained_by_the_passage_that_matches_wherever_it_is(serving: Serving) -> None:
    client, random = serving(), np.random.default_rng(0)
    sentence = madeup.text("bb", [3, 4, 5])
    others = [madeup.text("bb", random.integers(50, madeup.MEANINGS, 20).tolist()) for _ in range(1500)]
    text = ". ".join([*others, sentence])
    assert len(text) > 200_000
    client.post("/documents", json={"documents": [{"concept": "long", "lang": "bb", "text": text}]})
    answer = client.get("/explain", params={"q": QUERY, "id": "bb:long"})
    found = answer.json()
    assert found["snippet"].endswith(sentence)
    assert set(sentence.split()) <= {word for word, _ in found["document_words"]}
    assert set(zip(QUERY.split(), sentence.split(), strict=True)) <= {(a, b) for a, b, _ in found["pairs"]}
    assert len(answer.content) < 3000


def test_a_document_comes_as_it_was_given(client: TestClient, documents: list[Document]) -> None:
    given = documents[0]
    assert client.get(f"/documents/{given.lang}:{given.concept}").json() == {
        "id": "aa:Q000", "concept": "Q000", "lang": "aa", "title": given.title, "url": "", "text": given.text,
    }  # fmt: skip


def test_documents_can_be_added_renewed_found_and_deleted(serving: Serving, documents: list[Document]) -> None:
    client, text = serving(), documents[0].text
    new = {"concept": "new/one ?#", "lang": "aa", "text": text, "title": "<b>New</b>", "url": "https://x.test/?a=b"}
    url = "/documents/aa%3Anew%2Fone%20%3F%23"
    counts = {"new": 0, "renewed": 0, "unchanged": 0, "blank": {}, "unknown": {}}
    assert client.post("/documents", json={"documents": [new]}).json() == counts | {"new": 1}
    assert client.get(url).json() == new | {"id": "aa:new/one ?#"}
    assert client.post("/documents", json={"documents": [new]}).json() == counts | {"unchanged": 1}
    changed = new | {"text": text + " " + QUERY}
    assert client.post("/documents", json={"documents": [changed]}).json() == counts | {"renewed": 1}
    assert "aa:new/one ?#" in [hit["id"] for hit in client.get("/similar", params={"id": "aa:Q000"}).json()["hits"]]
    useless = [new | {"lang": "zz"}, new | {"concept": "blank", "text": "nothing known"}]
    expected = counts | {"blank": {"aa": 1}, "unknown": {"zz": 1}}
    assert client.post("/documents", json={"documents": useless}).json() == expected
    assert client.delete(url).json() == {"deleted": 1}
    assert client.delete(url).json() == {"deleted": 0}
    assert error(client.get(url), 404) == (
        "there is no document 'aa:new/one ?#' in the index; use an id that a search returned"
    )


def test_embedding_is_that_of_the_model(client: TestClient, model: Cr5) -> None:
    texts = [QUERY, "nothing known", ""]
    found = client.post("/embed", json={"texts": texts, "lang": "aa"}).json()
    np.testing.assert_allclose(found["vectors"], model.encode(texts, "aa"), atol=1e-6)
    assert found["known"] == [1.0, 0.0, 0.0]


def test_embeddings_have_the_form_of_openai(client: TestClient, model: Cr5) -> None:
    body = {"input": QUERY, "model": "text-embedding-3-small", "user": "me", "something": ["new"]}
    found = client.post("/v1/embeddings", json=body).json()
    vector = found["data"][0].pop("embedding")
    assert found == {
        "object": "list",
        "data": [{"object": "embedding", "index": 0}],
        "model": "text-embedding-3-small",
        "usage": {"prompt_tokens": 3, "total_tokens": 3},
    }
    np.testing.assert_allclose(vector, model.encode([QUERY], "aa")[0], atol=1e-6)


def test_base64_holds_the_same_numbers_and_each_text_its_language(client: TestClient, model: Cr5) -> None:
    texts = [madeup.text(lang, [3, 4, 5]) for lang in ("bb", "aa", "bb")]
    found = client.post("/v1/embeddings", json={"input": texts, "encoding_format": "base64"}).json()["data"]
    vectors = [np.frombuffer(base64.b64decode(item["embedding"]), "<f4") for item in found]
    assert [item["index"] for item in found] == [0, 1, 2]
    np.testing.assert_allclose(vectors[0], vectors[2])
    np.testing.assert_allclose(vectors[1], model.encode(texts[1:2], "aa")[0], atol=1e-6)


def test_the_name_of_the_model_may_fix_the_language(client: TestClient) -> None:
    body = {"input": QUERY, "model": "cr5:bb", "dimensions": 60}
    assert not any(client.post("/v1/embeddings", json=body).json()["data"][0]["embedding"])
    assert error(client.post("/v1/embeddings", json=body | {"model": "cr5:zz"}), 422) == (
        "the index has no language 'zz'; its languages are aa, bb, cc"
    )
    assert error(client.post("/v1/embeddings", json=body | {"dimensions": 512}), 422) == (
        "dimensions is 512, but the model has 60; leave it out"
    )
    assert error(client.post("/v1/embeddings", json={"input": [[1, 2]]}), 422) == (
        "input.0 is not a string; send a string or a list of strings (lists of token ids are not supported)"
    )


def test_info_and_health_tell_what_is_there(client: TestClient) -> None:
    assert client.get("/info").json() == {
        "version": "0.1.0",
        "documents": {"aa": 150, "bb": 150, "cc": 150},
        "languages": ["aa", "bb", "cc"],
        "rank": 60,
        "measures": ["csls", "cosine"],
        "writable": False,
        "examples": [],  # no title here has a word that the model knows
    }
    assert client.get("/health").json() == {"status": "ok", "version": "0.1.0", "generation": 1}


def test_metrics_count_requests_by_route(serving: Serving) -> None:
    client = serving()
    for path in ["/health", "/documents/aa:Q001", "/documents/aa:Q002", "/documents/none", "/nowhere/1", "/nowhere/2"]:
        client.get(path)
    client.request("BREW", "/pot")
    answer = client.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    samples = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in families.values()
        for sample in family.samples
    }

    def value(name: str, **labels: str) -> float:
        return samples[(name, *sorted(labels.items()))]

    document = "/documents/{id:path}"
    assert value("cr5_requests_total", method="GET", path=document, status="200") == 2
    assert value("cr5_requests_total", method="GET", path=document, status="404") == 1
    assert value("cr5_requests_total", method="GET", path="other", status="404") == 2
    assert value("cr5_requests_total", method="other", path="other", status="404") == 1
    assert value("cr5_request_seconds_bucket", path="/health", le="+Inf") == 1
    assert value("cr5_request_seconds_bucket", path="/health", le="30") == 1
    assert value("cr5_request_seconds_count", path=document) == 3
    assert value("cr5_request_seconds_sum", path=document) > 0
    assert value("cr5_documents", lang="bb") == 150
    assert value("cr5_index_generation") == 1
    assert value("cr5_requests_in_flight") == 1
    assert value("process_resident_memory_bytes") > 10**7
    assert time.time() - 3600 < value("process_start_time_seconds") <= time.time()
    assert {name: family.type for name, family in families.items()} == {
        "cr5_requests": "counter",
        "cr5_request_seconds": "histogram",
        "cr5_requests_in_flight": "gauge",
        "cr5_documents": "gauge",
        "cr5_index_generation": "gauge",
        "process_resident_memory_bytes": "gauge",
        "process_start_time_seconds": "gauge",
    }


def test_the_metrics_of_all_worker_processes_are_added_up(tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
from cr5.server.metrics import Metrics
metrics = Metrics(Path(sys.argv[1]))
metrics.observe("GET", "/", 200, 0.02)
print(metrics.exposition({}, 1))
"""
    environment = os.environ | {SHARED_FOLDER_VARIABLE: str(tmp_path)}
    command = [sys.executable, "-c", program, str(tmp_path)]
    for _ in range(2):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert 'cr5_requests_total{method="GET",path="/",status="200"} 2.0' in lines
    assert 'cr5_request_seconds_bucket{le="0.01",path="/"} 0.0' in lines
    assert 'cr5_request_seconds_bucket{le="0.025",path="/"} 2.0' in lines
    assert 'cr5_request_seconds_bucket{le="1",path="/"} 2.0' in lines
    assert 'cr5_request_seconds_sum{path="/"} 0.04' in lines
    assert "# HELP cr5_requests_total Requests answered by all workers." in lines


def test_the_page_and_the_reference_are_served_and_ask_nobody_else(client: TestClient) -> None:
    page, docs = client.get("/"), client.get("/docs")
    assert page.headers["content-type"] == docs.headers["content-type"] == "text/html; charset=utf-8"
    for answer in (page, docs):
        assert not re.search(r'(?:src|href)="(?:https?:)?//', answer.text)
    assert "GET /search" in docs.text
    kinds = {"app.js": "text/javascript", "style.css": "text/css", "reference.css": "text/css"}
    for name, kind in kinds.items():
        assert client.get(f"/static/{name}").headers["content-type"] == f"{kind}; charset=utf-8"
    assert client.head("/").status_code == client.head("/static/app.js").status_code == 200


def test_the_reference_escapes_what_it_shows() -> None:
    schema = {"info": {"title": "<script>", "version": '"&'}, "paths": {}}
    assert b'<h1>&lt;script&gt; "&amp;</h1>' in render_reference(schema)


# Limits


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("", "q is missing; it is required"),
        ("q=", "q is empty; send at least one character"),
        (f"q={'x' * 10_001}", "q has 10,001 characters; send at most 10,000"),
        ("q=a&k=0", "k is 0; it must be at least 1"),
        ("q=a&k=101", "k is 101; it must be at most 100"),
        ("q=a&k=ten", "k is 'ten'; it must be a whole number"),
        ("q=a&k=1e400", "k is '1e400'; it must be a whole number"),
        (f"q=a&k={'9' * 5000}", f"k is '{'9' * 60}…'; it must be a whole number"),
        ("q=a&measure=dot", "measure is 'dot'; it must be 'cosine' or 'csls'"),
        ("q=a&lang=zz", "the index has no language 'zz'; its languages are aa, bb, cc"),
        ("q=a&in=aa,zz", "the index has no language 'zz'; its languages are aa, bb, cc"),
        ("q=a&in=%0d%0aSet-Cookie:x", "the index has no language 'Set-Cookie:x'; its languages are aa, bb, cc"),
        ("q=a&language=aa", "'language' is not a known name here; remove it, or see /docs"),
    ],
)
def test_a_search_that_does_not_fit_is_told_why(client: TestClient, query: str, sentence: str) -> None:
    answer = client.get(f"/search?{query}")
    assert error(answer, 422) == sentence
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    ("query", "status", "sentence"),
    [
        ("id=aa:Q001", 422, "give either q (a text) or of (the id of a document), and not both"),
        ("id=aa:Q001&q=a&of=aa:Q002", 422, "give either q (a text) or of (the id of a document), and not both"),
        ("q=a", 422, "id is missing; it is required"),
        ("q=a&id=x", 404, "there is no document 'x' in the index; use an id that a search returned"),
        (
            "of=x%00&id=aa:Q001",
            404,
            r"there is no document 'x\x00' in the index; use an id that a search returned",
        ),
        ("q=a&lang=zz&id=aa:Q001", 422, "the index has no language 'zz'; its languages are aa, bb, cc"),
    ],
)
def test_an_explanation_that_does_not_fit_is_told_why(
    client: TestClient, query: str, status: int, sentence: str
) -> None:
    assert error(client.get(f"/explain?{query}"), status) == sentence


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        (b"{", 400, "the body is not valid JSON; send a JSON object encoded as UTF-8"),
        (b"[" * 100_000, 400, "the body is not valid JSON; send a JSON object encoded as UTF-8"),
        (b'{"texts":["\xff"],"lang":"aa"}', 400, "the body is not valid JSON; send a JSON object encoded as UTF-8"),
        (b'{"texts":["\\ud800"],"lang":"aa"}', 422, "texts.0 contains an unpaired surrogate; send valid Unicode"),
        (b'{"texts":[NaN],"lang":"aa"}', 422, "texts.0 is nan; it must be a string"),
        (b'{"texts":[-Infinity],"lang":"aa"}', 422, "texts.0 is -inf; it must be a string"),
        (b'{"texts":[null],"lang":"aa"}', 422, "texts.0 is null; it must be a string"),
        (b'{"texts":[{}],"lang":"aa"}', 422, "texts.0 is an object; it must be a string"),
        (b'{"texts":"a","lang":"aa"}', 422, "texts is 'a'; it must be a list"),
        (b'{"texts":[],"lang":"aa"}', 422, "texts is empty; send at least one item"),
        (b'{"texts":["a"],"lang":"zz"}', 422, "the index has no language 'zz'; its languages are aa, bb, cc"),
        (b'{"texts":["a"]}', 422, "lang is missing; it is required"),
        (b'{"texts":["a"],"lang":"aa","x":1}', 422, "'x' is not a known name here; remove it, or see /docs"),
        (b"[]", 422, "the body is a list; see /docs for its format"),
        (b"", 422, "the body is missing; it is required"),
        (json.dumps({"texts": ["a"] * 257, "lang": "aa"}).encode(), 422, "texts has 257 items; send at most 256"),
        (
            json.dumps({"texts": ["a" * 1_000_001], "lang": "aa"}).encode(),
            422,
            "texts.0 has 1,000,001 characters; send at most 1,000,000",
        ),
        (b" " * 2_000_001, 413, "the body is larger than 2,000,000 bytes; split it into several requests"),
    ],
)
def test_a_body_that_does_not_fit_is_told_why(client: TestClient, body: bytes, status: int, sentence: str) -> None:
    assert error(client.post("/embed", content=body, headers=JSON), status) == sentence


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"concept": " "}, "documents.0.concept is blank; send more than white space"),
        ({"lang": "\x85"}, "documents.0.lang is blank; send more than white space"),
        ({"text": "\t\n"}, "documents.0.text is blank; send more than white space"),
        ({"concept": "a\0b"}, "documents.0.concept contains a NUL character; remove it"),
        ({"concept": "x" * 201}, "documents.0.concept has 201 characters; send at most 200"),
        (
            {"url": "javascript:alert(1)"},
            "documents.0.url is 'javascript:alert(1)'; it must begin with http:// or https://",
        ),
    ],
)
def test_a_document_that_does_not_fit_is_told_why(serving: Serving, change: dict[str, str], sentence: str) -> None:
    body = {"documents": [{"concept": "c", "lang": "aa", "text": "t"} | change]}
    assert error(serving().post("/documents", json=body), 422) == sentence


def test_a_body_without_a_length_is_cut_off_as_well(serving: Serving) -> None:
    sent = []

    def endless() -> Iterator[bytes]:
        for number in range(100):
            sent.append(number)
            yield b" " * 1000

    answer = serving(max_body_bytes=5000).post("/embed", content=endless(), headers=JSON)
    assert error(answer, 413) == "the body is larger than 5,000 bytes; split it into several requests"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"content-type": "text/plain"}, "the content type of the body is 'text/plain'; send application/json"),
        ({"content-type": "application/x-www-form-urlencoded"}, None),
        ({}, "the content type of the body is missing; send application/json"),
    ],
)
def test_only_json_is_read(client: TestClient, given: dict[str, str], sentence: str | None) -> None:
    answer = error(client.post("/embed", content=b'{"texts":["a"],"lang":"aa"}', headers=given), 415)
    assert sentence is None or answer == sentence
    spelled = {"content-type": "Application/JSON ; charset=utf-8"}
    assert client.post("/embed", content=b'{"texts":["a"],"lang":"aa"}', headers=spelled).status_code == 200


def test_a_server_that_only_reads_does_not_write(client: TestClient) -> None:
    body = {"documents": [{"concept": "c", "lang": "aa", "text": "t"}]}
    sentence = "this server is read-only; start it without --read-only to add or delete documents"
    assert error(client.post("/documents", json=body), 403) == sentence
    assert error(client.delete("/documents/aa:Q001"), 403) == sentence


def test_what_is_not_there_and_what_is_not_taken_there(client: TestClient) -> None:
    assert error(client.get("/nowhere"), 404) == "there is nothing at '/nowhere'; see /docs"
    answer = client.put("/documents/x")
    assert error(answer, 405) == "'/documents/x' does not accept PUT; use DELETE, GET"
    assert answer.headers["allow"] == "DELETE, GET"


@pytest.mark.parametrize(
    "path",
    [
        "../server.py",
        "%2e%2e/server.py",
        "..%2f..%2f..%2fetc%2fpasswd",
        "/etc/passwd",
        "%00",
        "app.js%00.html",
        "",
        ".",
    ],
)
def test_no_other_file_is_served(client: TestClient, path: str) -> None:
    error(client.get(f"/static/{path}"), 404)


# Who may come in


def test_a_key_opens_everything_but_the_page_and_health(serving: Serving) -> None:
    client = serving(api_key="sécret")
    for path in ["/health", "/", "/static/app.js"]:
        assert client.get(path).status_code == 200
    sentence = "the API key is missing or wrong; send it as Authorization: Bearer KEY or as X-API-Key"
    right = "sécret".encode()
    for path in ["/info", "/search?q=a", "/metrics", "/docs", "/openapi.json", "/nowhere", "/documents/x"]:
        assert error(client.get(path), 401) == sentence
        for wrong in [{b"X-API-Key": b"x"}, {b"Authorization": right}, {b"Authorization": b"Basic " + right}]:
            assert error(client.get(path, headers=wrong), 401) == sentence
    for given in [
        {b"X-API-Key": right},
        {b"Authorization": b"Bearer " + right},
        {b"Authorization": b"bearer  " + right},
    ]:
        assert client.get("/info", headers=given).status_code == 200
    assert error(client.post("/documents", content=b"{"), 401) == sentence
    schema = client.get("/openapi.json", headers={b"X-API-Key": right}).json()
    assert schema["security"] == [{"bearer": []}, {"header": []}]
    assert client.get("/info").headers["www-authenticate"] == "Bearer"


def test_keys_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(a: bytes, b: bytes) -> bool:
        compared.append((a, b))
        return False

    monkeypatch.setattr(hmac, "compare_digest", compare)
    assert not has_key({b"x-api-key": b"near"}, "nearly")
    assert compared == [(b"near", b"nearly")]


def test_an_address_that_asks_too_often_waits(serving: Serving) -> None:
    client = serving(requests_per_minute=3)
    assert [client.get("/").status_code for _ in range(3)] == [200] * 3
    answer = client.get("/info")
    assert error(answer, 429) == "more than 3 requests per minute; wait 20 s"
    assert answer.headers["retry-after"] == "20"
    assert client.get("/health").status_code == 200


def test_the_bucket_fills_evenly_and_clients_have_their_own() -> None:
    now = [0.0]
    limit = RateLimiter(60, lambda: now[0])
    assert [limit.acquire("a") for _ in range(61)] == [0.0] * 60 + [1.0]
    assert limit.acquire("b") == 0
    now[0] = 1.0
    assert (limit.acquire("a"), limit.acquire("a")) == (0.0, 1.0)
    now[0] = 1000.0
    assert [limit.acquire("a") for _ in range(61)] == [0.0] * 60 + [1.0]


def test_clients_are_remembered_in_bounded_memory() -> None:
    limit = RateLimiter(1, max_clients=10)
    for number in range(100):
        limit.acquire(str(number))
    assert limit.remembered_clients == 10


def test_a_client_is_an_address_or_a_network_of_the_new_kind() -> None:
    assert client_of("10.0.0.1") == "10.0.0.1"
    assert client_of("2001:db8::1") == client_of("2001:db8::ffff:2") == "2001:db8::/64"
    assert client_of("testclient") == "testclient"


def test_another_sites_name_for_this_machine_is_refused(serving: Serving) -> None:
    client = serving(allowed_hosts=process.LOOPBACK_HOSTS)
    assert error(client.get("/info", headers={"host": "evil.test:8000"}), 421) == (
        "this server does not answer to the host name 'evil.test'; start it with --allow-host to add it"
    )
    for host in ["127.0.0.1:8000", "LOCALHOST", "[::1]:8000"]:
        assert client.get("/info", headers={"host": host}).status_code == 200
    assert host_of("[::1]") == "::1"


# Under strain


def slow(monkeypatch: pytest.MonkeyPatch, gate: threading.Event) -> threading.Semaphore:
    """Let documents wait until the gate is set; whoever waits there releases what is returned."""
    plain, arrived = handlers.document, threading.Semaphore(0)

    def document(*arguments: Any, **options: Any) -> Any:
        arrived.release()
        gate.wait(60)
        return plain(*arguments, **options)

    monkeypatch.setattr(handlers, "document", document)
    return arrived


def test_what_takes_too_long_is_given_up_and_others_go_on(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    slow(monkeypatch, gate)
    client = serving(timeout_seconds=2)
    answer = client.get("/documents/aa:Q001")
    assert error(answer, 503) == "not finished within 2 s; request less, or try again later"
    assert answer.headers["retry-after"] == "5"
    assert client.get("/health").status_code == 200
    gate.set()


def test_more_requests_than_can_wait_are_turned_away(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    arrived = slow(monkeypatch, gate)
    client = serving(max_concurrent_requests=2)
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(client.get, "/documents/aa:Q001") for _ in range(2)]
        assert all(arrived.acquire(timeout=60) for _ in waiting)
        answer = client.get("/nowhere")
        gate.set()
        assert error(answer, 503) == "the server is handling too many requests; try again later"
        assert [future.result().status_code for future in waiting] == [200, 200]


def test_an_internal_error_tells_nothing_outside_and_everything_in_the_log(
    serving: Serving, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*arguments: Any, **options: Any) -> None:
        raise ZeroDivisionError("the secret")

    monkeypatch.setattr(handlers, "search", fail)
    answer = serving().get("/search", params={"q": "x"})
    assert error(answer, 500) == "internal server error; the server's log has the details"
    assert "the secret" in caplog.text
    assert "Traceback" in caplog.text


def test_an_index_that_cannot_be_used_is_not_described_outside(serving: Serving, tmp_path: Path) -> None:
    client = serving()
    (tmp_path / "index" / "index.json").write_text("{")
    assert error(client.get("/info"), 503) == "the index cannot be used at the moment; the server's log has the details"


def test_a_write_waits_for_another_writer_and_gives_up_in_the_end(serving: Serving, tmp_path: Path) -> None:
    client, body = serving(timeout_seconds=8), {"documents": [{"concept": "c", "lang": "aa", "text": QUERY}]}
    with ThreadPoolExecutor(1) as pool, snapshot.writer_lock(tmp_path / "index"):
        assert error(client.post("/documents", json=body), 503) == (
            "another process is writing the index; try again later"
        )
        assert client.get("/search", params={"q": QUERY, "lang": "aa"}).status_code == 200
        late = pool.submit(client.post, "/documents", json=body)
        time.sleep(0.2)
        assert not late.done()
    assert late.result().json()["new"] == 1


def test_reading_goes_on_while_documents_are_written(serving: Serving, documents: list[Document]) -> None:
    client, stop = serving(), threading.Event()

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


def test_an_index_made_anew_answers_without_a_break(
    serving: Serving, tmp_path: Path, documents: list[Document]
) -> None:
    client, stop = serving(), threading.Event()
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


# Parts


def test_a_snippet_is_one_line_and_ends_behind_a_word() -> None:
    assert snippet(" a\n b ") == "a b"
    assert snippet("word " * 10, 12) == "word word…"
    assert snippet("x" * 50, 10) == "x" * 10 + "…"
    assert snippet("a" + " " * 50, 10) == "a…"


def test_only_addresses_of_the_web_become_links() -> None:
    assert web_url("https://x.test") == "https://x.test"
    assert [web_url(url) for url in ["javascript:alert(1)", " http://x", "data:text/html,x", "//x", ""]] == [""] * 5


# The schema


# A language or an id that is well-formed may still be unknown.
NOT_MEANT = [positive_data_acceptance]
REFUSED = {"checks": {"negative_data_rejection": {"expected-statuses": [400, 404, 413, 415, 422]}}}


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_whatever_the_schema_allows_or_forbids_gets_the_answer_it_promises(
    built: Path, tmp_path: Path, mode: GenerationMode
) -> None:
    folder = tmp_path / "index"
    shutil.copytree(built, folder)
    config = schemathesis.Config.from_dict(REFUSED)
    schema = schemathesis.openapi.from_asgi("/openapi.json", create_app(Index.open(folder)), config=config)
    operations: list[Any] = [result.ok() for result in schema.get_all_operations()]  # type: ignore[union-attr]
    assert len(operations) == 11
    for operation in operations:

        @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
        @hypothesis.settings(
            max_examples=20,
            derandomize=True,
            deadline=None,
            database=None,
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        def holds(case: Any) -> None:
            case.call_and_validate(excluded_checks=NOT_MEANT)

        with suppress(*[Unsatisfiable] * (mode == GenerationMode.NEGATIVE)):  # some cannot be asked wrongly
            holds()


# The process


def test_the_server_listens_at_loopback_answers_and_ends_gracefully(built: Path) -> None:
    server, line = running.start(built, "--port", 0)
    try:
        assert line.startswith("serving 450 documents (aa, bb, cc) at http://127.0.0.1:")
        [port] = re.findall(r"127\.0\.0\.1:(\d+)/", line)
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=120) as client:
            long = quote("\U0001f600" * 10_000)
            with urlopen(f"http://127.0.0.1:{port}/search?q={long}", timeout=120) as answered:
                assert answered.status == 200
            answer = client.get("/info")
            assert answer.json()["writable"] is True
            assert "server" not in answer.headers
            assert error(client.get("/info", headers={"host": "evil.test"}), 421)
            server.send_signal(signal.SIGHUP)
            assert client.get("/health").status_code == 200
        with pytest.raises(Cr5Error) as taken:
            process.listen("127.0.0.1", int(port))
        assert str(taken.value) == (
            f"`port={port}` of 127.0.0.1 is in use; stop the program that uses it, or choose another `port`"
        )
        server.send_signal(signal.SIGTERM)
        assert server.wait(120) == 0
    finally:
        server.kill()
        _, rest = server.communicate()
    assert rest.split() == ["stopped"]


def test_an_address_that_is_none_of_this_machine_is_refused() -> None:
    with pytest.raises(Cr5Error) as refused:
        process.listen("192.0.2.1", 0)
    assert (
        str(refused.value)
        == "`host=192.0.2.1` is not an address of this machine; use `host=127.0.0.1` or one that it has"
    )
    assert [process.is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "x.test")] == [
        True, True, True, False, False,
    ]  # fmt: skip


def run(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], list[ServerSettings]]:
    """What the command prints and would serve with."""
    said: list[str] = []
    served: list[ServerSettings] = []
    monkeypatch.setattr(console.err, "print", lambda text, **_: said.append(str(text)))
    monkeypatch.setattr(process, "serve", lambda listening, folder, settings, workers: served.append(settings))
    app = typer.Typer()
    app.command()(serve)
    app(arguments, standalone_mode=False)
    return said, served


def test_without_a_key_other_machines_are_warned_of(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said, [settings] = run([str(built), "--host", "0.0.0.0", "--port", "0", "--rate", "120/min"], monkeypatch)
    assert said[0] == (
        "warning: 0.0.0.0 can be reached from other machines, and there is no API key, so anyone there can read and "
        "change the index; set --api-key, or leave out --host"
    )
    assert (settings.requests_per_minute, settings.allowed_hosts, settings.read_only) == (120, (), False)
    said, [settings] = run(
        [str(built), "--host", "0.0.0.0", "--port", "0", "--api-key", "k", "--read-only"], monkeypatch
    )
    assert len(said) == 2
    assert (settings.api_key, settings.read_only) == ("k", True)


def test_by_default_the_server_answers_to_this_machine_only(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, [settings] = run([str(built), "--port", "0", "--allow-host", "search.test"], monkeypatch)
    assert set(settings.allowed_hosts) == {"localhost", "127.0.0.1", "::1", "search.test"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--api-key", " "], "the `api_key` is empty; choose one that is hard to guess, or leave out `api_key`"),
        (["--rate", "fast"], "Invalid value for --rate: 'fast' is not of the form N/min, e.g. 120/min"),
        (
            ["--host", "no such host"],
            "`host=no such host` is not an address; use `host=127.0.0.1` or one of this machine",
        ),
    ],
)
def test_what_cannot_be_served_is_told_why(
    built: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], sentence: str
) -> None:
    with pytest.raises((Cr5Error, typer.BadParameter)) as refused:
        run([str(built), *arguments], monkeypatch)
    assert getattr(refused.value, "format_message", refused.value.__str__)() == sentence


def test_an_index_that_is_missing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Cr5Error) as refused:
        run([str(tmp_path)], monkeypatch)
    assert (
        str(refused.value) == f"{tmp_path}: there is no index in this folder; check the path, or build the index first"
    )
