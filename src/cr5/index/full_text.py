"""Full text: an inverted index of the terms of documents, which finds those of a language with the largest BM25.

A segment (``cr5.index.segments``) has documents, sorted by language, and the postings of every term: which documents
have it, and how often. The manifest is ``words.json``.

A document is identified by its slot, a number that is never reused. The reader is told which slots exist; the documents
in all other slots have been deleted and are ignored.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from cr5._typing import Array, Ints, Mask
from cr5.index.segment_words import merged_word_arrays, stored_dictionary, word_arrays
from cr5.index.segments import FORMAT, SegmentedIndex, slots_exist
from cr5.index.strings import Strings
from cr5.index.terms import QueryKeys, TermCounts, term_keys
from cr5.retrieval import bm25
from cr5.retrieval.word_forms import LanguageForms, TermDictionary, listed_words
from cr5.storage.atomic import atomic_path
from cr5.storage.tensor_files import map_tensors, write_tensors

MAX_SEGMENT_SIZE = 2**25  # documents and postings of a segment; a merge holds it in memory, at 6 bytes a posting
RECENT_TERMS = 100_000  # terms per language whose document frequencies a reader caches
MAX_KEPT_IDS = 2**15  # ids per segment that are kept in memory once they have been read
NO_DOCUMENT = 2**62  # fills a heap that is not full; larger than any document
MAX_COUNT = 2**16 - 1  # higher counts of a term in a document are clipped to it
MAX_SMALL_COUNT = 2**8 - 1  # a segment without higher counts has one byte for each, others have two


@dataclass(frozen=True)
class PostingsSegment:
    """Documents and their postings.

    The documents of language i are ``starts[i]`` to ``starts[i + 1]``, those of term i ``offsets[i]`` to ``offsets[i +
    1]`` of the postings: ``documents`` and ``counts``. Lengths are in words; ids and terms are UTF-8, one after the
    other. The dictionary of language i has the terms ``word_starts[i]`` to ``word_starts[i + 1]`` of ``word_terms``,
    which are sorted by their words without accents; segments written by an earlier version have none.
    """

    slots: Ints
    lengths: Ints
    id_offsets: Ints
    id_bytes: Array
    starts: Ints
    keys: Array
    term_offsets: Ints
    term_bytes: Array
    offsets: Ints
    documents: Ints
    counts: Ints
    word_starts: Ints | None = None
    word_terms: Ints | None = None
    folded_sizes: Ints | None = None
    folded_bytes: Array | None = None
    accented: Ints | None = None
    dictionaries: dict[int, TermDictionary] = field(default_factory=dict, compare=False, repr=False)  # by language

    @property
    def size(self) -> int:
        """The number of documents and postings."""
        return len(self.slots) + len(self.documents)

    @property
    def ids(self) -> pa.LargeStringArray:
        """The ids of all documents."""
        return _strings(self.id_offsets, self.id_bytes)

    @cached_property
    def id_strings(self) -> Strings:
        """The ids of all documents, to read some of them."""
        return Strings(self.ids, keeps=len(self.slots) <= MAX_KEPT_IDS)

    @property
    def terms(self) -> pa.LargeStringArray:
        """The words of all terms."""
        return _strings(self.term_offsets, self.term_bytes)

    @cached_property
    def term_strings(self) -> Strings:
        """The words of all terms, to read some of them."""
        return Strings(self.terms)

    @property
    def langs(self) -> Ints:
        """The number of each document's language."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def documents_of(self, lang: int) -> slice:
        """The documents of a language; none of one that was unknown when the segment was written."""
        return slice(*self.starts[lang : lang + 2]) if lang + 1 < len(self.starts) else slice(0, 0)

    def postings_of(self, keys: Array) -> tuple[Ints, Ints]:
        """Where the postings of terms begin and end; a term without postings begins where it ends."""
        from cr5.retrieval.postings import find_postings

        begins, ends = find_postings(self.keys, self.offsets, keys)
        return begins, ends


WORD_ARRAYS = ("word_starts", "word_terms", "folded_sizes", "folded_bytes", "accented")
ARRAYS = [array.name for array in fields(PostingsSegment) if array.name != "dictionaries"]


