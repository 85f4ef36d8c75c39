"""The interface that every dump reader implements: split a file into ranges, and read the articles of a range."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, TypeAlias

from cr5.corpus.documents import Document
from cr5.sources.files import ErrorHandler, raise_error
from cr5.sources.wikipedia.wiki import Wiki

DumpFormat: TypeAlias = Literal["cirrus", "xml", "parquet"]
"""The index of Wikipedia's search engine CirrusSearch (plain text), XML (wikitext), or Parquet (plain text)."""

FindItem: TypeAlias = Callable[[int, str], tuple[str, bool] | None]
"""Maps a page's id and title to its Wikidata item ("Q42") and whether it is a disambiguation page, or to None."""

PageCounts: TypeAlias = Counter[str]
"""How many pages were read, and how many of them were skipped for each of the reasons below."""

PAGES = "pages"
# Stored under these names in the manifests of corpora: "disambiguations" are disambiguation pages.
NAMESPACE, REDIRECT, DISAMBIGUATION = "other namespaces", "redirects", "disambiguations"
NO_ITEM, EMPTY = "without a Wikidata item", "without text"


class FileRange(NamedTuple):
    """What one task reads: a whole file, or the part from ``begin`` to ``end``, in units that the reader defines."""

    path: str
    begin: int = 0
    end: int | None = None


@dataclass
class ReadingContext:
    """What the reading of a range needs: where items are looked up, and where pages that are not articles are counted.

    The first ``skip`` records are neither counted nor reported, so that reading can resume after an article.
    """

    file_range: FileRange
    wiki: Wiki
    find_item: FindItem | None = None
    page_counts: PageCounts = field(default_factory=Counter)
    skip: int = 0
    handle_error: ErrorHandler = raise_error

    def item(self, page_id: int, title: str, item: str = "", is_disambiguation: bool = False) -> str:
        """The Wikidata item of a page, or "" if it has none or is a disambiguation page, which is counted.

        ``item`` and ``is_disambiguation`` are what the dump itself says about the page.
        """
        found, is_known_disambiguation = (self.find_item and self.find_item(page_id, title)) or ("", False)
        item = item or found
        if is_disambiguation or is_known_disambiguation:
            self.page_counts[DISAMBIGUATION] += 1
            return ""
        if not item:
            self.page_counts[NO_ITEM] += 1
        return item

    def document(self, item: str, title: str, text: str, url: str = "") -> Document | None:
        """The document of an article, or None if it has no text, which is counted."""
        if text and not text.isspace():
            return self.wiki.document(item, title, text, url)
        self.page_counts[EMPTY] += 1
        return None


class DumpReader(Protocol):
    """A module that reads one dump format."""

    def split(self, path: Path, /) -> list[FileRange]:
        """Split a file into ranges that can be read independently; together they hold every page once."""
        ...

    def articles(self, reading: ReadingContext, /) -> Iterator[tuple[int, Document]]:
        """Yield the articles of a range, each with the number of its record in the range, from 1.

        When an article is yielded, all records up to it and none after it have been counted and reported.
        """
        ...
