"""LlamaIndex searches an index of cr5, and embeds texts with a model."""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters

from cr5 import Cr5
from cr5.errors import Cr5Error
from cr5.index import Index
from cr5.integrations.llamaindex import Cr5Embedding, Cr5Retriever, add_nodes

pytestmark = pytest.mark.usefixtures("no_network")


def filters(*conditions: tuple[str, str, Any], condition: str = "and") -> MetadataFilters:
    items = [MetadataFilter(key=key, operator=FilterOperator(name), value=value) for key, name, value in conditions]
    return MetadataFilters(filters=[*items], condition=FilterCondition(condition))


def test_a_query_finds_documents_in_all_languages(filled_index_folder: Path, article_query: str) -> None:
    retriever = Cr5Retriever(filled_index_folder, similarity_top_k=3)
    found = retriever.retrieve(article_query)
    assert {each.node.node_id for each in found} == {"aa:Q000", "bb:Q000", "cc:Q000"}
    scores = [each.get_score(raise_error=True) for each in found]
    assert 1 >= scores[0] >= scores[1] >= scores[2] > 0
    [stored] = retriever.index.get(found[0].node.node_id)
    assert found[0].text == stored.text
    assert found[0].metadata == {
        "concept": "Q000", "lang": stored.lang, "title": stored.title, "year": 2010, "tags": ["even", "odd"],
    }  # fmt: skip
    assert asyncio.run(retriever.aretrieve(article_query)) == found
    retriever.index.close()


@pytest.mark.parametrize(
    ("chosen", "concepts"),
    [
        (filters(("year", ">", 2015)), {6, 7}),
        (filters(("year", ">=", 2012), ("year", "<=", 2013)), {2, 3}),
        (filters(("year", "<", 2012), ("year", "!=", 2010)), {1}),
        (filters(("year", "in", [2010, 2017])), {0, 7}),
        (filters(("year", "nin", [2010, 2017]), ("tags", "contains", "even")), {2, 4, 6}),
        (filters(("tags", "all", ["even", "odd"]), ("year", "<", 2013)), {0, 2}),
        (filters(("tags", "any", ["odd"]), ("year", "==", 2011)), {1}),
        (MetadataFilters(filters=[filters(("year", "==", 2011)), filters(("tags", "==", "even"))]), set[int]()),
    ],
)
def test_filters_choose_documents_by_their_metadata(
    filled_index: Index, article_query: str, chosen: MetadataFilters, concepts: set[int]
) -> None:
    retriever = Cr5Retriever(filled_index, similarity_top_k=24, langs="bb", mode="dense", filters=chosen)
    assert {each.node.node_id for each in retriever.retrieve(article_query)} == {f"bb:Q{i:03d}" for i in concepts}


@pytest.mark.parametrize(
    ("chosen", "name"),
    [
        (filters(("year", "==", 1), condition="or"), "'or'"),
        (filters(("title", "text_match", "x")), "'text_match'"),
        (filters(("title", "is_empty", None)), "'is_empty'"),
    ],
)
def test_filters_that_cannot_be_translated_are_refused_by_name(
    filled_index: Index, chosen: MetadataFilters, name: str
) -> None:
    with pytest.raises(Cr5Error) as caught:
        Cr5Retriever(filled_index, filters=chosen)
    assert name in str(caught.value)


def test_nodes_are_added_to_an_index(
    empty_index: Index, articles_with_fields: list[dict[str, Any]], article_query: str
) -> None:
    nodes = [
        TextNode(id_=f"n{i}", text=each["text"], metadata={"year": i})
        for i, each in enumerate(articles_with_fields[:6])
    ]
    assert add_nodes(empty_index, nodes) == [node.node_id for node in nodes]
    found = Cr5Retriever(empty_index, similarity_top_k=3).retrieve(article_query)
    assert {each.node.node_id: each.metadata for each in found} == {
        f"n{i}": {"lang": lang, "year": i} for i, lang in enumerate(["aa", "bb", "cc"])
    }


def test_embeddings_are_those_of_the_model(
    model: Cr5, model_folder: Path, articles_with_fields: list[dict[str, Any]]
) -> None:
    texts = [each["text"] for each in articles_with_fields[:3]]
    embedding = Cr5Embedding(model_folder)
    expected = model.encode(texts)
    np.testing.assert_allclose(embedding.get_text_embedding_batch(texts), expected, atol=1e-6)
    np.testing.assert_allclose(embedding.get_query_embedding(texts[0]), expected[0], atol=1e-6)
    assert asyncio.run(embedding.aget_query_embedding(texts[0])) == embedding.get_query_embedding(texts[0])
    assert asyncio.run(embedding.aget_text_embedding_batch(texts)) == embedding.get_text_embedding_batch(texts)
    with pytest.raises(Cr5Error, match=r"`texts\[1\]` is 'zzz'"):
        embedding.get_text_embedding_batch([texts[0], "zzz"])
    assert not any(Cr5Embedding(model, "aa", allow_zeros=True).get_text_embedding("zzz"))
