"""Cr5 itself, and vectors from elsewhere, as systems to measure."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from cr5._typing import Array
from cr5.errors import Cr5Error
from cr5.evaluate.systems.space import Space, System
from cr5.evaluate.texts import TokenisedTexts
from cr5.features.tfidf import Vocabulary
from cr5.language_map import LanguageMap
from cr5.progress import ProgressCallback, silent
from cr5.retrieval.block_products import Rows
from cr5.retrieval.vectors import document_vectors, unit_rows
from cr5.settings import PRESETS, Settings
from cr5.storage.vector_files import read
from cr5.training.collection import Collection, Documents
from cr5.training.engines import Engine
from cr5.training.pipeline import train


class Cr5Space(Space):
    """A trained cr5 model that takes counted texts."""

    def __init__(self, languages: Mapping[str, LanguageMap], settings: Settings, report: Mapping[str, object]) -> None:
        self.report = report
        self.features = {lang: Vocabulary(own.words, own.idf, settings.weighting) for lang, own in languages.items()}
        self.languages = languages

    @property
    def langs(self) -> list[str]:
        return list(self.languages)

    def embed(self, texts: TokenisedTexts, lang: str) -> Rows:
        """Unit rows, as ``Cr5.encode`` gives them."""
        own = self.languages[lang]
        return document_vectors(self.features[lang].transform(texts.counts), own.map, own.offset)

    def words(self, lang: str) -> list[str]:
        """A language's vocabulary, most frequent word first."""
        return self.languages[lang].words

    def vectors(self, lang: str) -> Array:
        """words x rank: the vector of every word of ``words``."""
        return self.languages[lang].map

    def coverage(self, texts: TokenisedTexts, lang: str) -> Array:
        """The share of each text's words, repetitions counted, that the model knows."""
        index = self.features[lang].index
        known = np.array([word in index for word in texts.counts.words], float)
        matrix = texts.counts.matrix
        return np.asarray((matrix @ known) / np.maximum(matrix.sum(axis=1), 1))


def cr5_system(settings: Settings, *, engine: Engine | None = None, progress: ProgressCallback = silent) -> System:
    """Cr5 with these settings; rank and seed are theirs."""

    def fit(training: Mapping[str, TokenisedTexts], *, rank: int, seed: int) -> Space:
        size = 1 + max(int(texts.concepts.max(initial=-1)) for texts in training.values())
        names = [f"{i:010d}" for i in range(size)]  # in the order of their numbers
        documents = {
            lang: Documents(texts.counts, texts.concepts, np.zeros(len(texts), np.int64), np.arange(len(texts)))
            for lang, texts in training.items()
        }
        languages, report = train(
            Collection(names, ["evaluation"], documents), settings, engine=engine, progress=progress
        )
        kept = {name: value for name, value in report.items() if name != "eigenvalues"}
        return Cr5Space(languages, settings, kept | {"signature": describe(settings, report["ridge"])})

    return fit


def describe(settings: Settings, ridge: float) -> str:
    """The settings in a few words: the preset, what was changed from it, the rank and the ridge that was used."""
    preset, own = PRESETS[settings.preset].to_json(), settings.to_json()
    flat = {name: value for part in ("weighting", "tokeniser") for name, value in own[part].items()}
    base = {name: value for part in ("weighting", "tokeniser") for name, value in preset[part].items()}
    flat |= {name: own[name] for name in ("intercept", "metric", "tol", "max_steps", "seed")}
    base |= {name: preset[name] for name in ("intercept", "metric", "tol", "max_steps", "seed")}
    changed = [f"{name}={value}" for name, value in flat.items() if value != base[name]]
    return "|".join([f"preset {settings.preset}", *changed, f"rank {settings.rank}", f"ridge {ridge:g}"])


class PrecomputedVectors(Space):
    """Vectors from elsewhere: row i belongs to text i of what is compared."""

    def __init__(self, vectors: Mapping[str, Array], folder: Path) -> None:
        self.vectors, self.folder = vectors, folder
        digest = hashlib.sha256()
        for lang, rows in sorted(vectors.items()):
            digest.update(lang.encode() + rows.tobytes())
        size = next(iter(vectors.values())).shape[1]
        signature = f"vectors {digest.hexdigest()[:8]} of {size} dimensions"
        self.report = {"folder": str(folder), "signature": signature}

    def embed(self, texts: TokenisedTexts, lang: str) -> Rows:
        """The rows of a language, to length 1."""
        if lang not in self.vectors:
            raise Cr5Error(f"{self.folder} has no vectors for language {lang}; add {lang}.npy or {lang}.parquet")
        vectors = self.vectors[lang]
        if len(vectors) != len(texts):
            raise Cr5Error(
                f"{self.folder} has {len(vectors):,} vectors for language {lang}, and {len(texts):,} texts are to be "
                "compared; encode those that --texts FOLDER writes, line by line"
            )
        return unit_rows(np.asarray(vectors, np.float32))


def read_vectors(folder: Path) -> PrecomputedVectors:
    """The vectors of a folder, a file for each language: row i belongs to line i of what ``--texts`` writes."""
    found = {
        path.stem: read(path)
        for path in sorted(folder.iterdir() if folder.is_dir() else [])
        if path.suffix in (".npy", ".parquet")
    }
    if not found:
        raise Cr5Error(f"{folder} has no vectors; put a file for each language into it, e.g. en.npy or en.parquet")
    sizes = {lang: vectors.shape[1] for lang, vectors in found.items()}
    if len(set(sizes.values())) > 1:
        told = ", ".join(f"{size} in {lang}" for lang, size in sizes.items())
        raise Cr5Error(f"{folder} has vectors of different dimensions, {told}; encode all languages alike")
    return PrecomputedVectors(found, folder)


def pretrained(space: Space) -> System:
    """A system that needs no training any more."""
    return lambda training, *, rank, seed: space
