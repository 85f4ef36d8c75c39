"""Components for Haystack: a document store and a retriever over an index, and embedders for other document stores.

A pipeline that is loaded from a file creates only components of trusted modules:
``Pipeline.loads(text, allowed_modules=["cr5.integrations.haystack"])``.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from cr5.corpus.skipped import OnError
from cr5.corpus.texts import describe
from cr5.errors import Cr5Error, Cr5TypeError, needs_package
from cr5.index import DOCUMENT_COLUMNS, Index, IndexedDocument
from cr5.index.pipeline import Grouping, Mode
from cr5.integrations import _shared
from cr5.model import Cr5

with needs_package("cr5.integrations.haystack", "Haystack", "haystack"):
    from haystack import Document, component, default_from_dict, default_to_dict
    from haystack.document_stores.errors import DuplicateDocumentError
    from haystack.document_stores.types import DuplicatePolicy

OPERATORS = {"==": None, "in": None, "!=": "!=", "not in": "!=", ">": ">", ">=": ">=", "<": "<", "<=": "<="}
"""Haystack's comparison operators -> operators of ``where``; None: the condition is the value or list itself."""
NOT_META = ("id", "content", "blob", "score", "embedding", "sparse_embedding")  # filters cannot use these


class _Saved:
    """The base of what a pipeline file holds: it is created again from what its ``to_dict`` returns."""

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The object with the parameters of ``to_dict``."""
        return default_from_dict(cls, data)


class _Embedder(_Saved):
    """The base of both embedders: ``model`` is a model or its folder; only a folder can be saved in a pipeline.

    A text without a word that the model knows is an error, or a vector of zeros with ``allow_zeros``.
    """

    def __init__(self, model: Cr5 | str | Path, lang: str | None = None, *, allow_zeros: bool = False) -> None:
        self.folder = None if isinstance(model, Cr5) else str(model)
        self.model = _shared.load_model(model)
        self.lang = lang
        self.allow_zeros = allow_zeros

    def to_dict(self) -> dict[str, Any]:
        """The parameters that Haystack writes to a pipeline file."""
        if self.folder is None:
            raise Cr5Error(
                f"{type(self).__name__} has a model in memory, which cannot be written to a pipeline file; "
                "save the model and pass its folder as `model`"
            )
        return default_to_dict(self, model=self.folder, lang=self.lang, allow_zeros=self.allow_zeros)


@component
class Cr5TextEmbedder(_Embedder):
    """Encodes a query, in ``lang`` or the language that the model guesses."""

    @component.output_types(embedding=list[float])
    def run(self, text: str) -> dict[str, list[float]]:
        """A text -> its vector of length 1."""
        [vector] = _shared.encode_texts(self.model, [text], self.lang, allow_zeros=self.allow_zeros)
        return {"embedding": vector}


@component
class Cr5DocumentEmbedder(_Embedder):
    """Encodes documents, each in the language of its ``meta["lang"]``, else in ``lang``, else in the guessed one."""

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, list[Document]]:
        """Documents -> copies with embeddings, vectors of length 1."""
        texts = [_text(document) for document in documents]
        langs = [document.meta.get("lang") or self.lang for document in documents]
        vectors = _shared.encode_texts(self.model, texts, langs, allow_zeros=self.allow_zeros, name="documents")
        return {"documents": [replace(each, embedding=vector) for each, vector in zip(documents, vectors, strict=True)]}


class Cr5DocumentStore(_Saved):
    """An index, or the folder of one, as a document store; only a folder can be saved in a pipeline.

    The meta lang, concept, title and url of a document become those of the index: a missing language is guessed, and a
    missing concept is the id. All other meta are fields, by which filters choose documents. The index encodes documents
    itself; their embeddings are not stored.

    Documents that cannot be used, in a language that the model does not have or without a word that it knows, are an
    error, or left out with ``on_error="skip"``.
    """

    def __init__(self, index: Index | str | Path, *, on_error: OnError = "raise") -> None:
        self.folder = None if isinstance(index, Index) else str(index)
        self.index = _shared.open_index(index)
        self.on_error = on_error

    def to_dict(self) -> dict[str, Any]:
        """The parameters that Haystack writes to a pipeline file."""
        if self.folder is None:
            raise Cr5Error(
                "Cr5DocumentStore has an open index, which cannot be written to a pipeline file; pass its folder as "
                "`index`"
            )
        return default_to_dict(self, index=self.folder, on_error=self.on_error)

    def count_documents(self) -> int:
        """The number of documents."""
        return len(self.index)

    def filter_documents(self, filters: dict[str, Any] | None = None) -> list[Document]:
        """The documents that match filters; without filters, all documents of the index."""
        langs, where = _shared.split_conditions(self.index, _conditions(filters))
        rows = (row for batch in self.index.scan(DOCUMENT_COLUMNS, where=where) for row in batch.to_pylist())
        return [_document(IndexedDocument(**row)) for row in rows if langs is None or row["lang"] in langs]

    def write_documents(self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE) -> int:
        """Write documents and return how many; by default, an id that exists is an error and nothing is written."""
        for position, document in enumerate(documents):
            if not isinstance(document, Document):
                raise Cr5TypeError(f"`documents[{position}]` is {describe(document)}; give Haystack documents")
        entries = {document.id: _shared.Entry(document.id, _text(document), document.meta) for document in documents}
        if policy != DuplicatePolicy.OVERWRITE:
            existing = [document.id for document in self.index.get(list(entries))]
            if existing and policy != DuplicatePolicy.SKIP:
                raise DuplicateDocumentError(
                    f"there is a document {existing[0]!r} already; write with DuplicatePolicy.OVERWRITE or SKIP"
                )
            entries = {name: entry for name, entry in entries.items() if name not in existing}
        return len(_shared.write(self.index, list(entries.values()), self.on_error))

    def delete_documents(self, document_ids: list[str]) -> None:
        """Delete documents; ids that do not exist are ignored."""
        self.index.delete(document_ids)

    async def count_documents_async(self) -> int:
        """As ``count_documents``."""
        return await asyncio.to_thread(self.count_documents)

    async def filter_documents_async(self, filters: dict[str, Any] | None = None) -> list[Document]:
        """As ``filter_documents``."""
        return await asyncio.to_thread(self.filter_documents, filters)

    async def write_documents_async(
        self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE
    ) -> int:
        """As ``write_documents``."""
        return await asyncio.to_thread(self.write_documents, documents, policy)

    async def delete_documents_async(self, document_ids: list[str]) -> None:
        """As ``delete_documents``."""
        await asyncio.to_thread(self.delete_documents, document_ids)


@component
class Cr5Retriever(_Saved):
    """Searches a document store; parameters are those of ``Index.search``, with Haystack's ``top_k`` and ``filters``.

    ``lang`` is the language of queries, guessed by default, and ``langs`` are those to search in. Scores are
    from 0 to 1 except in dense mode. With ``group="concept"``, documents have their other versions in the meta. Their
    content is the text, or the passage that matches best.
    """

    def __init__(
        self,
        document_store: Cr5DocumentStore,
        *,
        filters: dict[str, Any] | None = None,
        top_k: int = 10,
        lang: str | None = None,
        langs: list[str] | None = None,
        mode: Mode = "hybrid",
        prefer: str | None = None,
        group: Grouping | None = None,
        min_score: float = 0.0,
        content: _shared.Content = "text",
    ) -> None:
        self.document_store = document_store
        self.filters, self.top_k, self.lang, self.langs, self.mode = filters, top_k, lang, langs, mode
        self.prefer, self.group, self.min_score, self.content = prefer, group, min_score, content
        _conditions(filters)  # so that an error in a filter is reported at once

    def to_dict(self) -> dict[str, Any]:
        """The parameters that Haystack writes to a pipeline file."""
        names = ("filters", "top_k", "lang", "langs", "mode", "prefer", "group", "min_score", "content")
        parameters = {name: getattr(self, name) for name in names}
        return default_to_dict(self, document_store=self.document_store, **parameters)

    @component.output_types(documents=list[Document])
    def run(
        self,
        query: str,
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
        langs: list[str] | None = None,
        mode: Mode | None = None,
    ) -> dict[str, list[Document]]:
        """A query -> the best documents; parameters that are given replace those of the retriever."""
        hits = _shared.search(
            self.document_store.index,
            query,
            _conditions(self.filters if filters is None else filters),
            self.langs if langs is None else langs,
            k=self.top_k if top_k is None else top_k,
            lang=self.lang,
            mode=mode or self.mode,
            prefer=self.prefer,
            group=self.group,
            min_score=self.min_score,
        )
        return {"documents": [_document(hit, _shared.content_of(hit, self.content), hit.score) for hit in hits]}

    @component.output_types(documents=list[Document])
    async def run_async(
        self,
        query: str,
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
        langs: list[str] | None = None,
        mode: Mode | None = None,
    ) -> dict[str, list[Document]]:
        """As ``run``."""
        return await asyncio.to_thread(self.run, query, filters, top_k, langs, mode)


def _text(document: Document) -> str:
    if document.content is None:
        raise Cr5Error(f"document {document.id!r} has no text to embed; leave it out, or set its content")
    return document.content


def _document(document: IndexedDocument, content: str | None = None, score: float | None = None) -> Document:
    text = document.text if content is None else content
    return Document(id=document.id, content=text, meta=_shared.metadata_of(document), score=score)


def _conditions(filters: Mapping[str, Any] | None) -> list[_shared.NameAndCondition]:
    """The conditions of Haystack's filters, all of which a document has to meet."""
    if not filters:
        return []
    if "field" in filters:
        return [_comparison(filters)]
    operator, conditions = filters.get("operator"), filters.get("conditions")
    if operator != "AND":
        raise Cr5Error(
            f"a filter has the operator {operator!r}, which an index cannot evaluate; it finds documents that meet all "
            "conditions ('AND'), and of several values of a field any one ('in')"
        )
    if conditions is None:
        raise Cr5Error("a filter with the operator 'AND' has no 'conditions'; give a list of them")
    return [pair for condition in conditions for pair in _conditions(condition)]


def _comparison(filters: Mapping[str, Any]) -> _shared.NameAndCondition:
    for key in ("operator", "value"):
        if key not in filters:
            raise Cr5Error(f"the filter on {filters['field']!r} has no {key!r}; give field, operator and value")
    name, operator, value = filters["field"], filters["operator"], filters["value"]
    if name in NOT_META:
        raise Cr5Error(f"a filter on {name!r} is not possible; filter by meta, such as 'meta.year'")
    is_list = isinstance(value, list | tuple)
    if operator not in OPERATORS:
        raise Cr5Error(f"the filter on {name!r} has the operator {operator!r}; give one of {', '.join(OPERATORS)}")
    if is_list is not (operator in ("in", "not in")) or value is None:
        raise Cr5Error(
            f"the filter on {name!r} has the operator {operator!r} and the value {value!r}; give 'in' and 'not in' a "
            "list, and the others a number or a string"
        )
    symbol = OPERATORS[operator]
    return name.removeprefix("meta."), value if symbol is None else {symbol: value}
