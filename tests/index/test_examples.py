"""Example queries on the page, the page's files, and queries without words."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("fastapi", reason="no FastAPI; install it with: pip install 'cr5[serve]'")

import madeup
from fastapi.testclient import TestClient

from cr5 import Document
from cr5.index import Index
from cr5.index.examples import CANDIDATES_PER_LANGUAGE, EXAMPLES, MAX_CHARACTERS
from cr5.index.stores.lance import LanceStore
from cr5.index.stores.lance_versions import LanceLimits
from cr5.server.app import create_app

Serve = Callable[..., TestClient]


@pytest.fixture
def serve(model_folder: Path, tmp_path: Path) -> Iterator[Serve]:
    """Servers of some documents."""
    clients: list[TestClient] = []

    def start(documents: list[Document], limits: LanceLimits | None = None) -> TestClient:
        index = Index.create(tmp_path / f"index {len(clients)}", model_folder)
        index.add(documents)
        if limits is not None:
            cast(LanceStore, index._active.store).limits = limits
        clients.append(TestClient(create_app(index)).__enter__())
        return clients[-1]

    yield start
    for client in clients:
        client.__exit__(None, None, None)


def titled(documents: list[Document], title: Callable[[Document], str]) -> list[Document]:
    return [Document(one.concept, one.lang, one.text, title(one)) for one in documents]


def first_word(document: Document) -> str:
    """A word that the model knows."""
    return document.text.split()[0]


def examples(client: TestClient) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get("/info").json()["examples"]
    return found


# Examples


@pytest.mark.slow
def test_examples_have_several_languages_and_different_concepts(serve: Serve, documents: list[Document]) -> None:
    some = titled(documents, lambda one: f"{first_word(one)} {one.text.split()[1]}")
    client = serve(some)
    found = examples(client)
    assert len(found) == EXAMPLES
    assert {example["lang"] for example in found} == {"aa", "bb", "cc"}
    concepts = {(one.lang, one.title): one.concept for one in some}
    assert len({concepts[example["lang"], example["text"]] for example in found}) == EXAMPLES
    for example in found:
        answer = client.get("/search", params={"q": example["text"]}).json()
        assert answer["lang"] == example["lang"]
        assert answer["hits"]


def test_all_examples_may_come_from_one_language(serve: Serve, documents: list[Document]) -> None:
    client = serve(titled([one for one in documents if one.lang == "bb"], first_word))
    assert [example["lang"] for example in examples(client)] == ["bb"] * EXAMPLES


def test_examples_are_chosen_once_and_without_reading_all_documents(
    model_folder: Path, tmp_path: Path, documents: list[Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    index, looked = Index.create(tmp_path / "index", model_folder), list[int]()
    index.add(titled(documents, first_word))
    # Texts are not held in memory, as those of a large index.
    cast(LanceStore, index._active.store).limits = LanceLimits(in_memory_bytes=-1)
    nearest = LanceStore.nearest

    def counted(self: LanceStore, vectors: Any, *arguments: Any, **options: Any) -> Any:
        looked.append(len(vectors))
        return nearest(self, vectors, *arguments, **options)

    monkeypatch.setattr(LanceStore, "nearest", counted)
    monkeypatch.setattr(LanceStore, "scan", lambda *_, **__: pytest.fail("all documents are read"))
    first = index.example_queries()
    assert index.example_queries() == first
    assert looked == [CANDIDATES_PER_LANGUAGE] * 3


@pytest.mark.slow
def test_titles_of_deleted_documents_are_left_out(serve: Serve, documents: list[Document]) -> None:
    client = serve(titled(documents, first_word))
    first, *others = examples(client)
    named = [one for one in titled(documents, first_word) if (one.lang, one.title) == (first["lang"], first["text"])]
    for one in named:
        client.delete(f"/documents/{one.lang}:{one.concept}")
    assert examples(client) == others


@pytest.mark.parametrize(
    "title",
    [
        lambda one: "",
        lambda one: " ".join([first_word(one)] * 4),  # too many words
        lambda one: first_word(one) * MAX_CHARACTERS,
        lambda one: f"{first_word(one)} unheard-of",  # with a word that the model does not know
    ],
)
def test_unsuitable_titles_are_no_examples(
    serve: Serve, documents: list[Document], title: Callable[[Document], str]
) -> None:
    assert examples(serve(titled(documents, title))) == []


def test_an_empty_index_has_no_examples(serve: Serve) -> None:
    assert examples(serve([])) == []


# Files


def test_files_of_the_page_are_revalidated_and_sent_only_if_they_changed(serve: Serve) -> None:
    client = serve([])
    for path in ["/", "/static/app.js", "/static/theme.js", "/static/style.css"]:
        whole = client.get(path)
        assert (whole.status_code, whole.headers["cache-control"]) == (200, "no-cache")
        tag = whole.headers["etag"]
        for given in (tag, f'"other", W/{tag}'):
            same = client.get(path, headers={"If-None-Match": given})
            assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
        assert client.get(path, headers={"If-None-Match": '"other"'}).content == whole.content


# Queries


@pytest.mark.parametrize("query", [" ", "?!", "—", "\U0001f415"])
def test_a_query_without_a_letter_or_digit_finds_nothing_and_has_no_language(
    serve: Serve, documents: list[Document], query: str
) -> None:
    client = serve(documents[:30])
    found = client.get("/search", params={"q": query}).json()
    assert (found["hits"], found["known"]) == ([], 0)
    assert (found["lang"], found["guessed"], found["confidence"]) == ("", False, 0)
    assert client.get("/search", params={"q": query, "lang": "aa"}).json()["lang"] == "aa"


def test_a_query_of_one_word_works_in_any_script(serve: Serve, documents: list[Document]) -> None:
    client = serve(documents[:30])
    for lang in madeup.LANGS:
        assert client.get("/search", params={"q": madeup.word(lang, 3)}).json()["lang"] == lang
