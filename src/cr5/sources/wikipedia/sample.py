"""A sample for a try-out: the first articles of every wiki, from no more of its files than that takes."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from cr5.errors import CorpusError, Cr5Error
from cr5.progress import Progress
from cr5.sources.http.client import StoppedError
from cr5.sources.http.download import fetch
from cr5.sources.wikipedia import xml_dump
from cr5.sources.wikipedia.dump_listing import Dump, File
from cr5.sources.wikipedia.extraction import Harvest, Harvested, make_table
from cr5.sources.wikipedia.shards import Done, Job, extract, finished
from cr5.sources.wikipedia.wiki import Piece

_NAME = "sample"


def take_samples(harvest: Harvest, dumps: Sequence[Dump], count: int, size: int) -> Harvested:
    """The first ``count`` articles of every dump; ``size`` bytes are fetched at first, and twice as many each time."""
    found: Harvested = {}
    for number, dump in enumerate(dumps):
        harvest.progress(Progress("sample", number, len(dumps), dump.wiki.code))
        folder = harvest.folder(dump)
        job = Job(dump.kind, Piece(""), dump.wiki, None, None, str(folder.resolve()), _NAME)
        if finished(job) is None:
            _take(harvest, dump, count, size)
        found[dump.wiki.code] = [(job, extract(job))]
    return found


def _take(harvest: Harvest, dump: Dump, count: int, size: int) -> None:
    heads = harvest.work / dump.wiki.code / "head"
    done = None
    while done is None:
        shutil.rmtree(heads, ignore_errors=True)
        heads.mkdir(parents=True)
        done = _try(harvest, dump, count, size, heads)
        size *= 2
    for name in [*(f"{_NAME}-{i:05d}.parquet" for i in range(done.shards)), f"{_NAME}.json"]:  # its record last
        (heads / name).replace(harvest.folder(dump) / name)
    shutil.rmtree(heads)


def _try(harvest: Harvest, dump: Dump, count: int, size: int, heads: Path) -> Done | None:
    """A sample from the heads of the first file and of the items, or None where they are too short for it."""
    path, whole = _head(harvest, dump, dump.files[0], size, heads)
    table: Path | None = None
    try:
        if dump.props is not None:
            props, complete = _head(harvest, dump, dump.props, size, heads)
            whole &= complete
            table = heads / "items"
            make_table(props, dump.wiki, "props", table, partial=not complete)
        hidden = xml_dump.hidden_names(path) if dump.kind == "xml" else None
        items = None if table is None else str(table)
        done = extract(Job(dump.kind, Piece(str(path)), dump.wiki, items, hidden, str(heads), _NAME, limit=count))
    except CorpusError:
        if whole:
            raise
        return None
    if whole and done.cut:
        raise Cr5Error(done.cut)
    return done if whole or done.documents >= count else None


def _head(harvest: Harvest, dump: Dump, file: File, size: int, heads: Path) -> tuple[Path, bool]:
    """The first bytes of a file under its own name, and whether they are all; a later run can go on from there."""
    path = harvest.place(dump, file)
    if not file.url:
        return path.resolve(), True
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    divisible = path.suffix != ".parquet"  # its end tells what there is

    def stop() -> bool:
        return divisible and part.exists() and part.stat().st_size >= size

    try:
        fetch(
            file.url,
            path,
            digest=file.digest,
            agent=harvest.agent,
            progress=harvest.progress,
            pause=harvest.pause,
            stop=stop,
        )
    except StoppedError:
        link = heads / path.name
        link.symlink_to(part.resolve())
        return link, False
    return path.resolve(), True
