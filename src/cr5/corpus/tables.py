"""Table files: lines, JSONL and Parquet as numbered records, in a bounded amount of memory.

What is wrong with a line is passed to ``report(line, reason, explanation)``, and reading goes on after it. The caller
knows the name of the file and decides whether to raise or to count.
"""

import codecs
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cr5.message_parts import quoted, with_article
from cr5.storage.text_encodings import as_utf8

ErrorReporter: TypeAlias = Callable[[int | None, str, str], None]
"""Called with a line number (None for the whole file), a short reason and an explanation that says what to do."""
Record: TypeAlias = Mapping[str, object]
NumberedRecords: TypeAlias = Iterator[tuple[int, Record]]
"""Records with the line, or the row of Parquet, that each begins in, from 1."""

REPEATED_KEY = "repeated key"  # the reason for skipping such a line
_TYPE_NAMES = {
    type(None): "null", bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list",
    dict: "an object",
}  # fmt: skip
_MAX_INTEGER_DIGITS = 4000  # int() refuses more than 4300
BLOCK_LINES = 4000  # lines that are parsed together
_PLAIN_TYPES = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}


class RecordError(Exception):
    """A record that cannot be used: a short reason, and an explanation as the message."""

    def __init__(self, reason: str, explanation: str) -> None:
        super().__init__(explanation)
        self.reason = reason


@dataclass(frozen=True)
class ReadLimits:
    """How many bytes of a file are read and decoded at a time.

    A batch holds about ``batch_bytes``, or one longer document. ``shard_bytes`` of a file are read by one worker.
    """

    chunk_bytes: int = 8 << 20
    batch_bytes: int = 16 << 20
    line_bytes: int = 256 << 20
    shard_bytes: int = 64 << 20


DEFAULT_LIMITS = ReadLimits()


def describe_byte(error: UnicodeDecodeError) -> str:
    """Which byte of a line or text is not UTF-8."""
    return f"byte 0x{error.object[error.start]:02x} at position {error.start + 1} is not UTF-8"


def describe_utf8_error(error: UnicodeDecodeError) -> str:
    """Which byte of a line or text is not UTF-8, and what to do."""
    return f"{describe_byte(error)}; convert the file, e.g. with iconv -f windows-1252 -t utf-8"


def list_columns(names: Sequence[str]) -> str:
    """The names of columns as messages list them: the first 20, shortened to 40 characters, padded ones in quotes."""
    shortened = [name if len(name) <= 40 else name[:40] + "…" for name in names[:20]]
    shown = [name if name == name.strip() else repr(name) for name in shortened]
    return ", ".join([*shown, f"and {len(names) - 20:,} more"] if len(names) > 20 else shown)


def column_problem(names: Sequence[str], required: Collection[str], optional: Iterable[str], advice: str) -> str | None:
    """What is wrong with the columns of a table, one is missing or occurs twice; None if nothing is.

    ``advice`` says what to do about missing ones.
    """
    if missing := [name for name in required if name not in names]:
        if len(names) == 1 and len(missing) > 1 and all(name in names[0] for name in missing):
            advice = "separate the columns by commas, semicolons, tabs or bars"
        elif {name.lower() for name in missing} & {name.strip().lower() for name in names}:
            advice = f"names must match exactly, with the same capitals and no extra spaces; {advice}"
        listed = " or ".join(f"'{name}'" for name in missing)
        return f"no column {listed}, {f'only {list_columns(names)}' if names else 'nor any other'}; {advice}"
    for name in dict.fromkeys([*required, *optional]):
        if names.count(name) > 1:
            return f"column '{name}' occurs {names.count(name)} times; rename all but one"
    return None


def type_problem(schema: pa.Schema, names: Iterable[str], with_integers: str) -> str | None:
    """What is wrong with the types of columns of text, of which one may have integers; None if nothing is."""
    for field in [schema.field(name) for name in names if name in schema.names]:
        if not _is_text_type(field.type, or_integers=field.name == with_integers):
            return f"column '{field.name}' is {field.type}, not string; write it as strings"
    return None


