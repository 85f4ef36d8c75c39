"""The store: rows of documents with their vectors, and the rows whose vectors are nearest to a query.

A store knows rows and inner products, nothing of models; of CSLS it only keeps the means of every row. The base
class checks what callers pass; ``lance`` (a folder) and ``postgres`` (a server) implement the rest. To add a store,
write a subclass and list it in ``cr5.index.stores.registry``.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cr5.errors import Cr5Error, quoted

FORMAT = 1  # version of the stored rows; other versions are rejected
ANN_MIN_ROWS = 20_000  # rows from which an approximate index pays; smaller tables are searched exactly
MAX_KEY_BYTES = 1000  # of an id or a language; PostgreSQL's indexes hold little more
NORM_TOLERANCE = 1e-3  # how far the length of a vector may be from 1
TEXT_COLUMNS = ("id", "concept", "lang", "title", "url", "text", "digest")
DEFAULT_COLUMNS = (*TEXT_COLUMNS, "hubness")  # all but the vector
CANDIDATE_COLUMNS = ("id", "lang", "hubness")  # what reranking needs
FOLDER_ADDRESS = "lance"  # of a store in the folder of the index

Floats: TypeAlias = NDArray[np.float32]
Stamp: TypeAlias = tuple[int, int] | None


class Location(NamedTuple):
    """Where a store is: its own folder, the address that the user passed as ``store``, and the table on a server."""

    folder: Path
    address: str = FOLDER_ADDRESS
    table: str | None = None


class Store(ABC):
    """Rows by id. Readers never wait for writers; threads may share a store.

    Every row has a vector of length 1 (rank numbers) and its ``hubness``: one neighbourhood mean for each language.
    """

    label: ClassVar[str]  # the name of the database as users know it

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.rank, self.languages = (schema.field(name).type.list_size for name in ("vector", "hubness"))

    @classmethod
    @abstractmethod
    def accepts(cls, address: str) -> bool:
        """Whether an address is for a store of this class."""

    @classmethod
    def new_record(cls, address: str) -> dict[str, Any]:
        """What ``index.json`` has to remember of the location of a new store; no password."""
        return {"store": address, "table": None}

    @classmethod
    @abstractmethod
    def create(cls, location: Location, *, rank: int, languages: int) -> "Store":
        """Create an empty store for vectors of ``rank`` numbers."""

    @classmethod
    @abstractmethod
    def open(cls, location: Location, *, rank: int | None = None) -> "Store":
        """Open a store; with ``rank``, check that its vectors have that rank."""

    @classmethod  # noqa: B027
    def drop(cls, location: Location) -> None:
        """Remove what lies outside the folder, which the caller deletes."""

    def upsert(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Insert rows, replacing those with the same id, in one transaction; of equal ids in a call the last stays."""
        table = check_rows(rows, self.schema)
        if table.num_rows:
            self._upsert(table)

    def delete(self, ids: Sequence[str]) -> int:
        """Delete rows; return how many existed."""
        keys = valid_keys(ids)
        return self._delete(keys) if keys else 0

    def get(self, ids: Sequence[str], columns: Sequence[str] = DEFAULT_COLUMNS) -> pa.Table:
        """The rows with these ids, in the order of the ids; missing ones are left out."""
        return self._get(ids, self._existing_columns(columns))

    def digests(self, ids: Sequence[str]) -> dict[str, str]:
        """The content digest of each of these rows that exists."""
        rows = self._read_ids(valid_keys(ids), ["id", "digest"])
        return dict(zip(rows["id"].to_pylist(), rows["digest"].to_pylist(), strict=True))

    @abstractmethod
    def count(self) -> dict[str, int]:
        """The number of rows of each language."""

    def scan(
        self, columns: Sequence[str] = DEFAULT_COLUMNS, langs: Collection[str] | None = None, batch_rows: int = 4096
    ) -> Iterator[pa.RecordBatch]:
        """All rows as of now, whatever is written during the scan, in batches of at most ``batch_rows``."""
        return self._scan(self._existing_columns(columns), None if langs is None else valid_keys(langs), batch_rows)

    def set_hubness(self, ids: Sequence[str], values: Floats) -> None:
        """Replace the neighbourhood means (rows x languages) of some rows only; missing ids are ignored."""
        values = np.asarray(values, np.float32)
        if values.shape != (len(ids), self.languages):
            raise Cr5Error(f"hubness has shape {values.shape}; it must be ({len(ids)}, {self.languages})")
        if not np.isfinite(values).all():
            raise Cr5Error("hubness is not finite")
        last = {document_id: row for row, document_id in enumerate(ids)}
        keys = valid_keys(last)
        if keys:
            self._set_hubness(keys, values[[last[key] for key in keys]])

    def nearest(
        self,
        vectors: Floats,
        k: int,
        *,
        langs: Collection[str] | None = None,
        exact: bool = False,
        columns: Sequence[str] = CANDIDATE_COLUMNS,
    ) -> list[pa.Table]:
        """For each row of ``vectors`` (queries x rank), the k rows with the largest inner product, best first.

        The inner product is added as the column "cosine". ``langs`` restricts the search to some languages. With
        ``exact`` every row is compared; otherwise an approximate index, if ``optimise`` has built one, may miss a few.
        """
        vectors = np.asarray(vectors, np.float32)
        if vectors.ndim != 2 or vectors.shape[1] != self.rank:
            raise Cr5Error(f"the query vectors have shape {vectors.shape}; it must be (queries, {self.rank})")
        if not np.isfinite(vectors).all():
            raise Cr5Error("a query vector is not finite")
        if k < 1:
            raise Cr5Error(f"`k={k}` is not positive; use 1 or more")
        keys = None if langs is None else valid_keys(langs)
        return self._nearest(vectors, k, keys, exact, self._existing_columns(columns))

    @abstractmethod
    def optimise(self) -> None:
        """Compact the files; build or update the approximate index if there are enough rows."""

    def stats(self) -> dict[str, Any]:
        """``store``, ``rank``, ``extras`` (the number of languages), ``rows``, ``unindexed``, ``bytes`` and ``index``.

        ``index`` is the type of the approximate index, or "none"; ``unindexed`` are the rows that it does not have.
        """
        return {"store": self.label.lower(), "rank": self.rank, "extras": self.languages} | self._stats()

    @abstractmethod
    def close(self) -> None:
        """Release files and connections."""

    # What the methods above call after they have checked their arguments: ``columns`` exist, keys are valid.

    @abstractmethod
    def _upsert(self, table: pa.Table) -> None: ...

    @abstractmethod
    def _delete(self, keys: list[str]) -> int: ...

    @abstractmethod
    def _read_ids(self, keys: list[str], columns: list[str]) -> pa.Table:
        """The rows with these ids, in any order."""

    def _get(self, ids: Sequence[str], columns: list[str]) -> pa.Table:
        rows = self._read_ids(valid_keys(ids), list(dict.fromkeys([*columns, "id"])))
        return take_ids(rows, ids).select(columns)

    @abstractmethod
    def _scan(self, columns: list[str], langs: list[str] | None, batch_rows: int) -> Iterator[pa.RecordBatch]: ...

    @abstractmethod
    def _set_hubness(self, keys: list[str], values: Floats) -> None: ...

    @abstractmethod
    def _nearest(
        self, vectors: Floats, k: int, langs: list[str] | None, exact: bool, columns: list[str]
    ) -> list[pa.Table]: ...

    @abstractmethod
    def _stats(self) -> dict[str, Any]: ...

    def _existing_columns(self, columns: Sequence[str]) -> list[str]:
        """Check that columns exist; remove duplicates."""
        for name in columns:
            if name not in self.schema.names:
                raise Cr5Error(f"there is no column {quoted(name)}; choose from {', '.join(self.schema.names)}")
        return list(dict.fromkeys(columns))


