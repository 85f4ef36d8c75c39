"""Wikipedia: from nothing to a corpus aligned by Wikidata's items.

Everything that has been done lies in a hidden folder of the corpus, a language each: the plan (which
dump, which files), the files, the table of items, the extracted shards. Each is whole or not there,
so whatever ends a run, the next one goes on.
"""

import secrets
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cr5.corpus.reading import read_batches
from cr5.corpus.skipped import Skipped
from cr5.errors import Cr5Error
from cr5.progress import Progress, ProgressCallback, silent
from cr5.sources.wikipedia.dump_listing import Dump
from cr5.sources.wikipedia.extraction import Harvest, Harvested
from cr5.sources.wikipedia.plan import Request, plan
from cr5.sources.wikipedia.publishing import (
    Edition,
    Published,
    begin,
    check_folder,
    finish,
    is_temporary,
    publish,
    shared_items,
)
from cr5.sources.wikipedia.sample import take_samples
from cr5.sources.wikipedia.shards import Done, shard, writing
from cr5.sources.wikipedia.wiki import PAGES, Tally
from cr5.storage.locks import locked

WORK = ".work"
_SOURCE = "wikipedia"
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
    progress: ProgressCallback = silent,
    pause: float = 1.0,
    head: int = HEAD,
) -> Built:
    """Fetch, extract and align; what an earlier call has done is not done again.

    ``executor`` runs what takes long: processes here, or workers of a cluster that see the same files. ``pause``
    is the first wait in seconds after a server's refusal, ``head`` how many bytes a sample fetches at first.
    """
    request.check()
    work = output / WORK
    check_folder(output, _SOURCE, [wiki.lang for wiki in request.wikis], begun=work.exists())
    with _alone(work):
        _sweep(output)
        dumps = plan(request, work, agent=agent, pause=pause, progress=progress)
        harvest = Harvest(request, work, executor, agent, progress, pause, [n for dump in dumps for n in dump.notes])
        done = take_samples(harvest, dumps, request.sample, head) if request.sample else harvest.all(dumps)
        return _publish(request, output, dumps, done, executor, progress, harvest.notes)


@contextmanager
def _alone(work: Path) -> Iterator[None]:
    """Keep a second run away from the folder."""
    try:
        work.mkdir(parents=True, exist_ok=True)
        (work / "lock").touch()
    except OSError as error:
        reason = str(error.strerror).lower()
        raise Cr5Error(f"{work.parent}: cannot be written, {reason}; name another folder") from error
    busy = Cr5Error(f"{work.parent}: another run is writing this corpus; wait until it ends")
    with locked(work / "lock", busy=busy):
        yield


def _sweep(output: Path) -> None:
    """Remove what was half written when an earlier run was killed."""
    ours = [path for path in output.glob(".*.tmp") if is_temporary(path.name)]
    for path in [*ours, *(output / WORK).rglob("*.tmp")]:
        path.unlink(missing_ok=True)


def _publish(
    request: Request,
    output: Path,
    dumps: Sequence[Dump],
    done: Harvested,
    executor: Executor,
    progress: ProgressCallback,
    notes: list[str],
) -> Built:
    """Choose, write, and say what it is."""
    shards = {
        dump.wiki.lang: [shard(job, i) for job, ended in done[dump.wiki.code] for i in range(ended.shards)]
        for dump in dumps
    }
    progress(Progress("align", 0, len(dumps)))
    sums = {dump.wiki.code: _sum([ended for _, ended in done[dump.wiki.code]]) for dump in dumps}
    for code, total in sums.items():
        if not total.documents:
            raise Cr5Error(
                f"{code}: {_nothing(total)}; take another --date or --source, or leave {code} out of --langs"
            )
    items = shared_items(shards)
    if request.keep.shared and not len(items):
        raise Cr5Error(f"no concept is in two of {', '.join(shards)}; raise --sample, or keep all concepts")
    table, run = output / WORK / "shared.npy", secrets.token_hex(8)
    if request.keep.shared:
        with writing(table) as file:
            np.save(file, items)
    begin(output, _SOURCE, run)
    futures = {
        lang: executor.submit(
            publish,
            Edition(
                lang, tuple(str(path) for path in paths), str(output.resolve()), request.keep,
                str(table.resolve()) if request.keep.shared else None, run,
            ),
        )
        for lang, paths in shards.items()
    }  # fmt: skip
    found: dict[str, Language] = {}
    for number, dump in enumerate(dumps):
        progress(Progress("align", number, len(dumps), dump.wiki.code))
        published = futures[dump.wiki.lang].result()
        found[dump.wiki.lang] = Language(dump, sums[dump.wiki.code], published)
    built = Built(output, found, len(items), notes)
    files = {name: count for each in found.values() for name, count in each.published.files.items()}
    if not files:
        raise Cr5Error(f"{output}: no document is left; drop less")
    finish(output, about(request, built), files)
    _sweep(output)
    notes += [f"{lang}: no document is left" for lang, language in found.items() if not language.documents]
    others = [source for source in read_batches(output).sources if source not in {str(output / name) for name in files}]
    notes += [f"{source} was there before; whoever reads {output} reads it as well" for source in others]
    return built


def _nothing(done: Done) -> str:
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in done.tally.items() if reason != PAGES)
    return f"none of its {done.tally[PAGES]:,} pages is an article" + (f" ({reasons})" if reasons else "")


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
        "source": _SOURCE,
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
