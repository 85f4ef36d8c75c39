"""One language of a model: its vocabulary, idf weights, map and offset, and the n-grams of its words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cr5._typing import Array, Ints

BLOCK_ROWS = 8192  # rows of a quantised map that are converted at a time


@dataclass(frozen=True)
class SubwordMap:
    """The n-grams that words outside the vocabulary are encoded by: g of them, for p words and rank r.

    ngrams: most frequent first. weights: g. map: g x r in 16 or 8 bits, to be multiplied by ``scale``: 1 number, or g,
    one for each row. squares: p, for every word the sum of the squared weights of its n-grams, also of those that the
    model does not keep. All arrays but the map are float32.
    """

    ngrams: list[str]
    weights: Array
    map: Array
    scale: Array
    squares: Array


@dataclass(frozen=True)
class LanguageMap:
    """The parameters of one language: p words, rank r.

    words: the vocabulary, most frequent word first. idf: p weights. map: p x r, a row for every word, which includes
    what its n-grams contribute. offset: r, the vector of the mean document, which embedding subtracts. All arrays are
    float32. subwords: None in a model without n-grams. scale: None, or in a quantised model, whose map is float16 or
    int8, what its rows have to be multiplied by: 1 number, or p, one for each row.
    """

    words: list[str]
    idf: Array
    map: Array
    offset: Array
    subwords: SubwordMap | None = None
    scale: Array | None = None

    @property
    def ngrams(self) -> list[str]:
        """The n-grams, most frequent first; none in a model without them."""
        return self.subwords.ngrams if self.subwords else []

    @property
    def bits(self) -> int:
        """Of each number of the map: 32, 16 or 8."""
        return 32 if self.scale is None else 8 * self.map.dtype.itemsize

    def vectors(self, rows: "slice | Ints" = slice(None)) -> Array:
        """words x rank: the vectors of some words or all in float32; a view of the map if it is not quantised."""
        return self.map[rows] if self.scale is None else in_single_precision(self.map, self.scale, rows)

    def vector_blocks(self) -> "Iterator[Array]":
        """The vectors of all words, in blocks if they are quantised, so that they are never in memory together."""
        step = len(self.map) if self.scale is None else BLOCK_ROWS
        return (self.vectors(slice(i, i + step)) for i in range(0, len(self.map), step))

    def quantised(self, bits: int) -> "LanguageMap":
        """The same with maps of 16 bits, or of 8 bits with a scale for each row.

        A map with at most this many bits stays as it is.
        """
        if self.bits <= bits:
            return self
        subwords, (values, scale) = self.subwords, _quantised(self.map, self.scale, bits)
        if subwords and 8 * subwords.map.dtype.itemsize > bits:
            small, scales = _quantised(subwords.map, subwords.scale, bits)
            subwords = replace(subwords, map=small, scale=scales)
        return replace(self, map=values, scale=scale, subwords=subwords)

    def in_memory(self) -> "LanguageMap":
        """The same with plain arrays, which may have been mapped from a file."""
        mapped = self.subwords
        subwords = mapped and SubwordMap(
            mapped.ngrams, *map(np.asarray, (mapped.weights, mapped.map, mapped.scale, mapped.squares))
        )
        idf, values, offset = map(np.asarray, (self.idf, self.map, self.offset))
        scale = None if self.scale is None else np.asarray(self.scale)
        return LanguageMap(self.words, idf, values, offset, subwords, scale)


def in_single_precision(values: Array, scale: Array, rows: "slice | Ints") -> Array:
    """scale x values of some rows, in float32."""
    return np.multiply(values[rows], scale if len(scale) == 1 else scale[rows, None], dtype=np.float32)


def _quantised(values: Array, scale: Array | None, bits: int) -> tuple[Array, Array]:
    """A map in fewer bits, and its scales."""
    if bits == 16:
        return half_precision(values)
    small, scales = np.empty(values.shape, np.int8), np.ones(len(values), np.float32)
    for i in range(0, len(values), BLOCK_ROWS):
        block = slice(i, i + BLOCK_ROWS)
        exact = values[block] if scale is None else in_single_precision(values, scale, block)
        largest = np.abs(exact).max(axis=1)
        scales[block][largest > 0] = largest[largest > 0] / np.float32(127)
        np.rint(exact / scales[block, None], out=small[block], casting="unsafe")
    return small, scales


def half_precision(values: Array) -> tuple[Array, Array]:
    """float16 values, and the power of 2 that they are to be multiplied by; the largest is well within the range."""
    largest = float(np.abs(values).max(initial=0))
    scale = 2.0 ** (np.ceil(np.log2(largest)) - 14) if largest > 0 else 1.0
    return (values / np.float32(scale)).astype(np.float16), np.array([scale], np.float32)


def ngrams_to_keep(words: Sequence[str], ngrams: Sequence[str], rank: int) -> int:
    """How many n-grams a language of a model keeps: at most two for each word, and they do not double its size."""
    word_bytes = 4 * (len(words) + 1) * rank + _utf8_lengths(words).sum()  # their weights are as many as the squares
    sizes = np.cumsum(2 * rank + 4 + _utf8_lengths(ngrams))
    return min(2 * len(words), int(np.searchsorted(sizes, word_bytes, side="right")))


def _utf8_lengths(strings: Sequence[str]) -> Ints:
    """The bytes of each string and of a line break."""
    return np.fromiter((len(string.encode()) + 1 for string in strings), np.int64, len(strings))
