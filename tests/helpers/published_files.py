"""Files in the format in which the paper's authors published their models."""

import gzip
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from cr5 import Cr5

Vectors = Mapping[str, Sequence[float]]


def write_published(folder: Path, name: str, languages: Mapping[str, Vectors]) -> Path:
    """Write one file for each language: a line for each word, without a header; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for lang, vectors in languages.items():
        lines = [f"{word} {' '.join(str(number) for number in vector)}\n" for word, vector in vectors.items()]
        write_lines(folder / f"{name}_{lang}.txt.gz", "".join(lines).encode())
    return folder


def write_lines(path: Path, content: bytes) -> Path:
    """Write a file compressed with gzip."""
    path.write_bytes(gzip.compress(content, mtime=0))
    return path


def word_vectors(model: Cr5, names: Mapping[str, str]) -> dict[str, Vectors]:
    """The word vectors of a model's languages, under other codes."""
    return {
        code: dict(zip(model.words(lang), model.word_vectors(lang).astype(float).tolist(), strict=True))
        for lang, code in names.items()
    }


def random_vectors(words: Sequence[str], rank: int, seed: int = 0) -> Vectors:
    """A vector for each word."""
    return dict(zip(words, np.random.default_rng(seed).normal(size=(len(words), rank)).tolist(), strict=True))
