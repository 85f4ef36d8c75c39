"""Wikipedia: from nothing to a corpus aligned by Wikidata's items.

Everything that has been done lies in a hidden folder of the corpus, a language each: the plan (which
dump, which files), the files, the table of items, the extracted shards. Each is whole or not there,
so whatever ends a run, the next one goes on.
"""

import fcntl
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cr5.corpus import Skipped
from cr5.errors import UserError
from cr5.progress import Progress, Report, silent
from cr5.sources.align import Edition, Published, begin, finish, publish, shared_items
from cr5.sources.harvest import Harvest, Harvested
from cr5.sources.plan import Request, plan
from cr5.sources.sample import take_samples
from cr5.sources.shards import Done, shard
from cr5.sources.wiki import PAGES, Tally
from cr5.sources.wikimedia import Dump

WORK = ".work"
HEAD = 4 << 20  # bytes of a file that a sample begins with


class Language(NamedTuple):
    """What became of one Wikipedia."""

    dump: Dump
    done: Done
    published: Published

    @property
    def documents(self) -> int:
        """How many there are in the corpus."""
        return sum(self.published.files.values())


@dataclass
class Built:
    """A corpus that is whole; ``shared`` concepts are in two of its languages or more."""

    output: Path
    languages: dict[str, Language]
    shared: int
    notes: list[str] = field(default_factory=list)


def build(
    request: Request,
    output: Path,
    *,
    executor: Executor,
    agent: str,
    progress: Report = silent,
    pause: float = 1.0,
    head: int = HEAD,
) -> Built:
    """Fetch, extract and align; what an earlier call has done is not done again.

    ``executor`` runs what takes long: processes here, or workers of a cluster that see the same files. ``pause``
    is the first wait in seconds after a server's refusal, ``head`` how many bytes a sample fetches at first.
    """
    request.check()
    work = output / WORK
    work.mkdir(parents=True, exist_ok=True)
    with _alone(work):
        dumps = plan(request, work, agent=agent, pause=pause, progress=progress)
        harvest = Harvest(request, work, executor, agent, progress, pause, [n for dump in dumps for n in dump.notes])
        done = take_samples(harvest, dumps, request.sample, head) if request.sample else harvest.all(dumps)
        return _publish(request, output, dumps, done, executor, progress, harvest.notes)


@contextmanager
def _alone(work: Path) -> Iterator[None]:
    """Keep a second run away from the folder."""
    with (work / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"{work.parent}: another run is writing this corpus; wait until it ends") from None
        yield


def _publish(
    request: Request,
    output: Path,
    dumps: Sequence[Dump],
    done: Harvested,
    executor: Executor,
    progress: Report,
    notes: list[str],
) -> Built:
    """Choose, write, and say what it is."""
    shards = {
        dump.wiki.lang: [shard(job, i) for job, ended in done[dump.wiki.code] for i in range(ended.shards)]
        for dump in dumps
    }
    progress(Progress("align", 0, len(dumps)))
    items = shared_items(shards)
    table = output / WORK / "shared.npy"
    if request.keep.shared:
        np.save(table, items)
    begin(output, {"source": "wikipedia"})
    futures = {
        lang: executor.submit(
            publish,
            Edition(
                lang, tuple(str(path) for path in paths), str(output.resolve()), request.keep,
                str(table.resolve()) if request.keep.shared else None,
            ),
        )
        for lang, paths in shards.items()
    }  # fmt: skip
    found: dict[str, Language] = {}
    for number, dump in enumerate(dumps):
        progress(Progress("align", number, len(dumps), dump.wiki.code))
        published = futures[dump.wiki.lang].result()
        found[dump.wiki.lang] = Language(dump, _sum([ended for _, ended in done[dump.wiki.code]]), published)
    built = Built(output, found, len(items), notes)
    finish(output, about(request, built), {k: n for each in found.values() for k, n in each.published.files.items()})
    return built


def _sum(parts: Sequence[Done]) -> Done:
    tally, faults = Tally(), Skipped()
    for part in parts:
        tally.update(part.tally)
        for reason, count in part.faults.counts.items():
            faults.add(reason, part.faults.examples[reason], count)
    return Done(sum(part.documents for part in parts), sum(part.shards for part in parts), tally, faults)


def about(request: Request, built: Built) -> dict[str, Any]:
    """What the manifest says of a corpus."""
    return {
        "source": "wikipedia",
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "dumps": request.kind,
        "ids": request.ids,
        "sample": request.sample,
        "concepts": "shared" if request.keep.shared else "all",
        "drop_foreign": request.keep.own,
        "dedupe": request.keep.unlike,
        "concepts_shared": built.shared,
        "languages": {
            lang: {
                "wiki": language.dump.wiki.name,
                "dump": language.dump.date,
                "from": [
                    {"name": Path(f.name).name, "url": f.url, "size": f.size, "digest": f.digest}
                    for f in (*language.dump.files, *([language.dump.props] if language.dump.props else []))
                ],
                "pages": language.done.tally[PAGES],
                "left_out": {reason: count for reason, count in language.done.tally.items() if reason != PAGES},
                "faults": language.done.faults.counts,
                "articles": language.published.articles,
                "alone": language.published.alone,
                "foreign": language.published.foreign,
                "duplicates": language.published.duplicates,
                "documents": language.documents,
            }
            for lang, language in built.languages.items()
        },
    }
