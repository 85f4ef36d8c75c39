"""The extraction of dumps: files are downloaded in order, and each is extracted as soon as it is complete."""

import glob
import hashlib
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from cr5.errors import Cr5Error
from cr5.progress import Progress, ProgressCallback
from cr5.sources.files import corpus_errors
from cr5.sources.http.client import StoppedError
from cr5.sources.http.queue import QueuedFile, fetch_all
from cr5.sources.wikipedia.dump_listing import Dump, DumpFile, find_sitelinks
from cr5.sources.wikipedia.dump_reader import FileRange
from cr5.sources.wikipedia.local_dumps import find_local_sitelinks
from cr5.sources.wikipedia.plan import ItemSource, WikipediaRequest
from cr5.sources.wikipedia.shards import READERS, ExtractionResult, ExtractionTask, extract, finished_result
from cr5.sources.wikipedia.wiki import Wiki
from cr5.sources.wikipedia.wikidata_items import from_page_props, from_sitelinks
from cr5.sources.wikipedia.work_files import load_json
from cr5.storage.json_files import write_json

ResultsByWiki: TypeAlias = dict[str, list[tuple[ExtractionTask, ExtractionResult]]]
"""The tasks of every wiki, by its code and in order, with their results."""

_FINGERPRINT_BYTES = 1 << 16  # length of each end of a file that its fingerprint covers


