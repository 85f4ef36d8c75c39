"""Okapi BM25 over the words that two languages share, as Lucene computes it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from cr5._typing import Sparse
from cr5.evaluate.systems.fitted_system import FittedSystem
from cr5.evaluate.texts import TokenisedTexts, counts_by_column
from cr5.retrieval.block_products import Matrix
from cr5.retrieval.bm25 import K1, B, inverse_document_frequencies, saturations


def bm25(training: Mapping[str, TokenisedTexts], *, rank: int, seed: int) -> FittedSystem:
    """score(q, d) = sum over the tokens of q of idf tf / (tf + k1 (1 - b + b length / mean length)).

    idf = ln(1 + (n - df + 1/2) / (df + 1/2)) over the n candidates, which are the index; nothing is trained.
    """
    return _Bm25()


class _Bm25(FittedSystem):
    report: Mapping[str, Any] = {"k1": K1, "b": B, "signature": f"k1 {K1}, b {B}"}

    def pair(
        self, queries: TokenisedTexts, query_lang: str, candidates: TokenisedTexts, candidate_lang: str
    ) -> tuple[Matrix, Matrix]:
        """Query rows hold token counts, candidate rows BM25 weights, both over the words of the candidates."""
        column = {word: i for i, word in enumerate(candidates.counts.words)}
        return counts_by_column(queries.counts, column).astype(np.float32), bm25_weights(candidates.counts.matrix)


def bm25_weights(counts: Sparse, k1: float = K1, b: float = B) -> Sparse:
    """Documents x words: idf tf / (tf + k1 (1 - b + b length / mean length))."""
    n, width = counts.shape
    documents = np.bincount(counts.indices, minlength=width)
    idf = inverse_document_frequencies(n, documents)
    lengths = np.asarray(counts.sum(axis=1), np.float64)
    limits = saturations(lengths, lengths.sum() / max(n, 1), k1, b)
    tf = counts.data.astype(np.float64)
    data = idf[counts.indices] * tf / (tf + np.repeat(limits, np.diff(counts.indptr)))
    return csr_array((data.astype(np.float32), counts.indices, counts.indptr), shape=counts.shape)
