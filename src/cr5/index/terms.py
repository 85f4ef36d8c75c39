"""Terms: the words of documents as full text stores them, by 64-bit keys and with their counts.

A term is a word of one language: the same word in another language is another term. Among ten million terms, two have
the same key with a probability of three in a million.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cr5._typing import Array, Ints, Sparse
from cr5.corpus.texts import positions
from cr5.errors import Cr5Error
from cr5.features.counts import count_words
from cr5.features.tokeniser import Tokeniser
from cr5.hashing import digest, hash_texts
from cr5.index.recent import cached_for_recent_texts
from cr5.message_parts import quoted

TITLE_WEIGHT = 3  # a title counts as if it occurred this many times in the text
OPENING_WEIGHT = 2  # how often the opening of a text, which tends to name its subject, is counted in addition
OPENING_WORDS = 20
OPENING_CHARACTERS = 80  # length of the opening of a text without spaces
OPENING_SCAN_CHARACTERS = 4 * OPENING_WORDS * 10  # characters in which the words of an opening are looked for
RECENT_LANGUAGES, RECENT_TEXTS = 64, 2**10  # languages, and texts of each beside titles, whose words are remembered


@dataclass(frozen=True)
class TermCounts:
    """A sparse matrix, rows x terms: how often each term occurs in each row; ``words`` and ``langs`` are the terms."""

    words: Sequence[str]
    langs: Sequence[str]
    matrix: Sparse

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    @cached_property
    def keys(self) -> NDArray[np.uint64]:
        """The key of each term."""
        return hash_texts([_qualified(word, lang) for word, lang in zip(self.words, self.langs, strict=True)])

    def select_rows(self, rows: Ints) -> "TermCounts":
        """The counts of some of the rows."""
        return TermCounts(self.words, self.langs, self.matrix[rows])


class QueryWord(NamedTuple):
    """A word of a query: its weight, and the terms that match it, with how much one occurrence of each counts."""

    weight: float
    terms: Mapping[str, float]


class QueryKeys(NamedTuple):
    """The words of a query as arrays: the terms of word i are ``groups[i]`` to ``groups[i + 1]`` of the others."""

    weights: Array
    groups: Ints
    keys: NDArray[np.uint64]
    boosts: Array

    @classmethod
    def make(cls, words: Sequence[QueryWord], lang: str) -> "QueryKeys":
        """The arrays of words in one language; words and terms of weight 0 are left out."""
        weights, groups, terms, boosts = list[float](), [0], list[str](), list[float]()
        for word in words:
            for term, boost in word.terms.items():
                for value in (word.weight, boost):
                    if not 0 <= value < math.inf:
                        raise Cr5Error(f"the weight of the term {quoted(term)} is {value}; use a number from 0 on")
                if boost and word.weight:
                    terms.append(term)
                    boosts.append(boost)
            if len(terms) > groups[-1]:
                weights.append(word.weight)
                groups.append(len(terms))
        return cls(
            np.array(weights, np.float32), np.array(groups), term_keys(terms, lang), np.array(boosts, np.float32)
        )


def term_keys(terms: Iterable[str], lang: str) -> NDArray[np.uint64]:
    """The key of each word of a language, of a query or a title; those of recent ones are remembered."""
    return np.array([_key(term, lang) for term in terms], np.uint64)


@lru_cache(2**16)
def _key(term: str, lang: str) -> int:
    return int.from_bytes(digest(_qualified(term, lang), 8), "little")


@lru_cache(RECENT_LANGUAGES)
def word_finder(tokeniser: Tokeniser, lang: str) -> Callable[[str], Mapping[str, int]]:
    """A function that gives the words of a title or text, each once, in order and numbered."""

    def find(text: str) -> Mapping[str, int]:
        return {word: number for number, word in enumerate(dict.fromkeys(tokeniser.words(text, lang)))}

    return cached_for_recent_texts(find, RECENT_TEXTS)


def count_terms(
    titles: Sequence[str],
    texts: Sequence[str],
    concepts: Sequence[str],
    langs: Sequence[str],
    tokeniser: Tokeniser,
    *,
    opening_weight: int = OPENING_WEIGHT,
) -> TermCounts:
    """The terms of documents: words of text and concept, and of opening and title, which weigh more."""
    from scipy.sparse import block_diag, csr_array

    words, codes, matrices, rows = list[str](), list[str](), [csr_array((0, 0), dtype=np.int32)], positions(langs)
    openings = [opening(text) if opening_weight else "" for text in texts]
    for lang, numbers in rows.items():
        n = len(numbers)
        fields = [values[i] for values in (texts, concepts, openings, titles) for i in numbers]
        counts = count_words(fields, lang, tokeniser)
        text, concept, first, title = (counts.matrix[begin : begin + n] for begin in range(0, 4 * n, n))
        matrices.append(text + concept + opening_weight * first + TITLE_WEIGHT * title)
        words += counts.words
        codes += [lang] * len(counts.words)
    order = np.argsort(np.concatenate([np.empty(0, np.int64), *rows.values()]))
    return TermCounts(words, codes, csr_array(block_diag(matrices, format="csr"))[order])


def opening(text: str) -> str:
    """The first words of a text, or the first characters if it has no spaces."""
    start = text[:OPENING_SCAN_CHARACTERS].split(maxsplit=OPENING_WORDS)[:OPENING_WORDS]
    return " ".join(start) if len(start) > OPENING_WORDS // 4 else text[:OPENING_CHARACTERS]


def _qualified(word: str, lang: str) -> str:
    return f"{lang}\0{word}"
