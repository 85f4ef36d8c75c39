"""Making a corpus file from a source: read, clean, write."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cr5.corpus.documents import Batch
from cr5.corpus.skipped import OnError, SkipCallback
from cr5.corpus.writing import write
from cr5.errors import CorpusError
from cr5.message_parts import in_languages, plural
from cr5.progress import Progress, ProgressCallback, no_progress
from cr5.sources.accounting import DUPLICATE, FOREIGN, NO_DOCUMENT, Accounting, UnusableInputError
from cr5.sources.clean import SourceSummary, clean
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
    on_skip: SkipCallback | None = None,
    progress: ProgressCallback = no_progress,
) -> SourceSummary:
    """Write the documents of a source to ``output`` and return their counts; ``options`` are those of its reader.

    ``langs``, ``drop_foreign``, ``dedupe`` and ``min_unique`` are those of ``clean``. With ``on_error="skip"``,
    unusable input is skipped and counted; ``on_skip`` is called with everything that is skipped, for any reason. The
    file appears when it is complete, or not at all.
    """
    summary = SourceSummary(Accounting(on_error, None if str(output) == "-" else Path(output), langs, on_skip))

    def cleaned() -> Iterator[Batch]:
        arguments = source.reader_arguments(options or {}, langs)
        documents = source.read(inputs, **arguments, accounting=summary.accounting)
        for batch in clean(
            documents, summary, langs=langs, drop_foreign=drop_foreign, dedupe=dedupe, min_unique=min_unique
        ):
            progress(Progress("documents", summary.documents.total(), None))
            yield batch
        summary.accounting.finish()
        if not summary.documents.total():
            raise CorpusError(_why_empty(summary, langs or []))

    try:
        write(output, cleaned())
    except UnusableInputError as error:
        is_only_input = summary.accounting.files_found < 2 and not summary.accounting.documents_read
        raise CorpusError(
            str(error) if is_only_input else f'{error}, or skip such input with `on_error="skip"`'
        ) from None
    return summary


def _why_empty(summary: SourceSummary, langs: list[str]) -> str:
    accounting, skipped = summary.accounting, summary.accounting.skipped_documents
    if summary.read and len(summary.missing(langs)) == len(langs) > 0:
        available = ", ".join(sorted(summary.read))
        return f"there are no documents {in_languages(langs)}; the source has {available}; change `langs`"
    if {DUPLICATE, FOREIGN} & skipped.counts.keys():
        return (
            "all documents were dropped, as being in another language than declared or as near-duplicates; "
            "leave out `drop_foreign` or `dedupe`"
        )
    if accounting.errors.total:
        return (
            f"no document is left, {accounting.errors.total:,} could not be used; the first: {accounting.errors.first}"
        )
    if skipped.counts:
        reasons = ", ".join(f"{reason} ({count:,})" for reason, count in skipped.counts.items())
        return f"no document is left of {accounting.documents_read:,}: {reasons}; the first: {skipped.first}"
    if empty := accounting.skipped_files.counts.get(NO_DOCUMENT, 0):
        others = f" and {plural(empty - 1, 'other file')}" if empty > 1 else ""
        return f"no text in {accounting.skipped_files.examples[NO_DOCUMENT]}{others}; check the files and the options"
    return "the source contains no text; check the files and the options"