def make_schema(rank: int, languages: int) -> pa.Schema:
    """The columns of a store of vectors of ``rank`` numbers, with one neighbourhood mean for each language."""
    for name, value in [("rank", rank), ("languages", languages)]:
        if value < 1:
            raise Cr5Error(f"`{name}={value}` is not positive; use 1 or more")
    fields = [pa.field(name, pa.string(), nullable=False) for name in TEXT_COLUMNS]
    fields.append(pa.field("vector", pa.list_(pa.float32(), rank), nullable=False))
    fields.append(pa.field("hubness", pa.list_(pa.float32(), languages), nullable=False))
    return pa.schema(fields)


def write_header(rank: int, languages: int) -> str:
    """A JSON header to be stored beside the rows: format version and widths."""
    return json.dumps({"cr5": FORMAT, "rank": rank, "extras": languages})


def read_header(text: str | None, location: str, rank: int | None) -> pa.Schema:
    """The schema of the store at ``location`` from its header; check its format version, and its rank if given."""
    try:
        header = json.loads(text or "")
        number, stored_rank, languages = int(header["cr5"]), int(header["rank"]), int(header["extras"])
    except (ValueError, TypeError, KeyError):
        raise Cr5Error(f"{location}: this is not a cr5 index; check the location") from None
    if number != FORMAT:
        raise Cr5Error(f"{location}: the index has format {number}, this version reads {FORMAT}; build the index again")
    if rank is not None and rank != stored_rank:
        raise Cr5Error(f"{location}: the vectors have rank {stored_rank}, not {rank}; use the model of the index")
    return make_schema(stored_rank, languages)


