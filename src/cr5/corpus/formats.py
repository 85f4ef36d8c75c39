"""File formats of a corpus: JSONL, CSV, TSV and Parquet -> batches of documents, rows of ``SCHEMA``.

Arrow checks whole blocks at once. A block in which it finds an error is read again row by row, to find that row.
"""

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from cr5.corpus.csv_files import csv_records
from cr5.corpus.documents import (
    REQUIRED_COLUMNS,
    SCHEMA,
    NumberedRows,
    ReadOptions,
    add_empty_fields,
    batch_records,
    numbered_rows,
    with_canonical_codes,
)
from cr5.corpus.fields import FIELDS
from cr5.corpus.languages import canonical_code
from cr5.corpus.tables import (
    REPEATED_KEY,
    ErrorReporter,
    Record,
    RecordError,
    column_problem,
    json_records,
    line_blocks,
    open_parquet,
    parquet_batches,
    parse_json,
    row_records,
    type_problem,
)
from cr5.corpus.wide_tables import columns_of_languages, usual_key
from cr5.storage.compressed import SUFFIXES, split_suffix

Reader: TypeAlias = Callable[[Any, ErrorReporter, ReadOptions], Iterator[NumberedRows]]

FORMAT_NAMES = ".jsonl, .csv and .tsv, which .gz, .bz2 or .xz may follow, and .parquet"
_INTEGER_CONCEPT = SCHEMA.set(0, pa.field("concept", pa.int64()))


def split_format(name: str) -> tuple[str, str]:
    """The format and compression of a file by its name: "en.csv.gz" -> (".csv", ".gz")."""
    stem, compression = split_suffix(name.lower())
    if compression and Path(stem).suffix != ".parquet":
        return Path(stem).suffix, compression
    return Path(name.lower()).suffix, ""


def describe_unknown_suffix(name: str) -> str:
    """The message about a file whose suffix is none of the formats."""
    suffixes = Path(name).suffixes[-2:] if Path(name).suffix in SUFFIXES else [Path(name).suffix]
    problem = f"unknown suffix '{''.join(suffixes)}'" if any(suffixes) else "the name has no suffix"
    return f"{name}: {problem}; the formats are {FORMAT_NAMES}"


# JSONL and CSV


def read_jsonl(stream: IO[bytes], report: ErrorReporter, options: ReadOptions) -> Iterator[NumberedRows]:
    """One JSON object per line."""
    for first, block in line_blocks(stream, report, options.batch_rows, options.limits):
        has_fields = options.fields and b'"fields"' in block  # which Arrow cannot read, whatever they are
        rows = None if has_fields else _parse_block(block)
        if options.fields and rows is not None:  # Arrow leaves other keys out; the first line stands for the block
            with suppress(RecordError):  # of spellings that only Arrow accepts
                options.warn_of_unstored_columns(parse_json(block.partition(b"\n")[0]))
        checked = None if rows is None else check_rows(rows, first, options)
        if checked is not None:
            yield checked
        else:
            records = json_records(block, first, report, _parse_line)
            yield from batch_records(records, report, "line", options)


def _parse_block(block: bytes) -> pa.RecordBatch | None:
    """Parse a block with one JSON object on every line; None if it is anything else."""
    body = (block.replace(b"\r\n", b"\n") if b"\r" in block else block).rstrip(b"\n")
    lines = body.count(b"\n") + 1
    # Arrow treats a line break as any other space. Between } and { it can only separate two objects, and then as many
    # rows as lines means one object on each line.
    if not (body.startswith(b"{") and body.endswith(b"}") and body.count(b"}\n{") == lines - 1 and _is_utf8(body)):
        return None
    for schema in (SCHEMA, _INTEGER_CONCEPT):
        with suppress(pa.ArrowException):
            table = pyarrow.json.read_json(
                pa.BufferReader(body),
                read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(body) + 1),
                parse_options=pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
            )
            if table.num_rows == lines:
                return table.cast(SCHEMA).combine_chunks().to_batches()[0]
    return None


def _is_utf8(data: bytes) -> bool:
    offsets = pa.py_buffer(np.array([0, len(data)], np.int64))
    try:
        pa.Array.from_buffers(pa.large_string(), 1, [None, offsets, pa.py_buffer(data)]).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _parse_line(line: bytes) -> Record:
    """The object on a line. Arrow accepts more spellings than Python, such as Inf, so it is tried as well.

    As Arrow does, it accepts repeated keys that are not kept, unless the line has fields.
    """
    try:
        return parse_json(line)
    except RecordError as error:
        is_kept = error.reason == REPEATED_KEY and FIELDS.encode() in line
        if (
            error.reason in ("broken JSON", REPEATED_KEY)
            and not is_kept
            and (rows := _parse_block(line.removesuffix(b"\r"))) is not None
        ):
            return rows.to_pylist()[0]  # type: ignore[no-any-return]
        raise


def read_csv(
    stream: IO[bytes], report: ErrorReporter, options: ReadOptions, *, delimiter: str = ","
) -> Iterator[NumberedRows]:
    """A header and one row per document."""
    sizes: dict[str, Any] = {"block_lines": options.batch_rows, "limits": options.limits}
    records = csv_records(stream, report, _check_file_columns, delimiter=delimiter, **sizes)
    return batch_records(records, report, "row", options)


