"""The published text files as arrays: the columns of an index, the entries of a matrix."""

import codecs
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from cr5._typing import Array, Ints
from cr5.corpus.tables import ErrorReporter, RecordError
from cr5.errors import CorpusError
from cr5.storage.compressed import READ_ERRORS, describe_error, open_decompressed

BLOCK_BYTES = 16 << 20  # of a matrix, parsed at a time
MOST = 0.9  # a column has the type that nine of ten of its values have
INTEGER = r"^[0-9]{1,18}$"
SKIP_LINES = 'correct it, or leave such lines out with `on_error="skip"`'


# Indices


class Columns(NamedTuple):
    """The columns of an index, and the line number of each of its rows."""

    columns: list[pa.LargeStringArray]
    lines: Ints


def read_columns(path: Path, report_error: ErrorReporter) -> Columns:
    """Split an index at its tabs, or at spaces where it has none; a short line ends in empty fields."""
    text, lines = _read_lines(b"".join(_read_chunks(path, BLOCK_BYTES, report_error, lambda _: None)), report_error)
    if not len(text):
        raise CorpusError(f"{path}: empty; copy it again")
    separator = "\t"
    if not pc.any(pc.match_substring(text, "\t")).as_py():
        text, separator = pc.replace_substring_regex(pc.utf8_trim(text, " "), " +", " "), " "
    count = int(np.bincount(pc.count_substring(text, separator).to_numpy()).argmax()) + 1
    if count == 1:
        columns = [text]
    else:
        padding, nothing = (pa.scalar(value, pa.large_string()) for value in (separator * (count - 1), ""))
        padded = pc.binary_join_element_wise(text, padding, nothing)
        fields = pc.split_pattern(padded, separator, max_splits=count - 1).flatten()
        columns = [fields.take(pa.array(np.arange(i, len(fields), count))) for i in range(count)]
        columns[-1] = pc.utf8_rtrim(columns[-1], separator)
    if _has_header(columns):
        columns, lines = [column[1:] for column in columns], lines[1:]
    return Columns(columns, lines)


def _read_lines(data: bytes, report_error: ErrorReporter) -> tuple[pa.LargeStringArray, Ints]:
    """The lines that are not blank, without line ends, and their numbers."""
    data = data.removeprefix(codecs.BOM_UTF8)
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n")) + 1
    offsets = np.concatenate([[0], ends, [len(data)] if len(data) > (ends[-1] if len(ends) else 0) else []])
    offsets = offsets.astype(np.int64)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    array = pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)
    try:
        text = array.cast(pa.large_string())
    except pa.ArrowInvalid:
        decoded = []
        for number, line in enumerate(array.to_pylist(), 1):
            try:
                decoded.append(line.decode())
            except UnicodeDecodeError as error:
                advice = 'correct it, or replace such bytes with `on_error="skip"`'
                report_error(number, "invalid UTF-8", f"{_describe_byte(line, error)}; {advice}")
                decoded.append(line.decode(errors="replace"))
        text = pa.array(decoded, pa.large_string())
    text = pc.utf8_rtrim(text, "\r\n")
    filled = pc.not_equal(pc.utf8_trim_whitespace(text), "")
    return text.filter(filled), np.flatnonzero(filled.to_numpy(zero_copy_only=False)) + 1


def _describe_byte(line: bytes, error: UnicodeDecodeError) -> str:
    return f"byte 0x{line[error.start]:02x} at position {error.start + 1} is not UTF-8"


def _has_header(columns: list[pa.LargeStringArray]) -> bool:
    """Whether the first row, and only that, contains no number in the columns of numbers."""
    numeric = [column for column in columns if len(column) > 1 and is_mostly(column[1:], INTEGER)]
    return bool(numeric) and not any(is_mostly(column[:1], INTEGER) for column in numeric)


def is_mostly(column: pa.LargeStringArray, pattern: str) -> bool:
    """Whether most values of a column match a regular expression."""
    return bool(len(column)) and pc.mean(pc.match_substring_regex(column, pattern)).as_py() >= MOST


# Matrices


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
    for block in _read_blocks(path, block_bytes, report_error, report_progress):
        entries = _parse_block(block) or _parse_block(_normalise_spaces(block)) or parse_lines(block, report_error)
        if len(entries.word_ids):
            yield entries


def _read_blocks(
    path: Path, block_bytes: int, report_error: ErrorReporter, report_progress: Callable[[int], None]
) -> Iterator[Block]:
    rest, first_line, truncated = b"", 1, False

    def report_damage(line: int | None, reason: str, explanation: str) -> None:
        nonlocal truncated
        truncated = True
        report_error(line, reason, explanation)

    for chunk in _read_chunks(path, block_bytes, report_damage, report_progress):
        end = chunk.rfind(b"\n") + 1
        if not end:
            rest += chunk
            if len(rest) > 4 * block_bytes:
                size = 4 * block_bytes >> 20
                raise CorpusError(f"{path}:{first_line}: a line of more than {size} MB; this is not a list of counts")
            continue
        data, rest = rest + chunk[:end], chunk[end:]
        yield _without_header(Block(data, first_line))
        first_line += data.count(b"\n")
    if rest and not truncated:  # the last line of a truncated file is truncated as well
        yield _without_header(Block(rest, first_line))


