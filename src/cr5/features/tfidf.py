"""TF-IDF: from a language's word counts to its vocabulary, IDF weights and sparse rows of length 1."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from cr5._typing import Array, Ints, Sparse
from cr5.corpus.texts import assign_numbers, find_numbers
from cr5.features import setting
from cr5.features.counts import WordCounts
from cr5.features.subwords import Subwords, make_subwords
from cr5.storage.scratch import CHUNK_ROWS

NO_LIMIT = 10**9
"""Larger than the number of distinct words of any document."""
NO_WORDS: Mapping[str, float] = MappingProxyType({})
_BLOCK_NONZEROS = 2**22


Tf: TypeAlias = Literal["raw", "log"]
Idf: TypeAlias = Literal["plain", "smooth"]
TfFormula: TypeAlias = Tf | Literal["log1p"]
"""The settings, and ln(1 + count) for counts that may be fractions."""


class _IdfFormula(NamedTuple):
    """An IDF and its inverse, both given the number of documents as the second argument.

    The IDF is 1 for a word that every document contains, does not fall as a word becomes rarer, and is 1 for a corpus
    without documents.
    """

    idf: Callable[[Array, int], Array]
    document_frequency: Callable[[Array, int], Array]


def smooth_idf(document_frequency: Array, documents: int) -> Array:
    """ln((1 + n) / (1 + df)) + 1 of terms that occur in df of n ``documents``."""
    return np.asarray(np.log((1 + documents) / (1 + document_frequency)) + 1)


# A TF or IDF is a name in ``Tf`` or ``Idf``, its formula here, and its meaning in the help of ``Weighting``.
_TF: Mapping[TfFormula, Callable[[Array], Array]] = {
    "raw": lambda counts: counts,
    "log": lambda counts: 1 + np.log(counts),
    "log1p": np.log1p,
}
_IDF: Mapping[Idf, _IdfFormula] = {
    "plain": _IdfFormula(lambda df, n: np.log(max(n, 1) / np.maximum(df, 1)) + 1, lambda idf, n: n / np.exp(idf - 1)),
    "smooth": _IdfFormula(smooth_idf, lambda idf, n: (1 + n) / np.exp(idf - 1) - 1),
}


@dataclass(frozen=True)
class Weighting:
    """The settings of features: the TF-IDF formula, n-grams, and which words and documents are used for training."""

    tf: Tf = setting(  # noqa: RUF009
        "log",
        'Term frequency: "raw" is the count, as in the paper; "log" is 1 + ln(count), and retrieves more counterparts. '
        "Change it only to repeat the paper.",
    )
    idf: Idf = setting(  # noqa: RUF009
        "smooth",
        'Inverse document frequency: "plain" is ln(n/df) + 1, as in the paper; "smooth" is ln((1+n)/(1+df)) + 1. '
        "Change it only to repeat the paper.",
    )
    idf_power: float = setting(
        1.25,
        "The power that the IDF is raised to; larger values favour rare words, which helps if all texts are of the "
        "same kind as the training documents.",
    )
    min_documents: int = setting(
        3, "Words in fewer documents are left out of the vocabulary; lower it for a small corpus."
    )
    max_words: int = setting(
        200_000, "Maximum size of a vocabulary, most frequent words first; lower it to save memory."
    )
    min_unique: int = setting(
        1,
        "Documents with fewer different words are not trained on; raise it to leave out fragments, such as titles. The "
        "paper leaves out documents with fewer than 50.",
    )
    max_unique: int = setting(
        NO_LIMIT,
        "Documents with more different words are not trained on; lower it to leave out lists and collections. The "
        "paper leaves out documents with more than 1,000.",
    )
    subwords: bool = setting(
        True,
        "Learn from the character n-grams of words (3 to 5 characters) too, so that words of one stem help each other "
        "and words outside the vocabulary have vectors. False saves time and half of the size of a model.",
    )
    subword_weight: float = setting(
        0.4,
        "The weight of n-grams relative to words: the ratio of their squared lengths in all documents. Larger values "
        "trust the spelling of a word more, and the word itself less; 0 is the same as no n-grams.",
    )
    max_subwords: int = setting(
        200_000,
        "Maximum number of n-grams of a language, most frequent first; lower it to save memory. A saved model keeps at "
        "most two for each word of the vocabulary.",
    )

    def idf_weights(self, document_frequency: Array, documents: int) -> Array:
        """idf^idf_power of words or n-grams with these document frequencies among ``documents`` documents."""
        return np.asarray(_IDF[self.idf].idf(document_frequency, documents) ** self.idf_power)

    def unseen_idf(self, documents: int) -> float:
        """The IDF, to the power of 1, of a word that none of ``documents`` documents has."""
        return float(_IDF[self.idf].idf(np.zeros(1), documents)[0])


@dataclass(frozen=True)
class Vocabulary:
    """The words of a language, most frequent first, their IDF weights, and the n-grams of words if these are used."""

    words: list[str]
    idf: Array
    weighting: Weighting
    subwords: Subwords | None = None

    def transform(
        self, counts: WordCounts, outside: Mapping[str, float] = NO_WORDS, columns: Ints | None = None
    ) -> Sparse:
        """Word counts -> TF-IDF rows of length 1 over the vocabulary, float32; other words are ignored.

        With n-grams, the length of a row is that over its words and their n-grams. ``outside``: words outside the
        vocabulary and their weights; they get further columns, in this order. ``columns``: those of the words, if they
        are known already.
        """
        columns = self.columns(counts.words) if columns is None else columns
        if outside:
            columns = self._with_outside_columns(columns, counts.words, outside)
        matrix, scratch, width = counts.matrix, counts.scratch, len(self.words) + len(outside)
        if scratch.budget_bytes is None:
            return self._weigh(remap_columns(matrix, columns, width), outside)
        blocks = (matrix[i : i + CHUNK_ROWS] for i in range(0, matrix.shape[0], CHUNK_ROWS))
        parts = (self._weigh(remap_columns(block, columns, width), outside) for block in blocks)
        return scratch.stack_rows(parts, (matrix.shape[0], width), matrix.nnz, np.float32, np.int32)

    def transform_words(self, words: Sequence[str], outside: Mapping[str, float] = NO_WORDS) -> tuple[Ints, Array]:
        """The tokens of one text -> the columns and values of the row that ``transform`` gives it, in its order."""
        index, column_of = self.index, self._outside_columns(outside) if outside else {}
        counts = dict[int, int]()
        for word in words:
            column = index.get(word, column_of.get(word, -1))
            counts[column] = counts.get(column, 0) + 1
        counts.pop(-1, None)
        columns = sorted(counts)
        number, indices = np.array([counts[column] for column in columns], np.float64), np.array(columns, np.int32)
        return indices, self._values(number, indices, np.array([0, len(columns)], np.int32), outside)

    def columns(self, words: Sequence[str]) -> Ints:
        """The column of each word, -1 if it is not in the vocabulary."""
        return find_numbers(words, self.index, np.int32)

    def _with_outside_columns(self, columns: Ints, words: Sequence[str], outside: Mapping[str, float]) -> Ints:
        """The columns of words, including those outside the vocabulary."""
        column_of, others, columns = self._outside_columns(outside), np.flatnonzero(columns < 0), columns.copy()
        columns[others] = [column_of.get(words[i], -1) for i in others.tolist()]
        return columns

    def _outside_columns(self, outside: Mapping[str, float]) -> dict[str, int]:
        return {word: i for i, word in enumerate(outside, len(self.words))}

    def _weigh(self, counts: Sparse, outside: Mapping[str, float]) -> Sparse:
        from scipy.sparse import csr_array

        data = self._values(counts.data.astype(np.float64), counts.indices, counts.indptr, outside)
        return csr_array((data, counts.indices, counts.indptr), shape=counts.shape)

    def _values(self, counts: Array, indices: Ints, offsets: Ints, outside: Mapping[str, float]) -> Array:
        """The nonzeros of rows, from those of the counts in double precision."""
        squares = self.subwords.squares if self.subwords else np.zeros(0)
        if not outside:
            added = squares[indices] if self.subwords else None
            return tfidf_values(counts, self.idf[indices], offsets, self.weighting.tf, added)
        is_known = indices < len(self.words)
        weights, added = np.empty(len(indices)), np.zeros(len(indices))
        weights[is_known], added[is_known] = self.idf[indices[is_known]], squares[indices[is_known]]
        weights[~is_known] = np.array(list(outside.values()))[indices[~is_known] - len(self.words)]
        return tfidf_values(counts, weights, offsets, self.weighting.tf, added)

    def subword_matrix(self) -> Sparse | None:
        """words x n-grams: j / i, for the weight j of each n-gram of a word and the weight i of the word; float32.

        With rows X of ``transform``, those of the n-grams are X times this matrix. None without n-grams.
        """
        if self.subwords is None:
            return None
        result = self.subwords.weigh(self.words)
        result.data /= np.repeat(self.idf, np.diff(result.indptr))
        return result

    def document_frequency(self, documents: int) -> Array:
        """The document frequency of each word among ``documents``, from its IDF; all of them if ``idf_power`` is 0."""
        return np.asarray(_IDF[self.weighting.idf].document_frequency(self.base_idf, documents))

    @property
    def base_idf(self) -> Array:
        """The IDF of each word to the power of 1, float64; all ones if ``idf_power`` is 0."""
        power = self.weighting.idf_power
        return np.asarray(self.idf, np.float64) ** (1 / power) if power else np.ones(len(self.words))

    @cached_property
    def index(self) -> dict[str, int]:
        """word -> column."""
        return {word: i for i, word in enumerate(self.words)}


@dataclass(frozen=True)
class WordFrequencies:
    """For each word, the number of documents that contain it and its total count, over ``documents`` documents."""

    words: list[str]
    document_frequency: Ints
    total_count: Array
    documents: int


def word_frequencies(counts: WordCounts) -> WordFrequencies:
    """The frequencies of every word in these documents."""
    matrix, size = counts.matrix, len(counts.words)
    document_frequency, total_count = np.zeros(size, np.int64), np.zeros(size)
    for i in range(0, matrix.nnz, _BLOCK_NONZEROS):
        block = slice(i, i + _BLOCK_NONZEROS)
        document_frequency += np.bincount(matrix.indices[block], minlength=size)
        total_count += np.bincount(matrix.indices[block], weights=matrix.data[block], minlength=size)
        counts.scratch.release(matrix.indices, matrix.data)
    return WordFrequencies(counts.words, document_frequency, total_count, matrix.shape[0])


def merge_frequencies(parts: Iterable[WordFrequencies]) -> WordFrequencies:
    """The frequencies of words in several disjoint collections together."""
    columns: dict[str, int] = {}
    document_frequency, total_count, documents = np.zeros(0, np.int64), np.zeros(0), 0
    for part in parts:
        column = assign_numbers(part.words, columns)
        added = (0, len(columns) - len(document_frequency))
        document_frequency, total_count = np.pad(document_frequency, added), np.pad(total_count, added)
        document_frequency[column] += part.document_frequency
        total_count[column] += part.total_count
        documents += part.documents
    return WordFrequencies(list(columns), document_frequency, total_count, documents)


def make_vocabulary(frequencies: WordFrequencies, weighting: Weighting) -> Vocabulary:
    """The vocabulary and its IDF weights; words of equal count are ordered alphabetically."""
    frequent = np.flatnonzero(frequencies.document_frequency >= weighting.min_documents)
    alphabetical = sorted(frequent.tolist(), key=frequencies.words.__getitem__)
    by_count = sorted(alphabetical, key=lambda i: -frequencies.total_count[i])
    order = np.array(by_count[: weighting.max_words], np.int64)
    n, df = frequencies.documents, frequencies.document_frequency[order]
    idf = weighting.idf_weights(df, n).astype(np.float32)
    words = [frequencies.words[i] for i in order]
    subwords = make_subwords(words, idf, df, n, weighting) if weighting.subwords else None
    return Vocabulary(words, idf, weighting, subwords)


def fit_vocabulary(counts: WordCounts, weighting: Weighting) -> Vocabulary:
    """The vocabulary and IDF weights of the training documents."""
    return make_vocabulary(word_frequencies(counts), weighting)


def remap_columns(matrix: Sparse, columns: Ints, width: int) -> Sparse:
    """Move column j to ``columns[j]``, drop it if that is negative, and sort each row by column."""
    from scipy.sparse import csr_array

    moved = columns[matrix.indices]
    kept = moved >= 0
    offsets = np.concatenate([[0], np.cumsum(kept, dtype=np.int64)])[matrix.indptr].astype(matrix.indptr.dtype)
    result = csr_array((matrix.data[kept], moved[kept], offsets), shape=(matrix.shape[0], width))
    return result.tocsc().tocsr()  # transposing twice sorts the rows in linear time


def tfidf_rows(counts: Sparse, idf: Array, tf: TfFormula) -> Sparse:
    """tf(count) * idf, each row scaled to length 1; an empty row stays empty."""
    from scipy.sparse import csr_array

    data = tfidf_values(counts.data.astype(np.float64), idf[counts.indices], counts.indptr, tf)
    return csr_array((data, counts.indices, counts.indptr), shape=counts.shape)


def tfidf_values(
    counts: Array, weights: Array, offsets: Ints, tf: TfFormula, subword_squares: Array | None = None
) -> Array:
    """The nonzeros of rows of length 1, from the counts, in double precision, and the weights of their words.

    ``subword_squares``: what a word's n-grams add to the square of its weight in the length of a row.
    """
    frequencies = _TF[tf](counts)
    data = frequencies * weights
    squares = data * data
    if subword_squares is not None:
        squares += frequencies * frequencies * subword_squares
    data /= _norms(squares, offsets)
    return np.asarray(data, np.float32)


def _norms(squares: Array, offsets: Ints) -> Array | float:
    """For each nonzero, the length of its row; one number for all if there is only one row.

    A row has the same bits alone as among others: ``np.add.reduce`` would add its squares in another order.
    """
    if len(offsets) == 2:
        return sqrt(np.add.reduceat(squares, offsets[:1])[0]) if len(squares) else 0.0
    lengths = offsets[1:] - offsets[:-1]
    is_present = lengths > 0
    norms = np.sqrt(np.add.reduceat(squares, offsets[:-1][is_present])) if is_present.any() else np.zeros(0)
    return np.repeat(norms, lengths[is_present])
