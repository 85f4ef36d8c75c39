"""Haystack stores documents in an index of cr5 and searches it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from haystack import Document, Pipeline
from haystack.components.writers import DocumentWriter
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy
from haystack.utils.filters import document_matches_filter

from cr5.errors import Cr5Error
from cr5.index import Index
from cr5.integrations.haystack import Cr5DocumentStore, Cr5Retriever

pytestmark = pytest.mark.usefixtures("no_network")

MODULES = ["cr5.integrations.haystack"]
YEAR = {"field": "meta.year", "operator": ">=", "value": 2015}


@pytest.fixture(scope="session")
def store(filled_index_folder: Path) -> Cr5DocumentStore:
    return Cr5DocumentStore(filled_index_folder)


def test_a_query_finds_documents_in_all_languages(store: Cr5DocumentStore, article_query: str) -> None:
    found = Cr5Retriever(store, top_k=3).run(query=article_query)["documents"]
    assert {document.id for document in found} == {"aa:Q000", "bb:Q000", "cc:Q000"}
    scores = [document.score or 0.0 for document in found]
    assert 1 >= scores[0] >= scores[1] >= scores[2] > 0
    assert {(each.meta["lang"], each.meta["year"]) for each in found} == {(lang, 2010) for lang in ("aa", "bb", "cc")}
    [stored] = store.index.get(found[0].id)
    assert found[0].content == stored.text


def test_parameters_of_a_run_replace_those_of_the_retriever(store: Cr5DocumentStore, article_query: str) -> None:
    retriever = Cr5Retriever(store, top_k=1, langs=["aa"], filters=YEAR, mode="dense", content="passage")
    [first] = retriever.run(query=article_query)["documents"]
    assert (first.meta["lang"], first.meta["year"] >= 2015) == ("aa", True)
    assert first.content == store.index.get(first.id)[0].text  # vectors alone know no passage
    given: dict[str, Any] = {"filters": {}, "top_k": 2, "langs": ["bb", "cc"], "mode": "hybrid"}
    found = retriever.run(query=article_query, **given)["documents"]
    assert {document.id for document in found} == {"bb:Q000", "cc:Q000"}
    assert asyncio.run(retriever.run_async(query=article_query, **given))["documents"] == found


@pytest.mark.parametrize(
    "filters",
    [
        None,
        YEAR,
        {"field": "meta.year", "operator": "==", "value": 2012},
        {"field": "meta.year", "operator": "!=", "value": 2012},
        {"field": "year", "operator": "in", "value": [2012, 2013]},
        {"field": "meta.year", "operator": "not in", "value": [2012, 2013]},
        {"field": "meta.lang", "operator": "!=", "value": "aa"},
        {
            "operator": "AND",
            "conditions": [
                {"field": "meta.year", "operator": ">", "value": 2010},
                {"operator": "AND", "conditions": [{"field": "meta.year", "operator": "<", "value": 2015}]},
                {"field": "meta.lang", "operator": "in", "value": ["aa", "cc"]},
            ],
        },
    ],
)
def test_filters_choose_what_haystack_would(store: Cr5DocumentStore, filters: dict[str, Any] | None) -> None:
    everything = store.filter_documents()
    assert len(everything) == store.count_documents() == 24
    expected = {each.id for each in everything if not filters or document_matches_filter(filters, each)}
    assert {document.id for document in store.filter_documents(filters)} == expected
    assert asyncio.run(store.filter_documents_async(filters)) == store.filter_documents(filters)


@pytest.mark.parametrize(
    ("filters", "name"),
    [
        ({"operator": "OR", "conditions": [YEAR]}, "'OR'"),
        ({"operator": "NOT", "conditions": [YEAR]}, "'NOT'"),
        ({"operator": "AND"}, "'conditions'"),
        ({"field": "meta.year", "operator": "like", "value": 1}, "'like'"),
        ({"field": "meta.year", "operator": "=="}, "'value'"),
        ({"field": "meta.year", "operator": "==", "value": None}, "None"),
        ({"field": "meta.year", "operator": "in", "value": 2012}, "'in'"),
        ({"field": "meta.title", "operator": "==", "value": "x"}, "'title'"),
        ({"field": "content", "operator": "==", "value": "x"}, "'content'"),
    ],
)
def test_filters_that_cannot_be_translated_are_refused_by_name(
    store: Cr5DocumentStore, filters: dict[str, Any], name: str
) -> None:
    with pytest.raises(Cr5Error) as caught:
        store.filter_documents(filters)
    assert name in str(caught.value)


def test_documents_are_written_by_policy_and_deleted(
    empty_index: Index, articles_with_fields: list[dict[str, Any]]
) -> None:
    store = Cr5DocumentStore(empty_index)
    first, second = (
        Document(id=name, content=each["text"]) for name, each in zip("ab", articles_with_fields[:2], strict=True)
    )
    assert store.write_documents([first]) == 1
    with pytest.raises(DuplicateDocumentError, match="'a'"):
        store.write_documents([second, first], DuplicatePolicy.FAIL)
    assert store.count_documents() == 1
    changed = Document(id="a", content=articles_with_fields[1]["text"], meta={"year": 1})
    assert store.write_documents([changed, second], DuplicatePolicy.SKIP) == 1
    assert {each.id: each.meta for each in store.filter_documents()} == {"a": {"lang": "aa"}, "b": {"lang": "bb"}}
    assert asyncio.run(store.write_documents_async([changed], DuplicatePolicy.OVERWRITE)) == 1
    assert [each.content for each in store.filter_documents(YEAR | {"value": 1})] == [articles_with_fields[1]["text"]]
    store.delete_documents(["a", "missing"])
    assert asyncio.run(store.count_documents_async()) == 1
    asyncio.run(store.delete_documents_async(["b"]))
    assert store.count_documents() == 0
    with pytest.raises(Cr5Error, match="'photo' has no text"):
        store.write_documents([Document(id="photo")])
    with pytest.raises(TypeError, match=r"`documents\[0\]` is 'photo'"):
        store.write_documents(["photo"])  # type: ignore[list-item]


def test_a_pipeline_with_a_store_can_be_saved_and_loaded(
    store: Cr5DocumentStore, filled_index: Index, article_query: str
) -> None:
    pipeline = Pipeline()
    pipeline.add_component("retriever", Cr5Retriever(store, top_k=2, filters=YEAR, prefer="bb"))
    pipeline.add_component("writer", DocumentWriter(store, DuplicatePolicy.SKIP))
    pipeline.connect("retriever.documents", "writer.documents")
    again = Pipeline.loads(pipeline.dumps(), allowed_modules=MODULES)
    assert again.to_dict() == pipeline.to_dict()
    assert again.run({"retriever": {"query": article_query}}) == {"writer": {"documents_written": 0}}
    for name in ("retriever", "writer"):
        again.get_component(name).document_store.index.close()  # type: ignore[attr-defined]
    with pytest.raises(Cr5Error, match="folder"):
        Cr5DocumentStore(filled_index).to_dict()
