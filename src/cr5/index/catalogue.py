"""An index: documents with their vectors, to be asked in any language of a model.

A folder holds ``index.json``, which names the generation and the background that count, and for each generation a
folder with the model, backgrounds and, if it is LanceDB's, the store. Indexing anew builds the next generation beside
the one that is asked meanwhile, and replaces ``index.json`` in one step. Whoever has the index open sees and follows.
"""

import fcntl
import hashlib
import importlib
import json
import os
import secrets
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from heapq import nsmallest
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from cr5 import neighbours
from cr5._typing import Array, Ints
from cr5.corpus import Batch, Document, in_batches
from cr5.errors import UserError
from cr5.index import lance, postgres
from cr5.index.background import SAMPLE, TOTAL, Background
from cr5.index.store import Store, lists, matrix
from cr5.languages import Guess
from cr5.model import Cr5
from cr5.neighbours import Measure
from cr5.progress import Progress, Report, silent

FORMAT = 1
ROWS = 2000  # documents that are put at a time, and lost at most
BULK = 2**15  # documents whose hubness is renewed at a time
GROWTH = 1.5  # by how much a language may outgrow its sample before that is drawn anew
OVERFETCH, AT_LEAST = 8, 100  # candidates for each hit that is wanted, and in all: CSLS re-ranks what the cosine found
_INDEX, _LOCK, _GENERATION, _ABOUT = "index.json", "lock", "generation-", "about.json"
_SHOWN = ("id", "concept", "lang", "title", "url", "text")

Found = TypeVar("Found")
Stamp: TypeAlias = tuple[int, int] | None


class BusyError(UserError):
    """Another process writes the index."""


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
    """A document that was found; ``score`` is by the measure that was asked for."""

    score: float
    cosine: float


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


class Generation(NamedTuple):
    """What an index consists of at a time; ``about`` is what ``index.json`` says of it."""

    about: dict[str, Any]
    place: Path
    store: Store
    model: Cr5
    background: Background


