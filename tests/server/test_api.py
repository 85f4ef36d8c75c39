"""The responses of the server's API."""

import base64
import json
import re
import threading
from dataclasses import fields
from pathlib import Path
from typing import Any

import madeup
import numpy as np
import pytest
from serving import QUERY, StartServer, error_message
from starlette.testclient import TestClient

from cr5 import Cr5, Document, DocumentsReplaced
from cr5.index import Index, IngestCounts
from cr5.server.app import create_app
from cr5.server.handlers import beginning, web_url
from cr5.server.projection import Projection
from cr5.server.readiness import Readiness
from cr5.server.reference import render_reference
from cr5.server.schemas import AddResponse
from cr5.server.settings import ServerSettings


def test_a_search_finds_what_the_index_finds(client: TestClient, index_folder: Path) -> None:
    sent: dict[str, Any] = {"q": QUERY, "in": "bb,cc", "k": 5, "measure": "cosine"}
    found = client.get("/search", params=sent | {"mode": "dense"}).json()
    result = Index.open(index_folder).search(QUERY, k=5, langs=["bb", "cc"], mode="dense", measure="cosine")
    hits = result.hits
    assert [hit["id"] for hit in found["hits"]] == [hit.id for hit in hits]
    assert [hit["score"] for hit in found["hits"]] == pytest.approx([hit.score for hit in hits])
    assert (found["query"], found["lang"], found["guessed"], found["known"]) == (QUERY, "aa", True, 1.0)
    assert (found["tokens"], found["suggestion"]) == (QUERY.split(), None)
    assert found["confidence"] == pytest.approx(result.query.confidence)
    assert (found["mode"], found["measure"]) == ("dense", "cosine")
    assert found["milliseconds"] > 0
    assert {hit["lang"] for hit in found["hits"]} <= {"bb", "cc"}
    assert set(found["hits"][0]) == {
        "id", "concept", "lang", "title", "url", "fields", "snippet", "score", "cosine", "parts", "passage", "words",
        "versions", "x", "y",
    }  # fmt: skip
    assert client.get("/search", params=sent).json()["mode"] == "hybrid"


def test_a_search_has_what_the_index_says_of_each_hit(client: TestClient, index_folder: Path) -> None:
    options: dict[str, Any] = {"group": "concept", "prefer": "bb", "k": 4, "offset": 2, "min_score": 0.1}
    found = client.get("/search", params={"q": QUERY, **options}).json()
    result = Index.open(index_folder).search(QUERY, **options)
    assert [hit["id"] for hit in found["hits"]] == [hit.id for hit in result.hits]
    for hit, expected in zip(found["hits"], result.hits, strict=True):
        assert hit["parts"] == pytest.approx(expected.parts)
        assert (hit["passage"], hit["words"]) == (list(expected.passage), list(expected.words))
        assert [version["id"] for version in hit["versions"]] == [version.id for version in expected.versions]
        assert set(hit["versions"][0]) == {"id", "lang", "title", "score"}
        assert hit["snippet"].strip("… ") in expected.text
    assert any(hit["words"] for hit in found["hits"])


def test_group_prefer_and_sort_have_no_effect_on_a_search_by_vectors_alone(client: TestClient) -> None:
    sent = {"q": QUERY, "mode": "dense"}
    others = {"group": "concept", "prefer": "bb", "sort": "year"}
    found, expected = (client.get("/search", params=params).json()["hits"] for params in (sent | others, sent))
    assert found == expected != []


@pytest.mark.parametrize("langs", ["BB, cc", ["bb", "CC"]])
def test_a_search_in_a_body_is_the_same(client: TestClient, langs: str | list[str]) -> None:
    body: dict[str, Any] = {
        "q": QUERY,
        "lang": "AA",
        "k": 7,
        "prefer": "Cc",
        "group": "concept",
        "in": langs,
        "where": {},
    }
    sent = body | {"in": "bb,cc", "where": "{}"}
    by_body, by_query = client.post("/search", json=body).json(), client.get("/search", params=sent).json()
    unlike = ("milliseconds", "hits", "at")
    assert {name: by_body[name] for name in by_body if name not in unlike}.items() <= by_query.items()
    assert [hit["id"] for hit in by_body["hits"]] == [hit["id"] for hit in by_query["hits"]]
    assert by_body["hits"]


