"""Search on the terminal: the state of an index, hits with the words that explain them, pairs of documents."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from cr5.cli.render import console
from cr5.cli.render.console import out, plain_table
from cr5.errors import plural
from cr5.index import DOCUMENT_COLUMNS, DocumentPair, IndexedDocument, IngestCounts, Query, RecallEstimate, SearchHit
from cr5.retrieval.passages import LongTextExplanation, passage
from cr5.retrieval.top_k import Measure

MIN_RECALL = 0.97  # a lower recall of the approximate index is worth a warning
SNIPPET_CHARACTERS, SNIPPET_LEAD = 160, 20  # of a document; and before the words that explain the hit
OTHER_COLUMNS = 40  # terminal columns that everything but a hit's text takes
TITLE_COLUMNS = 18
ID_COLUMNS = 20  # a longer id continues on the next line
TITLE_WORDS = 6  # of the text, for a document without a title


def index_report(folder: Path, about: dict[str, Any], store_label: str, seconds: float) -> None:
    """Print the number of documents of each language, and the size of the index."""
    table = _table(f"Index {folder}", "lang", "documents", left=("lang",))
    for lang, count in about["documents"].items():
        table.add_row(lang, f"{count:,}")
    out.print(table)
    size = f"{about['bytes'] / 1e6:,.1f} MB in {store_label}"
    out.print(f"{plural(about['rows'], 'document')}, rank {about['rank']}, {size}; {seconds:.1f} s")


def ingest_report(action: str, counts: IngestCounts) -> None:
    """Print what became of documents, with a warning for those that were left out."""
    out.print(f"{action}: {counts.new:,} new, {counts.renewed:,} replaced, {counts.unchanged:,} unchanged")
    if counts.blank.total():
        console.warn(f"documents without a word that the model knows, which cannot be found: {_by_lang(counts.blank)}")
    if counts.unknown.total():
        console.warn(f"documents left out, in languages that the model does not know: {_by_lang(counts.unknown)}")


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
    query: Query, hits: Sequence[SearchHit], reasons: Sequence[LongTextExplanation], measure: Measure, explain: bool
) -> None:
    """Print the hits of a query, or why there are none."""
    if hits:
        out.print(_hit_table(hits, reasons, measure, explain))
    if query.guessed and query.vector.any():
        language = f"{query.lang} (confidence {100 * query.confidence:.0f} %)"
        out.print(f"language of the query: {language}; set another with --lang", style="dim")
    if not hits:
        console.warn(_why_no_hits(query))


def pairs_report(langs: Sequence[str], pairs: Sequence[DocumentPair], reasons: Sequence[LongTextExplanation]) -> None:
    """Print pairs of documents with the words that explain them."""
    if not pairs:
        console.warn(f"there are no pairs: the index has no documents in {langs[0]} or in {langs[1]}")
        return
    titles = f"title {langs[0]}", f"title {langs[1]}"
    table = _table("", "", *titles, "csls", "cosine", "words", left=(*titles, "words"))
    for rank, (pair, reason) in enumerate(zip(pairs, reasons, strict=True), 1):
        scores = f"{pair.score:.2f}", f"{pair.cosine:.2f}"
        words = "\n".join(f"{words.word_a} ~ {words.word_b}" for words in reason.pairs[:3])
        names = (Group(_title(document), _id(document)) for document in (pair.a, pair.b))
        table.add_row(str(rank), *names, *scores, _one_line(words))
    out.print(table)


def document_fields(document: IndexedDocument, reason: LongTextExplanation | None = None) -> dict[str, Any]:
    """A document for JSON output, with a snippet if there is a reason why it was found."""
    fields = {column: getattr(document, column) for column in DOCUMENT_COLUMNS}
    return fields | ({} if reason is None else {"snippet": _snippet(document, reason)})


def _hit_table(
    hits: Sequence[SearchHit], reasons: Sequence[LongTextExplanation], measure: Measure, explain: bool
) -> Table:
    has_titles = any(hit.title for hit in hits)
    columns = ("id", *(["title"] if has_titles else []), measure, "text")
    table = _table("", "", *columns, left=("id", "title", "text"))
    width = min(SNIPPET_CHARACTERS, max(OTHER_COLUMNS, out.width - OTHER_COLUMNS))
    for rank, (hit, reason) in enumerate(zip(hits, reasons, strict=True), 1):
        snippet = _one_line(_snippet(hit, reason, width))
        title = [Text(_printable(hit.title))] if has_titles else []
        table.add_row(str(rank), _id(hit), *title, f"{hit.score:.2f}", snippet)
        if explain:
            words = ", ".join(f"{pair.word_a} ~ {pair.word_b} {pair.value:+.3f}" for pair in reason.pairs)
            table.add_row(*[""] * (len(columns)), Text(words, style="dim"))
    return table


def _why_no_hits(query: Query) -> str:
    if query.vector.any():
        return "there is no document in these languages; change --in, or add some with cr5 index"
    advice = "set its language with --lang" if query.guessed else "try other words"
    return f"the model knows no word of the query in {query.lang}; {advice}"


def _by_lang(counts: Counter[str]) -> str:
    largest = ", ".join(f"{lang} {count:,}" for lang, count in counts.most_common(8))
    return f"{counts.total():,} ({largest})"


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
    return Text(_printable(document.id), style="dim", no_wrap=False, overflow="fold")


def _one_line(text: str) -> Text:
    """A text that is cut at the end of the line."""
    return Text(text, no_wrap=True, overflow="ellipsis")


def _title(document: IndexedDocument) -> Text:
    """A document's title, or its first words if it has none."""
    words = _printable(document.text[:SNIPPET_CHARACTERS]).split()[:TITLE_WORDS]
    return Text(_printable(document.title) or " ".join(words))


def _snippet(document: IndexedDocument, reason: LongTextExplanation, size: int = SNIPPET_CHARACTERS) -> str:
    """The passage of a document with the words that explain why it was found."""
    return _printable(passage(document.text, reason.words_b, size, SNIPPET_LEAD, reason.begin, reason.end))


def _printable(text: str) -> str:
    """A text in one line without control characters, which could move the cursor or worse."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
