"""LangChain searches an index of cr5."""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import Document as Page
from langchain_core.embeddings import DeterministicFakeEmbedding

from cr5 import Cr5, InputSkipped, LanguageLeftOut
from cr5.errors import Cr5Error
from cr5.index import Index
from cr5.integrations.langchain import Cr5Embeddings, Cr5Retriever, Cr5VectorStore

pytestmark = pytest.mark.usefixtures("no_network")

ABOUT_Q000 = {"aa:Q000", "bb:Q000", "cc:Q000"}


@pytest.fixture(scope="session")
def store(filled_index: Index) -> Cr5VectorStore:
    return Cr5VectorStore(filled_index)


def pages(articles: list[dict[str, Any]]) -> list[Page]:
    return [Page(each["text"], metadata={"lang": each["lang"], **each["fields"]}) for each in articles]


def ids(found: list[Page]) -> list[str | None]:
    return [page.id for page in found]


def test_a_query_finds_documents_in_all_languages_with_their_metadata(
    store: Cr5VectorStore, article_query: str
) -> None:
    found = store.similarity_search(article_query, k=3)
    assert set(ids(found)) == ABOUT_Q000
    [page] = [page for page in found if page.id == "bb:Q000"]
    [document] = store.index.get("bb:Q000")
    assert page.page_content == document.text
    assert page.metadata == {
        "concept": "Q000", "lang": "bb", "title": "bb 0", "year": 2010, "tags": ["even", "odd"],
    }  # fmt: skip


def test_scores_are_relevances_from_0_to_1(store: Cr5VectorStore, article_query: str) -> None:
    scored = store.similarity_search_with_score(article_query, k=6)
    scores = [score for _, score in scored]
    assert scores == sorted(scores, reverse=True)
    assert 0 <= scores[-1] < scores[0] <= 1
    assert store.similarity_search_with_relevance_scores(article_query, k=6) == scored
    threshold = scores[1]
    above = store.similarity_search_with_relevance_scores(article_query, k=6, score_threshold=threshold)
    assert above == [pair for pair in scored if pair[1] >= threshold]
    dense = store.similarity_search_with_relevance_scores(
        article_query, k=24, mode="dense"
    )  # LangChain warns of other scores
    assert len(dense) == 24


def test_filters_are_conditions_on_metadata(store: Cr5VectorStore, article_query: str) -> None:
    found = store.similarity_search(
        article_query, k=24, mode="dense", filter={"year": {">=": 2015}, "lang": ["aa", "cc"]}
    )
    assert set(ids(found)) == {f"{lang}:Q{i:03d}" for lang in ("aa", "cc") for i in (5, 6, 7)}
    assert store.similarity_search(article_query, filter={"lang": "zz"}) == []
    both = store.similarity_search(article_query, k=24, mode="dense", langs=["AA", "bb"], filter={"lang": {"!=": "bb"}})
    assert {page.metadata["lang"] for page in both} == {"aa"}
    for wrong, fact in [
        ({"title": "bb 0"}, "'title'"),
        ({"year": {"~": 1}}, "'~'"),
        ({"$or": []}, "'$or'"),
        (len, "`filter`"),
    ]:
        with pytest.raises(Cr5Error) as caught:
            store.similarity_search(article_query, filter=wrong)  # type: ignore[arg-type]
        assert fact in str(caught.value)


def test_a_vector_finds_the_nearest_documents(store: Cr5VectorStore, article_query: str) -> None:
    vector = store.embeddings.embed_query(article_query)
    expected = store.index.search(article_query, k=3, mode="dense", measure="cosine").hits
    assert ids(store.similarity_search_by_vector(vector, k=3)) == [hit.id for hit in expected]


def test_marginal_relevance_is_a_compromise_of_score_and_diversity(store: Cr5VectorStore, article_query: str) -> None:
    hits = store.index.search(article_query, k=10).hits
    best = store.max_marginal_relevance_search(article_query, k=4, fetch_k=10, lambda_mult=1.0)
    assert ids(best) == [hit.id for hit in hits[:4]]
    diverse = store.max_marginal_relevance_search(article_query, k=2, fetch_k=10, lambda_mult=1e-6)
    cosines = [float(hits[0].vector @ hit.vector) for hit in hits]
    assert ids(diverse) == [hits[0].id, hits[int(np.argmin(cosines))].id]


def test_a_store_is_a_retriever_and_may_be_awaited(store: Cr5VectorStore, article_query: str) -> None:
    found = store.similarity_search(article_query, k=2)
    retriever = store.as_retriever(search_kwargs={"k": 2})
    assert retriever.invoke(article_query) == asyncio.run(retriever.ainvoke(article_query)) == found
    assert asyncio.run(store.asimilarity_search_with_score(article_query, k=2))[0][0] == found[0]
    assert len(store.as_retriever(search_type="mmr", search_kwargs={"k": 2}).invoke(article_query)) == 2


