"""The harvest of dumps: files fetched, and extracted as they arrive."""

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
from cr5.sources.files import reading
from cr5.sources.http.client import StoppedError
from cr5.sources.http.queue import Item, fetch_all
from cr5.sources.wikipedia import parquet_export, search_index_dump, xml_dump
from cr5.sources.wikipedia.dump_listing import Dump, File, find_sitelinks
from cr5.sources.wikipedia.local_dumps import find_local_sitelinks
from cr5.sources.wikipedia.plan import Ids, Request
from cr5.sources.wikipedia.shards import Done, Job, extract, finished, load_json, write_json
from cr5.sources.wikipedia.wiki import Piece, Wiki
from cr5.sources.wikipedia.wikidata_items import from_page_props, from_sitelinks

Harvested: TypeAlias = dict[str, list[tuple[Job, Done]]]
"""Every wiki's jobs in order, by its code, with what came of them."""

_DIVIDE = {"cirrus": search_index_dump.pieces, "xml": xml_dump.pieces, "parquet": parquet_export.pieces}
_ENDS = 1 << 16  # bytes at each end of a file


@dataclass
class Harvest:
    """One run: where things lie, who works, and how far they are."""

    request: Request
    work: Path
    executor: Executor
    agent: str
    progress: ProgressCallback
    pause: float
    notes: list[str] = field(default_factory=list)
    working: set[Future[Done]] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)
    articles: int = 0

    def all(self, dumps: Sequence[Dump]) -> Harvested:
        """Fetch and extract whatever is not yet extracted."""
        tables = self.tables(dumps)
        missing = {
            self.place(dump, file): (dump, file)
            for dump in dumps
            for file in dump.files
            if not self.extracted(dump, file)
        }

        def arrived(path: Path) -> None:
            dump, file = missing[path]
            self.check(dump, file)
            for job in self.jobs(dump, file, tables[dump.wiki.code]):
                self.submit(job)

        try:
            for path, (_, file) in missing.items():
                if not file.url:
                    arrived(path)
            self.fetch([(file.url, path, file.digest) for path, (_, file) in missing.items() if file.url], arrived)
            self.wait()
        except BaseException:
            with self.lock:
                working = list(self.working)
            for future in working:
                future.cancel()
            raise
        return {
            dump.wiki.code: [
                (job, extract(job)) for file in dump.files for job in self.jobs(dump, file, tables[dump.wiki.code])
            ]
            for dump in dumps
        }

    def fetch(self, items: Sequence[Item], arrived: Callable[[Path], None] = lambda path: None) -> None:
        """Bring files here, and tell of each; a failure of whoever works on them meanwhile ends it."""

        def report(step: Progress) -> None:
            so_far = f"{self.articles:,} articles; " if self.articles else ""
            self.progress(Progress("fetch", step.done, step.total, so_far + step.note))

        if not items:
            return
        for _, path, _ in items:
            path.parent.mkdir(parents=True, exist_ok=True)
        try:
            found = fetch_all(
                items, agent=self.agent, progress=report, pause=self.pause, stop=self.failed, arrived=arrived
            )
        except StoppedError:
            self.wait()  # raises what stopped it
            raise
        self.notes += [f"{file.path.name}: {note}" for file in found for note in file.notes]

    # Who works

    def submit(self, job: Job) -> None:
        """Have a job done."""
        future = self.executor.submit(extract, job)
        with self.lock:
            self.working.add(future)
        future.add_done_callback(self.count)

    def count(self, future: Future[Done]) -> None:
        """Add what has come."""
        if not future.cancelled() and future.exception() is None:
            with self.lock:
                self.articles += future.result().documents

    def failed(self) -> bool:
        """Whether there is no sense in going on."""
        with self.lock:
            return any(f.done() and (f.cancelled() or f.exception() is not None) for f in self.working)

    def wait(self) -> None:
        """Until all jobs are done; the first failure ends it."""
        left = total = set(self.working)
        while left:
            ended, left = wait(left, 0.5, FIRST_COMPLETED)
            for future in ended:
                future.result()
            self.progress(Progress("extract", len(total) - len(left), len(total), f"{self.articles:,} articles"))

    # Files

    def place(self, dump: Dump, file: File) -> Path:
        """Where a file is, or will be."""
        return self.work / dump.wiki.code / "dumps" / file.name if file.url else Path(file.name)

    def folder(self, dump: Dump) -> Path:
        """Where shards go."""
        folder = self.work / dump.wiki.code / "extracted"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def extracted(self, dump: Dump, file: File) -> bool:
        """Whether a file has given all it has, so that it need not even be there."""
        known = load_json(self.pieces(dump, file))
        return known is not None and all(finished(job) for job in self.divided(dump, file, known))

    def jobs(self, dump: Dump, file: File, items: Path | None) -> list[Job]:
        """What is to be done with a file; its pieces are chosen once, for as long as it is the same file."""
        path, record = self.place(dump, file), self.pieces(dump, file)
        known = load_json(record)
        if known is None or not (self.extracted(dump, file) or known.get("mark") == _mark(path)):
            for left in record.parent.glob(f"{glob.escape(Path(file.name).name)}.*"):
                left.unlink()  # of a copy that was cut short, or of a dump that has been renewed
            known = {
                "mark": _mark(path),
                "pieces": [[piece.begin, piece.end] for piece in _DIVIDE[dump.kind](path)],
                "hidden": sorted(xml_dump.hidden_names(path)) if dump.kind == "xml" else None,
            }
            write_json(record, known)
        return self.divided(dump, file, known, items)

    def pieces(self, dump: Dump, file: File) -> Path:
        """Where it stands how a file is divided."""
        return self.folder(dump) / f"{Path(file.name).name}.pieces.json"

    def divided(self, dump: Dump, file: File, known: dict[str, Any], items: Path | None = None) -> list[Job]:
        """The jobs of a file that has been divided."""
        path, folder = str(self.place(dump, file).resolve()), str(self.folder(dump).resolve())
        hidden = None if known["hidden"] is None else frozenset(known["hidden"])
        table = None if items is None else str(items.resolve())
        return [
            Job(
                dump.kind, Piece(path, begin, end), dump.wiki, table, hidden, folder,
                f"{Path(file.name).name}.{begin:013d}",
            )
            for begin, end in known["pieces"]
        ]  # fmt: skip

    def check(self, dump: Dump, file: File) -> None:
        """Refuse a file that is not the one of the plan: with the others it might make no dump."""
        path = self.place(dump, file)
        if file.url and file.size is not None and file.size != (size := path.stat().st_size):
            raise Cr5Error(
                f"{path}: {size:,} bytes, not {file.size:,} as when this corpus was begun: the dump has been renewed; "
                f"delete {self.work / dump.wiki.code} and run the same command again"
            )

    # Tables of items

    def tables(self, dumps: Sequence[Dump]) -> dict[str, Path | None]:
        """Every wiki's table of items, fetched and made where it is missing."""
        found = {dump.wiki.code: self.work / dump.wiki.code / "items" for dump in dumps}
        missing = [dump for dump in dumps if not found[dump.wiki.code].exists()]
        if self.request.ids == "sitelinks":
            everything = self.sitelinks() if missing else None
            sources = {dump.wiki.code: everything for dump in missing}
        else:
            sources = {dump.wiki.code: dump.props for dump in missing}
        wanted = {
            dump.wiki: (file, self.table_place(dump, file))
            for dump in missing
            if (file := sources[dump.wiki.code]) is not None
        }
        self.fetch(list({path: (file.url, path, file.digest) for file, path in wanted.values() if file.url}.values()))
        making = {
            self.executor.submit(make_table, path, wiki, self.request.ids, found[wiki.code]): wiki
            for wiki, (_, path) in wanted.items()
        }
        for number, future in enumerate(making):
            self.progress(Progress("items of Wikidata", number, len(making), making[future].code))
            future.result()
        return {code: table if table.exists() else None for code, table in found.items()}

    def table_place(self, dump: Dump, file: File) -> Path:
        """Where the file with the items is, or will be: Wikidata's is for all wikis."""
        if self.request.ids == "sitelinks" and file.url:
            return self.work / "wikidata" / file.name
        return self.place(dump, file)

    def sitelinks(self) -> File:
        """Wikidata's table, of the date that an earlier run began with."""
        if self.request.dumps is not None:
            return find_local_sitelinks(self.request.dumps)
        known = load_json(self.work / "sitelinks.json")
        if known is None:
            known = find_sitelinks(mirror=self.request.mirror, agent=self.agent, pause=self.pause)._asdict()
            write_json(self.work / "sitelinks.json", known)
        return File(**known)


def make_table(path: Path, wiki: Wiki, ids: Ids, folder: Path, partial: bool = False) -> None:
    """A wiki's table of items."""
    if ids == "sitelinks":
        from_sitelinks(path, wiki.name, folder)
    else:
        from_page_props(path, folder, partial=partial)


def _mark(path: Path) -> str:
    """What tells a file from another of its name: its size and its ends, where compressed files have their sums."""
    with reading(str(path)), path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        head = file.read(_ENDS)
        file.seek(max(0, size - _ENDS))
        return f"{size} {hashlib.sha256(head + file.read()).hexdigest()}"
