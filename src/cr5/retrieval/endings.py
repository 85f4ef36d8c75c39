"""Regular endings: pairs of endings, such as "" and "s", between which the words of a language alternate.

Two words with a common prefix and a regular pair of endings are probably forms of one word ("wolf" and "wolfs"), and
others probably not ("than" and "thatch"). A pair is regular if enough neighbours in the sorted dictionary of the
language differ by it. Accents count: the syllables of Vietnamese have common letters, but no common forms.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from cr5._typing import Ints

SAMPLE_WORDS, BLOCK_WORDS = 2048, 64  # of a dictionary, in blocks of neighbours
MIN_SHARE, MIN_PAIRS = 0.005, 5  # of the neighbours, that differ by a regular pair of endings
MIN_PREFIX, MAX_ENDING = 3, 4  # characters that two words begin with, and that may differ at the end of each


class Endings(NamedTuple):
    """How many neighbours in a sorted dictionary differ by each pair of endings, and the number of neighbours."""

    pairs: Mapping[tuple[str, str], int]
    neighbours: int

    def are_regular(self, word: str, other: str) -> bool:
        """Whether two words differ by a regular pair of endings."""
        pair = ending_pair(word, other)
        return pair is not None and self.pairs.get(pair, 0) >= max(MIN_PAIRS, MIN_SHARE * self.neighbours)


def count_endings(take: Callable[[Ints], list[str]], count: int) -> Endings:
    """Count the endings in a sample of ``count`` sorted words; ``take`` gives those at some positions."""
    blocks, size = (SAMPLE_WORDS // BLOCK_WORDS, BLOCK_WORDS) if count > SAMPLE_WORDS else (1, count)
    starts = [i * count // blocks for i in range(blocks)]
    neighbours = [pair for start in starts for pair in pairwise(take(np.arange(start, start + size)))]
    found = Counter(ending_pair(a, b) for a, b in neighbours)
    return Endings({pair: each for pair, each in found.items() if pair is not None}, len(neighbours))


def ending_pair(word: str, other: str) -> tuple[str, str] | None:
    """What follows the common prefix of two words, in alphabetical order; None if they have little in common."""
    differing = (i for i, (a, b) in enumerate(zip(word, other, strict=False)) if a != b)
    common = next(differing, min(len(word), len(other)))
    endings = word[common:], other[common:]
    if common < MIN_PREFIX or max(map(len, endings)) > MAX_ENDING:
        return None
    return min(endings), max(endings)
