"""The ids of documents: those that the caller gives, or language and concept, with numbers if several share these."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import pyarrow as pa

from cr5.corpus.documents import DOCUMENTS, ROWS, Batch, has_control_character
from cr5.corpus.inputs import Documents
from cr5.corpus.texts import is_table, text_list
from cr5.errors import Cr5Error
from cr5.index.stores.base import Store
from cr5.message_parts import quoted


class NumberedIds:
    """The ids that one call of ``Index.add`` gives to its documents: LANG:CONCEPT, then LANG:CONCEPT#2, ...

    A document that the index has with the same content keeps its id. Another one gets the lowest number that no
    document of the call has yet, and replaces the document of the index that has this id. Of documents with the same
    content the call stores one.
    """

    def __init__(self) -> None:
        self._taken, self._contents = set[str](), set[bytes]()  # ids and digests of the documents of this call
        self._next_number = dict[str, int]()  # of ids without a number, if the next one to try is above 2
        self._replaced = dict[str, None]()  # ids without a number, of which documents were replaced while others stay

    def assign(
        self, store: Store, langs: Sequence[str], concepts: Sequence[str], contents: Sequence[str]
    ) -> tuple[list[str | None], dict[str, str]]:
        """The ids of documents, None for repetitions; and the digests of the documents that have some of these now."""
        rows_of = dict[str, list[int]]()
        for row, (lang, concept, content) in enumerate(zip(langs, concepts, contents, strict=True)):
            if (content_bytes := bytes.fromhex(content)) not in self._contents:  # half the memory of the text
                self._contents.add(content_bytes)
                rows_of.setdefault(f"{lang}:{concept}", []).append(row)
        stored = self._find_stored(store, rows_of, contents)
        ids: list[str | None] = [None] * len(contents)
        for key, rows in rows_of.items():
            free = {name: digest for name, digest in stored[key].items() if name not in self._taken}
            ids_of = dict[str, str]()
            for name, digest in free.items():
                ids_of.setdefault(digest, name)
            kept = [row for row in rows if contents[row] in ids_of]
            changed = [row for row in rows if contents[row] not in ids_of]
            self._taken |= {ids_of[contents[row]] for row in kept}
            names = [ids_of[contents[row]] for row in kept] + list(islice(self._free_ids(key), len(changed)))
            self._taken.update(names)
            for row, name in zip(kept + changed, names, strict=True):
                ids[row] = name
            self._count_up(key)
            if any(ids[row] in free for row in changed) and not free.keys() <= self._taken:
                self._replaced[key] = None
        return ids, {name: digest for group in stored.values() for name, digest in group.items()}

    def partly_replaced(self, store: Store) -> dict[str, int]:
        """LANG:CONCEPT of the documents that share these, of which the call has replaced only some; how many stay."""
        rows_of = {key: [0] for key in self._replaced}
        remaining = {key: len(group) for key, group in self._find_stored(store, rows_of, [""]).items()}
        return {key: count for key, count in remaining.items() if count}

    def _find_stored(
        self, store: Store, rows_of: Mapping[str, Sequence[int]], contents: Sequence[str]
    ) -> dict[str, dict[str, str]]:
        """The ids and digests of the documents of the index that share language and concept, except those taken.

        As long as documents have the content that is stored under their id in order, the further ones are not read.
        """
        found: dict[str, dict[str, str]] = {key: {} for key in rows_of}
        iterators = {key: self._free_ids(key) for key in rows_of}
        wanted, is_first = {key: len(rows) for key, rows in rows_of.items()}, True
        while wanted:
            tried = {key: list(islice(iterators[key], count)) for key, count in wanted.items()}
            digests = store.digests([name for names in tried.values() for name in names])
            wanted = {}
            for key, names in tried.items():
                found[key] |= {name: digests[name] for name in names if name in digests}
                in_order = [digests.get(name) for name in names]
                is_unchanged = is_first and in_order == [contents[row] for row in rows_of[key]]
                if not is_unchanged and (is_first or any(in_order)):  # the first ids may have been deleted
                    wanted[key] = 2 * len(names)
            is_first = False
        return found

    def _free_ids(self, key: str) -> Iterator[str]:
        """The ids of a language and concept that no document of this call has, in the order of their numbers."""
        if key not in self._taken:
            yield key
        number = self._next_number.get(key, 2)
        while True:
            if (name := f"{key}#{number}") not in self._taken:
                yield name
            number += 1

    def _count_up(self, key: str) -> None:
        number = first = self._next_number.get(key, 2)
        while f"{key}#{number}" in self._taken:
            number += 1
        if number > first:
            self._next_number[key] = number


def check_ids(ids: Sequence[str], documents: Documents) -> list[str]:
    """Ids that the caller gives, as a list; each must be a string of its own, and there must be one per document."""
    checked, seen = text_list(ids, "ids"), set[str]()
    if isinstance(documents, list | tuple) and len(documents) != len(checked):
        has_tables = any(is_table(part) or isinstance(part, Batch) for part in documents)
        if not has_tables:
            numbers = f"{len(checked):,} ids, and there are {len(documents):,} documents"
            raise Cr5Error(f"`ids` has {numbers}; give every document its own")
    for position, document_id in enumerate(checked):
        if has_control_character(document_id):
            problem = "which has a control character; remove it"
            raise Cr5Error(f"`ids[{position}]` is {quoted(document_id)}, {problem}")
        if not document_id or document_id in seen:
            problem = "which another document also has" if document_id else "which is empty"
            raise Cr5Error(f"`ids[{position}]` is {quoted(document_id)}, {problem}; give every document its own")
        seen.add(document_id)
    return checked


def with_ids(batch: Batch, ids: list[str] | None) -> pa.RecordBatch:
    """The rows of a batch with the ids of their documents, if these are given, in the column "id"."""
    if ids is None:
        return batch.rows
    if batch.source not in (DOCUMENTS, ROWS):
        raise Cr5Error(
            f"`ids` are of documents in a list or table, not in a file such as {batch.source}; leave them out"
        )
    if len(batch.lines) and batch.lines.max() > len(ids):
        raise Cr5Error(f"`ids` has {len(ids):,} ids, and there are more documents; give every document its own")
    column = pa.array([ids[line - 1] for line in batch.lines.tolist()], pa.string())
    return batch.rows.append_column("id", column)