def _is_text_type(column_type: pa.DataType, *, or_integers: bool) -> bool:
    """Whether a column has strings or nothing but nulls, or integers where these are allowed."""
    if pa.types.is_dictionary(column_type):
        column_type = column_type.value_type
    accepted = [pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_null]
    return any(is_type(column_type) for is_type in accepted + [pa.types.is_integer] * or_integers)


def check_text(value: object, name: str) -> str:
    """The value of the field or column ``name`` if it is a string of valid Unicode, or its bytes in UTF-8."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            problem = f"{name} is not UTF-8 at byte {error.start + 1}; write it again as UTF-8"
            raise RecordError("invalid UTF-8", problem) from None
    if not isinstance(value, str):
        type_name = _TYPE_NAMES.get(type(value), with_article(type(value).__name__))
        raise RecordError("wrong type", f"{name} is {type_name}, not a string; write it as a string")
    return check_unicode(value, name)


def check_unicode(value: str, name: str) -> str:
    """The value of the field or column ``name`` if UTF-8 can encode it."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        code = f"\\u{ord(value[error.start]):04x}"
        raise RecordError("lone surrogate", f"{name} contains a lone surrogate, {code}; remove it") from None
    return value


def line_blocks(
    stream: IO[bytes], report: ErrorReporter, max_lines: int = BLOCK_LINES, limits: ReadLimits = DEFAULT_LIMITS
) -> Iterator[tuple[int, bytes]]:
    """Blocks of at most ``max_lines`` complete lines, each with the number of its first line."""
    line, rest, skipping = 1, bytearray(), False
    chunk = stream.read(limits.chunk_bytes)
    if converted := as_utf8(stream, chunk):
        stream, chunk = converted, converted.read(limits.chunk_bytes)
    chunk = chunk.removeprefix(codecs.BOM_UTF8)
    while chunk:
        start = 0
        if skipping and (start := chunk.find(b"\n") + 1):
            line, skipping = line + 1, False
        ends = np.flatnonzero(np.frombuffer(chunk, np.uint8) == ord("\n")) + 1
        if skipping:
            start = len(chunk)
        if start:
            ends = ends[ends > start]
        # Cut after every max_lines-th line of the chunk, and after its last complete line.
        for end in dict.fromkeys([*ends[max_lines - 1 :: max_lines].tolist(), *ends[-1:].tolist()]):
            block = bytes(rest) + chunk[start:end]
            yield line, block
            line, start = line + block.count(b"\n"), end
            rest.clear()
        rest += chunk[start:]
        if len(rest) > limits.line_bytes:
            report(
                line,
                "line too long",
                f"a line of more than {limits.line_bytes >> 20} MB; put every record on its own line",
            )
            rest.clear()
            skipping = True
        chunk = stream.read(limits.chunk_bytes)
    if rest:
        yield line, bytes(rest)


def parse_json(line: bytes) -> Record:
    """The JSON object on a line, in which no key may occur twice."""
    try:
        record = json.loads(line.decode(), parse_int=_parse_integer, object_pairs_hook=_without_repeated_keys)
    except UnicodeDecodeError as error:
        raise RecordError("invalid UTF-8", describe_utf8_error(error)) from None
    except (json.JSONDecodeError, RecursionError) as error:
        problem = "nested too deeply"
        if isinstance(error, json.JSONDecodeError):
            problem = f"{error.msg.lower().removesuffix(' at')} at column {error.colno}"
        raise RecordError("broken JSON", f"broken JSON, {problem}; write one object on every line") from None
    if not isinstance(record, dict):
        type_name = _TYPE_NAMES[type(record)]
        raise RecordError("broken JSON", f"{type_name}, not a JSON object; write one object on every line")
    return record


def _without_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in record if names.count(name) > 1)
        problem = f"key {quoted(repeated)} occurs {names.count(repeated)} times in an object; keep one of them"
        raise RecordError(REPEATED_KEY, problem)
    return record