def test_hits_are_chosen_and_ordered_by_their_fields(start_server: StartServer) -> None:
    client = start_server()
    documents = [
        {"concept": f"new{year}", "lang": "aa", "text": QUERY, "fields": {"year": year, "kind": "note"}}
        for year in (2001, 1999, 2010)
    ]
    client.post("/documents", json={"documents": documents})
    where = {"year": {">=": 2000}, "kind": ["note", "page"]}
    found = client.post("/search", json={"q": QUERY, "where": where, "sort": "-year"}).json()
    assert [hit["fields"]["year"] for hit in found["hits"]] == [2010, 2001]
    by_query = client.get("/search", params={"q": QUERY, "where": json.dumps(where), "sort": "year"}).json()
    assert [hit["id"] for hit in by_query["hits"]] == ["aa:new2001", "aa:new2010"]


def test_the_snippet_of_a_long_document_is_from_the_passage_that_matched(start_server: StartServer) -> None:
    client = start_server()
    others = [madeup.text("bb", np.random.default_rng(n).integers(50, madeup.MEANINGS, 20).tolist()) for n in range(90)]
    message = madeup.text("bb", [3, 4, 5])
    text = ". ".join([*others, message, *others])
    client.post("/documents", json={"documents": [{"concept": "long", "lang": "bb", "text": text}]})
    found = client.get("/search", params={"q": message, "lang": "bb", "in": "bb", "k": 100}).json()
    [hit] = [hit for hit in found["hits"] if hit["id"] == "bb:long"]
    assert message in hit["snippet"]
    assert len(hit["snippet"]) < 400
    begin, end = hit["passage"]
    assert message in text[begin:end]


def test_a_given_language_is_used_and_an_empty_one_is_identified(client: TestClient) -> None:
    given = client.get("/search", params={"q": QUERY, "lang": "bb"}).json()
    assert (given["lang"], given["guessed"], given["confidence"]) == ("bb", False, 1.0)
    assert {hit["lang"] for hit in given["hits"]} == {"aa"}  # which have the same words
    empty = client.get("/search", params={"q": QUERY, "lang": "", "in": ""}).json()
    assert (empty["lang"], empty["guessed"], len(empty["hits"])) == ("aa", True, 10)


def test_similar_documents_are_about_the_same_concept(client: TestClient) -> None:
    found = client.get("/similar", params={"id": "aa:Q001", "k": 2}).json()
    assert {hit["id"] for hit in found["hits"]} == {"bb:Q001", "cc:Q001"}
    assert (found["query"], found["lang"], found["guessed"]) == ("aa 1", "aa", False)
    only = client.get("/similar", params={"id": "aa:Q001", "k": 1, "in": "cc"}).json()
    assert [hit["id"] for hit in only["hits"]] == ["cc:Q001"]


def test_positions_on_the_map_are_the_first_two_principal_components(index_folder: Path) -> None:
    vectors = Index.open(index_folder).background.stacked
    points = np.array(Projection.fit(vectors).transform(vectors))
    widest = np.linalg.svd(vectors - vectors.mean(axis=0), compute_uv=False)[:2]
    np.testing.assert_allclose(np.linalg.norm(points, axis=0), widest, rtol=1e-4)
    np.testing.assert_allclose(points.mean(axis=0), 0, atol=1e-5)


def test_a_query_and_a_document_with_the_same_text_have_the_same_position_on_the_map(
    client: TestClient, documents: list[Document]
) -> None:
    [text] = [d.text for d in documents if (d.lang, d.concept) == ("aa", "Q001")]
    found = client.get("/search", params={"q": text, "k": 1, "in": "aa"}).json()
    assert found["hits"][0]["id"] == "aa:Q001"
    assert found["at"] == pytest.approx([found["hits"][0]["x"], found["hits"][0]["y"]], abs=1e-5)


def test_an_explanation_is_the_one_of_the_model(client: TestClient, model: Cr5, documents: list[Document]) -> None:
    [text] = [d.text for d in documents if (d.lang, d.concept) == ("bb", "Q003")]
    expected = model.explain(QUERY, "aa", text, "bb")
    found = client.get("/explain", params={"q": QUERY, "id": "bb:Q003"}).json()
    assert found["similarity"] == pytest.approx(expected.similarity, abs=1e-6)
    assert [word for word, _ in found["query_words"]] == [word for word, _ in expected.words_a]
    assert [word for word, _ in found["document_words"]] == [word for word, _ in expected.words_b]
    assert [tuple(pair[:2]) for pair in found["pairs"]] == [pair[:2] for pair in expected.pairs]


