"""The query path: analyse the query, find candidates and their relevance, group, cut to a page, read the hits."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan
from numbers import Real
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from cr5.corpus.texts import one_or_several
from cr5.errors import Cr5Error, one_of
from cr5.index import passages
from cr5.index.candidates import WORDS, Candidate, Candidates, best_first
from cr5.index.field_names import unknown_fields
from cr5.index.filters import Where, field_value
from cr5.index.grouping import group_versions
from cr5.index.hybrid import FoundCandidates, HybridSearch, read_titles
from cr5.index.query import Query, encode_query, index_language
from cr5.index.query_words import best_form_boosts, suggest
from cr5.index.results import DOCUMENT_COLUMNS, SearchHit, SearchResult, Version
from cr5.index.search import nearest
from cr5.index.snapshot import Snapshot
from cr5.index.terms import word_finder
from cr5.retrieval.top_k import Measure

Mode: TypeAlias = Literal["hybrid", "dense", "lexical"]
Grouping: TypeAlias = Literal["concept"]
WordFinder: TypeAlias = Callable[[str], Mapping[str, int]]  # of ``word_finder``
MAX_HITS = 1000  # hits on all pages together
PREFERENCE = 0.03  # added to the relevance of hits in the preferred language
SURE_CONFIDENCE = 0.95  # a language guessed with at least this confidence is taken as certain
MIN_SORTED_RELEVANCE = 0.3  # hits below it are left out if hits are sorted by a field instead of their relevance


@dataclass(frozen=True)
class SearchOptions:
    """How to search; see ``Index.search``."""

    k: int = 10
    offset: int = 0
    langs: str | Collection[str] | None = None
    mode: Mode = "hybrid"
    measure: Measure = "csls"
    group: Grouping | None = None
    prefer: str | None = None
    min_score: float = 0.0
    where: Where | None = None
    sort: str | None = None

    def __post_init__(self) -> None:
        one_of("mode", self.mode, get_args(Mode))
        one_of("measure", self.measure, get_args(Measure))
        if self.group is not None:
            one_of("group", self.group, get_args(Grouping))
        for name in ("group", "prefer", "sort") if self.mode == "dense" else ():
            if getattr(self, name) is not None:
                raise Cr5Error(f'`{name}` does not apply to `mode="dense"`; leave out one of them')
        if self.k + self.offset > MAX_HITS:
            raise Cr5Error(f"`k={self.k}` and `offset={self.offset}` are more than {MAX_HITS:,} hits; ask for fewer")
        if not isinstance(self.min_score, Real) or isnan(self.min_score):
            raise Cr5Error(f"`min_score={self.min_score!r}` must be a number, such as 0.5")
        if self.sort is not None and (not isinstance(self.sort, str) or self.sort == "-"):
            raise Cr5Error(f"`sort={self.sort!r}` must be the name of a field, such as 'year' or '-year'")


def search(snapshot: Snapshot, query: str | Query, lang: str | None, options: SearchOptions) -> SearchResult:
    """The most relevant documents, best first."""
    encoded, given = analyse_query(snapshot, query, lang), options.langs
    chosen = (
        snapshot.model.langs if given is None else [index_language(snapshot, code) for code in one_or_several(given)]
    )
    prefer = None if options.prefer is None else index_language(snapshot, options.prefer)
    if options.mode == "dense":
        result = _search_dense(snapshot, encoded, list(dict.fromkeys(chosen)), options)
    else:
        result = _search_hybrid(snapshot, encoded, list(dict.fromkeys(chosen)), prefer, options)
    warnings = unknown_fields(snapshot.store, options.where, options.sort, result.hits)
    return replace(result, warnings=warnings) if warnings else result


def _search_hybrid(
    snapshot: Snapshot, encoded: Query, langs: Sequence[str], prefer: str | None, options: SearchOptions
) -> SearchResult:
    """The documents that match the words, and those nearest to the feedback documents or to the vector of a query."""
    wanted = options.k + options.offset
    depth = MAX_HITS if options.sort else 2 * wanted  # what is sorted is the same for all pages
    stages = HybridSearch(snapshot, encoded, langs, depth, options.where, options.measure)
    found = stages.run(only_words=options.mode == "lexical")
    count = wanted * (1 + len(langs)) if options.group else wanted  # as many as have versions in all languages
    ranked = _rank(snapshot, encoded, found.candidates, count, prefer, options)
    preferred = [code for code in (prefer, encoded.lang) if code is not None]
    if options.group:
        read_titles(snapshot, [candidate.id for candidate in ranked], found.titles)
        for candidate in ranked:
            candidate.concept, candidate.title = found.titles.get(candidate.id, ("", ""))
    groups = group_versions(ranked, preferred) if options.group else [[candidate] for candidate in ranked]
    page = groups[options.offset : wanted]
    versions = _versions(snapshot, page, options.where) if options.group else {}
    hits = _read_hits(snapshot, encoded, found, page, versions)

    def is_known(word: str) -> bool:
        return any(snapshot.store.document_frequencies([word], other)[word] for other in snapshot.model.langs)

    suggestion = suggest(encoded.text, found.queries[encoded.lang], is_known)
    return SearchResult(encoded, hits, snapshot.background, suggestion)


def analyse_query(snapshot: Snapshot, query: str | Query, lang: str | None) -> Query:
    """A text as a query: its language, tokens and vector.

    If the guess of its language is uncertain, the language whose documents contain most of its words is taken or, if
    none contains any, the one that has the most similar words. Of several, it is the one with the largest P(lang |
    text) n, where n is the number of documents with the words: a word of several languages, such as Python, is probably
    meant in one in which much is found. If the text has no words, n is the number of all documents.
    """
    encoded = encode_query(snapshot, query, lang)
    if not encoded.guessed:
        return encoded
    model, stats = snapshot.model, snapshot.store.full_text_stats()
    documents = {other: stats[other].documents if other in stats else 0 for other in model.langs}
    if encoded.tokens and _is_certain(encoded, documents):
        return encoded
    present, matches = {}, {}
    for other in model.langs:
        words = model.settings.tokeniser.words(encoded.text, other)
        found = snapshot.store.document_frequencies(words, other)
        present[other] = sum(found[word] > 0 for word in words) / max(len(words), 1)
        matches[other] = sum(found.values())
    if not any(matches.values()):
        present = {other: best_form_boosts(snapshot.store, encoded.tokens, other) for other in present}
        matches = dict.fromkeys(matches, 1) if encoded.tokens or not any(documents.values()) else documents
    probabilities, best = model.language_probabilities(encoded.text), max(present.values())
    weights = {other: probabilities[other] * n for other, n in matches.items() if present[other] == best}
    likely = max(weights, key=weights.__getitem__)
    if likely == encoded.lang:
        return encoded
    return replace(encode_query(snapshot, encoded.text, likely), guessed=True, confidence=probabilities[likely])


def _is_certain(query: Query, documents: Mapping[str, int]) -> bool:
    """Whether the guess of a language is certain, also if all other languages have as many documents as any."""
    if query.confidence < SURE_CONFIDENCE or not documents[query.lang]:
        return query.confidence >= SURE_CONFIDENCE
    own, others = query.confidence * documents[query.lang], (1 - query.confidence) * max(documents.values())
    return own >= SURE_CONFIDENCE * (own + others)


def _search_dense(snapshot: Snapshot, query: Query, langs: Sequence[str], options: SearchOptions) -> SearchResult:
    """The documents nearest to the vector of a query."""
    k = options.k + options.offset
    [hits] = nearest(snapshot, query.vector[None], query.lang, k, langs, options.measure, where=options.where)
    kept = [hit for hit in hits if hit.score >= options.min_score or not options.min_score]
    return SearchResult(query, kept[options.offset :], snapshot.background)


def _rank(
    snapshot: Snapshot, query: Query, candidates: Candidates, count: int, prefer: str | None, options: SearchOptions
) -> list[Candidate]:
    """The first ``count`` candidates that are relevant enough, in the order of relevance or of a field."""
    threshold, relevance = max(options.min_score, MIN_SORTED_RELEVANCE if options.sort else 0.0), candidates.relevance
    is_kept = (relevance > 0) & (relevance >= threshold)
    scores = np.where(is_kept, relevance, -np.inf)
    if prefer is not None:
        scores += PREFERENCE * np.array([lang == prefer for lang in candidates.langs], bool)
    needs_all = bool(options.sort or query.phrases)
    number = int(np.count_nonzero(is_kept))
    ranked = candidates.documents(best_first(scores, candidates.ids, number if needs_all else min(count, number)))
    if query.phrases:
        ranked = _with_phrases(snapshot, query, ranked)
    return (_sort_by_field(snapshot, ranked, options.sort) if options.sort else ranked)[:count]


def _with_phrases(snapshot: Snapshot, query: Query, candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates whose title or text has every phrase of the query, word for word."""
    rows = snapshot.store.records([candidate.id for candidate in candidates], ("id", "lang", "title", "text"))
    phrases, with_phrases = [f" {' '.join(phrase)} " for phrase in query.phrases], set()
    for row in rows:
        words = snapshot.model.settings.tokeniser.words(f"{row['title']}\n{row['text']}", row["lang"])
        line = f" {' '.join(words)} "
        if all(phrase in line for phrase in phrases):
            with_phrases.add(row["id"])
    return [candidate for candidate in candidates if candidate.id in with_phrases]


