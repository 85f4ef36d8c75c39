"""Search on the terminal: the state of an index, hits with the words that explain them, pairs of documents."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from cr5.cli.render import console
from cr5.cli.render.console import out, plain_table
from cr5.index import (
    DOCUMENT_COLUMNS,
    DocumentPair,
    IndexedDocument,
    IngestCounts,
    Mode,
    RecallEstimate,
    SearchHit,
    SearchResult,
)
from cr5.index.filters import field_value
from cr5.message_parts import plural
from cr5.model.long_texts import LongTextExplanation
from cr5.retrieval.snippets import snippet
from cr5.retrieval.top_k import Measure

MIN_RECALL = 0.97  # a lower recall of the approximate index is worth a warning
SNIPPET_CHARACTERS, SNIPPET_LEAD = 160, 20  # length of a snippet, and of its part before the words that explain the hit
OTHER_COLUMNS = 40  # width of everything but a hit's text, in terminal columns
TITLE_COLUMNS = 18
ID_COLUMNS = 20  # a longer id continues on the next line
TITLE_WORDS = 6  # words of the text that stand for a missing title
QUERY_WORDS = 12  # words of the query that are listed if nothing was found
MIN_PART = 0.005  # smallest part of a score that is shown, since scores have two digits


def index_report(folder: Path, about: dict[str, Any], store_label: str, seconds: float | None = None) -> None:
    """Print the number of documents of each language, and the size of the index."""
    table = _table(f"Index {folder}", "lang", "documents", left=("lang",))
    for lang, count in about["documents"].items():
        table.add_row(lang, f"{count:,}")
    out.print(table)
    size = f"{about['bytes'] / 1e6:,.1f} MB in {store_label}"
    passages = f", {plural(about['passages'], 'passage')}" if about["passages"] else ""
    took = "" if seconds is None else f"; {seconds:.1f} s"
    out.print(f"{plural(about['rows'], 'document')}{passages}, rank {about['rank']}, {size}{took}")
    warn_if_outdated(folder, about)


def warn_if_outdated(folder: Path, about: dict[str, Any], warn: Callable[[str], None] = console.warn) -> None:
    """Say what is missing from an index written by an earlier version, and which command adds it."""
    if about["outdated"]:
        warn(about["outdated"].replace("`refresh`", f"cr5 index -o {folder} --refresh"))


def ingest_report(action: str, counts: IngestCounts) -> None:
    """Print what became of documents."""
    left_out = {
        "in other languages": counts.unknown.total(),
        "without a word that the model knows": counts.blank.total(),
        "exact copies of others": counts.duplicates,
    }
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in left_out.items() if count)
    out.print(f"{action}: {counts.new:,} new, {counts.renewed:,} replaced, {counts.unchanged:,} unchanged")
    if reasons:
        out.print(f"left out: {reasons}")
    if counts.renamed:
        out.print("; ".join(f"{code} is read as {lang}" for code, lang in sorted(counts.renamed.items())))


def deletion_report(deleted: int, requested: int) -> None:
    """Print how many documents were deleted."""
    missing = requested - deleted
    out.print(f"deleted: {deleted:,}" + (f"; not in the index: {missing:,}" if missing else ""))


def recall_report(estimate: RecallEstimate) -> None:
    """Print the recall of the approximate index, with a warning if it is low."""
    if estimate.kind == "none":
        out.print("search is exact: there are too few documents for an approximate index")
        return
    recall = f"recall@{estimate.k} {estimate.recall:.3f}"
    out.print(f"{recall} over {estimate.queries:,} queries, approximate against exact search")
    if estimate.recall < MIN_RECALL:
        console.warn(f"recall is below {MIN_RECALL}; build the index again")


def search_report(
    result: SearchResult,
    reasons: Sequence[LongTextExplanation | None],
    scores: str,
    explain: bool,
    first: int = 1,
    limits: Sequence[str] = (),
    sort: str | None = None,
    too_low: tuple[float, float, str] | None = None,
) -> None:
    """Print the hits of a query, or how it was read if there are none; ``scores`` names the scores.

    The hits are numbered from ``first``. A hit without a reason has words that matched. ``limits`` are the options that
    restrict the hits. ``too_low``, if an option leaves out all hits: the best score, the
    least that is shown, and the option.
    """
    query = result.query
    if not result.hits:
        console.warn(_nothing_found(result, limits, too_low))
        return
    field = (sort or "").removeprefix("-")
    for problem in result.warnings:
        console.warn(_as_options(problem))
    if field and not result.warnings and all(field_value(hit.fields, field) is None for hit in result.hits):
        console.warn(f"none of these documents has a field {field!r}; they are sorted by their score")
    out.print(_hit_table(result.hits, reasons, scores, explain, first))
    if result.suggestion:
        out.print(Text(f"did you mean: {printable(result.suggestion)}"), soft_wrap=True)
    if query.guessed:
        language = f"{query.lang} (confidence {100 * query.confidence:.0f} %)"
        out.print(f"language of the query: {language}; set another with --lang", style="dim")


def search_json(
    result: SearchResult, reasons: Sequence[LongTextExplanation | None], mode: Mode, measure: Measure, explain: bool
) -> dict[str, Any]:
    """Everything that is known about a query and its hits."""
    query = result.query
    hits = []
    for hit, reason in zip(result.hits, reasons, strict=True):
        hits.append(
            hit.to_json() | {"snippet": _snippet(hit, reason)} | ({"pairs": reason.pairs} if explain and reason else {})
        )
    return {
        "query": query.text,
        "lang": query.lang,
        "guessed": query.guessed,
        "confidence": query.confidence,
        "tokens": query.tokens,
        "coverage": query.coverage._asdict(),
        "suggestion": result.suggestion,
        "warnings": [_as_options(problem) for problem in result.warnings],
        "mode": mode,
        "measure": measure,
        "hits": hits,
    }


def _as_options(problem: str) -> str:
    """A warning of a search with options in place of parameters."""
    return problem.replace("`where`", "--where").replace("`sort`", "--sort")


def pairs_report(langs: Sequence[str], pairs: Sequence[DocumentPair], reasons: Sequence[LongTextExplanation]) -> None:
    """Print pairs of documents with the words that explain them."""
    if not pairs:
        console.warn(f"there are no pairs: the index has no documents in language {langs[0]} or {langs[1]}")
        return
    titles = f"title {langs[0]}", f"title {langs[1]}"
    table = _table("", "", *titles, "csls", "cosine", "words", left=(*titles, "words"))
    for rank, (pair, reason) in enumerate(zip(pairs, reasons, strict=True), 1):
        scores = f"{pair.score:.2f}", f"{pair.cosine:.2f}"
        words = "\n".join(f"{words.word_a} ~ {words.word_b}" for words in reason.pairs[:3])
        names = (Group(_title(document), _id(document)) for document in (pair.a, pair.b))
        table.add_row(str(rank), *names, *scores, _one_line(words))
    out.print(table)


def document_fields(document: IndexedDocument) -> dict[str, Any]:
    """A document for JSON output."""
    return {column: getattr(document, column) for column in DOCUMENT_COLUMNS}


def _hit_table(
    hits: Sequence[SearchHit], reasons: Sequence[LongTextExplanation | None], scores: str, explain: bool, first: int
) -> Table:
    has_titles = any(hit.title for hit in hits)
    columns = ("id", *(["title"] if has_titles else []), scores, "text")
    table = _table("", "", *columns, left=("id", "title", "text"))
    width = min(SNIPPET_CHARACTERS, max(OTHER_COLUMNS, out.width - OTHER_COLUMNS))
    for rank, (hit, reason) in enumerate(zip(hits, reasons, strict=True), first):
        snippet = _one_line(_snippet(hit, reason, width))
        title = [Text(printable(hit.title))] if has_titles else []
        table.add_row(str(rank), _id(hit), *title, f"{hit.score:.2f}", snippet)
        for line in _details(hit, reason if explain else None):
            table.add_row(*[""] * (len(columns)), Text(line, style="dim"))
    return table


def _details(hit: SearchHit, reason: LongTextExplanation | None) -> list[str]:
    """Lines below a hit: its other versions and, with a reason, the parts of its score and pairs of words."""
    lines = []
    if hit.versions:
        titles = (printable(version.title) or version.id for version in hit.versions)
        others = (f"{version.lang} {title}" for version, title in zip(hit.versions, titles, strict=True))
        lines.append(f"also {', '.join(others)}")
    if reason is not None:
        lines.append(", ".join(f"{name} {value:.2f}" for name, value in hit.parts.items() if abs(value) >= MIN_PART))
        lines.append(", ".join(f"{pair.word_a} ~ {pair.word_b} {pair.value:+.3f}" for pair in reason.pairs))
    return [line for line in lines if line]


def _nothing_found(result: SearchResult, limits: Sequence[str], too_low: tuple[float, float, str] | None) -> str:
    """How a query without hits was read, and what to try."""
    query = result.query
    words = [printable(word) for word in query.tokens[:QUERY_WORDS]]
    more = ["…"] if len(query.tokens) > QUERY_WORDS else []
    guessed = f" (guessed, confidence {100 * query.confidence:.0f} %)" if query.guessed else ""
    known = "" if query.vector.any() else ", of which the model knows none"
    advice = "set its language with --lang, or try other words" if query.guessed else "try other words"
    if query.vector.any() and limits:
        advice = f"try other words, or leave out {' or '.join(limits)}"
    if too_low:
        score, least, option = too_low
        advice = f"the best score is {score:.2f}, and {option} leaves out those below {least:g}; leave out {option}"
    elif query.phrases:
        advice = f"try it without the quotation marks, which ask for these words in this order; {advice}"
    if result.suggestion and not too_low:
        advice = f"did you mean: {printable(result.suggestion)}"
    return f"nothing found; the query was read as {query.lang}{guessed}: {', '.join(words + more)}{known}; {advice}"


def _table(title: str, *columns: str, left: Sequence[str] = ()) -> Table:
    """A table whose last column takes the remaining width."""
    table = plain_table(title, *columns, left=left)
    for column in table.columns:
        column.no_wrap = column is not table.columns[-1]
        column.max_width = _MAX_WIDTHS.get(str(column.header).split(" ")[0])
    return table


_MAX_WIDTHS = {"id": ID_COLUMNS, "title": TITLE_COLUMNS}


def _id(document: IndexedDocument) -> Text:
    """A document's id, whole, so that it can be copied; it begins with the language."""
    return Text(printable(document.id), style="dim", no_wrap=False, overflow="fold")


def _one_line(text: str) -> Text:
    """A text that is cut at the end of the line."""
    return Text(text, no_wrap=True, overflow="ellipsis")


def _title(document: IndexedDocument) -> Text:
    """A document's title, or its first words if it has none."""
    words = printable(document.text[:SNIPPET_CHARACTERS]).split()[:TITLE_WORDS]
    return Text(printable(document.title) or " ".join(words))


def _snippet(hit: SearchHit, reason: LongTextExplanation | None, size: int = SNIPPET_CHARACTERS) -> str:
    """The passage of a hit with the words that matched or, if there are none, those that explain it."""
    if hit.words or reason is None:
        part = snippet(hit.text, [(word, 1.0) for word in hit.words], size, SNIPPET_LEAD, *hit.passage)
    else:
        part = snippet(hit.text, reason.words_b, size, SNIPPET_LEAD, reason.begin, reason.end)
    return printable(part)


def printable(text: str) -> str:
    """A text in one line without control characters, which could move the cursor or worse."""
    return " ".join(without_control_characters(text).split())


def without_control_characters(text: str) -> str:
    """A text of the same length with a space for each control character."""
    return "".join(character if character.isprintable() else " " for character in text)
