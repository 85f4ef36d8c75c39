"""The store: where documents lie with their vectors, and which vectors lie nearest.

A store knows rows and inner products, nothing of models or measures. Two keep to it: ``lance`` (a folder) and
``postgres`` (a server). What both check and shape alike stands here.
"""

import hashlib
import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cr5.errors import Cr5Error, quoted

FORMAT = 1  # of what is kept; another one is refused
ENOUGH = 20_000  # rows from which an approximate index pays; fewer are searched one by one
LONGEST = 1000  # bytes of an id or a language: the indexes of PostgreSQL hold little more
TEXTS = ("id", "concept", "lang", "title", "url", "text", "digest")
PLAIN = (*TEXTS, "hubness")  # all columns but the vector
FOUND = ("id", "lang", "hubness")
UNIT = 1e-3  # what the length of a vector may differ from 1

Floats: TypeAlias = NDArray[np.float32]


class Store(Protocol):
    """Documents by id. Reading calls never wait for writing ones; several threads may share a store."""

    schema: pa.Schema

    def put(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Insert rows, or replace those with the same id (of two in one call, the last stays): all of them or none."""
        ...

    def delete(self, ids: Sequence[str]) -> int:
        """Delete documents; returns how many were there."""
        ...

    def get(self, ids: Sequence[str], columns: Sequence[str] = PLAIN) -> pa.Table:
        """Documents in the order asked; those that are missing are left out."""
        ...

    def digests(self, ids: Sequence[str]) -> dict[str, str]:
        """The digest of each document that is there."""
        ...

    def count(self) -> dict[str, int]:
        """How many documents there are of each language."""
        ...

    def scan(
        self, columns: Sequence[str] = PLAIN, langs: Collection[str] | None = None, batch_rows: int = 4096
    ) -> Iterator[pa.RecordBatch]:
        """All documents as they are now, whatever is written meanwhile; at most ``batch_rows`` at a time."""
        ...

    def set_hubness(self, ids: Sequence[str], values: Floats) -> None:
        """Replace the figures of some documents (documents x extras), and nothing else; missing ones are left out."""
        ...

    def nearest(
        self,
        vectors: Floats,
        k: int,
        *,
        langs: Collection[str] | None = None,
        exact: bool = False,
        columns: Sequence[str] = FOUND,
    ) -> list[pa.Table]:
        """The k documents with the largest inner product for each row of ``vectors`` (queries x rank), best first.

        The column "cosine" is added. Only documents in ``langs`` compete, where it is given. ``exact`` compares with
        every one of them; otherwise an index, where ``optimise`` has built one, may miss a few.
        """
        ...

    def optimise(self) -> None:
        """Compact what lies in pieces; build or renew the approximate index where there are enough rows."""
        ...

    def about(self) -> dict[str, Any]:
        """``store``, ``rank``, ``extras``, ``rows``, ``index`` ("none" or its kind), ``unindexed`` rows, ``bytes``."""
        ...

    def close(self) -> None:
        """Let go of files and connections."""
        ...


def schema(rank: int, extras: int) -> pa.Schema:
    """The columns of a store of vectors of ``rank`` numbers with ``extras`` figures beside each."""
    for name, value in [("rank", rank), ("extras", extras)]:
        if value < 1:
            raise Cr5Error(f"{name} {value} is not positive; give 1 or more")
    fields = [pa.field(name, pa.string(), nullable=False) for name in TEXTS]
    fields.append(pa.field("vector", pa.list_(pa.float32(), rank), nullable=False))
    fields.append(pa.field("hubness", pa.list_(pa.float32(), extras), nullable=False))
    return pa.schema(fields)


def seal(rank: int, extras: int) -> str:
    """What is written beside the rows, for ``unseal`` to read when the store is opened."""
    return json.dumps({"cr5": FORMAT, "rank": rank, "extras": extras})


def unseal(text: str | None, place: str, rank: int | None) -> pa.Schema:
    """The schema of the store at ``place``; another format, or another rank than the one expected, is refused."""
    try:
        kept = json.loads(text or "")
        number, width, extras = int(kept["cr5"]), int(kept["rank"]), int(kept["extras"])
    except (ValueError, TypeError, KeyError):
        raise Cr5Error(f"{place}: this is no index of cr5; name another place") from None
    if number != FORMAT:
        raise Cr5Error(f"{place}: the index has format {number}, this version reads {FORMAT}; build the index again")
    if rank is not None and rank != width:
        raise Cr5Error(f"{place}: the index holds vectors of rank {width}, not {rank}; use its model or a new index")
    return schema(width, extras)


def fitting(rows: pa.RecordBatch | pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows as the schema wants them, of those with the same id the last; what cannot be kept is refused."""
    table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
    for name in schema.names:
        if name not in table.column_names:
            raise Cr5Error(f"the rows have no column {name}; give {', '.join(schema.names)}")
    for name, what in [("vector", "rank"), ("hubness", "extras")]:
        width, found = schema.field(name).type.list_size, getattr(table.schema.field(name).type, "list_size", None)
        if found is not None and found != width:
            raise Cr5Error(f"the rows have {what} {found}, the index {width}; use the model it was built with")
    try:
        table = table.select(schema.names).cast(schema)
    except (pa.ArrowException, ValueError) as error:
        raise Cr5Error(f"the rows do not fit the index ({error}); give {', '.join(schema.names)}, all filled") from None
    for name in TEXTS:
        _refuse(table, pc.match_substring(table[name], "\0"), f"{name} holds a NUL character; remove it")
    for name in ("id", "lang"):
        _refuse(
            table, pc.greater(pc.binary_length(table[name]), LONGEST), f"{name} exceeds {LONGEST} bytes; shorten it"
        )
    lengths = np.linalg.norm(matrix(table["vector"]), axis=1)
    wrong = ~(np.abs(lengths - 1) <= UNIT)  # NaN is wrong as well
    _refuse(table, pa.array(wrong), "the vector has not length 1; divide it by its norm, leave out what has none")
    _refuse(table, pa.array(~np.isfinite(matrix(table["hubness"])).all(axis=1)), "hubness is not finite; give numbers")
    last = {identity: row for row, identity in enumerate(table["id"].to_pylist())}
    return table if len(last) == table.num_rows else table.take(sorted(last.values()))


def _refuse(table: pa.Table, wrong: pa.Array, why: str) -> None:
    rows = np.flatnonzero(np.asarray(wrong))
    if len(rows):
        raise Cr5Error(f"document {quoted(table['id'][int(rows[0])].as_py())}: {why}")


def figures(ids: Sequence[str], values: Floats, schema: pa.Schema) -> tuple[list[str], Floats]:
    """New hubness as the schema wants it, of those with the same id the last."""
    extras = schema.field("hubness").type.list_size
    values = np.asarray(values, np.float32)
    if values.shape != (len(ids), extras):
        raise Cr5Error(f"hubness of shape {values.shape} for {len(ids)} documents; give {len(ids)} x {extras} numbers")
    if not np.isfinite(values).all():
        raise Cr5Error("hubness is not finite; give numbers")
    last = {identity: row for row, identity in enumerate(ids)}
    return list(last), values[list(last.values())]


def queries(vectors: Floats, k: int, schema: pa.Schema) -> Floats:
    """Vectors that may be looked for."""
    rank = schema.field("vector").type.list_size
    vectors = np.asarray(vectors, np.float32)
    if vectors.ndim != 2 or vectors.shape[1] != rank:
        raise Cr5Error(f"queries of shape {vectors.shape} do not fit the index; give rows of {rank} numbers")
    if not np.isfinite(vectors).all():
        raise Cr5Error("a query is not finite; give numbers")
    if k < 1:
        raise Cr5Error(f"k {k} is not positive; ask for 1 document or more")
    return vectors


def known(columns: Sequence[str], schema: pa.Schema) -> list[str]:
    """Columns that there are, each once."""
    for name in columns:
        if name not in schema.names:
            raise Cr5Error(f"there is no column {quoted(name)}; choose from {', '.join(schema.names)}")
    return list(dict.fromkeys(columns))


def storable(texts: Collection[str]) -> list[str]:
    """Ids or languages to look for, each once, without those that no store can hold."""
    return [
        text for text in dict.fromkeys(texts) if "\0" not in text and text.encode(errors="replace").decode() == text
    ]


def in_order(table: pa.Table, ids: Sequence[str]) -> pa.Table:
    """The rows of a table in the order of ``ids``, without those that it lacks."""
    place = {identity: row for row, identity in enumerate(table["id"].to_pylist())}
    return table.take(pa.array([place[identity] for identity in ids if identity in place], pa.int64()))


def best_first(table: pa.Table, cosines: NDArray[Any], k: int) -> pa.Table:
    """The k rows with the largest cosines, which become a column; equals stay in their order."""
    order = np.argsort(-cosines, kind="stable")[:k]
    return table.take(order).append_column("cosine", pa.array(cosines[order].astype(np.float32)))


def matrix(column: pa.ChunkedArray) -> Floats:
    """A column of lists as rows x width."""
    parts = [chunk.flatten().to_numpy(zero_copy_only=False) for chunk in column.chunks]
    return np.concatenate(parts or [np.empty(0, np.float32)]).reshape(-1, column.type.list_size)


def digests(texts: Sequence[str]) -> NDArray[np.uint64]:
    """64 bits of each."""
    return np.frombuffer(b"".join(digest(text, 8) for text in texts), np.uint64)


def digest(text: str, size: int) -> bytes:
    """So many bytes that tell a text from others."""
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=size).digest()


def lists(values: NDArray[Any]) -> pa.FixedSizeListArray:
    """Rows x width as a column of lists."""
    return pa.FixedSizeListArray.from_arrays(
        pa.array(np.ascontiguousarray(values, np.float32).ravel()), values.shape[1]
    )
