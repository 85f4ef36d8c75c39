"""The search commands: build an index of documents, search it, and list its closest pairs."""

import time
import warnings
from contextlib import closing
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from cr5.cli import options
from cr5.cli.interrupts import saying_how_to_resume
from cr5.cli.options import comma_separated, decode_text, parse_where, read_corpora
from cr5.cli.render import console
from cr5.cli.render import search as render
from cr5.cli.render.console import out
from cr5.corpus.reading import read_batches
from cr5.corpus.skipped import Skipped, skipped_list
from cr5.errors import Cr5Error, UnknownField
from cr5.index import Index, Mode
from cr5.index.field_names import field_kinds, list_fields
from cr5.index.passages import PassageSettings
from cr5.index.pipeline import MIN_SORTED_RELEVANCE, Grouping
from cr5.message_parts import quoted
from cr5.model import Cr5
from cr5.retrieval.top_k import Measure

WORD_PAIRS = 5  # word pairs in the explanation of a hit


def index(
    model: Annotated[
        Path | None, typer.Argument(help="The folder of a model.", metavar="MODEL", show_default=False)
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
        Path, typer.Option("--output", "-o", help="Folder of the index, new or existing.", metavar="INDEX")
    ],
    store: options.Store = None,
    passage_words: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Passage length in words (new index only); 0 stores no passages.",
            metavar="N",
            show_default=str(PassageSettings.words),
        ),
    ] = None,
    langs: options.Langs = None,
    on_error: options.OnError = "raise",
    skipped_file: options.SkippedList = None,
    reindex: Annotated[
        bool, typer.Option("--reindex", help="Encode all documents with another MODEL, then add DOCS.")
    ] = False,
    drop_languages: Annotated[
        str | None,
        typer.Option(
            help="With --reindex: delete the documents in these languages, which MODEL lacks.", metavar="CODES"
        ),
    ] = None,
    delete: Annotated[
        list[str] | None, typer.Option(help="Delete the document with this id; may be repeated.", metavar="ID")
    ] = None,
    refresh: Annotated[
        bool,
        typer.Option(
            "--refresh",
            help="Draw a new CSLS sample, rebuild the approximate index, and add what an index written by an earlier "
            "version lacks (full text, passages, fields).",
        ),
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Measure the recall of the approximate index.")] = False,
    json: options.Json = False,
) -> None:
    """Build a search index of documents in any languages of a model, or update it.

    Documents already in the index are replaced if they have changed. Run the same command again to resume after an
    interruption. Examples:

        cr5 index model corpus/ -o index

        cr5 index model more.jsonl -o index --delete it:Q144

        cr5 index model corpus/ -o index --store postgresql://me@db/search

        cr5 index better-model -o index --reindex

        cr5 index -o index --refresh --check
    """
    if drop_languages is not None and not reindex:
        raise Cr5Error("--drop-languages applies to --reindex only; leave it out")
    _check_arguments(model, documents, output, reindex=reindex, other_task=bool(delete) or refresh or check)
    began = time.perf_counter()
    with (
        skipped_list(skipped_file, documents or ()) as on_skip,
        saying_how_to_resume("indexed documents are kept, run the same command again to resume"),
        closing(_open_index(model, documents, output, store, reindex, passage_words)) as opened,
        console.progress_bars(json) as progress,
    ):
        reindexed = None
        if model is not None and reindex:
            if opened.built_with(model, further_languages=False):
                console.warn(f"{output}: the index was built with this model, so that nothing is encoded again")
            else:
                reindexed = opened.reindex(model, drop_languages=drop_languages or (), progress=progress)
        deleted = opened.delete(delete) if delete else None
        skipped = Skipped(on_skip=on_skip)
        batches = read_corpora(documents, langs, on_error, skipped) if documents else []
        added = opened.add(batches, progress=progress) if documents else None
        if refresh:
            opened.refresh(progress=progress)
        recall = opened.check() if check else None
        about, store_label = opened.about(), opened.store_label
    seconds = time.perf_counter() - began
    if json:
        console.as_json(
            {
                "index": str(output),
                "seconds": seconds,
                "about": about,
                "reindexed": None if reindexed is None else vars(reindexed),
                "read": None if added is None else added.read,
                "added": None if added is None else vars(added),
                "deleted": deleted,
                "skipped": skipped.counts,
                "check": None if recall is None else recall._asdict(),
            }
        )
        return
    render.index_report(output, about, store_label, seconds)
    if reindexed is not None:
        render.ingest_report("reindexed", reindexed)
    if added is not None:
        render.ingest_report("added", added)
    if delete:
        render.deletion_report(deleted or 0, len(set(delete)))
    if recall is not None:
        render.recall_report(recall)
    console.skipped_lines(skipped)
    if added is not None:
        out.print(f'\nNext: cr5 search {quote(str(output))} "WORDS"', style="bold", soft_wrap=True)


