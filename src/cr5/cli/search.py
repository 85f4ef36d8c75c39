"""The commands that search: make an index of documents, ask it, and list its closest pairs."""

import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from cr5.cli.options import Json, Langs, OnError, comma_separated, read_corpora
from cr5.cli.render import console
from cr5.cli.render.console import err, out
from cr5.corpus.skipped import Skipped
from cr5.errors import Cr5Error
from cr5.index import Added, DocumentPair, Index, IndexedDocument, Query, RecallEstimate, SearchHit
from cr5.retrieval.passages import Reason, passage
from cr5.retrieval.top_k import Measure

RECALL = 0.97  # what an approximate index should find of what an exact search finds
WORDS = 5  # pairs of words that explain a hit
SNIPPET, BEFORE = 160, 20  # characters of a document that are shown, and of them before the words that matter
OTHERS = 40  # columns of a terminal that everything but a hit's text takes
TITLE = 18  # columns of a title

Folder = Annotated[Path, typer.Argument(help="A folder that cr5 index wrote.", metavar="INDEX")]
Store = Annotated[
    str | None,
    typer.Option(help="PostgreSQL server with pgvector: postgresql://USER@HOST/DATABASE.", metavar="URL"),
]


def index(
    model: Annotated[
        Path | None, typer.Argument(help="A folder that cr5 train wrote.", metavar="MODEL", show_default=False)
    ] = None,
    documents: Annotated[
        list[str] | None,
        typer.Argument(
            help="Files, folders or globs as for cr5 train, - for JSONL on standard input, or builtin.",
            metavar="DOCS",
            show_default=False,
        ),
    ] = None,
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder of the index, new or there already.", metavar="INDEX")
    ],
    store: Annotated[
        str | None,
        typer.Option(
            help="Keep documents in PostgreSQL with pgvector: postgresql://USER@HOST/DATABASE.",
            metavar="URL",
            show_default="in the folder",
        ),
    ] = None,
    langs: Langs = None,
    on_error: OnError = "raise",
    reindex: Annotated[
        bool, typer.Option("--reindex", help="Encode what is there with another MODEL, then add DOCS.")
    ] = False,
    delete: Annotated[
        list[str] | None, typer.Option(help="Take out the document with this id; may be repeated.", metavar="ID")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Measure how much of an exact search the index finds.")
    ] = False,
    json: Json = False,
) -> None:
    """Make an index of documents that can be searched in any language of a model, or bring it up to date.

    Documents that are there already are renewed if they have changed. Run it
    again after an interruption: it goes on where it was. Examples:

        cr5 index model corpus/ -o index

        cr5 index model more.jsonl -o index --delete it:Q144

        cr5 index model corpus/ -o index --store postgresql://me@db/search

        cr5 index better-model -o index --reindex

        cr5 index -o index --check
    """
    _check_task(model, documents, output, reindex=reindex, other=bool(delete) or check)
    began = time.perf_counter()
    skipped = Skipped()
    try:
        with (
            closing(_opened(model, documents, output, store, reindex)) as kept,
            console.progress_bars(json) as progress,
        ):
            again = None
            if model is not None and not kept.built_with(model):
                again = kept.reindex(model, progress=progress)
            deleted = kept.delete(delete) if delete else None
            batches = read_corpora(documents, langs, on_error, skipped) if documents else []
            added = kept.add(batches, progress=progress) if documents else None
            recall = kept.check() if check else None
            about = kept.about()
    except KeyboardInterrupt:
        err.print("stopped; what is indexed stays, run the same command again to go on", style="yellow")
        sys.exit(130)
    seconds = time.perf_counter() - began
    if json:
        console.as_json(
            {
                "index": str(output),
                "seconds": seconds,
                "about": about,
                "reindexed": None if again is None else vars(again),
                "added": None if added is None else vars(added),
                "deleted": deleted,
                "skipped": skipped.counts,
                "check": None if recall is None else recall._asdict(),
            }
        )
        return
    _index_report(output, about, seconds)
    for what, account in (("encoded anew", again), ("added", added)):
        if account is not None:
            _account(what, account)
    if delete:
        missing = len(set(delete)) - (deleted or 0)
        out.print(f"deleted: {deleted:,}" + (f"; not in the index: {missing:,}" if missing else ""))
    if recall is not None:
        _recall(recall)
    console.skipped_lines(skipped)
    if added is not None:
        out.print(f'\nNext: cr5 search {output} "WORDS"', style="bold", soft_wrap=True)


