"""The reader of one version of a LanceDB table: rows by id, and the rows nearest to a vector.

Most rows of a large table are in its IVF index, which is searched approximately. The others are held in memory and
compared exactly: those that were written after the IVF index, and all rows of a small table.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from cr5._typing import Ints, Mask
from cr5.index.ivf import ROW_COLUMNS, IvfIndex
from cr5.index.segments import slots_exist
from cr5.index.stores.base import CandidateRows
from cr5.index.stores.rows import Floats, take_best, take_ids, to_lists, to_matrix
from cr5.index.strings import Strings

READER_COLUMNS = (*ROW_COLUMNS, "vector")  # columns that a reader loads for every row
MAX_CACHED_IDS = 200_000  # ids whose rows a reader caches
MAX_LANGUAGE_SETS = 64  # sets of languages whose rows a reader remembers
MAX_KEPT_BYTES = 2**24  # size of a table's texts up to which they are also kept as strings


@dataclass(frozen=True)
class MemoryRows:
    """Rows in memory, their vectors (rows x rank), and the row of each id."""

    rows: pa.Table
    vectors: Floats
    row_of: dict[str, int]

    @classmethod
    def load(cls, rows: pa.Table) -> "MemoryRows":
        """Prepare rows for searching."""
        return cls(rows, to_matrix(rows["vector"]), {key: row for row, key in enumerate(rows["id"].to_pylist())})

    @cached_property
    def langs(self) -> list[str]:
        """The language of each row."""
        langs: list[str] = self.rows["lang"].to_pylist()
        return langs

    @cached_property
    def hubness(self) -> Floats:
        """The hubness of each row (rows x languages)."""
        return to_matrix(self.rows["hubness"])

    @cached_property
    def ids(self) -> list[str]:
        """The id of each row."""
        return list(self.row_of)

    @cached_property
    def columns(self) -> frozenset[str]:
        """The names of the columns."""
        return frozenset(self.rows.column_names)

    @cached_property
    def _strings(self) -> dict[str, Callable[[Ints], list[str]]]:
        return {}

    def strings(self, rows: Ints, name: str) -> list[str]:
        """A column of strings of some rows."""
        take = self._strings.get(name)
        if take is None:
            column = self.rows[name].combine_chunks()
            strings = Strings(column, keeps=name != "text" or column.nbytes <= MAX_KEPT_BYTES)
            take = self._strings[name] = (
                (lambda rows: list(column.take(rows).to_pylist())) if column.null_count else strings.take
            )
        return take(rows)

    @cached_property
    def _masks(self) -> dict[str, Mask]:
        """Whether each row is in a language."""
        numbers = {lang: number for number, lang in enumerate(dict.fromkeys(self.langs))}
        of_rows = np.array([numbers[lang] for lang in self.langs], np.int64)
        return {lang: of_rows == number for lang, number in numbers.items()}

    @cached_property
    def _recent_rows_in(self) -> dict[tuple[str, ...] | None, tuple[Mask, int]]:
        return {}

    def _rows_in(self, langs: Sequence[str] | None) -> tuple[Mask, int]:
        """Whether each row is in one of some languages, and the number of those that are; not to be changed."""
        recent, key = self._recent_rows_in, None if langs is None else tuple(langs)
        found = recent.get(key)
        if found is None:
            mask = np.full(len(self.vectors), langs is None)
            for lang in langs or ():
                mask |= self._masks.get(lang, False)
            found = mask, int(mask.sum())
            if len(recent) >= MAX_LANGUAGE_SETS:
                recent.clear()
            recent[key] = found
        return found

    def get(self, ids: Sequence[str], columns: Collection[str]) -> pa.Table:
        """Columns of the rows with these ids, in the order of the ids; missing ones are left out."""
        rows = pa.array([self.row_of[key] for key in ids if key in self.row_of], pa.int64())
        return self._select(columns).take(rows)

    def nearest(
        self, vector: Floats, k: int, langs: list[str] | None, columns: Collection[str], allowed: Mask | None
    ) -> pa.Table:
        """Columns of the k rows nearest to a vector, with their cosines; ``allowed`` are slots."""
        best, cosines = self.nearest_rows(vector, k, langs, allowed)
        return take_best(self._select(columns).take(best), cosines, k)

    def nearest_rows(
        self, vector: Floats, k: int, langs: list[str] | None, allowed: Mask | None
    ) -> tuple[Ints, Floats]:
        """The k rows nearest to a vector, best first, and their cosines."""
        from cr5.retrieval.kernels import keep_nearest

        is_allowed, number = self._rows_in(langs)
        if allowed is not None:
            is_allowed = is_allowed & slots_exist(allowed, self.rows["slot"].to_numpy())
            number = int(is_allowed.sum())
        k = min(k, number)
        best, cosines = np.full(k, len(is_allowed)), np.full(k, -np.inf, np.float32)
        if k:
            keep_nearest(self.vectors, vector, is_allowed, cosines, best)
        order = np.lexsort((best, -cosines))
        return best[order], cosines[order]

    def _select(self, columns: Collection[str]) -> pa.Table:
        """The existing ones of these columns, and the columns needed to look up the rest."""
        kept = {"id", "slot", "row", *columns}
        return self.rows.select([name for name in self.rows.column_names if name in kept])


class TableReader(NamedTuple):
    """The rows of an IVF index, of which the ``live`` ones still exist, and the ``recent`` rows that are not in it.

    ``hubness`` (slots x languages) has the values that were set after the rows were written, NaN elsewhere. Rows are
    numbered: those of the IVF index, then the recent ones. ``row_cache`` has the rows of some ids; every access is
    atomic.
    """

    ivf: IvfIndex | None
    live: Mask
    recent: MemoryRows
    hubness: Floats
    row_cache: dict[str, int]

    def rows_of(self, ids: Sequence[str]) -> Ints:
        """The row of each id, -1 for those that do not exist."""
        recent_row_of, cached, first = self.recent.row_of, self.row_cache, len(self.live)
        if self.ivf is None:
            return np.array([recent_row_of.get(key, -1) for key in ids], np.int64)
        rows = [first + recent_row_of[key] if key in recent_row_of else cached.get(key, -1) for key in ids]
        lacking = [i for i, row in enumerate(rows) if row < 0]
        if lacking:
            found = self.ivf.find([ids[i] for i in lacking])
            found = found[self.live[found]]
            row_of = dict(zip(self.ivf.strings(found, "id"), found.tolist(), strict=True))
            for i in lacking:
                rows[i] = row_of.get(ids[i], -1)
            self._remember(row_of)
        return np.array(rows, np.int64)

    def remember_slots(self, ids: Sequence[str], slots: Ints) -> None:
        """Remember the rows of ids whose slots are known, so that they need not be looked up."""
        if self.ivf is None:
            return
        known = slots < self.ivf.next_slot
        rows = np.where(known, self.ivf.row_of_slot[np.where(known, slots, 0)], -1)
        rows[rows >= 0] = np.where(self.live[rows[rows >= 0]], rows[rows >= 0], -1)
        self._remember({key: row for key, row in zip(ids, rows.tolist(), strict=True) if row >= 0})

    def _remember(self, row_of: dict[str, int]) -> None:
        if len(self.row_cache) > MAX_CACHED_IDS:
            self.row_cache.clear()
        self.row_cache.update(row_of)

    def count_by_language(self) -> dict[str, int]:
        """The number of rows of each language."""
        counts = Counter(self.recent.langs)
        if self.ivf is not None:
            counts.update(self.ivf.count(self.live))
        return dict(sorted((lang, number) for lang, number in counts.items() if number))

    def records(self, ids: Sequence[str], columns: Sequence[str]) -> list[dict[str, Any]] | None:
        """Columns of strings and texts of the rows with these ids, in their order; None if the reader lacks some."""
        if not self.recent.columns.issuperset(columns) or (self.ivf is not None and not self.ivf.has(columns)):
            return None
        if self.ivf is None:
            recent = self.rows_of(ids)
            recent = recent[recent >= 0]
            return _records(columns, [self.recent.strings(recent, name) for name in columns])
        rows = self.rows_of(ids)
        rows = rows[rows >= 0]
        indexed, first = rows[rows < len(self.live)], len(self.live)
        recent = rows[rows >= first] - first
        values = []
        for name in columns:
            found = self.ivf.strings(indexed, name)
            if len(recent):
                found = _interleave(rows < first, found, self.recent.strings(recent, name))
            values.append(found)
        return _records(columns, values)

    def nearest_candidates(
        self, vector: Floats, k: int, langs: list[str] | None, allowed: Mask | None
    ) -> tuple[CandidateRows, Floats]:
        """As ``nearest``: the columns that ranking needs of the rows, best first, and their cosines."""
        recent, recent_cosines = self.recent.nearest_rows(vector, k, langs, allowed)
        rows, cosines = len(self.live) + recent, recent_cosines
        if self.ivf is not None:
            indexed, indexed_cosines = self.ivf.nearest(vector, k, langs, self.live, allowed=allowed)
            rows, cosines = np.concatenate([indexed, rows]), np.concatenate([indexed_cosines, cosines])
            if len(recent):
                best = np.argsort(-cosines, kind="stable")[:k]
                rows, cosines = rows[best], cosines[best]
        found = self._candidates(rows, None)
        if self.ivf is not None:
            known = zip(found.ids, rows.tolist(), strict=True)
            self._remember({key: row for key, row in known if row < len(self.live)})
        return found, cosines

    def nearest(
        self, vector: Floats, k: int, langs: list[str] | None, columns: Collection[str], allowed: Mask | None = None
    ) -> pa.Table:
        """Approximately the k rows nearest to a vector, best first, with their cosines; ``allowed`` are slots.

        The table has those of ``columns`` that the reader has, and "id" and "row" to read the others by.
        """
        if self.ivf is None:
            return self.recent.nearest(vector, k, langs, columns, allowed)
        rows, cosines = self.ivf.nearest(vector, k, langs, self.live, allowed=allowed)
        indexed = self._take_indexed(rows, columns)
        if not self.recent.rows.num_rows:
            return take_best(indexed, cosines, k)
        recent = self.recent.nearest(vector, k, langs, columns, allowed)
        return take_best(_concatenate(indexed, recent), np.concatenate([cosines, recent["cosine"].to_numpy()]), k)

    def get(self, ids: Sequence[str], columns: Collection[str]) -> pa.Table:
        """The rows with these ids, in the order of the ids; columns as in ``nearest``."""
        if self.ivf is None:
            return self.recent.get(ids, columns)
        rows = self.ivf.find(ids)
        indexed, recent = self._take_indexed(rows[self.live[rows]], columns), self.recent.get(ids, columns)
        return take_ids(_concatenate(indexed, recent), ids)

    def candidates(self, ids: Sequence[str]) -> CandidateRows:
        """The columns that ranking needs of the rows with these ids, in this order; missing ones are left out."""
        rows = self.rows_of(ids)
        exists = rows >= 0
        found = ids if exists.all() else [key for key, row in zip(ids, rows.tolist(), strict=True) if row >= 0]
        return self._candidates(rows[exists], list(found))

    def _candidates(self, rows: Ints, ids: list[str] | None) -> CandidateRows:
        """The columns that ranking needs of some rows; their ids are read unless they are known."""
        first, recent = len(self.live), self.recent
        if self.ivf is None or (rows >= first).all():
            rows = rows - first
            numbers: list[int] = rows.tolist()
            ids, langs = ids or [*map(recent.ids.__getitem__, numbers)], [*map(recent.langs.__getitem__, numbers)]
            return CandidateRows(ids, langs, recent.vectors.take(rows, axis=0), recent.hubness.take(rows, axis=0))
        is_indexed = rows < first
        indexed = rows[is_indexed]
        hubness = newest_hubness(self.ivf.hubness(indexed), self.ivf.slots[indexed], self.hubness)
        indexed_ids = self.ivf.strings(indexed, "id") if ids is None else [""] * len(indexed)
        found = CandidateRows(indexed_ids, self.ivf.row_langs(indexed), self.ivf.vectors(indexed), hubness)
        if not is_indexed.all():
            others = self._candidates(rows[~is_indexed], None)
            order = np.argsort(np.argsort(~is_indexed, kind="stable"))
            found = CandidateRows(
                _interleave(is_indexed, found.ids, others.ids),
                _interleave(is_indexed, found.langs, others.langs),
                np.concatenate([found.vectors, others.vectors])[order],
                np.concatenate([found.hubness, others.hubness])[order],
            )
        return found if ids is None else found._replace(ids=ids)

    def _take_indexed(self, rows: Ints, columns: Collection[str]) -> pa.Table:
        assert self.ivf is not None
        table = self.ivf.take(rows, [name for name in ROW_COLUMNS if name in {"id", "row", "slot", *columns}])
        if "vector" in columns:
            table = table.append_column("vector", to_lists(self.ivf.vectors(rows)))
        return update_hubness(table, self.hubness) if "hubness" in columns else table


def update_hubness(table: pa.Table, hubness: Floats) -> pa.Table:
    """Replace the hubness of rows by that of their slots (slots x languages), unless it is NaN."""
    values, column = to_matrix(table["hubness"]), table.schema.get_field_index("hubness")
    newest = newest_hubness(values, table["slot"].to_numpy(), hubness)
    return table if newest is values else table.set_column(column, table.schema.field(column), to_lists(newest))


def newest_hubness(written: Floats, slots: Ints, hubness: Floats) -> Floats:
    """The hubness that was written with rows (rows x languages), or that of their slots unless it is NaN."""
    rows = np.flatnonzero(slots < len(hubness))
    rows = rows[~np.isnan(hubness[slots[rows], 0])]
    if not len(rows):
        return written
    newest = written.copy()
    newest[rows] = hubness[slots[rows]]
    return newest


def _records(columns: Sequence[str], values: Sequence[Sequence[str]]) -> list[dict[str, str]]:
    """Rows as dicts, from their columns."""
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]


def _interleave(is_first: Mask, first: Sequence[Any], second: Sequence[Any]) -> list[Any]:
    """Values of two kinds of rows in one list; ``is_first`` says of which kind each row is."""
    both = iter(first), iter(second)
    return [next(both[0] if of_first else both[1]) for of_first in is_first.tolist()]


def _concatenate(indexed: pa.Table, recent: pa.Table) -> pa.Table:
    """Rows of both kinds, with the columns of the first."""
    return pa.concat_tables([indexed, recent.select(indexed.column_names).cast(indexed.schema)])