def _without_header(block: Block) -> Block:
    """The block without the file's first line where that names the columns."""
    if block.first_line > 1:
        return block
    data = block.data.removeprefix(codecs.BOM_UTF8)
    line, _, others = data.partition(b"\n")
    fields = line.split()
    if len(fields) == 3 and not any(re.search(rb"[0-9]", field) for field in fields[1:]):
        return Block(others, 2)
    return Block(data, 1)


def _parse_block(block: Block) -> Entries | None:
    """Parse a block of three fields per line with Arrow; None where it contains anything else."""
    if b"\r" in block.data:
        return None
    for number in (pa.int64(), pa.float64()):
        with suppress(pa.ArrowInvalid):
            table = pyarrow.csv.read_csv(
                pa.BufferReader(block.data),
                pyarrow.csv.ReadOptions(
                    column_names=["concept", "id", "count"], use_threads=False, block_size=len(block.data) + 1
                ),
                pyarrow.csv.ParseOptions(delimiter=" ", quote_char=False),
                pyarrow.csv.ConvertOptions(
                    column_types={"concept": pa.dictionary(pa.int32(), pa.string()), "id": number, "count": number},
                    null_values=[],
                ),
            )
            word_ids, counts = (_as_integers(table[name].to_numpy()) for name in ("id", "count"))
            if word_ids is None or counts is None:
                return None
            concepts = table["concept"].combine_chunks()
            codes = concepts.indices.to_numpy()
            nonzero = counts != 0
            if not nonzero.all():
                codes, word_ids, counts = codes[nonzero], word_ids[nonzero], counts[nonzero]
            return Entries(concepts.dictionary.to_pylist(), codes, word_ids, counts, None, block)
    return None


def _normalise_spaces(block: Block) -> Block:
    """The block with one space between two fields, none around them, and a line feed at the end of a line."""
    data = block.data.replace(b"\t", b" ").replace(b"\r\n", b"\n")
    if b"  " in data:
        data = re.sub(rb" {2,}", b" ", data)
    return Block(data.replace(b" \n", b"\n").replace(b"\n ", b"\n").strip(b" "), block.first_line)


def _as_integers(numbers: Array) -> Ints | None:
    if numbers.dtype == np.int64:
        return numbers
    return numbers.astype(np.int64) if (np.abs(numbers) < 2**53).all() and (numbers % 1 == 0).all() else None


def parse_lines(block: Block, report_error: ErrorReporter) -> Entries:
    """Parse a block line by line, and report every line that is not an entry."""
    code_of: dict[str, int] = {}
    entries = []
    lines = _normalise_spaces(block).data.removesuffix(b"\n").split(b"\n")
    for number, line in enumerate(lines, block.first_line):
        if not line.strip(b" \r"):
            continue
        try:
            concept, word_id, count = _parse_line(line.removesuffix(b"\r"))
        except RecordError as error:
            report_error(number, error.reason, str(error))
            continue
        if count:
            entries.append((code_of.setdefault(concept, len(code_of)), word_id, count, number))
    codes, word_ids, counts, numbers = np.array(entries, np.int64).reshape(-1, 4).T
    return Entries(list(code_of), codes, word_ids, counts, numbers, block)


def _parse_line(line: bytes) -> tuple[str, int, int]:
    fields = line.split(b" ")
    if len(fields) != 3:
        found = "1 field" if len(fields) == 1 else f"{len(fields)} fields"
        raise RecordError("broken line", f"{found} instead of concept, word id and count; {SKIP_LINES}")
    try:
        concept = fields[0].decode()
    except UnicodeDecodeError as error:
        raise RecordError("invalid UTF-8", f"{_describe_byte(line, error)}; {SKIP_LINES}") from None
    return concept, _parse_number(fields[1], "word id"), _parse_number(fields[2], "count")


def _parse_number(text: bytes, name: str) -> int:
    if re.fullmatch(rb"[+-]?[0-9]{1,18}", text):
        return int(text)
    if re.fullmatch(rb"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?", text):
        value = float(text)
        if abs(value) < 2**53 and value.is_integer():
            return int(value)
    raise RecordError("broken line", f"{name} '{text.decode(errors='replace')}' is not a whole number; {SKIP_LINES}")


# Bytes


def _decompress(raw: IO[bytes]) -> IO[bytes]:
    """The content of a file, compressed or not: a browser may have unpacked it and kept its name."""
    is_gzip = raw.read(2) == b"\x1f\x8b"
    raw.seek(0)
    return open_decompressed(raw, ".gz" if is_gzip else "")


def _read_chunks(
    path: Path, size: int, report_error: ErrorReporter, report_progress: Callable[[int], None]
) -> Iterator[bytes]:
    """A file's content, about ``size`` bytes at a time, up to where it is damaged."""
    chunk = bytearray()
    damage = ""
    try:
        with path.open("rb") as raw:
            stream = _decompress(raw)
            while data := cast(Any, stream).read1(1 << 20):
                chunk += data
                if len(chunk) >= size:
                    yield bytes(chunk)
                    chunk.clear()
                    report_progress(raw.tell())
    except READ_ERRORS as error:
        damage = describe_error(error)
    yield bytes(chunk)
    if damage:
        report_error(None, "unreadable file", damage)