class FullTextIndex(SegmentedIndex[PostingsSegment]):
    """An open index, of documents with slots below ``next_slot``."""

    manifest_name, segments_key, file_name = "words.json", "segments", "segment-{}.safetensors"

    def __init__(self, folder: Path, previous: "FullTextIndex | None" = None) -> None:
        super().__init__(folder, previous)
        self.langs: list[str] = self.manifest["langs"]
        self.next_slot: int = self.manifest["next_slot"]

    @classmethod
    def load(cls, path: Path) -> PostingsSegment:
        with path.open("rb") as file:
            arrays = map_tensors(file)
        names = (name for name in ARRAYS if name in arrays or name not in WORD_ARRAYS)
        return PostingsSegment(**{name: arrays[name] for name in names})  # type: ignore[arg-type]

    @classmethod
    def write(cls, segment: PostingsSegment, path: Path) -> None:
        arrays = {name: getattr(segment, name) for name in ARRAYS if getattr(segment, name) is not None}
        with atomic_path(path) as temporary:
            write_tensors(arrays, temporary)

    @classmethod
    def merge(cls, segments: Sequence[PostingsSegment]) -> PostingsSegment:
        return _merge(segments)


class _Language(NamedTuple):
    """The live documents of a language: number, mean length, and saturations by segment, inf for deleted ones."""

    documents: int
    mean_length: float
    saturations: list[Array]
    has_deleted: bool


_ALL = np.empty(0, bool)  # no restriction of documents


