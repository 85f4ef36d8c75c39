"""The published text files as arrays: the columns of an index, the entries of a matrix."""

import codecs
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from cr5._typing import Array, Ints
from cr5.corpus.tables import ErrorReporter, RecordError, describe_byte
from cr5.errors import CorpusError
from cr5.storage.compressed import READ_ERRORS, describe_error, open_decompressed

BLOCK_BYTES = 16 << 20  # bytes of a matrix that are parsed at a time
MOST = 0.9  # a column has the type that at least this share of its values has
INTEGER = r"^[0-9]{1,18}$"
SKIP_LINES = 'correct it, or leave such lines out with `on_error="skip"`'
_LARGEST_FLOAT = 2**53  # whole numbers below it are exact as floats
_HEADER = re.compile(rb"[^ ]+( [^ 0-9]+){2}")


class Columns(NamedTuple):
    """The columns of an index, and the line number of each of its rows."""

    columns: list[pa.LargeStringArray]
    lines: Ints


def read_columns(path: Path, report_error: ErrorReporter) -> Columns:
    """Split an index at its tabs, or at spaces where it has none; a short line ends in empty fields."""
    text, lines = _decode_lines(b"".join(_read_blocks(path, BLOCK_BYTES, report_error)), report_error)
    if not len(text):
        raise CorpusError(f"{path}: empty; copy it again")
    separator = "\t"
    if not pc.any(pc.match_substring(text, "\t")).as_py():
        text, separator = pc.replace_substring_regex(pc.utf8_trim(text, " "), " +", " "), " "
    count = int(np.bincount(pc.count_substring(text, separator).to_numpy()).argmax()) + 1
    padding, nothing = (pa.scalar(value, pa.large_string()) for value in (separator * (count - 1), ""))
    padded = pc.binary_join_element_wise(text, padding, nothing)
    fields = pc.split_pattern(padded, separator, max_splits=count - 1).flatten() if count > 1 else text
    columns = [fields.take(pa.array(np.arange(i, len(fields), count))) for i in range(count)]
    columns[-1] = pc.utf8_rtrim(columns[-1], separator)
    numeric = [column for column in columns if len(column) > 1 and is_mostly(column[1:], INTEGER)]
    if numeric and not any(is_mostly(column[:1], INTEGER) for column in numeric):  # the first row is a header
        columns, lines = [column[1:] for column in columns], lines[1:]
    return Columns(columns, lines)


def is_mostly(column: pa.LargeStringArray, pattern: str) -> bool:
    """Whether most values of a column match a regular expression."""
    return bool(len(column)) and pc.mean(pc.match_substring_regex(column, pattern)).as_py() >= MOST


