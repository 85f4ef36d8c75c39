"""File formats: one file's bytes <-> rows of concept, lang, text, title and url.

A reader reports what is wrong through ``bad(line, reason, explanation)`` and goes on behind it; its
caller knows the file's name and decides whether a mistake raises or counts. Memory is bounded by a
batch, whatever the size of the file.
"""

import codecs
import csv
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import IO, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq
from numpy.typing import NDArray

SCHEMA = pa.schema([(name, pa.string()) for name in ("concept", "lang", "text", "title", "url")])
"""The columns of a corpus."""

BATCH_BYTES = 16 << 20
"""About the most that a batch holds; a longer document stands alone."""
CHUNK_BYTES = 8 << 20
LONGEST_LINE = 256 << 20
ROW_GROUP_BYTES = 32 << 20

Bad: TypeAlias = Callable[[int | None, str, str], None]
Rows: TypeAlias = tuple[pa.RecordBatch, NDArray[np.int64]]
Record: TypeAlias = Mapping[str, object]

_REQUIRED = ("concept", "lang", "text")
_INTEGER_CONCEPT = SCHEMA.set(0, pa.field("concept", pa.int64()))
# UTF-32 first: its little-endian mark begins with that of UTF-16.
_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
_KINDS = {type(None): "null", bool: "a boolean", int: "a number", float: "a number", list: "a list", dict: "an object"}


class RecordError(Exception):
    """A record that is no document: why, in a word and in a sentence."""

    def __init__(self, reason: str, explanation: str) -> None:
        super().__init__(explanation)
        self.reason = reason


# Records: what every format agrees on


def check(record: Record, langs: Collection[str] | None, unit: str) -> tuple[str, ...] | None:
    """A record's five fields, or None where its language is not asked for."""
    lang = _field(record, "lang", unit)
    if langs is not None and lang not in langs:
        return None
    return tuple(lang if name == "lang" else _field(record, name, unit) for name in SCHEMA.names)


def _field(record: Record, name: str, unit: str) -> str:
    value = record.get(name)
    needs = f"every {unit} needs concept, lang and text"
    if value is None:
        if name not in _REQUIRED:
            return ""
        missing = f"field '{name}' is null" if name in record else f"no field '{name}'"
        raise RecordError("missing field", f"{missing}; {needs}")
    if name == "concept" and type(value) is int and -(2**63) <= value < 2**63:
        return str(value)
    if not isinstance(value, str):
        kind = _KINDS.get(type(value), f"a {type(value).__name__}")
        raise RecordError("wrong type", f"field '{name}' is {kind}, not a string; write it as a string")
    if name in _REQUIRED and not value.strip():
        raise RecordError("empty field", f"field '{name}' is empty; {needs}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        code = f"\\u{ord(value[error.start]):04x}"
        raise RecordError("lone surrogate", f"field '{name}' holds half a character, {code}; remove it") from None
    return value


def gather(
    records: Iterable[tuple[int, Record]], bad: Bad, langs: Collection[str] | None, batch_rows: int, unit: str
) -> Iterator[Rows]:
    """Check numbered records and put them into batches.

    Good records of other languages leave an empty batch behind, so that a caller can tell them from none.
    """
    kept: list[tuple[str, ...]] = []
    lines: list[int] = []
    size = seen = 0
    for line, record in records:
        try:
            fields = check(record, langs, unit)
        except RecordError as error:
            bad(line, error.reason, str(error))
            continue
        seen += 1
        if fields is None:
            continue
        kept.append(fields)
        lines.append(line)
        size += 2 * sum(map(len, fields))  # a character is one to four bytes
        if len(kept) >= batch_rows or size >= BATCH_BYTES:
            yield _rows(kept, lines)
            kept, lines, size, seen = [], [], 0, 0
    if seen:
        yield _rows(kept, lines)


def _rows(fields: list[tuple[str, ...]], lines: list[int]) -> Rows:
    columns = zip(*fields, strict=True) if fields else [()] * len(SCHEMA)
    arrays = [pa.array(column, pa.string()) for column in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA), np.array(lines, np.int64)


def _settle(rows: pa.RecordBatch, first: int, langs: Collection[str] | None) -> Rows | None:
    """What ``gather`` makes of these rows of valid UTF-8, or None where it would complain."""
    lines = np.arange(first, first + rows.num_rows, dtype=np.int64)
    if _lacks(rows["lang"]):
        return None
    if langs is not None:
        chosen = pc.is_in(rows["lang"], pa.array(list(langs), pa.string()))
        rows, lines = rows.filter(chosen), lines[chosen.to_numpy(zero_copy_only=False)]
    if _lacks(rows["concept"]) or _lacks(rows["text"]):
        return None
    columns = [rows[name] if name in _REQUIRED else rows[name].fill_null("") for name in SCHEMA.names]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA), lines