def search(
    index: options.IndexFolder,
    query: Annotated[
        str | None, typer.Argument(help="Text to search for, in any language.", metavar="QUERY", show_default=False)
    ] = None,
    like: Annotated[
        Path | None, typer.Option(help="Search for documents similar to this text file.", metavar="FILE")
    ] = None,
    lang: Annotated[
        str | None, typer.Option(help="Language of the query.", metavar="CODE", show_default="guessed")
    ] = None,
    among: Annotated[
        list[str] | None,
        typer.Option("--in", help="Languages to search in, e.g. da,en.", metavar="CODES", show_default="all"),
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Documents to show.", metavar="NUMBER")] = 10,
    offset: Annotated[int, typer.Option(min=0, help="Documents to skip, for further pages.", metavar="NUMBER")] = 0,
    mode: Annotated[
        Mode,
        typer.Option(
            help="hybrid: by words and vectors together; dense: by vectors; lexical: by words.", metavar="MODE"
        ),
    ] = "hybrid",
    measure: Annotated[
        Measure,
        typer.Option(
            help="How vectors are compared: by cosine, or by CSLS, which corrects for documents that are close to "
            "every query."
        ),
    ] = "csls",
    group: Annotated[bool, typer.Option("--group/--no-group", help="Show one document of each concept.")] = False,
    prefer: Annotated[
        str | None,
        typer.Option(help="Language that comes first among documents with nearly the same score.", metavar="CODE"),
    ] = None,
    min_score: Annotated[float, typer.Option(help="Lowest score to show.", metavar="NUMBER")] = 0.0,
    where: Annotated[
        list[str] | None,
        typer.Option(help="Condition on a field, e.g. 'year>=2000'; may be repeated.", metavar="CONDITION"),
    ] = None,
    sort: Annotated[
        str | None,
        typer.Option(
            help="Field to sort by; -year: the largest first. Hits with a score below 0.3 are left out.",
            metavar="FIELD",
            show_default="score",
        ),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the parts of each score, and the words that explain it.")
    ] = False,
    store: options.Store = None,
    json: options.Json = False,
) -> None:
    """Find documents, in all languages, by the words and the meaning of a text.

    Conditions compare a field by =, !=, <, <=, > or >= with a value in JSON (2000, true, "2000", ["a", "b"]) or with a
    plain text. Examples:

        cr5 search index "máy tính" --lang vi

        cr5 search index cane --in da,en --explain

        cr5 search index timeout --group --where 'year>=2000' --sort -year

        cr5 search index --like article.txt -k 20
    """
    text = _query_text(query, like, lang)
    conditions = parse_where(where)
    if mode == "dense":
        for option, value in (("--group", group), ("--prefer", prefer), ("--sort", sort)):
            if value:
                raise Cr5Error(f"{option} does not apply to --mode dense; leave out one of them")
    with closing(Index.open(index, store=store)) as opened, warnings.catch_warnings():
        warnings.simplefilter("ignore", UnknownField)  # it is part of the output
        about = opened.about()
        render.warn_if_outdated(index, about)
        langs = comma_separated(",".join(among or []))
        grouping: Grouping | None = "concept" if group else None
        search = partial(
            opened.search, text, lang, langs=langs, mode=mode, measure=measure, group=grouping, where=conditions
        )
        result = search(k=k, offset=offset, prefer=prefer, min_score=min_score, sort=sort)
        has_low_scores = not result.hits and (bool(sort) or min_score > 0)
        best = search(k=1).hits if has_low_scores else []
        # The words that matched are known, except for those of vectors alone.
        reasons = [
            opened.explain(result.query, hit, WORD_PAIRS) if explain or not hit.words else None for hit in result.hits
        ]
        no_document_matches = bool(conditions) and not result.hits and not any(opened.count(conditions).values())
        kinds = field_kinds(opened.scan(("fields",))) if no_document_matches and not json else {}
    if json:
        console.as_json(render.search_json(result, reasons, mode, measure, explain))
    elif not any(about["documents"].values()):
        console.warn(f"{index}: the index has no documents; add some with cr5 index MODEL DOCS -o {index}")
    else:
        scores = measure if mode == "dense" else "score"
        limits = {"--in": among, "--where": where, "--min-score": min_score, "--offset": offset}
        given = [name for name, value in limits.items() if value]
        if no_document_matches:
            unknown = [name for name in conditions or {} if name not in kinds]
            problem = f"; there is no field {' or '.join(map(quoted, unknown))}" if unknown else ""
            known = f"the fields are {list_fields(kinds)}" if kinds else "the documents have no fields"
            raise Cr5Error(f"no document matches --where {' --where '.join(where or [])}{problem}; {known}")
        least = max(min_score, MIN_SORTED_RELEVANCE if sort else min_score)
        too_low = None
        if best and best[0].score < least:
            too_low = best[0].score, least, "--min-score" if least == min_score else "--sort"
        render.search_report(
            result, reasons, scores, explain, first=offset + 1, limits=given, sort=sort, too_low=too_low
        )


def pairs(
    index: options.IndexFolder,
    between: Annotated[
        str, typer.Option(help="The two languages, e.g. it,en; en,en for pairs within one language.", metavar="CODES")
    ],
    k: Annotated[int, typer.Option("-k", min=1, help="Pairs to show.")] = 20,
    store: options.Store = None,
    json: options.Json = False,
) -> None:
    """List the closest pairs of documents in two languages: translations, duplicates, plagiarism.

    The documents of a pair are each other's nearest neighbours by CSLS. The words are those that add most to their
    similarity. Example:

        cr5 pairs index --between it,en
    """
    langs = comma_separated(between) or []
    if len(langs) != 2:
        raise Cr5Error(f"--between {between} does not name two languages; write, for example, --between it,en")
    with closing(Index.open(index, store=store)) as opened:
        with console.progress_bars(json) as progress:
            closest = opened.pairs(*langs, k=k, progress=progress)
        reasons = [opened.explain(opened.query(pair.a.text, pair.a.lang), pair.b, WORD_PAIRS) for pair in closest]
    if not json:
        render.pairs_report(langs, closest, reasons)
        return
    rows = [
        {
            "score": pair.score,
            "cosine": pair.cosine,
            "a": render.document_fields(pair.a),
            "b": render.document_fields(pair.b),
            "words": reason.pairs,
        }
        for pair, reason in zip(closest, reasons, strict=True)
    ]
    console.as_json({"between": langs, "pairs": rows})


def _check_arguments(
    model: Path | None, documents: list[str] | None, output: Path, *, reindex: bool, other_task: bool
) -> None:
    """Report arguments that contradict each other before anything is written."""
    if model is None and (reindex or not other_task):
        raise Cr5Error("there is nothing to index; name MODEL and DOCS, or pass --delete, --refresh or --check")
    if model is not None and not documents and not reindex:
        remedy = "leave out MODEL" if other_task else "name DOCS, or pass --reindex"
        raise Cr5Error(f"MODEL is {model}, but there are no DOCS to encode with it; {remedy}")
    if not Index.exists(output) and not documents:
        raise Cr5Error(f"{output}: there is no index in this folder; build one with cr5 index MODEL DOCS -o {output}")


def _open_index(
    model: Path | None,
    documents: list[str] | None,
    output: Path,
    store: str | None,
    reindex: bool,
    passage_words: int | None,
) -> Index:
    if documents:
        read_batches(documents)  # wrong names are reported before the index is created
    if not Index.exists(output) and model is not None:
        words = PassageSettings.words if passage_words is None else passage_words
        return Index.create(output, model, store=store, passage_words=words)
    opened = Index.open(output, store=store)
    present = opened.passage_words
    if passage_words not in (None, present):
        opened.close()
        raise Cr5Error(
            f"{output}: the passages of the index have {present} words, not {passage_words}; "
            "leave out --passage-words, or build the index again"
        )
    if model is not None and not reindex and not opened.built_with(model):
        opened.close()
        raise Cr5Error(
            f"{output}: the index was built with another model than {model}; "
            "name that one, or encode all documents again with --reindex"
        )
    if model is not None and not reindex and not opened.built_with(model, further_languages=False):
        further = ", ".join(lang for lang in Cr5.load(model).langs if lang not in opened.langs)
        console.warn(f"{model} has languages that the index does not have ({further}); pass --reindex to add them")
    return opened


def _query_text(query: str | None, like: Path | None, lang: str | None) -> str:
    if (query is None) == (like is None):
        raise Cr5Error("give either a text to search for or --like FILE")
    text = query or "" if like is None else decode_text(like.read_bytes(), str(like), lang or "")
    if like is None and (byte := next((ord(c) - 0xDC00 for c in text if "\udc80" <= c <= "\udcff"), None)) is not None:
        raise Cr5Error(
            f"the query is not UTF-8, it has the byte 0x{byte:02x}; set the terminal to UTF-8, or use --like"
        )
    if not any(letter.isalnum() for letter in text):
        source = "the query" if like is None else like
        raise Cr5Error(f"{source} has no letter or digit; give words to search for")
    return text
