"""Documents that a user passes, in any container -> batches of documents.

A table that offers Arrow (from pandas, polars, DuckDB, Hugging Face, pyarrow) is checked column by column. Where that
finds an error, and for everything else, documents are checked one by one, to name the position and the value.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from cr5.corpus.documents import (
    DOCUMENTS,
    REQUIRED_COLUMNS,
    ROWS,
    SCHEMA,
    Batch,
    Document,
    NumberedRows,
    ReadOptions,
    add_empty_fields,
    batch_records,
    error_reporter,
    location,
    with_canonical_codes,
)
from cr5.corpus.fields import FIELDS
from cr5.corpus.formats import check_batch, check_columns
from cr5.corpus.languages import canonical_code
from cr5.corpus.reading import CorpusReader, MissingPathError, read_batches
from cr5.corpus.skipped import OnError, Skipped
from cr5.corpus.tables import ErrorReporter, NumberedRecords, Record, RecordError, row_records, split_by_size
from cr5.corpus.texts import describe, is_missing, is_table, one_or_several, remedy
from cr5.corpus.wide_tables import column_remedy
from cr5.errors import CorpusError, Cr5TypeError
from cr5.message_parts import quoted, reason, with_article


class ArrowStream(Protocol):
    """A table that other libraries can read as Arrow: from pandas, polars, DuckDB, pyarrow, …"""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


Documents: TypeAlias = str | PathLike[str] | ArrowStream | Iterable[Any]
"""Documents in any form that ``in_batches`` takes."""

_KINDS = (
    "Documents, dicts, tuples (concept, lang, text), a DataFrame, an Arrow table, a Hugging Face dataset, or a path"
)
_NEEDS = "every document needs concept, lang and text"


def in_batches(
    documents: Documents,
    batch_rows: int = 4000,
    *,
    langs: Collection[str] | None = None,
    on_error: OnError = "raise",
    skipped: Skipped | None = None,
    fields: bool = False,
) -> Iterator[Batch]:
    """Documents of any kind in batches of at most ``batch_rows``, only those in ``langs``.

    ``documents`` may be a path or several, as ``read_batches`` takes them; a table with the columns concept, lang and
    text, optionally title and url (a pandas or polars DataFrame, an Arrow table, record batch or reader, a Hugging
    Face dataset); or an iterable of ``Document``, of dicts with these keys, of tuples (concept, lang, text), of
    tables, or of batches, which are not split. Language codes may be in any spelling, and become canonical (EN -> en).
    With ``on_error="skip"``, documents that cannot be used are left out and counted in ``skipped``. With ``fields``,
    the column or key of that name is read as well, and the rows of all batches have it: objects, or their JSON texts.
    """
    wanted = None if langs is None else frozenset(map(canonical_code, one_or_several(langs)))
    options = ReadOptions(wanted, on_error, batch_rows, fields=fields)
    if isinstance(documents, CorpusReader):
        return documents.with_fields() if fields else documents
    if (paths := _paths(documents)) is not None:
        try:
            reader = read_batches(paths, langs=langs, on_error=on_error, skipped=skipped, batch_rows=batch_rows)
            return reader.with_fields() if fields else reader
        except MissingPathError as error:
            if isinstance(documents, str | PathLike):
                raise
            raise CorpusError(f"{error}; strings are paths, and documents are {_KINDS}") from None
        except OSError as error:  # a text given in place of a path may be too long for one
            raise CorpusError(f"{quoted(str(error.filename))}: {reason(error)}; give {_KINDS}") from error
    if isinstance(documents, Mapping):
        if tables := [f"`documents[{name!r}]`" for name, value in documents.items() if _holds_documents(value)]:
            advice = f"give {' or '.join(tables)}"
        elif all(isinstance(documents.get(name), str) for name in REQUIRED_COLUMNS):
            advice = "put it into a list"
        else:
            advice = f"make a DataFrame of its columns, or give {_KINDS}"
        raise Cr5TypeError(f"`documents` is {describe(documents)}; {advice}")
    if not isinstance(documents, Iterable) and not is_table(documents):
        advice = "put it into a list" if hasattr(documents, "concept") else f"give {_KINDS}"
        raise Cr5TypeError(f"`documents` is {describe(documents)}; {advice}")
    return _convert(documents, options, skipped)


def _holds_documents(value: object) -> bool:
    """Whether a value of a dict, such as a split of a dataset, is a table or a list of documents."""
    is_list = isinstance(value, list) and len(value) > 0
    return is_table(value) or (is_list and not isinstance(value[0], str | int | float | None))  # type: ignore[index]


def _paths(documents: Any) -> list[str | Path] | None:
    """The paths of a corpus in files; None if it is anything else."""
    given = documents if isinstance(documents, Sequence) and not isinstance(documents, str) else [documents]
    if not given or not all(isinstance(path, str | PathLike) for path in given):
        return None
    return [path if isinstance(path, str) else Path(path) for path in given]


def _convert(documents: Any, options: ReadOptions, skipped: Skipped | None) -> Iterator[Batch]:
    if getattr(documents, "column_names", ()) is None:  # a Hugging Face stream, after map: its rows are dicts
        documents = iter(documents)
    iterator = iter([documents] if isinstance(documents, Batch) or is_table(documents) else documents)
    first = next(iterator, None)
    if first is None:
        return
    items = chain([first], iterator)
    if isinstance(first, Batch):
        for batch in items:
            rows = with_canonical_codes(batch.rows)
            yield batch._replace(rows=add_empty_fields(rows) if options.fields else rows.select(SCHEMA.names))
        return
    source = ROWS if is_table(first) else DOCUMENTS
    errors = Skipped()
    report = error_reporter(source, options.on_error, errors, *([] if skipped is None else [skipped]))
    if source == ROWS:
        batches = _check_tables(items, report, options)
    else:
        batches = batch_records(_records(enumerate(items, 1), report, options), report, "document", options)
    any_valid = False
    for rows, lines in batches:
        any_valid = True
        yield Batch(rows, source, lines)
    if errors.total and not any_valid:
        raise CorpusError(f"no document can be used: all {errors.total:,} have errors; the first: {errors.first}")


def _records(items: Iterable[tuple[int, Any]], report: ErrorReporter, options: ReadOptions) -> NumberedRecords:
    """Numbered documents as records: values are strings, or None where they are missing; fields are not converted."""
    for number, item in items:
        try:
            yield number, _record(item, options)
        except RecordError as error:
            report(number, error.reason, str(error))


def _record(item: Any, options: ReadOptions) -> Record:
    names = options.schema.names
    if isinstance(item, Document):
        given: Record = {name: getattr(item, name) for name in names}
    elif isinstance(item, Mapping):
        given = item
    elif hasattr(item, "_asdict"):  # a named tuple
        given = item._asdict()
    elif isinstance(item, tuple | list | np.ndarray):
        if not len(REQUIRED_COLUMNS) <= len(item) <= len(SCHEMA):
            raise RecordError(
                "wrong type", f"{with_article(type(item).__name__)} of {len(item)}; give (concept, lang, text)"
            )
        given = dict(zip(SCHEMA.names, item, strict=False))
    elif hasattr(item, "concept"):
        given = {name: getattr(item, name, None) for name in names}
    else:
        raise RecordError("wrong type", f"{describe(item)}; give {_KINDS}")
    if missing := [f"'{name}'" for name in REQUIRED_COLUMNS if name not in given]:
        found = ", ".join(map(str, given))
        raise RecordError("missing field", f"no field {' or '.join(missing)}, only {found}; {_NEEDS}")
    options.warn_of_unstored_columns(given, given.get(FIELDS))
    return {name: given[name] if name == FIELDS else _value(given[name], name) for name in names if name in given}


def _value(value: object, name: str) -> object:
    """The value of a field: a string, an integer for a concept, None if an optional field is missing."""
    if isinstance(value, str):
        return value
    if is_missing(value):
        if name not in REQUIRED_COLUMNS:
            return None
        raise RecordError("missing field", f"field '{name}' is {describe(value)}; {_NEEDS}")
    if name == "concept" and isinstance(value, int | np.integer) and not isinstance(value, bool):
        return int(value)
    is_whole = name == "concept" and isinstance(value, float) and value.is_integer()
    advice = 'convert it to an integer, a pandas column with astype("Int64")' if is_whole else remedy(value)
    raise RecordError("wrong type", f"field '{name}' is {describe(value)}, not a string; {advice}")


# Tables


def _check_tables(tables: Iterable[Any], report: ErrorReporter, options: ReadOptions) -> Iterator[NumberedRows]:
    row = 1
    for table in tables:
        if hasattr(table, "iloc"):
            table = _check_pandas_concepts(table, row, options)
        for part in _parts(table, options):
            yield from _check_part(part, row, report, options)
            row += len(part)


def _check_pandas_concepts(frame: Any, first: int, options: ReadOptions) -> Any:
    """Make concepts integers again if pandas made them floats because some are missing.

    A missing concept is an error that names its row, unless such rows are skipped.
    """
    concepts = frame.get("concept")
    if getattr(getattr(concepts, "dtype", None), "kind", "") != "f" or not (missing := concepts.isna()).any():
        return frame
    if options.on_error == "skip":
        are_whole = (concepts.dropna() % 1 == 0).all()
        return frame.assign(concept=concepts.astype("Int64")) if are_whole else frame
    place = location(ROWS, first + int(missing.to_numpy().argmax()))
    raise CorpusError(
        f"{place}: field 'concept' is nan, which makes floats of the others; "
        'leave such rows out with dropna, and convert the column with astype("Int64")'
    )


def _parts(table: Any, options: ReadOptions) -> Iterator[Any]:
    """A table in parts of at most ``batch_rows``: record batches, or pandas DataFrames, which may not be typed."""
    if hasattr(table, "collect") and hasattr(table, "lazy"):  # a polars LazyFrame
        table = table.collect()
    names = _column_names(table)
    if problem := check_columns(names, remedy=column_remedy(table, names)):
        raise CorpusError(f"{type(table).__name__}: {problem}")
    options.warn_of_unstored_columns(names, _first_fields(table) if FIELDS in names else None)
    wanted = [name for name in options.schema.names if name in names]
    if hasattr(table, "iloc"):  # pandas
        for begin in range(0, len(table), options.batch_rows):
            yield table.iloc[begin : begin + options.batch_rows][wanted]
        return
    for batch in _arrow_batches(table, options.batch_rows):
        for begin in range(0, batch.num_rows, options.batch_rows):
            part = batch.slice(begin, options.batch_rows).select(wanted)
            yield from split_by_size(part, options.limits.batch_bytes)


def _first_fields(table: Any) -> object:
    """The fields of the first document of a table, None for one whose columns cannot be read in advance."""
    first = next(iter(table[FIELDS]), None) if hasattr(table, "__getitem__") else None
    return first.as_py() if isinstance(first, pa.Scalar) else first


def _column_names(table: Any) -> list[str]:
    if isinstance(table, pa.Table | pa.RecordBatch | pa.RecordBatchReader):
        return list(table.schema.names)
    return list(map(str, table.column_names if hasattr(table, "column_names") else table.columns))


def _arrow_batches(table: Any, batch_rows: int) -> Iterator[pa.RecordBatch]:
    if isinstance(table, pa.RecordBatch):
        yield table
    elif isinstance(table, pa.Table):  # not as a stream: Arrow crashes when it exports some columns of views
        yield from table.to_batches()
    elif hasattr(table, "with_format"):  # a Hugging Face dataset, which may be larger than memory
        for part in table.with_format("arrow").iter(batch_size=batch_rows):
            yield from part.to_batches()
    elif hasattr(table, "__arrow_c_stream__"):
        yield from pa.RecordBatchReader.from_stream(table)
    elif hasattr(table, "to_arrow"):
        yield from table.to_arrow().to_batches()
    else:
        raise Cr5TypeError(f"{describe(table)} cannot be converted to Arrow; give {_KINDS}")


def _check_part(part: Any, first: int, report: ErrorReporter, options: ReadOptions) -> Iterator[NumberedRows]:
    checked = None
    with suppress(pa.ArrowException, UnicodeEncodeError):  # values of several types, lone surrogates
        checked = check_batch(part if isinstance(part, pa.RecordBatch) else _from_pandas(part), first, options)
    if checked is not None:
        yield checked
        return
    rows = row_records(part, first) if isinstance(part, pa.RecordBatch) else _pandas_records(part, first)
    yield from batch_records(_records(rows, report, options), report, "document", options)


def _from_pandas(part: Any) -> pa.RecordBatch:
    table = pa.Table.from_pandas(part, preserve_index=False)
    columns = [column.combine_chunks() for column in table.columns]  # pd.concat and others leave chunks
    return pa.RecordBatch.from_arrays(columns, names=table.column_names)


def _pandas_records(part: Any, first: int) -> NumberedRecords:
    columns = [list(part[name]) for name in part.columns]
    for number, cells in enumerate(zip(*columns, strict=True), first):
        yield number, dict(zip(part.columns, cells, strict=True))