def _lacks(column: pa.StringArray) -> bool:
    """Whether any value is null, empty or blank."""
    return bool(column.null_count or pc.any(pc.or_(pc.equal(column, ""), pc.utf8_is_space(column))).as_py())


def _wrong_columns(names: list[str]) -> str | None:
    for name in SCHEMA.names:
        if name in _REQUIRED and name not in names:
            return f"no column '{name}', only {', '.join(names)}; a corpus needs concept, lang and text"
        if names.count(name) > 1:
            return f"column '{name}' occurs {names.count(name)} times; rename all but one"
    return None


def _not_utf8(error: UnicodeDecodeError) -> str:
    byte = error.object[error.start]
    return f"byte 0x{byte:02x} at position {error.start + 1} is not UTF-8; convert the file with iconv -t utf-8"


# Lines


def _blocks(stream: IO[bytes], bad: Bad, batch_rows: int) -> Iterator[tuple[int, bytes]]:
    """Blocks of at most ``batch_rows`` whole lines, each with the number of its first line."""
    line, rest = 1, bytearray()
    chunk = stream.read(CHUNK_BYTES)
    for mark, name in _MARKS.items():
        if chunk.startswith(mark):
            bad(None, "unknown encoding", f"{name}, not UTF-8; convert it with iconv -f {name.lower()} -t utf-8")
            return
    chunk = chunk.removeprefix(codecs.BOM_UTF8)
    while chunk:
        ends = np.flatnonzero(np.frombuffer(chunk, np.uint8) == ord("\n")) + 1
        start = 0
        # Cut behind every batch_rows-th line of the chunk, and behind its last whole line.
        for end in dict.fromkeys([*ends[batch_rows - 1 :: batch_rows].tolist(), *ends[-1:].tolist()]):
            block = bytes(rest) + chunk[start:end]
            yield line, block
            line, start = line + block.count(b"\n"), end
            rest.clear()
        rest += chunk[start:]
        if len(rest) > LONGEST_LINE:
            bad(line, "line too long", f"a line of more than {LONGEST_LINE >> 20} MB; break the file into lines")
            return
        chunk = stream.read(CHUNK_BYTES)
    if rest:
        yield line, bytes(rest)


def read_jsonl(stream: IO[bytes], bad: Bad, langs: Collection[str] | None, batch_rows: int) -> Iterator[Rows]:
    """Arrow parses a block at a time; a block that it cannot vouch for is read again line by line."""
    for first, block in _blocks(stream, bad, batch_rows):
        rows = _parse(block)
        settled = None if rows is None else _settle(rows, first, langs)
        if settled is not None:
            yield settled
        else:
            yield from gather(_json_records(block, first, bad), bad, langs, batch_rows, "line")


def _parse(block: bytes) -> pa.RecordBatch | None:
    """Parse a block with one JSON object on every line, or None where it is anything else."""
    body = (block.replace(b"\r\n", b"\n") if b"\r" in block else block).rstrip(b"\n")
    lines = body.count(b"\n") + 1
    # Arrow takes a line break for any other space. Between } and { it can only stand between two
    # objects, and then as many rows as lines means one object on each.
    if not (body.startswith(b"{") and body.endswith(b"}") and body.count(b"}\n{") == lines - 1 and _is_utf8(body)):
        return None
    for schema in (SCHEMA, _INTEGER_CONCEPT):
        with suppress(pa.ArrowException):
            table = pyarrow.json.read_json(
                pa.BufferReader(body),
                read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(body) + 1),
                parse_options=pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
            )
            if table.num_rows == lines:
                return table.cast(SCHEMA).combine_chunks().to_batches()[0]
    return None


