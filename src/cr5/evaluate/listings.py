"""Lists in text files: an index split into its columns, a matrix into its cells, and what is wrong with a line."""

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
from cr5.corpus.formats import Bad, RecordError
from cr5.errors import CorpusError
from cr5.storage.compressed import READ_ERRORS, describe_error, open_decompressed

BLOCK = 16 << 20  # bytes of a matrix that are parsed at a time
MOSTLY = 0.9  # a column is what nine of ten of its values are
INTEGER = r"^[0-9]{1,18}$"
SKIP = "mend it, or leave such lines out with --on-error skip"


# Indices


class Columns(NamedTuple):
    """The columns of an index, and the line of each of its rows."""

    columns: list[pa.LargeStringArray]
    lines: Ints


def read_columns(path: Path, bad: Bad) -> Columns:
    """Split an index at its tabs, or at spaces where it has none; a short line ends in empty fields."""
    text, lines = _read_lines(b"".join(_pieces(path, BLOCK, bad, lambda _: None)), bad)
    if not len(text):
        raise CorpusError(f"{path}: empty; copy it again")
    separator = "\t"
    if not pc.any(pc.match_substring(text, "\t")).as_py():
        text, separator = pc.replace_substring_regex(pc.utf8_trim(text, " "), " +", " "), " "
    count = int(np.bincount(pc.count_substring(text, separator).to_numpy()).argmax()) + 1
    if count == 1:
        columns = [text]
    else:
        padded = pc.binary_join_element_wise(text, _text(separator * (count - 1)), _text(""))
        fields = pc.split_pattern(padded, separator, max_splits=count - 1).flatten()
        columns = [fields.take(pa.array(np.arange(i, len(fields), count))) for i in range(count)]
        columns[-1] = pc.utf8_rtrim(columns[-1], separator)
    if _is_header(columns):
        columns, lines = [column[1:] for column in columns], lines[1:]
    return Columns(columns, lines)


def _read_lines(data: bytes, bad: Bad) -> tuple[pa.LargeStringArray, Ints]:
    """The lines that are not blank, without their ends, and their numbers."""
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
                byte = f"byte 0x{line[error.start]:02x} at position {error.start + 1}"
                bad(number, "invalid UTF-8", f"{byte} is not UTF-8; {SKIP.replace('leave such lines out', 'go on')}")
                decoded.append(line.decode(errors="replace"))
        text = pa.array(decoded, pa.large_string())
    text = pc.utf8_rtrim(text, "\r\n")
    filled = pc.not_equal(pc.utf8_trim_whitespace(text), "")
    return text.filter(filled), np.flatnonzero(filled.to_numpy(zero_copy_only=False)) + 1


def _text(value: str) -> pa.LargeStringScalar:
    return pa.scalar(value, pa.large_string())


def _is_header(columns: list[pa.LargeStringArray]) -> bool:
    """Whether the first row, alone, holds no number where numbers stand."""
    numbers = [column for column in columns if len(column) > 1 and is_mostly(column[1:], INTEGER)]
    return bool(numbers) and not any(is_mostly(column[:1], INTEGER) for column in numbers)


def is_mostly(column: pa.LargeStringArray, pattern: str) -> bool:
    return bool(len(column)) and pc.mean(pc.match_substring_regex(column, pattern)).as_py() >= MOSTLY


# Matrices


class Cells(NamedTuple):
    """Some lines of a matrix, none with count zero: concept ``names[codes[i]]``, word ``ids[i]``, ``counts[i]``.

    ``lines`` gives their numbers, which are found out only where a block is read line by line.
    """

    names: list[str]
    codes: Ints
    ids: Ints
    counts: Ints
    lines: Ints | None
    block: tuple[bytes, int]


def read_cells(path: Path, bad: Bad, report: Callable[[int], None]) -> Iterator[Cells]:
    """Arrow parses a block at a time; a block that it cannot vouch for is read again line by line."""
    for block, first in _blocks(path, bad, report):
        cells = _parse(block, first) or _parse(_tidy(block), first) or parse_lines(block, first, bad)
        if len(cells.ids):
            yield cells


def _blocks(path: Path, bad: Bad, report: Callable[[int], None]) -> Iterator[tuple[bytes, int]]:
    """Blocks of whole lines, each with the number of its first line."""
    rest, first, broken = b"", 1, False

    def cut(line: int | None, reason: str, explanation: str) -> None:
        nonlocal broken
        broken = True
        bad(line, reason, explanation)

    for piece in _pieces(path, BLOCK, cut, report):
        end = piece.rfind(b"\n") + 1
        if not end:
            rest += piece
            if len(rest) > 4 * BLOCK:
                raise CorpusError(
                    f"{path}:{first}: a line of more than {4 * BLOCK >> 20} MB; this is no list of counts"
                )
            continue
        block, rest = rest + piece[:end], piece[end:]
        lines = block.count(b"\n")
        yield _without_header(block, first)
        first += lines
    if rest and not broken:  # of a file that is cut short, the last line is as well
        yield _without_header(rest, first)


