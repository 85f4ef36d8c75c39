"""The versions of a store in a folder: which files and rows the newest one has, and readers of them.

Every search asks once for the newest version (``pinned``), and all of its reads see that version.
"""

import importlib
import threading
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from cr5.index import ivf
from cr5.index.full_text import FullTextIndex, FullTextReader
from cr5.index.ivf import IvfIndex
from cr5.index.segments import ReopenedFolder, slots_exist
from cr5.index.stores.base import ANN_MIN_ROWS, Store, read_header
from cr5.index.stores.lance_filters import SlotMasks
from cr5.index.stores.lance_full_text import LanceFullText
from cr5.index.stores.lance_reader import READER_COLUMNS, MemoryRows, TableReader, update_hubness
from cr5.index.stores.lance_table import EXTRA_FIELDS, NewestVersion, existing_slots, read_rows
from cr5.index.stores.rows import Floats
from cr5.machine.concurrency import ConcurrencyLimit
from cr5.storage.atomic import CAN_REPLACE_MAPPED_FILES, Stamp, file_stamp

Made = TypeVar("Made")

# Names of format 1:
TABLE, IVF_FOLDER, HUBNESS_FILE, LOCK_FILE = "documents", "cells", "hubness.npy", "writer.lock"
OPTIMISE_LOCK = "optimise.lock"
WORDS_FOLDER = "words"
METADATA_CACHE_BYTES, INDEX_CACHE_BYTES = 2**27, 2**28


@dataclass(frozen=True)
class LanceLimits:
    """When tables are held in memory, indexed and compacted."""

    ann_min_rows: int = ANN_MIN_ROWS
    in_memory_bytes: int = 2**26  # a table up to this size is held in memory, texts included
    max_unindexed_rows: int = 1000  # rows beside an index before they are added to it
    max_small_files: int = 32  # files, or versions of the table, before they are compacted
    small_files_per_row: float = 1 / 2000  # a large table may have this many small files per row, if that is more
    reindexing_growth: float = 1 / 4  # share of the rows that are written before the ids of a large table are indexed
    max_merged_rows: int = 2**13  # rows of the IVF index that are merged while a writer waits
    max_merged_terms: int = 2**17  # rows and postings of the full text that are merged while a writer waits
    version_lifetime: timedelta = timedelta(hours=1)  # how long a reader may use an old version
    retrain_growth: float = 2  # the IVF index is trained again when the table has grown by this factor
    retrain_deleted_share: float = 1 / 4  # and when this share of the indexed rows has been deleted


class _PinnedKey(NamedTuple):
    """The version of the table and the files beside it that a pinned store was made from."""

    version: int
    hubness: Stamp
    ivf: Stamp
    full_text: Stamp


_PinnedReaders: TypeAlias = tuple[tuple[TableReader | None, int], tuple[FullTextReader | None, int]]


class VersionedCache(Generic[Made]):
    """What was made from the newest version of a table and from some files, made again when one of them has changed."""

    def __init__(self, version: NewestVersion, files: Sequence[str], make: Callable[[int], Made]) -> None:
        self._version, self._files, self._make, self._lock = version, files, make, threading.Lock()
        self._newest: tuple[Made, int, list[Stamp]] | None = None

    def get(self) -> tuple[Made, int]:
        """What is newest now, and the version that it was made from."""
        with self._lock:
            while True:
                stamps = [*map(file_stamp, self._files)]
                version = self._version.get()
                if self._newest is not None and self._newest[1:] == (version, stamps):
                    return self._newest[0], version
                made = self._make(version)
                if stamps == [*map(file_stamp, self._files)]:  # otherwise the files may lack rows of it
                    self._newest = made, version, stamps


