"""Documents: texts about concepts, one by one or in batches of Arrow rows.

Every row of a batch keeps its file and line, so that an error found later can name both.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cr5.corpus.languages import canonical_code
from cr5.corpus.skipped import OnError, check_on_error
from cr5.corpus.tables import DEFAULT_LIMITS, ErrorReporter, ReadLimits, Record, RecordError, check_text

SCHEMA = pa.schema([(name, pa.string()) for name in ("concept", "lang", "text", "title", "url")])
"""The columns of a corpus."""
REQUIRED_COLUMNS = ("concept", "lang", "text")

NumberedRows: TypeAlias = tuple[pa.RecordBatch, NDArray[np.int64]]
"""Rows of ``SCHEMA`` without nulls, and the line of each, from 1."""

DOCUMENTS, ROWS = "documents", "rows"
"""The sources of documents that do not come from a file: one by one, or rows of a table."""


@dataclass(frozen=True, slots=True)
class Document:
    """A text about a concept in a language. A language may have several about the same concept."""

    concept: str
    lang: str
    text: str
    title: str = ""
    url: str = ""


class Batch(NamedTuple):
    """Some documents of one source: rows of ``SCHEMA`` without nulls, and the line of each, from 1."""

    rows: pa.RecordBatch
    source: str
    lines: NDArray[np.int64]

    def location(self, row: int) -> str:
        """The file and line of a row, as messages name them."""
        return location(self.source, int(self.lines[row]))

    def documents(self) -> Iterator[Document]:
        """The documents one by one."""
        return map(Document, *(column.to_pylist() for column in self.rows.columns))


def location(source: str, line: int | None) -> str:
    """A line of a source, as messages name it."""
    if line is None:
        return source
    if source in (DOCUMENTS, ROWS):
        return f"{source.removesuffix('s')} {line}"
    return f"{source}: row {line}" if Path(source).suffix.lower() == ".parquet" else f"{source}:{line}"


@dataclass(frozen=True)
class ReadOptions:
    """How a corpus is read: only ``langs``, canonical codes, unless None, in batches of at most ``batch_rows``."""

    langs: frozenset[str] | None = None
    on_error: OnError = "raise"
    batch_rows: int = 4000
    limits: ReadLimits = DEFAULT_LIMITS

    def __post_init__(self) -> None:
        check_on_error(self.on_error)


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
            fields = _check_record(record, options.langs, unit)
        except RecordError as error:
            report(line, error.reason, str(error))
            continue
        valid += 1
        if fields is None:
            continue
        kept.append(fields)
        lines.append(line)
        size += 2 * sum(map(len, fields))  # a character is one to four bytes
        if len(kept) >= options.batch_rows or size >= options.limits.batch_bytes:
            yield numbered_rows(kept, lines)
            kept, lines, size, valid = [], [], 0, 0
    if valid:
        yield numbered_rows(kept, lines)


def numbered_rows(fields: list[tuple[str, ...]], lines: list[int]) -> NumberedRows:
    """Checked fields as Arrow rows."""
    columns = zip(*fields, strict=True) if fields else [()] * len(SCHEMA)
    arrays = [pa.array(column, pa.string()) for column in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA), np.array(lines, np.int64)


def with_canonical_codes(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of ``SCHEMA`` with every language code in its canonical spelling."""
    langs = rows["lang"].dictionary_encode()
    given = langs.dictionary.to_pylist()
    codes = [canonical_code(code) for code in given]
    if codes == given:
        return rows
    return rows.set_column(1, SCHEMA.field("lang"), pa.array(codes, pa.string()).take(langs.indices))


def _check_record(record: Record, langs: Collection[str] | None, unit: str) -> tuple[str, ...] | None:
    """The five fields of a record, or None if its language is not wanted."""
    lang = canonical_code(_check_field(record, "lang", unit))
    if langs is not None and lang not in langs:
        return None
    return tuple(lang if name == "lang" else _check_field(record, name, unit) for name in SCHEMA.names)


def _check_field(record: Record, name: str, unit: str) -> str:
    value = record.get(name)
    needs = f"every {unit} needs concept, lang and text"
    if value is None:
        if name not in REQUIRED_COLUMNS:
            return ""
        missing = f"field '{name}' is null" if name in record else f"no field '{name}'"
        raise RecordError("missing field", f"{missing}; {needs}")
    if name == "concept" and type(value) is int and -(2**63) <= value < 2**63:
        return str(value)
    text = check_text(value, f"field '{name}'")
    if name in REQUIRED_COLUMNS and not text.strip():
        raise RecordError("empty field", f"field '{name}' is empty; {needs}")
    return text
