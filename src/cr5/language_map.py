"""One language of a model: its vocabulary, idf weights, map and offset."""

from dataclasses import dataclass

from cr5._typing import Array


@dataclass(frozen=True)
class LanguageMap:
    """The parameters of one language: p words, rank r.

    words: the vocabulary, most frequent word first. idf: p weights. map: p x r, a row for every word.
    offset: r, the vector of the mean document, which embedding subtracts. All arrays are float32.
    """

    words: list[str]
    idf: Array
    map: Array
    offset: Array