def _without_header(block: bytes, first: int) -> tuple[bytes, int]:
    """Leave out the file's first line where it names the columns."""
    if first > 1:
        return block, first
    block = block.removeprefix(codecs.BOM_UTF8)
    line, _, others = block.partition(b"\n")
    fields = line.split()
    if len(fields) == 3 and not any(re.search(rb"[0-9]", field) for field in fields[1:]):
        return others, 2
    return block, 1


def _parse(block: bytes, first: int) -> Cells | None:
    """Parse a block of three fields a line, or None where it is anything else."""
    if b"\r" in block:
        return None
    for number in (pa.int64(), pa.float64()):
        with suppress(pa.ArrowInvalid):
            table = pyarrow.csv.read_csv(
                pa.BufferReader(block),
                pyarrow.csv.ReadOptions(
                    column_names=["concept", "id", "count"], use_threads=False, block_size=len(block) + 1
                ),
                pyarrow.csv.ParseOptions(delimiter=" ", quote_char=False),
                pyarrow.csv.ConvertOptions(
                    column_types={"concept": pa.dictionary(pa.int32(), pa.string()), "id": number, "count": number},
                    null_values=[],
                ),
            )
            ids, counts = (_whole(table[name].to_numpy()) for name in ("id", "count"))
            if ids is None or counts is None:
                return None
            concepts = table["concept"].combine_chunks()
            codes = concepts.indices.to_numpy()
            kept = counts != 0
            if not kept.all():
                codes, ids, counts = codes[kept], ids[kept], counts[kept]
            return Cells(concepts.dictionary.to_pylist(), codes, ids, counts, None, (block, first))
    return None


def _tidy(block: bytes) -> bytes:
    """One space between two fields, none around them, and a line feed behind a line."""
    block = block.replace(b"\t", b" ").replace(b"\r\n", b"\n")
    if b"  " in block:
        block = re.sub(rb" {2,}", b" ", block)
    return block.replace(b" \n", b"\n").replace(b"\n ", b"\n").strip(b" ")


def _whole(numbers: Array) -> Ints | None:
    if numbers.dtype == np.int64:
        return numbers
    return numbers.astype(np.int64) if (np.abs(numbers) < 2**53).all() and (numbers % 1 == 0).all() else None


def parse_lines(block: bytes, first: int, bad: Bad) -> Cells:
    """The same, line by line, with a complaint about each that is no cell."""
    names: dict[str, int] = {}
    cells = []
    for number, line in enumerate(_tidy(block).removesuffix(b"\n").split(b"\n"), first):
        if not line.strip(b" \r"):
            continue
        try:
            concept, id_, count = _parse_line(line.removesuffix(b"\r"))
        except RecordError as error:
            bad(number, error.reason, str(error))
            continue
        if count:
            cells.append((names.setdefault(concept, len(names)), id_, count, number))
    codes, ids, counts, lines = np.array(cells, np.int64).reshape(-1, 4).T
    return Cells(list(names), codes, ids, counts, lines, (block, first))


def _parse_line(line: bytes) -> tuple[str, int, int]:
    fields = line.split(b" ")
    if len(fields) != 3:
        words = "1 field" if len(fields) == 1 else f"{len(fields)} fields"
        raise RecordError("broken line", f"{words} instead of concept, word id and count; {SKIP}")
    try:
        concept = fields[0].decode()
    except UnicodeDecodeError as error:
        byte = f"byte 0x{line[error.start]:02x} at position {error.start + 1}"
        raise RecordError("invalid UTF-8", f"{byte} is not UTF-8; {SKIP}") from None
    return concept, _number(fields[1], "word id"), _number(fields[2], "count")


def _number(text: bytes, kind: str) -> int:
    if re.fullmatch(rb"[+-]?[0-9]{1,18}", text):
        return int(text)
    if re.fullmatch(rb"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?", text):
        value = float(text)
        if abs(value) < 2**53 and value.is_integer():
            return int(value)
    raise RecordError("broken line", f"{kind} '{text.decode(errors='replace')}' is no whole number; {SKIP}")


# Bytes


def _unpacked(raw: IO[bytes]) -> IO[bytes]:
    """What a file holds, compressed or not; a browser may have unpacked it and kept the name."""
    packed = raw.read(2) == b"\x1f\x8b"
    raw.seek(0)
    return open_decompressed(raw, ".gz" if packed else "")


def _pieces(path: Path, size: int, bad: Bad, report: Callable[[int], None]) -> Iterator[bytes]:
    """A file's content, about ``size`` bytes at a time; what stands before a damage is still given."""
    gathered = bytearray()
    try:
        with path.open("rb") as raw:
            stream = _unpacked(raw)
            while data := cast(Any, stream).read1(1 << 20):
                gathered += data
                if len(gathered) >= size:
                    yield bytes(gathered)
                    gathered.clear()
                    report(raw.tell())
    except READ_ERRORS as error:
        yield bytes(gathered)
        bad(None, "unreadable file", describe_error(error))
        return
    yield bytes(gathered)
