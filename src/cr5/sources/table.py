"""A table: any CSV, TSV, JSONL or Parquet file, whose columns have names of their own."""

import codecs
import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from cr5.corpus.documents import Document, place
from cr5.errors import CorpusError
from cr5.sources.files import LONGEST_LINE, ErrorHandler, lines, opened, raise_error
from cr5.sources.source import Parameter, Source
from cr5.storage.compressed import split_suffix

Row: TypeAlias = Mapping[str, object]
Rows: TypeAlias = Iterator[tuple[int, Row]]
"""Rows and their places: lines of a file, or rows of Parquet, from 1."""

BATCH_BYTES = 16 << 20  # of Parquet that are decoded at a time
_SUFFIXES = {".csv", ".tsv", ".jsonl", ".ndjson", ".parquet"}
_FORMATS = ".csv, .tsv, .jsonl and .ndjson, also with .gz, .bz2 or .xz behind it, and .parquet"
_KINDS = {bool: "a boolean", list: "a list", dict: "an object"}


class _CellError(Exception):
    """A cell that is no text: why, in a word and in a sentence."""

    def __init__(self, reason: str, explanation: str) -> None:
        super().__init__(explanation)
        self.reason = reason


@dataclass(frozen=True)
class _Columns:
    """Which column is what; "" is none."""

    concept: str
    lang: str
    texts: Mapping[str, Sequence[str]]  # by language
    title: str
    url: str
    optional: frozenset[str]
    wide: bool

    @property
    def names(self) -> list[str]:
        """All of them, each once."""
        texts = [column for columns in self.texts.values() for column in columns]
        return list(dict.fromkeys(name for name in (self.concept, self.lang, *texts, self.title, self.url) if name))

    def check(self, source: str, there: Sequence[str]) -> None:
        """Raise an error if a required column is missing or occurs twice."""
        for name in self.names:
            if name not in there and name not in self.optional:
                names = ", ".join(there)
                raise CorpusError(
                    f"{source}: no column '{name}', only {names}; name the right one, e.g. with `text_column`"
                )
            if there.count(name) > 1:
                raise CorpusError(f"{source}: column '{name}' occurs {there.count(name)} times; rename all but one")


def read_table(
    paths: Annotated[Sequence[Path], Parameter("Files.", metavar="FILE")],
    *,
    concept_column: Annotated[str, Parameter("What a row is about.", metavar="NAME")] = "concept",
    lang_column: Annotated[str, Parameter("Its language; - to detect it in the text.", metavar="NAME")] = "lang",
    text_column: Annotated[
        Sequence[str], Parameter("Its text; may be repeated, the texts are joined.", metavar="NAME")
    ] = "text",
    title_column: Annotated[str, Parameter("Its title.", metavar="NAME")] = "title",
    url_column: Annotated[str, Parameter("Its address.", metavar="NAME")] = "url",
    lang: Annotated[str | None, Parameter("The language of all rows.", metavar="CODE")] = None,
    wide: Annotated[
        Mapping[str, str] | None,
        Parameter("One column per language, e.g. --wide it=testo; may be repeated.", metavar="CODE=NAME"),
    ] = None,
    delimiter: str = "",
    handle_error: ErrorHandler = raise_error,
) -> Iterator[Document]:
    """Read the rows of tables as documents, by the names of their columns.

    With ``lang``, all rows are in this language; otherwise it is in ``lang_column``, or "" if that is "-". Several text
    columns are joined with line breaks. A ``wide`` table has one column per language, {"en": "english_text",
    "it": "testo"}; empty cells are allowed there, and if it has no column "concept", every row is a concept of its own,
    named by file and line. The columns "title" and "url" may be missing; columns of other names may not. Numbers become
    strings. ``delimiter`` defaults to that of the suffix. Memory is bounded by a row, or by a part of a Parquet file.
    """
    texts = {code: [name] for code, name in wide.items()} if wide is not None else {lang or "": _several(text_column)}
    if not any(texts.values()):
        raise CorpusError("no text column; name one in `text_column`, or one for each language in `wide`")
    optional: set[str] = {name for name in ("title", "url") if name in (title_column, url_column)}
    if wide and concept_column == "concept":
        optional.add(concept_column)
    by_row = lang_column if lang_column != "-" and not lang and not wide else ""
    columns = _Columns(concept_column, by_row, texts, title_column, url_column, frozenset(optional), bool(wide))
    tables = [table for path in paths for table in _tables(path)]
    names = [path.name for path in tables]
    for path in tables:
        name = path.name if names.count(path.name) == 1 else str(path)
        for line, row in _rows(path, columns, delimiter, handle_error):
            is_concept = concept_column in optional and concept_column not in row
            numbered = f"{name}:{line}" if is_concept else ""
            yield from _documents(row, columns, numbered, place(str(path), line), handle_error)


