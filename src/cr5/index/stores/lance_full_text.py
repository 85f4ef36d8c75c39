"""The full text of a LanceDB table: an inverted index in a folder beside it.

Terms are written before their rows, so that a reader that sees a row finds its terms. What a writer that was killed in
between left has slots that no row ever gets; it is purged with the deleted rows.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pyarrow as pa

from cr5._typing import Ints, Mask
from cr5.index import full_text
from cr5.index.full_text import DocumentTerms, FullTextIndex, FullTextReader
from cr5.index.segments import ReopenedFolder
from cr5.index.stores.base import FullTextStats
from cr5.index.terms import TermCounts


class LanceFullText:
    """The inverted index of the rows of a table, which are identified by their slots."""

    def __init__(self, folder: Path, max_merged_size: int) -> None:
        self.folder, self._max_merged_size = folder, max_merged_size
        message = "the full text is damaged; delete this folder, and bring the index up to date with `refresh`"
        self._files = ReopenedFolder(folder / FullTextIndex.manifest_name, FullTextIndex, message)

    @property
    def next_slot(self) -> int:
        """The first slot that no row with terms has had."""
        index = self._files.get()
        return index.next_slot if index else 0

    @property
    def documents(self) -> int:
        """The number of rows that have terms, including deleted ones."""
        index = self._files.get()
        return int(index.offsets[-1]) if index else 0

    def reader(self, exists: Callable[[], Mask]) -> FullTextReader | None:
        """The terms of the rows whose slots exist; None if no row ever had terms."""
        index = self._files.get()
        return FullTextReader(index, exists()) if index else None

    def has_terms(self, slots: Ints) -> Mask:
        """Whether the rows with these slots have terms."""
        index = self._files.get()
        return np.isin(slots, index.slots) if index else np.zeros(len(slots), bool)

    def add(self, rows: pa.Table, slots: Ints, terms: TermCounts) -> None:
        """Write the terms of rows."""
        new = DocumentTerms(slots, rows["id"].to_pylist(), rows["lang"].to_pylist(), terms)
        next_slot = int(slots.max(initial=-1)) + 1
        full_text.extend(self.folder, new, next_slot, max_segment_size=self._max_merged_size)

    def merge(self, activating: Callable[[], AbstractContextManager[None]]) -> None:
        """Merge the segments that ``add`` left because they are large; others may write, except in ``activating()``."""
        staging_folder = self.folder.with_name(f"{self.folder.name}.new")
        FullTextIndex.merge_concurrently(self.folder, staging_folder, activating, full_text.MAX_SEGMENT_SIZE)

    def reserve(self, next_slot: int) -> None:
        """Make sure that new rows get slots of at least ``next_slot``, even after the rows below it are deleted."""
        if next_slot > self.next_slot:
            full_text.extend(self.folder, None, next_slot)

    def purge(self, exists: Callable[[], Mask], max_deleted_share: float) -> None:
        """Remove the terms of rows that do not exist, if there are many of them."""
        if self._files.get():
            full_text.purge(self.folder, exists(), max_deleted_share)


def full_text_stats(reader: FullTextReader | None) -> dict[str, FullTextStats]:
    """The number of rows with terms of each language, and their mean length."""
    langs = {lang: reader.language(lang) for lang in sorted(reader.langs)} if reader else {}
    return {
        lang: FullTextStats(language.documents, language.mean_length)
        for lang, language in langs.items()
        if language.documents
    }
