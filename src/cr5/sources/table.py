"""A table: a CSV, TSV, JSONL or Parquet file with columns of any name."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Annotated, Any

from cr5.corpus.csv_files import csv_records
from cr5.corpus.documents import Document, location
from cr5.corpus.encodings import langs_of_rows, western_as_utf8
from cr5.corpus.fields import FIELDS, fields_text, parse_fields
from cr5.corpus.languages import checked_code, language_columns
from cr5.corpus.tables import (
    ErrorReporter,
    NumberedRecords,
    ReadLimits,
    Record,
    RecordError,
    check_text,
    column_problem,
    json_records,
    line_blocks,
    list_columns,
    open_parquet,
    parquet_batches,
    row_records,
)
from cr5.corpus.texts import is_missing
from cr5.errors import ColumnsNotKept, CorpusError, warn
from cr5.sources.accounting import Accounting, UnusableInputError
from cr5.sources.files import open_source
from cr5.sources.input_files import matching_files
from cr5.sources.source import ParameterHelp, Source
from cr5.storage.compressed import split_suffix

_FILE_NAME = re.compile(r".+\.(?:(?:csv|tsv|jsonl|ndjson)(?:\.(?:gz|bz2|xz))?|parquet)", re.IGNORECASE)
_FORMATS = ".csv, .tsv, .jsonl and .ndjson, which .gz, .bz2 or .xz may follow, and .parquet"
_LIMITS = ReadLimits(chunk_bytes=1 << 18, line_bytes=64 << 20)
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]+)?")
_MAX_HEADER_CHARACTERS = 80  # a longer name of a column is a text
_PARQUET_ROWS = 500  # rows decoded at a time


@dataclass(frozen=True)
class _Columns:
    """The names of the columns; "" for one that is not used."""

    concept: str
    lang: str
    texts: Mapping[str, Sequence[str]]  # by language
    title: str
    url: str
    fields: Sequence[str]
    optional: frozenset[str]
    wide: bool
    not_used: set[str] = field(default_factory=set)  # columns that a warning has named

    @property
    def names(self) -> list[str]:
        """All names, each once."""
        texts = [column for columns in self.texts.values() for column in columns]
        named = (self.concept, self.lang, self.title, self.url)
        return list(dict.fromkeys(name for name in (*named, *texts, *self.fields, FIELDS) if name))

    def row_lang(self, row: Record) -> str:
        """The language of a row that cannot be used, "" if it does not name one."""
        lang = row.get(self.lang) or next(iter(self.texts))
        return lang if isinstance(lang, str) and not self.wide else ""

    def langs(self, text: str, delimiter: str | None) -> set[str]:
        """The languages of the rows, as far as a part of the table shows them."""
        return langs_of_rows(text, self.lang, delimiter) if self.lang else {*self.texts} - {""}

    def _remedy(self, name: str, available: Sequence[str]) -> str:
        """What to do about a column that is missing."""
        if max(map(len, available), default=0) > _MAX_HEADER_CHARACTERS:
            return "the first line does not seem to be a header; write one that names the columns"
        is_wide = self.wide and name not in (self.concept, self.lang)
        if name not in (self.title, self.url) and not is_wide and (codes := language_columns(available)):
            return f"name the column of every language with {' '.join(f'`wide={code}={code}`' for code in codes[:3])}"
        if name in self.fields:
            return "name the columns of the fields with `field_column`"
        if name == self.concept:
            return "name the column that says what a row is about with `concept_column`"
        if name == self.lang:
            return "name the column of the language with `lang_column`, or the language of all rows with `lang`"
        if name in (self.title, self.url):
            return "name the right one with `title_column` or `url_column`"
        wide = next((code for code, names in self.texts.items() if name in names and self.wide), "")
        return (
            f"name the column of {wide} with `wide={wide}=NAME`" if wide else "name that of the text with `text_column`"
        )

    def check(self, source: str, available: Sequence[str]) -> None:
        """Raise an error if a table lacks a required column or has one twice; warn, once, of those not used."""
        required = [name for name in self.names if name not in self.optional]
        if problem := column_problem(available, required, self.names, self._remedies(required, available)):
            raise CorpusError(f"{source}: {problem}")
        if others := [name for name in available if name and name not in {*self.names, *self.not_used, "lang"}]:
            self.not_used.update(others)
            problem = f"{source}: columns that are not used: {list_columns(others)}"
            advice = f"to keep {'it' if len(others) == 1 else 'them'} as fields of the documents, use `field_column`"
            if self.concept in self.optional and self.concept not in available:
                advice += "; if one says what a row is about, name it with `concept_column`"
            warn(f"{problem}; {advice}", ColumnsNotKept)

    def _remedies(self, required: Sequence[str], available: Sequence[str]) -> str:
        missing = [name for name in required if name not in available]
        remedies = list(dict.fromkeys(self._remedy(name, available) for name in missing))
        if len(remedies) > 1 and self.lang in missing and {*self.texts.get("", ())} & {*missing}:
            remedies.append("or name a column for each language with `wide`, as in `wide=en=english`")
        return "; ".join(remedies)


def read_table(
    paths: Annotated[Sequence[Path], ParameterHelp("Files.", metavar="FILE")],
    *,
    concept_column: Annotated[str, ParameterHelp("Column of the concept.", metavar="NAME")] = "concept",
    lang_column: Annotated[
        str, ParameterHelp("Column of the language; - to guess it from the text.", metavar="NAME")
    ] = "lang",
    text_column: Annotated[
        Sequence[str], ParameterHelp("Column of the text; may be repeated, the texts are joined.", metavar="NAME")
    ] = "text",
    title_column: Annotated[str, ParameterHelp("Column of the title.", metavar="NAME")] = "title",
    url_column: Annotated[str, ParameterHelp("Column of the URL.", metavar="NAME")] = "url",
    field_column: Annotated[
        Sequence[str],
        ParameterHelp("Column to keep as a field of the documents, e.g. year; may be repeated.", metavar="NAME"),
    ] = (),
    lang: Annotated[str | None, ParameterHelp("Language of all rows, instead of a column.", metavar="CODE")] = None,
    wide: Annotated[
        Mapping[str, str] | None,
        ParameterHelp(
            "Column of one language in a wide table, e.g. --wide it=testo; may be repeated.", metavar="CODE=NAME"
        ),
    ] = None,
    accounting: Accounting | None = None,
) -> Iterator[Document]:
    """Read the rows of tables as documents, by the names of their columns.

    With ``lang``, all rows are in this language; otherwise it is in ``lang_column``, or "" if that is "-". Several text
    columns are joined with line breaks. A ``wide`` table has one column per language, {"en": "english_text", "it":
    "testo"}; empty cells are allowed there, and if it has no column "concept", every row is a concept of its own, named
    by file and line. The columns "title" and "url" may be missing; columns of other names may not. Numbers become
    strings. Columns in ``field_column`` become fields, as do those of a column "fields": numbers stay numbers, also
    those in CSV, dates are written as in ISO 8601, and empty cells and NaN are no field. A text file that is not UTF-8
    is read as Windows-1252 if that is evident for its languages. Memory holds about 1 MB of a text file, or 500 rows
    of Parquet, at a time.
    """
    texts = {code: [name] for code, name in wide.items()} if wide is not None else {lang or "": _as_list(text_column)}
    if not any(texts.values()):
        raise CorpusError("no text column; name one in `text_column`, or one for each language in `wide`")
    optional: set[str] = {FIELDS, *(name for name in ("title", "url") if name in (title_column, url_column))}
    if wide and concept_column == "concept":
        optional.add(concept_column)
    lang_column = lang_column if lang_column != "-" and not lang and not wide else ""
    columns = _Columns(
        concept_column, lang_column, texts, title_column, url_column, _as_list(field_column), frozenset(optional),
        bool(wide),
    )  # fmt: skip
    expected = f"table in this folder; the formats are {_FORMATS}"
    accounting = accounting or Accounting()
    tables = [table for path in paths for table in matching_files(path, _FILE_NAME, expected, accounting)]
    names = [path.name for path in tables]
    for path in tables:
        name = path.name if names.count(path.name) == 1 else str(path)
        with accounting.reading(path):
            for line, row in _rows(path, columns, accounting):
                row_is_concept = concept_column in optional and concept_column not in row
                row_concept = f"{name}:{line}" if row_is_concept else ""
                yield from _documents(row, columns, row_concept, location(str(path), line), accounting)


def _as_list(text: str | Sequence[str]) -> Sequence[str]:
    return [text] if isinstance(text, str) else text


def _documents(
    row: Record, columns: _Columns, row_concept: str, place: str, accounting: Accounting
) -> Iterator[Document]:
    try:
        concept = row_concept or _cell(row, columns.concept)
        if not concept.strip():
            raise RecordError("empty field", f"column '{columns.concept}' is empty; every row needs a concept")
        cells = {code: [_cell(row, name) for name in names] for code, names in columns.texts.items()}
        fields = _fields(row, columns)
        lang, title, url = (_cell(row, name) for name in (columns.lang, columns.title, columns.url))
        texts = {code: "\n".join(part for part in parts if part.strip()) for code, parts in cells.items()}
        if not columns.wide and not any(texts.values()):
            empty = " and ".join(f"'{name}'" for name in next(iter(columns.texts.values())))
            raise RecordError("empty field", f"no text in {empty}; every row needs some")
        if lang.strip():
            _check_language(lang)
    except RecordError as error:
        accounting.unusable_document(error.reason, columns.row_lang(row), f"{place}: {error}")
        return
    for name in columns.fields:
        accounting.count_field(name, fields.get(name, []))
    for code, text in texts.items():
        yield from accounting.document(concept, code or lang, text, title, url, fields=fields, place=place)


def _check_language(lang: str) -> None:
    try:
        checked_code(lang)
    except CorpusError as error:
        raise RecordError("invalid language code", str(error)) from None


def _fields(row: Record, columns: _Columns) -> dict[str, Any]:
    """The fields of a row's documents, without missing values."""
    given = {name: value for name in columns.fields if not is_missing(value := row.get(name)) and value != ""}
    return parse_fields(fields_text(row.get(FIELDS))) | parse_fields(fields_text(given))