def check_rows(rows: pa.RecordBatch | pa.Table, schema: pa.Schema) -> pa.Table:
    """Cast rows to the schema and check that they can be stored; of rows with the same id keep the last."""
    table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
    for name in schema.names:
        if name not in table.column_names:
            raise Cr5Error(f"the rows have no column {name}; required are {', '.join(schema.names)}")
    for name, label in [("vector", "rank"), ("hubness", "languages")]:
        width, actual = schema.field(name).type.list_size, getattr(table.schema.field(name).type, "list_size", None)
        if actual is not None and actual != width:
            raise Cr5Error(f"the rows have {label} {actual}, the index has {width}; use the model of the index")
    try:
        table = table.select(schema.names).cast(schema)
    except (pa.ArrowException, ValueError) as error:
        names = ", ".join(schema.names)
        raise Cr5Error(f"the rows do not match the index ({error}); required are {names}, without nulls") from None
    for name in TEXT_COLUMNS:
        _check_each(table, pc.match_substring(table[name], "\0"), f"{name} contains a NUL character; remove it")
    for name in ("id", "lang"):
        too_long = pc.greater(pc.binary_length(table[name]), MAX_KEY_BYTES)
        _check_each(table, too_long, f"{name} has more than {MAX_KEY_BYTES} bytes; shorten it")
    lengths = np.linalg.norm(to_matrix(table["vector"]), axis=1)
    wrong = ~(np.abs(lengths - 1) <= NORM_TOLERANCE)  # NaN is wrong as well
    _check_each(table, pa.array(wrong), "the vector does not have length 1; normalise it, or leave out zero vectors")
    infinite = ~np.isfinite(to_matrix(table["hubness"])).all(axis=1)
    _check_each(table, pa.array(infinite), "hubness is not finite")
    last = {document_id: row for row, document_id in enumerate(table["id"].to_pylist())}
    return table if len(last) == table.num_rows else table.take(sorted(last.values()))


def _check_each(table: pa.Table, wrong: pa.Array, message: str) -> None:
    rows = np.flatnonzero(np.asarray(wrong))
    if len(rows):
        raise Cr5Error(f"document {quoted(table['id'][int(rows[0])].as_py())}: {message}")


def valid_keys(texts: Collection[str]) -> list[str]:
    """The valid keys among ids or languages: unique, encodable as UTF-8, without NUL."""
    return [
        text for text in dict.fromkeys(texts) if "\0" not in text and text.encode(errors="replace").decode() == text
    ]


def take_ids(table: pa.Table, ids: Sequence[str]) -> pa.Table:
    """The rows with these ids, in the order of the ids; missing ones are left out."""
    row_of = {document_id: row for row, document_id in enumerate(table["id"].to_pylist())}
    return table.take(pa.array([row_of[document_id] for document_id in ids if document_id in row_of], pa.int64()))


def take_best(table: pa.Table, cosines: NDArray[Any], k: int) -> pa.Table:
    """The k rows with the largest cosines, which are added as a column; ties stay in their order."""
    order = np.argsort(-cosines, kind="stable")[:k]
    return table.take(order).append_column("cosine", pa.array(cosines[order].astype(np.float32)))


def to_matrix(column: pa.ChunkedArray) -> Floats:
    """A column of fixed-size lists -> rows x width."""
    parts = [chunk.flatten().to_numpy(zero_copy_only=False) for chunk in column.chunks]
    return np.concatenate(parts or [np.empty(0, np.float32)]).reshape(-1, column.type.list_size)


def to_lists(values: NDArray[Any]) -> pa.FixedSizeListArray:
    """rows x width -> a column of fixed-size lists."""
    return pa.FixedSizeListArray.from_arrays(
        pa.array(np.ascontiguousarray(values, np.float32).ravel()), values.shape[1]
    )


def hash_texts(texts: Sequence[str]) -> NDArray[np.uint64]:
    """A 64-bit hash of each text, the same on every machine."""
    return np.frombuffer(b"".join(digest(text, 8) for text in texts), np.uint64)


def digest(text: str, size: int) -> bytes:
    """The BLAKE2b digest of a text, of ``size`` bytes."""
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=size).digest()


def file_stamp(path: Path) -> Stamp:
    """A value that changes whenever a file is replaced; None without a file."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns
