"""Reading a LanceDB table: its rows in batches, the slots of all rows, and the rows nearest to a vector."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cr5._typing import Ints, Mask
from cr5.index.full_text import look_up
from cr5.index.stores.base import Floats, take_best, to_matrix

READ_BATCH_ROWS = 2**14  # with vectors
SCAN_BATCH_ROWS = 2**16  # for columns of short values
EXTRA_FIELDS = [pa.field("slot", pa.int64()), pa.field("row", pa.uint64())]


def read_rows(table: Any, slot: int, columns: Sequence[str]) -> Iterator[pa.Table]:
    """The rows of a table from a slot on; "row" is LanceDB's row id."""
    search = table.search().select([name for name in columns if name != "row"]).with_row_id(True)
    for batch in search.where(f"slot >= {slot}").to_batches(batch_size=READ_BATCH_ROWS):
        rows = pa.Table.from_batches([batch])
        yield rows.rename_columns(["row" if name == "_rowid" else name for name in rows.column_names]).select(columns)


def read_slots(table: Any) -> Iterator[Ints]:
    """The slots of all rows."""
    for batch in table.search().select(["slot"]).to_batches(batch_size=SCAN_BATCH_ROWS):
        yield batch["slot"].to_numpy()


def existing_slots(table: Any) -> Mask:
    """True at the slots of all rows."""
    slots = np.concatenate([np.empty(0, np.int64), *read_slots(table)])
    exists = np.zeros(int(slots.max(initial=-1)) + 1, bool)
    exists[slots] = True
    return exists


def nearest_allowed(table: Any, vector: Floats, k: int, langs: list[str] | None, allowed: Mask) -> pa.Table:
    """The k rows nearest to a vector whose slots are allowed, by comparing all of them: "id", "slot" and "row"."""
    schema = pa.schema([pa.field("id", pa.string()), *EXTRA_FIELDS])
    best = take_best(schema.empty_table(), np.empty(0, np.float32), k)
    for rows in read_rows(table, 0, ("id", "slot", "row", "lang", "vector")):
        chosen = look_up(allowed, rows["slot"].to_numpy())
        if langs is not None:
            chosen = chosen & np.asarray(pc.is_in(rows["lang"], pa.array(langs, pa.string())))
        rows = rows.filter(pa.array(chosen))
        cosines = np.concatenate([best["cosine"].to_numpy(), to_matrix(rows["vector"]) @ vector])
        both = pa.concat_tables([best.drop_columns(["cosine"]), rows.select(schema.names).cast(schema)])
        best = take_best(both, cosines, k)
    return best
