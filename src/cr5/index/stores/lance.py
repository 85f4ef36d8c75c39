"""The store in a folder: a LanceDB table, an IVF index of its vectors, an inverted index of its terms, and the hubness.

LanceDB keeps the rows: every writing call makes one new version of the table, completely or not at all. Every written
row gets a slot, a number that is never reused. Beside the table are files that can be rebuilt from the rows:

- ``cells``: the IVF index of all rows below some slot, with their titles and compressed texts, so that a search reads
  nothing from the table.
- ``words``: the inverted index of the terms of all rows that have terms.
- ``hubness.npy``: refreshed hubness by slot, which takes precedence over the hubness in the table.

Writers wait for each other at a lock file; readers use the newest version and never wait. ``optimise`` holds that lock
only to activate files: it compacts the table, merges files and trains the IVF index while others write.
"""

import importlib
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cr5.corpus.fields import FIELDS, NO_FIELDS
from cr5.errors import Cr5Error
from cr5.index import ivf
from cr5.index.filters import Filter, Where
from cr5.index.ivf import IvfIndex
from cr5.index.stores.base import FOLDER_ADDRESS, CandidateRows, FullTextStats, Location, Restriction, write_header
from cr5.index.stores.lance_full_text import full_text_stats
from cr5.index.stores.lance_reader import update_hubness
from cr5.index.stores.lance_table import (
    SCAN_BATCH_ROWS,
    existing_slots,
    folder_bytes,
    import_lancedb,
    nearest_allowed,
    read_rows,
    read_slots,
)
from cr5.index.stores.lance_versions import (
    HUBNESS_FILE,
    IVF_FOLDER,
    LOCK_FILE,
    OPTIMISE_LOCK,
    TABLE,
    LanceLimits,
    LanceReading,
)
from cr5.index.stores.rows import Floats, make_schema, take_best, valid_keys
from cr5.index.terms import QueryKeys, TermCounts
from cr5.retrieval.word_forms import LanguageForms, TermDictionary
from cr5.storage.array_files import write_array
from cr5.storage.atomic import atomic_write, discard
from cr5.storage.locks import locked

if TYPE_CHECKING:
    from lancedb.expr import Expr

COMMIT_CONFLICT = "commit conflict"  # in the message of the only type of error that LanceDB has


