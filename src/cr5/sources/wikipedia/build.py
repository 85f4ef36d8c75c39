"""Building a Wikipedia corpus: find dumps, download and extract them, filter and publish their articles.

The concept of an article is its Wikidata item, which is the same in all languages.

All intermediate files are in a hidden folder of the corpus, one folder per language: the plan (which dump, which
files), the downloads, the item table, the extracted shards. Each is written atomically, so a run that was stopped or
killed is resumed by the next one.
"""

import secrets
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from cr5.corpus.reading import read_batches
from cr5.errors import Cr5Error
from cr5.progress import Progress, ProgressCallback, no_progress
from cr5.sources.wikipedia.corpus_folder import (
    SOURCE,
    begin_writing,
    check_folder,
    finish_writing,
    locked_folder,
    remove_temporary_files,
    work_folder,
)
from cr5.sources.wikipedia.dump_listing import Dump
from cr5.sources.wikipedia.dump_reader import PAGES
from cr5.sources.wikipedia.extraction import Extraction, ResultsByWiki
from cr5.sources.wikipedia.plan import WikipediaRequest, choose_dumps
from cr5.sources.wikipedia.publishing import PublishedLanguage, PublishingTask, find_shared_items, publish
from cr5.sources.wikipedia.sample import extract_samples
from cr5.sources.wikipedia.shards import ExtractionResult, shard_path
from cr5.storage.array_files import write_array
from cr5.storage.atomic import atomic_write
from cr5.storage.output_paths import advising_on_full_disks

CONTINUED = "; free some space and run the same command again, which continues"


class WikiSummary(NamedTuple):
    """What was read from one Wikipedia and what was published of it."""

    dump: Dump
    extracted: ExtractionResult
    published: PublishedLanguage

    @property
    def documents(self) -> int:
        """How many documents of this language the corpus has."""
        return sum(self.published.files.values())


@dataclass
class WikipediaCorpus:
    """A complete corpus; ``shared_concepts`` of its concepts are in at least two languages."""

    output: Path
    languages: dict[str, WikiSummary]
    shared_concepts: int
    notes: list[str] = field(default_factory=list)


def build(
    request: WikipediaRequest,
    output: Path,
    *,
    executor: Executor,
    user_agent: str,
    progress: ProgressCallback = no_progress,
) -> WikipediaCorpus:
    """Download, extract and publish; what an earlier call has finished is not repeated.

    ``executor`` runs the long tasks, in local processes or on workers of a cluster that see the same files.
    ``user_agent`` must name a contact.
    """
    request.check()
    check_folder(output, [wiki.lang for wiki in request.wikis])
    work = work_folder(output)
    with locked_folder(output), advising_on_full_disks(output, CONTINUED):
        remove_temporary_files(output)
        dumps = choose_dumps(request, work, user_agent=user_agent, progress=progress)
        notes = [note for dump in dumps for note in dump.notes]
        extraction = Extraction(request, work, executor, user_agent, progress, notes)
        if request.sample:
            results = extract_samples(extraction, dumps, request.sample)
        else:
            results = extraction.extract_all(dumps)
        return _publish(request, output, dumps, results, executor, progress, notes)


