"""Vectors that were computed elsewhere, as a system."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from cr5._typing import Array
from cr5.corpus.languages import canonical_code
from cr5.errors import Cr5Error
from cr5.evaluate.systems.fitted_system import FittedSystem, System
from cr5.evaluate.texts import TokenisedTexts
from cr5.retrieval.block_products import Matrix
from cr5.retrieval.vectors import unit_rows
from cr5.storage.vector_files import read


class PrecomputedVectors(FittedSystem):
    """Vectors by language: row i belongs to the i-th text that is compared."""

    def __init__(self, vectors: Mapping[str, Array], folder: Path) -> None:
        self.vectors, self.folder = vectors, folder
        digest = hashlib.sha256()
        for lang, rows in sorted(vectors.items()):
            digest.update(lang.encode() + rows.tobytes())
        size = next(iter(vectors.values())).shape[1]
        signature = f"vectors {digest.hexdigest()[:8]} of {size} dimensions"
        self.report = {"folder": str(folder), "signature": signature}

    def embed(self, texts: TokenisedTexts, lang: str) -> Matrix:
        if lang not in self.vectors:
            raise Cr5Error(f"{self.folder} has no vectors for language {lang}; add {lang}.npy or {lang}.parquet")
        vectors = self.vectors[lang]
        if len(vectors) != len(texts):
            raise Cr5Error(
                f"{self.folder} has {len(vectors):,} vectors for language {lang}, but {len(texts):,} texts are "
                "compared; encode, in their order, the texts that `held_out_texts` writes"
            )
        return unit_rows(np.asarray(vectors, np.float32))


def read_vectors(folder: Path) -> PrecomputedVectors:
    """Read a folder with one file for each language, en.npy or en.parquet."""
    vectors = {
        canonical_code(path.stem): read(path)
        for path in sorted(folder.iterdir() if folder.is_dir() else [])
        if path.suffix in (".npy", ".parquet")
    }
    if not vectors:
        raise Cr5Error(f"{folder} has no vectors; put one file for each language into it, e.g. en.npy or en.parquet")
    sizes = {lang: rows.shape[1] for lang, rows in vectors.items()}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{size} for {lang}" for lang, size in sizes.items())
        raise Cr5Error(f"{folder} has vectors of different dimensions: {listed}; encode all languages with one model")
    return PrecomputedVectors(vectors, folder)


def as_system(fitted: FittedSystem) -> System:
    """A system that returns this fitted one, whatever the training texts."""
    return lambda training, *, rank, seed: fitted
