"""Requests that are not valid, and the messages that say why."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from serving import JSON, StartServer, error_message
from starlette.testclient import TestClient


def expect_facts(message: str, facts: str) -> None:
    """Each of the facts, separated by |, is in the message."""
    for fact in facts.split("|"):
        assert fact in message, message


@pytest.mark.parametrize(
    ("query", "facts"),
    [
        ("", "q is missing"),
        ("q=", "q is empty"),
        (f"q={'x' * 10_001}", "q has 10,001 characters|at most 10,000"),
        ("q=a&k=0", "k is 0|at least 1"),
        ("q=a&k=101", "k is 101|at most 100"),
        ("q=a&k=ten", "k is 'ten'|a whole number"),
        ("q=a&k=1e400", "k is '1e400'|a whole number"),
        (f"q=a&k={'9' * 5000}", f"k is '{'9' * 60}…'|a whole number"),
        ("q=a&measure=dot", "measure is 'dot'|'cosine' or 'csls'"),
        ("q=a&lang=zz", "the index has no language 'zz'|aa, bb, cc"),
        ("q=a&in=aa,zz", "the index has no language 'zz'|aa, bb, cc"),
        ("q=a&in=%0d%0aSet-Cookie:x", "the index has no language 'Set-Cookie:x'|aa, bb, cc"),
        ("q=a&language=aa", "'language' is not a parameter or field of this request"),
        ("q=a&sort=-", "sort"),
        ("q=a&sort=", "sort"),
        ("q=a&offset=-1", "offset is -1|at least 0"),
        ("q=a&k=100&offset=901", "k + offset is 1,001|at most 1,000"),
        ("q=a&mode=fuzzy", "mode is 'fuzzy'|'hybrid', 'dense' or 'lexical'"),
        ("q=a&group=title", "group is 'title'|'concept'"),
        ("q=a&prefer=zz", "the index has no language 'zz'|aa, bb, cc"),
        ("q=a&min_score=high", "min_score is 'high'|a number"),
        ("q=a&min_score=nan", "min_score is 'nan'|a number"),
        ("q=a&where={year:2019}", "where is '{year:2019}'|not JSON|an object"),
        ("q=a&where=[1]", "where is a list|fields"),
        (f"q=a&where={'[' * 9000}", "where is|not JSON"),
        ('q=a&where={"year":{"~":1}}', "the condition on 'year'|'~'|>="),
        (f"q=a&where={'x' * 10_001}", "where has 10,001 characters|at most 10,000"),
    ],
)
def test_an_invalid_search_is_explained(client: TestClient, query: str, facts: str) -> None:
    answer = client.get(f"/search?{query}")
    expect_facts(error_message(answer, 422), facts)
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        ({"q": ""}, "q is empty"),
        ({"q": None}, "q is null|a string"),
        ({"k": 2.5}, "k is 2.5|a whole number"),
        ({"k": "ten"}, "k is 'ten'|a whole number"),
        ({"k": True}, "k is true|a whole number"),
        ({"offset": False}, "offset is false|a whole number"),
        ({"min_score": False}, "min_score is false|a number"),
        ({"offset": 1000}, "offset is 1000|at most 999"),
        ({"in": ["aa", "zz"]}, "the index has no language 'zz'|aa, bb, cc"),
        ({"in": [1]}, "in.0 is 1|a string"),
        ({"in": ["a" * 81]}, "in.0 has 81 characters|at most 80"),
        ({"where": "{}"}, "where is '{}'|an object"),
        ({"where": [1]}, "where is a list|an object"),
        ({"where": {"year": {">=": None}}}, "the condition on 'year'|>="),
        ({"search_in": "aa"}, "'search_in' is not a parameter or field of this request"),
    ],
)
def test_an_invalid_search_in_a_body_is_explained(client: TestClient, change: dict[str, object], facts: str) -> None:
    expect_facts(error_message(client.post("/search", json={"q": "a"} | change), 422), facts)


def test_the_body_of_a_search_is_limited_as_others_are(client: TestClient) -> None:
    expect_facts(error_message(client.post("/search", content=b" " * 2_000_001, headers=JSON), 413), "2,000,000 bytes")
    expect_facts(error_message(client.post("/search", content=b"{", headers=JSON), 400), "not valid JSON")
    expect_facts(error_message(client.post("/search", content=b"{}"), 415), "application/json")


@pytest.mark.parametrize(
    ("query", "status", "facts"),
    [
        ("id=aa:Q001", 422, "either q|of"),
        ("id=aa:Q001&q=a&of=aa:Q002", 422, "either q|of"),
        ("q=a", 422, "id is missing"),
        ("q=a&id=x", 404, "there is no document 'x' in the index"),
        ("of=x%00&id=aa:Q001", 404, r"there is no document 'x\x00' in the index"),
        ("q=a&lang=zz&id=aa:Q001", 422, "the index has no language 'zz'|aa, bb, cc"),
    ],
)
def test_an_invalid_explain_request_is_explained(client: TestClient, query: str, status: int, facts: str) -> None:
    expect_facts(error_message(client.get(f"/explain?{query}"), status), facts)


@pytest.mark.parametrize(
    ("body", "status", "facts"),
    [
        (b"{", 400, "the body is not valid JSON"),
        (b"[" * 100_000, 400, "the body is not valid JSON"),
        (b'{"texts":["\xff"],"lang":"aa"}', 400, "the body is not valid JSON"),
        (b'{"texts":["\\ud800"],"lang":"aa"}', 422, "texts.0 contains an unpaired surrogate"),
        (b'{"texts":[NaN],"lang":"aa"}', 422, "texts.0 is nan|a string"),
        (b'{"texts":[-Infinity],"lang":"aa"}', 422, "texts.0 is -inf|a string"),
        (b'{"texts":[null],"lang":"aa"}', 422, "texts.0 is null|a string"),
        (b'{"texts":[{}],"lang":"aa"}', 422, "texts.0 is an object|a string"),
        (b'{"texts":"a","lang":"aa"}', 422, "texts is 'a'|a list"),
        (b'{"texts":[],"lang":"aa"}', 422, "texts is empty"),
        (b'{"texts":["a"],"lang":"zz"}', 422, "the index has no language 'zz'|aa, bb, cc"),
        (b'{"texts":["a"]}', 422, "lang is missing"),
        (b'{"texts":["a"],"lang":"aa","x":1}', 422, "'x' is not a parameter or field of this request"),
        (b"[]", 422, "the body is a list"),
        (b"", 422, "the body is missing"),
        (json.dumps({"texts": ["a"] * 257, "lang": "aa"}).encode(), 422, "texts has 257 items|at most 256"),
        (
            json.dumps({"texts": ["a" * 1_000_001], "lang": "aa"}).encode(),
            422,
            "texts.0 has 1,000,001 characters|at most 1,000,000",
        ),
        (b" " * 2_000_001, 413, "the body is larger than 2,000,000 bytes"),
    ],
)
def test_an_invalid_body_is_explained(client: TestClient, body: bytes, status: int, facts: str) -> None:
    expect_facts(error_message(client.post("/embed", content=body, headers=JSON), status), facts)


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        ({"concept": " "}, "documents.0.concept is blank"),
        ({"lang": "\u2028"}, "documents.0.lang is blank"),
        ({"text": "\t\n"}, "documents.0.text is blank"),
        ({"concept": "a\0b"}, "documents.0.concept contains a control character"),
        ({"lang": "a\tb"}, "documents.0.lang contains a control character"),
        ({"id": "a\nb"}, "documents.0.id contains a control character"),
        ({"concept": "x" * 201}, "documents.0.concept has 201 characters|at most 200"),
        ({"url": "javascript:alert(1)"}, "documents.0.url is 'javascript:alert(1)'|http://|https://"),
        ({"fields": {"a": {"b": {"c": 1}}}}, "`documents[0]`|'a.b'|one level"),
        ({"fields": {"a": float("inf")}}, "`documents[0]`|'a'|inf"),
        ({"fields": {"a": "x" * 2**16}}, "`documents[0]`|65,544 bytes|65,536"),
        ({"fields": {f"f{i}": i for i in range(257)}}, "documents.0.fields|257|256"),
        ({"fields": [1]}, "documents.0.fields"),
    ],
)
def test_an_invalid_document_is_explained(start_server: StartServer, change: dict[str, Any], facts: str) -> None:
    body = {"documents": [{"concept": "c", "lang": "aa", "text": "t"} | change]}
    answer = start_server().post("/documents", content=json.dumps(body), headers={"content-type": "application/json"})
    expect_facts(error_message(answer, 422), facts)


def test_a_body_without_a_length_is_limited_too(start_server: StartServer) -> None:
    sent = []

    def endless() -> Iterator[bytes]:
        for number in range(100):
            sent.append(number)
            yield b" " * 1000

    answer = start_server(max_body_bytes=5000).post("/embed", content=endless(), headers=JSON)
    expect_facts(error_message(answer, 413), "the body is larger than 5,000 bytes")


@pytest.mark.parametrize(
    ("given", "facts"),
    [
        ({"content-type": "text/plain"}, "the content type of the body is 'text/plain'|application/json"),
        ({"content-type": "application/x-www-form-urlencoded"}, "application/json"),
        ({}, "the content type of the body is missing|application/json"),
    ],
)
def test_only_json_bodies_are_accepted(client: TestClient, given: dict[str, str], facts: str) -> None:
    message = error_message(client.post("/embed", content=b'{"texts":["a"],"lang":"aa"}', headers=given), 415)
    expect_facts(message, facts)
    spelled = {"content-type": "Application/JSON ; charset=utf-8"}
    assert client.post("/embed", content=b'{"texts":["a"],"lang":"aa"}', headers=spelled).status_code == 200


def test_a_read_only_server_refuses_to_write(client: TestClient) -> None:
    body = {"documents": [{"concept": "c", "lang": "aa", "text": "t"}]}
    expect_facts(error_message(client.post("/documents", json=body), 403), "read-only|--read-only")
    expect_facts(error_message(client.delete("/documents/aa:Q001"), 403), "read-only")


def test_unknown_paths_and_methods_are_explained(client: TestClient) -> None:
    expect_facts(error_message(client.get("/nowhere"), 404), "'/nowhere'|/docs")
    answer = client.put("/documents/x")
    expect_facts(error_message(answer, 405), "'/documents/x'|PUT|DELETE, GET, HEAD")
    assert answer.headers["allow"] == "DELETE, GET, HEAD"


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
def test_no_file_outside_the_page_is_served(client: TestClient, path: str) -> None:
    error_message(client.get(f"/static/{path}"), 404)