def test_two_documents_can_be_compared(client: TestClient) -> None:
    found = client.get("/explain", params={"of": "aa:Q003", "id": "bb:Q003"}).json()
    other = client.get("/explain", params={"of": "aa:Q003", "id": "bb:Q004"}).json()
    assert found["similarity"] > 0.8 > other["similarity"]


def test_a_long_document_is_explained_by_its_matching_passage_wherever_that_is(start_server: StartServer) -> None:
    client, random = start_server(), np.random.default_rng(0)
    message = madeup.text("bb", [3, 4, 5])
    others = [madeup.text("bb", random.integers(50, madeup.MEANINGS, 20).tolist()) for _ in range(600)]
    text = ". ".join([*others, message])
    assert 80_000 < len(text) < 100_000  # what an explanation reads at most
    client.post("/documents", json={"documents": [{"concept": "long", "lang": "bb", "text": text}]})
    answer = client.get("/explain", params={"q": QUERY, "id": "bb:long"})
    found = answer.json()
    assert found["snippet"].endswith(message)
    assert set(message.split()) <= {word for word, _ in found["document_words"]}
    assert set(zip(QUERY.split(), message.split(), strict=True)) <= {(a, b) for a, b, _ in found["pairs"]}
    assert len(answer.content) < 3000


def test_a_document_is_returned_as_it_was_added(client: TestClient, documents: list[Document]) -> None:
    given = documents[0]
    assert client.get(f"/documents/{given.lang}:{given.concept}").json() == {
        "id": "aa:Q000", "concept": "Q000", "lang": "aa", "title": given.title, "url": "", "text": given.text,
        "fields": {},
    }  # fmt: skip


@pytest.mark.filterwarnings("ignore::cr5.Cr5Warning")
def test_documents_can_be_added_replaced_found_and_deleted(
    start_server: StartServer, documents: list[Document]
) -> None:
    client, text = start_server(), documents[0].text
    new = {"concept": "new/one ?#", "lang": "aa", "text": text, "title": "<b>New</b>", "url": "https://x.test/?a=b",
           "fields": {"year": 2019, "tags": ["a", None], "author": {"name": "Ø"}}}  # fmt: skip
    url = "/documents/aa%3Anew%2Fone%20%3F%23"
    counts = vars(IngestCounts())
    assert client.post("/documents", json={"documents": [new]}).json() == counts | {"new": 1}
    assert client.get(url).json() == new | {"id": "aa:new/one ?#"}
    assert client.post("/documents", json={"documents": [new]}).json() == counts | {"unchanged": 1}
    changed = new | {"text": text + " " + QUERY}
    assert client.post("/documents", json={"documents": [changed]}).json() == counts | {"renewed": 1}
    assert "aa:new/one ?#" in [hit["id"] for hit in client.get("/similar", params={"id": "aa:Q000"}).json()["hits"]]
    useless = [new | {"lang": "zz"}, new | {"concept": "blank", "text": "zzz xxx"}]
    expected = counts | {"blank": {"aa": 1}, "unknown": {"zz": 1}}
    assert client.post("/documents", json={"documents": useless}).json() == expected
    assert client.delete(url).json() == {"deleted": 1}
    assert client.delete(url).json() == {"deleted": 0}
    assert error_message(client.get(url), 404) == (
        "there is no document 'aa:new/one ?#' in the index; use an id that a search returned"
    )


@pytest.mark.filterwarnings("ignore::cr5.UnknownField")
def test_a_response_names_fields_that_no_document_has(client: TestClient) -> None:
    problem = "where names the field 'yaer', which no document of the index has; the documents have no fields"
    for parameters in ({"where": '{"yaer": 1}'}, {"where": '{"yaer": {"!=": 1}}', "mode": "dense"}):
        found = client.get("/search", params={"q": QUERY} | parameters)
        assert (found.status_code, found.json()["warnings"]) == (200, [problem]), parameters
    found = client.get("/search", params={"q": QUERY, "sort": "-yaer"}).json()
    assert found["warnings"] == [problem.replace("where", "sort")]
    assert client.get("/search", params={"q": QUERY}).json()["warnings"] == []


