"""The view of the lexicon: texts that are translated word by word, and compared with texts of that language.

A text's expected counts in the other language are the sum over its words of count x t(translation | word). A row has
ln(1 + expected count) idf at unit length. A word outside the vocabulary translates itself: names and numbers are often
spelled alike in both languages. Words that no vocabulary has are in columns of their own, after
those of the vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat

import numpy as np

from cr5._typing import Array, Ints, Sparse
from cr5.features.counts import WordCounts
from cr5.features.ngrams import word_columns
from cr5.features.tfidf import remap_columns
from cr5.retrieval.lexicon import Lexicon
from cr5.retrieval.strings import log_tfidf_rows

UNKNOWN_COLUMNS = 2**20
"""The columns of words outside the vocabulary, which are hashed."""


@dataclass(frozen=True)
class WordWeights:
    """The vocabulary of a language, the IDF of each word (to the power of 1), and that of a word never seen."""

    words: Sequence[str]
    idf: Array
    unseen_idf: float

    @cached_property
    def index(self) -> dict[str, int]:
        """word -> column."""
        return {word: i for i, word in enumerate(self.words)}

    @cached_property
    def column_idf(self) -> Array:
        """The IDF of every column, also of those of unknown words."""
        return np.concatenate([self.idf, np.full(UNKNOWN_COLUMNS, self.unseen_idf, np.float32)])

    def columns(self, words: Sequence[str]) -> Ints:
        """The column of each word."""
        columns = np.fromiter(map(self.index.get, words, repeat(-1)), np.int64, len(words))
        unknown = np.flatnonzero(columns < 0)
        columns[unknown] = len(self.words) + word_columns([words[i] for i in unknown.tolist()], UNKNOWN_COLUMNS)
        return columns


def word_weights(words: Sequence[str], idf: Array, *, idf_power: float, documents: int) -> WordWeights:
    """The weights of a model's language, whose IDF was raised to ``idf_power`` and is over so many documents."""
    plain = np.asarray(idf, np.float32) ** np.float32(1 / idf_power) if idf_power else np.ones(len(words), np.float32)
    return WordWeights(words, plain, float(np.log(1 + documents) + 1))


def own_rows(counts: WordCounts, weights: WordWeights) -> Sparse:
    """texts x columns of their own language: ln(1 + count) idf at unit length."""
    counts = counts.drop_unused_words()
    return log_tfidf_rows(_in_columns(counts.matrix, weights.columns(counts.words), weights), weights.column_idf)


def translate_counts(counts: WordCounts, lexicon: Lexicon, target: WordWeights) -> Sparse:
    """texts x columns of the other language: ln(1 + expected count) idf at unit length.

    ``target`` has the target words of the lexicon, in the same order.
    """
    from scipy.sparse import csr_array

    counts = counts.drop_unused_words()
    rows = np.fromiter(map(lexicon.index.get, counts.words, repeat(-1)), np.int64, len(counts.words))
    known, unknown = np.flatnonzero(rows >= 0), np.flatnonzero(rows < 0)
    expected = _choose_columns(counts.matrix, known).astype(np.float32) @ lexicon.matrix[rows[known]]
    expected.sort_indices()  # or else adding the words outside the vocabulary would need memory for every column
    columns = target.columns([counts.words[i] for i in unknown.tolist()])
    themselves = _in_columns(_choose_columns(counts.matrix, unknown), columns, target)
    arrays = expected.data, expected.indices, expected.indptr
    return log_tfidf_rows(csr_array(arrays, shape=themselves.shape) + themselves, target.column_idf)


def side_by_side(first: Sparse, second: Sparse) -> Sparse:
    """Rows whose inner products are the means of those of both parts."""
    from scipy.sparse import hstack

    return hstack([first, second], "csr") * np.float32(np.sqrt(0.5))


def _choose_columns(matrix: Sparse, chosen: Ints) -> Sparse:
    position = np.full(matrix.shape[1], -1)
    position[chosen] = np.arange(len(chosen))
    return remap_columns(matrix, position, len(chosen))


def _in_columns(matrix: Sparse, columns: Ints, weights: WordWeights) -> Sparse:
    """Move column j to ``columns[j]``; columns that become one, because hashes are equal, are added."""
    from scipy.sparse import csr_array

    arrays = matrix.data.copy(), columns[matrix.indices], matrix.indptr.copy()
    result = csr_array(arrays, shape=(matrix.shape[0], len(weights.column_idf)))
    result.sum_duplicates()
    return result