def _parse_integer(digits: str) -> float:
    return int(digits) if len(digits) <= _MAX_INTEGER_DIGITS else float(digits)


def json_records(
    block: bytes, first_line: int, report: ErrorReporter, parse: Callable[[bytes], Record] = parse_json
) -> NumberedRecords:
    """The objects in a block of lines; blank lines are skipped."""
    for number, line in enumerate(block.split(b"\n"), first_line):
        if not line.strip(b" \t\r"):
            continue
        try:
            record = parse(line)
        except RecordError as error:
            report(number, error.reason, str(error))
        else:
            yield number, record


@contextmanager
def open_parquet(stream: Any) -> Iterator[pq.ParquetFile]:
    """A Parquet file; if any of it cannot be read within the block, raise an ``OSError`` for ``describe_error``."""
    try:
        yield pq.ParquetFile(stream, buffer_size=1 << 20)  # otherwise a whole column of a row group is in memory
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.strerror:
            raise
        raise OSError("or not a Parquet file") from None  # described as "corrupt, or not a Parquet file"


def parquet_batches(
    file: pq.ParquetFile,
    columns: Sequence[str],
    max_rows: int,
    limits: ReadLimits = DEFAULT_LIMITS,
    skip_group: Callable[[int], bool] = lambda group: False,
) -> Iterator[tuple[int, pa.RecordBatch | None]]:
    """Batches of a Parquet file with the number of their first row; None for a row group that is skipped."""
    row = 1
    for group in range(file.num_row_groups):
        metadata = file.metadata.row_group(group)
        if skip_group(group):
            yield row, None
            row += metadata.num_rows
            continue
        fitting = limits.batch_bytes * metadata.num_rows // max(metadata.total_byte_size, 1)
        for batch in file.iter_batches(max(1, min(max_rows, fitting)), row_groups=[group], columns=list(columns)):
            for part in split_by_size(batch, limits.batch_bytes):
                yield row, part
                row += part.num_rows


def split_by_size(batch: pa.RecordBatch, max_bytes: int) -> Iterator[pa.RecordBatch]:
    """A batch in parts of at most ``max_bytes``, or of one row. Strings that are views become plain ones."""
    yield from _halves(pa.RecordBatch.from_arrays(list(map(_plain, batch.columns)), batch.schema.names), max_bytes)


def _plain(column: pa.Array) -> pa.Array:
    """A column without views, whose size Arrow before version 24 cannot tell."""
    if pa.types.is_dictionary(column.type):
        return pa.DictionaryArray.from_arrays(column.indices, _plain(column.dictionary))
    return column.cast(_PLAIN_TYPES[column.type]) if column.type in _PLAIN_TYPES else column


def _halves(batch: pa.RecordBatch, max_bytes: int) -> Iterator[pa.RecordBatch]:
    if batch.nbytes <= max_bytes or batch.num_rows == 1:
        yield batch
    else:
        yield from _halves(batch.slice(0, batch.num_rows // 2), max_bytes)
        yield from _halves(batch.slice(batch.num_rows // 2), max_bytes)


def row_records(batch: pa.RecordBatch, first: int) -> NumberedRecords:
    """The rows of a batch, of which the first has the number ``first``."""
    columns = map(_cells, batch.columns)
    for number, cells in enumerate(zip(*columns, strict=True), first):
        yield number, dict(zip(batch.schema.names, cells, strict=True))


def _cells(column: pa.Array) -> list[Any]:
    """The values of a column; as bytes if some are not UTF-8, which Arrow does not check. Structs have no nulls."""
    try:
        values = list(column.to_pylist(maps_as_pydicts="strict"))
    except UnicodeDecodeError:
        plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        return list(plain.cast(pa.binary()).to_pylist())
    if not pa.types.is_struct(column.type):
        return values
    return [row and {name: value for name, value in row.items() if value is not None} for row in values]
