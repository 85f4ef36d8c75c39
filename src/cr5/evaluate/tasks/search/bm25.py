"""BM25 over title and text, within one language: the search that every other one is compared with."""

from collections.abc import Collection, Sequence
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from cr5._typing import Array, Sparse
from cr5.evaluate.systems.bm25 import bm25_weights
from cr5.evaluate.tasks.search.documents import LanguageDocuments
from cr5.evaluate.texts import counts_by_column
from cr5.features.counts import count_words

K1, B = 1.5, 0.75
"""Term-frequency saturation and length normalisation. The full text of an index has k1 = 1.2, as Lucene; the baseline
keeps 1.5, the default of rank_bm25, with which the published figures were measured."""


class Bm25Search:
    """Exact BM25 over the documents in one language, tokenised by the tokeniser of the model."""

    def __init__(self, documents: LanguageDocuments) -> None:
        self.documents = documents

    @cached_property
    def _words_by_documents(self) -> Sparse:
        return csr_array(bm25_weights(self.documents.counts.matrix, K1, B).T)

    def ranks(self, texts: Sequence[str], answers: Sequence[Collection[str]], depth: int) -> list[int]:
        """The rank of the first right document for each text; 0 if it is not among the first ``depth``.

        Documents that share no word with the query are not found. Of documents with equal scores, the one whose id
        is smaller comes first.
        """
        documents = self.documents
        counts = count_words(list(texts), documents.lang, documents.tokeniser)
        queries = counts_by_column(counts, documents.column).astype(np.float64)
        scores = csr_array(queries @ self._words_by_documents)
        result = []
        for i, right in enumerate(answers):
            part = slice(scores.indptr[i], scores.indptr[i + 1])
            found = _first_documents(scores.indices[part], scores.data[part], depth)
            ranks = [rank for rank, row in enumerate(found, 1) if documents.ids[row] in right]
            result.append(min(ranks, default=0))
        return result


def _first_documents(rows: Array, scores: Array, depth: int) -> list[int]:
    """The rows with the highest positive scores, best first; of equal ones the smaller number first."""
    order = np.lexsort((rows, -scores))[:depth]
    return [int(rows[i]) for i in order if scores[i] > 0]