class FullTextReader:
    """The documents of an index whose slots exist: ``exists`` has True for each of them."""

    def __init__(self, index: FullTextIndex, exists: Mask) -> None:
        self._index = index
        self._live = [slots_exist(exists, segment.slots) for segment in index.segments]
        self._first_documents: list[int] = index.offsets[:-1].tolist()  # of each segment
        self._languages: dict[str, _Language] = {}
        # Of recent terms, by language; every access is atomic:
        self._frequencies: dict[str, dict[str, int]] = {}
        self._idf: dict[str, dict[str, float]] = {}
        self._forms: dict[str, LanguageForms] = {}
        self._zeros: list[Array] = []  # scratch arrays, as many as threads have searched at the same time

    @property
    def langs(self) -> list[str]:
        """The languages of all documents, including deleted ones."""
        return self._index.langs

    def language(self, lang: str) -> _Language:
        """The statistics of a language; they are computed when they are first needed."""
        found = self._languages.get(lang)
        if found is None:
            found = self._languages[lang] = self._measure(lang)
        return found

    def document_frequencies(self, keys: Array, lang: str) -> Ints:
        """The number of documents of a language that have each term."""
        from cr5.retrieval.postings import count_live

        language, frequencies = self.language(lang), np.zeros(len(keys), np.int64)
        for segment, saturations in zip(self._index.segments, language.saturations, strict=True):
            begins, ends = segment.postings_of(keys)
            if language.has_deleted:
                count_live(segment.documents, begins, ends, self._first(segment, lang), saturations, frequencies)
            else:
                frequencies += ends - begins
        return frequencies

    def term_frequencies(self, terms: Sequence[str], lang: str) -> list[int]:
        """As ``document_frequencies``, by the words of terms; those of recent ones are remembered."""
        known = self._frequencies.setdefault(lang, {})
        new = [term for term in terms if term not in known]
        if not new:
            return [known[term] for term in terms]
        found = dict(zip(new, self.document_frequencies(term_keys(new, lang), lang).tolist(), strict=True))
        frequencies = [found[term] if term in found else known[term] for term in terms]
        if len(known) + len(found) > RECENT_TERMS:
            known = self._frequencies[lang] = {}  # other threads may still be reading the old one
        known.update(found)
        return frequencies

    def inverse_document_frequencies(self, terms: Iterable[str], lang: str) -> dict[str, float]:
        """The inverse document frequency of each term; those of recent ones are remembered."""
        known = self._idf.setdefault(lang, {})
        found = {term: known.get(term, -1.0) for term in terms}
        new = [term for term, idf in found.items() if idf < 0]
        if new:
            frequencies = np.array(self.term_frequencies(new, lang), np.int64)
            idf = bm25.inverse_document_frequencies(self.language(lang).documents, frequencies).tolist()
            found.update(zip(new, idf, strict=True))
            if len(known) + len(new) > RECENT_TERMS:
                known = self._idf[lang] = {}
            known.update(zip(new, idf, strict=True))
        return found

    def term_dictionaries(self, lang: str) -> list[TermDictionary]:
        """The words of a language, including those of deleted documents, in parts that may overlap."""
        return self.word_forms(lang).dictionaries

    def word_forms(self, lang: str) -> LanguageForms:
        """The forms of words in these dictionaries."""
        found = self._forms.get(lang)
        if found is None:
            number = self._number(lang)
            parts = [part for segment in self._index.segments if len(part := _dictionary(segment, number))]
            found = self._forms[lang] = LanguageForms(parts)
        return found

    def search(self, words: QueryKeys, lang: str, k: int, allowed: Mask | None = None) -> tuple[list[str], Array]:
        """The ids of the k documents of a language with the largest BM25 of weighted words, best first, and the BM25.

        Of documents with equal BM25, those that were written first come first. Documents without any of the terms are
        left out, and those whose slots are not ``allowed``; document frequencies and lengths are those of all.
        """
        documents, scores = self.search_documents(words, lang, k, allowed)
        return self.ids_and_slots(documents)[0], scores

    def search_documents(self, words: QueryKeys, lang: str, k: int, allowed: Mask | None) -> tuple[Ints, Array]:
        """As ``search``, with the numbers of documents across all segments instead of their ids."""
        from cr5.retrieval.postings import search_postings

        language = self.language(lang)
        if not language.documents or not len(words.keys):
            return np.empty(0, np.int64), np.empty(0, np.float32)
        arrays, k = (words.keys, words.boosts, words.groups, words.weights), min(k, language.documents)
        best, best_scores = np.full(k, NO_DOCUMENT, np.int64), np.zeros(k, np.float32)
        for segment, saturations, first in zip(
            self._index.segments, language.saturations, self._first_documents, strict=True
        ):
            size, start = len(saturations), self._first(segment, lang)
            is_allowed = _ALL if allowed is None else slots_exist(allowed, segment.slots[start : start + size])
            zeros = self._take_zeros(size)
            search_postings(
                segment.keys, segment.offsets, segment.documents, segment.counts, *arrays, start, saturations,
                is_allowed, first + start, zeros, best_scores, best,
            )  # fmt: skip
            self._zeros.append(zeros)
        order = np.lexsort((best, -best_scores))[: np.count_nonzero(best_scores)]
        return best[order], best_scores[order]

    def _take_zeros(self, size: int) -> Array:
        """Two rows of at least ``size`` zeros for this thread alone; the kernels reset what they change."""
        try:
            zeros = self._zeros.pop()
        except IndexError:
            zeros = np.zeros((2, size), np.float32)
        return zeros if zeros.shape[1] >= size else np.zeros((2, size), np.float32)

    def _measure(self, lang: str) -> _Language:
        parts, lengths, live = [], [], []
        for segment, is_live in zip(self._index.segments, self._live, strict=True):
            documents = segment.documents_of(self._number(lang))
            lengths.append(segment.lengths[documents])
            live.append(is_live[documents])
        number = int(sum(part.sum() for part in live))
        total = float(sum(part[kept].sum(dtype=np.float64) for part, kept in zip(lengths, live, strict=True)))
        mean = total / max(number, 1)
        for part, kept in zip(lengths, live, strict=True):
            parts.append(np.where(kept, bm25.saturations(part, mean), np.inf).astype(np.float32))
        return _Language(number, mean, parts, number < sum(map(len, live)))

    def _number(self, lang: str) -> int:
        return self.langs.index(lang) if lang in self.langs else len(self.langs)

    def _first(self, segment: PostingsSegment, lang: str) -> int:
        return int(segment.documents_of(self._number(lang)).start)

    def ids_and_slots(self, documents: Ints) -> tuple[list[str], Ints]:
        """The ids and slots of documents, which are numbered across all segments."""
        if len(self._index.segments) == 1:
            [segment] = self._index.segments
            return segment.id_strings.take(documents), segment.slots[documents]
        ids, slots = [""] * len(documents), np.empty(len(documents), np.int64)
        for segment, positions, rows in self._index.by_segment(documents):
            slots[positions] = segment.slots[rows]
            for position, document_id in zip(positions.tolist(), segment.id_strings.take(rows), strict=True):
                ids[position] = document_id
        return ids, slots


