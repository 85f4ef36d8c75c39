"""The store in a folder: one LanceDB table, and beside it the hubness that was refreshed since the rows were put.

LanceDB writes a changed row anew, which would take it out of the vector index. Refreshed hubness therefore lies in an
array of its own, ``hubness.npy``: every row put has a slot, a number never used again, and where the array holds
figures in that slot, they take the place of those in the table.

Every call that writes makes one new version of the table, whole or not at all. Writers wait for each other at a lock
file; readers see the newest version and wait for nobody. Of a small table, a reader holds the newest version in memory:
that saves most of the time of a search, which LanceDB spends on preparing it.
"""

import fcntl
import importlib
import os
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cr5 import neighbours
from cr5.atomic import replacing
from cr5.errors import UserError
from cr5.index.store import (
    ENOUGH,
    FOUND,
    PLAIN,
    Floats,
    best_first,
    figures,
    fitting,
    in_order,
    known,
    lists,
    matrix,
    queries,
    schema,
    seal,
    storable,
    unseal,
)

if TYPE_CHECKING:
    from lancedb.expr import Expr

TABLE = "documents"
SETTINGS = {  # that LanceDB takes from the environment alone, where the user has set no others
    "LANCE_DEFAULT_IO_BUFFER_SIZE": str(2**26),  # bytes that a scan reads ahead, instead of 2 GB
    "LANCE_INCLUDE_VECTOR_CENTROIDS": "false",  # or it warns whenever it is asked for figures
}
SMALL = 2**26  # bytes of a table that is held in memory
METADATA, INDEXES = 2**27, 2**30  # bytes that it may remember; of indexes more where they are large
KEPT = timedelta(hours=1)  # how long a reader may go on with an old version
FEW, FILES = 1000, 32  # rows beside the index, and files or versions of the table, that may be until they are joined
GROWN, PIECES = 2, 32  # times the rows it was built for, or graphs added to the first, and the index is built anew
LINKS, BREADTH = 16, 100  # of the graph: neighbours of a row, candidates while it is built
SEARCHED, REFINED = 800, 30  # candidates while it is searched, and of them compared exactly, at least
PARTS = 32  # graphs of a million rows each that are searched


def create(folder: Path, *, rank: int, extras: int) -> "LanceStore":
    """A new, empty store in a folder, which may hold other files."""
    lancedb, columns = _library(), schema(rank, extras)
    folder.mkdir(parents=True, exist_ok=True)
    with writing(folder):
        if (folder / f"{TABLE}.lance").exists():
            raise UserError(f"{folder}: there is an index already; open it, or delete the folder")
        columns = columns.append(pa.field("slot", pa.int64(), nullable=False))
        columns = columns.with_metadata({"cr5": seal(rank, extras)})
        index = importlib.import_module("lancedb.index")
        table = lancedb.connect(folder).create_table(TABLE, schema=columns)
        table.create_index("id", config=index.BTree())
        table.create_index("lang", config=index.Bitmap())
    return open(folder)


def open(folder: Path, *, rank: int | None = None) -> "LanceStore":  # noqa: A001
    """The store in a folder; with ``rank``, only one of such vectors."""
    lancedb = _library()
    if not (folder / f"{TABLE}.lance").is_dir():
        raise UserError(f"{folder}: there is no index; build one with cr5 index")
    return LanceStore(folder, lancedb, rank)


