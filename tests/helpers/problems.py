"""Small random regression problems with everything that real ones have."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array, random_array

from cr5._typing import Array, Ints, Sparse
from cr5.training.engines.cpu import CpuEngine
from cr5.training.solver import Fit


def random_subwords(blocks: Mapping[str, Sparse], *, seed: int = 0) -> dict[str, Sparse]:
    """Words x subwords for every second language, from the first on: fewer subwords than words, then more;
    a word without any, and a subword that no word has."""
    random = np.random.default_rng(seed)
    subwords = {}
    for i, (lang, X) in enumerate(list(blocks.items())[::2]):
        words = X.shape[1]
        shape = (words, words // 2 + 3 + i * words)
        M = random_array(shape, density=min(1, 5 / shape[1]), rng=random, data_sampler=random.random).toarray()
        if words > 1:
            M[words // 2] = 0
        M[:, 1] = 0
        subwords[lang] = csr_array(M.astype(X.dtype))
    return subwords


class Problem(NamedTuple):
    """Blocks and concept numbers per language."""

    blocks: dict[str, Sparse]
    concepts: dict[str, Ints]


def problem(
    languages: int = 2,
    documents: int = 50,
    words: int = 40,
    concepts: int = 30,
    *,
    seed: int = 0,
    dtype: type = np.float64,
) -> Problem:
    """Languages of unequal size, concepts missing here and there and repeated elsewhere,
    an empty document, a word that occurs nowhere."""
    random = np.random.default_rng(seed)
    blocks, labels = {}, {}
    for i in range(languages):
        shape = (documents + 3 * i, words + 2 * i)
        X = random_array(shape, density=0.2, rng=random, data_sampler=lambda size: random.random(size) + 0.1).toarray()
        X[3] = 0
        X[:, 5] = 0
        blocks[f"l{i}"] = csr_array(X.astype(dtype))
        labels[f"l{i}"] = random.integers(0, concepts, shape[0])
    return Problem(blocks, labels)


def filled(
    blocks: Mapping[str, Sparse], labels: Mapping[str, Ints], subwords: Mapping[str, Sparse] | None = None
) -> CpuEngine:
    """An engine that holds a problem."""
    engine = CpuEngine()
    for lang, X in blocks.items():
        engine.put(lang, X, labels[lang], (subwords or {}).get(lang))
    return engine


def stacked(fit: Fit, subwords: Mapping[str, Sparse] | None = None) -> Array:
    """The maps of every language's words and, below them, of its subwords."""
    own = subwords or {}
    return np.vstack([part for lang, Z in fit.maps.items() for part in ([Z, own[lang].T @ Z] if lang in own else [Z])])
