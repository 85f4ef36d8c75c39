"""Search in a snapshot by vectors alone or by words alone, and the recall of the approximate index."""

from collections import Counter
from collections.abc import Collection
from heapq import nsmallest
from typing import get_args

import numpy as np

from cr5._typing import Array
from cr5.errors import Cr5Error, one_of
from cr5.hashing import hash_texts
from cr5.index.filters import Where
from cr5.index.query import Query, index_language, index_languages
from cr5.index.results import DOCUMENT_COLUMNS, RecallEstimate, SearchHit, SearchResult, WordHit
from cr5.index.snapshot import Snapshot
from cr5.index.stores.rows import to_matrix
from cr5.index.terms import QueryWord
from cr5.message_parts import quoted
from cr5.retrieval.csls import csls
from cr5.retrieval.top_k import Measure

RERANK_FACTOR, MIN_RERANK_DEPTH = 8, 100  # CSLS reranks max(RERANK_FACTOR * k, MIN_RERANK_DEPTH) candidates by cosine


def search_words(snapshot: Snapshot, text: str, lang: str | None, k: int) -> list[WordHit]:
    """The documents of a text's language that have its words, best first by BM25; a repeated word counts repeatedly."""
    model = snapshot.model
    language = model.guess_language(text).lang if lang is None else index_language(snapshot, lang)
    counts = Counter(model.settings.tokeniser.words(text, language))
    idf = snapshot.store.inverse_document_frequencies(counts, language)
    words = [QueryWord(count * idf[word], {word: 1.0}) for word, count in counts.items()]
    rows = snapshot.store.search_terms(words, language, k, columns=DOCUMENT_COLUMNS)
    return [WordHit(**row) for row in rows.to_pylist()]


def similar(
    snapshot: Snapshot, document_id: str, k: int, langs: str | Collection[str] | None, measure: Measure
) -> SearchResult:
    """The documents nearest to one of the index, which is the query and is left out."""
    row = snapshot.store.get([document_id], ("lang", "text", "vector", "hubness"))
    if not row.num_rows:
        raise Cr5Error(f"there is no document {quoted(document_id)} in the index; check the id")
    vectors, hubness = to_matrix(row["vector"]), to_matrix(row["hubness"])
    lang, text = row["lang"][0].as_py(), row["text"][0].as_py()
    [hits] = nearest(snapshot, vectors, lang, k + 1, langs, measure, hubness)
    tokens, _, coverage = snapshot.model.encode_text(text, lang)
    query = Query(text, lang, 1.0, False, tokens, vectors[0], coverage, snapshot.model)
    return SearchResult(query, [hit for hit in hits if hit.id != document_id][:k], snapshot.background)


def nearest(
    snapshot: Snapshot,
    vectors: Array,
    lang: str,
    k: int,
    langs: str | Collection[str] | None,
    measure: Measure,
    hubness: Array | None = None,
    *,
    where: Where | None = None,
) -> list[list[SearchHit]]:
    """For every row of ``vectors`` (queries x rank, or one), texts in ``lang``, the k nearest documents, best first.

    ``hubness`` (queries x languages) is that of the queries, if it is known already. A row of zeros has no hits.
    """
    one_of("measure", measure, get_args(Measure))
    vectors = _query_matrix(snapshot, vectors)
    lang, langs = index_language(snapshot, lang), index_languages(snapshot, langs)
    if hubness is None and measure == "csls":
        hubness = snapshot.background.hubness(vectors)
    column = {name: j for j, name in enumerate(snapshot.model.langs)}
    known = np.flatnonzero(vectors.any(axis=1))
    depth = k if measure == "cosine" else max(MIN_RERANK_DEPTH, RERANK_FACTOR * k)
    results: list[list[SearchHit]] = [[] for _ in vectors]
    for i in known.tolist():
        rows, cosines = snapshot.store.nearest_candidates(vectors[i], depth, langs=langs, where=where)
        scores = cosines
        if hubness is not None and measure == "csls":
            columns = [column[other] for other in rows.langs]
            scores = csls(cosines, hubness[i, columns], rows.hubness[:, column[lang]])
        position = {rows.ids[j]: j for j in np.argsort(-scores, kind="stable")[:k].tolist()}
        # Texts may be long: they are read for the hits only, not for all candidates.
        for row in snapshot.store.records(list(position), DOCUMENT_COLUMNS):
            j = position[row["id"]]
            hit = SearchHit(**row, score=float(scores[j]), cosine=float(cosines[j]), vector=rows.vectors[j])
            results[i].append(hit)
    return results


def _query_matrix(snapshot: Snapshot, vectors: Array) -> Array:
    """Vectors as queries x rank; one vector is one query."""
    matrix = np.atleast_2d(np.asarray(vectors, np.float32))
    if matrix.ndim != 2 or matrix.shape[1] != snapshot.model.rank:
        raise Cr5Error(
            f"`vectors` has the shape {np.shape(vectors)}; the index needs queries x {snapshot.model.rank}, as its "
            "model encodes them"
        )
    return matrix


def estimate_recall(snapshot: Snapshot, queries: int, k: int) -> RecallEstimate:
    """Recall@k of the approximate index, with random documents of the index as queries.

    A query document is not counted as its own neighbour.
    """
    all_ids = (document_id for rows in snapshot.store.scan(("id",)) for document_id in rows["id"].to_pylist())
    drawn = nsmallest(queries, all_ids, key=lambda document_id: int(hash_texts([document_id])[0]))
    rows = snapshot.store.get(drawn, ("id", "vector"))
    vectors, ids = to_matrix(rows["vector"]), rows["id"].to_pylist()
    exact, approximate = (
        snapshot.store.nearest(vectors, k + 1, columns=("id",), exact=exact) for exact in (True, False)
    )
    shares = []
    for document_id, exact_rows, approximate_rows in zip(ids, exact, approximate, strict=True):
        relevant = [other for other in exact_rows["id"].to_pylist() if other != document_id][:k]
        if relevant:
            retrieved = [other for other in approximate_rows["id"].to_pylist() if other != document_id][:k]
            shares.append(len({*relevant} & {*retrieved}) / len(relevant))
    recall = float(np.mean(shares)) if shares else 1.0
    return RecallEstimate(recall, len(shares), k, str(snapshot.store.stats()["index"]))
