"""Asking a generation: nearest documents, closest pairs, and how much the approximate index finds."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import NamedTuple

import numpy as np

from cr5._typing import Array, Ints
from cr5.corpus.languages import Guess
from cr5.errors import Cr5Error
from cr5.index.ingest import BULK, tables
from cr5.index.snapshot import Generation
from cr5.index.stores.base import digests, matrix
from cr5.progress import Progress, ProgressCallback
from cr5.retrieval import top_k
from cr5.retrieval.csls import csls, csls_penalty
from cr5.retrieval.top_k import Measure
from cr5.retrieval.vectors import row_products

OVERFETCH, AT_LEAST = 8, 100  # candidates for each hit that is wanted, and in all: CSLS re-ranks what the cosine found
SHOWN = ("id", "concept", "lang", "title", "url", "text")


@dataclass(frozen=True, slots=True)
class Entry:
    """A document of the index."""

    id: str
    concept: str
    lang: str
    title: str
    url: str
    text: str


@dataclass(frozen=True, slots=True)
class Hit(Entry):
    """A document that was found, with its vector; ``score`` is by the measure that was asked for."""

    score: float
    cosine: float
    vector: Array = field(compare=False, repr=False)


class Match(NamedTuple):
    """Two documents that are each other's nearest; ``score`` is their CSLS."""

    a: Entry
    b: Entry
    score: float
    cosine: float


class Recall(NamedTuple):
    """How much of what an exact search finds the index finds as well, among the ``k`` nearest of each query."""

    recall: float
    queries: int
    k: int
    kind: str


def refuse_unknown(now: Generation, langs: Iterable[str]) -> None:
    """Languages that the model does not know."""
    for lang in langs:
        if lang not in now.model.langs:
            raise Cr5Error(f"the index has no language {lang!r}; its languages are {', '.join(now.model.langs)}")


def search(
    now: Generation, text: str, lang: str | None, k: int, langs: Collection[str] | None, measure: Measure
) -> tuple[Guess, list[Hit]]:
    """The documents nearest to a text, best first, and the language that it was taken for (certain if given)."""
    guess = Guess(lang, 1.0) if lang is not None else now.model.guess_language(text)
    refuse_unknown(now, [guess.lang, *(langs or ())])
    vector = now.model.encode([text], guess.lang)
    return guess, nearest(now, vector, now.background.hubness(vector), guess.lang, k, langs, measure)[0]


def similar(now: Generation, name: str, k: int, langs: Collection[str] | None, measure: Measure) -> list[Hit]:
    """The documents nearest to one of the index, itself left out."""
    refuse_unknown(now, langs or ())
    row = now.store.get([name], ("lang", "vector", "hubness"))
    if not row.num_rows:
        raise Cr5Error(f"there is no document {name!r} in the index; name the id of one that a search finds")
    vector, around, lang = matrix(row["vector"]), matrix(row["hubness"]), row["lang"][0].as_py()
    [hits] = nearest(now, vector, around, lang, k + 1, langs, measure)
    return [hit for hit in hits if hit.id != name][:k]


def nearest(
    now: Generation,
    vectors: Array,
    around: Array,
    lang: str,
    k: int,
    langs: Collection[str] | None,
    measure: Measure,
) -> list[list[Hit]]:
    """For every row of vectors (queries x rank), whose hubness is ``around``, the nearest documents, best first."""
    place = {name: j for j, name in enumerate(now.model.langs)}
    known = np.flatnonzero(vectors.any(axis=1))
    number = k if measure == "cosine" else max(AT_LEAST, OVERFETCH * k)
    results: list[list[Hit]] = [[] for _ in vectors]
    for i, rows in zip(known.tolist(), now.store.nearest(vectors[known], number, langs=langs), strict=True):
        scores = cosines = rows["cosine"].to_numpy()
        if measure == "csls":
            columns = [place[other] for other in rows["lang"].to_pylist()]
            scores = csls(cosines, around[i, columns], matrix(rows["hubness"])[:, place[lang]])
        order = np.argsort(-scores, kind="stable")[:k]
        best = dict(zip(rows["id"].take(order).to_pylist(), order, strict=True))
        shown = now.store.get(list(best), (*SHOWN, "vector"))  # texts may be long: only of those that are shown
        pairs = zip(shown.select(SHOWN).to_pylist(), matrix(shown["vector"]), strict=True)
        results[i] = [
            Hit(**row, score=float(scores[j]), cosine=float(cosines[j]), vector=vector)
            for row, vector in pairs
            for j in [best[row["id"]]]
        ]
    return results


