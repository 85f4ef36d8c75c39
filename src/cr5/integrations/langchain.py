"""Components for LangChain: a vector store and a retriever over an index, and embeddings for other vector stores."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from cr5.corpus.skipped import OnError
from cr5.errors import Cr5Error, needs_package
from cr5.index import Index, IndexedDocument, SearchHit
from cr5.index.pipeline import Grouping, Mode
from cr5.integrations import _shared
from cr5.message_parts import with_article
from cr5.model import Cr5

with needs_package("cr5.integrations.langchain", "LangChain", "langchain"):
    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.vectorstores import VectorStore
    from pydantic import ConfigDict, PrivateAttr

Filters = Mapping[str, Any]
"""Conditions on metadata, as in ``where`` of ``Index.search``: {"year": {">=": 2019}, "lang": ["it", "da"]}."""


class Cr5Embeddings(Embeddings):
    """A model, or the folder of one, with the interface of LangChain's embeddings.

    All texts are in ``lang``; without it, the model guesses the language of each. A text without a word that the model
    knows is an error, or a vector of zeros with ``allow_zeros``.
    """

    def __init__(self, model: Cr5 | str | Path, lang: str | None = None, *, allow_zeros: bool = False) -> None:
        self.model = _shared.load_model(model)
        self.lang = lang
        self.allow_zeros = allow_zeros

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Texts -> a vector of length 1 for each."""
        return _shared.encode_texts(self.model, texts, self.lang, allow_zeros=self.allow_zeros)

    def embed_query(self, text: str) -> list[float]:
        """A text -> its vector, which is the same for queries and documents."""
        return self.embed_documents([text])[0]


class Cr5VectorStore(VectorStore):
    """An index, or the folder of one, with the interface of LangChain's vector stores; searches are hybrid by default.

    The metadata lang, concept, title and url of a document become those of the index: a missing language is guessed,
    and a missing concept is the id. All other metadata are fields, by which ``filter`` chooses documents. A document
    without an id gets a digest of its content.

    Documents that cannot be used, in a language that the model does not have or without a word that it knows, are an
    error, or left out with ``on_error="skip"``. Searches take further parameters of ``Index.search``: ``lang`` of the
    query, ``langs`` to search in, ``mode``, ``prefer``, ``group``, ``min_score``.
    """

    def __init__(self, index: Index | str | Path, *, on_error: OnError = "raise") -> None:
        self.index = _shared.open_index(index)
        self.on_error = on_error

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        folder: str | Path | None = None,
        **kwargs: Any,
    ) -> Self:
        """Create an index in ``folder`` with the model of ``embedding``, a ``Cr5Embeddings``, and add texts."""
        if not isinstance(embedding, Cr5Embeddings):
            kind = type(embedding).__name__
            raise Cr5Error(
                f"`embedding` is {with_article(kind)}; an index encodes with a model of cr5, give a Cr5Embeddings"
            )
        if folder is None:
            raise Cr5Error("`folder=None`; give the folder in which the index is to be created")
        store = cls(Index.create(folder, embedding.model), **kwargs)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    @property
    def embeddings(self) -> Cr5Embeddings:
        """The model of the index as LangChain's embeddings."""
        return Cr5Embeddings(self.index.model)

    def add_documents(self, documents: list[Document], ids: list[str] | None = None, **kwargs: Any) -> list[str]:
        """Add documents, replacing those with the same ids; returns the ids of those that the index now contains."""
        own = [document.id for document in documents] if ids is None else ids
        if len(own) != len(documents):
            raise Cr5Error(f"`ids` has {len(own):,} ids for {len(documents):,} documents; give every document one")
        pairs = zip(own, documents, strict=True)
        entries = [_shared.Entry(document_id, each.page_content, each.metadata) for document_id, each in pairs]
        return _shared.write(self.index, entries, self.on_error)

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool:
        """Delete the documents with these ids; ids that do not exist are ignored."""
        if ids is None:
            raise Cr5Error("`ids=None`; give the ids of the documents to delete")
        self.index.delete(ids)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """The documents with these ids, in their order; missing ones are left out."""
        return [_document(document, document.text) for document in self.index.get(ids)]

    def similarity_search(
        self,
        query: str,
        k: int = 4,
        filter: Filters | None = None,  # noqa: A002
        **kwargs: Any,
    ) -> list[Document]:
        """The k best documents for a query."""
        return [_document(hit, hit.text) for hit in self._search(query, k, filter, **kwargs)]

    def similarity_search_with_score(
        self,
        query: str,
        k: int = 4,
        filter: Filters | None = None,  # noqa: A002
        **kwargs: Any,
    ) -> list[tuple[Document, float]]:
        """The k best documents for a query, with scores: larger is better, from 0 to 1 except in dense mode."""
        return [(_document(hit, hit.text), hit.score) for hit in self._search(query, k, filter, **kwargs)]

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, *, langs: str | Sequence[str] | None = None, **kwargs: Any
    ) -> list[Document]:
        """The k documents whose vectors have the largest cosine with a vector."""
        if kwargs.get("filter"):
            raise Cr5Error("`filter` is for searches with a text; leave it out, or search with the text")
        lang = self.index.langs[0]  # cosines do not depend on it
        [hits] = self.index.nearest(np.array(embedding, np.float32), lang, k=k, langs=langs, measure="cosine")
        return [_document(hit, hit.text) for hit in hits]

    def max_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: Filters | None = None,  # noqa: A002
        **kwargs: Any,
    ) -> list[Document]:
        """k of the ``fetch_k`` best documents, each chosen to be relevant and unlike those before it.

        The next document has the largest ``lambda_mult`` * score - (1 - ``lambda_mult``) * largest cosine with a
        document before it.
        """
        hits = self._search(query, max(k, fetch_k), filter, **kwargs)
        return [_document(hit, hit.text) for hit in _most_diverse(hits, k, lambda_mult)]

    def _search(self, query: str, k: int, where: Filters | None, **kwargs: Any) -> list[SearchHit]:
        conditions = _shared.conditions_of(where, "filter")
        return _shared.search(self.index, query, conditions, kwargs.pop("langs", None), k=k, **kwargs)

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        return lambda score: min(max(score, 0.0), 1.0)  # CSLS, the score in dense mode, may be outside this range


