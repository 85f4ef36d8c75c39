"""The search index: documents and their vectors in a store, searched across languages."""

from cr5.index.background import Background
from cr5.index.examples import ExampleQuery
from cr5.index.index import Index
from cr5.index.ingest import IngestCounts, IngestSettings
from cr5.index.pipeline import Grouping, Mode
from cr5.index.query import Query
from cr5.index.results import (
    DOCUMENT_COLUMNS,
    DocumentPair,
    IndexedDocument,
    RecallEstimate,
    SearchHit,
    SearchResult,
    Version,
    WordHit,
)

__all__ = [
    "DOCUMENT_COLUMNS",
    "Background",
    "DocumentPair",
    "ExampleQuery",
    "Grouping",
    "Index",
    "IndexedDocument",
    "IngestCounts",
    "IngestSettings",
    "Mode",
    "Query",
    "RecallEstimate",
    "SearchHit",
    "SearchResult",
    "Version",
    "WordHit",
]
