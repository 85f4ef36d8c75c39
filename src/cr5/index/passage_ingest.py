"""Ingest of passages: encode and write them before their documents, and delete them before their documents.

A writer that was killed in between leaves passages of another version of a document, or a document without passages;
the same call again puts that right. The digest of a passage is that of its document, by which ``repair`` finds what is
left of killed writers.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from cr5.corpus.fields import FIELDS
from cr5.corpus.texts import positions
from cr5.hashing import hash_texts
from cr5.index.passages import PassageSettings, parse_passage_id, passage_id, passage_ids, passage_spans
from cr5.index.snapshot import Snapshot
from cr5.index.stores.base import Store
from cr5.index.stores.rows import to_lists
from cr5.index.terms import count_terms
from cr5.progress import Progress, ProgressCallback

PASSAGE_ROWS = 8192  # passages encoded and written at a time
ROWS_WITH_TEXTS = 1024  # rows read at a time with their texts, which may be long
COPIED_COLUMNS = ("concept", "lang", "digest", FIELDS)  # columns that a passage copies from its document
SPLIT_COLUMNS = ("id", "title", "text", *COPIED_COLUMNS)


class _Passage(NamedTuple):
    """A passage, and the row of its document."""

    id: str
    row: int
    text: str


def write_passages(snapshot: Snapshot, documents: Mapping[str, Sequence[str]], replaced: Collection[str]) -> None:
    """Write the passages of documents; delete those of the versions that they replace.

    ``documents`` has the columns ``SPLIT_COLUMNS``, perhaps without fields; ``replaced`` are the ids that the index
    has already.
    """
    store, settings = snapshot.passages, snapshot.passage_settings
    if store is None or settings is None:
        return
    stale = set(_stored_passage_ids(snapshot, settings, replaced))
    for passages in _batches(documents, settings):
        written = _write(snapshot, store, documents, passages)
        stale |= {passage.id for passage in passages}
        stale -= written
    _delete(store, stale)


def delete_documents(snapshot: Snapshot, ids: Sequence[str]) -> int:
    """Delete documents and their passages; return how many documents existed."""
    if snapshot.passages is not None and snapshot.passage_settings is not None:
        _delete(snapshot.passages, _stored_passage_ids(snapshot, snapshot.passage_settings, ids))
    return snapshot.store.delete(ids)


def repair(snapshot: Snapshot, progress: ProgressCallback) -> None:
    """Write the passages that documents lack; delete those of documents that do not exist or have another text."""
    store, settings, documents = snapshot.passages, snapshot.passage_settings, snapshot.store
    if store is None or settings is None:
        return
    for rows in store.scan(("id", "digest")):
        ids = rows["id"].to_pylist()
        document_ids = [parse_passage_id(row_id)[0] for row_id in ids]
        digests = documents.digests(document_ids)
        found = zip(ids, document_ids, rows["digest"].to_pylist(), strict=True)
        _delete(store, [row_id for row_id, document_id, digest in found if digests.get(document_id) != digest])
    total, done = sum(documents.count().values()), 0
    for rows in documents.scan(SPLIT_COLUMNS, batch_rows=ROWS_WITH_TEXTS):
        columns = {name: rows[name].to_pylist() for name in SPLIT_COLUMNS}
        expected = [passage_ids(*fields, settings) for fields in zip(columns["id"], columns["text"], strict=True)]
        present = store.digests([row_id for ids in expected for row_id in ids])
        lacking = [i for i, ids in enumerate(expected) if not all(row_id in present for row_id in ids)]
        if lacking:
            write_passages(snapshot, {name: [values[i] for i in lacking] for name, values in columns.items()}, ())
        done += rows.num_rows
        progress(Progress("passages", done, total))


def _stored_passage_ids(snapshot: Snapshot, settings: PassageSettings, ids: Collection[str]) -> list[str]:
    """The ids of the passages of those documents that exist, whose number follows from the text."""
    if not ids:
        return []
    rows = snapshot.store.get(list(ids), ("id", "text"))
    texts = zip(rows["id"].to_pylist(), rows["text"].to_pylist(), strict=True)
    return [row_id for document_id, text in texts for row_id in passage_ids(document_id, text, settings)]


def _batches(documents: Mapping[str, Sequence[str]], settings: PassageSettings) -> Iterator[list[_Passage]]:
    """All passages of documents, ``PASSAGE_ROWS`` at a time."""
    batch: list[_Passage] = []
    for row, (document_id, text) in enumerate(zip(documents["id"], documents["text"], strict=True)):
        for number, (begin, end) in enumerate(passage_spans(text, settings), 1):
            batch.append(_Passage(passage_id(document_id, number), row, text[begin:end]))
            if len(batch) == PASSAGE_ROWS:
                yield batch
                batch = []
    if batch:
        yield batch


def _write(
    snapshot: Snapshot, store: Store, documents: Mapping[str, Sequence[str]], passages: Sequence[_Passage]
) -> set[str]:
    """Encode and write passages; return the ids of those that have a known word, the others cannot be found."""
    model = snapshot.model
    langs, titles = ([documents[name][passage.row] for passage in passages] for name in ("lang", "title"))
    vectors = np.zeros((len(passages), model.rank), np.float32)
    for lang, rows in positions(langs).items():
        vectors[rows] = model.encode([passages[i].text for i in rows.tolist()], lang)
    known = np.flatnonzero(vectors.any(axis=1)).tolist()
    chosen, empty = [passages[i] for i in known], [""] * len(known)
    copied = [name for name in COPIED_COLUMNS if name in documents]
    columns = {name: [documents[name][passage.row] for passage in chosen] for name in copied}
    columns |= {"id": [passage.id for passage in chosen], "title": empty, "url": empty, "text": empty}
    hubness = snapshot.background.hubness(vectors[known], hash_texts(columns["concept"]))
    arrays = {name: pa.array(values, pa.string()) for name, values in columns.items()}
    arrays |= {"vector": to_lists(vectors[known]), "hubness": to_lists(hubness)}
    # The words of the title count once, so that a passage is found together with the topic of its document.
    texts = [f"{titles[i]}\n{passages[i].text}" for i in known]
    terms = count_terms(empty, texts, empty, columns["lang"], model.settings.tokeniser, opening_weight=0)
    store.upsert(pa.table(arrays), terms)
    return set(columns["id"])


def _delete(store: Store, ids: Collection[str]) -> None:
    ordered = sorted(ids)
    for begin in range(0, len(ordered), PASSAGE_ROWS):
        store.delete(ordered[begin : begin + PASSAGE_ROWS])
