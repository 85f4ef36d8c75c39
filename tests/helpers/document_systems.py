"""Systems and documents that show what an evaluation does with them."""

from collections.abc import Mapping

import madeup
import numpy as np

from cr5._typing import Array
from cr5.corpus.documents import Document
from cr5.evaluate.systems.fitted_system import FittedSystem, NotApplicableError, System
from cr5.evaluate.texts import TokenisedTexts
from cr5.retrieval.block_products import Matrix


def shuffled(system: System) -> System:
    """The same system, trained on documents whose concepts have been shuffled."""

    def fit(training: Mapping[str, TokenisedTexts], *, rank: int, seed: int) -> FittedSystem:
        random = np.random.default_rng(5)
        mixed = {
            lang: TokenisedTexts(texts.tokens, random.permutation(texts.concepts), texts.titles)
            for lang, texts in training.items()
        }
        return system(mixed, rank=rank, seed=seed)

    return fit


class Spy(FittedSystem):
    """A fitted system that remembers what it was given."""

    def __init__(self, training: Mapping[str, TokenisedTexts], seen: list[set[int]]) -> None:
        seen.append({int(c) for texts in training.values() for c in texts.concepts})

    def embed(self, texts: TokenisedTexts, lang: str) -> Matrix:
        return np.ones((len(texts), 2), np.float32)


def paragraphs() -> list[Document]:
    """A parallel corpus: 6 paragraphs with the same content in every language."""
    random = np.random.default_rng(0)
    found = []
    for i in range(200):
        core = random.choice(madeup.MEANINGS, 20, replace=False)
        lines = [random.choice(core, 12).tolist() for _ in range(6)]
        found += [
            Document(f"Q{i}", lang, "\n".join(madeup.text(lang, line) for line in lines)) for lang in ("aa", "bb")
        ]
    return found


class OneWay(FittedSystem):
    """A fitted system that knows one direction only."""

    def pair(
        self, queries: TokenisedTexts, source: str, candidates: TokenisedTexts, target: str
    ) -> tuple[Array, Array]:
        if source != "aa":
            raise NotApplicableError("it asks in aa only")
        return np.eye(len(queries), 9, dtype=np.float32), np.eye(len(candidates), 9, dtype=np.float32)


def failing(error: Exception) -> System:
    """A system whose training raises an error."""

    def fit(training: Mapping[str, TokenisedTexts], *, rank: int, seed: int) -> FittedSystem:
        raise error

    return fit