def test_a_response_counts_copies_and_names_documents_that_were_replaced_in_part(
    start_server: StartServer, documents: list[Document]
) -> None:
    client = start_server()
    a, b, c = ({"concept": "new", "lang": "aa", "text": document.text} for document in documents[:9:3])
    counts = vars(IngestCounts())
    assert client.post("/documents", json={"documents": [a, b, a]}).json() == counts | {"new": 2, "duplicates": 1}
    with pytest.warns(DocumentsReplaced, match="aa:new"):
        answer = client.post("/documents", json={"documents": [c]}).json()
    assert answer == counts | {"renewed": 1, "partly_replaced": {"aa:new": 1}}
    assert client.get("/documents/aa:new%232").json().items() >= b.items()
    with_ids = [a | {"id": "a"}, c | {"id": "c"}, a | {"id": "copy"}]
    assert client.post("/documents", json={"documents": with_ids}).json() == counts | {"new": 3}
    assert client.get("/documents/c").json().items() >= c.items()
    for wrong, facts in (
        ([a | {"id": "a"}, b], "documents.1 differs from documents.0 in having an id"),
        ([a | {"id": "a"}, b | {"id": "a"}], "documents.1.id is 'a', which another document also has"),
        ([a | {"id": "a\u0085"}], "documents.0.id"),
        ([a | {"id": ""}], "documents.0.id is empty"),
    ):
        assert facts in error_message(client.post("/documents", json={"documents": wrong}), 422)


def test_added_documents_are_counted_as_the_index_counts_them() -> None:
    assert list(AddResponse.model_fields) == [counted.name for counted in fields(IngestCounts)]


def test_embeddings_are_those_of_the_model(client: TestClient, model: Cr5) -> None:
    texts = [QUERY, "zzz xxx", "", f"{QUERY.split()[0]}x"]
    found = client.post("/embed", json={"texts": texts, "lang": "aa"}).json()
    np.testing.assert_allclose(found["vectors"], model.encode(texts, "aa"), atol=1e-6)
    assert found["known"] == [1.0, 0.0, 0.0, 0.0]
    assert found["by_subword"] == [0.0, 0.0, 0.0, 1.0]


def test_a_search_tells_words_that_are_encoded_by_their_ngrams(client: TestClient) -> None:
    known = QUERY.split()[0]
    found = client.get("/search", params={"q": f"{known}x {known} жжж жжжж", "lang": "aa"}).json()
    assert (found["known"], found["by_subword"]) == (0.25, 0.25)
    assert found["hits"]


def test_embeddings_have_the_format_of_openai(client: TestClient, model: Cr5) -> None:
    body = {"input": QUERY, "model": "cr5", "user": "me", "something": ["new"]}
    found = client.post("/v1/embeddings", json=body).json()
    vector = found["data"][0].pop("embedding")
    assert found == {
        "object": "list",
        "data": [{"object": "embedding", "index": 0}],
        "model": "cr5",
        "usage": {"prompt_tokens": 3, "total_tokens": 3},
    }
    np.testing.assert_allclose(vector, model.encode([QUERY], "aa")[0], atol=1e-6)


def test_base64_contains_the_same_numbers_and_each_text_has_its_own_language(client: TestClient, model: Cr5) -> None:
    texts = [madeup.text(lang, [3, 4, 5]) for lang in ("bb", "aa", "bb")]
    found = client.post("/v1/embeddings", json={"input": texts, "encoding_format": "base64"}).json()["data"]
    vectors = [np.frombuffer(base64.b64decode(item["embedding"]), "<f4") for item in found]
    assert [item["index"] for item in found] == [0, 1, 2]
    np.testing.assert_allclose(vectors[0], vectors[2])
    np.testing.assert_allclose(vectors[1], model.encode(texts[1:2], "aa")[0], atol=1e-6)


def test_the_model_name_can_set_the_language(client: TestClient) -> None:
    body = {"input": QUERY, "model": "cr5:bb", "dimensions": 60, "allow_zeros": True}
    found = client.post("/v1/embeddings", json=body).json()
    assert found["model"] == "cr5:bb"
    assert not any(found["data"][0]["embedding"])


