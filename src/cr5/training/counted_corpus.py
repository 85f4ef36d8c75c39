"""A counted corpus: every language's documents as word counts, with their concepts and origins."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Protocol, Self, TypeVar
from zlib import crc32

import numpy as np
import pyarrow.compute as pc

from cr5._typing import Ints, Mask, Sparse
from cr5.corpus.documents import Batch, location
from cr5.corpus.language_names import language_code
from cr5.corpus.skipped import OnError, Skipped
from cr5.corpus.texts import assign_numbers
from cr5.errors import CorpusError
from cr5.features.counts import WordCounter, WordCounts
from cr5.features.tfidf import Vocabulary, Weighting, fit_vocabulary
from cr5.features.tokeniser import Tokeniser
from cr5.hashing import mix_bits
from cr5.machine import available_cores
from cr5.message_parts import plural, quoted
from cr5.progress import Progress, ProgressCallback, no_progress
from cr5.storage.model_files import can_name_file
from cr5.storage.scratch import CHUNK_ROWS, ScratchArrays
from cr5.training.engines import Engine

T = TypeVar("T")

MAX_NAME_LENGTH, MAX_NAME_WORDS = 40, 3  # of a language; what is longer is probably a text
UNUSABLE_CODE = "unusable language code"


class DocumentCounts(Protocol):
    """Word counts of documents, in this process (``WordCounts``) or on the workers of a cluster."""

    @property
    def unique_words(self) -> Ints:
        """The number of different words of every document."""
        ...

    def select_rows(self, rows: Ints) -> Self:
        """Some of the documents."""
        ...


@dataclass(frozen=True)
class CountedDocuments:
    """One language: counts, and for every document its concept number, source number and line."""

    counts: DocumentCounts
    concepts: Ints
    sources: Ints
    lines: Ints

    def __len__(self) -> int:
        return len(self.concepts)

    @property
    def local_counts(self) -> WordCounts:
        """The counts, which must be in this process."""
        assert isinstance(self.counts, WordCounts)
        return self.counts

    @property
    def unique_words(self) -> Ints:
        """The number of different words of every document."""
        return self.counts.unique_words

    def select_rows(self, chosen: Ints) -> "CountedDocuments":
        """Some of the documents, in their order."""
        if len(chosen) == len(self):
            return self
        return CountedDocuments(
            self.counts.select_rows(chosen), self.concepts[chosen], self.sources[chosen], self.lines[chosen]
        )


@dataclass(frozen=True)
class CountedCorpus:
    """The documents in all languages; ``concepts`` and ``sources`` are the names that numbers refer to."""

    concepts: list[str]
    sources: list[str]
    languages: dict[str, CountedDocuments]

    def document_counts(self) -> Ints:
        """concepts x languages: how many documents of each concept a language has."""
        size = len(self.concepts)
        columns = [np.bincount(d.concepts, minlength=size) for d in self.languages.values()]
        return np.array(columns, np.int64).reshape(len(columns), size).T

    def select_rows(self, rows: Mapping[str, Ints]) -> Self:
        """Some documents in every language, in their order; without the languages that have none left."""
        languages = {lang: d.select_rows(rows[lang]) for lang, d in self.languages.items() if len(rows[lang])}
        return replace(self, languages=languages)

    def with_usable_codes(self, on_error: OnError, skipped: Skipped | None) -> Self:
        """The languages whose codes can name files of a model; others are an error or, with "skip", are counted."""
        unusable = {lang: d for lang, d in self.languages.items() if not can_name_file(lang)}
        if unusable:
            lang, first = min(unusable.items(), key=lambda item: (int(item[1].sources[0]), int(item[1].lines[0])))
            where = location(self.sources[first.sources[0]], int(first.lines[0]))
            count = sum(map(len, unusable.values()))
            message = f"{where}: {quoted(lang)} is not a language code{_how_many(count, len(unusable))}; "
            if len(lang) > MAX_NAME_LENGTH or len(lang.split()) > MAX_NAME_WORDS:
                message += "check that the fields are in the order concept, lang, text"
            elif code := language_code(lang):
                message += f"use {code!r}"
            else:
                message += "use one such as 'en', or a name of your own of letters a to z, digits, - and _"
            if on_error != "skip":
                raise CorpusError(f'{message}, or leave such documents out with `on_error="skip"`')
            if skipped is not None:
                skipped.add(UNUSABLE_CODE, message, count)
        if not unusable:
            return self
        rows = {lang: np.arange(0 if lang in unusable else len(d)) for lang, d in self.languages.items()}
        return self.select_rows(rows)

    def require_shared(self) -> None:
        """Raise CorpusError for a concept that only one language has."""
        in_one_language = (self.document_counts() > 0).sum(axis=1) == 1
        count = int(in_one_language.sum())
        for lang, documents in self.languages.items():
            rows = np.flatnonzero(in_one_language[documents.concepts])
            if len(rows):
                where = location(self.sources[documents.sources[rows[0]]], int(documents.lines[rows[0]]))
                concept = self.concepts[documents.concepts[rows[0]]]
                more = f" ({count:,} concepts do)" if count > 1 else ""
                raise CorpusError(
                    f"{where}: concept {concept} occurs in language {lang} only{more}; "
                    'correct the corpus, or leave out `on_error="raise"`'
                )

    def fit_vocabularies(self, weighting: Weighting) -> dict[str, Vocabulary]:
        """The vocabulary of every language."""
        return self._each(lambda lang, counts: fit_vocabulary(counts, weighting))

    def have_known_word(self, vocabularies: Mapping[str, Vocabulary]) -> dict[str, Mask]:
        """For every document, whether it has a word of its language's vocabulary."""
        return self._each(lambda lang, counts: have_known_word(counts, vocabularies[lang]))

    def count_same_words(self) -> dict[str, int]:
        """For every language, how many documents have exactly the words of an earlier one, in any order."""
        return {lang: len(hashes) - len(np.unique(hashes)) for lang, hashes in self._document_hashes().items()}

    def _document_hashes(self) -> dict[str, Ints]:
        return self._each(lambda lang, counts: document_hashes(counts))

    def load_into(
        self,
        engine: Engine,
        vocabularies: Mapping[str, Vocabulary],
        concept_numbers: Ints,
        subwords: Mapping[str, Sparse | None],
    ) -> None:
        """Weight the words and load every language's documents into an engine; ``subwords``: see ``subword_matrices``.

        ``concept_numbers`` has the number that each concept of the corpus has in the engine.
        """
        for lang, X in self._each(lambda lang, counts: vocabularies[lang].transform(counts)).items():
            engine.put(lang, X, concept_numbers[self.languages[lang].concepts], subwords[lang])

    def fetch_counts(self, rows: Mapping[str, Ints]) -> dict[str, WordCounts]:
        """The word counts of some documents of some languages, in the given order, in this process."""
        return {
            lang: self.languages[lang].local_counts.select_rows(chosen).drop_unused_words()
            for lang, chosen in rows.items()
        }

    def _each(self, function: Callable[[str, WordCounts], T]) -> dict[str, T]:
        """Call a function with every language and its counts, several languages at a time."""
        counts = [documents.local_counts for documents in self.languages.values()]
        with ThreadPoolExecutor(available_cores()) as pool:
            return dict(zip(self.languages, pool.map(function, self.languages, counts), strict=True))


