"""What an index returns: documents, search hits, pairs of documents, and an estimate of recall."""

from dataclasses import dataclass, field, fields
from typing import NamedTuple

from cr5._typing import Array
from cr5.index.background import Background
from cr5.index.query import Query


@dataclass(frozen=True, slots=True)
class IndexedDocument:
    """A document of the index."""

    id: str
    concept: str
    lang: str
    title: str
    url: str
    text: str


DOCUMENT_COLUMNS = tuple(column.name for column in fields(IndexedDocument))  # of the store


@dataclass(frozen=True, slots=True)
class SearchHit(IndexedDocument):
    """A document that a search returned, with its vector (rank); ``score`` is the cosine or CSLS, as requested."""

    score: float
    cosine: float
    vector: Array = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A query and its hits, best first; ``background`` is the sample of the index that CSLS was computed with."""

    query: Query
    hits: list[SearchHit]
    background: Background = field(compare=False, repr=False)


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
