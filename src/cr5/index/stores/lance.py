"""The store in a folder: one LanceDB table, cells that tell what may be near, and the hubness that was refreshed.

LanceDB keeps the rows: every call that writes makes one new version of its table, whole or not at all. Beside it lies
what is made from the rows and can be made again:

- ``cells``: an approximate index of the rows up to some slot. Every row put has a slot, a number never used again.
- ``hubness.npy``: refreshed hubness by slot; where it holds figures, they take the place of those in the table.

Writers wait for each other at a lock file; readers see the newest version and wait for nobody. A reader has a view of
that version: the cells, which of their rows are still alive, and in memory the rows that came later; of a small table,
all there is.
"""

import importlib
import os
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cr5._typing import Ints
from cr5.errors import Cr5Error
from cr5.index.ivf import LIST, Cells, build, extend
from cr5.index.stores.base import (
    ENOUGH,
    FOUND,
    PLAIN,
    Floats,
    best_first,
    figures,
    fitting,
    in_order,
    known,
    queries,
    schema,
    seal,
    storable,
    unseal,
)
from cr5.index.view import AT_HAND, Held, View, renewed
from cr5.storage.atomic import replacing
from cr5.storage.locks import locked

if TYPE_CHECKING:
    from lancedb.expr import Expr

TABLE, CELLS, HUBNESS = "documents", "cells", "hubness.npy"
SETTINGS = {  # that LanceDB takes from the environment alone, where the user has set no others
    "LANCE_DEFAULT_IO_BUFFER_SIZE": str(2**26),  # bytes that a scan reads ahead, instead of 2 GB
    "LANCE_INCLUDE_VECTOR_CENTROIDS": "false",  # or it warns whenever it is asked for figures
}
SMALL = 2**26  # bytes of a table that is held in memory
METADATA, INDEXES = 2**27, 2**28  # bytes that it may remember
KEPT = timedelta(hours=1)  # how long a reader may go on with an old version
FEW, FILES = 1000, 32  # rows beside the cells, and files or versions of the table, that may be until they are joined
GROWN, DEAD = 2, 4  # times the rows they were built for, or one row in so many is dead, and cells are built anew
NUMBERS = [pa.field("slot", pa.int64()), pa.field("row", pa.uint64())]
READ = 2**14  # rows at a time, on the way into cells


def create(folder: Path, *, rank: int, extras: int) -> "LanceStore":
    """A new, empty store in a folder, which may hold other files."""
    lancedb, columns = _library(), schema(rank, extras)
    folder.mkdir(parents=True, exist_ok=True)
    with writing(folder):
        if (folder / f"{TABLE}.lance").exists():
            raise Cr5Error(f"{folder}: there is an index already; open it, or delete the folder")
        columns = columns.append(pa.field("slot", pa.int64(), nullable=False))
        columns = columns.with_metadata({"cr5": seal(rank, extras)})
        index = importlib.import_module("lancedb.index")
        stable = {"new_table_enable_stable_row_ids": "true"}  # a row is found by the number that it was given first
        table = lancedb.connect(folder).create_table(TABLE, schema=columns, storage_options=stable)
        table.create_index("id", config=index.BTree())
        table.create_index("lang", config=index.Bitmap())
    return open(folder)


def open(folder: Path, *, rank: int | None = None) -> "LanceStore":  # noqa: A001
    """The store in a folder; with ``rank``, only one of such vectors."""
    lancedb = _library()
    if not (folder / f"{TABLE}.lance").is_dir():
        raise Cr5Error(f"{folder}: there is no index; build one with cr5 index")
    return LanceStore(folder, lancedb, rank)


