"""TokenisedTexts of which only the word counts are known."""

from functools import cached_property

import numpy as np

from cr5._typing import Ints, Mask
from cr5.evaluate.texts import TokenisedTexts
from cr5.features.counts import WordCounts
from cr5.features.tokeniser import Tokens


class CountedTexts(TokenisedTexts):
    """TokenisedTexts whose word counts are given and whose word order is unknown.

    ``frequent`` is the number of frequent words in each document before lower-casing: the authors' limits of 50 and
    1,000 (100 and 700 for queries) apply to it.
    """

    def __init__(self, counts: WordCounts, concepts: Ints, titles: list[str], frequent: Ints) -> None:
        values = {"word_counts": counts, "concepts": concepts, "titles": titles, "frequent": frequent}
        for name, value in values.items():
            object.__setattr__(self, name, value)  # the base class is frozen

    word_counts: WordCounts
    frequent: Ints

    @cached_property
    def counts(self) -> WordCounts:
        return self.word_counts

    @cached_property
    def tokens(self) -> Tokens:
        """Every word as often as it occurs; much larger than the counts, and therefore built on first use."""
        matrix = self.counts.matrix
        lengths = np.concatenate([[0], np.cumsum(matrix.data, dtype=np.int64)])
        return Tokens(self.counts.words, np.repeat(matrix.indices, matrix.data), lengths[matrix.indptr])

    def rows(self, chosen: Ints) -> "CountedTexts":
        titles = [self.titles[i] for i in chosen]
        return CountedTexts(self.counts.select_rows(chosen), self.concepts[chosen], titles, self.frequent[chosen])

    def keep_tokens(self, kept: Mask) -> TokenisedTexts:
        return TokenisedTexts(self.tokens, self.concepts, self.titles).keep_tokens(kept)
