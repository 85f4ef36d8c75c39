"""Rows of a store as Arrow tables: their schema, the checks of rows that are written, and conversions."""

from collections.abc import Collection, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cr5.corpus.fields import FIELDS, NO_FIELDS, canonical_text
from cr5.corpus.tables import RecordError
from cr5.errors import Cr5Error, whole_number
from cr5.message_parts import quoted

MAX_KEY_BYTES = 1000  # size of an id or a language code; PostgreSQL's indexes hold little more
NORM_TOLERANCE = 1e-3  # how far the length of a vector may be from 1
TEXT_COLUMNS = ("id", "concept", "lang", "title", "url", "text", "digest")
PASSAGE_SEPARATOR = "\x1f"  # separates a document's id from a passage's number; no new document has it in its id

Floats: TypeAlias = NDArray[np.float32]


def make_schema(rank: int, language_count: int) -> pa.Schema:
    """The columns of a store of vectors of ``rank`` numbers, with one number of hubness for each language."""
    whole_number("rank", rank, 1)
    whole_number("language_count", language_count, 1)
    fields = [pa.field(name, pa.string(), nullable=False) for name in TEXT_COLUMNS]
    fields.append(pa.field("vector", pa.list_(pa.float32(), rank), nullable=False))
    fields.append(pa.field("hubness", pa.list_(pa.float32(), language_count), nullable=False))
    fields.append(pa.field(FIELDS, pa.string(), nullable=False))
    return pa.schema(fields)


def check_rows(rows: pa.RecordBatch | pa.Table, schema: pa.Schema) -> pa.Table:
    """Cast rows to the schema and check that they can be stored."""
    table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
    if FIELDS not in table.column_names:
        table = table.append_column(schema.field(FIELDS), pa.array([NO_FIELDS] * table.num_rows, pa.string()))
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
        check_each(table, pc.match_substring(table[name], "\0"), f"{name} contains a NUL character; remove it")
    for name in ("id", "lang"):
        keys = pc.replace_substring_regex(table[name], f"{PASSAGE_SEPARATOR}[0-9]+$", "")
        too_long = pc.greater(pc.binary_length(keys), MAX_KEY_BYTES)
        check_each(table, too_long, f"{name} has more than {MAX_KEY_BYTES} bytes; shorten it")
    lengths = np.linalg.norm(to_matrix(table["vector"]), axis=1)
    wrong = ~(np.abs(lengths - 1) <= NORM_TOLERANCE)  # NaN is wrong as well
    check_each(table, pa.array(wrong), "the vector does not have length 1; normalise it, or leave out zero vectors")
    infinite = ~np.isfinite(to_matrix(table["hubness"])).all(axis=1)
    check_each(table, pa.array(infinite), "hubness is not finite")
    fields = [_canonical_fields(*pair) for pair in zip(table["id"].to_pylist(), table[FIELDS].to_pylist(), strict=True)]
    return table.set_column(table.column_names.index(FIELDS), schema.field(FIELDS), pa.array(fields, pa.string()))


def _canonical_fields(document_id: str, text: str) -> str:
    try:
        return canonical_text(text)
    except RecordError as error:
        raise Cr5Error(f"document {quoted(document_id)}: {error}") from None


def check_each(table: pa.Table, wrong: pa.Array, message: str, error: type[Cr5Error] = Cr5Error) -> None:
    """Raise an error that names the first document for which ``wrong`` is true."""
    rows = np.flatnonzero(np.asarray(wrong))
    if len(rows):
        raise error(f"document {quoted(table['id'][int(rows[0])].as_py())}: {message}")


def valid_keys(texts: Collection[str]) -> list[str]:
    """The valid keys among ids or languages: unique, encodable as UTF-8, without NUL."""
    return [
        text for text in dict.fromkeys(texts) if "\0" not in text and text.encode(errors="replace").decode() == text
    ]


def take_ids(table: pa.Table, ids: Sequence[str]) -> pa.Table:
    """The rows with these ids, in the order of the ids; missing ones are left out."""
    row_of = {document_id: row for row, document_id in enumerate(table["id"].to_pylist())}
    return table.take(pa.array([row_of[document_id] for document_id in ids if document_id in row_of], pa.int64()))


def take_best(table: pa.Table, scores: NDArray[Any], k: int, name: str = "cosine") -> pa.Table:
    """The k rows with the largest scores, which are added as a column; ties stay in their order."""
    order = np.argsort(-scores, kind="stable")[:k]
    return table.take(order).append_column(name, pa.array(scores[order].astype(np.float32)))


def to_matrix(column: pa.ChunkedArray) -> Floats:
    """A column of fixed-size lists -> rows x width."""
    parts = [chunk.flatten().to_numpy(zero_copy_only=False) for chunk in column.chunks]
    return np.concatenate(parts or [np.empty(0, np.float32)]).reshape(-1, column.type.list_size)


def to_lists(values: NDArray[Any]) -> pa.FixedSizeListArray:
    """rows x width -> a column of fixed-size lists."""
    return pa.FixedSizeListArray.from_arrays(
        pa.array(np.ascontiguousarray(values, np.float32).ravel()), values.shape[1]
    )