def _is_utf8(data: bytes) -> bool:
    """Whether bytes decode, without decoding them."""
    offsets = pa.py_buffer(np.array([0, len(data)], np.int64))
    try:
        pa.Array.from_buffers(pa.large_string(), 1, [None, offsets, pa.py_buffer(data)]).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _json_records(block: bytes, first: int, bad: Bad) -> Iterator[tuple[int, Record]]:
    for number, line in enumerate(block.split(b"\n"), first):
        if not line.strip(b" \t\r"):
            continue
        try:
            record = _json_record(line)
        except RecordError as error:
            bad(number, error.reason, str(error))
        else:
            yield number, record


def _json_record(line: bytes) -> Record:
    try:
        record = json.loads(line.decode(), parse_int=_integer)
    except UnicodeDecodeError as error:
        raise RecordError("invalid UTF-8", _not_utf8(error)) from None
    except (json.JSONDecodeError, RecursionError) as error:
        # Arrow knows spellings that Python does not, such as Inf. A line must not depend on its neighbours.
        if (rows := _parse(line.removesuffix(b"\r"))) is not None:
            return rows.to_pylist()[0]  # type: ignore[no-any-return]
        about = f"{error.msg.lower()} at column {error.colno}" if isinstance(error, ValueError) else "nested too deeply"
        raise RecordError("broken JSON", f"broken JSON, {about}; write one object on every line") from None
    if not isinstance(record, dict):
        kind = _KINDS.get(type(record), "a string")
        raise RecordError("broken JSON", f"{kind}, not a JSON object; write one object on every line")
    return record


def _integer(digits: str) -> float:
    return int(digits) if len(digits) <= 20 else float(digits)  # int refuses thousands of digits


def read_csv(
    stream: IO[bytes], bad: Bad, langs: Collection[str] | None, batch_rows: int, *, delimiter: str = ","
) -> Iterator[Rows]:
    """Quoted as RFC 4180 says, under a header that names the columns."""
    return gather(_csv_records(stream, bad, batch_rows, delimiter), bad, langs, batch_rows, "row")


def _csv_records(stream: IO[bytes], bad: Bad, batch_rows: int, delimiter: str) -> Iterator[tuple[int, Record]]:
    undecoded: dict[int, str] = {}  # line -> explanation, of the record that is being read

    def decoded() -> Iterator[str]:
        for first, block in _blocks(stream, bad, batch_rows):
            # The part behind the last line break is empty, except in a file that ends without one.
            for number, line in enumerate(block.removesuffix(b"\n").split(b"\n"), first):
                try:
                    yield line.decode() + "\n"
                except UnicodeDecodeError as error:
                    undecoded[number] = _not_utf8(error)
                    yield line.decode(errors="replace") + "\n"

    # The limit belongs to the process. The module's own, 131072 characters, is too short for a document.
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))
    reader = csv.reader(decoded(), delimiter=delimiter, strict=True)
    header: list[str] | None = None
    while True:
        line = reader.line_num + 1
        undecoded.clear()
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            bad(line, "broken CSV", f"broken quoting, {error}; double every quote and quote the field around it")
            if header is None:
                return
            continue
        if undecoded:
            wrong, explanation = next(iter(undecoded.items()))
            bad(wrong, "invalid UTF-8", explanation)
            if header is None:
                return
        elif not row:
            continue
        elif header is None:
            header = row
            if complaint := _wrong_columns(header):
                bad(line, "missing column", complaint)
                return
        elif len(row) != len(header):
            about = f"{len(row)} fields under a header of {len(header)}"
            bad(line, "broken CSV", f"{about}; quote a field that holds a delimiter or a line break")
        else:
            yield line, dict(zip(header, row, strict=True))


# Parquet


def read_parquet(stream: Any, bad: Bad, langs: Collection[str] | None, batch_rows: int) -> Iterator[Rows]:
    """Row group by row group; one without a language that is asked for is not decoded."""
    file = pq.ParquetFile(stream, buffer_size=1 << 20)
    if explanation := _wrong_columns(file.schema_arrow.names):
        bad(None, "missing column", explanation)
        return
    names = [name for name in SCHEMA.names if name in file.schema_arrow.names]
    for name in names:
        if not _is_text(kind := file.schema_arrow.field(name).type, name):
            bad(None, "wrong type", f"column '{name}' is {kind}, not string; write it as strings")
            return
    row = 1
    for group in range(file.num_row_groups):
        about = file.metadata.row_group(group)
        if langs is not None and _elsewhere(file.read_row_group(group, ["lang"])["lang"], langs):
            row += about.num_rows
            yield _rows([], [])
            continue
        fitting = BATCH_BYTES * about.num_rows // max(about.total_byte_size, 1)
        for batch in file.iter_batches(max(1, min(batch_rows, fitting)), row_groups=[group], columns=names):
            for part in _halves(batch):
                yield from _parquet_rows(part, row, bad, langs, batch_rows)
                row += part.num_rows