def _dictionary(segment: PostingsSegment, lang: int) -> TermDictionary:
    """The words of a language in a segment, made when they are first needed."""
    if lang not in segment.dictionaries:
        segment.dictionaries[lang] = stored_dictionary(segment, lang) or _sorted_dictionary(segment, lang)
    return segment.dictionaries[lang]


def _sorted_dictionary(segment: PostingsSegment, lang: int) -> TermDictionary:
    documents = segment.documents_of(lang)
    first = segment.documents[segment.offsets[:-1]]  # a term belongs to the language of its documents
    numbers = np.flatnonzero((first >= documents.start) & (first < documents.stop))
    words = segment.terms.take(numbers).to_pylist()
    return TermDictionary([words[i] for i in listed_words(words)])


# Writing, by one process at a time


class DocumentTerms(NamedTuple):
    """Documents to be added: their slots, ids, languages and terms, in the same order."""

    slots: Ints
    ids: Sequence[str]
    langs: Sequence[str]
    terms: TermCounts


def extend(
    folder: Path, new: DocumentTerms | None, next_slot: int, *, max_segment_size: int = MAX_SEGMENT_SIZE
) -> None:
    """Add documents whose slots are below ``next_slot``, or none; a folder without an index gets one."""
    folder.mkdir(exist_ok=True)
    index = FullTextIndex(folder) if (folder / FullTextIndex.manifest_name).exists() else None
    segments, langs = (index.named_segments, index.langs) if index else ([], [])
    if new and new.ids:
        langs = [*langs, *sorted(set(new.langs) - set(langs))]
    FullTextIndex.add(segments, _make_segment(new, langs) if new and new.ids else None, max_segment_size)
    _activate(folder, langs, max(next_slot, index.next_slot if index else 0), segments)


def purge(folder: Path, exists: Mask, max_deleted_share: float) -> None:
    """Rewrite the segments that have too many deleted documents, without these documents."""
    index, segments, has_changed = FullTextIndex(folder), list[tuple[str, PostingsSegment]](), False
    for name, segment in index.named_segments:
        live = slots_exist(exists, segment.slots)
        if live.sum() >= (1 - max_deleted_share) * len(live):
            segments.append((name, segment))
            continue
        has_changed = True
        if live.any():
            segments.append(("", _merge([segment], [live])))
    if has_changed:
        _activate(folder, index.langs, index.next_slot, segments)


def _activate(folder: Path, langs: list[str], next_slot: int, segments: Sequence[tuple[str, PostingsSegment]]) -> None:
    FullTextIndex.activate(folder, {"format": FORMAT, "langs": langs, "next_slot": next_slot}, segments)


def _make_segment(new: DocumentTerms, langs: Sequence[str]) -> PostingsSegment:
    number = {lang: i for i, lang in enumerate(langs)}
    numbers = np.array([number[lang] for lang in new.langs], np.int64)
    order = np.argsort(numbers, kind="stable")
    rows = new.terms.matrix[order]
    columns = np.unique(rows.indices)
    columns = columns[np.argsort(new.terms.keys[columns], kind="stable")]
    postings = rows.tocsc()[:, columns]
    ids = pa.array(new.ids, pa.large_string()).take(order)
    terms = [new.terms.words[i] for i in columns.tolist()]
    counts = np.minimum(postings.data, MAX_COUNT)
    return PostingsSegment(
        slots=np.asarray(new.slots, np.int32 if new.slots.max(initial=0) < 2**31 else np.int64)[order],
        lengths=np.asarray(rows.sum(axis=1), np.int32),
        **_string_arrays("id", ids),
        starts=_starts(numbers, len(langs)),
        keys=new.terms.keys[columns],
        **_string_arrays("term", pa.array(terms, pa.large_string())),
        **word_arrays(terms, np.array([number[new.terms.langs[i]] for i in columns.tolist()], np.int64), len(langs)),
        offsets=postings.indptr.astype(np.int64),
        documents=postings.indices.astype(np.int32),
        counts=counts.astype(np.uint16 if counts.max(initial=0) > MAX_SMALL_COUNT else np.uint8),
    )


