"""The index: documents with their vectors, searched in any language of a model.

Reindexing with another model builds a new snapshot beside the active one, which answers queries until the new one
replaces it. Every process that has the index open notices the change.
"""

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from cr5._typing import Array
from cr5.corpus.inputs import Documents, in_batches
from cr5.corpus.languages import find_text_language
from cr5.corpus.skipped import OnError, Skipped, counting_skipped
from cr5.corpus.texts import id_list, one_path, one_text
from cr5.errors import Cr5Error, IndexBusyError, UnknownField, warn, whole_number
from cr5.index import ingest, passage_ingest, pipeline, search, snapshot
from cr5.index.background import Background
from cr5.index.document_ids import NumberedIds, check_ids, with_ids
from cr5.index.examples import ExampleQuery, choose_examples, existing_examples
from cr5.index.field_names import warn_of_unknown
from cr5.index.filters import Where
from cr5.index.ingest import IngestCounts, IngestSettings
from cr5.index.optimiser import Optimiser
from cr5.index.pairs import closest_pairs
from cr5.index.passages import NearPassage, PassageSettings, nearest_passages, passage_settings
from cr5.index.pipeline import Grouping, Mode, SearchOptions
from cr5.index.query import Query, encode_query
from cr5.index.results import (
    DOCUMENT_COLUMNS,
    DocumentPair,
    IndexedDocument,
    RecallEstimate,
    SearchHit,
    SearchResult,
    WordHit,
)
from cr5.index.snapshot import INDEX_FILE, Snapshot
from cr5.index.stores.base import Store
from cr5.model import Cr5
from cr5.model.long_texts import LongTextExplanation, explain_texts
from cr5.progress import Progress, ProgressCallback, no_progress
from cr5.retrieval.top_k import Measure
from cr5.storage.atomic import Stamp, discard, remove_new_folders

Result = TypeVar("Result")


