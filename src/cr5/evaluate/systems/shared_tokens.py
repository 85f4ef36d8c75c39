"""The shared-token baseline: TF-IDF rows over one vocabulary for all languages.

Two texts are similar only if they share a string: a name, a number, a loanword. Its score is what can be reached on a
corpus without any crosslingual knowledge.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cr5._typing import Array, Sparse
from cr5.corpus.texts import assign_numbers
from cr5.evaluate.systems.fitted_system import FittedSystem
from cr5.evaluate.texts import TokenisedTexts
from cr5.features.counts import WordCounts
from cr5.features.tfidf import (
    Weighting,
    make_vocabulary,
    merge_frequencies,
    remap_columns,
    tfidf_rows,
    word_frequencies,
)
from cr5.retrieval.block_products import Matrix


def shared_tokens(training: Mapping[str, TokenisedTexts], *, rank: int, seed: int) -> FittedSystem:
    """TF-IDF over the union of all vocabularies, with the IDF of all training texts; takes any language.

    A word that no training text has gets the IDF of document frequency 0.
    """
    frequencies = merge_frequencies(word_frequencies(texts.counts) for texts in training.values())
    weighting = Weighting(idf_power=1.0, min_documents=0, max_words=len(frequencies.words), subwords=False)
    features = make_vocabulary(frequencies, weighting)
    report = {"words": len(features.words)}
    unseen_idf = weighting.unseen_idf(frequencies.documents)
    return _SharedTokens(dict(features.index), features.idf, unseen_idf, report)


@dataclass(frozen=True)
class _SharedTokens(FittedSystem):
    """``columns`` gains one entry for every new word, so later rows may be wider; rows of one call have one width."""

    columns: dict[str, int]
    idf: Array
    unseen_idf: float
    report: Mapping[str, Any] = field(default_factory=dict)

    def embed(self, texts: TokenisedTexts, lang: str) -> Matrix:
        return self._rows([texts.counts])[0]

    def pair(
        self, queries: TokenisedTexts, query_lang: str, candidates: TokenisedTexts, candidate_lang: str
    ) -> tuple[Matrix, Matrix]:
        query_rows, candidate_rows = self._rows([queries.counts, candidates.counts])
        return query_rows, candidate_rows

    def _rows(self, parts: Sequence[WordCounts]) -> list[Sparse]:
        columns = self.columns
        columns_of_words = [assign_numbers(part.words, columns, np.int32) for part in parts]
        idf = np.pad(self.idf, (0, len(columns) - len(self.idf)), constant_values=self.unseen_idf)
        return [
            tfidf_rows(remap_columns(part.matrix, columns_of_part, len(idf)), idf, "log")
            for part, columns_of_part in zip(parts, columns_of_words, strict=True)
        ]
