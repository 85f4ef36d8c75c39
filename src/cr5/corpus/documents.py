"""Documents: texts about concepts, one by one or in batches of Arrow rows.

Every row of a batch keeps its file and line, so that an error found later can name both.
"""

import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cr5.corpus.fields import FIELDS, NO_FIELDS, fields_text, parse_fields
from cr5.corpus.languages import canonical_code
from cr5.corpus.skipped import OnError, Skipped, check_on_error
from cr5.corpus.tables import DEFAULT_LIMITS, ErrorReporter, ReadLimits, Record, RecordError, check_text, list_columns
from cr5.errors import ColumnsNotKept, CorpusError, EncodingGuessed, warn
from cr5.message_parts import quoted

SCHEMA = pa.schema([(name, pa.string()) for name in ("concept", "lang", "text", "title", "url")])
"""The columns of a corpus."""
SCHEMA_WITH_FIELDS = SCHEMA.append(pa.field(FIELDS, pa.string()))
"""``SCHEMA`` and a column with the fields of each document as JSON text, for callers that read fields."""
REQUIRED_COLUMNS = ("concept", "lang", "text")
CONTROL_CHARACTER = "control character"  # the reason for skipping a document with such a concept
_PANDAS_INDEX = "__index_level_"  # a column of a Parquet file that pandas has written
KEY_COLUMNS = ("concept", "lang")  # they make up the id of a document, and cannot have control characters

NumberedRows: TypeAlias = tuple[pa.RecordBatch, NDArray[np.int64]]
"""Rows of ``SCHEMA``, perhaps with fields, without nulls, and the line of each, from 1."""

DOCUMENTS, ROWS = "documents", "rows"
"""What ``Batch.source`` is for documents in memory, instead of a path: documents one by one, or rows of a table."""


@dataclass(frozen=True, slots=True)
class Document:
    """A text about a concept in a language. A language may have several about the same concept.

    ``fields`` are what else is known about it, such as its year, by which a search can be restricted; training ignores
    them. The value of a field is a string, a number, true, false or null, a list of these, or an object of them.
    """

    concept: str
    lang: str
    text: str
    title: str = ""
    url: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict, hash=False, kw_only=True)


class Batch(NamedTuple):
    """Some documents of one source: rows of ``SCHEMA`` without nulls, and the line of each, from 1.

    With ``ReadOptions.fields``, the rows have the columns of ``SCHEMA_WITH_FIELDS``.
    """

    rows: pa.RecordBatch
    source: str
    lines: NDArray[np.int64]

    def location(self, row: int) -> str:
        """The file and line of a row, as messages name them."""
        return location(self.source, int(self.lines[row]))

    def documents(self) -> Iterator[Document]:
        """The documents one by one."""
        columns = [self.rows[name].to_pylist() for name in SCHEMA.names]
        if FIELDS not in self.rows.schema.names:
            return map(Document, *columns)
        texts = self.rows[FIELDS].to_pylist()
        return (Document(*row, fields=parse_fields(text)) for *row, text in zip(*columns, texts, strict=True))


def location(source: str, line: int | None) -> str:
    """A line of a source, numbered from 1, as messages name it; what Python code passes, by its position from 0."""
    if line is None:
        return source
    if source in (DOCUMENTS, ROWS):
        return f"`documents[{line - 1}]`"
    return f"{source}: row {line}" if Path(source).suffix.lower() == ".parquet" else f"{source}:{line}"


def error_reporter(source: str, on_error: OnError, *counters: Skipped) -> ErrorReporter:
    """A function that raises an error about a line of a source or, with "skip", counts it in all ``counters``."""

    def report(line: int | None, reason: str, explanation: str) -> None:
        message = f"{location(source, line)}: {explanation}"
        if on_error != "skip":
            raise CorpusError(f"{message}{_ways_out(source, reason, explanation)}") from None
        for counter in counters:
            counter.add(reason, message)

    return report


def _ways_out(source: str, reason: str, explanation: str) -> str:
    """How documents with an error can be left out, for the reasons that whole columns have, as the end of a message."""
    if "on_error" in explanation or explanation.startswith("no field"):  # all documents probably have other keys
        return ""
    if reason == "missing field" and source == ROWS:
        return '; leave such rows out with dropna or drop_nulls, or give `on_error="skip"`'
    if reason == "empty field" and source == ROWS:
        return '; leave such rows out, which dropna and drop_nulls do not do, or give `on_error="skip"`'
    if reason in ("missing field", "empty field") and source == DOCUMENTS:
        return '; leave such documents out, or give `on_error="skip"`'
    return ', or leave such lines out with `on_error="skip"`' if reason == "invalid UTF-8" else ""