def _how_many(documents: int, codes: int) -> str:
    """In how many documents a code is unusable, and how many codes are, where it is more than one."""
    if documents == 1:
        return ""
    return f" ({plural(documents, 'document')}{f' with {codes:,} such codes' if codes > 1 else ''})"


def subword_matrices(vocabularies: Mapping[str, Vocabulary]) -> dict[str, Sparse | None]:
    """The words x n-grams of every vocabulary, None for one without n-grams; several languages at a time."""
    with ThreadPoolExecutor(available_cores()) as pool:
        matrices = pool.map(Vocabulary.subword_matrix, vocabularies.values())
        return dict(zip(vocabularies, matrices, strict=True))


def have_known_word(counts: WordCounts, vocabulary: Vocabulary) -> Mask:
    """For every document, whether it has a word of the vocabulary."""
    known = np.fromiter((word in vocabulary.index for word in counts.words), bool, len(counts.words))
    if known.all():
        return counts.unique_words > 0
    matrix, result = counts.matrix, np.zeros(counts.matrix.shape[0], bool)
    for i in range(0, matrix.shape[0], CHUNK_ROWS):
        offsets = matrix.indptr[i : i + CHUNK_ROWS + 1]
        is_known = known[matrix.indices[offsets[0] : offsets[-1]]]
        known_before = np.concatenate([[0], np.cumsum(is_known)])
        result[i : i + CHUNK_ROWS] = np.diff(known_before[offsets - offsets[0]]) > 0
        counts.scratch.release(matrix.indices)
    return result