class Index:
    """An index that is open, for any number of threads. Reading never waits for writing; one process writes at a time.

    ``Index.create`` makes one, ``Index.open`` opens it.
    """

    def __init__(self, folder: Path, address: str | None, stamp: Stamp, now: Generation) -> None:
        self.folder, self._address, self._stamp, self._now = folder, address, stamp, now
        self._following, self._left = threading.Lock(), list[Store]()

    @classmethod
    def open(cls, folder: Path, *, store: str | None = None) -> "Index":
        """The index in a folder; ``store`` is needed where its server's address has a password."""
        if store is not None and _read(folder)["table"] is None:
            raise UserError(f"{folder}: the index lies in this folder, not in a server; leave out its address")
        return cls(folder, store, *_current(folder, store))

    @classmethod
    def create(cls, folder: Path, model: Path, *, store: str | None = None) -> "Index":
        """A new, empty index for a model; ``store`` is the address of a PostgreSQL server, or None for the folder."""
        if cls.exists(folder):
            raise UserError(f"{folder}: there is an index already; open it, or name another folder")
        Cr5.load(model)  # a mistake there leaves no folder behind
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():
            if path.name not in (_LOCK, f".{_INDEX}.tmp") and not path.name.startswith(_GENERATION):
                raise UserError(f"{folder}: not empty, there is {path.name}; name a new folder for the index")
        with _locked(folder):
            _sweep(folder, [], store)  # what a run left that was killed
            made = _make(folder, model, store, 1)
            made.store.close()
            _write(folder / _INDEX, made.about)
        return cls.open(folder, store=store)

    @staticmethod
    def exists(folder: Path) -> bool:
        """Whether there is one to open."""
        return (folder / _INDEX).exists()

    def close(self) -> None:
        """Let go of files and connections."""
        for store in [*self._left, self._now.store]:
            store.close()
        self._left.clear()

    @property
    def model(self) -> Cr5:
        """The model whose vectors are in the index."""
        return self._now.model

    @property
    def langs(self) -> list[str]:
        """The languages that can be asked and indexed."""
        return self._now.model.langs

    def built_with(self, model: Path) -> bool:
        """Whether the index has the vectors of the model in that folder."""
        return bool(self._now.about["model"] == _identity(model))

    def about(self) -> dict[str, Any]:
        """Documents and background by language, and what the store says of itself."""

        def ask(now: Generation) -> dict[str, Any]:
            about = {"generation": now.about["generation"], "background": now.background.sizes}
            return {"documents": now.store.count()} | about | now.store.about()

        return self.ask(ask)

    # Writing

    def add(self, documents: Iterable[Batch] | Iterable[Document], *, progress: Report = silent) -> Added:
        """Put documents in, or renew those with the same language and concept; each batch is in as a whole or not.

        A second document of the same language and concept is numbered: it:Q144, it:Q144#2. What has not changed costs
        nothing but reading, so that a run that was killed is simply run again.
        """
        added, taken = Added(), Counter[str]()
        with self._writing() as now:
            for rows in _tables((batch.rows for batch in in_batches(documents)), ROWS):
                ids = _name(rows, taken)
                _put(now, rows, ids, added)
                note = f"{added.unchanged:,} unchanged" if added.unchanged else ""
                progress(Progress("index", added.total, None, note))
                # Without a background nothing is a hub, and what comes before the first would have the advantage.
                counts = now.store.count()
                if sum(counts.values()) <= TOTAL and _outgrown(now, counts):
                    now = self._refresh(now, progress)
            if _outgrown(now, now.store.count()):
                now = self._refresh(now, progress)
            now.store.optimise()
        return added

    def delete(self, ids: Sequence[str]) -> int:
        """Take documents out; returns how many were there."""
        with self._writing() as now:
            return now.store.delete(ids)

    def refresh(self, *, progress: Report = silent) -> None:
        """Draw the background anew, tell hubs by it, and renew the approximate index."""
        with self._writing() as now:
            self._refresh(now, progress).store.optimise()

    def reindex(self, model: Path, *, progress: Report = silent) -> Added:
        """Encode all documents with another model; the index can be asked as it is until that is done.

        A run that was killed is taken up again, unless something else was written in between.
        """
        added, identity = Added(), _identity(model)
        Cr5.load(model)  # a mistake there changes nothing
        with self._writing(identity) as now:
            number, total = now.about["generation"] + 1, sum(now.store.count().values())
            begun = _pending(self.folder, number)
            following = (
                _open(self.folder, begun, self._address)
                if begun
                else _make(self.folder, model, _server(now.about, self._address), number)
            )
            try:
                for rows in _tables(now.store.scan(_SHOWN, batch_rows=ROWS), ROWS):
                    _put(following, rows, rows["id"].to_pylist(), added)
                    progress(Progress("index anew", added.total, total))
                following = _refreshed(following, progress)
                following.store.optimise()
                _write(self.folder / _INDEX, following.about)
            finally:
                following.store.close()
            self._follow()
            _sweep(self.folder, [number], self._address)
        return added

    def _refresh(self, now: Generation, progress: Report) -> Generation:
        _write(self.folder / _INDEX, _refreshed(now, progress).about)
        self._follow()
        kept = self._now.about["background"]
        for path in now.place.glob("background-*.npz"):
            if path.name != kept:
                path.unlink()
        return self._now

    @contextmanager
    def _writing(self, model: str | None = None) -> Iterator[Generation]:
        """Keep a second writer out, and clear away what a killed one left but for the vectors of ``model``."""
        with _locked(self.folder):
            self._follow()
            number = self._now.about["generation"]
            begun = _pending(self.folder, number + 1)
            kept = [number, number + 1] if begun and begun["model"] == model else [number]
            _sweep(self.folder, kept, self._address)
            yield self._now

    # Asking

    def get(self, ids: Sequence[str]) -> list[Entry]:
        """Documents in the order asked, without those that are missing."""
        return self.ask(lambda now: [Entry(**row) for row in now.store.get(ids, _SHOWN).to_pylist()])

    def search(
        self,
        text: str,
        lang: str | None = None,
        *,
        k: int = 10,
        langs: Collection[str] | None = None,
        measure: Measure = "csls",
    ) -> tuple[Guess, list[Hit]]:
        """The documents nearest to a text, best first, and the language that it was taken for (certain if given).

        ``langs`` are the languages to look in, all by default. A text without a known word finds nothing.
        """

        def ask(now: Generation) -> tuple[Guess, list[Hit]]:
            guess = Guess(lang, 1.0) if lang is not None else now.model.guess_language(text)
            _check(now, [guess.lang, *(langs or ())])
            vector = now.model.encode([text], guess.lang)
            return guess, _nearest(now, vector, now.background.hubness(vector), guess.lang, k, langs, measure)[0]

        return self.ask(ask)

    def similar(
        self, name: str, *, k: int = 10, langs: Collection[str] | None = None, measure: Measure = "csls"
    ) -> list[Hit]:
        """The documents nearest to one of the index, itself left out."""

        def ask(now: Generation) -> list[Hit]:
            _check(now, langs or ())
            row = now.store.get([name], ("lang", "vector", "hubness"))
            if not row.num_rows:
                raise UserError(f"there is no document {name!r} in the index; name the id of one that a search finds")
            vector, around, lang = matrix(row["vector"]), matrix(row["hubness"]), row["lang"][0].as_py()
            [hits] = _nearest(now, vector, around, lang, k + 1, langs, measure)
            return [hit for hit in hits if hit.id != name][:k]

        return self.ask(ask)

    def nearest(
        self,
        vectors: Array,
        lang: str,
        *,
        k: int = 10,
        langs: Collection[str] | None = None,
        measure: Measure = "csls",
    ) -> list[list[Hit]]:
        """The documents nearest to each row of vectors (queries x rank) that the model made of texts in ``lang``."""

        def ask(now: Generation) -> list[list[Hit]]:
            _check(now, [lang, *(langs or ())])
            return _nearest(now, vectors, now.background.hubness(vectors), lang, k, langs, measure)

        return self.ask(ask)

    def pairs(self, a: str, b: str, *, k: int = 100, progress: Report = silent) -> list[Match]:
        """The k closest pairs of documents of two languages, or of one, that are each other's nearest by CSLS.

        Every document is compared with every other; memory holds the vectors of both languages.
        """

        def ask(now: Generation) -> list[Match]:
            _check(now, [a, b])
            progress(Progress("pairs", 0, 3, f"read {a}, {b}"))
            one = _column(now, a, b)
            other = one if a == b else _column(now, b, a)
            progress(Progress("pairs", 1, 3, f"{a} to {b}"))
            there = _best(one, other, same=a == b)
            progress(Progress("pairs", 2, 3, f"{b} to {a}"))
            back = there if a == b else _best(other, one, same=False)
            rows = np.array([i for i, j in enumerate(there) if j >= 0 and back[j] == i and (a != b or i < j)], np.int64)
            cosines = np.einsum("ij,ij->i", one.vectors[rows], other.vectors[there[rows]])
            scores = 2 * cosines - one.hubness[rows] - other.hubness[there[rows]]
            order = np.argsort(-scores, kind="stable")[:k]
            names = [(one.ids[i], other.ids[there[i]]) for i in rows[order]]
            rows_of = now.store.get([name for pair in names for name in pair], _SHOWN).to_pylist()
            entries = {row["id"]: Entry(**row) for row in rows_of}
            return [
                Match(entries[x], entries[y], float(scores[i]), float(cosines[i]))
                for i, (x, y) in zip(order, names, strict=True)
                if x in entries and y in entries
            ]

        return self.ask(ask)

    def check(self, *, queries: int = 200, k: int = 10) -> Recall:
        """Compare the approximate index with an exact search, for documents drawn from all of the index as queries."""

        def ask(now: Generation) -> Recall:
            names = (name for rows in now.store.scan(("id",)) for name in rows["id"].to_pylist())
            drawn = nsmallest(queries, names, key=lambda name: _digest(name, 8))
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

        return self.ask(ask)

    def ask(self, ask: Callable[[Generation], Found]) -> Found:
        """Ask the generation that counts; once more where it was replaced in the midst of it."""
        self._follow()
        now = self._now
        try:
            return ask(now)
        except Exception:
            self._follow()
            if self._now is now:
                raise
            return ask(self._now)

    def _follow(self) -> None:
        """Turn to what ``index.json`` names by now."""
        with self._following:
            before = self._now
            if _stamp(self.folder) == self._stamp:
                return
            self._stamp, self._now = _current(self.folder, self._address, before)
            if self._now.store is not before.store:
                for store in self._left:
                    store.close()
                self._left = [before.store]  # which others may be asking


