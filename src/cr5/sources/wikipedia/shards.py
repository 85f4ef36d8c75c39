"""Shards: the articles of a file range as Parquet files, each written atomically and only once."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from cr5.corpus import identification
from cr5.corpus.documents import SCHEMA, Document
from cr5.corpus.skipped import Skipped
from cr5.errors import CorpusError
from cr5.sources.wikipedia.dump_formats import READERS
from cr5.sources.wikipedia.dump_reader import DumpFormat, FileRange, FindItem, PageCounts
from cr5.sources.wikipedia.wiki import Wiki
from cr5.sources.wikipedia.wikidata_items import ItemTable
from cr5.sources.wikipedia.work_files import load_json, reading_table, write_json, write_table

SHARD_SCHEMA = SCHEMA.append(pa.field("foreign", pa.string()))
"""The columns of a corpus, and the language a text is evidently in if that is not the wiki's own, else ""."""
SHARD_TEXT_BYTES = 64 << 20
_STATE_KEY = b"cr5"
_FATAL_REASONS = {"truncated", "unreadable file"}  # an unknown number of pages is lost, not a single one


class ExtractionTask(NamedTuple):
    """A file range to extract, on any machine that sees the same files.

    Shards are written to ``folder`` as ``name``-00000.parquet and so on, each of about ``shard_bytes`` of text.
    """

    dump_format: DumpFormat
    file_range: FileRange
    wiki: Wiki
    items: str | None
    hidden_prefixes: frozenset[str] | None
    folder: str
    name: str
    shard_bytes: int = SHARD_TEXT_BYTES
    limit: int | None = None  # articles of a sample, whose file may be only the beginning of the published one


class ExtractionResult(NamedTuple):
    """The outcome of a task: documents written, in how many shards; pages read and skipped; and damaged records.

    ``cut`` says why a sample ended before its limit.
    """

    documents: int
    shards: int
    page_counts: PageCounts
    faults: Skipped
    cut: str = ""


def extract(task: ExtractionTask) -> ExtractionResult:
    """Write the articles of a file range into shards, continuing after those that an earlier run wrote."""
    if (result := finished_result(task)) is not None:
        return result
    state: dict[str, Any] = {
        "record": 0,
        "documents": 0,
        "shards": 0,
        "tally": {},
        "faults": {},
        "examples": {},
        "cut": "",
    }
    while (path := shard_path(task, state["shards"])).exists():
        state = _state_of_shard(path)
    page_counts, faults = Counter(state["tally"]), Skipped(state["faults"], state["examples"])
    rows: list[tuple[str, ...]] = []
    text_bytes = 0

    def write_shard(record: int) -> None:
        state.update(
            record=record,
            documents=state["documents"] + len(rows),
            shards=state["shards"] + 1,
            tally=dict(page_counts),
            faults=faults.counts,
            examples=faults.examples,
        )
        columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
        table = pa.Table.from_arrays(columns, schema=SHARD_SCHEMA)
        write_table(shard_path(task, state["shards"] - 1), table, {_STATE_KEY: json.dumps(state).encode()})

    record = state["record"]
    for record, document in _limited(task, state, _articles(task, page_counts, faults, state["record"])):
        foreign = identification.find_foreign_language(document.text, task.wiki.lang)
        rows.append((*_fields(document), foreign.lang if foreign else ""))
        text_bytes += len(document.text.encode())
        if text_bytes >= task.shard_bytes:
            write_shard(record)
            rows, text_bytes = [], 0
    if rows:
        write_shard(record)
    state.update(tally=dict(page_counts), faults=faults.counts, examples=faults.examples)
    write_json(_result_path(task), state)
    return _result(state)


def finished_result(task: ExtractionTask) -> ExtractionResult | None:
    """The result of a task that is finished, or None if it is not or if one of its shards is missing."""
    if (state := load_json(_result_path(task))) is None:
        return None
    return _result(state) if all(shard_path(task, number).exists() for number in range(state["shards"])) else None


def shard_path(task: ExtractionTask, number: int) -> Path:
    """The path of a task's shard."""
    return Path(task.folder) / f"{task.name}-{number:05d}.parquet"


def _result_path(task: ExtractionTask) -> Path:
    return Path(task.folder) / f"{task.name}.json"


def _state_of_shard(path: Path) -> dict[str, Any]:
    """The state of the task when it had written this shard."""
    with reading_table(path):
        state: dict[str, Any] = json.loads(pq.read_schema(path).metadata[_STATE_KEY])
        return state


def _result(state: Mapping[str, Any]) -> ExtractionResult:
    faults = Skipped(dict(state["faults"]), dict(state["examples"]))
    return ExtractionResult(state["documents"], state["shards"], Counter(state["tally"]), faults, state["cut"])


def _limited(
    task: ExtractionTask, state: dict[str, Any], articles: Iterator[tuple[int, Document]]
) -> Iterator[tuple[int, Document]]:
    """All articles, or the first ones of a sample, which may end early where its file has been cut."""
    if task.limit is None:
        yield from articles
        return
    try:
        yield from islice(articles, task.limit)
    except (CorpusError, _BeyondItemTableError) as error:
        state["cut"] = str(error)


class _BeyondItemTableError(Exception):
    """A page id is larger than any in an item table that was made from the beginning of a file."""


def _articles(
    task: ExtractionTask, page_counts: PageCounts, faults: Skipped, skip: int
) -> Iterator[tuple[int, Document]]:
    def handle_error(reason: str, message: str) -> None:
        if reason in _FATAL_REASONS:
            raise CorpusError(message)
        faults.add(reason, message)

    return READERS[task.dump_format].articles(
        task.file_range,
        task.wiki,
        _find_item(task),
        page_counts=page_counts,
        skip=skip,
        hidden_prefixes=task.hidden_prefixes,
        handle_error=handle_error,
    )


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


def _fields(document: Document) -> tuple[str, ...]:
    return document.concept, document.lang, document.text, document.title, document.url