def _library() -> Any:
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    try:
        return importlib.import_module("lancedb")
    except ImportError:
        raise Cr5Error("the search index needs LanceDB; install it with pip install 'cr5[search]'") from None


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Be the only one who writes in the folder; waits until another has done."""
    with locked(folder / "writer.lock"):
        yield


Stamp: TypeAlias = tuple[int, int] | None


class _Seen(NamedTuple):
    """What a view was made of."""

    version: int
    hubness: Stamp
    cells: Stamp


class LanceStore:
    """Documents in a folder. Read ``cr5.index.stores.base.Store`` for the calls."""

    def __init__(self, folder: Path, lancedb: Any, rank: int | None) -> None:
        self.folder = folder
        self._column = importlib.import_module("lancedb.expr").col
        session = lancedb.Session(metadata_cache_size_bytes=METADATA, index_cache_size_bytes=INDEXES)
        self._connection = lancedb.connect(folder, read_consistency_interval=timedelta(0), session=session)
        self._table = self._connection.open_table(TABLE)
        kept = (self._table.schema.metadata or {}).get(b"cr5", b"").decode()
        self.schema = unseal(kept, str(folder), rank)
        self._next = (-1, 0)  # the version of the table, and the first slot that is free there
        self._viewing, self._seen = threading.Lock(), _Seen(-1, None, None)
        self._view: View | None = None
        self._opened: tuple[Stamp, Cells | None] = (None, None)

    def __repr__(self) -> str:
        return f"LanceStore({str(self.folder)!r})"

    def put(self, rows: pa.RecordBatch | pa.Table) -> None:
        table = fitting(rows, self.schema)
        if not table.num_rows:
            return
        with self._writing():
            first = self._free_slot()
            slots = pa.array(np.arange(first, first + table.num_rows))
            table = table.append_column(pa.field("slot", pa.int64(), nullable=False), slots)
            merge = self._table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
            done = merge.execute(table)
            self._next = (done.version, first + table.num_rows)
            cells = self._cells()
            if cells and self._next[1] - cells.until > FEW:
                self._extend(cells.until, self._next[1])

    def delete(self, ids: Sequence[str]) -> int:
        chosen = storable(ids)
        if not chosen:
            return 0
        with self._writing():
            return int(self._table.delete(self._among("id", chosen)).num_deleted_rows)

    def get(self, ids: Sequence[str], columns: Sequence[str] = PLAIN) -> pa.Table:
        columns, view = known(columns, self.schema), self._newest()
        if view is None:
            return in_order(self._by_id(ids, [*columns, "id"]), ids).select(columns)
        return self._with_rest(view.get(ids, columns), columns).select(columns)

    def digests(self, ids: Sequence[str]) -> dict[str, str]:
        found = self._by_id(ids, ["id", "digest"])
        return dict(zip(found["id"].to_pylist(), found["digest"].to_pylist(), strict=True))

    def count(self) -> dict[str, int]:
        numbers: dict[str, int] = {}
        for batch in self._table.search().select(["lang"]).to_batches(batch_size=2**16):
            for pair in pc.value_counts(batch["lang"]).to_pylist():
                numbers[pair["values"]] = numbers.get(pair["values"], 0) + pair["counts"]
        return dict(sorted(numbers.items()))

    def scan(
        self, columns: Sequence[str] = PLAIN, langs: Collection[str] | None = None, batch_rows: int = 4096
    ) -> Iterator[pa.RecordBatch]:
        columns = known(columns, self.schema)
        search = self._table.search().select(_with_slot(columns))
        if langs is not None:
            search = search.where(self._among("lang", storable(langs)))
        fresh, batches = self._refreshed(), search.to_batches(batch_size=batch_rows)  # both as they are now
        return (part for batch in batches for part in self._finished(batch, columns, fresh).to_batches(batch_rows))

    def set_hubness(self, ids: Sequence[str], values: Floats) -> None:
        ids, values = figures(ids, values, self.schema)
        if not ids:
            return
        with self._writing():
            found = self._by_id(ids, ["id", "slot"])
            place = {identity: row for row, identity in enumerate(ids)}
            rows = np.array([place[identity] for identity in found["id"].to_pylist()], np.int64)
            slots, old = found["slot"].to_numpy(), self._refreshed()
            new = np.full((max(len(old), slots.max(initial=-1) + 1), values.shape[1]), np.nan, np.float32)
            new[: len(old)] = old
            new[slots] = values[rows]
            path = self.folder / HUBNESS
            with replacing(path, via=path.with_suffix(".part")) as file:
                np.save(file, new)

    def nearest(
        self,
        vectors: Floats,
        k: int,
        *,
        langs: Collection[str] | None = None,
        exact: bool = False,
        columns: Sequence[str] = FOUND,
    ) -> list[pa.Table]:
        columns = known(columns, self.schema)
        vectors, view, results = queries(vectors, k, self.schema), self._newest(), []
        for vector in vectors:  # one by one, so that a query finds the same whatever is asked with it
            if view is None or (exact and view.cells is not None):
                found = self._compare(vector, k, langs, columns)
            else:
                found = self._with_rest(view.nearest(vector, k, langs, columns), columns)
            results.append(found.select([*columns, "cosine"]))
        return results

    def optimise(self) -> None:
        with self._writing():
            if self._scattered():
                self._table.optimize(cleanup_older_than=KEPT)
            rows, until, cells = self._table.count_rows(), self._free_slot(), self._cells()
            if rows < ENOUGH:
                return
            later = self._later(cells.until) if cells else rows
            if cells is None or rows > GROWN * cells.built or DEAD * (len(cells) + later - rows) > len(cells):
                build(self.folder / CELLS, lambda: _read(self._table, 0, AT_HAND), rows, until)
            elif later > FEW:
                self._extend(cells.until, until)

    def about(self) -> dict[str, Any]:
        cells, rows = self._cells(), self._table.count_rows()
        unindexed = self._later(cells.until) if cells else rows
        return {
            "store": "lancedb",
            "rank": self.schema.field("vector").type.list_size,
            "extras": self.schema.field("hubness").type.list_size,
            "rows": rows,
            "index": "cells" if cells else "none",
            "unindexed": unindexed,
            "bytes": _size(self.folder),
        }

    def close(self) -> None:
        self._table = None

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with writing(self.folder):
            self._table.checkout_latest()
            yield

    def _among(self, column: str, values: Sequence[str]) -> "Expr":
        chosen: Expr = self._column(column).isin(list(values))  # no value becomes part of a text that is parsed
        return chosen

    def _by_id(self, ids: Sequence[str], columns: list[str]) -> pa.Table:
        """The documents with these ids, in any order."""
        search = self._table.search().where(self._among("id", storable(ids))).select(_with_slot(columns))
        return self._finished(search.to_arrow(), list(dict.fromkeys(columns)), self._refreshed())

    def _free_slot(self) -> int:
        """A slot from which on no row has ever been in cells, or had refreshed hubness."""
        version, free = self._next
        if version == self._table.version:
            return free
        cells = self._cells()
        free = max(len(self._refreshed()), cells.until if cells else 0)
        return max([free, *(int(slots.max()) + 1 for slots in _slots(self._table) if len(slots))])

    def _refreshed(self) -> Floats:
        """Slots x extras: the hubness that was set after the rows were put, NaN elsewhere."""
        try:
            fresh: Floats = np.load(self.folder / HUBNESS, mmap_mode="r")
            return fresh
        except FileNotFoundError:
            return np.empty((0, self.schema.field("hubness").type.list_size), np.float32)

    def _finished(self, found: pa.Table | pa.RecordBatch, columns: list[str], fresh: Floats) -> pa.Table:
        """The columns asked for, with the newest hubness."""
        table = pa.Table.from_batches([found]) if isinstance(found, pa.RecordBatch) else found
        return (renewed(table, fresh) if "hubness" in columns else table).select(columns)

    def _compare(self, vector: Floats, k: int, langs: Collection[str] | None, columns: list[str]) -> pa.Table:
        """The k rows nearest to a vector, which LanceDB compares with all of them."""
        search = self._table.search(vector, vector_column_name="vector").distance_type("dot").limit(k)
        search = search.select([*_with_slot(columns), "_distance"])
        if langs is not None:
            search = search.where(self._among("lang", storable(langs)))  # before the k are chosen
        found = search.to_arrow()
        return best_first(self._finished(found, columns, self._refreshed()), 1 - found["_distance"].to_numpy(), k)

    def _newest(self) -> View | None:
        """The table as it is now; None while too many rows are not in cells."""
        with self._viewing:
            files = (self.folder / HUBNESS, self.folder / CELLS / LIST)
            seen = _Seen(self._table.version, *map(_changed, files))
            if self._seen != seen:
                self._view = self._look(seen.version)
                self._seen = seen
            return self._view

    def _look(self, version: int) -> View | None:
        cells, fresh = self._cells(), self._refreshed()
        until = cells.until if cells else 0
        table = self._connection.open_table(TABLE)
        table.checkout(version)  # all that follows is told of this one
        later = table.count_rows(f"slot >= {until}")
        if later >= ENOUGH:
            return None
        columns = [*AT_HAND]
        if cells is None and table.stats()["total_bytes"] <= SMALL:
            columns = list(dict.fromkeys([*AT_HAND, *self.schema.names]))
        fields = {field.name: field for field in [*self.schema, *NUMBERS]}
        nothing = pa.schema([fields[name] for name in columns]).empty_table()
        rows = pa.concat_tables([nothing, *(part.cast(nothing.schema) for part in _read(table, until, columns))])
        alive = np.ones(len(cells) if cells else 0, bool)
        if cells and table.count_rows() - later < len(cells):
            there = np.zeros(until, bool)
            for slots in _slots(table):
                there[slots[slots < until]] = True
            alive = there[cells.slots]
        return View(cells, alive, Held.of(renewed(rows.combine_chunks(), fresh)), fresh)

    def _with_rest(self, found: pa.Table, columns: Sequence[str]) -> pa.Table:
        """Rows that are at hand, with all the columns; those that have vanished meanwhile are left out."""
        further = [name for name in columns if name not in found.column_names]
        if not further:
            return found
        ids, rest = found["id"].to_pylist(), self.schema.empty_table().select(["id", *further])
        if ids:
            taken = self._table.take_row_ids(found["row"].to_pylist()).select(["id", *further]).to_arrow()
            rest = taken.cast(rest.schema)
        if lost := set(ids) - set(rest["id"].to_pylist()):
            rest = pa.concat_tables([rest, self._by_id([*lost], ["id", *further]).cast(rest.schema)])
        place = {name: row for row, name in enumerate(rest["id"].to_pylist())}
        there = [row for row, name in enumerate(ids) if name in place]
        found = found.take(pa.array(there, pa.int64()))
        rest = rest.take(pa.array([place[ids[row]] for row in there], pa.int64()))
        for name in further:
            found = found.append_column(name, rest[name])
        return found

    def _cells(self) -> Cells | None:
        """The cells that count now, if there are any."""
        path = self.folder / CELLS / LIST
        while True:
            seen, opened = self._opened
            stamp = _changed(path)
            if seen == stamp:
                return opened
            try:
                self._opened = stamp, Cells(path.parent) if stamp else None
            except (FileNotFoundError, EOFError, ValueError, KeyError):
                if stamp == _changed(path):  # else others count by now, and these have been cleared away
                    raise Cr5Error(
                        f"{path.parent}: the cells are damaged; delete this folder, the next cr5 index makes it again"
                    ) from None

    def _later(self, until: int) -> int:
        return int(self._table.count_rows(f"slot >= {until}"))

    def _extend(self, until: int, new: int) -> None:
        extend(self.folder / CELLS, _read(self._table, until, AT_HAND), new)

    def _scattered(self) -> bool:
        """Whether so much was written since the last time that it shows. One document is no reason."""
        if int(self._table.index_stats("id_idx").num_unindexed_rows) > FEW:
            return True
        if self._table.stats()["fragment_stats"]["num_small_fragments"] > FILES:
            return True
        versions = [path.stat().st_mtime for path in (self.folder / f"{TABLE}.lance" / "_versions").iterdir()]
        return len(versions) > FILES and time.time() - min(versions) > KEPT.total_seconds()


def _read(table: Any, since: int, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Rows of a table, from a slot on, with their numbers."""
    search = table.search().select([name for name in columns if name != "row"]).with_row_id(True)
    for batch in search.where(f"slot >= {since}").to_batches(batch_size=READ):
        rows = pa.Table.from_batches([batch])
        yield rows.rename_columns(["row" if name == "_rowid" else name for name in rows.column_names]).select(columns)


def _slots(table: Any) -> Iterator[Ints]:
    """The slots of all rows."""
    for batch in table.search().select(["slot"]).to_batches(batch_size=2**16):
        yield batch["slot"].to_numpy()


def _changed(path: Path) -> Stamp:
    """What is another when a file has been replaced."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def _size(folder: Path) -> int:
    """The bytes of all files in a folder."""
    size = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):  # another process cleans up
            size += path.stat().st_size if path.is_file() else 0
    return size


def _with_slot(columns: list[str]) -> list[str]:
    return list(dict.fromkeys([*columns, "slot"]))