class LanceStore(LanceReading):
    """Documents in a folder."""

    label = "LanceDB"

    @classmethod
    def accepts(cls, address: str) -> bool:
        return address == FOLDER_ADDRESS

    @classmethod
    def create(
        cls, location: Location, *, rank: int, language_count: int, limits: LanceLimits | None = None
    ) -> "LanceStore":
        """Create an empty store in a folder, which may hold other files."""
        lancedb, columns, folder = import_lancedb(), make_schema(rank, language_count), location.folder
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder / LOCK_FILE):
            if (folder / f"{TABLE}.lance").exists():
                raise Cr5Error(f"{folder}: there is an index already; open it, or delete the folder")
            columns = columns.append(pa.field("slot", pa.int64(), nullable=False))
            columns = columns.with_metadata({"cr5": write_header(rank, language_count)})
            stable = {"new_table_enable_stable_row_ids": "true"}  # the IVF index refers to rows by their ids
            table = lancedb.connect(folder).create_table(TABLE, schema=columns, storage_options=stable)
            _create_indexes(table)
        return cls.open(location, limits=limits)

    @classmethod
    def open(cls, location: Location, *, rank: int | None = None, limits: LanceLimits | None = None) -> "LanceStore":
        lancedb, folder = import_lancedb(), location.folder
        if not (folder / f"{TABLE}.lance").is_dir():
            raise Cr5Error(f"{folder}: there is no index; check the path, or build the index first")
        return cls(folder, lancedb, rank, limits or LanceLimits())

    def __repr__(self) -> str:
        return f"LanceStore({str(self.folder)!r})"

    def _upsert(self, table: pa.Table, terms: TermCounts | None) -> None:
        with self._writing():
            first = self._unused_slot()
            slots = np.arange(first, first + table.num_rows)
            if terms is not None:
                self._full_text.add(table, slots, terms)
            table = table.append_column(pa.field("slot", pa.int64(), nullable=False), pa.array(slots))
            merge = self._table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
            done = merge.execute(table)
            self._next_slot = (done.version, first + table.num_rows)
            index = self._ivf.get()
            if index and self._next_slot[1] - index.next_slot > self.limits.max_unindexed_rows:
                self._extend_ivf(index.next_slot, self._next_slot[1])

    def _delete(self, keys: list[str]) -> int:
        with self._writing():
            slots = self._read_ids(keys, ["slot"])["slot"].to_numpy()
            self._full_text.reserve(int(slots.max(initial=-1)) + 1)
            return int(self._table.delete(self._is_in("id", keys)).num_deleted_rows)

    def candidates(self, ids: Sequence[str]) -> CandidateRows:
        reader, _ = self._newest_reader()
        return super().candidates(ids) if reader is None else reader.candidates(ids)

    def records(self, ids: Sequence[str], columns: Sequence[str]) -> list[dict[str, Any]]:
        reader, _ = self._newest_reader()
        found = None if reader is None else reader.records(ids, columns)
        return super().records(ids, columns) if found is None else found

    def nearest_candidates(
        self, vector: Floats, k: int, *, langs: Collection[str] | None = None, where: Where | None = None
    ) -> tuple[CandidateRows, Floats]:
        reader, version = self._newest_reader()
        if reader is None:
            return super().nearest_candidates(vector, k, langs=langs, where=where)
        [checked], (keys, parsed) = self._checked_vectors(vector[None], k), self._restriction(langs, where)
        return reader.nearest_candidates(checked, k, keys, self._masks.get(parsed, version) if parsed else None)

    def _get(self, ids: Sequence[str], columns: list[str]) -> pa.Table:
        reader, _ = self._newest_reader()
        if reader is None:
            return super()._get(ids, columns)
        return self._add_columns(reader.get(ids, columns), columns).select(columns)

    def count(self) -> dict[str, int]:
        reader = self._newest_reader()[0] if self._ivf.get() is not None else None
        if reader is not None:
            return reader.count_by_language()
        counts: dict[str, int] = {}
        for batch in self._table.search().select(["lang"]).to_batches(batch_size=SCAN_BATCH_ROWS):
            for pair in pc.value_counts(batch["lang"]).to_pylist():
                counts[pair["values"]] = counts.get(pair["values"], 0) + pair["counts"]
        return dict(sorted(counts.items()))

    def _scan(self, columns: list[str], restriction: Restriction, batch_rows: int) -> Iterator[pa.RecordBatch]:
        langs, where = restriction
        search = self._table.search().select(_with_slot([*columns, *([FIELDS] if where else [])]))
        if langs is not None:
            search = search.where(self._is_in("lang", langs))
        # Both are read as of now, not when the first batch is requested.
        hubness, batches = self._read_hubness(), search.to_batches(batch_size=batch_rows)
        if where:
            batches = (batch.filter(pa.array(where.mask(batch[FIELDS].to_pylist()))) for batch in batches)
        return (part for batch in batches for part in self._select(batch, columns, hubness).to_batches(batch_rows))

    def _set_hubness(self, batches: Iterable[tuple[list[str], Floats]]) -> None:
        with self._writing():
            hubness, has_new = np.array(self._read_hubness()), False
            for keys, values in batches:
                existing = self._read_ids(keys, ["id", "slot"])
                row_of = {key: row for row, key in enumerate(keys)}
                rows = np.array([row_of[key] for key in existing["id"].to_pylist()], np.int64)
                slots = existing["slot"].to_numpy()
                lacking = int(slots.max(initial=-1)) + 1 - len(hubness)
                if lacking > 0:  # twice as many at once, so that many batches take linear time
                    more = np.full((max(lacking, len(hubness)), self.language_count), np.nan, np.float32)
                    hubness = np.concatenate([hubness, more])
                hubness[slots], has_new = values[rows], True
            if has_new:
                used = int(np.flatnonzero(~np.isnan(hubness[:, 0])).max(initial=-1)) + 1
                path = self.folder / HUBNESS_FILE
                with atomic_write(path, temporary=path.with_suffix(".part")) as file:
                    write_array(file, hubness[:used])

    def _nearest(
        self, vectors: Floats, k: int, restriction: Restriction, columns: list[str], exact: bool
    ) -> list[pa.Table]:
        (reader, version), results, (langs, where) = self._newest_reader(), [], restriction
        allowed = self._masks.get(where, version) if where else None
        for vector in vectors:  # one by one, so that a result does not depend on the other queries of the call
            if reader is not None and (reader.ivf is None or not exact):
                rows = self._add_columns(reader.nearest(vector, k, langs, columns, allowed), columns)
            elif allowed is None:
                rows = self._nearest_exact(vector, k, langs, columns)
            else:
                found = nearest_allowed(self._open_version(version), vector, k, langs, allowed)
                rows = self._add_columns(found, columns)
            results.append(rows.select([*columns, "cosine"]))
        return results

    def _search_terms(self, words: QueryKeys, lang: str, k: int, columns: list[str], where: Filter | None) -> pa.Table:
        reader, version = self._newest_full_text()
        ids, scores = list[str](), np.empty(0, np.float32)
        if reader:
            ids, scores = reader.search(words, lang, k, self._masks.get(where, version) if where else None)
        rows = self._get(ids, list(dict.fromkeys([*columns, "id"])))
        score_of = dict(zip(ids, scores, strict=True))  # rows that have been deleted meanwhile are left out
        scores = np.array([score_of[document_id] for document_id in rows["id"].to_pylist()], np.float32)
        return rows.select(columns).append_column("bm25", pa.array(scores))

    def _search_term_ids(self, words: QueryKeys, lang: str, k: int, where: Filter | None) -> dict[str, float]:
        words_reader, version = self._newest_full_text()
        if words_reader is None:
            return {}
        allowed = self._masks.get(where, version) if where else None
        documents, scores = words_reader.search_documents(words, lang, k, allowed)
        if not len(documents):
            return {}
        ids, slots = words_reader.ids_and_slots(documents)
        reader, _ = self._newest_reader()
        if reader is not None:
            reader.remember_slots(ids, slots)
        return dict(zip(ids, scores.tolist(), strict=True))

    def _document_frequencies(self, terms: list[str], lang: str) -> list[int]:
        reader, _ = self._newest_full_text()
        return reader.term_frequencies(terms, lang) if reader else [0] * len(terms)

    def term_dictionaries(self, lang: str) -> list[TermDictionary]:
        reader, _ = self._newest_full_text()
        return reader.term_dictionaries(lang) if reader else []

    def inverse_document_frequencies(self, terms: Collection[str], lang: str) -> dict[str, float]:
        reader, _ = self._newest_full_text()
        if reader is None or not valid_keys([lang]):
            return super().inverse_document_frequencies(terms, lang)
        return reader.inverse_document_frequencies(terms, lang)

    def word_forms(self, lang: str) -> LanguageForms:
        reader, _ = self._newest_full_text()
        return reader.word_forms(lang) if reader else LanguageForms([])

    def full_text_stats(self) -> dict[str, FullTextStats]:
        return full_text_stats(self._newest_full_text()[0])

    def _documents_with_terms(self, lang: str) -> int:
        reader, _ = self._newest_full_text()
        return reader.language(lang).documents if reader else 0

    def ids_without_terms(self) -> list[str]:
        ids: list[str] = []
        for batch in self._table.search().select(["id", "slot"]).to_batches(batch_size=SCAN_BATCH_ROWS):
            lacking = ~self._full_text.has_terms(batch["slot"].to_numpy())
            ids += batch["id"].filter(pa.array(lacking)).to_pylist()
        return ids

    def _add_terms(self, keys: list[str], terms: TermCounts) -> None:
        with self._writing():
            rows, row_of = self._read_ids(keys, ["id", "lang", "slot"]), {key: row for row, key in enumerate(keys)}
            rows = rows.filter(pa.array(~self._full_text.has_terms(rows["slot"].to_numpy())))
            numbers = np.array([row_of[key] for key in rows["id"].to_pylist()], np.int64)
            if len(numbers):
                self._full_text.add(rows, rows["slot"].to_numpy(), terms.select_rows(numbers))

    def has_fields(self) -> bool:
        self._has_fields = self._has_fields or FIELDS in self._table.schema.names
        return self._has_fields

    def has_match(self, where: Filter) -> bool:
        return self.has_fields() and bool(self._masks.get(where, self._newest_reader()[1]).any())

    def add_fields(self) -> None:
        with self._writing():
            if not self.has_fields():
                self._table.add_columns({FIELDS: f"'{NO_FIELDS}'"})

    def optimise(self) -> None:
        """As in the base class. While files are merged and the IVF index is built, others may write."""
        with locked(self.folder / OPTIMISE_LOCK):
            self._compact()
            with self._writing():
                rows, next_slot = self._table.count_rows(), self._unused_slot()
                version = int(self._table.version)
                self._next_slot = (version, next_slot)  # the rows keep their slots
                self._purge(rows)
            self._full_text.merge(self._writing)
            if rows < self.limits.ann_min_rows:
                return
            index = self._ivf.get()
            if index is None or self._needs_training(index, rows):
                self._build_ivf(version, rows, next_slot)
            with self._writing():
                index, next_slot = self._ivf.get(), self._unused_slot()
                if index and self._count_from(index.next_slot) > self.limits.max_unindexed_rows:
                    self._extend_ivf(index.next_slot, next_slot)
            staging_folder = self.folder / f"{IVF_FOLDER}.merged"
            IvfIndex.merge_concurrently(self.folder / IVF_FOLDER, staging_folder, self._writing, ivf.MAX_SEGMENT_ROWS)

    def _compact(self) -> None:
        """Merge the files of the table, or index its ids, where there are many new ones, while others write.

        If a row is replaced or deleted meanwhile, LanceDB gives up; then it is done again while writers wait.
        """
        limits = self.limits
        with self._writing():
            rows = self._table.count_rows()
            needs_compaction = self._needs_compaction(rows)
            most = max(limits.max_unindexed_rows, limits.reindexing_growth * rows)
            if not needs_compaction and self._count_unindexed_ids() <= most:
                return

        def work(table: Any) -> None:
            if needs_compaction:
                table.optimize(cleanup_older_than=limits.version_lifetime)
            else:
                _create_indexes(table)

        try:
            work(self._connection.open_table(TABLE))
        except RuntimeError as error:
            if COMMIT_CONFLICT not in str(error):
                raise
            with self._writing():
                work(self._table)

    def _purge(self, rows: int) -> None:
        """Remove the terms of deleted rows, if there are many; the table has so many rows."""
        deleted, limits = self._full_text.documents - rows, self.limits
        if deleted > limits.retrain_deleted_share * self._full_text.documents:
            self._full_text.purge(lambda: existing_slots(self._table), limits.retrain_deleted_share)

    def _build_ivf(self, version: int, rows: int, next_slot: int) -> None:
        """Train the IVF index with the rows of a version, and add those that are written meanwhile."""
        table, built = self._open_version(version), self.folder / f"{IVF_FOLDER}.new"
        if built.exists():
            discard(built)  # what a killed process left
        ivf.build(built, lambda columns: _read_rows(table, 0, columns), rows, next_slot)
        with self._writing():
            newest = self._unused_slot()
            if newest > next_slot:
                ivf.extend(built, _read_rows(self._table, next_slot, ivf.COLUMNS), newest)
            ivf.install(self.folder / IVF_FOLDER, built)

    def _stats(self) -> dict[str, Any]:
        index, rows = self._ivf.get(), self._table.count_rows()
        return {
            "rows": rows,
            "index": "cells" if index else "none",  # a name of format 1
            "unindexed": self._count_from(index.next_slot) if index else rows,
            "bytes": folder_bytes(self.folder),
        }

    def close(self) -> None:
        self._table, self._pinned = None, (None, None)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with locked(self.folder / LOCK_FILE):
            self._table.checkout_latest()
            yield

    def _is_in(self, column: str, values: Sequence[str]) -> "Expr":
        condition: Expr = self._column(column).isin(list(values))  # values are never parsed as SQL
        return condition

    def _read_ids(self, keys: list[str], columns: list[str]) -> pa.Table:
        search = self._table.search().where(self._is_in("id", keys)).select(_with_slot(columns))
        return self._select(search.to_arrow(), columns, self._read_hubness())

    def _unused_slot(self) -> int:
        """A slot such that neither it nor any later one has been in the IVF index or had terms or refreshed hubness."""
        version, slot = self._next_slot
        if version == self._table.version:
            return max(slot, self._full_text.next_slot)
        index = self._ivf.get()
        slot = max(len(self._read_hubness()), index.next_slot if index else 0, self._full_text.next_slot)
        return max([slot, *(int(slots.max()) + 1 for slots in read_slots(self._table) if len(slots))])

    def _select(self, rows: pa.Table | pa.RecordBatch, columns: list[str], hubness: Floats) -> pa.Table:
        """Columns of rows of the table, with their newest hubness."""
        table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
        return (update_hubness(table, hubness) if "hubness" in columns else table).select(columns)

    def _nearest_exact(self, vector: Floats, k: int, langs: list[str] | None, columns: list[str]) -> pa.Table:
        """The k rows nearest to a vector, by an exact search of LanceDB."""
        search = self._table.search(vector, vector_column_name="vector").distance_type("dot").limit(k)
        search = search.select([*_with_slot(columns), "_distance"])
        if langs is not None:
            search = search.where(self._is_in("lang", langs))  # applied before the k are chosen
        rows = search.to_arrow()
        return take_best(self._select(rows, columns, self._read_hubness()), 1 - rows["_distance"].to_numpy(), k)

    def _add_columns(self, rows: pa.Table, columns: Sequence[str]) -> pa.Table:
        """Add the columns that a reader does not have; rows that have been deleted meanwhile are left out."""
        missing = [name for name in columns if name not in rows.column_names]
        if not missing:
            return rows
        ids, more = rows["id"].to_pylist(), self.schema.empty_table().select(["id", *missing])
        if ids:
            taken = self._table.take_row_ids(rows["row"].to_pylist()).select(["id", *missing]).to_arrow()
            more = taken.cast(more.schema)
        if replaced := set(ids) - set(more["id"].to_pylist()):
            more = pa.concat_tables([more, self._read_ids([*replaced], ["id", *missing]).cast(more.schema)])
        row_of = {document_id: row for row, document_id in enumerate(more["id"].to_pylist())}
        existing = [row for row, document_id in enumerate(ids) if document_id in row_of]
        rows = rows.take(pa.array(existing, pa.int64()))
        more = more.take(pa.array([row_of[ids[row]] for row in existing], pa.int64()))
        for name in missing:
            rows = rows.append_column(name, more[name])
        return rows

    def _count_unindexed_ids(self) -> int:
        return int(self._table.index_stats("id_idx").num_unindexed_rows)

    def _count_from(self, slot: int) -> int:
        return int(self._table.count_rows(f"slot >= {slot}"))

    def _needs_training(self, index: IvfIndex, rows: int) -> bool:
        deleted, limits = len(index) + self._count_from(index.next_slot) - rows, self.limits
        has_grown = rows > limits.retrain_growth * index.rows_at_training
        return has_grown or deleted > limits.retrain_deleted_share * len(index)

    def _extend_ivf(self, first_slot: int, next_slot: int) -> None:
        rows = _read_rows(self._table, first_slot, ivf.COLUMNS)
        ivf.extend(self.folder / IVF_FOLDER, rows, next_slot, max_segment_rows=self.limits.max_merged_rows)

    def _needs_compaction(self, rows: int) -> bool:
        """Whether there are so many small files that they slow down reading.

        A compaction may rewrite all rows, and leaves the files before it for ``version_lifetime``. The more rows there
        are, the more files are allowed, so that the time of all compactions together is proportional to the number of
        rows. Old versions alone are a reason only when the oldest has twice that age: what a compaction has left is
        younger than its lifetime, so that the next one for this reason is a whole lifetime later.
        """
        limits = self.limits
        most_files = max(limits.max_small_files, limits.small_files_per_row * rows)
        if self._table.stats()["fragment_stats"]["num_small_fragments"] > most_files:
            return True
        times = [path.stat().st_mtime for path in (self.folder / f"{TABLE}.lance" / "_versions").iterdir()]
        lifetime = self.limits.version_lifetime.total_seconds()
        return len(times) > self.limits.max_small_files and time.time() - min(times) > 2 * lifetime


def _read_rows(table: Any, first_slot: int, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Read the existing ones of these columns, from a row id on."""
    names = {"row", *table.schema.names}
    return read_rows(table, first_slot, [name for name in columns if name in names])


def _create_indexes(table: Any) -> None:
    """Index the ids and languages of all rows, without rewriting the rows."""
    index = importlib.import_module("lancedb.index")
    table.create_index("id", config=index.BTree(), replace=True)
    table.create_index("lang", config=index.Bitmap(), replace=True)


def _with_slot(columns: list[str]) -> list[str]:
    return list(dict.fromkeys([*columns, "slot"]))
