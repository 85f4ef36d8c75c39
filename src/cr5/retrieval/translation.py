"""The view of the lexicon: texts that are translated word by word, and compared with texts of that language.

A text's expected counts in the other language are the sum over its words of count x t(translation | word). A row has
ln(1 + expected count) idf at unit length. A word outside the vocabulary translates itself: names and numbers are often
spelled alike in both languages. Words that no vocabulary has are in columns of their own, after those of the
vocabulary.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cr5._typing import Array, Ints, Sparse
from cr5.corpus.texts import find_numbers
from cr5.features.counts import WordCounts
from cr5.features.ngrams import word_columns
from cr5.features.tfidf import Vocabulary, tfidf_rows
from cr5.retrieval.lexicon import Lexicon
from cr5.retrieval.sparse_rows import hstack_rows, multiply_matrices

UNKNOWN_COLUMNS = 2**20
"""The columns of words outside the vocabulary, which are hashed."""


@dataclass(frozen=True)
class WordWeights:
    """The column of each word of a language, its IDF (to the power of 1), and that of a word never seen."""

    index: Mapping[str, int]
    idf: Array
    unseen_idf: float

    @cached_property
    def column_idf(self) -> Array:
        """The IDF of every column, including those of unknown words."""
        return np.concatenate([self.idf, np.full(UNKNOWN_COLUMNS, self.unseen_idf, np.float32)])

    def columns(self, words: Sequence[str]) -> Ints:
        """The column of each word."""
        columns = find_numbers(words, self.index)
        unknown = np.flatnonzero(columns < 0)
        columns[unknown] = len(self.index) + word_columns([words[i] for i in unknown.tolist()], UNKNOWN_COLUMNS)
        return columns


def word_weights(vocabulary: Vocabulary, documents: int) -> WordWeights:
    """The weights of a model's language, whose IDF is over ``documents``."""
    unseen_idf = vocabulary.weighting.unseen_idf(documents)
    return WordWeights(vocabulary.index, vocabulary.base_idf.astype(np.float32), unseen_idf)


def original_rows(counts: WordCounts, weights: WordWeights) -> Sparse:
    """texts x columns of their own language: ln(1 + count) idf at unit length."""
    counts = counts.drop_unused_words()
    columns = weights.columns(counts.words)
    # Each word translates to itself.
    identity = np.ones(len(columns), np.float32), columns, np.arange(len(columns) + 1)
    return _weigh(counts, identity, weights)


def translate_counts(counts: WordCounts, lexicon: Lexicon, target: WordWeights) -> Sparse:
    """texts x columns of the other language: ln(1 + expected count) idf at unit length.

    ``target`` has the target words of the lexicon, in the same order.
    """
    counts = counts.drop_unused_words()
    rows = find_numbers(counts.words, lexicon.index)
    known, unknown = np.flatnonzero(rows >= 0), np.flatnonzero(rows < 0)
    k = lexicon.indices.shape[1]
    offsets = np.concatenate([[0], np.cumsum(np.where(rows >= 0, k, 1))])
    columns, values = np.empty(offsets[-1], np.int32), np.empty(offsets[-1], np.float32)
    of_known, of_unknown = offsets[known][:, None] + np.arange(k), offsets[unknown]
    columns[of_known], values[of_known] = lexicon.indices[rows[known]], lexicon.probabilities[rows[known]]
    columns[of_unknown], values[of_unknown] = target.columns([counts.words[i] for i in unknown.tolist()]), 1
    return _weigh(counts, (values, columns, offsets), target)


def mean_views(first: Sparse, second: Sparse) -> Sparse:
    """Rows whose inner products are the means of those of both parts."""
    rows = hstack_rows(first, second)
    rows.data *= np.float32(np.sqrt(0.5))
    return rows


def _weigh(counts: WordCounts, translations: tuple[Array, Ints, Ints], weights: WordWeights) -> Sparse:
    """The rows of texts, given the expected counts of each of their words: values, columns and offsets."""
    from scipy.sparse import csr_array

    shape = len(counts.words), len(weights.column_idf)
    expected = multiply_matrices(counts.matrix, csr_array(translations, shape=shape))
    return tfidf_rows(expected, weights.column_idf, "log1p")