def _sort_by_field(snapshot: Snapshot, candidates: Sequence[Candidate], sort: str) -> list[Candidate]:
    """Candidates sorted by a field, descending if "-" precedes its name; those without the field come last."""
    name, descending = sort.removeprefix("-"), sort.startswith("-")
    rows = snapshot.store.records([candidate.id for candidate in candidates], ("id", "fields"))
    values = {row["id"]: field_value(json.loads(row["fields"] or "{}"), name) for row in rows}
    has_value = {key for key, value in values.items() if isinstance(value, str | int | float)}
    with_value = [candidate for candidate in candidates if candidate.id in has_value]

    def key(candidate: Candidate) -> tuple[bool, Any]:
        value = values[candidate.id]
        return isinstance(value, str), value

    ordered = sorted(with_value, key=key, reverse=descending)
    return ordered + [candidate for candidate in candidates if candidate.id not in has_value]


def _read_hits(
    snapshot: Snapshot,
    query: Query,
    found: FoundCandidates,
    groups: Sequence[Sequence[Candidate]],
    versions: Mapping[str, Sequence[Version]],
) -> list[SearchHit]:
    """The hits of one page, with their texts; documents deleted in the meantime are left out."""
    unread = [group[0].id for group in groups if group[0].id not in found.records]
    row_of = found.records | {row["id"]: row for row in snapshot.store.records(unread, DOCUMENT_COLUMNS)}
    shown_documents = [(group[0], row_of[group[0].id]["text"]) for group in groups if group[0].id in row_of]
    tokeniser, langs = snapshot.model.settings.tokeniser, {candidate.lang for candidate, _ in shown_documents}
    words_of = {lang: word_finder(tokeniser, lang) for lang in langs}
    passage_of = _best_passages(snapshot, query, found, shown_documents, words_of)
    hits = []
    for group in groups:
        shown = group[0]
        if shown.id in row_of:
            row = row_of[shown.id]
            best = shown if len(group) == 1 else max(group, key=lambda candidate: candidate.relevance)
            begin, end = passage_of[shown.id]
            hits.append(
                SearchHit(
                    **row,
                    score=best.relevance,
                    cosine=float(shown.vector @ query.vector),
                    vector=shown.vector,
                    parts=best.parts,
                    passage=(begin, end),
                    words=_matching_words(found, shown.lang, words_of, row["title"], row["text"][begin:end]),
                    versions=tuple(versions.get(shown.id, ())),
                )
            )
    return hits