@dataclass
class Extraction:
    """One run: its settings, the tasks that were submitted, and how many articles they have given so far."""

    request: WikipediaRequest
    work: Path
    executor: Executor
    user_agent: str
    progress: ProgressCallback
    notes: list[str]
    _futures: set[Future[ExtractionResult]] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _articles: int = 0

    def extract_all(self, dumps: Sequence[Dump]) -> ResultsByWiki:
        """Download and extract every file that is not extracted yet; return the results of all files."""
        tables = self._item_tables(dumps)
        missing = {
            self.path_of(dump, file): (dump, file)
            for dump in dumps
            for file in dump.files
            if not self._is_extracted(dump, file)
        }

        def on_complete(path: Path) -> None:
            dump, file = missing[path]
            self._check_size(dump, file)
            for task in self._tasks(dump, file, tables[dump.wiki.code]):
                self._submit(task)

        try:
            for path, (_, file) in missing.items():
                if not file.url:
                    on_complete(path)
            remote = [QueuedFile(file.url, path, file.digest) for path, (_, file) in missing.items() if file.url]
            self._fetch(remote, on_complete)
            self._wait()
        except BaseException:
            with self._lock:
                futures = list(self._futures)
            for future in futures:
                future.cancel()
            raise
        return {
            dump.wiki.code: [
                (task, extract(task)) for file in dump.files for task in self._tasks(dump, file, tables[dump.wiki.code])
            ]
            for dump in dumps
        }

    def _fetch(self, files: Sequence[QueuedFile], on_complete: Callable[[Path], None] = lambda path: None) -> None:
        """Download files and call ``on_complete`` with each; stop as soon as a submitted task has failed."""

        def report(step: Progress) -> None:
            so_far = f"{self._articles:,} articles; " if self._articles else ""
            self.progress(Progress("fetch", step.done, step.total, so_far + step.note))

        if not files:
            return
        for file in files:
            file.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            fetched = fetch_all(
                files,
                user_agent=self.user_agent,
                progress=report,
                should_stop=self._has_failed,
                on_complete=on_complete,
            )
        except StoppedError:
            self._wait()  # raises the error of the task that failed
            raise
        self.notes += [f"{file.path.name}: {note}" for file in fetched for note in file.notes]

    # Tasks

    def _submit(self, task: ExtractionTask) -> None:
        future = self.executor.submit(extract, task)
        with self._lock:
            self._futures.add(future)
        future.add_done_callback(self._count_articles)

    def _count_articles(self, future: Future[ExtractionResult]) -> None:
        if not future.cancelled() and future.exception() is None:
            with self._lock:
                self._articles += future.result().documents

    def _has_failed(self) -> bool:
        with self._lock:
            return any(f.done() and (f.cancelled() or f.exception() is not None) for f in self._futures)

    def _wait(self) -> None:
        """Wait for all tasks; raise the first error."""
        pending = submitted = set(self._futures)
        while pending:
            done, pending = wait(pending, 0.5, FIRST_COMPLETED)
            for future in done:
                future.result()
            finished = len(submitted) - len(pending)
            self.progress(Progress("extract", finished, len(submitted), f"{self._articles:,} articles"))

    # Files

    def path_of(self, dump: Dump, file: DumpFile) -> Path:
        """Where a dump file is, or will be downloaded to."""
        return self.work / dump.wiki.code / "dumps" / file.name if file.url else Path(file.name)

    def shard_folder(self, dump: Dump) -> Path:
        """The folder of a wiki's shards."""
        folder = self.work / dump.wiki.code / "extracted"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _is_extracted(self, dump: Dump, file: DumpFile) -> bool:
        """Whether all of a file has been extracted, so that the file itself is no longer needed."""
        record = load_json(self._ranges_record(dump, file))
        return record is not None and all(finished_result(task) for task in self._tasks_of_record(dump, file, record))

    def _tasks(self, dump: Dump, file: DumpFile, items: Path | None) -> list[ExtractionTask]:
        """The tasks of a file; its ranges are chosen once and kept while the file is the same."""
        path, record_path = self.path_of(dump, file), self._ranges_record(dump, file)
        record = load_json(record_path)
        if record is None or not (self._is_extracted(dump, file) or record.get("mark") == _fingerprint(path)):
            for stale in record_path.parent.glob(f"{glob.escape(Path(file.name).name)}.*"):
                stale.unlink()  # from a truncated copy, or from an older dump of the same name
            ranges = READERS[dump.dump_format].split(path)
            # Stored under older names: the fingerprint is the "mark", the ranges are the "pieces".
            record = {"mark": _fingerprint(path), "pieces": [[part.begin, part.end] for part in ranges]}
            write_json(record_path, record)
        return self._tasks_of_record(dump, file, record, items)

    def _ranges_record(self, dump: Dump, file: DumpFile) -> Path:
        """The path of the record of how a file is split."""
        return self.shard_folder(dump) / f"{Path(file.name).name}.pieces.json"

    def _tasks_of_record(
        self, dump: Dump, file: DumpFile, record: dict[str, Any], items: Path | None = None
    ) -> list[ExtractionTask]:
        path, folder = str(self.path_of(dump, file).resolve()), str(self.shard_folder(dump).resolve())
        table = None if items is None else str(items.resolve())
        return [
            ExtractionTask(
                dump.dump_format, FileRange(path, begin, end), dump.wiki, table, folder,
                f"{Path(file.name).name}.{begin:013d}",
            )
            for begin, end in record["pieces"]
        ]  # fmt: skip

    def _check_size(self, dump: Dump, file: DumpFile) -> None:
        """Raise a ``Cr5Error`` if a file is not the one of the plan: it may not belong to the same dump."""
        path = self.path_of(dump, file)
        if file.url and file.size is not None and file.size != (size := path.stat().st_size):
            raise Cr5Error(
                f"{path}: has {size:,} bytes, not {file.size:,} as when this corpus was begun; the dump was replaced: "
                f"delete {self.work / dump.wiki.code} and run the same command again"
            )

    # Item tables

    def _item_tables(self, dumps: Sequence[Dump]) -> dict[str, Path | None]:
        """The item table of every wiki; missing ones are downloaded and built."""
        tables = {dump.wiki.code: self.work / dump.wiki.code / "items" for dump in dumps}
        missing = [dump for dump in dumps if not tables[dump.wiki.code].exists()]
        if self.request.ids == "sitelinks":
            sitelinks = self._sitelinks_file() if missing else None
            sources = {dump.wiki.code: sitelinks for dump in missing}
        else:
            sources = {dump.wiki.code: dump.props for dump in missing}
        files = {
            dump.wiki: (file, self._item_source_path(dump, file))
            for dump in missing
            if (file := sources[dump.wiki.code]) is not None
        }
        remote = {path: QueuedFile(file.url, path, file.digest) for file, path in files.values() if file.url}
        self._fetch(list(remote.values()))
        futures = {
            self.executor.submit(build_item_table, path, wiki, self.request.ids, tables[wiki.code]): wiki
            for wiki, (_, path) in files.items()
        }
        for number, future in enumerate(futures):
            self.progress(Progress("Wikidata items", number, len(futures), futures[future].code))
            future.result()
        return {code: table if table.exists() else None for code, table in tables.items()}

    def _item_source_path(self, dump: Dump, file: DumpFile) -> Path:
        """Where the file with the items is, or will be: Wikidata's table serves all wikis."""
        if self.request.ids == "sitelinks" and file.url:
            return self.work / "wikidata" / file.name
        return self.path_of(dump, file)

    def _sitelinks_file(self) -> DumpFile:
        """Wikidata's table of sitelinks, of the date that an earlier run chose."""
        if self.request.dumps is not None:
            return find_local_sitelinks(self.request.dumps)
        record = load_json(self.work / "sitelinks.json")
        if record is None:
            file = find_sitelinks(mirror=self.request.mirror, user_agent=self.user_agent)
            record = file._asdict()
            write_json(self.work / "sitelinks.json", record)
        return DumpFile(**record)


def build_item_table(path: Path, wiki: Wiki, source: ItemSource, folder: Path, partial: bool = False) -> None:
    """Build the item table of a wiki from its page_props or from Wikidata's sitelinks."""
    if source == "sitelinks":
        from_sitelinks(path, wiki.name, folder)
    else:
        from_page_props(path, folder, partial=partial)


def _fingerprint(path: Path) -> str:
    """A file's size and the digest of both its ends, where compressed formats have their checksums."""
    with corpus_errors(str(path)), path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        beginning = file.read(_FINGERPRINT_BYTES)
        file.seek(max(0, size - _FINGERPRINT_BYTES))
        return f"{size} {hashlib.sha256(beginning + file.read()).hexdigest()}"
