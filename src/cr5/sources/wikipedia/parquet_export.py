"""Reader of Parquet exports: the articles of a Wikipedia as plain text, as on the Hugging Face hub.

``20231101.da/train-00000-of-00001.parquet`` and so on, with the columns id (of the page), url, title and text. The
files do not name Wikidata items: an item table is needed.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from cr5.corpus.documents import Document, location
from cr5.errors import CorpusError, quoted
from cr5.sources.files import ErrorHandler, corpus_errors, raise_error
from cr5.sources.wikipedia.dump_reader import (
    DISAMBIGUATION,
    EMPTY,
    NO_ITEM,
    PAGES,
    FileRange,
    FindItem,
    PageCounts,
)
from cr5.sources.wikipedia.wiki import Wiki

_Row: TypeAlias = tuple[bytes | None, ...]

RANGE_BYTES = 2**26  # compressed
BATCH_ROWS = 256
_BATCH_BYTES = 2**22  # encoded; decoded rows may be larger
_REQUIRED_COLUMNS = ["id", "title", "text"]
_COLUMNS = [*_REQUIRED_COLUMNS, "url"]
_PAGE_ID = re.compile(r"[0-9]{1,18}")


def split(path: Path, range_bytes: int = RANGE_BYTES) -> list[FileRange]:
    """Split a file into ranges of row groups, of about ``range_bytes`` each."""
    bounds, size = [0], 0
    with _open_export(str(path)) as file:
        for number in range(file.num_row_groups):
            if size >= range_bytes:
                bounds.append(number)
                size = 0
            group = file.metadata.row_group(number)
            size += sum(group.column(column).total_compressed_size for column in range(group.num_columns))
        bounds.append(file.num_row_groups)
    return [FileRange(str(path), begin, end) for begin, end in pairwise(bounds)]


def articles(
    file_range: FileRange,
    wiki: Wiki,
    find_item: FindItem | None = None,
    *,
    page_counts: PageCounts,
    skip: int = 0,
    handle_error: ErrorHandler = raise_error,
) -> Iterator[tuple[int, Document]]:
    """Yield the articles of some row groups, each with the number of its row in the range; see ``DumpReader``."""
    with _open_export(file_range.path) as file:
        rows_before = sum(file.metadata.row_group(group).num_rows for group in range(file_range.begin))
        for number, row in enumerate(_rows(file, file_range, skip), skip + 1):
            try:
                page_id, title, text, url = ["" if cell is None else cell.decode() for cell in row]
            except UnicodeDecodeError:
                at = location(file_range.path, rows_before + number)
                handle_error("invalid UTF-8", f"{at}: the text is not UTF-8; download it again")
                continue
            if not _PAGE_ID.fullmatch(page_id) or not title:
                fault = f"{quoted(page_id)} is not a page id" if title else "the page has no title"
                at = location(file_range.path, rows_before + number)
                handle_error("no page id or title", f"{at}: {fault}; download it again")
                continue
            page_counts[PAGES] += 1
            item, is_ambiguous = (find_item and find_item(int(page_id), title)) or ("", False)
            if is_ambiguous:
                page_counts[DISAMBIGUATION] += 1
            elif not item:
                page_counts[NO_ITEM] += 1
            elif not text or text.isspace():
                page_counts[EMPTY] += 1
            else:
                yield number, wiki.document(item, title, text, url)


@contextmanager
def _open_export(path: str) -> Iterator[pq.ParquetFile]:
    """A file with the columns of an export; if any of it cannot be read within the block, raise a ``CorpusError``."""
    with corpus_errors(path), Path(path).open("rb") as stream:
        try:
            # Without a buffer size, a whole column of a row group would be in memory.
            file = pq.ParquetFile(stream, buffer_size=1 << 20)
            _check_columns(file.schema_arrow, path)
            yield file
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            if isinstance(error, OSError) and error.strerror:
                raise
            raise CorpusError(f"{path}: corrupt, or not a Parquet file; copy or download it again") from None


def _check_columns(schema: pa.Schema, path: str) -> None:
    if missing := [name for name in _REQUIRED_COLUMNS if name not in schema.names]:
        present = ", ".join(schema.names) or "nothing"
        raise CorpusError(
            f"{path}: no column {' and '.join(missing)}, only {present}; an export of Wikipedia has id, title and text"
        )
    for name in _COLUMNS:
        if schema.names.count(name) > 1:
            raise CorpusError(f"{path}: column {name} occurs {schema.names.count(name)} times; rename all but one")
        if name in schema.names and not _is_readable(column_type := schema.field(name).type, name):
            raise CorpusError(f"{path}: column {name} is {column_type}, not string; write it as strings")


def _is_readable(column_type: pa.DataType, name: str) -> bool:
    if pa.types.is_dictionary(column_type):
        column_type = column_type.value_type
    is_text = (
        pa.types.is_string(column_type) or pa.types.is_large_string(column_type) or pa.types.is_string_view(column_type)
    )
    return bool(is_text) or (name == "id" and bool(pa.types.is_integer(column_type)))


def _rows(file: pq.ParquetFile, file_range: FileRange, skip: int) -> Iterator[_Row]:
    """The cells of every row of a range in the order of ``_COLUMNS``, without its first ``skip`` rows."""
    names = [name for name in _COLUMNS if name in file.schema_arrow.names]
    for number in range(file_range.begin, file.num_row_groups if file_range.end is None else file_range.end):
        group = file.metadata.row_group(number)
        if skip >= group.num_rows:
            skip -= group.num_rows
            continue
        rows_per_batch = _BATCH_BYTES * group.num_rows // max(group.total_byte_size, 1)
        rows_per_batch = max(1, min(BATCH_ROWS, rows_per_batch))
        for batch in file.iter_batches(rows_per_batch, row_groups=[number], columns=names):
            remaining = batch.slice(min(skip, batch.num_rows))
            skip -= batch.num_rows - remaining.num_rows
            # Decoded by the caller: a Parquet file may call bytes UTF-8 that are not.
            columns = [remaining[name].cast(pa.string()).cast(pa.binary()).to_pylist() for name in names]
            if len(columns) < len(_COLUMNS):
                columns.append([None] * remaining.num_rows)
            yield from zip(*columns, strict=True)
