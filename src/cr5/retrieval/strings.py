"""The strings view: texts as character n-grams in one space that all languages share, for names and cognates.

A row has tf idf for each n-gram, with tf = ln(1 + how often it occurs in the text's words), at unit length. Every
language has its own IDF weights and its own mean row, which is subtracted before the cosine: otherwise a language's
frequent endings would make all of its texts similar.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cr5._typing import Array, Sparse
from cr5.features.counts import WordCounts
from cr5.features.ngrams import character_ngrams
from cr5.features.tfidf import smooth_idf, tfidf_rows
from cr5.retrieval.sparse_rows import hstack_rows, multiply_matrices

LENGTHS = (4, 5)
COLUMNS = 2**18


@dataclass(frozen=True)
class StringStatistics:
    """What a sample of a language's texts says about n-grams: their IDF weights and the mean row, one value each.

    ``transliterate`` says whether words are written in Latin letters before they are cut into n-grams.
    """

    idf: Array
    mean: Array
    transliterate: bool = True

    @cached_property
    def squared_length(self) -> float:
        """The squared length of the mean row."""
        return float(self.mean.astype(np.float64) @ self.mean)


def string_statistics(sample: WordCounts, *, transliterate: bool = True) -> StringStatistics:
    """The statistics of a language from some of its texts; an n-gram that none of them has gets the largest IDF."""
    counts = _ngram_counts(sample, transliterate)
    document_frequency, documents = np.bincount(counts.indices, minlength=COLUMNS), counts.shape[0]
    idf = smooth_idf(document_frequency, documents).astype(np.float32)
    rows = tfidf_rows(counts, idf, "log1p")
    mean = np.bincount(rows.indices, weights=rows.data, minlength=COLUMNS) / max(documents, 1)
    return StringStatistics(idf, mean.astype(np.float32), transliterate)


def vocabulary_statistics(words: Sequence[str], document_frequency: Array, documents: int) -> StringStatistics:
    """What the statistics would be if the words of a vocabulary occurred independently, each at most once in a text.

    An n-gram of words with the frequencies p is in a text with the probability P = 1 - prod(1 - p), and then about
    sum(p) / P of the text's words have it.
    """
    occurrences = character_ngrams(to_latin(words), LENGTHS, COLUMNS)
    frequency = np.minimum(document_frequency / max(documents, 1), 1 - 1e-9)
    of_words = np.repeat(np.arange(len(words)), np.diff(occurrences.indptr))
    absent, expected = (
        np.bincount(occurrences.indices, weights=values[of_words], minlength=COLUMNS)
        for values in (np.log1p(-frequency), frequency)
    )
    present = -np.expm1(absent)
    idf = smooth_idf(documents * present, documents)
    tf = np.log1p(expected / np.maximum(present, 1e-12))
    norm = np.sqrt(present @ np.square(tf * idf)) or 1.0
    return StringStatistics(idf.astype(np.float32), (present * tf * idf / norm).astype(np.float32))


def string_rows(counts: WordCounts, statistics: StringStatistics) -> Sparse:
    """texts x n-grams: tf idf at unit length, not centred, so that the rows stay sparse; see ``centred_pair``."""
    return tfidf_rows(_ngram_counts(counts, statistics.transliterate), statistics.idf, "log1p")


def centred_pair(
    queries: Sparse, query_statistics: StringStatistics, candidates: Sparse, candidate_statistics: StringStatistics
) -> tuple[Sparse, Sparse]:
    """Sparse rows whose inner products are the cosines of q - m with c - n, where m and n are the mean rows.

    (q - m)'(c - n) = q'c + (m'n - q'n) - m'c, so that two more columns hold what centring adds: a query's row is
    [q, m'n - q'n, 1] / |q - m|, and a candidate's row is [c, 1, -m'c] / |c - n|. Empty rows stay empty.
    """
    query_mean, candidate_mean = query_statistics.mean, candidate_statistics.mean
    both = query_mean @ candidate_mean
    ones = [np.ones(rows.shape[0]) for rows in (queries, candidates)]
    return (
        _extend(queries, query_statistics, [both - queries @ candidate_mean, ones[0]]),
        _extend(candidates, candidate_statistics, [ones[1], -(candidates @ query_mean)]),
    )


def to_latin(words: Sequence[str]) -> list[str]:
    """Words in lower-case Latin letters without accents."""
    from anyascii import anyascii

    return [word if word.isascii() else anyascii(word).lower() for word in words]


def _ngram_counts(counts: WordCounts, transliterate: bool) -> Sparse:
    """texts x n-grams: how many of a text's words have an n-gram. Each different word is cut once."""
    counts = counts.drop_unused_words()
    words = to_latin(counts.words) if transliterate else counts.words
    return multiply_matrices(counts.matrix, character_ngrams(words, LENGTHS, COLUMNS))


def _extend(rows: Sparse, statistics: StringStatistics, columns: Sequence[Array]) -> Sparse:
    """[rows, columns] / |row - mean|; the rows are of length 1 or empty, and the latter stay empty."""
    from scipy.sparse import csr_array

    norms = np.sqrt(np.maximum(1 - 2 * (rows @ statistics.mean) + statistics.squared_length, 0))
    present = np.diff(rows.indptr) > 0
    values = np.column_stack(columns)[present].ravel()
    offsets = np.concatenate([[0], np.cumsum(present * len(columns))])
    further = csr_array((values, np.arange(len(values)) % len(columns), offsets), shape=(len(present), len(columns)))
    extended = hstack_rows(rows, further)
    extended.data *= np.repeat((norms > 0) / np.where(norms > 0, norms, 1), np.diff(extended.indptr))
    return extended