def pairs(now: Generation, a: str, b: str, k: int, progress: ProgressCallback) -> list[Match]:
    """The k closest pairs of documents of two languages, or of one, that are each other's nearest by CSLS."""
    refuse_unknown(now, [a, b])
    progress(Progress("pairs", 0, 3, f"read {a}, {b}"))
    one = _column(now, a, b)
    other = one if a == b else _column(now, b, a)
    progress(Progress("pairs", 1, 3, f"{a} to {b}"))
    there = _best(one, other, same=a == b)
    progress(Progress("pairs", 2, 3, f"{b} to {a}"))
    back = there if a == b else _best(other, one, same=False)
    rows = np.array([i for i, j in enumerate(there) if j >= 0 and back[j] == i and (a != b or i < j)], np.int64)
    cosines = row_products(one.vectors[rows], other.vectors[there[rows]])
    scores = csls(cosines, one.hubness[rows], other.hubness[there[rows]])
    order = np.argsort(-scores, kind="stable")[:k]
    names = [(one.ids[i], other.ids[there[i]]) for i in rows[order]]
    found = now.store.get([name for pair in names for name in pair], SHOWN).to_pylist()
    entries = {row["id"]: Entry(**row) for row in found}
    return [
        Match(entries[x], entries[y], float(scores[i]), float(cosines[i]))
        for i, (x, y) in zip(order, names, strict=True)
        if x in entries and y in entries
    ]


class _Column(NamedTuple):
    """All documents of a language, and how much each is a hub to the other."""

    ids: list[str]
    vectors: Array
    hubness: Array


def _column(now: Generation, lang: str, other: str) -> _Column:
    j, rank = now.model.langs.index(other), now.model.settings.rank
    ids: list[str] = []
    vectors, hubness = [np.empty((0, rank), np.float32)], [np.empty(0, np.float32)]
    for rows in tables(now.store.scan(("id", "vector", "hubness"), [lang]), BULK):
        ids += rows["id"].to_pylist()
        vectors.append(matrix(rows["vector"]))
        hubness.append(matrix(rows["hubness"])[:, j])
    return _Column(ids, np.concatenate(vectors), np.concatenate(hubness))


def _best(queries: _Column, candidates: _Column, *, same: bool) -> Ints:
    """The nearest candidate of every query by CSLS, another than itself where they are the ``same``; -1: none."""
    found = top_k.nearest(
        queries.vectors, candidates.vectors, 1 + same, penalty=csls_penalty(candidates.hubness)
    ).indices
    if same:
        found = np.where(found[:, :1] == np.arange(len(found))[:, None], found[:, 1:], found[:, :1])
    return np.asarray(found[:, 0] if found.shape[1] else np.full(len(found), -1), np.int64)


def check(now: Generation, queries: int, k: int) -> Recall:
    """Compare the approximate index with an exact search, for documents drawn from all of the index as queries."""
    names = (name for rows in now.store.scan(("id",)) for name in rows["id"].to_pylist())
    drawn = nsmallest(queries, names, key=lambda name: int(digests([name])[0]))
    asked = now.store.get(drawn, ("id", "vector"))
    vectors, own = matrix(asked["vector"]), asked["id"].to_pylist()
    exact, found = (now.store.nearest(vectors, k + 1, columns=("id",), exact=way) for way in (True, False))
    shares = []
    for name, right, given in zip(own, exact, found, strict=True):
        wanted = [other for other in right["id"].to_pylist() if other != name][:k]  # itself is easily found
        if wanted:
            got = [other for other in given["id"].to_pylist() if other != name][:k]
            shares.append(len({*wanted} & {*got}) / len(wanted))
    recall = float(np.mean(shares)) if shares else 1.0
    return Recall(recall, len(shares), k, str(now.store.about()["index"]))
