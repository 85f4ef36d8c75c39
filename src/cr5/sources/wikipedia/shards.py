"""Shards: the articles of a file range as Parquet files, each written atomically and only once."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from cr5.corpus import identification
from cr5.corpus.documents import SCHEMA, Document
from cr5.corpus.skipped import Skipped
from cr5.errors import CorpusError
from cr5.sources.wikipedia import parquet_export, search_index_dump, xml_dump
from cr5.sources.wikipedia.dump_reader import DumpFormat, DumpReader, FileRange, FindItem, PageCounts, ReadingContext
from cr5.sources.wikipedia.wiki import Wiki
from cr5.sources.wikipedia.wikidata_items import ItemTable
from cr5.sources.wikipedia.work_files import load_json, reading_table, write_table
from cr5.storage.json_files import write_json

READERS: dict[DumpFormat, DumpReader] = {"cirrus": search_index_dump, "xml": xml_dump, "parquet": parquet_export}

SHARD_SCHEMA = SCHEMA.append(pa.field("foreign", pa.string()))
"""The columns of a corpus, and the language a text is evidently in if that is not the wiki's own, else ""."""
SHARD_TEXT_BYTES = 64 << 20
_STATE_KEY = b"cr5"
_FATAL_REASONS = {"truncated", "unreadable file"}  # an unknown number of pages is lost, not a single one


class ExtractionTask(NamedTuple):
    """A file range to extract, on any machine that sees the same files.

    Shards are written to ``folder`` as ``name``-00000.parquet and so on, each of about ``SHARD_TEXT_BYTES`` of text.
    """

    dump_format: DumpFormat
    file_range: FileRange
    wiki: Wiki
    items: str | None
    folder: str
    name: str
    limit: int | None = None  # articles of a sample, whose file may be only the beginning of the published one


@dataclass
class ExtractionResult:
    """The outcome of a task so far: records read, documents written, in how many shards; pages read and skipped.

    ``faults`` are damaged records. ``stopped_because`` says why a sample ended before its limit.
    """

    record: int = 0
    documents: int = 0
    shards: int = 0
    page_counts: PageCounts = field(default_factory=Counter)
    faults: Skipped = field(default_factory=Skipped)
    stopped_because: str = ""

    # The keys of stored results differ from the names used here.

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "ExtractionResult":
        """What ``to_json`` returned."""
        faults = Skipped(values["faults"], values["examples"])
        return cls(
            values["record"], values["documents"], values["shards"], Counter(values["tally"]), faults, values["cut"]
        )

    def to_json(self) -> dict[str, Any]:
        """The counts as plain values."""
        return {
            "record": self.record,
            "documents": self.documents,
            "shards": self.shards,
            "tally": dict(self.page_counts),
            "faults": self.faults.counts,
            "examples": self.faults.examples,
            "cut": self.stopped_because,
        }


def extract(task: ExtractionTask) -> ExtractionResult:
    """Write the articles of a file range into shards, continuing after those that an earlier run wrote."""
    if (finished := finished_result(task)) is not None:
        return finished
    result = ExtractionResult()
    while (path := shard_path(task, result.shards)).exists():
        with reading_table(path):
            result = ExtractionResult.from_json(json.loads(pq.read_schema(path).metadata[_STATE_KEY]))
    rows: list[tuple[str, ...]] = []
    text_bytes = 0

    def write_shard(record: int) -> None:
        path = shard_path(task, result.shards)
        result.record, result.documents, result.shards = record, result.documents + len(rows), result.shards + 1
        columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
        table = pa.Table.from_arrays(columns, schema=SHARD_SCHEMA)
        write_table(path, table, {_STATE_KEY: json.dumps(result.to_json()).encode()})

    record = result.record
    for record, document in _limited_articles(task, result):
        foreign = identification.find_foreign_language(document.text, task.wiki.lang)
        rows.append((*(getattr(document, name) for name in SCHEMA.names), foreign.lang if foreign else ""))
        text_bytes += len(document.text.encode())
        if text_bytes >= SHARD_TEXT_BYTES:
            write_shard(record)
            rows, text_bytes = [], 0
    if rows:
        write_shard(record)
    write_json(_result_path(task), result.to_json())
    return result


def finished_result(task: ExtractionTask) -> ExtractionResult | None:
    """The result of a task that is finished, or None if it is not or if one of its shards is missing."""
    if (values := load_json(_result_path(task))) is None:
        return None
    result = ExtractionResult.from_json(values)
    return result if all(shard_path(task, number).exists() for number in range(result.shards)) else None


def shard_path(task: ExtractionTask, number: int) -> Path:
    """The path of a task's shard."""
    return Path(task.folder) / f"{task.name}-{number:05d}.parquet"


def _result_path(task: ExtractionTask) -> Path:
    return Path(task.folder) / f"{task.name}.json"


def _limited_articles(task: ExtractionTask, result: ExtractionResult) -> Iterator[tuple[int, Document]]:
    """All articles, or the first ones of a sample, which may end early because its file is incomplete."""
    articles = _articles(task, result)
    if task.limit is None:
        yield from articles
        return
    try:
        yield from islice(articles, task.limit)
    except (CorpusError, _BeyondItemTableError) as error:
        result.stopped_because = str(error)


class _BeyondItemTableError(Exception):
    """A page id is larger than any in an item table that was made from the beginning of a file."""


def _articles(task: ExtractionTask, result: ExtractionResult) -> Iterator[tuple[int, Document]]:
    def handle_error(reason: str, message: str) -> None:
        if reason in _FATAL_REASONS:
            raise CorpusError(message)
        result.faults.add(reason, message)

    reading = ReadingContext(
        task.file_range, task.wiki, _find_item(task), result.page_counts, result.record, handle_error
    )
    return READERS[task.dump_format].articles(reading)


def _find_item(task: ExtractionTask) -> FindItem | None:
    if task.items is None:
        return None
    items = ItemTable.open(Path(task.items))
    if task.limit is None or not items.partial:
        return items.find

    def find(page: int, title: str) -> tuple[str, bool] | None:
        if page > items.last_key:
            raise _BeyondItemTableError(f"page {page} comes after the last page of the partial item table")
        return items.find(page, title)

    return find