class Index:
    """An open index, for any number of threads. Readers never wait for writers; one process writes at a time.

    ``Index.create`` makes a new one, ``Index.open`` opens an existing one.
    """

    def __init__(
        self, folder: Path, address: str | None, stamp: Stamp, active: Snapshot, settings: IngestSettings | None
    ) -> None:
        self.folder, self._address, self._stamp, self._active = folder, address, stamp, active
        self._settings = settings or IngestSettings()
        self._reload_lock, self._old_stores = threading.Lock(), list[Store]()
        self._closed, self._optimiser = False, Optimiser(lambda: self._read(Snapshot.optimise))
        self._examples: tuple[Background, list[ExampleQuery]] | None = None

    @classmethod
    def open(cls, folder: Path | str, *, store: str | None = None, settings: IngestSettings | None = None) -> "Index":
        """Open the index in a folder; ``store`` is needed if the address of its server has a password."""
        folder = Path(folder)
        return cls(folder, store, *snapshot.open_active(folder, store), settings)

    @classmethod
    def create(
        cls,
        folder: Path | str,
        model: Cr5 | Path | str,
        *,
        store: str | None = None,
        passage_words: int = PassageSettings.words,
        passage_overlap: int | None = None,
        settings: IngestSettings | None = None,
    ) -> "Index":
        """Create an empty index for a model, in the folder or, if ``store`` is given, at that address of a store.

        The index keeps a copy of the model, which may be in memory or in a folder. Documents of more than one and a
        half times ``passage_words`` words also have a vector and full text for each passage of about that length;
        0 leaves passages out. A passage has ``passage_overlap`` words of the one before, a fifth by default.
        """
        passages = passage_settings(passage_words, passage_overlap)
        folder = one_path(folder, "folder")
        if cls.exists(folder):
            raise Cr5Error(f"{folder}: there is an index already; open it, or use another folder")
        new = [path for path in (folder, *folder.parents) if not path.exists()]
        try:
            with ingest.full_disk_errors(folder, is_new=True), snapshot.saved_model(model, folder) as model_folder:
                Cr5.load(model_folder)  # a wrong model is reported before the folder is made
                snapshot.make_empty_folder(folder)
                with snapshot.writer_lock(folder):
                    snapshot.create_first(folder, model_folder, store, passages)
        except IndexBusyError:
            raise
        except BaseException:
            remove_new_folders(new, folder / snapshot.LOCK_FILE)
            raise
        return cls.open(folder, store=store, settings=settings)

    @staticmethod
    def exists(folder: Path | str) -> bool:
        """Whether there is an index in a folder."""
        return (Path(folder) / INDEX_FILE).exists()

    def __enter__(self) -> "Index":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self, *, wait_seconds: float | None = None) -> None:
        """Release files and connections; the end of a ``with`` block does so as well.

        Waits at most ``wait_seconds`` for files that are being merged, which are used only once they are complete.
        """
        is_idle = self._optimiser.wait(wait_seconds)
        with self._reload_lock:
            self._closed = True
            for store in [*self._old_stores, *self._active.stores] if is_idle else []:
                store.close()
            self._old_stores.clear()

    def __len__(self) -> int:
        """The number of documents."""
        return sum(self.count().values())

    def __bool__(self) -> bool:
        """Always true, even if the index is empty."""
        return True

    def __repr__(self) -> str:
        # Without the number of documents: a database that does not answer must not keep a debugger waiting.
        state = "closed" if self._closed else f"store={self.store_label!r}, rank={self.model.rank}, langs={self.langs}"
        return f"Index({str(self.folder)!r}, {state})"

    @property
    def model(self) -> Cr5:
        """The model that the documents are encoded with."""
        return self._active.model

    @property
    def langs(self) -> list[str]:
        """The languages of documents and queries."""
        return self._active.model.langs

    @property
    def store_label(self) -> str:
        """The name of the database that holds the documents."""
        return self._active.store.label

    @property
    def background(self) -> Background:
        """The sample of documents that CSLS is computed with; another object whenever it has changed."""
        return self._read(lambda active: active.background)

    @property
    def snapshot_number(self) -> int:
        """The number of the open snapshot: 1 for a new index, one more for each reindexing. Reads no file."""
        return self._active.number

    @property
    def passage_words(self) -> int:
        """The number of words of a passage of a long document; 0 if the index has no passages."""
        settings = self._read(lambda active: active.passage_settings)
        return settings.words if settings else 0

    def built_with(self, model: Path | str, *, further_languages: bool = True) -> bool:
        """Whether the documents are encoded with the model in a folder, which may have got ``further_languages``."""
        return snapshot.is_model_of(self._active, Path(model), further_languages)

    def count(self, where: Where | None = None) -> dict[str, int]:
        """The number of documents of each language, or of those whose fields match a filter.

        ``where`` maps names of fields to conditions: {"kind": "howto", "year": {">=": 2000}}.
        """
        if where is None:
            return self._read(lambda active: active.store.count())

        def read(active: Snapshot) -> dict[str, int]:
            warn_of_unknown(active.store, where)
            batches = active.store.scan(["lang"], where=where)
            return dict(sorted(Counter(lang for rows in batches for lang in rows["lang"].to_pylist()).items()))

        return self._read(read)

    def about(self) -> dict[str, Any]:
        """Documents and background documents by language, and the store's description of itself.

        ``full_text`` is how many documents can be found by their words, ``fields`` whether documents can have fields,
        ``passages`` the number of passages, and ``bytes`` the size of both. ``generation`` is the number of the active
        snapshot, and ``index`` the type of the approximate index of vectors, or "none". What an index of an earlier
        version lacks, and how to bring it up to date, is in ``outdated``, otherwise None.
        """
        return self._read(snapshot.about)

    # Writing

    def add(
        self,
        documents: Documents,
        *,
        ids: Sequence[str] | None = None,
        on_error: OnError = "raise",
        skipped: Skipped | None = None,
        progress: ProgressCallback = no_progress,
    ) -> IngestCounts:
        """Add documents, as ``Cr5.fit`` takes them, replacing those of earlier calls with the same id.

        Each batch is one transaction. Documents in languages that the model lacks, or without a word that it knows, are
        left out, with a warning; with ``on_error="skip"``, also unusable ones, counted in ``skipped`` or a warning.
        ``ids`` has one for each document of a list or table. Without it, an id is the language and concept, with a
        number for further documents of a call: it:Q144, it:Q144#2; exact copies are left out. Unchanged documents keep
        their ids and are not encoded again, so that repeating an interrupted run resumes it; changed ones take the
        other numbers in order. ``DocumentsReplaced`` warns if that replaced only some of those that share a concept.
        """
        result, settings = IngestCounts(), self._settings
        given, numbered = None if ids is None else check_ids(ids, documents), NumberedIds()
        with counting_skipped(skipped) as counter, self._writing(added=result) as active:
            counts = Counter(active.store.count())
            checked = in_batches(documents, on_error=on_error, skipped=counter, fields=True)
            batches = (with_ids(batch, given) for batch in checked)
            for rows in ingest.merge_batches(batches, settings.batch_rows, settings.batch_bytes):
                counts.update(ingest.write_documents(active, rows, numbered, result))
                progress(Progress("index", result.total, None, result.note))
                # While the index is small: without a background, hubs among the first documents would rank too high.
                if sum(counts.values()) <= settings.total_sample_rows:
                    active = self._refresh_if_needed(active, counts, progress)
            result.partly_replaced = numbered.partly_replaced(active.store)
            active = self._refresh_if_needed(active, counts, progress)
            if not settings.optimise_beside:
                active.optimise()
        if settings.optimise_beside:
            self._optimiser.request()
        ingest.warn_of_counts(result)
        return result

    def delete(self, ids: str | Sequence[str]) -> int:
        """Delete the document with this id, or several; return how many existed."""
        with self._writing() as active:
            return passage_ingest.delete_documents(active, id_list(ids))

    def refresh(self, *, progress: ProgressCallback = no_progress) -> None:
        """Bring the index up to date: background, hubness of all documents, full text, passages, approximate index.

        The background is drawn again. Documents that an earlier version wrote without full text or passages get them,
        and so does an index without a column for fields. Passages that a killed process left without their document
        are deleted.
        """
        with self._writing() as active:
            active.store.add_fields()
            ingest.add_missing_terms(active, self._settings, progress)
            if "passages" not in active.record:
                snapshot.activate(self.folder, snapshot.add_passage_store(active, self._address))
                self._reload()
                active = self._active
            passage_ingest.repair(active, progress)
            self._refresh(snapshot.mark_passages_complete(active), progress).optimise()

    def reindex(
        self,
        model: Cr5 | Path | str,
        *,
        drop_languages: str | Sequence[str] = (),
        progress: ProgressCallback = no_progress,
    ) -> IngestCounts:
        """Encode all documents with another model; the index answers with the old one until that is done.

        Documents in languages that the model lacks are an error, unless ``drop_languages``, "vi,ja" or a list, deletes
        them. An interrupted run is resumed when it is repeated, unless the index was written in between.
        """
        with ingest.full_disk_errors(self.folder), snapshot.saved_model(model, self.folder) as folder:
            return self._reindex(folder, drop_languages, progress)

    def _reindex(self, model: Path, drop_languages: str | Sequence[str], progress: ProgressCallback) -> IngestCounts:
        self._optimiser.wait()
        langs, digest = Cr5.load(model).langs, snapshot.model_digest(model)  # a wrong model is reported first
        with self._writing(digest) as active, snapshot.removed_if_disk_full(self.folder, self._address):
            ingest.check_dropped(active.store.count(), langs, drop_languages)
            new_snapshot = snapshot.next_snapshot(self.folder, active, model, self._address)
            try:
                result = ingest.copy_documents(active, new_snapshot, self._settings, progress)
                new_snapshot = ingest.refresh_background(new_snapshot, self._settings, progress)
                new_snapshot.optimise()
                snapshot.activate(self.folder, new_snapshot.record)
            finally:
                new_snapshot.close()
            self._reload()
            snapshot.remove_stale(self.folder, [self._active.number], self._address)
        return result

    def _refresh_if_needed(self, active: Snapshot, counts: Counter[str], progress: ProgressCallback) -> Snapshot:
        needed = ingest.needs_new_background(active, counts, self._settings)
        return self._refresh(active, progress) if needed else active

    def _refresh(self, active: Snapshot, progress: ProgressCallback) -> Snapshot:
        refreshed = ingest.refresh_background(active, self._settings, progress)
        snapshot.activate(self.folder, refreshed.record)
        self._reload()
        for path in active.folder.glob("background-*.npz"):
            if path.name != self._active.record["background"]:
                discard(path)
        return self._active

    @contextmanager
    def _writing(self, model_digest: str | None = None, added: IngestCounts | None = None) -> Iterator[Snapshot]:
        """Hold the writer lock; remove what killed writers left, except an unfinished snapshot of that model."""
        with ingest.full_disk_errors(self.folder, added), snapshot.writer_lock(self.folder):
            self._reload()
            number = self._active.number
            unfinished = snapshot.read_unfinished(self.folder, number + 1)
            resumable = unfinished is not None and unfinished["model"] == model_digest
            kept = [number, number + 1] if resumable else [number]
            snapshot.remove_stale(self.folder, kept, self._address)
            yield self._active

    # Reading

    def get(self, ids: str | Sequence[str]) -> list[IndexedDocument]:
        """The documents with this id, or several, in the order of the ids; missing ones are left out."""
        wanted = id_list(ids)
        rows = self._read(lambda active: active.store.get(wanted, DOCUMENT_COLUMNS))
        return [IndexedDocument(**row) for row in rows.to_pylist()]

    def query(self, text: str, lang: str | None = None) -> Query:
        """Tokenise and encode a text, in ``lang`` or the language that is guessed, to search with it repeatedly."""
        text = one_text(text)
        return self._read(lambda active: encode_query(active, text, lang))

    def search(
        self,
        query: str | Query,
        lang: str | None = None,
        *,
        k: int = 10,
        offset: int = 0,
        langs: str | Collection[str] | None = None,
        mode: Mode = "hybrid",
        measure: Measure = "csls",
        group: Grouping | None = None,
        prefer: str | None = None,
        min_score: float = 0.0,
        where: Where | None = None,
        sort: str | None = None,
    ) -> SearchResult:
        """Search for documents by a text in any language; the most relevant come first.

        Parameters
        ----------
        query
            A text, or a ``Query``. Parts in quotation marks, if they are half of it, must occur word for word.
        lang
            The language of the text, guessed by default.
        k
            The number of hits.
        offset
            The number of hits to skip, for further pages; k + offset may be at most 1,000.
        langs
            The languages to search in, all by default.
        mode
            "hybrid": words and vectors together, with a relevance from 0 to 1 as the score; hits below 0.3 are hardly
            related, and 0.5 is a usable ``min_score``. "lexical": words of the query's language alone. "dense":
            vectors alone, with CSLS or the cosine as the score; ``group``, ``prefer`` and ``sort`` do not apply then,
            and quotation marks have no effect.
        measure
            How vectors are compared: "csls", which corrects for documents close to every query, or "cosine".
        group
            "concept": one hit for each concept; its ``versions`` are the others, and nearly identical documents.
        prefer
            A language that comes first among nearly equal hits, and among the versions of a concept.
        min_score
            Leave out hits with a lower score; 0 leaves out none.
        where
            A filter on the fields of documents: {"kind": "howto", "year": {">=": 2000}}.
        sort
            A field to sort the relevant hits by instead of their score; "-date" is the latest first.
        """
        query = query if isinstance(query, Query) else one_text(query)
        if isinstance(query, Query) and lang is not None and find_text_language(lang, self.langs) != query.lang:
            raise Cr5Error(f"`lang={lang!r}` contradicts the query, which is in {query.lang!r}; leave it out")
        options = SearchOptions(
            whole_number("k", k), whole_number("offset", offset), langs, mode, measure, group, prefer, min_score,
            where, sort,
        )  # fmt: skip
        result = self._read(lambda active: active.search(pipeline.search, query, lang, options))
        for problem in result.warnings:
            warn(problem, UnknownField)
        return result

    def search_words(self, text: str, lang: str | None = None, *, k: int = 10) -> list[WordHit]:
        """The k documents of a text's language that have its words, best first by BM25; none without such words.

        Words are those of title, text and concept; those of the title and the first 20 words of the text count three
        times. ``lang`` is guessed by default. Document frequencies and lengths are those of the language.
        """
        text, k = one_text(text), whole_number("k", k)
        return self._read(lambda active: active.search(search.search_words, text, lang, k))

    def similar(
        self, document_id: str, *, k: int = 10, langs: str | Collection[str] | None = None, measure: Measure = "csls"
    ) -> SearchResult:
        """The k documents nearest to a document of the index, which itself is left out."""
        k = whole_number("k", k)
        return self._read(lambda active: active.search(search.similar, document_id, k, langs, measure))

    def nearest(
        self,
        vectors: Array,
        lang: str,
        *,
        k: int = 10,
        langs: str | Collection[str] | None = None,
        measure: Measure = "csls",
    ) -> list[list[SearchHit]]:
        """The k documents nearest to each of the ``vectors`` (queries x rank, or one) of texts in ``lang``."""
        k = whole_number("k", k)
        return self._read(lambda active: active.search(search.nearest, vectors, lang, k, langs, measure))

    def nearest_passages(
        self, vector: Array, *, k: int = 10, langs: Collection[str] | None = None
    ) -> list[NearPassage]:
        """The k passages of long documents nearest to a vector (rank) by cosine, best first; none without passages."""
        return self._read(lambda active: nearest_passages(active, vector, k, langs))

    def explain(self, query: str | Query, document: IndexedDocument, k: int = 10) -> LongTextExplanation:
        """The k words, and pairs of words, that contribute most to the similarity of a query and a document."""
        query = query if isinstance(query, Query) else self.query(query)
        texts = query.text, query.lang, document.text, document.lang
        vector = document.vector if isinstance(document, SearchHit) else None
        if vector is not None and len(vector) != len(query.vector):  # reindexed between the search and this call
            vector = None
        return explain_texts(query.model, *texts, k, vector_a=query.vector, vector_b=vector)

    def pairs(self, a: str, b: str, *, k: int = 100, progress: ProgressCallback = no_progress) -> list[DocumentPair]:
        """The k closest pairs of documents of two languages, or of one, that are each other's nearest by CSLS.

        Every document is compared with every other; the vectors of both languages are held in memory.
        """
        k = whole_number("k", k)
        return self._read(lambda active: closest_pairs(active, a, b, k, progress))

    def example_queries(self) -> list[ExampleQuery]:
        """A few short titles of documents, in several languages, to offer as queries; chosen once per background."""

        def read(active: Snapshot) -> list[ExampleQuery]:
            cached = self._examples
            if cached is None or cached[0] is not active.background:
                cached = self._examples = active.background, choose_examples(active)
            return existing_examples(active, cached[1])

        return self._read(read)

    def check(self, *, queries: int = 200, k: int = 10) -> RecallEstimate:
        """Estimate the recall of the approximate index, with random documents of the index as queries."""
        queries, k = whole_number("queries", queries), whole_number("k", k)
        return self._read(lambda active: search.estimate_recall(active, queries, k))

    def scan(self, columns: Sequence[str], *, batch_rows: int = 4096, where: Where | None = None) -> Iterator[Any]:
        """All documents as of now, in Arrow record batches; columns are those of documents, "vector" and "hubness".

        ``where`` chooses documents by their fields, as in ``count``; the column "fields" has them as JSON texts.
        """
        self._read(lambda active: warn_of_unknown(active.store, where))
        return self._read(lambda active: active.store.scan(columns, batch_rows=batch_rows, where=where))

    def _read(self, function: Callable[[Snapshot], Result]) -> Result:
        """Call a function with the active snapshot; if it fails because that was replaced meanwhile, call it again."""
        while True:
            self._reload()
            active = self._active
            try:
                return function(active)
            except Exception:
                self._reload()
                if self._active is active:
                    raise

    def _reload(self) -> None:
        """Open the snapshot that ``index.json`` names now, if it has changed."""
        with self._reload_lock:
            if self._closed:
                raise Cr5Error("the index is closed; open it again")
            previous = self._active
            if snapshot.index_stamp(self.folder) == self._stamp:
                return
            self._stamp, self._active = snapshot.open_active(self.folder, self._address, previous)
            if self._active.store is not previous.store:
                for store in self._old_stores:
                    store.close()
                self._old_stores = previous.stores  # other threads may still be reading them