class LanceReading(Store):
    """The part of ``LanceStore`` that reads."""

    search_limit = ConcurrencyLimit()  # of all folders together

    def __init__(self, folder: Path, lancedb: Any, rank: int | None, limits: LanceLimits) -> None:
        self.folder, self.limits = folder, limits
        self._column = importlib.import_module("lancedb.expr").col
        session = lancedb.Session(
            metadata_cache_size_bytes=METADATA_CACHE_BYTES, index_cache_size_bytes=INDEX_CACHE_BYTES
        )
        self._connection = lancedb.connect(folder, read_consistency_interval=timedelta(0), session=session)
        self._table = self._connection.open_table(TABLE)
        header = (self._table.schema.metadata or {}).get(b"cr5", b"").decode()
        super().__init__(read_header(header, str(folder), rank))
        self._version = NewestVersion(folder / f"{TABLE}.lance", lambda: int(self._table.version))
        self._next_slot = (-1, 0)  # a version of the table, and the first slot that is unused in it
        self._pin_lock = threading.Lock()
        ivf_manifest = folder / IVF_FOLDER / IvfIndex.manifest_name
        words_manifest = folder / WORDS_FOLDER / FullTextIndex.manifest_name
        self._files = [str(path) for path in (folder / HUBNESS_FILE, ivf_manifest, words_manifest)]
        self._pinned: tuple[_PinnedKey | None, LanceReading | None] = (None, None)
        self._pinned_readers: _PinnedReaders | None = None  # of a pinned store
        self._readers = VersionedCache(self._version, self._files[:2], self._make_reader)
        self._full_text_readers = VersionedCache(self._version, self._files[2:], self._make_full_text_reader)
        self._full_text = LanceFullText(folder / WORDS_FOLDER, limits.max_merged_terms)
        self._masks, self._has_fields = SlotMasks(self._open_version), False
        self._ivf = ReopenedFolder(
            ivf_manifest,
            IvfIndex,
            "the approximate index is damaged; delete this folder, it is rebuilt when documents are added",
        )

    def pinned(self) -> "LanceReading":
        key = self._key()
        pinned_key, pinned = self._pinned
        if pinned is not None and pinned_key == key:
            return pinned
        with self._pin_lock:
            while self._pinned[1] is None or self._pinned[0] != key:
                reader, full_text = self._newest_reader(), self._newest_full_text()
                if reader[1] == full_text[1] == key.version:  # otherwise a writer has just written
                    pinned = copy(self)
                    pinned._pinned = None, None  # not holding the one before it
                    pinned._pinned_readers = reader, full_text
                    pinned._table = self._open_version(key.version)
                    self._pinned = key, pinned
                else:
                    key = self._key()
            return self._pinned[1]

    def _key(self) -> _PinnedKey:
        return _PinnedKey(self._version.get(), *map(file_stamp, self._files))

    def _newest_reader(self) -> tuple[TableReader | None, int]:
        """The reader of the newest version, None while too many rows are outside the IVF index, and the version."""
        return self._readers.get() if self._pinned_readers is None else self._pinned_readers[0]

    def _newest_full_text(self) -> tuple[FullTextReader | None, int]:
        """The reader of the terms of the newest version, None if no row ever had terms, and the version.

        The terms of a version's rows are written before it, and removed only after a newer version has replaced or
        deleted these rows. So they are complete if nothing was written while they were opened.
        """
        return self._full_text_readers.get() if self._pinned_readers is None else self._pinned_readers[1]

    def _open_version(self, version: int) -> Any:
        """The table as of a version."""
        table = self._connection.open_table(TABLE)
        table.checkout(version)
        return table

    def _make_reader(self, version: int) -> TableReader | None:
        index, hubness = self._ivf.get(), self._read_hubness()
        first_slot = index.next_slot if index else 0  # of the rows beside the IVF index
        table = self._open_version(version)
        recent = table.count_rows(f"slot >= {first_slot}")
        if recent >= self.limits.ann_min_rows:
            return None
        columns = [*READER_COLUMNS]
        if index is not None:
            columns += [name for name in ivf.TEXT_COLUMNS if name in table.schema.names]
        if index is None and table.stats()["total_bytes"] <= self.limits.in_memory_bytes:
            stored = [name for name in self.schema.names if name in table.schema.names]
            columns = list(dict.fromkeys([*READER_COLUMNS, *stored]))
        fields = {field.name: field for field in [*self.schema, *EXTRA_FIELDS]}
        empty = pa.schema([fields[name] for name in columns]).empty_table()
        rows = pa.concat_tables([empty, *(part.cast(empty.schema) for part in read_rows(table, first_slot, columns))])
        live = np.ones(len(index) if index else 0, bool)
        if index and table.count_rows() - recent < len(index):
            live = slots_exist(existing_slots(table), index.slots)
        return TableReader(index, live, MemoryRows.load(update_hubness(rows.combine_chunks(), hubness)), hubness, {})

    def _make_full_text_reader(self, version: int) -> FullTextReader | None:
        return self._full_text.reader(lambda: existing_slots(self._open_version(version)))

    def _read_hubness(self) -> Floats:
        """slots x languages: the hubness that was set after the rows were written, NaN elsewhere."""
        try:
            hubness: Floats = np.load(self.folder / HUBNESS_FILE, "r" if CAN_REPLACE_MAPPED_FILES else None)
            return hubness
        except FileNotFoundError:
            return np.empty((0, self.language_count), np.float32)
