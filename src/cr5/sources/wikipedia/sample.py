"""Samples for trying things out: the first articles of every wiki, from only as much of its files as that needs."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from cr5.errors import CorpusError, Cr5Error
from cr5.progress import Progress
from cr5.sources.http.client import StoppedError
from cr5.sources.http.download import fetch
from cr5.sources.http.partial_file import partial_path
from cr5.sources.wikipedia.dump_listing import Dump, DumpFile
from cr5.sources.wikipedia.dump_reader import FileRange
from cr5.sources.wikipedia.extraction import Extraction, ResultsByWiki, build_item_table
from cr5.sources.wikipedia.shards import ExtractionResult, ExtractionTask, extract, finished_result

SAMPLE_BYTES = 4 << 20  # bytes of each file; doubled until they contain enough articles
_NAME = "sample"
_FOLDER = "head"


def extract_samples(extraction: Extraction, dumps: Sequence[Dump], count: int) -> ResultsByWiki:
    """Extract the first ``count`` articles of every dump, from as few bytes as they need."""
    results: ResultsByWiki = {}
    for number, dump in enumerate(dumps):
        extraction.progress(Progress("sample", number, len(dumps), dump.wiki.code))
        folder = str(extraction.shard_folder(dump).resolve())
        task = ExtractionTask(dump.dump_format, FileRange(""), dump.wiki, None, folder, _NAME)
        result = finished_result(task) or _extract_sample(extraction, dump, count)
        results[dump.wiki.code] = [(task, result)]
    return results


def _extract_sample(extraction: Extraction, dump: Dump, count: int) -> ExtractionResult:
    folder = extraction.work / dump.wiki.code / _FOLDER
    result, size = None, SAMPLE_BYTES
    while result is None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        result = _try_sample(extraction, dump, count, size, folder)
        size *= 2
    # The record comes last: with it the sample is complete.
    for name in [*(f"{_NAME}-{number:05d}.parquet" for number in range(result.shards)), f"{_NAME}.json"]:
        (folder / name).replace(extraction.shard_folder(dump) / name)
    shutil.rmtree(folder)
    return result


def _try_sample(extraction: Extraction, dump: Dump, count: int, size: int, folder: Path) -> ExtractionResult | None:
    """A sample from the beginnings of the first file and of the item table's source; None if they are too short."""
    path, complete = _fetch_beginning(extraction, dump, dump.files[0], size, folder)
    items: str | None = None
    try:
        if dump.props is not None:
            props, props_complete = _fetch_beginning(extraction, dump, dump.props, size, folder)
            complete &= props_complete
            items = str(folder / "items")
            build_item_table(props, dump.wiki, "props", Path(items), partial=not props_complete)
        file_range = FileRange(str(path))
        result = extract(
            ExtractionTask(dump.dump_format, file_range, dump.wiki, items, str(folder), _NAME, limit=count)
        )
    except CorpusError:
        if complete:
            raise
        return None
    if complete and result.stopped_because:
        raise Cr5Error(result.stopped_because)
    return result if complete or result.documents >= count else None


def _fetch_beginning(extraction: Extraction, dump: Dump, file: DumpFile, size: int, folder: Path) -> tuple[Path, bool]:
    """The first ``size`` bytes of a file and whether that is all of it; a later download resumes from them."""
    path = extraction.path_of(dump, file)
    if not file.url:
        return path.resolve(), True
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = partial_path(path)
    needs_all = path.suffix == ".parquet"  # the table of contents is at its end

    def should_stop() -> bool:
        return not needs_all and partial.exists() and partial.stat().st_size >= size

    try:
        fetch(
            file.url,
            path,
            digest=file.digest,
            user_agent=extraction.user_agent,
            progress=extraction.progress,
            should_stop=should_stop,
        )
    except StoppedError:
        link = folder / path.name
        link.symlink_to(partial.resolve())
        return link, False
    return path.resolve(), True
