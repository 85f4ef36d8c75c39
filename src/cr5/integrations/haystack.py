"""Embedders for Haystack: components that encode queries and documents of any language.

A pipeline that is loaded from a file creates only components of trusted modules:
``Pipeline.loads(text, allowed_modules=["cr5.integrations.haystack"])``.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from cr5.errors import Cr5Error, MissingPackageError
from cr5.model import Cr5

try:
    from haystack import Document, component, default_from_dict, default_to_dict
except ModuleNotFoundError as error:
    raise MissingPackageError("the embedders need Haystack; install it with pip install 'cr5[haystack]'") from error


class _Embedder:
    """The base of both embedders: ``model`` is a model or its folder; only a folder can be saved in a pipeline."""

    def __init__(self, model: Cr5 | str | Path, lang: str | None = None) -> None:
        self.folder = None if isinstance(model, Cr5) else str(model)
        self.model = model if isinstance(model, Cr5) else Cr5.load(model)
        self.lang = lang

    def to_dict(self) -> dict[str, Any]:
        """The parameters that Haystack writes to a pipeline file."""
        if self.folder is None:
            raise Cr5Error(
                f"{type(self).__name__} has a model in memory, which cannot be written to a pipeline file; "
                "save the model and pass its folder as `model`"
            )
        return default_to_dict(self, model=self.folder, lang=self.lang)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The embedder with the parameters of ``to_dict``."""
        return default_from_dict(cls, data)


@component
class Cr5TextEmbedder(_Embedder):
    """Encodes a query, in ``lang`` or the language that the model guesses."""

    @component.output_types(embedding=list[float])
    def run(self, text: str) -> dict[str, list[float]]:
        """A text -> its vector of length 1, or all zeros if the model knows none of its words."""
        return {"embedding": self.model.encode(text, self.lang).tolist()}


@component
class Cr5DocumentEmbedder(_Embedder):
    """Encodes documents, each in the language of its ``meta["lang"]``, else in ``lang``, else in the guessed one."""

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, list[Document]]:
        """Documents -> copies with embeddings: vectors of length 1, or all zeros if the model knows no word."""
        texts = [_text(document) for document in documents]
        langs = [document.meta.get("lang") or self.lang for document in documents]
        pairs = zip(documents, self.model.encode(texts, langs), strict=True)
        return {"documents": [replace(document, embedding=vector.tolist()) for document, vector in pairs]}


def _text(document: Document) -> str:
    if document.content is None:
        raise Cr5Error(f"document {document.id!r} has no text to embed; leave it out, or set its content")
    return document.content
