"""One language's texts -> vocabulary, IDF, TF-IDF rows."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
import pyarrow as pa
from scipy.sparse import csr_array

from cr5._typing import Array, Ints, Sparse
from cr5.features.tokeniser import Tokeniser, Tokens
from cr5.storage.scratch import BLOCK_ROWS, ScratchArrays


@dataclass(frozen=True)
class Weighting:
    """How words become numbers, and which words and documents take part in training.

    tf "raw": the count; "log": 1 + ln(count). idf "plain": ln(n/df) + 1, as in the paper;
    "smooth": ln((1+n)/(1+df)) + 1. ``idf_power`` is applied to either. Documents outside
    ``min_unique`` to ``max_unique`` different words are not trained on.
    """

    tf: Literal["raw", "log"] = "log"
    idf: Literal["plain", "smooth"] = "smooth"
    idf_power: float = 1.0
    min_documents: int = 3
    max_words: int = 200_000
    min_unique: int = 50
    max_unique: int = 1_000


@dataclass(frozen=True)
class Counts:
    """Documents x words, how often each word occurs; columns in no particular order."""

    words: list[str]
    matrix: Sparse
    scratch: ScratchArrays = field(default_factory=ScratchArrays)

    @property
    def unique(self) -> Ints:
        """The number of different words of every document."""
        return np.asarray(np.diff(self.matrix.indptr))

    def rows(self, chosen: Ints) -> "Counts":
        """The same words, some of the documents."""
        return Counts(self.words, self.scratch.select_rows(self.matrix, chosen), self.scratch)


@dataclass(frozen=True)
class Features:
    """A language's vocabulary, most frequent word first, and its IDF weights."""

    words: list[str]
    idf: Array
    weighting: Weighting

    def transform(self, counts: Counts) -> Sparse:
        """Word counts -> unit TF-IDF rows over the vocabulary, float32; unknown words are left out."""
        index = self.index
        columns = np.fromiter((index.get(word, -1) for word in counts.words), np.int32, len(counts.words))
        matrix, scratch, width = counts.matrix, counts.scratch, len(self.words)
        if scratch.budget_bytes is None:
            return weigh(select(matrix, columns, width), self.idf, self.weighting.tf)
        few = (matrix[i : i + BLOCK_ROWS] for i in range(0, matrix.shape[0], BLOCK_ROWS))
        parts = (weigh(select(X, columns, width), self.idf, self.weighting.tf) for X in few)
        return scratch.stack_rows(parts, (matrix.shape[0], width), matrix.nnz, np.float32, np.int32)

    @cached_property
    def index(self) -> dict[str, int]:
        """word -> column."""
        return {word: i for i, word in enumerate(self.words)}


def count_tokens(tokens: Tokens) -> Counts:
    """Token lists -> how often each word occurs in each text."""
    shape = len(tokens.offsets) - 1, len(tokens.words)
    text = np.repeat(np.arange(shape[0]), np.diff(tokens.offsets))
    keys = np.sort(text * shape[1] + tokens.ids)
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    counts = np.diff(first, append=len(keys)).astype(np.int32)
    text, word = np.divmod(keys[first], max(shape[1], 1))
    offsets = np.searchsorted(text, np.arange(shape[0] + 1))
    return Counts(tokens.words, csr_array((counts, word.astype(np.int32), offsets.astype(np.int32)), shape=shape))


class WordCounter:
    """Counts the words of a stream of texts of one language, chunk by chunk, on a pool of threads.

    Tokenising and counting run in Arrow and NumPy without the interpreter's lock, so threads do what
    processes would, without copying texts between them.
    """

    def __init__(
        self, lang: str, tokeniser: Tokeniser, pool: Executor, waiting: int = 4, scratch: ScratchArrays | None = None
    ) -> None:
        self.lang, self.tokeniser, self.pool, self.limit = lang, tokeniser, pool, waiting
        self.scratch = scratch or ScratchArrays()
        self.waiting: deque[Future[Counts]] = deque()
        self.columns: dict[str, int] = {}
        self.parts: list[Sparse] = []

    def add(self, texts: Sequence[str] | pa.StringArray) -> None:
        """Take in one more chunk; waits when too many are under way."""
        self.waiting.append(self.pool.submit(self._count, texts))
        if len(self.waiting) > self.limit:
            self._take()

    def finish(self) -> Counts:
        """Everything that was added, in that order."""
        while self.waiting:
            self._take()
        shape = sum(part.shape[0] for part in self.parts), len(self.columns)
        nonzeros = sum(part.nnz for part in self.parts)
        self.parts.reverse()
        parts = (self.parts.pop() for _ in range(len(self.parts)))  # each is gone when the next is taken in
        return Counts(
            list(self.columns), self.scratch.stack_rows(parts, shape, nonzeros, np.int32, np.int32), self.scratch
        )

    def _count(self, texts: Sequence[str] | pa.StringArray) -> Counts:
        return count_tokens(self.tokeniser(texts, self.lang))

    def _take(self) -> None:
        part = self.waiting.popleft().result()
        column = self.columns
        moved = np.fromiter((column.setdefault(w, len(column)) for w in part.words), np.int32, len(part.words))
        arrays = part.matrix.data, moved[part.matrix.indices], part.matrix.indptr
        self.parts.append(
            self.scratch.store_matrix(csr_array(arrays, shape=(part.matrix.shape[0], len(column)), copy=False))
        )


