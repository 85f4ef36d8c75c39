"""Neighbouring words of a query, and how many of them are neighbours in a text, too.

"Real time" is more than "real" and "time", and so is a code that the tokeniser splits, such as "setup.exe", or a
Vietnamese word, whose tokens are syllables.
"""

import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from cr5.index.query_words import MatchedWords

MAX_TOKENS = 32  # of a query; a longer one is specific enough without pairs
_SPACES = re.compile(r"\s+")


class WordPair(NamedTuple):
    """Two neighbouring words as they may stand in a text, normalised, and the smaller of their weights."""

    spellings: frozenset[str]
    weight: float


def word_pairs(text: str, tokens: Sequence[str], words: MatchedWords) -> list[WordPair]:
    """The pairs of neighbouring tokens of a query, each once, as they are written there and with a space between."""
    if not 2 <= len(tokens) <= MAX_TOKENS:
        return []
    weight = dict(zip(dict.fromkeys(tokens), (word.weight for word in words.words), strict=True))
    line, position, pairs = normalise(text), 0, dict[frozenset[str], WordPair]()
    for first, second in pairwise(tokens):
        begin = line.find(first, position)
        middle = line.find(second, begin + len(first)) if begin >= 0 else -1
        written = line[begin : middle + len(second)] if middle >= 0 else f"{first} {second}"
        position = middle if middle >= 0 else position
        pair = frozenset({written, f"{first} {second}"})
        pairs[pair] = WordPair(pair, min(weight[first], weight[second]))
    return [pair for pair in pairs.values() if pair.weight > 0]


def share_of_pairs(pairs: Sequence[WordPair], text: str) -> float:
    """The share of the pairs, by weight, that a text has, from 0 to 1; a word may go on after a pair."""
    line = normalise(text)
    found = sum(pair.weight for pair in pairs if any(spelling in line for spelling in pair.spellings))
    return found / sum(pair.weight for pair in pairs) if pairs else 0.0


def normalise(text: str) -> str:
    """A text in lower case, in Unicode NFKC, with single spaces."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return _SPACES.sub(" ", text.lower())
