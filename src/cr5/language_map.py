"""One language of a model: its vocabulary, idf weights, map and offset, and the n-grams of its words."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cr5._typing import Array, Ints


@dataclass(frozen=True)
class SubwordMap:
    """The n-grams that words outside the vocabulary are encoded by: g of them, for p words and rank r.

    ngrams: most frequent first. weights: g. map: g x r in half precision, to be multiplied by ``unit`` (1 number).
    squares: p, the squared length of every word's n-grams, of which the model may not keep all.
    All arrays but the map are float32.
    """

    ngrams: list[str]
    weights: Array
    map: Array
    unit: Array
    squares: Array


@dataclass(frozen=True)
class LanguageMap:
    """The parameters of one language: p words, rank r.

    words: the vocabulary, most frequent word first. idf: p weights. map: p x r, a row for every word, which includes
    what its n-grams contribute. offset: r, the vector of the mean document, which embedding subtracts. All arrays are
    float32. subwords: None in a model without n-grams.
    """

    words: list[str]
    idf: Array
    map: Array
    offset: Array
    subwords: SubwordMap | None = None

    def in_memory(self) -> "LanguageMap":
        """The same with plain arrays, which may have been mapped from a file."""
        own = self.subwords
        plain = own and SubwordMap(own.ngrams, *map(np.asarray, (own.weights, own.map, own.unit, own.squares)))
        idf, own_map, offset = map(np.asarray, (self.idf, self.map, self.offset))
        return LanguageMap(self.words, idf, own_map, offset, plain)


def half_precision(values: Array) -> tuple[Array, Array]:
    """float16 values and the unit (a power of 2) that they are multiples of; the largest is well within the range."""
    largest = float(np.abs(values).max(initial=0))
    unit = 2.0 ** (np.ceil(np.log2(largest)) - 14) if largest > 0 else 1.0
    return (values / np.float32(unit)).astype(np.float16), np.array([unit], np.float32)


def ngrams_to_keep(words: Sequence[str], ngrams: Sequence[str], rank: int) -> int:
    """How many n-grams a language of a model keeps: at most two for each word, and they do not double its size."""
    of_words = 4 * (len(words) + 1) * rank + _utf8_lengths(words).sum()  # their weights are as many as the squares
    sizes = np.cumsum(2 * rank + 4 + _utf8_lengths(ngrams))
    return min(2 * len(words), int(np.searchsorted(sizes, of_words, side="right")))


def _utf8_lengths(strings: Sequence[str]) -> Ints:
    """The bytes of each string and of a line break."""
    return np.fromiter((len(string.encode()) + 1 for string in strings), np.int64, len(strings))