def _several(text: str | Sequence[str]) -> Sequence[str]:
    return [text] if isinstance(text, str) else text


def _documents(
    row: Row, columns: _Columns, numbered: str, where: str, handle_error: ErrorHandler
) -> Iterator[Document]:
    try:
        concept = numbered or _cell(row, columns.concept)
        if not concept.strip():
            raise _CellError("empty field", f"column '{columns.concept}' is empty; every row needs a concept")
        found = {code: [_cell(row, name) for name in names] for code, names in columns.texts.items()}
        lang, title, url = (_cell(row, name) for name in (columns.lang, columns.title, columns.url))
        texts = {code: "\n".join(part for part in parts if part.strip()) for code, parts in found.items()}
        if not columns.wide and not any(texts.values()):
            empty = " and ".join(f"'{name}'" for name in next(iter(columns.texts.values())))
            raise _CellError("empty field", f"no text in {empty}; every row needs some")
    except _CellError as error:
        handle_error(error.reason, f"{where}: {error}")
        return
    for code, text in texts.items():
        if text:
            yield Document(concept, code or lang, text, title, url)


def _cell(row: Row, name: str) -> str:
    value = row.get(name)
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError as error:
            about = f"column '{name}' is no UTF-8 at byte {error.start + 1}; write it again as UTF-8"
            raise _CellError("invalid UTF-8", about) from None
    if value is None or value != value:  # NaN is how some tools write nothing
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # as are 12.0 and the like where others are missing
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        kind = _KINDS.get(type(value), f"a {type(value).__name__}")
        raise _CellError("wrong type", f"column '{name}' is {kind}, not a string; write it as a string")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        code = f"\\u{ord(value[error.start]):04x}"
        raise _CellError("lone surrogate", f"column '{name}' holds half a character, {code}; remove it") from None
    return value


# Formats


def _tables(path: Path) -> list[Path]:
    """A file, or the tables below a folder."""
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.rglob("*") if _suffix(file) in _SUFFIXES and not file.name.startswith("."))
    if not found:
        raise CorpusError(f"{path}: no table in this folder; the formats are {_FORMATS}")
    return found


def _suffix(path: Path) -> str:
    return Path(split_suffix(path.name.lower())[0]).suffix


def _rows(path: Path, columns: _Columns, delimiter: str, handle_error: ErrorHandler) -> Rows:
    match _suffix(path):
        case ".csv":
            return _csv_rows(path, columns, delimiter or ",", handle_error)
        case ".tsv":
            return _csv_rows(path, columns, delimiter or "\t", handle_error)
        case ".jsonl" | ".ndjson":
            return _json_rows(path, columns, handle_error)
        case ".parquet":
            return _parquet_rows(path, columns)
    raise CorpusError(f"{path}: unknown suffix '{path.suffix}'; the formats are {_FORMATS}")


