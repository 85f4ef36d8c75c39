"""Search in a snapshot: the nearest documents by cosine or CSLS, and the recall of the approximate index."""

from collections.abc import Collection, Iterable
from heapq import nsmallest

import numpy as np

from cr5._typing import Array
from cr5.errors import Cr5Error, quoted
from cr5.index.query import Query
from cr5.index.results import RecallEstimate, SearchHit
from cr5.index.snapshot import Snapshot
from cr5.index.stores.base import hash_texts, to_matrix
from cr5.retrieval.csls import csls
from cr5.retrieval.top_k import Measure

RERANK_FACTOR, MIN_RERANK_DEPTH = 8, 100  # CSLS reranks max(RERANK_FACTOR * k, MIN_RERANK_DEPTH) candidates by cosine
DOCUMENT_COLUMNS = ("id", "concept", "lang", "title", "url", "text")


def require_languages(snapshot: Snapshot, langs: Iterable[str]) -> None:
    """Raise an error for a language that the model does not know."""
    for lang in langs:
        if lang not in snapshot.model.langs:
            known = ", ".join(snapshot.model.langs)
            raise Cr5Error(f"the index has no language {quoted(lang)}; its languages are {known}")


def search(
    snapshot: Snapshot, query: Query, k: int, langs: Collection[str] | None, measure: Measure
) -> list[SearchHit]:
    """The documents nearest to a query, best first."""
    require_languages(snapshot, langs or ())
    vectors = query.vector[None]
    return nearest(snapshot, vectors, snapshot.background.hubness(vectors), query.lang, k, langs, measure)[0]


def similar(
    snapshot: Snapshot, name: str, k: int, langs: Collection[str] | None, measure: Measure
) -> tuple[Query, list[SearchHit]]:
    """The documents nearest to one of the index, which itself is left out; and that one as a query."""
    require_languages(snapshot, langs or ())
    row = snapshot.store.get([name], ("lang", "text", "vector", "hubness"))
    if not row.num_rows:
        raise Cr5Error(f"there is no document {quoted(name)} in the index; check the id")
    vectors, query_means = to_matrix(row["vector"]), to_matrix(row["hubness"])
    lang, text = row["lang"][0].as_py(), row["text"][0].as_py()
    [hits] = nearest(snapshot, vectors, query_means, lang, k + 1, langs, measure)
    tokens, _, coverage = snapshot.model.encode_text(text, lang)
    query = Query(text, lang, 1.0, False, tokens, vectors[0], coverage, snapshot.model)
    return query, [hit for hit in hits if hit.id != name][:k]


def nearest(
    snapshot: Snapshot,
    vectors: Array,
    query_means: Array,
    lang: str,
    k: int,
    langs: Collection[str] | None,
    measure: Measure,
) -> list[list[SearchHit]]:
    """For every row of ``vectors`` (queries x rank), texts in ``lang``, the k nearest documents, best first.

    ``query_means`` (queries x languages) are the neighbourhood means r(q) of CSLS. A row of zeros has no hits.
    """
    column = {name: j for j, name in enumerate(snapshot.model.langs)}
    known = np.flatnonzero(vectors.any(axis=1))
    depth = k if measure == "cosine" else max(MIN_RERANK_DEPTH, RERANK_FACTOR * k)
    results: list[list[SearchHit]] = [[] for _ in vectors]
    for i, candidates in zip(known.tolist(), snapshot.store.nearest(vectors[known], depth, langs=langs), strict=True):
        scores = cosines = candidates["cosine"].to_numpy()
        if measure == "csls":
            columns = [column[other] for other in candidates["lang"].to_pylist()]
            scores = csls(cosines, query_means[i, columns], to_matrix(candidates["hubness"])[:, column[lang]])
        order = np.argsort(-scores, kind="stable")[:k]
        position = dict(zip(candidates["id"].take(order).to_pylist(), order, strict=True))
        # Texts may be long: they are read for the hits only, not for all candidates.
        rows = snapshot.store.get(list(position), (*DOCUMENT_COLUMNS, "vector"))
        for row, vector in zip(rows.select(DOCUMENT_COLUMNS).to_pylist(), to_matrix(rows["vector"]), strict=True):
            j = position[row["id"]]
            results[i].append(SearchHit(**row, score=float(scores[j]), cosine=float(cosines[j]), vector=vector))
    return results


def estimate_recall(snapshot: Snapshot, queries: int, k: int) -> RecallEstimate:
    """Recall@k of the approximate index, with random documents of the index as queries.

    A query document is not counted as its own neighbour.
    """
    names = (name for rows in snapshot.store.scan(("id",)) for name in rows["id"].to_pylist())
    drawn = nsmallest(queries, names, key=lambda name: int(hash_texts([name])[0]))
    rows = snapshot.store.get(drawn, ("id", "vector"))
    vectors, ids = to_matrix(rows["vector"]), rows["id"].to_pylist()
    exact, approximate = (
        snapshot.store.nearest(vectors, k + 1, columns=("id",), exact=exact) for exact in (True, False)
    )
    shares = []
    for name, exact_rows, approximate_rows in zip(ids, exact, approximate, strict=True):
        relevant = [other for other in exact_rows["id"].to_pylist() if other != name][:k]
        if relevant:
            retrieved = [other for other in approximate_rows["id"].to_pylist() if other != name][:k]
            shares.append(len({*relevant} & {*retrieved}) / len(relevant))
    recall = float(np.mean(shares)) if shares else 1.0
    return RecallEstimate(recall, len(shares), k, str(snapshot.store.about()["index"]))
