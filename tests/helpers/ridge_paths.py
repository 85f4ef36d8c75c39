"""Data with a signal, and ridge paths over it."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from problems import Problem
from scipy.sparse import csr_array

from cr5._typing import Array, Ints, Sparse
from cr5.training.engines.cpu import CpuEngine
from cr5.training.ridge import (
    RidgePath,
    select_ridge,
)
from cr5.training.solver import Fit

RANK = 8
Embed = Callable[[Fit, Mapping[str, Sparse]], dict[str, Array]]


def signal(concepts: int = 200, words: int = 120, topics: int = RANK, languages: int = 2, seed: int = 0) -> Problem:
    """Documents that say in words of their own what is the same in all languages, beside noise."""
    random = np.random.default_rng(seed)
    meaning = random.standard_normal((concepts, topics))
    blocks, labels = {}, {}
    for i in range(languages):
        ids = random.permutation(concepts)
        X = meaning[ids] @ random.standard_normal((topics, words)) / np.sqrt(topics)
        X = np.maximum(X + random.standard_normal(X.shape) - 0.5, 0)
        blocks[f"l{i}"] = csr_array((X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32))
        labels[f"l{i}"] = ids
    return Problem(blocks, labels)


def embed(fit: Fit, blocks: Mapping[str, Sparse]) -> dict[str, Array]:
    """Centred documents through the maps, as unit rows."""
    vectors = {lang: X @ fit.maps[lang] - fit.means[lang] @ fit.maps[lang] for lang, X in blocks.items()}
    return {lang: V / np.linalg.norm(V, axis=1, keepdims=True) for lang, V in vectors.items()}


def filled(given: Problem, memory: int | None = None) -> CpuEngine:
    """An engine that holds a problem."""
    engine = CpuEngine(memory)
    for lang, X in given.blocks.items():
        engine.put(lang, X, given.concepts[lang])
    return engine


def path_of(given: Problem, embed: Embed = embed, **options: Any) -> RidgePath:
    return select_ridge(filled(given), given.concepts, embed, **options)


def log_likelihood(scores: Array, inverse_temperature: float) -> float:
    """Of the diagonal of queries x candidates, straight from the definition."""
    scaled = inverse_temperature * scores.astype(np.float64)
    return float(np.mean(np.diagonal(scaled) - np.logaddexp.reduce(scaled, axis=1)))


# Scores


def each(n: int, *langs: str) -> dict[str, Ints]:
    return {lang: np.arange(n) for lang in langs}
