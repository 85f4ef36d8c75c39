"""Shards: the articles of a dump's pieces as Parquet files, each written once, whole or not at all."""

import errno
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from cr5.corpus import identification
from cr5.corpus.documents import SCHEMA, Document
from cr5.corpus.skipped import Skipped
from cr5.errors import CorpusError, Cr5Error
from cr5.sources.wikipedia import parquet_export, search_index_dump, xml_dump
from cr5.sources.wikipedia.wiki import Kind, Piece, Tally, Wiki
from cr5.sources.wikipedia.wikidata_items import Items
from cr5.storage.atomic import replacing

ARTICLES = SCHEMA.append(pa.field("foreign", pa.string()))
"""A corpus' columns, and the language that a text is evidently in where that is not its own."""
SHARD_BYTES = 64 << 20  # of text
_STATE = b"cr5"
_FATAL = {"cut short", "unreadable file"}  # what is lost then is not a page but any part of a file


class Job(NamedTuple):
    """A piece to extract, by whoever can see its files: where to, and what its shards are called."""

    kind: Kind
    piece: Piece
    wiki: Wiki
    items: str | None
    hidden: frozenset[str] | None
    folder: str
    name: str
    size: int = SHARD_BYTES
    limit: int | None = None  # articles of a sample: the file may be only the head of one


class Done(NamedTuple):
    """What came of a job: documents in how many shards, of which pages, and what was broken.

    ``cut`` is why the head of a file ended before its sample was full.
    """

    documents: int
    shards: int
    tally: Tally
    faults: Skipped
    cut: str = ""


def extract(job: Job) -> Done:
    """Write a piece's articles into shards; behind those of an earlier run, if there are any."""
    if (done := finished(job)) is not None:
        return done
    state: dict[str, Any] = {
        "record": 0,
        "documents": 0,
        "shards": 0,
        "tally": {},
        "faults": {},
        "examples": {},
        "cut": "",
    }
    while (path := shard(job, state["shards"])).exists():
        state = _state(path)
    tally, faults = Counter(state["tally"]), Skipped(state["faults"], state["examples"])
    rows: list[tuple[str, ...]] = []
    size = 0

    def write(record: int) -> None:
        state.update(
            record=record,
            documents=state["documents"] + len(rows),
            shards=state["shards"] + 1,
            tally=dict(tally),
            faults=faults.counts,
            examples=faults.examples,
        )
        columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
        table = pa.Table.from_arrays(columns, schema=ARTICLES)
        write_table(shard(job, state["shards"] - 1), table, {_STATE: json.dumps(state).encode()})

    record = state["record"]
    for record, document in _some(job, state, _articles(job, tally, faults, state["record"])):
        guess = identification.find_foreign_language(document.text, job.wiki.lang)
        rows.append((*_fields(document), guess.lang if guess else ""))
        size += len(document.text.encode())
        if size >= job.size:
            write(record)
            rows, size = [], 0
    if rows:
        write(record)
    state.update(tally=dict(tally), faults=faults.counts, examples=faults.examples)
    write_json(_record(job), state)
    return _done(state)


def finished(job: Job) -> Done | None:
    """What came of a job that has been done; None where it has not, or where one of its shards is gone."""
    if (state := load_json(_record(job))) is None:
        return None
    return _done(state) if all(shard(job, number).exists() for number in range(state["shards"])) else None


def _some(job: Job, state: dict[str, Any], found: Iterator[tuple[int, Document]]) -> Iterator[tuple[int, Document]]:
    """All articles, or as many as a sample wants; it may find an end where its file has been cut."""
    if job.limit is None:
        yield from found
        return
    try:
        yield from islice(found, job.limit)
    except (CorpusError, _BeyondError) as error:
        state["cut"] = str(error)


class _BeyondError(Exception):
    """A page behind the end of a table of items that is only a head."""


def shard(job: Job, number: int) -> Path:
    """Where a job's shard lies."""
    return Path(job.folder) / f"{job.name}-{number:05d}.parquet"


def _record(job: Job) -> Path:
    return Path(job.folder) / f"{job.name}.json"


def _state(path: Path) -> dict[str, Any]:
    """How far a job was when it had written a shard."""
    with whole(path):
        state: dict[str, Any] = json.loads(pq.read_schema(path).metadata[_STATE])
        return state


@contextmanager
def whole(path: Path) -> Iterator[None]:
    """Say what to do about a shard that cannot be read, though it was written whole."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, OSError) and error.strerror:
            raise
        raise CorpusError(f"{path}: damaged; delete it and run the same command again") from error


def _articles(job: Job, tally: Tally, faults: Skipped, skip: int) -> Iterator[tuple[int, Document]]:
    find = _finder(Items.open(Path(job.items)), job.limit is not None) if job.items else None

    def handle_error(reason: str, message: str) -> None:
        if reason in _FATAL:
            raise CorpusError(message)
        faults.add(reason, message)

    if job.kind == "cirrus":
        return search_index_dump.articles(job.piece, job.wiki, find, tally=tally, skip=skip, handle_error=handle_error)
    assert find is not None
    if job.kind == "parquet":
        return parquet_export.articles(job.piece, job.wiki, find, tally=tally, skip=skip, handle_error=handle_error)
    return xml_dump.articles(
        job.piece, job.wiki, find, tally=tally, skip=skip, handle_error=handle_error, hidden=job.hidden
    )


def _finder(items: Items, head: bool) -> Callable[[int, str], tuple[str, bool] | None]:
    if not (head and items.partial):
        return items.find

    def find(page: int, title: str) -> tuple[str, bool] | None:
        if page > items.last:
            raise _BeyondError(f"page {page} is behind the last of the items that have come")
        return items.find(page, title)

    return find


def _fields(document: Document) -> tuple[str, ...]:
    return document.concept, document.lang, document.text, document.title, document.url


def _done(state: Mapping[str, Any]) -> Done:
    faults = Skipped(dict(state["faults"]), dict(state["examples"]))
    return Done(state["documents"], state["shards"], Counter(state["tally"]), faults, state["cut"])


# Files that are whole or not there


def write_table(path: Path, table: pa.Table, metadata: Mapping[bytes, bytes]) -> None:
    """A Parquet file that carries its state with it."""
    table = table.replace_schema_metadata(dict(metadata))
    with writing(path) as file:
        pq.write_table(table, file, compression="zstd")


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """A JSON file for people and for the next run."""
    with writing(path) as file:
        file.write(f"{json.dumps(values, ensure_ascii=False, indent=1)}\n".encode())


def load_json(path: Path, unit: Path | None = None) -> dict[str, Any] | None:
    """What ``write_json`` wrote, or None where it has not yet; ``unit`` is what is worth nothing without it."""
    try:
        values = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError:
        values = None
    if not isinstance(values, dict):
        raise Cr5Error(f"{path}: damaged; delete {unit or 'it'} and run the same command again")
    return values


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which gets its name when it is on the disk; a full one tells the user how to go on."""
    try:
        with replacing(path) as file:
            yield file
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise Cr5Error(
                f"{path}: no space left on the disk; free some and run the same command again, it goes on from here"
            ) from error
        raise