def check_columns(names: Sequence[str], *, remedy: str = "") -> str | None:
    """What is wrong with the columns of a table, and the ``remedy`` for missing ones; None if nothing is."""
    return column_problem(names, REQUIRED_COLUMNS, SCHEMA.names, f"a corpus needs concept, lang and text{remedy}")


def _check_file_columns(names: Sequence[str]) -> str | None:
    remedy = ", and cr5 corpus table converts a table with other columns"
    if langs := columns_of_languages(names):
        key = usual_key([name for name in names if name not in langs]) or "concept"  # otherwise rows are numbered
        option = f"--concept-column {shlex.quote(key)} " if key != "concept" else ""
        wide = [f"--wide {shlex.quote(f'{canonical_code(code)}={name}')}" for name, code in langs.items()]
        remedy += f" (cr5 corpus table FILE {option}{' '.join(wide[:5])}{' …' if len(wide) > 5 else ''} -o CORPUS)"
    return check_columns(names, remedy=remedy)


def check_rows(rows: pa.RecordBatch, first: int, options: ReadOptions) -> NumberedRows | None:
    """The same result as ``batch_records``, for rows of valid UTF-8; None if that would report an error.

    The rows have no fields.
    """
    langs, lines = options.langs, np.arange(first, first + rows.num_rows, dtype=np.int64)
    if _has_blanks(rows["lang"]) or _has_control_characters(rows["lang"]):
        return None
    rows = with_canonical_codes(rows)
    if langs is not None:
        options.found_langs.update(pc.unique(rows["lang"]).to_pylist())
        chosen = pc.is_in(rows["lang"], pa.array(list(langs), pa.string()))
        rows, lines = rows.filter(chosen), lines[chosen.to_numpy(zero_copy_only=False)]
    if _has_blanks(rows["concept"]) or _has_control_characters(rows["concept"]) or _has_blanks(rows["text"]):
        return None
    columns = [rows[name] if name in REQUIRED_COLUMNS else rows[name].fill_null("") for name in SCHEMA.names]
    checked = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
    return add_empty_fields(checked) if options.fields else checked, lines


def _has_blanks(column: pa.StringArray) -> bool:
    """Whether any value is null, empty or white space."""
    return bool(column.null_count or pc.any(pc.or_(pc.equal(column, ""), pc.utf8_is_space(column))).as_py())


def _has_control_characters(column: pa.StringArray) -> bool:
    return bool(pc.any(pc.match_substring_regex(column, r"\p{Cc}")).as_py())


# Parquet


def read_parquet(stream: Any, report: ErrorReporter, options: ReadOptions) -> Iterator[NumberedRows]:
    """One row per document; a row group without a wanted language is not decoded."""
    with open_parquet(stream) as file:
        present = file.schema_arrow.names
        if explanation := _check_file_columns(present):
            report(None, "missing column", explanation)
            return
        options.warn_of_unstored_columns(present)
        if explanation := type_problem(file.schema_arrow, SCHEMA.names, "concept"):
            report(None, "wrong column type", explanation)
            return

        def is_unwanted(group: int) -> bool:
            if options.langs is None:
                return False
            codes = pc.unique(file.read_row_group(group, ["lang"])["lang"]).to_pylist()
            if not codes or not all(
                code and code.strip() and canonical_code(code) not in options.langs for code in codes
            ):
                return False
            options.found_langs.update(map(canonical_code, codes))
            return True

        names = [name for name in options.schema.names if name in present]
        for first, batch in parquet_batches(file, names, options.batch_rows, options.limits, is_unwanted):
            if batch is None:
                yield numbered_rows([], [], options.schema)
            elif (checked := check_batch(batch, first, options)) is not None:
                yield checked
            else:
                yield from batch_records(row_records(batch, first), report, "row", options)


def check_batch(batch: pa.RecordBatch, first: int, options: ReadOptions) -> NumberedRows | None:
    """``check_rows`` for columns of any types; None, too, if the rows have fields or are not UTF-8."""
    names = batch.schema.names
    if FIELDS in names or type_problem(batch.schema, SCHEMA.names, "concept"):
        return None
    with suppress(pa.ArrowException):  # neither Arrow nor Parquet enforces that strings are UTF-8
        columns = [
            _as_strings(batch[name]) if name in names else pa.nulls(batch.num_rows, pa.string())
            for name in SCHEMA.names
        ]
        rows = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
        rows.validate(full=True)
        return check_rows(rows, first, options)
    return None


def _as_strings(column: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(column.type):  # whose values may be of a type that cannot be cast with the indices
        return column.dictionary.cast(pa.string()).take(column.indices)
    return column.cast(pa.string())


READERS: dict[str, Reader] = {
    ".jsonl": read_jsonl,
    ".csv": read_csv,
    ".tsv": partial(read_csv, delimiter="\t"),
    ".parquet": read_parquet,
}
DELIMITERS: dict[str, str | None] = {".jsonl": None, ".csv": ",", ".tsv": "\t"}
"""What separates the columns of formats that are text, unless a file has something else; None for JSON."""