def _number_or_text(cell: object) -> object:
    """A cell of CSV as a field: a number if that has no leading zeros, so that 007 stays a text."""
    if not _NUMBER.fullmatch(str(cell)):
        return cell
    return float(str(cell)) if "." in str(cell) else int(str(cell))


def _cell(row: Record, name: str) -> str:
    value = row.get(name)
    if value is None or value != value:  # some tools write NaN for a missing value
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # a column of integers with missing values is often stored as floats
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return check_text(value, f"column '{name}'")


# Formats


def _rows(path: Path, columns: _Columns, accounting: Accounting) -> NumberedRecords:
    def report(line: int | None, reason: str, explanation: str) -> None:
        message = f"{location(str(path), line)}: {explanation}"
        if line is None:
            raise UnusableInputError(reason, message)
        accounting.unusable_document(reason, columns.row_lang({}), message)

    match Path(split_suffix(path.name.lower())[0]).suffix:
        case ".csv":
            return _csv_rows(path, columns, ",", report, accounting)
        case ".tsv":
            return _csv_rows(path, columns, "\t", report, accounting)
        case ".jsonl" | ".ndjson":
            return _json_rows(path, columns, report, accounting)
        case ".parquet":
            return _parquet_rows(path, columns)
    raise CorpusError(f"{path}: unknown suffix '{path.suffix}'; the formats are {_FORMATS}")


