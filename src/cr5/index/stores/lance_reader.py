"""The reader of one version of a LanceDB table: rows by id, and the rows nearest to a vector.

Most rows of a large table are in its IVF index, which is searched approximately. The others are held in memory and
compared exactly: those that were written after the IVF index, and all rows of a small table.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from cr5._typing import Ints, Mask
from cr5.index.full_text import look_up
from cr5.index.ivf import ROW_COLUMNS, IvfIndex
from cr5.index.stores.base import CandidateRows, Floats, take_best, take_ids, to_lists, to_matrix

READER_COLUMNS = (*ROW_COLUMNS, "vector")  # the columns that a reader has of every row


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
    def lang_numbers(self) -> tuple[dict[str, int], Ints]:
        """A number for each language, and those of all rows."""
        numbers = {lang: number for number, lang in enumerate(dict.fromkeys(self.langs))}
        return numbers, np.array([numbers[lang] for lang in self.langs], np.int64)

    @cached_property
    def hubness(self) -> Floats:
        """The hubness of each row (rows x languages)."""
        return to_matrix(self.rows["hubness"])

    def get(self, ids: Sequence[str], columns: Collection[str]) -> pa.Table:
        """Columns of the rows with these ids, in the order of the ids; missing ones are left out."""
        rows = pa.array([self.row_of[key] for key in ids if key in self.row_of], pa.int64())
        return self._select(columns).take(rows)

    def nearest(
        self, vector: Floats, k: int, langs: list[str] | None, columns: Collection[str], allowed: Mask | None
    ) -> pa.Table:
        """Columns of the k rows nearest to a vector, with their cosines; ``allowed`` are slots."""
        from cr5.retrieval.kernels import keep_best, multiply

        chosen = np.ones(len(self.vectors), bool)
        if langs is not None:
            numbers, of_rows = self.lang_numbers
            chosen = np.isin(np.arange(len(numbers)), [numbers[lang] for lang in langs if lang in numbers])[of_rows]
        if allowed is not None:
            chosen = chosen & look_up(allowed, self.rows["slot"].to_numpy())
        k = min(k, int(chosen.sum()))
        best, cosines = np.full(k, len(chosen)), np.full(k, -np.inf, np.float32)
        if k:
            keep_best(multiply(self.vectors, vector), chosen, cosines, best)
        order = np.lexsort((best, -cosines))
        return take_best(self._select(columns).take(best[order]), cosines[order], k)

    def _select(self, columns: Collection[str]) -> pa.Table:
        """Those of some columns that there are, and those by which a reader finds the others."""
        kept = {"id", "slot", "row", *columns}
        return self.rows.select([name for name in self.rows.column_names if name in kept])


class TableReader(NamedTuple):
    """The rows of an IVF index, of which the ``live`` ones still exist, and the ``recent`` rows beside it.

    ``hubness`` (slots x languages) has the values that were set after the rows were written, NaN elsewhere.
    """

    ivf: IvfIndex | None
    live: Mask
    recent: MemoryRows
    hubness: Floats

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
        """What ranking needs of the rows with these ids, in the order of the ids; missing ones are left out."""
        if self.ivf is None:
            return self._recent_candidates([key for key in ids if key in self.recent.row_of])
        found = self.ivf.find([key for key in ids if key not in self.recent.row_of])
        found = found[self.live[found]]
        table = self.ivf.take(found, ("id", "slot"))
        row_of = {key: row for row, key in enumerate(table["id"].to_pylist())}
        existing = [key for key in ids if key in row_of or key in self.recent.row_of]
        chosen = np.array([row_of.get(key, -1) for key in existing], np.int64)
        if (chosen < 0).all():
            return self._recent_candidates(existing)
        rows = found[chosen[chosen >= 0]]
        langs, vectors, hubness = self.ivf.row_langs(rows), self.ivf.vectors(rows), self.ivf.hubness(rows)
        slots = table["slot"].to_numpy()[chosen[chosen >= 0]]
        hubness = newest_hubness(hubness, slots, self.hubness)
        if len(rows) == len(existing):
            return CandidateRows(existing, langs, vectors, hubness)
        recent = self._recent_candidates([key for key in existing if key not in row_of])
        order = np.empty(len(existing), np.int64)
        order[chosen >= 0], order[chosen < 0] = np.arange(len(rows)), len(rows) + np.arange(len(recent.ids))
        langs = [*langs, *recent.langs]
        arrays = (np.concatenate(pair)[order] for pair in ((vectors, recent.vectors), (hubness, recent.hubness)))
        return CandidateRows(existing, [langs[i] for i in order.tolist()], *arrays)

    def _recent_candidates(self, ids: list[str]) -> CandidateRows:
        recent, rows = self.recent, [self.recent.row_of[key] for key in ids]
        return CandidateRows(ids, [recent.langs[row] for row in rows], recent.vectors[rows], recent.hubness[rows])

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


def _concatenate(indexed: pa.Table, recent: pa.Table) -> pa.Table:
    """Rows of both kinds, with the columns of the first."""
    return pa.concat_tables([indexed, recent.select(indexed.column_names).cast(indexed.schema)])
