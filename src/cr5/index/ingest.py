"""Filling a generation: documents are encoded and put, hubs are told.

Whether a document is a hub is told against the background, which is drawn from the documents themselves: as these
become more, it is drawn anew.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from cr5.index.background import SAMPLE, TOTAL, Background
from cr5.index.snapshot import Snapshot
from cr5.index.stores.base import digest, digests, lists, matrix
from cr5.progress import Progress, ProgressCallback

ROWS, BYTES = 8192, 2**26  # documents that are put at a time, and lost at most; fewer where texts are long
BULK = 2**15  # documents whose hubness is renewed at a time
GROWTH = 1.5  # by how much a language may outgrow its sample before that is drawn anew


@dataclass
class Added:
    """What became of documents: ``new``, ``renewed`` with another content, ``unchanged``; and those of no use.

    ``blank``: no word that the model knows, by language. ``unknown``: in languages that the model does not know.
    """

    new: int = 0
    renewed: int = 0
    unchanged: int = 0
    blank: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        """How many of them are in the index now."""
        return self.new + self.renewed + self.unchanged


def tables(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """Batches joined to tables of so many rows or somewhat more, or ``BYTES``, however small they come."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(some.num_rows for some in waiting) >= rows or sum(some.nbytes for some in waiting) >= BYTES:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)


def name(rows: pa.Table, taken: Counter[str]) -> list[str]:
    """The id of every row: its language and concept, and a number from the second on."""
    ids = []
    for lang, concept in zip(rows["lang"].to_pylist(), rows["concept"].to_pylist(), strict=True):
        numbered = plain = f"{lang}:{concept}"
        while numbered in taken:
            taken[plain] += 1
            numbered = f"{plain}#{taken[plain]}"
        taken[numbered] = 1
        ids.append(numbered)
    return ids


def put(now: Snapshot, rows: pa.Table, ids: list[str], added: Added) -> Counter[str]:
    """Encode and put what is new or has changed, all at once; take out what has no known word any more.

    Returns how many documents there are more of each language.
    """
    texts = {column: rows[column].to_pylist() for column in ("concept", "lang", "title", "url", "text")}
    for column in ("title", "text"):  # NUL is no word to the model, and PostgreSQL has none
        texts[column] = [text.replace("\0", " ") for text in texts[column]]
    langs = texts["lang"]
    contents = [digest("\0".join(content), 12).hex() for content in zip(*texts.values(), strict=True)]
    there = now.store.digests(ids)
    changed = []
    for i, identity in enumerate(ids):
        if langs[i] not in now.model.langs:
            added.unknown[langs[i]] += 1
        elif there.get(identity) == contents[i]:
            added.unchanged += 1
        else:
            changed.append(i)
    vectors = np.zeros((len(ids), now.model.settings.rank), np.float32)
    for lang in {langs[i] for i in changed}:
        own = [i for i in changed if langs[i] == lang]
        vectors[own] = now.model.encode([texts["text"][i] for i in own], lang)
    known = np.asarray(vectors.any(axis=1))
    added.blank.update(langs[i] for i in changed if not known[i])
    gone = [i for i in changed if not known[i] and ids[i] in there]
    if gone:
        now.store.delete([ids[i] for i in gone])
    more = Counter[str]()
    more.subtract(langs[i] for i in gone)
    kept = [i for i in changed if known[i]]
    if not kept:
        return more
    columns = {column: pa.array([values[i] for i in kept], pa.string()) for column, values in texts.items()}
    hubness = now.background.hubness(vectors[kept], digests([texts["concept"][i] for i in kept]))
    columns |= {
        "id": pa.array([ids[i] for i in kept], pa.string()),
        "digest": pa.array([contents[i] for i in kept], pa.string()),
        "vector": lists(vectors[kept]),
        "hubness": lists(hubness),
    }
    now.store.put(pa.table(columns))
    new = [i for i in kept if ids[i] not in there]
    added.new += len(new)
    added.renewed += len(kept) - len(new)
    more.update(langs[i] for i in new)
    return more


# Hubs


def outgrown(now: Snapshot, counts: Mapping[str, int]) -> bool:
    """Whether a language has many more documents than its sample, which could have more."""
    limit = sample_size(now.model.langs)
    return any(min(counts.get(lang, 0), limit) > GROWTH * size for lang, size in now.background.sizes.items())


def sample_size(langs: Sequence[str]) -> int:
    """How many documents stand for each language."""
    return max(50, min(SAMPLE, TOTAL // len(langs)))


def refreshed(now: Snapshot, progress: ProgressCallback) -> Snapshot:
    """The same documents, their hubness told by a background drawn anew, which counts when ``about`` is written.

    Killed before, it leaves some documents with their new hubness and some with the old, by other samples of the same
    documents; since the old background stays, the next run begins again.
    """
    background, total, done = _draw(now), sum(now.store.count().values()), 0
    last = now.about["background"]
    number = 1 + (int(last.removeprefix("background-").removesuffix(".npz")) if last else 0)
    background.save(now.place / f"background-{number}.npz")
    for rows in tables(now.store.scan(("id", "concept", "vector")), BULK):
        hubness = background.hubness(matrix(rows["vector"]), digests(rows["concept"].to_pylist()))
        now.store.set_hubness(rows["id"].to_pylist(), hubness)
        done += rows.num_rows
        progress(Progress("tell hubs", done, total))
    return now._replace(about=now.about | {"background": f"background-{number}.npz"}, background=background)


def _draw(now: Snapshot) -> Background:
    """A sample of each language: the documents whose ids have the smallest digests, the same at any time."""
    limit, rank = sample_size(now.model.langs), now.model.settings.rank
    keys = {lang: np.empty(0, np.uint64) for lang in now.model.langs}
    empty = Background.empty(now.model.langs, rank)
    vectors, concepts = empty.vectors, empty.concepts
    for rows in tables(now.store.scan(("id", "lang", "concept", "vector")), BULK):
        langs, X = np.array(rows["lang"].to_pylist()), matrix(rows["vector"])
        some, about = digests(rows["id"].to_pylist()), digests(rows["concept"].to_pylist())
        for lang in np.unique(langs).tolist():
            own = np.flatnonzero(langs == lang)
            own = own[np.argsort(some[own])[:limit]]
            merged = np.concatenate([keys[lang], some[own]])
            order = np.argsort(merged, kind="stable")[:limit]
            keys[lang] = merged[order]
            vectors[lang] = np.concatenate([vectors[lang], X[own]])[order]
            concepts[lang] = np.concatenate([concepts[lang], about[own]])[order]
    return Background(now.model.langs, vectors, concepts)