@contextmanager
def _open_text(
    path: Path, columns: _Columns, accounting: Accounting, delimiter: str | None = None
) -> Iterator[IO[bytes]]:
    """A file in UTF-8, or in Windows-1252 if that is evident for the languages of its rows."""

    def langs_of(start: str) -> Collection[str]:
        return columns.langs(start, delimiter)

    def note(encoding: str) -> None:
        accounting.guessed_encodings.add(encoding, str(path))

    with open_source(path) as stream:
        yield western_as_utf8(stream, langs_of, note)


def _csv_rows(
    path: Path, columns: _Columns, delimiter: str, report: ErrorReporter, accounting: Accounting
) -> NumberedRecords:
    def check_header(names: Sequence[str]) -> None:
        columns.check(str(path), names)

    with _open_text(path, columns, accounting, delimiter) as stream:
        for number, row in csv_records(stream, report, check_header, delimiter=delimiter, limits=_LIMITS):
            yield number, {**row, **{name: _number_or_text(row[name]) for name in columns.fields}}


def _json_rows(path: Path, columns: _Columns, report: ErrorReporter, accounting: Accounting) -> NumberedRecords:
    texts = {name for names in columns.texts.values() for name in names}
    is_first = True
    with _open_text(path, columns, accounting) as stream:
        for first, block in line_blocks(stream, report, limits=_LIMITS):
            for number, row in json_records(block, first, report):
                if is_first:  # single columns of text may be missing, but not all of them
                    columns.check(str(path), [*row, *(texts - row.keys() if texts & row.keys() else ())])
                    is_first = False
                yield number, row


def _parquet_rows(path: Path, columns: _Columns) -> NumberedRecords:
    with open_source(path) as stream, open_parquet(stream) as file:
        present = file.schema_arrow.names
        columns.check(str(path), present)
        wanted = [name for name in columns.names if name in present]
        for first, batch in parquet_batches(file, wanted, _PARQUET_ROWS, _LIMITS):
            if batch is not None:
                yield from row_records(batch, first)


TABLE = Source(
    "table",
    read_table,
    help="""Tables with columns of any names: .csv, .tsv, .jsonl or .parquet.

    Rows about the same thing have the same concept. A wide table has one row
    per concept and one column per language. Examples:

        cr5 corpus table news.csv --concept-column story -o corpus.parquet

        cr5 corpus table news.csv --text-column head --text-column body -o a.csv

        cr5 corpus table pairs.tsv --wide en=english --wide it=testo -o b.csv

        cr5 corpus table it.csv --lang it -o it.parquet

        cr5 corpus table news.csv --field-column year -o corpus.parquet
    """,
)
