"""A view: the rows of a store at one moment, and which of them lie nearest to a vector.

Most rows of a large table are in cells, which are searched approximately. The others are held in memory and compared
one by one: those that came after the cells were built, and of a small table all.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cr5._typing import Ints, Mask
from cr5.index.ivf import KEPT, Cells
from cr5.index.stores.base import Floats, best_first, in_order, lists, matrix, storable
from cr5.retrieval import top_k

AT_HAND = (*KEPT, "vector")  # columns that a view has of every row


class Held(NamedTuple):
    """Rows in memory, their vectors (rows x rank), and which row an id has."""

    rows: pa.Table
    vectors: Floats
    place: dict[str, int]

    @classmethod
    def of(cls, rows: pa.Table) -> "Held":
        """Hold rows."""
        return cls(rows, matrix(rows["vector"]), {name: row for row, name in enumerate(rows["id"].to_pylist())})

    def get(self, ids: Sequence[str]) -> pa.Table:
        """The rows of ids in their order, without those that are missing."""
        return self.rows.take(pa.array([self.place[name] for name in ids if name in self.place], pa.int64()))

    def nearest(self, vector: Floats, k: int, langs: Collection[str] | None) -> pa.Table:
        """The k rows nearest to a vector, with their cosines."""
        allowed = np.ones(self.rows.num_rows, bool)
        if langs is not None:
            allowed = np.asarray(pc.is_in(self.rows["lang"], pa.array(storable(langs), pa.string())))
        penalty = np.where(allowed, 0.0, 9.0)
        best = top_k.nearest(vector[None], self.vectors, min(k, int(allowed.sum())), penalty=penalty)
        return best_first(self.rows.take(best.indices[0]), best.scores[0], k)


class View(NamedTuple):
    """Rows in cells, those of them that are still ``alive``, and the ``others``; ``fresh`` is hubness by slot."""

    cells: Cells | None
    alive: Mask
    others: Held
    fresh: Floats

    def nearest(self, vector: Floats, k: int, langs: Collection[str] | None, columns: Collection[str]) -> pa.Table:
        """Rows that are likely the k nearest to a vector, best first, with their cosines.

        Of the columns that are asked for, those at hand; and what the others can be fetched by.
        """
        if self.cells is None:
            return self.others.nearest(vector, k, langs)
        rows, cosines = self.cells.nearest(vector, k, langs, self.alive)
        found = self._of_cells(rows, columns)
        if not self.others.rows.num_rows:
            return best_first(found, cosines, k)
        others = self.others.nearest(vector, k, langs)
        return best_first(_joined(found, others), np.concatenate([cosines, others["cosine"].to_numpy()]), k)

    def get(self, ids: Sequence[str], columns: Collection[str]) -> pa.Table:
        """Documents in the order asked, without those that are missing; columns as with ``nearest``."""
        if self.cells is None:
            return self.others.get(ids)
        rows = self.cells.find(ids)
        return in_order(_joined(self._of_cells(rows[self.alive[rows]], columns), self.others.get(ids)), ids)

    def _of_cells(self, rows: Ints, columns: Collection[str]) -> pa.Table:
        assert self.cells is not None
        table = self.cells.take(rows, [name for name in KEPT if name in {"id", "row", "slot", *columns}])
        if "vector" in columns:
            table = table.append_column("vector", lists(self.cells.vectors(rows)))
        return renewed(table, self.fresh) if "hubness" in columns else table


def renewed(table: pa.Table, fresh: Floats) -> pa.Table:
    """Rows with the newest hubness: that of their slot, where it is a number."""
    slots = table["slot"].to_numpy()
    rows = np.flatnonzero(slots < len(fresh))
    rows = rows[~np.isnan(fresh[slots[rows], 0])]
    if not len(rows):
        return table
    values = matrix(table["hubness"]).copy()
    values[rows] = fresh[slots[rows]]
    return table.set_column(table.schema.get_field_index("hubness"), "hubness", lists(values))


def _joined(rows: pa.Table, others: pa.Table) -> pa.Table:
    """Rows, and others that are kept in another way, with the columns of the former."""
    return pa.concat_tables([rows, others.select(rows.column_names).cast(rows.schema)])
