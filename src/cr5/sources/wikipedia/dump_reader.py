"""The interface that every dump reader implements: split a file into ranges, and read the articles of a range."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, TypeAlias

from cr5.corpus.documents import Document
from cr5.sources.files import ErrorHandler
from cr5.sources.wikipedia.wiki import Wiki

DumpFormat: TypeAlias = Literal["cirrus", "xml", "parquet"]
"""The search index with plain text, the pages as wikitext in XML, or an export of plain text as Parquet."""

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


class DumpReader(Protocol):
    """A module that reads one dump format."""

    def split(self, path: Path, /) -> list[FileRange]:
        """Split a file into ranges that can be read independently; together they hold every page once."""
        ...

    def articles(
        self,
        file_range: FileRange,
        wiki: Wiki,
        find_item: FindItem | None,
        /,
        *,
        page_counts: PageCounts,
        skip: int,
        handle_error: ErrorHandler,
    ) -> Iterator[tuple[int, Document]]:
        """Yield the articles of a range, each with the number of its record in the range, from 1.

        The first ``skip`` records are neither counted nor reported, so that reading can resume after an article.
        When an article is yielded, ``page_counts`` and ``handle_error`` have seen all records up to it and none
        after it.
        """
        ...
