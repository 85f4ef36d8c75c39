"""Components for LlamaIndex: a retriever over an index, a function that adds nodes to it, and an embedding model."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cr5.corpus.skipped import OnError
from cr5.errors import Cr5Error, needs_package
from cr5.index import Index
from cr5.index.pipeline import Grouping, Mode
from cr5.integrations import _shared
from cr5.model import Cr5

with needs_package("cr5.integrations.llamaindex", "LlamaIndex", "llamaindex"):
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.bridge.pydantic import PrivateAttr
    from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle, TextNode
    from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters

COMPARISONS = {
    FilterOperator.GT: ">", FilterOperator.GTE: ">=", FilterOperator.LT: "<", FilterOperator.LTE: "<=",
    FilterOperator.NE: "!=", FilterOperator.NIN: "!=",
}  # fmt: skip
"""Operators of LlamaIndex's filters -> operators of ``where``."""
EQUALITIES = (FilterOperator.EQ, FilterOperator.IN, FilterOperator.ANY, FilterOperator.CONTAINS)
"""Operators whose value is the condition itself; if the metadata is a list, one of its values has to be equal."""


class Cr5Retriever(BaseRetriever):
    """Searches an index, or the one in a folder; parameters are those of ``Index.search``.

    ``similarity_top_k`` is ``k``, and ``filters`` have conditions on metadata. Scores are from 0 to 1 except in dense
    mode. With ``group="concept"`` nodes have their other versions in the metadata; their text is that of the document,
    or the passage that matches best.
    """

    def __init__(
        self,
        index: Index | str | Path,
        *,
        similarity_top_k: int = 10,
        lang: str | None = None,
        langs: str | Sequence[str] | None = None,
        filters: MetadataFilters | None = None,
        mode: Mode = "hybrid",
        prefer: str | None = None,
        group: Grouping | None = None,
        min_score: float = 0.0,
        content: _shared.Content = "text",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.index, self.langs, self.content = _shared.open_index(index), langs, content
        self.conditions = _conditions(filters)
        self.parameters = {
            "k": similarity_top_k, "lang": lang, "mode": mode, "prefer": prefer, "group": group, "min_score": min_score,
        }  # fmt: skip

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        hits = _shared.search(self.index, query_bundle.query_str, self.conditions, self.langs, **self.parameters)
        texts = [_shared.content_of(hit, self.content) for hit in hits]
        nodes = [
            TextNode(id_=hit.id, text=text, metadata=_shared.metadata_of(hit))
            for hit, text in zip(hits, texts, strict=True)
        ]
        return [NodeWithScore(node=node, score=hit.score) for node, hit in zip(nodes, hits, strict=True)]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


class Cr5Embedding(BaseEmbedding):
    """A model, or the folder of one, with the interface of LlamaIndex's embedding models.

    All texts are in ``lang``; without it, the model guesses the language of each. A text without a word that the model
    knows is an error, or a vector of zeros with ``allow_zeros``.
    """

    lang: str | None = None
    allow_zeros: bool = False
    _model: Cr5 = PrivateAttr()

    def __init__(
        self, model: Cr5 | str | Path, lang: str | None = None, *, allow_zeros: bool = False, **kwargs: Any
    ) -> None:
        name = "cr5" if isinstance(model, Cr5) else str(model)
        super().__init__(**{"model_name": name, **kwargs, "lang": lang, "allow_zeros": allow_zeros})
        self._model = _shared.load_model(model)

    @classmethod
    def class_name(cls) -> str:
        """The name of the class in LlamaIndex's files."""
        return "Cr5Embedding"

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return _shared.encode_texts(self._model, texts, self.lang, allow_zeros=self.allow_zeros)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return await asyncio.to_thread(self._get_text_embedding, query)

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return await asyncio.to_thread(self._get_text_embedding, text)

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return await asyncio.to_thread(self._get_text_embeddings, texts)


def add_nodes(index: Index | str | Path, nodes: Sequence[BaseNode], *, on_error: OnError = "raise") -> list[str]:
    """Add nodes to an index, replacing those with the same ids; returns the ids of those that it now contains.

    The metadata lang, concept, title and url become those of the index: a missing language is guessed, and a missing
    concept is the id. All other metadata are fields, by which filters choose. Relationships are not stored. Nodes that
    cannot be used, in a language that the model does not have or without a word that it knows, are an error, or left
    out with ``on_error="skip"``.
    """
    entries = [
        _shared.Entry(node.node_id, node.get_content(metadata_mode=MetadataMode.NONE), node.metadata) for node in nodes
    ]
    return _shared.write(_shared.open_index(index), entries, on_error)


def _conditions(filters: MetadataFilters | None) -> list[_shared.NameAndCondition]:
    """The conditions of LlamaIndex's filters, all of which a document has to meet."""
    if filters is None:
        return []
    if filters.condition not in (FilterCondition.AND, None):
        raise Cr5Error(
            f"the filters have the condition {filters.condition.value!r}, which an index cannot evaluate; it finds "
            "documents that meet all filters ('and'), and of several values of a field any one ('in')"
        )
    conditions = []
    for item in filters.filters:
        conditions += _conditions(item) if isinstance(item, MetadataFilters) else _comparison(item)
    return conditions


def _comparison(item: MetadataFilter) -> list[_shared.NameAndCondition]:
    if item.operator in COMPARISONS:
        return [(item.key, {COMPARISONS[item.operator]: item.value})]
    if item.operator in EQUALITIES:
        return [(item.key, item.value)]
    if item.operator == FilterOperator.ALL and isinstance(item.value, list):
        return [(item.key, value) for value in item.value]
    known = ", ".join(operator.value for operator in (*EQUALITIES, *COMPARISONS, FilterOperator.ALL))
    raise Cr5Error(
        f"the filter on {item.key!r} has the operator {item.operator.value!r}, which an index cannot evaluate; the "
        f"operators are {known}"
    )