# Generations


def _make(folder: Path, model: Path, store: str | None, number: int) -> Generation:
    """A new generation without documents. What is to be cleared away if this is killed is written down before."""
    place = folder / f"{_GENERATION}{number}"
    place.mkdir()
    opened = Cr5.load(model)
    about: dict[str, Any] = {"format": FORMAT, "generation": number, "model": _identity(model), "background": None}
    about |= {"rank": opened.settings.rank, "store": "lance", "table": None}
    if store is not None:
        about |= {"table": f"cr5_{secrets.token_hex(8)}"}
        about |= {"store": _without_password(store, about["table"])}
    _write(place / "begun.json", about)
    rank, extras = opened.settings.rank, len(opened.langs)
    kept: Store
    if store is None:
        kept = lance.create(place / "documents", rank=rank, extras=extras)
    else:
        kept = postgres.create(store, about["table"], rank=rank, extras=extras)
    try:
        shutil.copytree(model, place / "model", ignore=shutil.ignore_patterns(".*"), copy_function=_link)
        _write(place / _ABOUT, about)
        return Generation(about, place, kept, Cr5.load(place / "model"), Background.empty(opened.langs, rank))
    except BaseException:
        kept.close()
        raise


def _open(folder: Path, about: dict[str, Any], store: str | None) -> Generation:
    place = folder / f"{_GENERATION}{about['generation']}"
    model = Cr5.load(place / "model")
    background = _background(place, about, model)
    kept: Store
    if about["table"] is None:
        kept = lance.open(place / "documents", rank=about["rank"])
    else:
        kept = postgres.open(_server(about, store) or "", about["table"], rank=about["rank"])
    return Generation(about, place, kept, model, background)


