"""BM25, as Lucene computes it: the parts of the score that do not depend on how documents are stored.

score(q, d) = sum over the terms of q of weight idf tf / (tf + k1 (1 - b + b length / mean length))
"""

import numpy as np

from cr5._typing import Array, Ints

K1, B = 1.2, 0.75  # term-frequency saturation and length normalisation, the defaults of Lucene


def inverse_document_frequencies(documents: int, frequencies: Ints) -> Array:
    """idf = ln(1 + (n - df + 1/2) / (df + 1/2)) of terms that occur in ``frequencies`` of n ``documents``."""
    return np.asarray(np.log1p((documents - frequencies + 0.5) / (frequencies + 0.5)))


def saturations(lengths: Array, mean_length: float, k1: float = K1, b: float = B) -> Array:
    """k1 (1 - b + b length / mean length) of each document: the term frequency that counts half."""
    return np.asarray(k1 * (1 - b + b * lengths / max(mean_length, 1e-12)))
