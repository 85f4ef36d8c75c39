"""LanceDB itself, and reading its tables: rows in batches, the slots of all rows, and the rows nearest to a vector."""

import importlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cr5._typing import Ints, Mask
from cr5.errors import Cr5Error, needs_package
from cr5.index.segments import slots_exist
from cr5.index.stores.rows import Floats, take_best, to_matrix
from cr5.storage.atomic import Stamp, file_stamp

TRUSTED_AGE_SECONDS = 0.1  # a folder that changed more recently may change again within the same clock tick
READ_BATCH_ROWS = 2**14  # batch size for rows with vectors
SCAN_BATCH_ROWS = 2**16  # batch size for columns of short values
EXTRA_FIELDS = [pa.field("slot", pa.int64()), pa.field("row", pa.uint64())]
ENVIRONMENT = {  # LanceDB reads these settings from the environment only; the user's values take precedence
    "LANCE_DEFAULT_IO_BUFFER_SIZE": str(2**26),  # bytes that a scan reads ahead, instead of 2 GB
    "LANCE_INCLUDE_VECTOR_CENTROIDS": "false",  # avoids a warning about statistics
    "LANCEDB_LOG": "error",  # and one about a compaction that another writer has interrupted, on standard error
}


def import_lancedb() -> Any:
    """The module lancedb, with settings that it reads from the environment when it is imported."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:  # LanceDB writes temporary files, but does not look for a writable folder as Python does
        os.environ["TMPDIR"] = tempfile.gettempdir()
    except FileNotFoundError:
        raise Cr5Error(
            "LanceDB needs a writable folder for temporary files, and there is none; name one in the environment "
            "variable TMPDIR"
        ) from None
    with needs_package("the search index", "LanceDB", "search"):
        return importlib.import_module("lancedb")


class NewestVersion:
    """The number of a table's newest version; LanceDB is asked for it only if the folder of versions has changed.

    Two changes within one tick of the clock leave the folder with the same time, so that a recent one is not trusted.
    """

    def __init__(self, table: Path, ask: Callable[[], int]) -> None:
        self._folder, self._ask = str(table / "_versions"), ask
        self._known: tuple[Stamp, int] = (None, -1)  # of the folder, and the newest version

    def get(self) -> int:
        """The newest version as of now."""
        stamp, (known_stamp, known) = file_stamp(self._folder), self._known
        if stamp is not None and known_stamp == stamp:
            return known
        version = self._ask()
        if stamp is not None and time.time_ns() - stamp[1] > TRUSTED_AGE_SECONDS * 1e9:
            self._known = stamp, version
        return version


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
        is_allowed = slots_exist(allowed, rows["slot"].to_numpy())
        if langs is not None:
            is_allowed = is_allowed & np.asarray(pc.is_in(rows["lang"], pa.array(langs, pa.string())))
        rows = rows.filter(pa.array(is_allowed))
        cosines = np.concatenate([best["cosine"].to_numpy(), to_matrix(rows["vector"]) @ vector])
        both = pa.concat_tables([best.drop_columns(["cosine"]), rows.select(schema.names).cast(schema)])
        best = take_best(both, cosines, k)
    return best


def folder_bytes(folder: Path) -> int:
    """The size of all files in a folder."""
    size = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):  # another process may be compacting
            size += path.stat().st_size if path.is_file() else 0
    return size
