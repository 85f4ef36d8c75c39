"""The background of an index: a sample of its documents for the hubness r(.) of CSLS.

csls(q, c) = 2 cos(q, c) - r(q) - r(c). Here r(c) is the mean cosine of document c with its ``NEIGHBOURS`` nearest
documents in a sample of the query's language, and r(q) that of the query in a sample of c's language. Documents of the
same concept are left out: that translations are close to each other does not make them hubs.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from cr5._typing import Array, Ints
from cr5.retrieval.csls import NEIGHBOURS, means_of_largest, neighbourhood_means
from cr5.storage.atomic import atomic_write

BLOCK_ROWS = 2048  # documents compared at a time, each with a counterpart in the sample


class Background:
    """For each language, in order, a sample of vectors (documents x rank) and the hashes of their concepts."""

    def __init__(self, langs: Sequence[str], vectors: Mapping[str, Array], concepts: Mapping[str, Ints]) -> None:
        self.langs = list(langs)
        self.vectors, self.concepts = dict(vectors), dict(concepts)

    @classmethod
    def empty(cls, langs: Sequence[str], rank: int) -> "Background":
        """The background of an index without documents: every hubness is 0."""
        no_vectors = np.empty((0, rank), np.float32)
        return cls(langs, dict.fromkeys(langs, no_vectors), dict.fromkeys(langs, np.empty(0, np.uint64)))

    @property
    def sizes(self) -> dict[str, int]:
        """The number of sampled documents of each language."""
        return {lang: len(self.vectors[lang]) for lang in self.langs}

    @cached_property
    def stacked(self) -> Array:
        """The vectors of all languages (documents x rank)."""
        return np.concatenate([self.vectors[lang] for lang in self.langs])

    @cached_property
    def _starts(self) -> Ints:
        """Where the vectors of each language begin among those of all, and where the last ones end."""
        return np.cumsum([0, *self.sizes.values()])

    def hubness(self, vectors: Array, concepts: Ints | None = None) -> Array:
        """Vectors (documents x rank) -> documents x languages: the hubness in each sample, 0 if that is empty.

        ``concepts`` are hashes of the documents' concepts.
        """
        if concepts is None and len(vectors) == 1:  # of a query: one product instead of one for each language
            from cr5.retrieval.kernels import means_of_nearest

            return np.asarray(means_of_nearest(self.stacked, vectors[0], self._starts, NEIGHBOURS)[None])
        result = np.zeros((len(vectors), len(self.langs)), np.float32)
        for j, lang in enumerate(self.langs):
            result[:, j] = neighbourhood_means(vectors, self.vectors[lang])
            if concepts is None:
                continue
            # "sort", because NumPy 2.0's tables fail for some hashes of 64 bits
            paired = np.flatnonzero(np.isin(concepts, self.concepts[lang], kind="sort"))
            for begin in range(0, len(paired), BLOCK_ROWS):
                rows = paired[begin : begin + BLOCK_ROWS]
                result[rows, j] = self._means_without_counterparts(vectors[rows], concepts[rows], lang)
        return result

    def _means_without_counterparts(self, vectors: Array, concepts: Ints, lang: str) -> Array:
        """The hubness of documents that have counterparts in the sample, which are left out."""
        cosines = vectors @ self.vectors[lang].T
        cosines[concepts[:, None] == self.concepts[lang]] = -np.inf
        return means_of_largest(cosines)

    def save(self, path: Path) -> None:
        """Write the background to a file, atomically."""
        arrays: dict[str, Any] = {f"vectors.{lang}": self.vectors[lang] for lang in self.langs}
        arrays |= {f"concepts.{lang}": self.concepts[lang] for lang in self.langs}
        with atomic_write(path) as file:
            np.savez(file, **arrays)

    @classmethod
    def load(cls, path: Path, langs: Sequence[str]) -> "Background":
        """Read what ``save`` wrote."""
        with np.load(path, allow_pickle=False) as arrays:
            return cls(
                langs,
                {lang: arrays[f"vectors.{lang}"] for lang in langs},
                {lang: arrays[f"concepts.{lang}"] for lang in langs},
            )