def test_every_path_that_answers_get_answers_head_without_a_body(client: TestClient) -> None:
    paths = ["/", "/static/app.js", "/docs", "/openapi.json", "/metrics", "/info", "/health", "/documents/aa:Q001",
             f"/search?q={QUERY}", "/v1/models", "/v1/models/cr5:aa", "/documents/nowhere", "/nowhere"]  # fmt: skip
    for path in paths:
        got, head = client.get(path), client.head(path)
        assert (head.status_code, head.content) == (got.status_code, b""), path
        assert head.headers["content-type"] == got.headers["content-type"]
        assert int(head.headers["content-length"]) > 0
    assert client.head("/health").headers["content-length"] == str(len(client.get("/health").content))
    refused = client.head("/embed")
    assert (refused.status_code, refused.headers["allow"]) == (405, "POST")


def test_info_and_health_describe_the_index(client: TestClient) -> None:
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


def test_the_page_and_the_reference_are_served_and_load_nothing_from_elsewhere(client: TestClient) -> None:
    page, docs = client.get("/"), client.get("/docs")
    assert page.headers["content-type"] == docs.headers["content-type"] == "text/html; charset=utf-8"
    for answer in (page, docs):
        assert not re.search(r'(?:src|href)="(?:https?:)?//', answer.text)
    assert "GET /search" in docs.text
    kinds = {"app.js": "text/javascript", "style.css": "text/css", "reference.css": "text/css"}
    for name, kind in kinds.items():
        assert client.get(f"/static/{name}").headers["content-type"] == f"{kind}; charset=utf-8"


def test_the_reference_escapes_text() -> None:
    schema = {"info": {"title": "<script>", "version": '"&'}, "paths": {}}
    assert b'<h1>&lt;script&gt; "&amp;</h1>' in render_reference(schema)


def test_a_snippet_is_one_line_and_ends_at_the_end_of_a_word() -> None:
    assert beginning(" a\n b ") == "a b"
    assert beginning("word " * 10, 12) == "word word…"
    assert beginning("x" * 50, 10) == "x" * 10 + "…"
    assert beginning("a" + " " * 50, 10) == "a…"


def test_only_http_addresses_become_links() -> None:
    assert web_url("https://x.test") == "https://x.test"
    assert [web_url(url) for url in ["javascript:alert(1)", " http://x", "data:text/html,x", "//x", ""]] == [""] * 5


def test_the_server_is_ready_when_a_query_in_each_language_has_been_answered(
    index_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched, go_on, readiness = list[str | None](), threading.Event(), Readiness()
    search = Index.search

    def held(index: Index, text: str, lang: str | None, **more: Any) -> Any:
        assert go_on.wait(60)
        found = search(index, text, lang, **more)
        searched.append(lang)
        return found

    monkeypatch.setattr(Index, "search", held)
    with TestClient(create_app(Index.open(index_folder), readiness=readiness)) as client:
        answer = client.get("/ready")
        assert error_message(answer, 503) == "the server is loading its index; try again later"
        assert answer.headers["retry-after"] == "1"
        assert client.get("/health").status_code == 200
        go_on.set()
        assert readiness.warm.wait(60)
        assert {lang for lang in searched if lang} == {"aa", "bb", "cc"}
        assert client.get("/ready").json() == {"status": "ready"}
        readiness.stopping.set()
        assert error_message(client.get("/ready"), 503) == "the server is stopping"
        assert client.get("/health").status_code == 200


def test_a_server_with_several_workers_is_ready_when_all_are(index_folder: Path) -> None:
    others = [False]
    readiness = Readiness(lambda: others[0])
    with TestClient(create_app(Index.open(index_folder), readiness=readiness)) as client:
        assert readiness.warm.wait(60)
        assert client.get("/ready").status_code == 503
        others[0] = True
        assert client.get("/ready").status_code == 200


def test_a_warm_up_that_fails_is_tried_again(index_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search, failures = Index.search, [1]

    def fails_once(index: Index, *given: Any, **more: Any) -> Any:
        if failures:
            failures.pop()
            raise OSError("the database is not there yet")
        return search(index, *given, **more)

    monkeypatch.setattr(Index, "search", fails_once)
    readiness, settings = Readiness(), ServerSettings(warm_up_retry_seconds=0)
    with TestClient(create_app(Index.open(index_folder), settings, readiness=readiness)) as client:
        assert readiness.warm.wait(60)
        assert not failures
        assert client.get("/ready").status_code == 200
