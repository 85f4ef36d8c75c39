"""Making a corpus file from a source: read, clean, write."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cr5.corpus.documents import Batch
from cr5.corpus.skipped import OnError, Skipped
from cr5.corpus.writing import write
from cr5.errors import CorpusError
from cr5.progress import Progress, ProgressCallback, no_progress
from cr5.sources.clean import SourceSummary, clean
from cr5.sources.files import raise_error
from cr5.sources.source import Source


def make_corpus(
    source: Source,
    inputs: Path | list[Path],
    output: str | Path,
    options: Mapping[str, Any] | None = None,
    *,
    langs: list[str] | None = None,
    drop_foreign: bool = False,
    dedupe: bool = False,
    min_unique: int = 0,
    on_error: OnError = "raise",
    skipped: Skipped | None = None,
    progress: ProgressCallback = no_progress,
) -> SourceSummary:
    """Write the documents of a source to ``output`` and return their counts; ``options`` are those of its reader.

    ``langs``, ``drop_foreign``, ``dedupe`` and ``min_unique`` are those of ``clean``. With ``on_error="skip"``,
    unusable input is counted in ``skipped``. The file appears when it is complete, or not at all.
    """
    skipped = Skipped() if skipped is None else skipped
    handle_error = skipped.add if on_error == "skip" else raise_error
    documents = source.read(inputs, **source.reader_arguments(options or {}, langs), handle_error=handle_error)
    summary = SourceSummary()

    def cleaned() -> Iterator[Batch]:
        count = 0
        for batch in clean(
            documents, summary, langs=langs, drop_foreign=drop_foreign, dedupe=dedupe, min_unique=min_unique,
            handle_error=handle_error,
        ):  # fmt: skip
            count += batch.rows.num_rows
            progress(Progress("documents", count, None))
            yield batch
        if not count:
            raise CorpusError(_why_empty(summary, skipped, langs or []))

    write(output, cleaned())
    return summary


def _why_empty(summary: SourceSummary, skipped: Skipped, langs: list[str]) -> str:
    if summary.read and len(summary.missing(langs)) < max(len(langs), 1):
        return (
            "all documents were dropped, as being in another language than declared or as near-duplicates; "
            "leave out `drop_foreign` or `dedupe`"
        )
    if summary.read:
        return f"no document is in {', '.join(langs)}; the source has {', '.join(sorted(summary.read))}; change `langs`"
    if skipped.total:
        return f"no document is left, {skipped.total:,} could not be used; the first: {skipped.first}"
    return "the source contains no text; check the files and the options"