def _merge(segments: Sequence[PostingsSegment], kept: Sequence[Mask] | None = None) -> PostingsSegment:
    """One segment with the documents of several, or those of them that are ``kept``."""
    from cr5.retrieval.postings import DROPPED, copy_kept, count_kept

    kept = kept or [np.ones(len(segment.slots), bool) for segment in segments]
    all_kept = np.flatnonzero(np.concatenate(kept))
    langs = np.concatenate([segment.langs for segment in segments])
    order = all_kept[np.argsort(langs[all_kept], kind="stable")]
    new_numbers = np.full(len(langs), DROPPED, np.int32)
    new_numbers[order] = np.arange(len(order), dtype=np.int32)
    parts = np.split(new_numbers, np.cumsum([len(segment.slots) for segment in segments])[:-1])

    # The postings of a term are those in the first segment, then those in the second, and so on.
    keys = np.concatenate([segment.keys for segment in segments])
    sizes = [count_kept(s.documents, s.offsets, part) for s, part in zip(segments, parts, strict=True)]
    by_key, all_sizes = np.argsort(keys, kind="stable"), np.concatenate(sizes)
    ends = np.cumsum(all_sizes[by_key])
    targets = np.empty(len(keys), np.int64)
    targets[by_key] = ends - all_sizes[by_key]
    total = int(ends[-1]) if len(ends) else 0
    documents = np.empty(total, np.int32)
    counts = np.empty(total, np.result_type(*(segment.counts for segment in segments)))
    key_parts = np.split(targets, np.cumsum([len(segment.keys) for segment in segments])[:-1])
    for s, part, part_targets in zip(segments, parts, key_parts, strict=True):
        copy_kept(s.documents, s.counts, s.offsets, part, part_targets, documents, counts)
    sorted_keys = keys[by_key][all_sizes[by_key] > 0]
    unique, first = np.unique(sorted_keys, return_index=True)
    begins = (ends - all_sizes[by_key])[all_sizes[by_key] > 0][first]
    ids = pa.concat_arrays([segment.ids for segment in segments]).take(order)
    kept_terms = by_key[all_sizes[by_key] > 0][first]
    terms = pa.concat_arrays([segment.terms for segment in segments]).take(kept_terms)
    return PostingsSegment(
        slots=np.concatenate([segment.slots for segment in segments])[order],
        lengths=np.concatenate([segment.lengths for segment in segments])[order],
        **_string_arrays("id", ids),
        starts=_starts(langs[order], max(len(segment.starts) for segment in segments) - 1),
        keys=unique,
        **_string_arrays("term", terms),
        **merged_word_arrays(segments, kept_terms, terms, max(len(segment.starts) for segment in segments) - 1),
        offsets=np.append(begins, total).astype(np.int64),
        documents=documents,
        counts=counts,
    )


def _starts(langs: Ints, number: int) -> Ints:
    """The offset of each language's documents, which are sorted by language; the last offset is their number."""
    return np.concatenate([[0], np.cumsum(np.bincount(langs, minlength=number))]).astype(np.int64)


def _string_arrays(name: str, strings: pa.LargeStringArray) -> dict[str, Any]:
    """The offsets and bytes of strings."""
    _, offsets, content = strings.buffers()
    start = np.frombuffer(offsets, np.int64)[strings.offset : strings.offset + len(strings) + 1]
    data = np.frombuffer(content, np.uint8) if content else np.empty(0, np.uint8)
    return {f"{name}_offsets": start - start[0], f"{name}_bytes": data[start[0] : start[-1]]}


def _strings(offsets: Ints, content: Array) -> pa.LargeStringArray:
    return pa.LargeStringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(content))