class Cr5Retriever(BaseRetriever):
    """Searches an index, or the one in a folder; parameters are those of ``Index.search``.

    ``filter`` has conditions on metadata. The documents have their score in the metadata, and with ``group="concept"``
    their other versions; their content is the text, or the passage that matches best.
    """

    model_config = ConfigDict(extra="forbid")  # a misspelt parameter is an error

    index: Index | str | Path
    k: int = 4
    lang: str | None = None
    langs: str | list[str] | None = None
    mode: Mode = "hybrid"
    prefer: str | None = None
    group: Grouping | None = None
    min_score: float = 0.0
    filter: dict[str, Any] | None = None
    content: _shared.Content = "text"
    _index: Index = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Open the index."""
        self._index = _shared.open_index(self.index)

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        names = ("k", "lang", "mode", "prefer", "group", "min_score")
        parameters = {name: getattr(self, name) for name in names}
        hits = _shared.search(
            self._index, query, _shared.conditions_of(self.filter, "filter"), self.langs, **parameters
        )
        return [_document(hit, _shared.content_of(hit, self.content), score=hit.score) for hit in hits]


def _document(document: IndexedDocument, content: str, **more: float) -> Document:
    return Document(id=document.id, page_content=content, metadata=_shared.metadata_of(document) | more)


def _most_diverse(hits: Sequence[SearchHit], k: int, lambda_mult: float) -> list[SearchHit]:
    """k hits chosen by maximal marginal relevance."""
    chosen = list[int]()
    if hits:
        X, scores = np.array([hit.vector for hit in hits]), np.array([hit.score for hit in hits])
        closest = np.zeros(len(hits))
        while len(chosen) < min(k, len(hits)):
            values = lambda_mult * scores - (1 - lambda_mult) * closest
            values[chosen] = -np.inf
            best = int(np.argmax(values))
            cosines = X @ X[best]
            closest = np.maximum(closest, cosines) if chosen else cosines
            chosen.append(best)
    return [hits[i] for i in chosen]