def _csv_rows(path: Path, columns: _Columns, delimiter: str, handle_error: ErrorHandler) -> Rows:
    with opened(path) as stream:
        broken = False  # whether the row that is being read has a line that is no text

        def text() -> Iterator[str]:
            nonlocal broken
            number = 0
            while line := stream.readline(LONGEST_LINE):  # a longer one is a field that is too long
                number += 1
                if number == 1:
                    line = line.removeprefix(codecs.BOM_UTF8)
                try:
                    yield line.decode()
                except UnicodeDecodeError as error:
                    about = f"byte {error.start + 1} is no UTF-8; convert it with iconv"
                    handle_error("invalid UTF-8", f"{path}:{number}: {about}")
                    broken = True
                    yield line.decode(errors="replace")  # its quotes still count

        # The limit belongs to the process. The module's own, 131072 characters, is too short for a document.
        csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))
        reader = csv.reader(text(), delimiter=delimiter, strict=True)
        header: list[str] | None = None
        while True:
            line, broken = reader.line_num + 1, False
            try:
                row = next(reader)
            except StopIteration:
                break
            except csv.Error as error:
                about = f"broken quoting, {error}; double every quote and quote the field around it"
                handle_error("broken CSV", f"{path}:{line}: {about}")
                continue
            if broken or not row:
                continue
            if header is None:
                header = row
                columns.check(str(path), header)
            elif len(row) != len(header):
                about = f"{len(row)} fields under a header of {len(header)}"
                handle_error(
                    "broken CSV", f"{path}:{line}: {about}; quote a field that holds a delimiter or a line break"
                )
            else:
                yield line, dict(zip(header, row, strict=True))
        if header is None:
            handle_error("empty file", f"{path}: empty, without a header; remove it or write one")


def _json_rows(path: Path, columns: _Columns, handle_error: ErrorHandler) -> Rows:
    texts = {name for names in columns.texts.values() for name in names}
    first = True
    with opened(path) as stream:
        for number, line in enumerate(lines(stream, str(path), handle_error), 1):
            if line is None or not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                about = (
                    f"{error.msg.lower()} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
                )
                about = about or "a number too long or nested too deeply"
                handle_error("broken JSON", f"{path}:{number}: broken JSON, {about}; write one object on every line")
                continue
            if not isinstance(row, dict):
                handle_error("broken JSON", f"{path}:{number}: no JSON object; write one object on every line")
                continue
            if first:  # texts may be missing one by one, but not all of them
                columns.check(str(path), [*row, *(texts - row.keys() if texts & row.keys() else ())])
                first = False
            yield number, row


def _parquet_rows(path: Path, columns: _Columns) -> Rows:
    with opened(path) as stream:
        try:
            file = pq.ParquetFile(stream, buffer_size=1 << 20)
            columns.check(str(path), file.schema_arrow.names)
            wanted = [name for name in columns.names if name in file.schema_arrow.names]
            number = 0
            for group in range(file.num_row_groups):
                about = file.metadata.row_group(group)
                fitting = max(1, min(500, BATCH_BYTES * about.num_rows // max(about.total_byte_size, 1)))
                for batch in file.iter_batches(fitting, row_groups=[group], columns=wanted):
                    for row in zip(*map(_values, batch.columns), strict=True):
                        number += 1
                        yield number, dict(zip(batch.schema.names, row, strict=True))
        except pa.ArrowException:
            raise CorpusError(f"{path}: corrupt, or not a Parquet file; copy or download it again") from None


def _values(column: Any) -> list[object]:
    """A column's cells; bytes where not all of them are UTF-8, as Parquet may hold anything and call it so."""
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        return list(plain.cast(pa.binary()).to_pylist())


TABLE = Source(
    "table",
    read_table,
    help="""Tables with columns of any names: .csv, .tsv, .jsonl or .parquet.

    Rows that are about the same have the same concept. A wide table has all
    languages of it in one row, each in a column. Examples:

        cr5 corpus table news.csv --concept-column story -o corpus.parquet

        cr5 corpus table news.csv --text-column head --text-column body -o a.csv

        cr5 corpus table pairs.tsv --wide en=english --wide it=testo -o b.csv

        cr5 corpus table it.csv --lang it -o it.parquet
    """,
)
