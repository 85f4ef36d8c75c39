"""A Parquet export: the articles of a Wikipedia in plain text, as on the Hugging Face hub.

``20231101.da/train-00000-of-00001.parquet`` and so on, with the columns id (a page's number), url,
title and text. Nothing in it names Wikidata's items; a table of them is joined.
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
from cr5.errors import CorpusError
from cr5.sources.files import ErrorHandler, raise_error, reading
from cr5.sources.wikipedia.wiki import DISAMBIGUATION, EMPTY, NO_ITEM, PAGES, Piece, Tally, Wiki
from cr5.sources.wikipedia.wikidata_items import Find

_Cells: TypeAlias = tuple[bytes | None, ...]

PIECE = 2**26  # compressed bytes that are worth a reader of their own
_BATCH_BYTES, _BATCH_ROWS = 2**22, 256  # of a row group decoded at a time; its own size is before decoding
_COLUMNS = ["id", "title", "text", "url"]
_NEEDED = _COLUMNS[:3]
_PAGE = re.compile(r"[0-9]{1,18}")


def pieces(path: Path) -> list[Piece]:
    """A file in ranges of row groups, of about ``PIECE`` bytes each."""
    cuts, size = [0], 0
    with _opened(str(path)) as file:
        for number in range(file.num_row_groups):
            if size >= PIECE:
                cuts.append(number)
                size = 0
            group = file.metadata.row_group(number)
            size += sum(group.column(column).total_compressed_size for column in range(group.num_columns))
        cuts.append(file.num_row_groups)
    return [Piece(str(path), begin, end) for begin, end in pairwise(cuts)]


def articles(
    piece: Piece, wiki: Wiki, find: Find, *, tally: Tally, skip: int = 0, handle_error: ErrorHandler = raise_error
) -> Iterator[tuple[int, Document]]:
    """The articles of some row groups, each with the number of its row among theirs, from 1.

    ``find`` names a page's item and tells disambiguations; ``skip`` passes over so many rows. When an
    article comes out, ``tally`` and ``handle_error`` have heard of all rows up to it, and of none behind it.
    """
    with _opened(piece.path) as file:
        before = sum(file.metadata.row_group(group).num_rows for group in range(piece.begin))
        for number, cells in enumerate(_rows(file, piece, skip), skip + 1):
            try:
                page, title, text, url = ["" if cell is None else cell.decode() for cell in cells]
            except UnicodeDecodeError:
                place = location(piece.path, before + number)
                handle_error("invalid UTF-8", f"{place}: the text is no UTF-8; download it again")
                continue
            if not _PAGE.fullmatch(page) or not title:
                shown = f"{page[:40]!r} is no page id" if title else "the page has no title"
                handle_error(
                    "no page id or title", f"{location(piece.path, before + number)}: {shown}; download it again"
                )
                continue
            tally[PAGES] += 1
            item, ambiguous = find(int(page), title) or ("", False)
            if ambiguous:
                tally[DISAMBIGUATION] += 1
            elif not item:
                tally[NO_ITEM] += 1
            elif not text or text.isspace():
                tally[EMPTY] += 1
            else:
                yield number, Document(item, wiki.lang, text, title, url or wiki.url(title))


@contextmanager
def _opened(path: str) -> Iterator[pq.ParquetFile]:
    """A file with the columns of an export; whatever of it cannot be read within the block is a ``CorpusError``."""
    with reading(path), Path(path).open("rb") as stream:
        try:
            file = pq.ParquetFile(stream, buffer_size=1 << 20)  # else a whole column of a row group is in memory
            _check(file.schema_arrow, path)
            yield file
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            if isinstance(error, OSError) and error.strerror:
                raise
            raise CorpusError(f"{path}: corrupt, or no Parquet file; copy or download it again") from None


def _check(schema: pa.Schema, path: str) -> None:
    if missing := [name for name in _NEEDED if name not in schema.names]:
        found = ", ".join(schema.names) or "nothing"
        raise CorpusError(
            f"{path}: no column {' and '.join(missing)}, only {found}; an export of Wikipedia has id, title and text"
        )
    for name in _COLUMNS:
        if schema.names.count(name) > 1:
            raise CorpusError(f"{path}: column {name} occurs {schema.names.count(name)} times; rename all but one")
        if name in schema.names and not _is_text(kind := schema.field(name).type, name):
            raise CorpusError(f"{path}: column {name} is {kind}, not string; write it as strings")


def _is_text(kind: pa.DataType, name: str) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    return bool(text) or (name == "id" and bool(pa.types.is_integer(kind)))


def _rows(file: pq.ParquetFile, piece: Piece, skip: int) -> Iterator[_Cells]:
    """The cells of every row of a piece in the order of ``_COLUMNS``, without its first ``skip`` rows."""
    names = [name for name in _COLUMNS if name in file.schema_arrow.names]
    for group in range(piece.begin, file.num_row_groups if piece.end is None else piece.end):
        about = file.metadata.row_group(group)
        if skip >= about.num_rows:
            skip -= about.num_rows
            continue
        fitting = _BATCH_BYTES * about.num_rows // max(about.total_byte_size, 1)
        for batch in file.iter_batches(max(1, min(_BATCH_ROWS, fitting)), row_groups=[group], columns=names):
            rest = batch.slice(min(skip, batch.num_rows))
            skip -= batch.num_rows - rest.num_rows
            # Parquet may hold anything and call it UTF-8.
            columns = [rest[name].cast(pa.string()).cast(pa.binary()).to_pylist() for name in names]
            if len(columns) < len(_COLUMNS):
                columns.append([None] * rest.num_rows)
            yield from zip(*columns, strict=True)