def _current(folder: Path, store: str | None, before: Generation | None = None) -> tuple[Stamp, Generation]:
    """The generation that counts, of which ``before`` may have parts already."""
    while True:
        stamp = _stamp(folder)
        try:
            about = _read(folder)
            if before is None or about["generation"] != before.about["generation"]:
                return stamp, _open(folder, about, store)
            return stamp, before._replace(about=about, background=_background(before.place, about, before.model))
        except Exception:
            if stamp == _stamp(folder):  # else what it named has just been replaced
                raise


def _background(place: Path, about: Mapping[str, Any], model: Cr5) -> Background:
    if about["background"] is None:
        return Background.empty(model.langs, model.settings.rank)
    return Background.load(place / about["background"], model.langs)


def _pending(folder: Path, number: int) -> dict[str, Any] | None:
    """What a generation is that was begun and never counted."""
    try:
        about: dict[str, Any] = json.loads((folder / f"{_GENERATION}{number}" / _ABOUT).read_text(encoding="utf-8"))
        return about
    except FileNotFoundError:
        return None


def _sweep(folder: Path, kept: Collection[int], store: str | None) -> None:
    """Drop generations that do not count."""
    for place in sorted(folder.glob(f"{_GENERATION}*")):
        if place.name.removeprefix(_GENERATION) in map(str, kept):
            continue
        if (place / "begun.json").exists():
            about = json.loads((place / "begun.json").read_text(encoding="utf-8"))
            if about["table"] is not None:
                server = postgres.Server(_server(about, store) or "", about["table"])
                with server.connection() as connection:
                    connection.execute(server.sql("DROP TABLE IF EXISTS {documents}, {hubness}"))
                server.close()
        shutil.rmtree(place)


def _server(about: Mapping[str, Any], address: str | None) -> str | None:
    """The server's address, which may have been given with a password; None for a folder."""
    return None if about["table"] is None else address or str(about["store"])


def _read(folder: Path) -> dict[str, Any]:
    """What ``index.json`` says."""
    try:
        about: dict[str, Any] = json.loads((folder / _INDEX).read_text(encoding="utf-8"))
        number = about["format"]
        if number == FORMAT and not {"generation", "model", "background", "rank", "store", "table"} <= about.keys():
            raise KeyError
    except FileNotFoundError:
        raise UserError(f"{folder}: no index in this folder; make one with cr5 index MODEL DOCS -o {folder}") from None
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{folder}: its {_INDEX} is damaged; build the index again") from None
    if number != FORMAT:
        raise UserError(f"{folder}: the index has format {number}, this version reads {FORMAT}; build it again")
    return about


