"""Writing a corpus to a file: JSONL, CSV, TSV or Parquet, complete or not at all."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from cr5.corpus.documents import REQUIRED_COLUMNS, SCHEMA, SCHEMA_WITH_FIELDS
from cr5.corpus.fields import FIELDS, NO_FIELDS, parse_fields
from cr5.corpus.formats import describe_unknown_suffix, split_format
from cr5.corpus.inputs import Documents, in_batches
from cr5.corpus.reading import CorpusReader
from cr5.corpus.texts import one_path
from cr5.errors import CorpusError
from cr5.storage.atomic import atomic_write
from cr5.storage.compressed import compressed_writer
from cr5.storage.output_paths import check_not_input, check_output_file

_ROW_GROUP_BYTES = 32 << 20


def write(path: str | Path, documents: Documents) -> int:
    """Write documents, as ``Cr5.fit`` takes them, in the format of the path's suffix ("-": JSONL to standard output).

    The file appears under its name when it is complete and on disk. Returns the number of documents.
    """
    path = one_path(path, "path")
    batches = in_batches(documents, fields=True)
    rows = (batch.rows for batch in batches)
    if str(path) == "-":
        count = write_jsonl(sys.stdout.buffer, rows)
        sys.stdout.buffer.flush()
        return count
    target = Path(path).resolve()  # a symbolic link stays one
    file_format, compression = split_format(str(path))
    if file_format not in WRITERS:
        raise CorpusError(describe_unknown_suffix(str(path)))
    check_output_file(Path(path), example="corpus.parquet")
    if isinstance(batches, CorpusReader):
        check_not_input(Path(path), batches.sources)
    with atomic_write(target) as raw, compressed_writer(raw, compression) as stream:
        return WRITERS[file_format](stream, rows)


def write_jsonl(stream: IO[bytes], batches: Iterable[pa.RecordBatch]) -> int:
    """One object per line; an empty title or url, and empty fields, are left out."""
    count = 0
    for batch in batches:
        lines = [json.dumps(_without_empty_fields(record), ensure_ascii=False) + "\n" for record in batch.to_pylist()]
        stream.write("".join(lines).encode())
        count += batch.num_rows
    return count


def _without_empty_fields(record: dict[str, Any]) -> dict[str, Any]:
    if FIELDS in record:
        record = record | {FIELDS: parse_fields(record[FIELDS])}
    return {name: value for name, value in record.items() if value or name in REQUIRED_COLUMNS}


def _with_schema(batches: Iterable[pa.RecordBatch]) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The columns of a table file, and its rows: with fields if the first batch has some, otherwise without."""
    iterator = iter(batches)
    first = list(islice(iterator, 1))
    schema = SCHEMA_WITH_FIELDS if any(map(_has_fields, first)) else SCHEMA

    def rows() -> Iterator[pa.RecordBatch]:
        for batch in chain(first, iterator):
            if schema is SCHEMA and _has_fields(batch):
                problem = "the first documents have no fields, and later ones do"
                raise CorpusError(f"{problem}; put one with fields first, or write JSONL")
            yield batch.select(schema.names)

    return schema, rows()


def _has_fields(batch: pa.RecordBatch) -> bool:
    return FIELDS in batch.schema.names and bool(pc.any(pc.not_equal(batch[FIELDS], NO_FIELDS)).as_py())


def write_csv(stream: IO[bytes], batches: Iterable[pa.RecordBatch], *, delimiter: str = ",") -> int:
    """A header and one row per document, every field in quotes."""
    count = 0
    options = pyarrow.csv.WriteOptions(delimiter=delimiter)
    schema, rows = _with_schema(batches)
    with pyarrow.csv.CSVWriter(stream, schema, write_options=options) as writer:
        for batch in rows:
            writer.write_batch(batch)
            count += batch.num_rows
    return count


def write_parquet(stream: IO[bytes], batches: Iterable[pa.RecordBatch], row_group_bytes: int = _ROW_GROUP_BYTES) -> int:
    """Row groups of about ``row_group_bytes``, compressed with Zstandard."""
    count = size = 0
    pending: list[pa.RecordBatch] = []
    schema, rows = _with_schema(batches)
    with pq.ParquetWriter(stream, schema, compression="zstd") as writer:
        for batch in rows:
            pending.append(batch)
            count, size = count + batch.num_rows, size + batch.nbytes
            if size >= row_group_bytes:
                writer.write_table(pa.Table.from_batches(pending))
                pending, size = [], 0
        if pending:
            writer.write_table(pa.Table.from_batches(pending))
    return count


WRITERS: dict[str, Callable[[IO[bytes], Iterable[pa.RecordBatch]], int]] = {
    ".jsonl": write_jsonl,
    ".csv": write_csv,
    ".tsv": partial(write_csv, delimiter="\t"),
    ".parquet": write_parquet,
}
