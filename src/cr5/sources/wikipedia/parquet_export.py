"""Reader of Parquet exports: the articles of a Wikipedia as plain text, as on the Hugging Face Hub.

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
from cr5.corpus.tables import column_problem, open_parquet, type_problem
from cr5.errors import CorpusError
from cr5.message_parts import quoted
from cr5.sources.files import open_source
from cr5.sources.wikipedia.dump_reader import PAGES, FileRange, ReadingContext

_Row: TypeAlias = tuple[bytes | None, ...]

RANGE_BYTES = 2**26  # compressed bytes fetched at a time
BATCH_ROWS = 256
_BATCH_BYTES = 2**22  # encoded bytes in a batch; decoded rows may be larger
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


def articles(reading: ReadingContext) -> Iterator[tuple[int, Document]]:
    """Yield the articles of some row groups, each with the number of its row in the range; see ``DumpReader``."""
    path = reading.file_range.path
    with _open_export(path) as file:
        rows_before = sum(file.metadata.row_group(group).num_rows for group in range(reading.file_range.begin))
        for number, row in enumerate(_rows(file, reading.file_range, reading.skip), reading.skip + 1):
            at = location(path, rows_before + number)
            try:
                page_id, title, text, url = ["" if cell is None else cell.decode() for cell in row]
            except UnicodeDecodeError:
                reading.handle_error("invalid UTF-8", f"{at}: the text is not UTF-8; download it again")
                continue
            if not _PAGE_ID.fullmatch(page_id) or not title:
                fault = f"{quoted(page_id)} is not a page id" if title else "the page has no title"
                reading.handle_error("no page id or title", f"{at}: {fault}; download it again")
                continue
            reading.page_counts[PAGES] += 1
            item = reading.item(int(page_id), title)
            if item and (document := reading.document(item, title, text, url)):
                yield number, document


@contextmanager
def _open_export(path: str) -> Iterator[pq.ParquetFile]:
    """A file with the columns of an export; if any of it cannot be read within the block, raise a ``CorpusError``."""
    with open_source(path) as stream, open_parquet(stream) as file:
        schema, advice = file.schema_arrow, "an export of Wikipedia has id, title and text"
        problem = column_problem(schema.names, _REQUIRED_COLUMNS, _COLUMNS, advice)
        if problem := problem or type_problem(schema, _COLUMNS, "id"):
            raise CorpusError(f"{path}: {problem}")
        yield file


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