def _library() -> Any:
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    try:
        return importlib.import_module("lancedb")
    except ImportError:
        raise UserError("the search index needs LanceDB; install it with pip install 'cr5[search]'") from None


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Be the only one who writes in the folder; waits until another has done."""
    with (folder / "writer.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # goes with the process, however that ends
        yield


class Held(NamedTuple):
    """A whole table: its rows, their vectors (rows x rank), and which row an id has."""

    rows: pa.Table
    vectors: Floats
    place: dict[str, int]

    def get(self, ids: Sequence[str], columns: list[str]) -> pa.Table:
        """The rows of ids in their order, without those that are missing."""
        return self.rows.select(columns).take(
            pa.array([self.place[name] for name in ids if name in self.place], pa.int64())
        )

    def nearest(self, vectors: Floats, k: int, langs: Collection[str] | None, columns: list[str]) -> list[pa.Table]:
        """The k rows nearest to each vector (queries x rank), with their cosines."""
        allowed = np.ones(self.rows.num_rows, bool)
        if langs is not None:
            allowed = np.asarray(pc.is_in(self.rows["lang"], pa.array(storable(langs), pa.string())))
        penalty, results = np.where(allowed, 0.0, 9.0), []
        for vector in vectors:  # one by one, so that a query finds the same whatever is asked with it
            best = neighbours.nearest(vector[None], self.vectors, min(k, int(allowed.sum())), penalty=penalty)
            results.append(best_first(self.rows.select(columns).take(best.indices[0]), best.scores[0], k))
        return results


class _Seen(NamedTuple):
    """What a table was like when it was read."""

    version: int
    hubness: tuple[int, int] | None


class LanceStore:
    """Documents in a folder. Read ``cr5.index.store.Store`` for the calls."""

    def __init__(self, folder: Path, lancedb: Any, rank: int | None) -> None:
        self.folder = folder
        self._index = importlib.import_module("lancedb.index")
        self._column = importlib.import_module("lancedb.expr").col
        graphs = _size(folder / f"{TABLE}.lance" / "_indices")
        session = lancedb.Session(metadata_cache_size_bytes=METADATA, index_cache_size_bytes=max(INDEXES, 4 * graphs))
        connection = lancedb.connect(folder, read_consistency_interval=timedelta(0), session=session)
        self._table = connection.open_table(TABLE)
        kept = (self._table.schema.metadata or {}).get(b"cr5", b"").decode()
        self.schema = unseal(kept, str(folder), rank)
        self._next = (-1, 0)  # the version of the table, and the first slot that is free there
        self._holding, self._seen = threading.Lock(), _Seen(-1, None)
        self._held: Held | None = None

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

    def delete(self, ids: Sequence[str]) -> int:
        chosen = storable(ids)
        if not chosen:
            return 0
        with self._writing():
            return int(self._table.delete(self._among("id", chosen)).num_deleted_rows)

    def get(self, ids: Sequence[str], columns: Sequence[str] = PLAIN) -> pa.Table:
        columns = known(columns, self.schema)
        if held := self._in_memory():
            return held.get(ids, columns)
        return in_order(self._by_id(ids, [*columns, "id"]), ids).select(columns)

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
            path = self.folder / "hubness.npy"
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
        columns, results = known(columns, self.schema), []
        vectors = queries(vectors, k, self.schema)
        if held := self._in_memory():
            return held.nearest(vectors, k, langs, columns)
        where = None if langs is None else self._among("lang", storable(langs))
        times = -(-REFINED // k)
        for vector in vectors:
            search = self._table.search(vector, vector_column_name="vector").distance_type("dot").limit(k)
            search = search.select([*_with_slot(columns), "_distance"])
            if exact:
                search = search.bypass_vector_index()
            else:
                search = search.nprobes(PARTS).refine_factor(times).ef(max(SEARCHED, 2 * times * k))
            if where is not None:
                search = search.where(where)  # before the k are chosen
            found = search.to_arrow()
            cosines = 1 - found["_distance"].to_numpy()
            results.append(best_first(self._finished(found, columns, self._refreshed()), cosines, k))
        return results

    def optimise(self) -> None:
        with self._writing():
            if not self._due():
                return
            self._table.optimize(cleanup_older_than=KEPT)
            rows, names = self._table.count_rows(), self._vector_indexes()
            worn = not names or rows > GROWN * _built_for(names[0]) or self._pieces(names[0]) > PIECES
            if rows >= ENOUGH and worn:
                config = self._index.HnswSq(distance_type="dot", m=LINKS, ef_construction=BREADTH)
                self._table.create_index("vector", config=config, name=f"vector_{rows}")
                names = [f"vector_{rows}", *(name for name in names if name != f"vector_{rows}")]
            for name in names[1:]:
                self._table.drop_index(name)

    def about(self) -> dict[str, Any]:
        names = self._vector_indexes()
        rows = self._table.count_rows()
        unindexed = self._table.index_stats(names[0]).num_unindexed_rows if names else rows
        return {
            "store": "lancedb",
            "rank": self.schema.field("vector").type.list_size,
            "extras": self.schema.field("hubness").type.list_size,
            "rows": rows,
            "index": "IVF_HNSW_SQ" if names else "none",
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
        """A slot from which on no row has ever had refreshed hubness."""
        version, free = self._next
        if version == self._table.version:
            return free
        free = len(self._refreshed())
        for batch in self._table.search().select(["slot"]).to_batches(batch_size=2**16):
            free = max(free, (pc.max(batch["slot"]).as_py() or 0) + 1)
        return free

    def _refreshed(self) -> Floats:
        """Slots x extras: the hubness that was set after the rows were put, NaN elsewhere."""
        try:
            fresh: Floats = np.load(self.folder / "hubness.npy", mmap_mode="r")
            return fresh
        except FileNotFoundError:
            return np.empty((0, self.schema.field("hubness").type.list_size), np.float32)

    def _finished(self, found: pa.Table | pa.RecordBatch, columns: list[str], fresh: Floats) -> pa.Table:
        """The columns asked for, with the newest hubness."""
        table = pa.Table.from_batches([found]) if isinstance(found, pa.RecordBatch) else found
        if "hubness" in columns and len(fresh):
            values, slots = matrix(table["hubness"]).copy(), table["slot"].to_numpy()
            rows = np.flatnonzero(slots < len(fresh))
            newer = fresh[slots[rows]]
            rows, newer = rows[~np.isnan(newer[:, 0])], newer[~np.isnan(newer[:, 0])]
            values[rows] = newer
            table = table.set_column(table.schema.get_field_index("hubness"), "hubness", lists(values))
        return table.select(columns)

    def _in_memory(self) -> Held | None:
        """The table as it is now, if it is small."""
        with self._holding:
            seen = _Seen(self._table.version, _changed(self.folder / "hubness.npy"))
            if self._seen != seen:
                self._held = self._read()
                self._seen = seen
            return self._held

    def _read(self) -> Held | None:
        if self._table.count_rows() >= ENOUGH or self._table.stats()["total_bytes"] > SMALL:
            return None
        batches = [batch.cast(self.schema) for batch in self.scan(self.schema.names)]
        rows = pa.Table.from_batches(batches, self.schema).combine_chunks()
        place = {name: row for row, name in enumerate(rows["id"].to_pylist())}
        return Held(rows, matrix(rows["vector"]), place)

    def _vector_indexes(self) -> list[str]:
        """Names of the vector index, the newest first: each ends in the number of rows that it was built for."""
        names = [index.name for index in self._table.list_indices() if index.columns == ["vector"]]
        return sorted(names, key=_built_for, reverse=True)

    def _due(self) -> bool:
        """Whether so much was written since the last time that it shows. One document is no reason."""
        names = self._vector_indexes()
        if names and int(self._table.index_stats(names[0]).num_unindexed_rows) > FEW:
            return True
        if not names and self._table.count_rows() >= ENOUGH:
            return True
        if self._table.stats()["fragment_stats"]["num_small_fragments"] > FILES:
            return True
        versions = [path.stat().st_mtime for path in (self.folder / f"{TABLE}.lance" / "_versions").iterdir()]
        return len(versions) > FILES and time.time() - min(versions) > KEPT.total_seconds()

    def _pieces(self, name: str) -> int:
        return int(self._table.index_stats(name).num_indices or 1)


def _changed(path: Path) -> tuple[int, int] | None:
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


def _built_for(name: str) -> int:
    return int(name.rpartition("_")[2])


def _with_slot(columns: list[str]) -> list[str]:
    return list(dict.fromkeys([*columns, "slot"]))
