"""An index: documents with their vectors, to be asked in any language of a model.

Indexing anew builds the next generation beside the one that is asked meanwhile; then that counts. Whoever has the index
open sees and follows.
"""

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from cr5._typing import Array
from cr5.corpus.documents import Batch, Document, in_batches
from cr5.errors import Cr5Error
from cr5.index import ingest, search, snapshot
from cr5.index.background import TOTAL, Background
from cr5.index.examples import ExampleQuery, choose_examples, existing_examples
from cr5.index.ingest import Added
from cr5.index.pairs import closest_pairs
from cr5.index.query import Query, make_query, remake_query
from cr5.index.results import DocumentPair, IndexedDocument, RecallEstimate, SearchHit, SearchResult
from cr5.index.search import DOCUMENT_COLUMNS
from cr5.index.snapshot import INDEX, Snapshot, Stamp
from cr5.index.stores.base import Store
from cr5.model import Cr5
from cr5.progress import Progress, ProgressCallback, silent
from cr5.retrieval.passages import Reason, reason
from cr5.retrieval.top_k import Measure

Found = TypeVar("Found")


class Index:
    """An index that is open, for any number of threads. Reading never waits for writing; one process writes at a time.

    ``Index.create`` makes one, ``Index.open`` opens it.
    """

    def __init__(self, folder: Path, address: str | None, stamp: Stamp, now: Snapshot) -> None:
        self.folder, self._address, self._stamp, self._now = folder, address, stamp, now
        self._following, self._left = threading.Lock(), list[Store]()
        self._examples: tuple[Background, list[ExampleQuery]] | None = None

    @classmethod
    def open(cls, folder: Path, *, store: str | None = None) -> "Index":
        """The index in a folder; ``store`` is needed where its server's address has a password."""
        if store is not None and snapshot.read(folder)["table"] is None:
            raise Cr5Error(f"{folder}: the index lies in this folder, not in a server; leave out its address")
        return cls(folder, store, *snapshot.current(folder, store))

    @classmethod
    def create(cls, folder: Path, model: Path, *, store: str | None = None) -> "Index":
        """A new, empty index for a model; ``store`` is the address of a PostgreSQL server, or None for the folder."""
        if cls.exists(folder):
            raise Cr5Error(f"{folder}: there is an index already; open it, or name another folder")
        Cr5.load(model)  # a mistake there leaves no folder behind
        folder.mkdir(parents=True, exist_ok=True)
        snapshot.refuse_others(folder)
        with snapshot.locked(folder):
            snapshot.sweep(folder, [], store)  # what a run left that was killed
            made = snapshot.make(folder, model, store, 1)
            made.store.close()
            snapshot.write(folder / INDEX, made.about)
        return cls.open(folder, store=store)

    @staticmethod
    def exists(folder: Path) -> bool:
        """Whether there is one to open."""
        return (folder / INDEX).exists()

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

    @property
    def background(self) -> Background:
        """The sample of documents that CSLS is computed with; another object whenever it has changed."""
        return self.ask(lambda now: now.background)

    @property
    def snapshot_number(self) -> int:
        """The number of the active snapshot: 1 for a new index, one more each time it is reindexed."""
        return self.ask(lambda now: int(now.about["generation"]))

    def built_with(self, model: Path) -> bool:
        """Whether the index has the vectors of the model in that folder."""
        return bool(self._now.about["model"] == snapshot.identity(model))

    def count(self) -> dict[str, int]:
        """The number of documents of each language."""
        return self.ask(lambda now: now.store.count())

    def about(self) -> dict[str, Any]:
        """Documents and background by language, and what the store says of itself."""

        def ask(now: Snapshot) -> dict[str, Any]:
            about = {"generation": now.about["generation"], "background": now.background.sizes}
            return {"documents": now.store.count()} | about | now.store.about()

        return self.ask(ask)

    # Writing

    def add(self, documents: Iterable[Batch] | Iterable[Document], *, progress: ProgressCallback = silent) -> Added:
        """Put documents in, or renew those with the same language and concept; each batch is in as a whole or not.

        A second document of the same language and concept is numbered: it:Q144, it:Q144#2. What has not changed costs
        nothing but reading, so that a run that was killed is simply run again.
        """
        added, taken = Added(), Counter[str]()
        with self._writing() as now:
            counts = Counter(now.store.count())
            for rows in ingest.tables((batch.rows for batch in in_batches(documents)), ingest.ROWS):
                ids = ingest.name(rows, taken)
                counts.update(ingest.put(now, rows, ids, added))
                note = f"{added.unchanged:,} unchanged" if added.unchanged else ""
                progress(Progress("index", added.total, None, note))
                # Without a background nothing is a hub, and what comes before the first would have the advantage.
                if sum(counts.values()) <= TOTAL and ingest.outgrown(now, counts):
                    now = self._refresh(now, progress)
            if ingest.outgrown(now, counts):
                now = self._refresh(now, progress)
            now.store.optimise()
        return added

    def delete(self, ids: Sequence[str]) -> int:
        """Take documents out; returns how many were there."""
        with self._writing() as now:
            return now.store.delete(ids)

    def refresh(self, *, progress: ProgressCallback = silent) -> None:
        """Draw the background anew, tell hubs by it, and renew the approximate index."""
        with self._writing() as now:
            self._refresh(now, progress).store.optimise()

    def reindex(self, model: Path, *, progress: ProgressCallback = silent) -> Added:
        """Encode all documents with another model; the index can be asked as it is until that is done.

        A run that was killed is taken up again, unless something else was written in between.
        """
        added, identity = Added(), snapshot.identity(model)
        Cr5.load(model)  # a mistake there changes nothing
        with self._writing(identity) as now:
            number, total = now.about["generation"] + 1, sum(now.store.count().values())
            begun = snapshot.pending(self.folder, number)
            following = (
                snapshot.open(self.folder, begun, self._address)
                if begun
                else snapshot.make(self.folder, model, snapshot.server(now.about, self._address), number)
            )
            try:
                for rows in ingest.tables(now.store.scan(DOCUMENT_COLUMNS, batch_rows=ingest.ROWS), ingest.ROWS):
                    ingest.put(following, rows, rows["id"].to_pylist(), added)
                    progress(Progress("index anew", added.total, total))
                following = ingest.refreshed(following, progress)
                following.store.optimise()
                snapshot.write(self.folder / INDEX, following.about)
            finally:
                following.store.close()
            self._follow()
            snapshot.sweep(self.folder, [number], self._address)
        return added

    def _refresh(self, now: Snapshot, progress: ProgressCallback) -> Snapshot:
        snapshot.write(self.folder / INDEX, ingest.refreshed(now, progress).about)
        self._follow()
        kept = self._now.about["background"]
        for path in now.place.glob("background-*.npz"):
            if path.name != kept:
                path.unlink()
        return self._now

    @contextmanager
    def _writing(self, model: str | None = None) -> Iterator[Snapshot]:
        """Keep a second writer out, and clear away what a killed one left but for the vectors of ``model``."""
        with snapshot.locked(self.folder):
            self._follow()
            number = self._now.about["generation"]
            begun = snapshot.pending(self.folder, number + 1)
            kept = [number, number + 1] if begun and begun["model"] == model else [number]
            snapshot.sweep(self.folder, kept, self._address)
            yield self._now

    # Reading

    def get(self, ids: Sequence[str]) -> list[IndexedDocument]:
        """The documents with these ids, in the order of the ids; missing ones are left out."""
        return self.ask(
            lambda now: [IndexedDocument(**row) for row in now.store.get(ids, DOCUMENT_COLUMNS).to_pylist()]
        )

    def query(self, text: str, lang: str | None = None) -> Query:
        """Tokenise and encode a text once, in ``lang`` or the language that is guessed, for any number of calls."""

        def read(now: Snapshot) -> Query:
            search.require_languages(now, [] if lang is None else [lang])
            return make_query(now.model, text, lang)

        return self.ask(read)

    def search(
        self,
        query: str | Query,
        lang: str | None = None,
        *,
        k: int = 10,
        langs: Collection[str] | None = None,
        measure: Measure = "csls",
    ) -> SearchResult:
        """The k documents nearest to a text, best first; none if the model knows no word of the text.

        ``lang`` is the language of the text, guessed by default. ``langs`` are the languages to search in, all by
        default.
        """
        if isinstance(query, Query) and lang not in (None, query.lang):
            raise Cr5Error(f"`lang={lang!r}` contradicts the query, which is in {query.lang!r}; leave it out")

        def read(now: Snapshot) -> SearchResult:
            search.require_languages(now, [] if lang is None else [lang])
            made = make_query(now.model, query, lang) if isinstance(query, str) else remake_query(now.model, query)
            return SearchResult(made, search.search(now, made, k, langs, measure), now.background)

        return self.ask(read)

    def similar(
        self, name: str, *, k: int = 10, langs: Collection[str] | None = None, measure: Measure = "csls"
    ) -> SearchResult:
        """The k documents nearest to the one with the id ``name``, which itself is left out."""
        return self.ask(lambda now: SearchResult(*search.similar(now, name, k, langs, measure), now.background))

    def nearest(
        self,
        vectors: Array,
        lang: str,
        *,
        k: int = 10,
        langs: Collection[str] | None = None,
        measure: Measure = "csls",
    ) -> list[list[SearchHit]]:
        """The k documents nearest to each row of ``vectors`` (queries x rank), which encode texts in ``lang``."""

        def read(now: Snapshot) -> list[list[SearchHit]]:
            search.require_languages(now, [lang, *(langs or ())])
            return search.nearest(now, vectors, now.background.hubness(vectors), lang, k, langs, measure)

        return self.ask(read)

    def explain(self, query: Query, document: IndexedDocument, k: int = 10) -> Reason:
        """The k words, and pairs of words, that contribute most to the similarity of a query and a document."""
        return reason(query.model, query.text, query.lang, document.text, document.lang, k)

    def pairs(self, a: str, b: str, *, k: int = 100, progress: ProgressCallback = silent) -> list[DocumentPair]:
        """The k closest pairs of documents of two languages, or of one, that are each other's nearest by CSLS.

        Every document is compared with every other; the vectors of both languages are held in memory.
        """
        return self.ask(lambda now: closest_pairs(now, a, b, k, progress))

    def example_queries(self) -> list[ExampleQuery]:
        """A few short titles of documents, in several languages, to offer as queries; chosen once per background."""

        def read(now: Snapshot) -> list[ExampleQuery]:
            cached = self._examples
            if cached is None or cached[0] is not now.background:
                cached = self._examples = now.background, choose_examples(now)
            return existing_examples(now, cached[1])

        return self.ask(read)

    def check(self, *, queries: int = 200, k: int = 10) -> RecallEstimate:
        """Estimate the recall of the approximate index, with random documents of the index as queries."""
        return self.ask(lambda now: search.estimate_recall(now, queries, k))

    def ask(self, ask: Callable[[Snapshot], Found]) -> Found:
        """Ask the generation that counts; once more whenever it was replaced in the midst of it."""
        while True:
            self._follow()
            now = self._now
            try:
                return ask(now)
            except Exception:
                self._follow()
                if self._now is now:
                    raise

    def _follow(self) -> None:
        """Turn to what ``index.json`` names by now."""
        with self._following:
            before = self._now
            if snapshot.stamp(self.folder) == self._stamp:
                return
            self._stamp, self._now = snapshot.current(self.folder, self._address, before)
            if self._now.store is not before.store:
                for store in self._left:
                    store.close()
                self._left = [before.store]  # which others may be asking