def test_documents_are_added_replaced_and_deleted(
    empty_index: Index, articles_with_fields: list[dict[str, Any]]
) -> None:
    store = Cr5VectorStore(empty_index)
    first, second = pages(articles_with_fields)[:2]
    assert store.add_documents([first, second], ids=["1", "2"]) == ["1", "2"]
    assert store.get_by_ids(["2", "3", "1"]) == [
        Page(id="2", page_content=second.page_content, metadata=second.metadata),
        Page(id="1", page_content=first.page_content, metadata=first.metadata),
    ]
    store.add_documents([Page(first.page_content, id="2", metadata={"lang": "aa", "year": 1})])
    assert [page.metadata for page in store.get_by_ids(["2"])] == [{"lang": "aa", "year": 1}]
    assert store.delete(["2", "3"])
    assert len(empty_index) == 1
    assert asyncio.run(store.aadd_documents([second])) == store.add_documents([second])  # the same id
    assert len(empty_index) == 2


def test_languages_that_are_missing_are_guessed(empty_index: Index, articles_with_fields: list[dict[str, Any]]) -> None:
    store = Cr5VectorStore(empty_index)
    added = store.add_texts(
        [each["text"] for each in articles_with_fields[:3]], [{}, {"lang": None}, {"concept": "Q1"}]
    )
    assert [page.metadata for page in store.get_by_ids(added)] == [
        {"lang": "aa"}, {"lang": "bb"}, {"lang": "cc", "concept": "Q1"},
    ]  # fmt: skip
    assert [document.concept for document in empty_index.get(added)] == [added[0], added[1], "Q1"]


@pytest.mark.filterwarnings("ignore::cr5.FewKnownWords")
def test_documents_that_cannot_be_used_are_errors_or_left_out(
    empty_index: Index, articles_with_fields: list[dict[str, Any]]
) -> None:
    good = pages(articles_with_fields)[0]
    unusable = {
        "blank": Page("zzz", metadata={"lang": "aa"}),
        "unknown": Page(good.page_content, metadata={"lang": "fr"}),
        "not JSON": Page(good.page_content, metadata={"lang": "aa", "when": {1: object()}}),
    }
    for name, page in unusable.items():
        with pytest.raises(Cr5Error) as caught:
            Cr5VectorStore(empty_index).add_documents([page], ids=[name])
        assert name in str(caught.value) or "when" in str(caught.value)
    skipping = Cr5VectorStore(empty_index, on_error="skip")
    with pytest.warns(LanguageLeftOut, match="no language fr"), pytest.warns(InputSkipped, match="skipped 1: "):
        assert skipping.add_documents([*unusable.values(), good], ids=[*unusable, "good"]) == ["good"]
    with pytest.warns(InputSkipped, match="invalid fields"):
        again = skipping.add_documents([unusable["not JSON"], good], ids=["good", "other"])
    assert again == ["good", "other"]  # the first is still there as it was
    assert len(empty_index) == 2


def test_a_store_is_created_from_texts(
    model: Cr5, articles_with_fields: list[dict[str, Any]], tmp_path: Path, article_query: str
) -> None:
    texts = [each["text"] for each in articles_with_fields[:6]]
    with pytest.raises(Cr5Error, match="Cr5Embeddings"):
        Cr5VectorStore.from_texts(texts, DeterministicFakeEmbedding(size=3), folder=tmp_path / "index")
    store = Cr5VectorStore.from_texts(texts, Cr5Embeddings(model), ids=list("abcdef"), folder=tmp_path / "index")
    assert set(ids(store.similarity_search(article_query, k=3))) == {"a", "b", "c"}
    store.index.close()


def test_a_retriever_takes_the_parameters_of_a_search(
    filled_index_folder: Path, filled_index: Index, article_query: str
) -> None:
    retriever = Cr5Retriever(index=filled_index_folder, k=2, langs=["bb", "cc"], filter={"year": 2010}, mode="dense")
    found = retriever.invoke(article_query)
    hits = filled_index.search(article_query, k=2, langs=["bb", "cc"], mode="dense").hits
    assert [(page.id, page.metadata["score"]) for page in found] == [(hit.id, hit.score) for hit in hits]
    assert asyncio.run(retriever.ainvoke(article_query)) == found
    retriever._index.close()
    with pytest.raises(ValueError, match="minimum"):
        Cr5Retriever(index=filled_index, minimum=0.5)  # type: ignore[call-arg]
    [first, *_] = Cr5Retriever(index=filled_index, group="concept", prefer="cc", content="passage").invoke(
        article_query
    )
    assert first.metadata["concept"] == "Q000"
    versions = {version["id"] for version in first.metadata["versions"]}
    assert versions == ABOUT_Q000 - {first.id}
    assert first.page_content in filled_index.get(str(first.id))[0].text
