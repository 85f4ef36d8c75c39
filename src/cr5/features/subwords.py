"""Subwords: character n-grams of words. Words of one stem share them, and so do words outside the vocabulary.

The n-grams of a word are the different strings of 3 to 5 characters in "<word>", see ``ngrams``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from cr5._typing import Array, Ints, Sparse
from cr5.features.ngrams import Ngrams, cut_ngrams, hash_strings, is_first, occurrences

if TYPE_CHECKING:
    from cr5.features.tfidf import Weighting

SHORTEST, LONGEST = 3, 5  # lengths of n-grams in characters
_DECIMALS = 6  # document frequencies are rounded, so that the order of summation does not matter


@dataclass(frozen=True)
class Subwords:
    """The n-grams of a language, most frequent first, with their weights j (float32).

    ``squares``: for every word of the vocabulary, the sum of j^2 over its n-grams (float32).
    """

    ngrams: list[str]
    weights: Array
    squares: Array

    def weigh(self, words: Sequence[str]) -> Sparse:
        """words x n-grams: the weight of every known n-gram of each word, in the order of the n-grams; float32."""
        found = cut_ngrams(words, SHORTEST, LONGEST)
        hashes, columns = self._sorted_hashes
        place = np.minimum(np.searchsorted(hashes, found.hashes), len(hashes) - 1)
        known = np.flatnonzero(hashes[place] == found.hashes)
        result = occurrences(found.words[known], columns[place[known]], (len(words), len(self.ngrams)))
        result.data = self.weights[result.indices]
        return result

    def unit_rows(self, words: Sequence[str]) -> tuple[Array, Sparse]:
        """|N| for the row N of each word in ``weigh``, and N / |N| for the words that have a known n-gram."""
        from scipy.sparse import csr_array

        rows = self.weigh(words)
        counts = np.diff(rows.indptr)
        known = np.flatnonzero(counts)
        lengths = np.zeros(len(words))
        lengths[known] = np.sqrt(np.add.reduceat(np.square(rows.data, dtype=np.float64), rows.indptr[known]))
        data = (rows.data / np.repeat(lengths, counts)).astype(np.float32)
        offsets = np.append(rows.indptr[known], rows.indptr[-1])
        return lengths, csr_array((data, rows.indices, offsets), shape=(len(known), len(self.ngrams)))

    def most_frequent(self, count: int) -> "Subwords":
        """The most frequent n-grams only; the squares stay those of all."""
        return Subwords(self.ngrams[:count], self.weights[:count], self.squares)

    @cached_property
    def _sorted_hashes(self) -> tuple[Ints, Ints]:
        """The hashes of the n-grams in ascending order, and the column of each."""
        hashes = hash_strings(self.ngrams)
        order = np.argsort(hashes)
        return hashes[order], order.astype(np.int32)


def make_subwords(
    words: Sequence[str], idf: Array, document_frequency: Ints, documents: int, weighting: "Weighting"
) -> Subwords | None:
    """The n-grams of a vocabulary and their weights j = s * idf^power, or None if there are none.

    ``idf``: the weight of every word. The document frequency of an n-gram is what it would be if words occurred
    independently: n (1 - prod(1 - df / n)) over the words that contain it. With the scale s, the squared weights of
    n-grams in all documents add up to ``subword_weight`` times those of words.
    """
    found = cut_ngrams(words, SHORTEST, LONGEST)
    order = np.argsort(found.hashes)  # np.unique takes ten times as long
    is_new = is_first(found.hashes[order])
    first, number = order[is_new], np.empty(len(order), np.int64)
    number[order] = np.cumsum(is_new) - 1
    contained = occurrences(found.words, number, (len(words), len(first)))
    with np.errstate(divide="ignore"):  # for a word of every document
        absent = np.log1p(-document_frequency / max(documents, 1))
    log_absent = np.repeat(absent, np.diff(contained.indptr))
    absences = np.bincount(contained.indices, weights=log_absent, minlength=len(first))
    frequency = np.round(-documents * np.expm1(absences), _DECIMALS)
    chosen, ngrams = _most_frequent(found, first, frequency, weighting)
    unscaled = np.zeros(len(first))
    unscaled[chosen] = weighting.idf_weights(frequency[chosen], documents)
    squares = contained @ unscaled**2
    total = document_frequency @ squares
    if not total or not weighting.subword_weight:
        return None
    scale_square = weighting.subword_weight * (document_frequency @ np.square(idf, dtype=np.float64)) / total
    weights = (np.sqrt(scale_square) * unscaled[chosen]).astype(np.float32)
    return Subwords(ngrams, weights, (scale_square * squares).astype(np.float32))


def _most_frequent(found: Ngrams, first: Ints, frequency: Array, weighting: "Weighting") -> tuple[Ints, list[str]]:
    """The n-grams that are kept, as numbers and as strings: most frequent first, ties alphabetically.

    ``first``: where each different n-gram occurs.
    """
    candidates = np.flatnonzero(frequency >= weighting.min_documents)
    if len(candidates) > weighting.max_subwords:
        least = -np.partition(-frequency[candidates], max(weighting.max_subwords - 1, 0))[weighting.max_subwords - 1]
        candidates = candidates[frequency[candidates] >= least]
    strings = [found.text[i:j] for i, j in zip(*(ends[first[candidates]].tolist() for ends in found.ends), strict=True)]
    keys = list(zip((-frequency[candidates]).tolist(), strings, strict=True))
    order = sorted(range(len(keys)), key=keys.__getitem__)[: weighting.max_subwords]
    return candidates[order], [strings[i] for i in order]
