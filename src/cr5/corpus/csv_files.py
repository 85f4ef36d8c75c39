"""CSV and TSV files as numbered records, in a bounded amount of memory.

What is wrong with a line is reported as in ``tables``; after a quote that is not closed, reading goes on at the next.
"""

import csv
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import IO

from cr5.corpus.tables import (
    BLOCK_LINES,
    DEFAULT_LIMITS,
    ErrorReporter,
    NumberedRecords,
    ReadLimits,
    describe_utf8_error,
    line_blocks,
)

_DELIMITERS = ",;\t|"
_EXCEL_DELIMITER = re.compile(r"sep=(.)\s*")
_QUOTED_LINES = 100  # lines that are compared to distinguish a quoted field of several lines from a quote in a text
_SWALLOWED_LINES = 10  # complete records within a quoted field that are taken as the sign of a quote that is not closed
_MAX_REREAD = 4  # how often a line may be read again after broken quoting, on average
_TSV_FIELD = r'(?:"(?:[^"]|"")*+"|(?!")[^\t\n]*+)'
_TSV_RECORD = re.compile(rf"(?:{_TSV_FIELD}\t)*+{_TSV_FIELD}\r?\n?")
_TSV_OPEN = re.compile(rf'(?:{_TSV_FIELD}\t)*+"(?:[^"]|"")*+')  # ends within a quoted field


class _RecordLines:
    """The lines of a CSV file, which can be read again from the second line of the current record on."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines, self._again = lines, deque[str]()
        self.record: list[str] = []  # lines of the current record
        self.last = self._read = self._reread = 0  # number of the last line; lines read from the file, and read again

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if self._again:
            line = self._again.popleft()
        else:
            line = next(self._lines)
            self._read += 1
        self.last += 1
        self.record.append(line)
        return line

    def begin_record(self) -> int:
        """Forget the record before, and return the number of the next line."""
        self.record = []
        return self.last + 1

    def return_to_second_line(self) -> bool:
        """Go back, unless that has happened for so many lines that the time would grow with their square."""
        further = self.record[1:]
        if self._reread + len(further) > _MAX_REREAD * self._read:
            return False
        self._again.extendleft(reversed(further))
        self.last -= len(further)
        self._reread += len(further)
        return True

    def has_other_records(self, columns: int, delimiter: str) -> bool:
        """Whether nearly all lines after the first are records themselves, since a quote was not closed."""
        further = self.record[1:]
        complete = sum(line.count(delimiter) == columns - 1 for line in further)
        return columns > 1 and len(further) >= _SWALLOWED_LINES and complete >= 0.9 * len(further)


def csv_records(
    stream: IO[bytes],
    report: ErrorReporter,
    check_header: Callable[[Sequence[str]], str | None],
    *,
    delimiter: str = ",",
    block_lines: int = BLOCK_LINES,
    limits: ReadLimits = DEFAULT_LIMITS,
) -> NumberedRecords:
    """The rows of a CSV file, quoted as in RFC 4180, under a header that names the columns.

    Columns are separated by the comma, semicolon, tab or bar that makes the most columns of the header; if several do,
    by ``delimiter``. Many TSV files do not quote fields: if a line has the right number of columns only when its quotes
    are text, they are text. After a quote that is not closed, reading goes on at the next line. ``check_header``
    explains what is wrong with the header, or returns None; a file with a bad header is not read.
    """
    undecodable: list[tuple[int, int, str]] = []  # lines as the reader counts them, as the file does, and why

    def decoded_lines() -> Iterator[str]:
        index = 0
        for first, block in line_blocks(stream, report, block_lines, limits):
            # What follows the last line break is empty, except in a file that does not end with one.
            for number, line in enumerate(block.removesuffix(b"\n").split(b"\n"), first):
                index += 1
                try:
                    yield line.decode() + "\n"
                except UnicodeDecodeError as error:
                    undecodable.append((index, number, describe_utf8_error(error)))
                    yield line.decode(errors="replace") + "\n"

    # This limit is global to the process. Its default, 131072 characters, is too low for a document.
    csv.field_size_limit(max(csv.field_size_limit(), limits.line_bytes))
    delimiter, decoded = _find_delimiter(decoded_lines(), delimiter)
    lines = _RecordLines(_escape_literal_quotes(decoded) if delimiter == "\t" else decoded)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    header: list[str] | None = None
    while True:
        line, row, problem = lines.begin_record(), list[str](), None
        try:
            row = next(reader)
        except StopIteration:
            if header is None:
                report(None, "empty file", "empty, without a header; remove it or write one")
            return
        except csv.Error as error:
            problem = _quoting_problem(str(error))
        if header is not None and problem is None and lines.has_other_records(len(header), delimiter):
            problem = "broken quoting, a quote is not closed; double every quote and quote the field around it"
        last = lines.last
        if problem is not None:
            if header is not None and lines.return_to_second_line():
                reader = csv.reader(lines, delimiter=delimiter, strict=True)  # after an error, it may be in a field
            elif last > line:
                problem += f"; the {last - line + 1:,} lines from here to line {last:,} are left out"
            report(line, "broken CSV", problem)
            if header is None:
                return
            undecodable[:] = [bad for bad in undecodable if bad[0] > lines.last]
        elif undecodable and undecodable[0][0] <= last:
            _, bad_line, explanation = undecodable[0]
            undecodable[:] = [bad for bad in undecodable if bad[0] > last]
            report(bad_line, "invalid UTF-8", explanation)
            if header is None:
                return
        elif not row:
            continue
        elif header is None:
            header = row
            if missing := check_header(header):
                report(line, "missing column", missing)
                return
        elif len(row) != len(header):
            where = f" in lines {line:,} to {last:,}" if last > line else ""
            sizes = f"{len(row)} fields{where} under a header of {len(header)}"
            report(line, "broken CSV", f"{sizes}; quote a field that holds a delimiter or a line break")
        else:
            yield line, dict(zip(header, row, strict=True))


def _quoting_problem(error: str) -> str:
    """What the csv module has found, in the words of a person who has a file."""
    if "new-line character" in error:
        return (
            "a carriage return without a line feed; if it ends the line, as in old files, convert the file with "
            "tr '\\r' '\\n', otherwise quote the field"
        )
    what = "a quote is not closed" if error == "unexpected end of data" else error.replace("'\t'", "tab")
    return f"broken quoting, {what}; double every quote and quote the field around it"


def _find_delimiter(lines: Iterator[str], default: str) -> tuple[str, Iterator[str]]:
    """The delimiter of a CSV file, and its lines; Excel's first line sep=; becomes an empty one."""
    start: list[str] = []
    for line in lines:
        start.append(line)
        if declared := _EXCEL_DELIMITER.fullmatch(line):
            return declared[1], chain([*start[:-1], "\n"], lines)
        if line.strip():
            break
    header = start[-1:]

    def columns(delimiter: str) -> tuple[int, bool]:
        try:
            return len(next(csv.reader(header, delimiter=delimiter), [])), delimiter == default
        except csv.Error:
            return 0, delimiter == default

    return max(_DELIMITERS, key=columns), chain(start, lines)