def _publish(
    request: WikipediaRequest,
    output: Path,
    dumps: Sequence[Dump],
    results: ResultsByWiki,
    executor: Executor,
    progress: ProgressCallback,
    notes: list[str],
) -> WikipediaCorpus:
    """Filter the articles, write the files of every language and then the manifest."""
    progress(Progress("publish", 0, len(dumps)))
    extracted = {dump.wiki.lang: _total([result for _, result in results[dump.wiki.code]]) for dump in dumps}
    for dump in dumps:
        _check_not_empty(dump, extracted[dump.wiki.lang])
    shards = {
        dump.wiki.lang: [
            shard_path(task, number) for task, result in results[dump.wiki.code] for number in range(result.shards)
        ]
        for dump in dumps
    }
    items = find_shared_items(shards)
    run = secrets.token_hex(8)
    table = None
    if request.concepts == "shared":
        if not len(items):
            raise Cr5Error(
                f'no concept is shared by any two of {", ".join(shards)}; increase `sample`, or use `concepts="all"`'
            )
        table = work_folder(output) / "shared.npy"
        with atomic_write(table) as file:
            write_array(file, items)
    begin_writing(output, run)
    futures = {
        lang: executor.submit(
            publish,
            PublishingTask(
                lang, tuple(map(str, paths)), str(output.resolve()), request, str(table.resolve()) if table else None,
                run,
            ),
        )
        for lang, paths in shards.items()
    }  # fmt: skip
    languages: dict[str, WikiSummary] = {}
    for number, dump in enumerate(dumps):
        progress(Progress("publish", number, len(dumps), dump.wiki.code))
        lang = dump.wiki.lang
        languages[lang] = WikiSummary(dump, extracted[lang], futures[lang].result())
    corpus = WikipediaCorpus(output, languages, len(items), notes)
    files = {name: count for summary in languages.values() for name, count in summary.published.files.items()}
    if not files:
        raise Cr5Error(f"{output}: the filters left no document; leave out `drop_foreign` or `dedupe`")
    finish_writing(output, manifest_facts(request, corpus), files)
    remove_temporary_files(output)
    notes += [f"{lang}: the filters left no document" for lang, summary in languages.items() if not summary.documents]
    notes += _notes_on_other_files(output, files)
    return corpus


def _check_not_empty(dump: Dump, extracted: ExtractionResult) -> None:
    if not extracted.documents:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in _skipped(extracted).items())
        raise Cr5Error(
            f"{dump.wiki.code}: none of its {extracted.page_counts[PAGES]:,} pages is an article"
            f"{f' ({reasons})' if reasons else ''}; use another `date` or `source`, or leave {dump.wiki.code} out of "
            "`langs`"
        )


def _total(results: Sequence[ExtractionResult]) -> ExtractionResult:
    total = ExtractionResult()
    for result in results:
        total.documents += result.documents
        total.shards += result.shards
        total.page_counts.update(result.page_counts)
        total.faults.update(result.faults)
    return total


def _skipped(extracted: ExtractionResult) -> dict[str, int]:
    return {reason: count for reason, count in extracted.page_counts.items() if reason != PAGES}


def _notes_on_other_files(output: Path, files: Mapping[str, int]) -> list[str]:
    written = {str(output / name) for name in files}
    others = [source for source in read_batches(output).sources if source not in written]
    return [f"{source} was there before and is read as part of the corpus {output}" for source in others]


def manifest_facts(request: WikipediaRequest, corpus: WikipediaCorpus) -> dict[str, Any]:
    """What the manifest says about a complete corpus, apart from its files.

    The keys of stored manifests differ from the names used here: "alone" is ``unshared``, "from" are the dump files.
    """
    return {
        "source": SOURCE,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "dumps": request.source,
        "ids": request.ids,
        "sample": request.sample,
        "concepts": request.concepts,
        "drop_foreign": request.drop_foreign,
        "dedupe": request.dedupe,
        "concepts_shared": corpus.shared_concepts,
        "languages": {
            lang: {
                "wiki": summary.dump.wiki.name,
                "dump": summary.dump.date,
                "from": [
                    {"name": Path(file.name).name, "url": file.url, "size": file.size, "digest": file.digest}
                    for file in (*summary.dump.files, *([summary.dump.props] if summary.dump.props else []))
                ],
                "pages": summary.extracted.page_counts[PAGES],
                "left_out": _skipped(summary.extracted),
                "faults": summary.extracted.faults.counts,
                "articles": summary.published.articles,
                "alone": summary.published.unshared,
                "foreign": summary.published.foreign,
                "duplicates": summary.published.duplicates,
                "documents": summary.documents,
            }
            for lang, summary in corpus.languages.items()
        },
    }