def _versions(
    snapshot: Snapshot, groups: Sequence[Sequence[Candidate]], where: Where | None
) -> dict[str, list[Version]]:
    """For the first document of each group, the others of the group and, in all languages, those of its concept."""
    further: dict[str, list[str]] = {}
    for group in groups:
        present = {candidate.id for candidate in group}
        ids = [f"{lang}:{group[0].concept}" for lang in snapshot.model.langs]
        further[group[0].id] = [document_id for document_id in ids if document_id not in present]
    wanted = [document_id for ids in further.values() for document_id in ids]
    if where is not None and wanted:
        wanted = sorted(snapshot.store.matching(wanted, where))
    rows = snapshot.store.records(wanted, ("id", "concept", "lang", "title")) if wanted else []
    row_of = {row["id"]: row for row in rows}
    versions = {}
    for group in groups:
        own = [Version(other.id, other.lang, other.title, other.relevance) for other in group[1:]]
        rest = [row_of[key] for key in further[group[0].id] if key in row_of]
        own += [Version(r["id"], r["lang"], r["title"], None) for r in rest if r["concept"] == group[0].concept]
        versions[group[0].id] = own
    return versions


def _best_passages(
    snapshot: Snapshot,
    query: Query,
    found: FoundCandidates,
    shown: Sequence[tuple[Candidate, str]],
    words_of: Mapping[str, WordFinder],
) -> dict[str, tuple[int, int]]:
    """For each document, start and end of the passage that matches best: by its words, or else by its vector."""
    best, undecided = dict[str, tuple[int, int]](), list[tuple[Candidate, Sequence[tuple[int, int]], list[str]]]()
    all_keys: list[str] = []
    settings = snapshot.passage_settings
    for candidate, text in shown:
        spans = passages.passage_spans(text, settings) if settings else ()
        number = _passage_with_words(found, candidate, text, spans, words_of)
        best[candidate.id] = spans[number] if spans else (0, len(text))
        if spans and number < 0:
            best[candidate.id] = spans[0]
            keys = [passages.passage_id(candidate.id, i + 1) for i in range(len(spans))]
            undecided.append((candidate, spans, keys))
            all_keys += keys
    if not all_keys or snapshot.passages is None:
        return best
    rows = snapshot.passages.candidates(all_keys)
    products = (rows.vectors @ np.stack([query.vector, found.vector], axis=1)).tolist()
    products_of = dict(zip(rows.ids, products, strict=True))
    for candidate, parts, keys in undecided:
        column = 0 if candidate.lang == query.lang else 1
        cosines = [products_of[key][column] if key in products_of else -np.inf for key in keys]
        best[candidate.id] = parts[cosines.index(max(cosines))]
    return best


def _passage_with_words(
    found: FoundCandidates,
    candidate: Candidate,
    text: str,
    spans: Sequence[tuple[int, int]],
    words_of: Mapping[str, WordFinder],
) -> int:
    """The number, from 0, of the passage of a document whose words match best; -1 if none has any."""
    if 1 <= candidate.passage <= len(spans):
        return candidate.passage - 1
    if not candidate.part_values[WORDS] or not spans:
        return -1
    query_words, find_words = found.queries[candidate.lang], words_of[candidate.lang]
    shares = [query_words.share_in(find_words(text[begin:end])) for begin, end in spans]
    most = max(shares)
    return shares.index(most) if most > 0 else -1  # only the title or the concept has words of the query


def _matching_words(
    found: FoundCandidates, lang: str, words_of: Mapping[str, WordFinder], *texts: str
) -> tuple[str, ...]:
    """The words of texts that match words of the query, except words that weigh little beside the others."""
    terms = found.queries[lang].highlighted_terms if lang in found.queries else set()
    parts = [*map(words_of[lang], texts)] if terms else []
    return tuple(dict.fromkeys(word for part in parts for word in sorted(terms & part.keys(), key=part.__getitem__)))