def _escape_literal_quotes(lines: Iterator[str]) -> Iterator[str]:
    """The lines of a TSV file, those whose quotes are text rewritten as RFC 4180 has it.

    A quoted header means that the file uses quoting. Otherwise the quotes of a line are text if it has the right number
    of columns only when they are read as text. A quoted field may go on over further lines, but not if each of these
    lines has all columns on its own.
    """
    header = ""
    while not header.strip() and (header := next(lines, "")):
        yield header
    if header.startswith('"') or '\t"' in header:
        yield from lines
        return
    tabs = header.count("\t")
    ahead: deque[str] = deque()  # lines that were read to decide about an earlier one

    def following() -> Iterator[str]:
        yield from list(ahead)
        for line in islice(lines, max(_QUOTED_LINES - len(ahead), 0)):
            ahead.append(line)
            yield line

    def is_literal(line: str) -> bool:
        if not tabs or line.count("\t") != tabs:
            return False
        if _TSV_RECORD.fullmatch(line):
            return len(next(csv.reader([line], delimiter="\t"))) != tabs + 1
        if _TSV_OPEN.fullmatch(line):
            for other in following():
                if other.count("\t") != tabs:
                    return False
                if not _TSV_OPEN.fullmatch(f'"{other}'):
                    break
        return True

    is_open = False
    while line := ahead.popleft() if ahead else next(lines, ""):
        if '"' in line and not is_open and is_literal(line):
            fields = line.rstrip("\r\n").replace('"', '""').split("\t")
            yield "\t".join(f'"{field}"' for field in fields) + "\n"
            continue
        if '"' in line:
            is_open = bool(_TSV_OPEN.fullmatch(f'"{line}' if is_open else line))
        yield line
