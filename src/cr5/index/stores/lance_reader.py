"""The reader of one version of a LanceDB table: rows by id, and the rows nearest to a vector.

Most rows of a large table are in its IVF index, which is searched approximately. The others are held in memory and
compared exactly: those that were written after the IVF index, and all rows of a small table.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cr5._typing import Ints, Mask
from cr5.index.full_text import look_up
from cr5.index.ivf import ROW_COLUMNS, IvfIndex
from cr5.index.stores.base import Floats, take_best, take_ids, to_lists, to_matrix
from cr5.retrieval import top_k

READER_COLUMNS = (*ROW_COLUMNS, "vector")  # the columns that a reader has of every row
EXCLUDED_PENALTY = 9.0  # more than two cosines can differ


class MemoryRows(NamedTuple):
    """Rows in memory, their vectors (rows x rank), and the row of each id."""

    rows: pa.Table
    vectors: Floats
    row_of: dict[str, int]

    @classmethod
    def load(cls, rows: pa.Table) -> "MemoryRows":
        """Prepare rows for searching."""
        return cls(rows, to_matrix(rows["vector"]), {key: row for row, key in enumerate(rows["id"].to_pylist())})

    def get(self, ids: Sequence[str]) -> pa.Table:
        """The rows with these ids, in the order of the ids; missing ones are left out."""
        return self.rows.take(pa.array([self.row_of[key] for key in ids if key in self.row_of], pa.int64()))

    def nearest(self, vector: Floats, k: int, langs: list[str] | None, allowed: Mask | None) -> pa.Table:
        """The k rows nearest to a vector, with their cosines; ``allowed`` are slots."""
        chosen = np.ones(self.rows.num_rows, bool)
        if langs is not None:
            chosen = np.asarray(pc.is_in(self.rows["lang"], pa.array(langs, pa.string())))
        if allowed is not None:
            chosen = chosen & look_up(allowed, self.rows["slot"].to_numpy())
        penalty = np.where(chosen, 0.0, EXCLUDED_PENALTY)
        best = top_k.nearest(vector[None], self.vectors, min(k, int(chosen.sum())), penalty=penalty)
        return take_best(self.rows.take(best.indices[0]), best.scores[0], k)


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
            return self.recent.nearest(vector, k, langs, allowed)
        rows, cosines = self.ivf.nearest(vector, k, langs, self.live, allowed=allowed)
        indexed = self._take_indexed(rows, columns)
        if not self.recent.rows.num_rows:
            return take_best(indexed, cosines, k)
        recent = self.recent.nearest(vector, k, langs, allowed)
        return take_best(_concatenate(indexed, recent), np.concatenate([cosines, recent["cosine"].to_numpy()]), k)

    def get(self, ids: Sequence[str], columns: Collection[str]) -> pa.Table:
        """The rows with these ids, in the order of the ids; columns as in ``nearest``."""
        if self.ivf is None:
            return self.recent.get(ids)
        rows = self.ivf.find(ids)
        return take_ids(_concatenate(self._take_indexed(rows[self.live[rows]], columns), self.recent.get(ids)), ids)

    def _take_indexed(self, rows: Ints, columns: Collection[str]) -> pa.Table:
        assert self.ivf is not None
        table = self.ivf.take(rows, [name for name in ROW_COLUMNS if name in {"id", "row", "slot", *columns}])
        if "vector" in columns:
            table = table.append_column("vector", to_lists(self.ivf.vectors(rows)))
        return update_hubness(table, self.hubness) if "hubness" in columns else table


def update_hubness(table: pa.Table, hubness: Floats) -> pa.Table:
    """Replace the hubness of rows by that of their slots (slots x languages), unless it is NaN."""
    slots = table["slot"].to_numpy()
    rows = np.flatnonzero(slots < len(hubness))
    rows = rows[~np.isnan(hubness[slots[rows], 0])]
    if not len(rows):
        return table
    values = to_matrix(table["hubness"]).copy()
    values[rows] = hubness[slots[rows]]
    column = table.schema.get_field_index("hubness")
    return table.set_column(column, table.schema.field(column), to_lists(values))


def _concatenate(indexed: pa.Table, recent: pa.Table) -> pa.Table:
    """Rows of both kinds, with the columns of the first."""
    return pa.concat_tables([indexed, recent.select(indexed.column_names).cast(indexed.schema)])
