"""The background of an index: a sample of its documents, against which hubs are told.

CSLS is 2 cos(q, c) - r(q) - r(c). Here r(c) is c's mean cosine with the ``NEIGHBOURS`` nearest documents of a
sample of the query's language, and r(q) is q's with those of a sample of c's language. Documents of the same concept
do not count: that a counterpart is close is what is asked for, and no sign of a hub.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cr5._typing import Array, Ints
from cr5.retrieval.csls import means_of_largest, neighbourhood_means
from cr5.storage.atomic import replacing

SAMPLE = 2000  # documents of a language at most
TOTAL = 16_000  # of all languages together: every document of the index is compared with each of them
ROWS = 2048  # documents with a counterpart in the sample that are compared at a time


class Background:
    """For every language, in order, a sample of vectors (documents x rank) and the digests of their concepts."""

    def __init__(self, langs: Sequence[str], vectors: Mapping[str, Array], concepts: Mapping[str, Ints]) -> None:
        self.langs = list(langs)
        self.vectors, self.concepts = dict(vectors), dict(concepts)

    @classmethod
    def empty(cls, langs: Sequence[str], rank: int) -> "Background":
        """Before there is a document: nothing is a hub."""
        none = np.empty((0, rank), np.float32)
        return cls(langs, dict.fromkeys(langs, none), dict.fromkeys(langs, np.empty(0, np.uint64)))

    @property
    def sizes(self) -> dict[str, int]:
        """How many documents stand for each language."""
        return {lang: len(self.vectors[lang]) for lang in self.langs}

    @property
    def stacked(self) -> Array:
        """The vectors of all languages (documents x rank)."""
        return np.concatenate([self.vectors[lang] for lang in self.langs])

    def hubness(self, vectors: Array, concepts: Ints | None = None) -> Array:
        """Vectors (documents x rank) -> documents x langs: the mean cosine with the nearest of each language's sample.

        Of a language without a sample it is 0. ``concepts`` are digests of what the documents are about.
        """
        result = np.zeros((len(vectors), len(self.langs)), np.float32)
        for j, lang in enumerate(self.langs):
            result[:, j] = neighbourhood_means(vectors, self.vectors[lang])
            if concepts is None:
                continue
            paired = np.flatnonzero(np.isin(concepts, self.concepts[lang]))
            for begin in range(0, len(paired), ROWS):
                rows = paired[begin : begin + ROWS]
                result[rows, j] = self._among_others(vectors[rows], concepts[rows], lang)
        return result

    def _among_others(self, vectors: Array, concepts: Ints, lang: str) -> Array:
        """The same for documents that have counterparts in the sample, which do not count."""
        cosines = vectors @ self.vectors[lang].T
        cosines[concepts[:, None] == self.concepts[lang]] = -np.inf
        return means_of_largest(cosines)

    def save(self, path: Path) -> None:
        """Write it, whole or not at all."""
        arrays: dict[str, Any] = {f"vectors.{lang}": self.vectors[lang] for lang in self.langs}
        arrays |= {f"concepts.{lang}": self.concepts[lang] for lang in self.langs}
        with replacing(path) as file:
            np.savez(file, **arrays)

    @classmethod
    def load(cls, path: Path, langs: Sequence[str]) -> "Background":
        """What ``save`` wrote."""
        with np.load(path, allow_pickle=False) as arrays:
            return cls(
                langs,
                {lang: arrays[f"vectors.{lang}"] for lang in langs},
                {lang: arrays[f"concepts.{lang}"] for lang in langs},
            )
