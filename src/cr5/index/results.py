"""What an index returns: documents, search hits, pairs of documents, and an estimate of recall."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, overload

from cr5._typing import Array
from cr5.corpus.fields import parse_fields
from cr5.index.background import Background
from cr5.index.query import Query


@dataclass(frozen=True, slots=True)
class IndexedDocument:
    """A document of the index; ``fields`` may be given as the JSON text that a store keeps."""

    id: str
    concept: str
    lang: str
    title: str
    url: str
    text: str
    fields: dict[str, Any] = field(default_factory=dict, hash=False, kw_only=True)

    def __post_init__(self) -> None:
        if isinstance(self.fields, str):
            object.__setattr__(self, "fields", parse_fields(self.fields))


DOCUMENT_COLUMNS = tuple(column.name for column in dataclasses.fields(IndexedDocument))  # columns of the store


class Version(NamedTuple):
    """Another document of the same concept as a hit; ``score`` is None if it was not found itself."""

    id: str
    lang: str
    title: str
    score: float | None


@dataclass(frozen=True, slots=True)
class SearchHit(IndexedDocument):
    """A document that a search returned, with its vector (rank).

    ``score`` is the relevance from 0 to 1 in the modes "hybrid" and "lexical", to which the ``parts`` add up, and the
    cosine or CSLS in the mode "dense", where ``parts``, ``passage``, ``words`` and ``versions`` are empty. ``passage``
    delimits the part of the text that matched best, in characters, and ``words`` are the document's words that match
    those of the query, lower-case. ``versions`` are other documents of the concept, if hits are grouped; score and
    parts are those of the best one.
    """

    score: float
    cosine: float
    vector: Array = field(compare=False, repr=False)
    parts: dict[str, float] = field(default_factory=dict)
    passage: tuple[int, int] = (0, 0)
    words: tuple[str, ...] = ()
    versions: tuple[Version, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Everything but the vector, for JSON."""
        versions = [version._asdict() for version in self.versions]
        return {name: getattr(self, name) for name in _JSON_NAMES} | {"versions": versions}


_JSON_NAMES = tuple(column.name for column in dataclasses.fields(SearchHit) if column.name != "vector")


@dataclass(frozen=True, slots=True)
class WordHit(IndexedDocument):
    """A document that contains words of a query, with its BM25 score."""

    bm25: float


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A query and its hits, best first; ``background`` is the sample of the index that CSLS was computed with.

    It can be used like the list of its hits. ``suggestion`` is the query with similar words instead of those that the
    index does not have. ``warnings`` are sentences on fields that the search names and no document has.
    """

    query: Query
    hits: list[SearchHit]
    background: Background = field(compare=False, repr=False)
    suggestion: str | None = None
    warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[SearchHit]:
        return iter(self.hits)

    @overload
    def __getitem__(self, position: int) -> SearchHit: ...
    @overload
    def __getitem__(self, position: slice) -> list[SearchHit]: ...
    def __getitem__(self, position: int | slice) -> SearchHit | list[SearchHit]:
        return self.hits[position]


class DocumentPair(NamedTuple):
    """Two documents that are each other's nearest neighbours; ``score`` is their CSLS."""

    a: IndexedDocument
    b: IndexedDocument
    score: float
    cosine: float


class RecallEstimate(NamedTuple):
    """Recall@k of the approximate index against an exact search, averaged over queries; ``kind`` is that index."""

    recall: float
    queries: int
    k: int
    kind: str