def document_hashes(counts: WordCounts) -> Ints:
    """A hash of every document, modulo 2^64: the sum of its words' hashes, each times how often it occurs.

    It is the same in every process, for documents that different workers hold.
    """
    matrix, result = counts.matrix, np.zeros(counts.matrix.shape[0], np.uint64)
    # Mixed, so that sums of them differ.
    word_hashes = mix_bits(np.fromiter((crc32(word.encode()) for word in counts.words), np.uint64, len(counts.words)))
    for i in range(0, matrix.shape[0], CHUNK_ROWS):
        offsets = matrix.indptr[i : i + CHUNK_ROWS + 1]
        part = slice(offsets[0], offsets[-1])
        summands = word_hashes[matrix.indices[part]] * matrix.data[part].astype(np.uint64)
        sums_before = np.concatenate([np.zeros(1, np.uint64), np.cumsum(summands)])
        result[i : i + CHUNK_ROWS] = np.diff(sums_before[offsets - offsets[0]])
        counts.scratch.release(matrix.indices, matrix.data)
    return result


def count_corpus(
    batches: Iterable[Batch],
    tokeniser: Tokeniser,
    *,
    threads: int | None = None,
    scratch: ScratchArrays | None = None,
    progress: ProgressCallback = no_progress,
) -> CountedCorpus:
    """Count the words of a corpus that is read once; texts are not kept, and the counts are ``scratch`` arrays."""
    counters: dict[str, WordCounter] = {}
    columns: dict[str, list[list[Ints]]] = {}
    concepts: dict[str, int] = {}
    sources: dict[str, int] = {}
    document_count = 0
    with ThreadPoolExecutor(threads or available_cores()) as pool:
        for batch in batches:
            source = sources.setdefault(batch.source, len(sources))
            names = batch.rows["concept"].to_pylist()
            numbers = assign_numbers(names, concepts)
            for lang in pc.unique(batch.rows["lang"]).to_pylist():
                rows = np.flatnonzero(pc.equal(batch.rows["lang"], lang).to_numpy(zero_copy_only=False))
                if lang not in counters:
                    counters[lang] = WordCounter(lang, tokeniser, pool, scratch=scratch)
                    columns[lang] = [[], [], []]
                is_whole_batch = len(rows) == len(names)
                counters[lang].add(batch.rows["text"] if is_whole_batch else batch.rows["text"].take(rows))
                parts = numbers[rows], np.full(len(rows), source), batch.lines[rows]
                for column, part in zip(columns[lang], parts, strict=True):
                    column.append(part)
            document_count += len(names)
            progress(Progress("read and count words", document_count, None, f"{document_count:,} documents"))
        counts = {lang: counters[lang].finish() for lang in sorted(counters)}
    languages = {lang: CountedDocuments(counts[lang], *map(np.concatenate, columns[lang])) for lang in counts}
    return CountedCorpus(list(concepts), list(sources), languages)