def _is_text(kind: pa.DataType, name: str) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    return bool(text) or (name == "concept" and bool(pa.types.is_integer(kind))) or bool(pa.types.is_null(kind))


def _elsewhere(lang: pa.ChunkedArray, langs: Collection[str]) -> bool:
    """Whether a whole column is good and of other languages."""
    found = pc.unique(lang).to_pylist()
    return bool(found) and all(code and code.strip() and code not in langs for code in found)


def _halves(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch in parts that are no larger than a batch may be."""
    if batch.nbytes <= BATCH_BYTES or batch.num_rows == 1:
        yield batch
    else:
        yield from _halves(batch.slice(0, batch.num_rows // 2))
        yield from _halves(batch.slice(batch.num_rows // 2))


def _parquet_rows(
    batch: pa.RecordBatch, first: int, bad: Bad, langs: Collection[str] | None, batch_rows: int
) -> Iterator[Rows]:
    columns = [
        batch[name].cast(pa.string()) if name in batch.schema.names else pa.nulls(batch.num_rows, pa.string())
        for name in SCHEMA.names
    ]
    rows = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
    settled = None
    with suppress(pa.ArrowInvalid):  # Parquet may hold anything and call it UTF-8
        rows.validate(full=True)
        settled = _settle(rows, first, langs)
    if settled is not None:
        yield settled
    else:
        yield from gather(_cells(rows, first, bad), bad, langs, batch_rows, "row")


def _cells(rows: pa.RecordBatch, first: int, bad: Bad) -> Iterator[tuple[int, Record]]:
    columns = [column.cast(pa.binary()).to_pylist() for column in rows.columns]
    for number, cells in enumerate(zip(*columns, strict=True), first):
        try:
            record = {
                name: cell if cell is None else cell.decode() for name, cell in zip(SCHEMA.names, cells, strict=True)
            }
        except UnicodeDecodeError as error:
            bad(number, "invalid UTF-8", _not_utf8(error))
        else:
            yield number, record


# Writing


def write_jsonl(stream: IO[bytes], batches: Iterable[pa.RecordBatch]) -> int:
    """One object a line, without an empty title or url."""
    count = 0
    for batch in batches:
        lines = [json.dumps(_without_blanks(record), ensure_ascii=False) + "\n" for record in batch.to_pylist()]
        stream.write("".join(lines).encode())
        count += batch.num_rows
    return count


def _without_blanks(record: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in record.items() if value or name in _REQUIRED}


def write_csv(stream: IO[bytes], batches: Iterable[pa.RecordBatch], *, delimiter: str = ",") -> int:
    """A header and a row a document, every field in quotes."""
    count = 0
    options = pyarrow.csv.WriteOptions(delimiter=delimiter)
    with pyarrow.csv.CSVWriter(stream, SCHEMA, write_options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
            count += batch.num_rows
    return count


def write_parquet(stream: IO[bytes], batches: Iterable[pa.RecordBatch]) -> int:
    """Row groups of about 32 MB, compressed with Zstandard."""
    count = size = 0
    waiting: list[pa.RecordBatch] = []
    with pq.ParquetWriter(stream, SCHEMA, compression="zstd") as writer:
        for batch in batches:
            waiting.append(batch)
            count, size = count + batch.num_rows, size + batch.nbytes
            if size >= ROW_GROUP_BYTES:
                writer.write_table(pa.Table.from_batches(waiting))
                waiting, size = [], 0
        if waiting:
            writer.write_table(pa.Table.from_batches(waiting))
    return count


READERS: dict[str, Callable[[Any, Bad, Collection[str] | None, int], Iterator[Rows]]] = {
    ".jsonl": read_jsonl,
    ".csv": read_csv,
    ".tsv": partial(read_csv, delimiter="\t"),
    ".parquet": read_parquet,
}
WRITERS: dict[str, Callable[[IO[bytes], Iterable[pa.RecordBatch]], int]] = {
    ".jsonl": write_jsonl,
    ".csv": write_csv,
    ".tsv": partial(write_csv, delimiter="\t"),
    ".parquet": write_parquet,
}
