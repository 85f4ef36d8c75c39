"""Concept targets: a vector for every concept that a model was trained on, to which another language can be fitted."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from cr5._typing import Array, Ints
from cr5.hashing import find_hashes, hash_texts
from cr5.storage.language_map import half_precision


@dataclass(frozen=True)
class ConceptTargets:
    """The targets of c concepts, rank r.

    hashes: c hashes of the concepts' names, ascending, uint64. values: c x r in half precision, to be multiplied by
    ``scale`` (1 number, float32). intercept: r, float32, that of all languages; zero if each has its own.
    """

    hashes: Ints
    values: Array
    scale: Array
    intercept: Array

    @classmethod
    def make(cls, names: Iterable[str], vectors: Array, intercept: Array) -> "ConceptTargets":
        """From a vector for every name."""
        hashes = hash_texts(names)
        order = np.argsort(hashes)
        values, scale = half_precision(vectors[order])
        return cls(hashes[order], values, scale, np.asarray(intercept, np.float32))

    def find(self, names: Iterable[str]) -> Ints:
        """The row of every concept, -1 if it has no target."""
        return find_hashes(self.hashes, hash_texts(names))

    def vectors(self, rows: Ints) -> Array:
        """The targets of some concepts in single precision, without the intercept."""
        return np.asarray(self.values[rows].astype(np.float32) * self.scale - self.intercept)


def targets_nbytes(concepts: int, rank: int) -> int:
    """The number of bytes of the targets of a number of concepts."""
    return concepts * (8 + 2 * rank) + 4 + 4 * rank