def _decode_lines(data: bytes, report_error: ErrorReporter) -> tuple[pa.LargeStringArray, Ints]:
    """The lines that are not blank, without line ends, and their numbers."""
    lines = data.split(b"\n")
    try:
        text = pa.array(lines, pa.large_binary()).cast(pa.large_string())
    except pa.ArrowInvalid:
        for number, line in enumerate(lines, 1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                advice = 'correct it, or replace such bytes with `on_error="skip"`'
                report_error(number, "invalid UTF-8", f"{describe_byte(error)}; {advice}")
        text = pa.array([line.decode(errors="replace") for line in lines], pa.large_string())
    text = pc.utf8_rtrim(text, "\r")
    filled = pc.not_equal(pc.utf8_trim_whitespace(text), "")
    return text.filter(filled), np.flatnonzero(filled.to_numpy(zero_copy_only=False)) + 1


class Block(NamedTuple):
    """Whole lines of a matrix, and the number of the first."""

    data: bytes
    first_line: int


class Entries(NamedTuple):
    """Some nonzero entries of a matrix: the i-th is ``counts[i]`` of ``word_ids[i]`` in ``concepts[codes[i]]``.

    ``lines`` are their line numbers, which are known only where a block was parsed line by line.
    """

    concepts: list[str]
    codes: Ints
    word_ids: Ints
    counts: Ints
    lines: Ints | None
    block: Block


def read_entries(
    path: Path, block_bytes: int, report_error: ErrorReporter, report_progress: Callable[[int], None]
) -> Iterator[Entries]:
    """Parse a matrix block by block; a block that Arrow cannot parse safely is parsed line by line."""
    first_line = 1
    for data in _read_blocks(path, block_bytes, report_error, report_progress):
        entries = _parse_block(Block(data, first_line), pa.int64())
        if entries is None:
            block = Block(_normalise_spaces(data), first_line)
            entries = _parse_block(block, pa.float64()) or parse_lines(block, report_error)
        if len(entries.word_ids):
            yield entries
        first_line += data.count(b"\n")


def _normalise_spaces(data: bytes) -> bytes:
    """Lines with one space between two fields, none around them, and a line feed at the end."""
    data = re.sub(rb" {2,}", b" ", data.replace(b"\t", b" ").replace(b"\r\n", b"\n"))
    return data.replace(b" \n", b"\n").replace(b"\n ", b"\n").strip(b" ")


def _parse_block(block: Block, number: pa.DataType) -> Entries | None:
    """Parse a block of three fields per line with Arrow; None where it contains anything else."""
    if b"\r" in block.data:
        return None
    names = ["concept", "id", "count"]
    types = [pa.dictionary(pa.int32(), pa.string()), number, number]
    try:
        table = pyarrow.csv.read_csv(
            pa.BufferReader(block.data),
            pyarrow.csv.ReadOptions(column_names=names, use_threads=False, block_size=len(block.data) + 1),
            pyarrow.csv.ParseOptions(delimiter=" ", quote_char=False),
            pyarrow.csv.ConvertOptions(column_types=dict(zip(names, types, strict=True)), null_values=[]),
        )
    except pa.ArrowInvalid:
        return None
    word_ids, counts = (_as_integers(table[name].to_numpy()) for name in ("id", "count"))
    if word_ids is None or counts is None:
        return None
    concepts = table["concept"].combine_chunks()
    codes, nonzero = concepts.indices.to_numpy(), counts != 0
    return Entries(concepts.dictionary.to_pylist(), codes[nonzero], word_ids[nonzero], counts[nonzero], None, block)


def _as_integers(numbers: Array) -> Ints | None:
    if not (np.abs(numbers) < _LARGEST_FLOAT).all():
        return None
    integers = numbers.astype(np.int64)
    return integers if (integers == numbers).all() else None


def parse_lines(block: Block, report_error: ErrorReporter) -> Entries:
    """Parse a block line by line, and report every line that is not an entry; a header is left out."""
    code_of: dict[str, int] = {}
    entries = []
    for number, line in enumerate(block.data.split(b"\n"), block.first_line):
        line = line.strip(b" \r")
        if not line or (number == 1 and _HEADER.fullmatch(line)):
            continue
        try:
            concept, word_id, count = _parse_line(line)
        except RecordError as error:
            report_error(number, error.reason, f"{error}; {SKIP_LINES}")
            continue
        if count:
            entries.append((code_of.setdefault(concept, len(code_of)), word_id, count, number))
    codes, word_ids, counts, numbers = np.array(entries, np.int64).reshape(-1, 4).T
    return Entries(list(code_of), codes, word_ids, counts, numbers, block)


def _parse_line(line: bytes) -> tuple[str, int, int]:
    fields = line.split(b" ")
    if len(fields) != 3:
        count = "1 field" if len(fields) == 1 else f"{len(fields)} fields"
        raise RecordError("broken line", f"{count} instead of concept, word id and count")
    try:
        concept = fields[0].decode()
    except UnicodeDecodeError as error:
        raise RecordError("invalid UTF-8", describe_byte(error)) from None
    return concept, _parse_number(fields[1], "word id"), _parse_number(fields[2], "count")


def _parse_number(text: bytes, name: str) -> int:
    if re.fullmatch(rb"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?", text):
        value = float(text)
        if value.is_integer() and abs(value) < _LARGEST_FLOAT:
            return int(value)
    raise RecordError("broken line", f"{name} '{text.decode(errors='replace')}' is not a whole number")


def _read_blocks(
    path: Path, size: int, report_error: ErrorReporter, report_progress: Callable[[int], None] = lambda position: None
) -> Iterator[bytes]:
    """The lines of a file, compressed or not, in blocks of about ``size`` bytes, up to where it is damaged."""
    block, damage = bytearray(), ""
    try:
        with path.open("rb") as raw:
            is_gzip = raw.read(2) == b"\x1f\x8b"  # a browser may have unpacked the file and kept its name
            raw.seek(0)
            stream = cast(Any, open_decompressed(raw, ".gz" if is_gzip else ""))
            block += stream.read1(1 << 20).removeprefix(codecs.BOM_UTF8)
            while data := stream.read1(1 << 20):
                block += data
                end = block.rfind(b"\n") + 1
                if len(block) >= size and end:
                    yield bytes(block[:end])
                    del block[:end]
                    report_progress(raw.tell())
                elif len(block) > 4 * size:
                    raise CorpusError(f"{path}: a line of more than {4 * size >> 20} MB; copy the file again")
    except READ_ERRORS as error:
        damage = describe_error(error)
    yield bytes(block[: block.rfind(b"\n") + 1] if damage else block)
    if damage:
        report_error(None, "unreadable file", damage)