def search(
    index: Folder,
    query: Annotated[
        str | None, typer.Argument(help="What to look for, in any language.", metavar="QUERY", show_default=False)
    ] = None,
    like: Annotated[
        Path | None, typer.Option(help="Look for documents like this text file instead.", metavar="FILE")
    ] = None,
    lang: Annotated[
        str | None, typer.Option(help="Language of the query.", metavar="CODE", show_default="guessed")
    ] = None,
    among: Annotated[
        str | None,
        typer.Option("--in", help="Languages to look in, e.g. da,en.", metavar="CODES", show_default="all"),
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Documents to show.")] = 10,
    measure: Annotated[
        Measure, typer.Option(help="Plain cosine, or CSLS, which keeps down what is close to everything.")
    ] = "csls",
    explain: Annotated[bool, typer.Option("--explain", help="Show the words that make each document similar.")] = False,
    store: Store = None,
    json: Json = False,
) -> None:
    """Find the documents of all languages that are nearest to some words or to a document.

    Examples:

        cr5 search index "siêu máy tính" --lang vi

        cr5 search index cane --in da,en --explain

        cr5 search index --like article.txt -k 20
    """
    text = _query(query, like)
    with closing(Index.open(index, store=store)) as kept:
        result = kept.search(text, lang, k=k, langs=comma_separated(among), measure=measure)
        asked, hits = result.query, result.hits
        found = [kept.explain(asked, hit, WORDS) for hit in hits]
    if json:
        console.as_json(
            {
                "query": text,
                "lang": asked.lang,
                "guessed": asked.guessed,
                "confidence": asked.confidence,
                "measure": measure,
                "hits": [
                    _fields(hit, why) | {"score": hit.score, "cosine": hit.cosine}
                    | ({"pairs": [list(pair) for pair in why.pairs]} if explain else {})
                    for hit, why in zip(hits, found, strict=True)
                ],
            }
        )  # fmt: skip
        return
    _search_report(hits, found, measure, explain)
    if asked.guessed and asked.coverage:
        _guess_line(asked)
    if not hits:
        console.warn(_why_nothing(asked))


def pairs(
    index: Folder,
    between: Annotated[
        str, typer.Option(help="The two languages, e.g. it,en; the same twice for pairs within one.", metavar="CODES")
    ],
    k: Annotated[int, typer.Option("-k", min=1, help="Pairs to show.")] = 20,
    store: Store = None,
    json: Json = False,
) -> None:
    """List the closest pairs of documents of two languages: translations, duplicates, borrowed texts.

    Each is the other's nearest by CSLS. The words are those that add most to
    their similarity. Example:

        cr5 pairs index --between it,en
    """
    langs = comma_separated(between) or []
    if len(langs) != 2:
        raise Cr5Error(f"--between {between} is not two languages; give it,en or the like")
    with closing(Index.open(index, store=store)) as kept:
        with console.progress_bars(json) as progress:
            matches = kept.pairs(*langs, k=k, progress=progress)
        found = [_explained(kept, match) for match in matches]
    if json:
        console.as_json(
            {
                "between": langs,
                "pairs": [
                    {
                        "score": match.score,
                        "cosine": match.cosine,
                        "a": _fields(match.a),
                        "b": _fields(match.b),
                        "words": [list(pair) for pair in why.pairs],
                    }
                    for match, why in zip(matches, found, strict=True)
                ],
            }
        )
        return
    _pairs_report(langs, matches, found)
    if not matches:
        console.warn(f"there is no pair: the index has no documents in {langs[0]} or in {langs[1]}")


def register(app: typer.Typer) -> None:
    """Make these commands of an app."""
    for command in (index, search, pairs):
        app.command()(command)


# What is asked


def _check_task(model: Path | None, documents: list[str] | None, output: Path, *, reindex: bool, other: bool) -> None:
    """Refuse what makes no sense before anything is written."""
    if model is None and (reindex or not other):
        raise Cr5Error("there is nothing to index; name MODEL and DOCS, or pass --delete or --check")
    if model is not None and not documents and not reindex:
        raise Cr5Error(f"no documents are named after the model {model}; name DOCS, or pass --reindex")
    if not Index.exists(output) and not documents:
        raise Cr5Error(f"{output}: no index in this folder; make one with cr5 index MODEL DOCS -o {output}")


def _opened(model: Path | None, documents: list[str] | None, output: Path, store: str | None, reindex: bool) -> Index:
    if documents:
        read_corpora(documents, None, "raise", Skipped())  # names that are wrong leave no index behind
    if not Index.exists(output) and model is not None:
        return Index.create(output, model, store=store)
    kept = Index.open(output, store=store)
    if model is not None and not reindex and not kept.built_with(model):
        kept.close()
        raise Cr5Error(
            f"{output}: built with another model than {model}; name that one, or encode everything anew with --reindex"
        )
    return kept


def _query(query: str | None, like: Path | None) -> str:
    if (query is None) == (like is None):
        raise Cr5Error("give either words to look for or --like FILE, one of the two")
    try:
        text = query or "" if like is None else like.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise Cr5Error(f"{like} is not UTF-8 (byte {error.start}); convert it first, e.g. with iconv") from error
    if not any(letter.isalnum() for letter in text):
        raise Cr5Error(f"{'the query' if like is None else like} has no letter or digit; give words to look for")
    return text


def _explained(index: Index, pair: DocumentPair) -> Reason:
    return index.explain(index.query(pair.a.text, pair.a.lang), pair.b, WORDS)


def _why_nothing(query: Query) -> str:
    if query.coverage:
        return "there is no document in these languages; change --in, or add some with cr5 index"
    other = "; say which language it is with --lang" if query.guessed else "; try other words"
    return f"no word of the query is one that the model knows in {query.lang}{other}"


# How it looks


def _index_report(folder: Path, about: dict[str, Any], seconds: float) -> None:
    table = _table(f"Index {folder}", "lang", "documents", left=("lang",))
    for lang, count in about["documents"].items():
        table.add_row(lang, f"{count:,}")
    out.print(table)
    out.print(
        f"{about['rows']:,} documents, rank {about['rank']}, {about['bytes'] / 1e6:,.1f} MB in "
        f"{'PostgreSQL' if about['store'] == 'postgresql' else 'LanceDB'}; {seconds:.1f} s"
    )


def _account(what: str, added: Added) -> None:
    out.print(f"{what}: {added.new:,} new, {added.renewed:,} renewed, {added.unchanged:,} unchanged")
    if added.blank.total():
        console.warn(f"{_by_lang(added.blank)} have no word that the model knows; they cannot be found")
    if added.unknown.total():
        console.warn(f"{_by_lang(added.unknown)} are in languages that the model does not know; they are left out")


def _by_lang(counts: Counter[str]) -> str:
    each = ", ".join(f"{lang} {count:,}" for lang, count in counts.most_common(8))
    return f"{counts.total():,} documents ({each})"


def _recall(found: RecallEstimate) -> None:
    if found.kind == "none":
        out.print("search is exact: there are too few documents for an approximate index")
        return
    out.print(f"recall@{found.k} {found.recall:.3f} over {found.queries:,} queries, {found.kind} against exact search")
    if found.recall < RECALL:
        console.warn(f"recall is below {RECALL}; build the index again, or report your figures")


def _guess_line(query: Query) -> None:
    out.print(f"query taken for {query.lang} ({query.confidence:.0%} sure); say otherwise with --lang", style="dim")


def _search_report(hits: Sequence[SearchHit], found: Sequence[Reason], measure: Measure, explain: bool) -> None:
    if not hits:
        return
    table = _table("", "", "lang", "title", measure, "text", left=("lang", "title", "text"))
    room = min(SNIPPET, max(OTHERS, out.width - OTHERS))
    for rank, (hit, why) in enumerate(zip(hits, found, strict=True), 1):
        table.add_row(str(rank), hit.lang, _title(hit), f"{hit.score:.2f}", _line(_snippet(hit, why, room)))
        if explain:
            words = ", ".join(f"{pair.word_a} ~ {pair.word_b} {pair.value:+.3f}" for pair in why.pairs)
            table.add_row("", "", "", "", Text(words, style="dim"))
    out.print(table)


def _pairs_report(langs: Sequence[str], matches: Sequence[DocumentPair], found: Sequence[Reason]) -> None:
    if not matches:
        return
    titles = f"title {langs[0]}", f"title {langs[1]}"
    table = _table("", "", *titles, "csls", "cosine", "words", left=(*titles, "words"))
    for rank, (match, why) in enumerate(zip(matches, found, strict=True), 1):
        figures = f"{match.score:.2f}", f"{match.cosine:.2f}"
        words = "\n".join(f"{pair.word_a} ~ {pair.word_b}" for pair in why.pairs[:3])
        table.add_row(str(rank), _title(match.a), _title(match.b), *figures, _line(words))
    out.print(table)


def _table(title: str, *columns: str, left: Sequence[str] = ()) -> Table:
    """A table whose last column takes what room there is."""
    table = Table(title=title or None, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        table.add_column(
            name,
            justify="left" if name in left else "right",
            no_wrap=name != columns[-1],
            max_width=TITLE if name.startswith("title") else None,
        )
    return table


def _line(text: str) -> Text:
    """Cut where the line ends."""
    return Text(text, no_wrap=True, overflow="ellipsis")


def _title(entry: IndexedDocument) -> Text:
    """A document's title, or its first words where it has none."""
    return Text(_plain(entry.title) or " ".join(_plain(entry.text[:SNIPPET]).split()[:6]))


def _snippet(hit: IndexedDocument, why: Reason, size: int = SNIPPET) -> str:
    """The passage where the words stand that matter."""
    return _plain(passage(hit.text, why.words_b, size, BEFORE, why.begin, why.end))


def _plain(text: str) -> str:
    """Text for one line of a terminal: what is not printable may move the cursor, or worse."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def _fields(entry: IndexedDocument, why: Reason | None = None) -> dict[str, Any]:
    fields = {name: getattr(entry, name) for name in ("id", "concept", "lang", "title", "url", "text")}
    return fields | ({} if why is None else {"snippet": _snippet(entry, why)})