def count(texts: Sequence[str] | pa.StringArray, lang: str, tokeniser: Tokeniser) -> Counts:
    """Count the words of a few texts at once."""
    return count_tokens(tokeniser(texts, lang))


@dataclass(frozen=True)
class Frequencies:
    """How often words occur: in how many of ``count`` documents, and in total."""

    words: list[str]
    documents: Ints
    total: Array
    count: int


def frequencies(counts: Counts) -> Frequencies:
    """The frequencies of every word in these documents."""
    matrix, size = counts.matrix, len(counts.words)
    documents, total = np.zeros(size, np.int64), np.zeros(size)
    for i in range(0, matrix.nnz, 2**22):
        columns = matrix.indices[i : i + 2**22]
        documents += np.bincount(columns, minlength=size)
        total += np.bincount(columns, weights=matrix.data[i : i + 2**22], minlength=size)
        counts.scratch.release(matrix.indices, matrix.data)
    return Frequencies(counts.words, documents, total, counts.matrix.shape[0])


def add_up(parts: Iterable[Frequencies]) -> Frequencies:
    """The frequencies of words in several collections together."""
    column: dict[str, int] = {}
    documents, total, count = np.zeros(0, np.int64), np.zeros(0), 0
    for part in parts:
        place = np.fromiter((column.setdefault(w, len(column)) for w in part.words), np.int64, len(part.words))
        more = len(column) - len(documents)
        documents, total = np.pad(documents, (0, more)), np.pad(total, (0, more))
        documents[place] += part.documents
        total[place] += part.total
        count += part.count
    return Frequencies(list(column), documents, total, count)


def choose(found: Frequencies, weighting: Weighting) -> Features:
    """Choose the vocabulary and its IDF."""
    kept = np.flatnonzero(found.documents >= weighting.min_documents)
    by_name = sorted(kept.tolist(), key=found.words.__getitem__)
    order = np.array(sorted(by_name, key=lambda i: -found.total[i])[: weighting.max_words], np.int64)
    n, df = found.count, found.documents[order]
    idf = np.log((1 + n) / (1 + df)) + 1 if weighting.idf == "smooth" else np.log(n / np.maximum(df, 1)) + 1
    return Features([found.words[i] for i in order], (idf**weighting.idf_power).astype(np.float32), weighting)


def fit_features(counts: Counts, weighting: Weighting) -> Features:
    """Choose the vocabulary and its IDF from the training documents."""
    return choose(frequencies(counts), weighting)


def fit_transform(
    counts: Mapping[str, Counts], weighting: Weighting, threads: int = 1
) -> dict[str, tuple[Features, Sparse]]:
    """Each language's features and TF-IDF rows, several languages at a time."""

    def one(part: Counts) -> tuple[Features, Sparse]:
        features = fit_features(part, weighting)
        return features, features.transform(part)

    with ThreadPoolExecutor(threads) as pool:
        return dict(zip(counts, pool.map(one, counts.values()), strict=True))


def select(matrix: Sparse, columns: Ints, width: int) -> Sparse:
    """Move column j to ``columns[j]``, drop it where that is negative, and sort each row."""
    moved = columns[matrix.indices]
    kept = moved >= 0
    offsets = np.concatenate([[0], np.cumsum(kept, dtype=np.int64)])[matrix.indptr].astype(matrix.indptr.dtype)
    result = csr_array((matrix.data[kept], moved[kept], offsets), shape=(matrix.shape[0], width))
    return result.tocsc().tocsr()  # twice transposed is sorted, in linear time


def weigh(counts: Sparse, idf: Array, tf: str) -> Sparse:
    """tf(count) * idf, then every row to length 1; an empty row stays empty."""
    data = counts.data.astype(np.float64)
    data = (1 + np.log(data) if tf == "log" else data) * idf[counts.indices]
    squares = np.add.reduceat(np.append(data**2, 0.0), counts.indptr[:-1]) if counts.shape[0] else np.zeros(0)
    lengths = np.diff(counts.indptr)
    norms = np.sqrt(np.where(lengths > 0, squares, 1.0))
    data /= np.repeat(norms, lengths)
    return csr_array((data.astype(np.float32), counts.indices, counts.indptr), shape=counts.shape)
