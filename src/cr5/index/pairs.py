"""Document pairs: documents of two languages, or of one, that are each other's nearest neighbours by CSLS."""

from typing import NamedTuple

import numpy as np

from cr5._typing import Array, Ints
from cr5.index.ingest import ROWS_WITHOUT_TEXTS, merge_batches
from cr5.index.query import index_language
from cr5.index.results import DOCUMENT_COLUMNS, DocumentPair, IndexedDocument
from cr5.index.snapshot import Snapshot
from cr5.index.stores.rows import to_matrix
from cr5.progress import Progress, ProgressCallback
from cr5.retrieval import top_k
from cr5.retrieval.csls import csls, csls_penalty
from cr5.retrieval.vectors import row_products


class _Side(NamedTuple):
    """All documents of one language: ids, vectors, and their hubness in the other language."""

    ids: list[str]
    vectors: Array
    hubness: Array


def closest_pairs(
    snapshot: Snapshot, lang_a: str, lang_b: str, k: int, progress: ProgressCallback
) -> list[DocumentPair]:
    """The k pairs with the largest CSLS among the mutual nearest neighbours of two languages, or of one."""
    lang_a, lang_b = index_language(snapshot, lang_a), index_language(snapshot, lang_b)
    same = lang_a == lang_b
    progress(Progress("pairs", 0, 3, f"read {lang_a}, {lang_b}"))
    a = _read_side(snapshot, lang_a, lang_b)
    b = a if same else _read_side(snapshot, lang_b, lang_a)
    progress(Progress("pairs", 1, 3, f"{lang_a} to {lang_b}"))
    nearest_b = _nearest(a, b, same=same)
    progress(Progress("pairs", 2, 3, f"{lang_b} to {lang_a}"))
    nearest_a = nearest_b if same else _nearest(b, a, same=False)
    rows_a = top_k.mutual_nearest(nearest_b, nearest_a)
    if same:
        rows_a = rows_a[rows_a < nearest_b[rows_a]]
    rows_b = nearest_b[rows_a]
    cosines = row_products(a.vectors[rows_a], b.vectors[rows_b])
    scores = csls(cosines, a.hubness[rows_a], b.hubness[rows_b])
    best = np.argsort(-scores, kind="stable")[:k]
    ids = [(a.ids[rows_a[i]], b.ids[rows_b[i]]) for i in best]
    rows = snapshot.store.get([document_id for pair in ids for document_id in pair], DOCUMENT_COLUMNS).to_pylist()
    documents = {row["id"]: IndexedDocument(**row) for row in rows}
    return [
        DocumentPair(documents[id_a], documents[id_b], float(scores[i]), float(cosines[i]))
        for i, (id_a, id_b) in zip(best, ids, strict=True)
        if id_a in documents and id_b in documents
    ]


def _read_side(snapshot: Snapshot, lang: str, other: str) -> _Side:
    column, rank = snapshot.model.langs.index(other), snapshot.model.rank
    ids: list[str] = []
    vectors, hubness = [np.empty((0, rank), np.float32)], [np.empty(0, np.float32)]
    for rows in merge_batches(snapshot.store.scan(("id", "vector", "hubness"), [lang]), ROWS_WITHOUT_TEXTS):
        ids += rows["id"].to_pylist()
        vectors.append(to_matrix(rows["vector"]))
        hubness.append(to_matrix(rows["hubness"])[:, column])
    return _Side(ids, np.concatenate(vectors), np.concatenate(hubness))


def _nearest(queries: _Side, candidates: _Side, *, same: bool) -> Ints:
    """The row of each query's nearest candidate by CSLS, -1 without any; if both are the ``same``, not itself."""
    k = 2 if same else 1
    rows = top_k.nearest(queries.vectors, candidates.vectors, k, penalty=csls_penalty(candidates.hubness)).indices
    if same:
        rows = np.where(rows[:, :1] == np.arange(len(rows))[:, None], rows[:, 1:], rows[:, :1])
    return np.asarray(rows[:, 0] if rows.shape[1] else np.full(len(rows), -1), np.int64)