def _stamp(folder: Path) -> Stamp:
    """What changes whenever ``index.json`` is replaced."""
    try:
        found = (folder / _INDEX).stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def _identity(model: Path) -> str:
    """What tells a model from any other: the digest of what lists its files with theirs."""
    try:
        return hashlib.blake2b((model / "model.json").read_bytes(), digest_size=16).hexdigest()
    except FileNotFoundError:
        raise UserError(f"{model}: no model in this folder; make one with cr5 train CORPUS -o {model}") from None


def _without_password(url: str, table: str) -> str:
    postgres.Server(url, table)  # which knows what to say where the address is wrong or psycopg missing
    conninfo = importlib.import_module("psycopg.conninfo")
    parts = {key: value for key, value in conninfo.conninfo_to_dict(url).items() if "password" not in key}
    return str(conninfo.make_conninfo(**parts))


def _link(source: str, target: str) -> None:
    """A second name for a file of a model, which is never written again; a copy on another disk."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep a second writer out."""
    with (folder / _LOCK).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # goes with the process, however that ends
        except BlockingIOError:
            raise BusyError(f"{folder}: another process is writing this index; wait until it ends") from None
        yield


def _write(path: Path, values: Mapping[str, Any]) -> None:
    """Replace a file in one step."""
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("w", encoding="utf-8") as file:
        json.dump(values, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


# Documents


def _tables(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.Table]:
    """Batches joined to tables of ``size`` rows or somewhat more, the last of fewer, however small they come."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(rows.num_rows for rows in waiting) >= size:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)


def _name(rows: pa.Table, taken: Counter[str]) -> list[str]:
    """The id of every row: its language and concept, and a number from the second on."""
    ids = []
    for lang, concept in zip(rows["lang"].to_pylist(), rows["concept"].to_pylist(), strict=True):
        name = plain = f"{lang}:{concept}"
        while name in taken:
            taken[plain] += 1
            name = f"{plain}#{taken[plain]}"
        taken[name] = 1
        ids.append(name)
    return ids


def _put(now: Generation, rows: pa.Table, ids: list[str], added: Added) -> None:
    """Encode and put what is new or has changed, all at once; take out what has no known word any more."""
    texts = {name: rows[name].to_pylist() for name in ("concept", "lang", "title", "url", "text")}
    for name in ("title", "text"):
        texts[name] = [text.replace("\0", " ") for text in texts[name]]  # no word to the model, and PostgreSQL has none
    langs = texts["lang"]
    digests = [_digest("\0".join(content), 12).hex() for content in zip(*texts.values(), strict=True)]
    there = now.store.digests(ids)
    changed = []
    for i, name in enumerate(ids):
        if langs[i] not in now.model.langs:
            added.unknown[langs[i]] += 1
        elif there.get(name) == digests[i]:
            added.unchanged += 1
        else:
            changed.append(i)
    vectors = np.zeros((len(ids), now.model.settings.rank), np.float32)
    for lang in {langs[i] for i in changed}:
        own = [i for i in changed if langs[i] == lang]
        vectors[own] = now.model.encode([texts["text"][i] for i in own], lang)
    known = np.asarray(vectors.any(axis=1))
    added.blank.update(langs[i] for i in changed if not known[i])
    if gone := [ids[i] for i in changed if not known[i] and ids[i] in there]:
        now.store.delete(gone)
    kept = [i for i in changed if known[i]]
    if not kept:
        return
    columns = {name: pa.array([values[i] for i in kept], pa.string()) for name, values in texts.items()}
    hubness = now.background.hubness(vectors[kept], _digests([texts["concept"][i] for i in kept]))
    columns |= {
        "id": pa.array([ids[i] for i in kept], pa.string()),
        "digest": pa.array([digests[i] for i in kept], pa.string()),
        "vector": lists(vectors[kept]),
        "hubness": lists(hubness),
    }
    now.store.put(pa.table(columns))
    added.renewed += sum(ids[i] in there for i in kept)
    added.new += sum(ids[i] not in there for i in kept)


def _digest(text: str, size: int) -> bytes:
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=size).digest()


def _digests(texts: Sequence[str]) -> Ints:
    """64 bits of each."""
    return np.frombuffer(b"".join(_digest(text, 8) for text in texts), np.uint64)


# Hubs


def _sample_size(langs: Sequence[str]) -> int:
    return max(50, min(SAMPLE, TOTAL // len(langs)))


def _outgrown(now: Generation, counts: Mapping[str, int]) -> bool:
    """Whether a language has many more documents than its sample, which could have more."""
    limit = _sample_size(now.model.langs)
    return any(min(counts.get(lang, 0), limit) > GROWTH * size for lang, size in now.background.sizes.items())


def _refreshed(now: Generation, progress: Report) -> Generation:
    """The same documents, their hubness told by a background drawn anew, which counts when ``about`` is written.

    Killed before, it leaves some documents with their new hubness and some with the old, by other samples of the same
    documents; since the old background stays, the next run begins again.
    """
    background, total, done = _draw(now), sum(now.store.count().values()), 0
    last = now.about["background"]
    name = f"background-{1 + (int(last.removeprefix('background-').removesuffix('.npz')) if last else 0)}.npz"
    background.save(now.place / name)
    for rows in _tables(now.store.scan(("id", "concept", "vector")), BULK):
        hubness = background.hubness(matrix(rows["vector"]), _digests(rows["concept"].to_pylist()))
        now.store.set_hubness(rows["id"].to_pylist(), hubness)
        done += rows.num_rows
        progress(Progress("tell hubs", done, total))
    return now._replace(about=now.about | {"background": name}, background=background)


def _draw(now: Generation) -> Background:
    """A sample of each language: the documents whose ids have the smallest digests, the same at any time."""
    limit, rank = _sample_size(now.model.langs), now.model.settings.rank
    keys = {lang: np.empty(0, np.uint64) for lang in now.model.langs}
    empty = Background.empty(now.model.langs, rank)
    vectors, concepts = empty.vectors, empty.concepts
    for rows in _tables(now.store.scan(("id", "lang", "concept", "vector")), BULK):
        langs, X = np.array(rows["lang"].to_pylist()), matrix(rows["vector"])
        some, about = _digests(rows["id"].to_pylist()), _digests(rows["concept"].to_pylist())
        for lang in np.unique(langs).tolist():
            own = np.flatnonzero(langs == lang)
            own = own[np.argsort(some[own])[:limit]]
            merged = np.concatenate([keys[lang], some[own]])
            order = np.argsort(merged, kind="stable")[:limit]
            keys[lang] = merged[order]
            vectors[lang] = np.concatenate([vectors[lang], X[own]])[order]
            concepts[lang] = np.concatenate([concepts[lang], about[own]])[order]
    return Background(now.model.langs, vectors, concepts)


# Neighbours


def _check(now: Generation, langs: Iterable[str]) -> None:
    for lang in langs:
        if lang not in now.model.langs:
            raise UserError(f"the index has no language {lang!r}; its languages are {', '.join(now.model.langs)}")


def _nearest(
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
            scores = 2 * cosines - around[i, columns] - matrix(rows["hubness"])[:, place[lang]]
        order = np.argsort(-scores, kind="stable")[:k]
        best = dict(zip(rows["id"].take(order).to_pylist(), order, strict=True))
        results[i] = [
            Hit(**row, score=float(scores[best[row["id"]]]), cosine=float(cosines[best[row["id"]]]))
            for row in now.store.get(list(best), _SHOWN).to_pylist()  # texts may be long: only of those that are shown
        ]
    return results


class _Column(NamedTuple):
    """All documents of a language, and how much each is a hub to the other."""

    ids: list[str]
    vectors: Array
    hubness: Array


def _column(now: Generation, lang: str, other: str) -> _Column:
    j, rank = now.model.langs.index(other), now.model.settings.rank
    ids: list[str] = []
    vectors, hubness = [np.empty((0, rank), np.float32)], [np.empty(0, np.float32)]
    for rows in _tables(now.store.scan(("id", "vector", "hubness"), [lang]), BULK):
        ids += rows["id"].to_pylist()
        vectors.append(matrix(rows["vector"]))
        hubness.append(matrix(rows["hubness"])[:, j])
    return _Column(ids, np.concatenate(vectors), np.concatenate(hubness))


def _best(queries: _Column, candidates: _Column, *, same: bool) -> Ints:
    """The nearest candidate of every query by CSLS, another than itself where they are the ``same``; -1: none."""
    found = neighbours.nearest(queries.vectors, candidates.vectors, 1 + same, penalty=candidates.hubness / 2).indices
    if same:
        found = np.where(found[:, :1] == np.arange(len(found))[:, None], found[:, 1:], found[:, :1])
    return np.asarray(found[:, 0] if found.shape[1] else np.full(len(found), -1), np.int64)