@dataclass(frozen=True)
class ReadOptions:
    """How a corpus is read: only ``langs``, canonical codes, unless None, in batches of at most ``batch_rows``.

    ``fields`` says whether the fields of documents are read as well, ``require_langs`` whether a missing language is an
    error. ``warned_columns`` are those that a warning has named already, ``found_langs`` the languages read so far,
    ``guessed_encodings`` those that were guessed, by file.
    """

    langs: frozenset[str] | None = None
    on_error: OnError = "raise"
    batch_rows: int = 4000
    limits: ReadLimits = DEFAULT_LIMITS
    fields: bool = False
    require_langs: bool = False
    warned_columns: set[str] = field(default_factory=set, compare=False)
    found_langs: set[str] = field(default_factory=set, compare=False)
    guessed_encodings: dict[str, str] = field(default_factory=dict, compare=False)

    @property
    def schema(self) -> pa.Schema:
        """The columns that are read."""
        return SCHEMA_WITH_FIELDS if self.fields else SCHEMA

    def __post_init__(self) -> None:
        check_on_error(self.on_error)

    def note_encoding(self, source: str, encoding: str) -> None:
        """Note that the encoding of a file was guessed; warn of the first one."""
        if not self.guessed_encodings:
            warn(
                f"{source} is evidently {encoding}, not UTF-8, and is read so, as are other such files", EncodingGuessed
            )
        self.guessed_encodings[source] = encoding

    def warn_of_unstored_columns(self, names: Collection[Any], fields: object = None) -> None:
        """Warn of columns that will not be stored, each once; those of a document's ``fields`` are.

        Only if fields are read, because only then does the caller store whole documents.
        """
        if not self.fields or not (others := set(names).difference(SCHEMA_WITH_FIELDS.names, self.warned_columns)):
            return
        others -= set(fields) if isinstance(fields, Mapping) else set()
        self.warned_columns.update(others)
        if listed := [name for name in names if name in others and name and not str(name).startswith(_PANDAS_INDEX)]:
            message = (
                f"not kept: {list_columns(list(map(str, listed)))}; a document has concept, lang, text, title, url "
                'and fields: put other columns into fields, an object such as {"year": 2019}, or convert the table '
                "with cr5 corpus table --field-column"
            )
            warn(message, ColumnsNotKept)


def batch_records(
    records: Iterable[tuple[int, Record]], report: ErrorReporter, unit: str, options: ReadOptions
) -> Iterator[NumberedRows]:
    """Check numbered records and put them into batches; messages call a record a ``unit``: line, row or document.

    Valid records of other languages yield an empty batch, so that the caller can tell them from no records at all.
    """
    kept: list[tuple[str, ...]] = []
    lines: list[int] = []
    size = valid = 0
    for line, record in records:
        try:
            values = _check_record(record, options, unit)
        except RecordError as error:
            report(line, error.reason, str(error))
            continue
        valid += 1
        if values is None:
            continue
        kept.append(values)
        lines.append(line)
        size += 2 * sum(map(len, values))  # a character is one to four bytes
        if len(kept) >= options.batch_rows or size >= options.limits.batch_bytes:
            yield numbered_rows(kept, lines, options.schema)
            kept, lines, size, valid = [], [], 0, 0
    if valid:
        yield numbered_rows(kept, lines, options.schema)


def numbered_rows(values: list[tuple[str, ...]], lines: list[int], schema: pa.Schema = SCHEMA) -> NumberedRows:
    """Checked values as Arrow rows."""
    columns = zip(*values, strict=True) if values else [()] * len(schema)
    arrays = [pa.array(column, pa.string()) for column in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=schema), np.array(lines, np.int64)


def add_empty_fields(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of ``SCHEMA_WITH_FIELDS``; the fields are empty where there are none."""
    if FIELDS in rows.schema.names:
        return rows
    return rows.append_column(SCHEMA_WITH_FIELDS.field(FIELDS), pa.array([NO_FIELDS] * rows.num_rows, pa.string()))


def with_canonical_codes(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of ``SCHEMA`` with every language code in its canonical spelling."""
    langs = rows["lang"].dictionary_encode()
    given = langs.dictionary.to_pylist()
    codes = [canonical_code(code) for code in given]
    if codes == given:
        return rows
    return rows.set_column(1, SCHEMA.field("lang"), pa.array(codes, pa.string()).take(langs.indices))


def _check_record(record: Record, options: ReadOptions, unit: str) -> tuple[str, ...] | None:
    """The values of a record, or None if its language is not wanted."""
    lang = canonical_code(_check_field(record, "lang", unit))
    options.found_langs.add(lang)
    if options.langs is not None and lang not in options.langs:
        return None
    values = tuple(lang if name == "lang" else _check_field(record, name, unit) for name in SCHEMA.names)
    if not options.fields:
        return values
    options.warn_of_unstored_columns(record, record.get(FIELDS))
    return *values, fields_text(record.get(FIELDS))


def _check_field(record: Record, name: str, unit: str) -> str:
    value = record.get(name)
    if value is None:
        if name not in REQUIRED_COLUMNS:
            return ""
        missing = f"field '{name}' is null" if name in record else f"no field '{name}'"
        raise RecordError("missing field", f"{missing}; every {unit} needs concept, lang and text")
    if name == "concept" and type(value) is int and -(2**63) <= value < 2**64:
        return str(value)
    text = check_text(value, f"field '{name}'")
    if name in REQUIRED_COLUMNS and not text.strip():
        raise RecordError("empty field", f"field '{name}' is empty; every {unit} needs concept, lang and text")
    if name in KEY_COLUMNS and has_control_character(text):
        explanation = f"field '{name}' is {quoted(text)}, which has a control character; remove it"
        raise RecordError(CONTROL_CHARACTER, explanation)
    return text


def has_control_character(key: str) -> bool:
    """Whether a concept or language code has a control character, such as a line break or NUL."""
    return not key.isprintable() and any(unicodedata.category(character) == "Cc" for character in key)
