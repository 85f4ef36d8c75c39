"""``cr5.evaluate.search``: how well an index finds documents by queries whose answers are known, compared with BM25."""

import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal, get_args

from cr5 import __version__
from cr5.corpus.texts import one_or_several
from cr5.data import BUILTIN
from cr5.errors import Cr5Error, one_of, whole_number
from cr5.evaluate.output import keeping_run
from cr5.evaluate.preparation import check_output, reject_if_given, title
from cr5.evaluate.splits import QuerySet
from cr5.evaluate.tasks.search.bm25 import K1, B, Bm25Search
from cr5.evaluate.tasks.search.documents import TITLE_COUNT, LanguageDocuments, read_documents
from cr5.evaluate.tasks.search.queries import REFERENCES, QueryMaker, QueryType, SearchQuery
from cr5.evaluate.tasks.search.query_files import find_answers, read_queries
from cr5.evaluate.tasks.search.run import DEPTH, RankedQuery, SearchRun
from cr5.index import Index
from cr5.progress import Progress, ProgressCallback, no_progress

TYPES: tuple[QueryType, ...] = get_args(QueryType)
QUERIES = 50  # queries of each type and language


def search(
    index: Index | str | Path,
    *,
    types: QueryType | Sequence[QueryType] | None = None,
    langs: str | Sequence[str] | None = None,
    queries: int | None = None,
    query_file: str | Path | None = None,
    validation: bool | None = None,
    seed: int | None = None,
    options: Mapping[str, Any] | None = None,
    output: str | Path | None = None,
    progress: ProgressCallback = no_progress,
) -> SearchRun:
    """Measure how well an index finds documents by queries whose answers are known, compared with BM25.

    Queries are made out of the documents, or come from a file. They search documents in their own language, for the
    document that they were made from, and in another: for any document of the same concept, if there is one. A text
    that fits several documents equally is not used, and of documents with the same title or the same text any is right.
    BM25 searches title and text of the documents in the language that is searched. Across languages it gets the true
    translation of the query where there is one, such as the title of the other document, and otherwise a text of the
    other document, which is an upper bound; the notes of the run say which.

    Parameters
    ----------
    index
        An open index, or its folder.
    types
        Types of queries, all by default: "title"; "sentence-short", "sentence-medium" and "sentence-long", sentences
        of documents below 1,500, up to 6,000 and above 6,000 characters; "string", codes, names and other words that
        one document of a language contains; "keywords", the three words of a document with the highest TF-IDF;
        "question", a title in a question, in eight languages; "typo", a title with one edit.
    langs
        Only these languages, of queries and of documents.
    queries
        Queries of each type and language, 50 by default; as many again search another language, the others in turn.
    query_file
        Use the queries of this file instead, JSONL with the fields query, lang, concept and kind, each in its own
        language and in every other; "builtin" has queries for the built-in encyclopedia.
    validation
        True: use the validation half of the concepts, for choosing settings; False: the test half. By default all
        queries of a file of your own are used, and otherwise the test half.
    seed
        Seed of the choice of documents and sentences, 0 by default.
    options
        Further arguments of ``Index.search``, to compare its settings.
    output
        Folder for search.json, scores.csv and report.md.
    progress
        Called with a ``Progress`` at every step.
    """
    if query_file is not None:
        reject_if_given("does not apply to queries from a file", types=types, queries=queries, seed=seed)
    names = TYPES if types is None else one_or_several(types)
    for name in names:
        one_of("types", name, TYPES)
    chosen = [query_type for query_type in TYPES if query_type in names]
    count = whole_number("queries", QUERIES if queries is None else queries)
    wanted = None if langs is None else one_or_several(langs)
    written = None if query_file is None else read_queries(query_file)
    uses_all = validation is None and query_file is not None and str(query_file) != BUILTIN
    query_set: QuerySet | Literal["all"] = "all" if uses_all else "validation" if validation else "test"
    check_output(output)
    started = time.perf_counter()
    with nullcontext(index) if isinstance(index, Index) else Index.open(index) as opened:
        languages = read_documents(opened, wanted, progress)
        if written is None:
            maker = QueryMaker(opened, languages, queries=count, validation=bool(validation), seed=seed or 0)
            search_queries = maker.make(chosen)
            notes = _notes_on_types(chosen, search_queries)
        else:
            search_queries, notes = find_answers(written, languages, query_set)
        if not search_queries:
            half = "" if query_set == "all" else f" in the {query_set} half"
            raise Cr5Error(
                "no queries could be generated from the index; add documents, or choose other `types` or `langs`"
                if written is None
                else f"`query_file={query_file}` has no query for the languages of the index{half}; add some"
            )
        ranked = _rank_all(opened, languages, search_queries, options or {}, progress)
        corpus = opened.folder.name
    facts: dict[str, Any] = {
        "query_set": query_set,
        "documents": {lang: len(documents.ids) for lang, documents in languages.items()},
        "queries": "file" if written else count,
        "seed": None if written else seed or 0,
        "BM25": f"k1 {K1}, b {B}, titles count {TITLE_COUNT} times",
        "options": dict(options or {}),
        "seconds": round(time.perf_counter() - started, 1),
    }
    run = SearchRun(title(corpus, list(languages)), __version__, facts, ranked, notes)
    if output is not None:
        with keeping_run(run, output, "its method save"):
            run.save(output)
    return run


def _notes_on_types(types: Sequence[QueryType], queries: Sequence[SearchQuery]) -> list[str]:
    """What BM25 receives across languages, and which types have no queries."""
    across = [name for name in types if any(q.type == name and q.source != q.target for q in queries)]
    by_reference: dict[str, list[str]] = {}
    for name in across:
        by_reference.setdefault(REFERENCES[name], []).append(name)
    notes = [f"across languages ({', '.join(names)}), BM25 receives {text}" for text, names in by_reference.items()]
    none = [name for name in types if not any(query.type == name for query in queries)]
    return notes + ([f"no document is suitable for queries of the type {', '.join(none)}"] if none else [])


def _rank_all(
    index: Index,
    languages: Mapping[str, LanguageDocuments],
    queries: Sequence[SearchQuery],
    options: Mapping[str, Any],
    progress: ProgressCallback,
) -> list[RankedQuery]:
    """All queries with their ranks, by search and by BM25."""
    bm25_ranks: dict[int, int] = {}
    for lang, documents in languages.items():
        numbers = [i for i, query in enumerate(queries) if query.target == lang]
        texts, answers = [queries[i].reference for i in numbers], [queries[i].answers for i in numbers]
        bm25_ranks |= dict(zip(numbers, Bm25Search(documents).ranks(texts, answers, DEPTH), strict=True))
    ranked = []
    for i, query in enumerate(queries):
        progress(Progress("search", i, len(queries), f"{query.type}: {query.source} > {query.target}"))
        hits = index.search(query.text, query.source, k=DEPTH, langs=query.target, **options).hits
        rank = next((rank for rank, hit in enumerate(hits, 1) if hit.id in query.answers), 0)
        ranked.append(RankedQuery(query, rank, bm25_ranks[i]))
    return ranked
