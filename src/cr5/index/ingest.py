"""Ingest: encode documents, write them into a snapshot, and keep the background representative of them.

The hubness of a document is measured against the background, a sample of the documents themselves: when there are many
more documents than when it was drawn, it is drawn again, until it has its full size.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa

from cr5._typing import Array
from cr5.corpus.fields import FIELDS, NO_FIELDS
from cr5.corpus.languages import canonical_code, find_language, find_text_language, no_such_language, probably_meant
from cr5.corpus.texts import text_list
from cr5.errors import Cr5Error, DocumentsReplaced, FewKnownWords, LanguageLeftOut, warn
from cr5.hashing import digest, hash_texts
from cr5.index.background import Background
from cr5.index.document_ids import NumberedIds
from cr5.index.passage_ingest import ROWS_WITH_TEXTS, delete_documents, write_passages
from cr5.index.results import DOCUMENT_COLUMNS
from cr5.index.snapshot import Snapshot
from cr5.index.stores.base import Store
from cr5.index.stores.rows import to_lists, to_matrix
from cr5.index.terms import TermCounts, count_terms
from cr5.message_parts import plural, quoted
from cr5.model import Cr5
from cr5.model.trained_languages import warn_of_close_language
from cr5.progress import Progress, ProgressCallback
from cr5.storage.output_paths import advising_on_full_disks, naming_os_errors

ROWS_WITHOUT_TEXTS = 2**15  # rows read at a time without their texts


@dataclass(frozen=True)
class IngestSettings:
    """How documents are written, and how large the background is, the sample that CSLS is computed with.

    A batch, which is one transaction, has at most ``batch_rows`` documents and ends after ``batch_bytes`` of text.
    The background has at most ``sample_rows`` documents of a language and ``total_sample_rows`` in all, since every
    document is compared with each of them, but ``min_sample_rows`` of each language, however many there are. It is
    drawn again when a language has grown by the factor ``max_growth``. With ``optimise_beside``, files are merged and
    the approximate index is built in a thread, after ``add`` has returned.
    """

    batch_rows: int = 8192
    batch_bytes: int = 2**26
    sample_rows: int = 2000
    total_sample_rows: int = 16_000
    min_sample_rows: int = 50
    max_growth: float = 1.5
    optimise_beside: bool = False

    def sample_size(self, langs: Sequence[str]) -> int:
        """The number of background documents of each language."""
        return max(self.min_sample_rows, min(self.sample_rows, self.total_sample_rows // len(langs)))


@dataclass
class IngestCounts:
    """What became of documents: ``new``, ``renewed`` (new content under the same id), ``unchanged``, or left out.

    Left out: ``duplicates``, exact copies of documents of the same call, unless they have ids of their own; and, by
    language, ``blank`` documents without a word that the model knows, and documents in languages ``unknown`` to it.
    ``borrowed``: the languages that the model does not have, and the fallback language, a close one, by which it has
    encoded each. ``renamed``: codes of documents that the model has under another code, such as en-GB under en.
    ``partly_replaced``: LANG:CONCEPT of documents without ids of their own, of which the call replaced only some of
    those that share these, and how many stay.
    """

    new: int = 0
    renewed: int = 0
    unchanged: int = 0
    duplicates: int = 0
    blank: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    borrowed: dict[str, str] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    partly_replaced: dict[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """The number of these documents that are in the index now."""
        return self.new + self.renewed + self.unchanged

    @property
    def read(self) -> int:
        """The number of documents that were given: those in the index now, and those left out."""
        return self.total + self.duplicates + self.blank.total() + self.unknown.total()

    @property
    def note(self) -> str:
        """What progress reports say beside the number of documents."""
        return f"{self.unchanged:,} unchanged" if self.unchanged else ""


@contextmanager
def full_disk_errors(folder: Path, added: IngestCounts | None = None, *, is_new: bool = False) -> Iterator[None]:
    """Let the error about a disk that an index fills say what to do; other errors of the system name the folder.

    ``added``: what has been added until then, which stays. ``is_new``: whether the index is being created.
    """

    def advice() -> str:
        if added is None:
            return "; free some space, or write to another disk" if is_new else "; free some space, and repeat this"
        if written := added.new + added.renewed:
            kept = f"; {plural(written, 'document')} added before stay in the index"
            return f"{kept}; free some space, and add the documents again, which continues"
        return ", and no document was added or replaced; free some space, and add the documents again"

    with advising_on_full_disks(folder, advice), naming_os_errors(folder, files_inside=True):
        yield


def merge_batches(
    batches: Iterable[pa.RecordBatch], rows: int, max_bytes: int = IngestSettings.batch_bytes
) -> Iterator[pa.Table]:
    """Join small batches to tables of at least ``rows`` rows or ``max_bytes`` bytes."""
    pending: list[pa.RecordBatch] = []
    for batch in batches:
        pending.append(batch)
        if sum(part.num_rows for part in pending) >= rows or sum(part.nbytes for part in pending) >= max_bytes:
            yield pa.Table.from_batches(pending)
            pending = []
    if pending:
        yield pa.Table.from_batches(pending)


def in_model_languages(rows: pa.Table, langs: Sequence[str], counts: IngestCounts) -> pa.Table:
    """Rows whose codes are replaced by those of the model: of the language itself, or of a close one.

    Codes with neither stay. The first rows in a language that is encoded by a close one, or not at all, give a warning;
    ``counts`` says which are the first, and gets those of the close ones.
    """
    borrowed = counts.borrowed
    codes = rows["lang"].combine_chunks().dictionary_encode()
    known = [find_text_language(code, langs) or code for code in codes.dictionary.to_pylist()]
    for code, found in zip(codes.dictionary.to_pylist(), known, strict=True):
        if found == code or code in borrowed:
            continue
        if find_language(code, langs) is not None:
            counts.renamed[code] = found
        else:
            borrowed[code] = found
            warn_of_close_language(code, found)
    missing = [code for code in known if code not in langs and code not in counts.unknown]
    if missing:
        problem = _no_such_languages(missing, langs)
        warn(f"documents are left out: {problem}; correct the codes, or train a model that has them", LanguageLeftOut)
    column = pa.array(known, pa.string()).take(codes.indices)
    return rows.set_column(rows.schema.get_field_index("lang"), "lang", column)


def _no_such_languages(missing: Sequence[str], langs: Sequence[str]) -> str:
    """That an index, which has ``langs``, lacks some languages, and which of these each of them probably means."""
    if len(missing) == 1:
        return no_such_language("the index", missing[0], langs)
    meant = {code: " or ".join(map(repr, probably_meant(code, langs))) for code in missing}
    advice = ", ".join(f"{found} for {code}" for code, found in meant.items() if found)
    problem = f"the index has no languages {', '.join(missing)}; its languages are {', '.join(langs)}"
    return f"{problem}; use {advice}" if advice else problem


def warn_of_counts(counts: IngestCounts) -> None:
    """Warn of documents that the model knows no word of, and of those that others may have replaced by mistake."""
    if counts.blank:
        by_lang = ", ".join(f"{lang} {count:,}" for lang, count in sorted(counts.blank.items()))
        warn(
            f"documents are left out: {plural(counts.blank.total(), 'document')} ({by_lang}) without a word that the "
            "model knows could not be found; correct their languages, or train a model that knows their words",
            FewKnownWords,
        )
    if counts.partly_replaced:
        listed = [
            f"{quoted(key)} ({plural(count, 'document')})" for key, count in islice(counts.partly_replaced.items(), 3)
        ]
        more = len(counts.partly_replaced) - len(listed)
        names = ", ".join(listed) + (f" and {more:,} more" if more else "")
        warn(
            "documents without ids of their own replaced some of those with the same language and concept, and others "
            f"stay: {names}; check that no document is lost. Add all documents of a language and concept together, "
            "or give each an id of its own, in Python with `ids`",
            DocumentsReplaced,
        )


def write_documents(snapshot: Snapshot, rows: pa.Table, numbered: NumberedIds, counts: IngestCounts) -> Counter[str]:
    """Encode and write the documents that are new or have changed, in one transaction, after their passages.

    Their ids are those of the column "id" or, if there is none, ``numbered``. A document that no longer has a known
    word or language is deleted. Return the change in the number of documents of each language.
    """
    model, store = snapshot.model, snapshot.store
    rows = in_model_languages(rows, model.langs, counts)
    texts = {column: rows[column].to_pylist() for column in ("concept", "lang", "title", "url", "text")}
    for column in ("title", "text"):  # PostgreSQL cannot store NUL; to the model it is a space as well
        texts[column] = [text.replace("\0", " ") for text in texts[column]]
    langs = texts["lang"]
    fields = rows[FIELDS].to_pylist()
    contents = [_content_digest(*content) for content in zip(zip(*texts.values(), strict=True), fields, strict=True)]
    if "id" in rows.column_names:
        ids = rows["id"].to_pylist()
        stored = store.digests(ids)
    else:
        ids, stored = numbered.assign(store, langs, texts["concept"], contents)
    changed, unknown = [], []
    for i, document_id in enumerate(ids):
        if document_id is None:
            counts.duplicates += 1
        elif langs[i] not in model.langs:
            unknown.append(i)
        elif stored.get(document_id) == contents[i]:
            counts.unchanged += 1
        else:
            changed.append(i)
    vectors = np.zeros((len(ids), model.rank), np.float32)
    for lang in {langs[i] for i in changed}:
        same_lang = [i for i in changed if langs[i] == lang]
        vectors[same_lang] = model.encode([texts["text"][i] for i in same_lang], lang)
    known = np.asarray(vectors.any(axis=1))
    blank = [i for i in changed if not known[i]]
    counts.blank.update(langs[i] for i in blank)
    counts.unknown.update(langs[i] for i in unknown)
    growth = Counter[str]()
    deleted = [ids[i] for i in (*blank, *unknown) if ids[i] in stored]
    if deleted:
        growth.subtract(store.get(deleted, ("lang",))["lang"].to_pylist())
        delete_documents(snapshot, deleted)
    written = [i for i in changed if known[i]]
    if not written:
        return growth
    everything = texts | {"id": ids, "digest": contents, FIELDS: fields}
    chosen = {column: [values[i] for i in written] for column, values in everything.items()}
    write_passages(snapshot, chosen, [document_id for document_id in chosen["id"] if document_id in stored])
    columns = {column: pa.array(values, pa.string()) for column, values in chosen.items()}
    hubness = snapshot.background.hubness(vectors[written], hash_texts([texts["concept"][i] for i in written]))
    columns |= {"vector": to_lists(vectors[written]), "hubness": to_lists(hubness)}
    store.upsert(pa.table(columns), _terms(columns, model))
    new = [i for i in written if ids[i] not in stored]
    counts.new += len(new)
    counts.renewed += len(written) - len(new)
    growth.update(langs[i] for i in new)
    return growth


def missing_languages(documents: Mapping[str, int], langs: Sequence[str]) -> dict[str, int]:
    """The number of documents by language, of those languages that a model with ``langs`` cannot encode."""
    return {lang: count for lang, count in documents.items() if count and find_text_language(lang, langs) is None}


def check_dropped(documents: Mapping[str, int], langs: Sequence[str], drop_languages: str | Sequence[str]) -> None:
    """Raise an error if documents are in a language that a model lacks, unless it is in ``drop_languages``.

    ``documents`` is their number by language, ``langs`` are the languages of the model.
    """
    chosen = drop_languages.split(",") if isinstance(drop_languages, str) else drop_languages
    dropped = {canonical_code(lang): lang for lang in text_list(chosen, "drop_languages")}
    missing = missing_languages(documents, langs)
    if kept := [given for lang, given in dropped.items() if lang not in missing and lang in documents]:
        raise Cr5Error(
            f"`drop_languages` has {', '.join(kept)}, which the model knows, so that these documents stay; leave it out"
        )
    if lost := {lang: count for lang, count in missing.items() if lang not in dropped}:
        counts = ", ".join(f"{lang} {count:,}" for lang, count in lost.items())
        raise Cr5Error(
            f"reindexing would delete {plural(sum(lost.values()), 'document')} in languages that the model lacks "
            f'({counts}); use a model that has them, or delete them with `drop_languages="{",".join(missing)}"`'
        )


def copy_documents(
    source: Snapshot, target: Snapshot, settings: IngestSettings, progress: ProgressCallback
) -> IngestCounts:
    """Encode all documents of a snapshot with the model of another, and write them into that.

    Those in languages that this model lacks are left out without a warning: see ``check_dropped``.
    """
    documents = source.store.count()
    counts, total = IngestCounts(), sum(documents.values())
    counts.unknown.update(dict.fromkeys(missing_languages(documents, target.model.langs), 0))  # not to be warned of
    batches = source.store.scan(DOCUMENT_COLUMNS, batch_rows=settings.batch_rows)
    for merged in merge_batches(batches, settings.batch_rows, settings.batch_bytes):
        write_documents(target, merged, NumberedIds(), counts)
        progress(Progress("reindex", counts.total, total))
    warn_of_counts(counts)
    return counts


def _content_digest(texts: Sequence[str], fields: str) -> str:
    """A digest of what a document consists of; without fields, the one that versions without fields computed."""
    return digest("\0".join(texts if fields == NO_FIELDS else (*texts, fields)), 12).hex()


def _terms(columns: Mapping[str, pa.Array] | pa.Table, model: Cr5) -> TermCounts:
    """The terms of documents, by the tokeniser of a model."""
    titles, texts, concepts, langs = (columns[name].to_pylist() for name in ("title", "text", "concept", "lang"))
    return count_terms(titles, texts, concepts, langs, model.settings.tokeniser)


def add_missing_terms(snapshot: Snapshot, settings: IngestSettings, progress: ProgressCallback) -> None:
    """Give terms to the documents that have none, because an earlier version wrote them."""
    store, size = snapshot.store, min(settings.batch_rows, ROWS_WITH_TEXTS)
    ids = store.ids_without_terms()
    for begin in range(0, len(ids), size):
        rows = store.get(ids[begin : begin + size], ("id", "title", "text", "concept", "lang"))
        store.add_terms(rows["id"].to_pylist(), _terms(rows, snapshot.model))
        progress(Progress("full text", min(begin + size, len(ids)), len(ids)))


# The background


def needs_new_background(snapshot: Snapshot, counts: Mapping[str, int], settings: IngestSettings) -> bool:
    """Whether a language has many more documents than its sample, and the sample could be larger."""
    limit = settings.sample_size(snapshot.model.langs)
    return any(
        min(counts.get(lang, 0), limit) > settings.max_growth * size for lang, size in snapshot.background.sizes.items()
    )


def refresh_background(snapshot: Snapshot, settings: IngestSettings, progress: ProgressCallback) -> Snapshot:
    """Draw and save a new background and update the hubness of all documents and passages.

    The new background is used once ``index.json`` names it. If the process is killed before, some rows have new
    hubness and some old, both from samples of the same documents; the next refresh starts again.
    """
    background, done = _draw_background(snapshot, settings), 0
    total = sum(rows for store in snapshot.stores for rows in store.count().values())
    previous = snapshot.record["background"] or "background-0.npz"  # the number is kept in the name only
    file_name = f"background-{int(previous.removeprefix('background-').removesuffix('.npz')) + 1}.npz"
    background.save(snapshot.folder / file_name)

    def measured(store: Store) -> Iterator[tuple[list[str], Array]]:
        nonlocal done
        for rows in merge_batches(store.scan(("id", "concept", "vector")), ROWS_WITHOUT_TEXTS):
            hubness = background.hubness(to_matrix(rows["vector"]), hash_texts(rows["concept"].to_pylist()))
            yield rows["id"].to_pylist(), hubness
            done += rows.num_rows
            progress(Progress("hubness", done, total))

    for store in snapshot.stores:
        store.set_all_hubness(measured(store))
    return snapshot._replace(record=snapshot.record | {"background": file_name}, background=background)


def _draw_background(snapshot: Snapshot, settings: IngestSettings) -> Background:
    """Sample each language: the documents whose ids have the smallest hashes, whatever order they were added in."""
    langs, rank = snapshot.model.langs, snapshot.model.rank
    size, empty = settings.sample_size(langs), Background.empty(langs, rank)
    hashes = {lang: np.empty(0, np.uint64) for lang in langs}
    vectors, concepts = empty.vectors, empty.concepts
    for rows in merge_batches(snapshot.store.scan(("id", "lang", "concept", "vector")), ROWS_WITHOUT_TEXTS):
        row_langs, X = np.array(rows["lang"].to_pylist()), to_matrix(rows["vector"])
        row_hashes, row_concepts = hash_texts(rows["id"].to_pylist()), hash_texts(rows["concept"].to_pylist())
        for lang in np.unique(row_langs).tolist():
            candidates = np.flatnonzero(row_langs == lang)
            candidates = candidates[np.argsort(row_hashes[candidates])[:size]]
            merged = np.concatenate([hashes[lang], row_hashes[candidates]])
            order = np.argsort(merged, kind="stable")[:size]
            hashes[lang] = merged[order]
            vectors[lang] = np.concatenate([vectors[lang], X[candidates]])[order]
            concepts[lang] = np.concatenate([concepts[lang], row_concepts[candidates]])[order]
    return Background(langs, vectors, concepts)
