"""Neighbouring words of a query, and how many of them are neighbours in a text, too.

"Real time" is more than "real" and "time", and so is a code that the tokeniser splits, such as "setup.exe", or a
Vietnamese word, whose tokens are syllables.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from cr5.corpus.normal_forms import normal_form
from cr5.index.query_words import WeightedQuery
from cr5.index.recent import cached_for_recent_texts

MAX_TOKENS = 32  # a longer query is specific enough without pairs
FEW_TOKENS = 4  # in a query of up to this many tokens, pairs of a rare and a common word say little


class WordPair(NamedTuple):
    """Two neighbouring words as they may stand in a text, normalised, and the smaller of their weights."""

    spellings: frozenset[str]
    weight: float


def word_pairs(text: str, tokens: Sequence[str], weighted: WeightedQuery) -> list[WordPair]:
    """The pairs of neighbouring tokens of a query, each once, as they are written there and with a space between.

    A pair that is a quantity is also one word, if documents have that: 500 ml, 500ml.
    """
    if not 2 <= len(tokens) <= MAX_TOKENS:
        return []
    words = dict(zip(dict.fromkeys(tokens), weighted.words, strict=True))
    line, position, pairs = normalise(text), 0, dict[frozenset[str], WordPair]()
    for first, second in pairwise(tokens):
        begin = line.find(first, position)
        middle = line.find(second, begin + len(first)) if begin >= 0 else -1
        written = line[begin : middle + len(second)] if middle >= 0 else f"{first} {second}"
        position = middle if middle >= 0 else position
        pair = frozenset({written, f"{first} {second}"} | ({first + second} & words[first].terms.keys()))
        pairs[pair] = WordPair(pair, min(words[first].weight, words[second].weight))
    return [pair for pair in pairs.values() if pair.weight > 0]


def informativeness(pairs: Sequence[WordPair], tokens: Sequence[str], weighted: WeightedQuery) -> float:
    """How much the pairs say beyond their words, from 0 to 1: the sum of their weights, in largest weights of a word.

    A pair of a rare and a common word, such as "the dog", says hardly more than the rare word. It is 1 for a longer
    query, and if a pair is written without a space, as codes are.
    """
    is_written_together = any(" " not in spelling for pair in pairs for spelling in pair.spellings)
    if len(tokens) > FEW_TOKENS or is_written_together:
        return 1.0
    return min(1.0, sum(pair.weight for pair in pairs) / max(word.weight for word in weighted.words))


def share_of_pairs(pairs: Sequence[WordPair], *texts: str) -> float:
    """The share of the pairs, by weight, that a document has; a pair is also found within longer words."""
    line = " ".join(map(normalise, texts))
    found = sum(pair.weight for pair in pairs if any(spelling in line for spelling in pair.spellings))
    return found / sum(pair.weight for pair in pairs) if pairs else 0.0


@cached_for_recent_texts
def normalise(text: str) -> str:
    """A text in lower case, in Unicode NFKC, with single spaces between words."""
    return " ".join(normal_form("NFKC", text).lower().split())
