"""Made-up languages that translate word for word: a corpus whose right answers are known."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cr5 import Document

SYLLABLES = {
    "aa": ("ka", "lo", "mi", "ren", "su", "tav", "pe", "no"),
    "bb": ("жа", "во", "ги", "дун", "ке", "лып", "сю", "ня"),
    "cc": ("βα", "γε", "δι", "θον", "κυ", "λαρ", "μω", "ξη"),
}
"""Three alphabets, so that no two languages share a string."""

LANGS = tuple(SYLLABLES)
MEANINGS = 250
CONCEPTS = 150
HELD_OUT = 40
SETTINGS: dict[str, Any] = {"rank": 60, "ridge": 0.3, "min_documents": 2, "min_unique": 5}


def word(lang: str, meaning: int) -> str:
    """The word for a meaning: its octal digits as syllables."""
    return "".join(SYLLABLES[lang][int(digit)] for digit in f"{meaning:03o}")


def text(lang: str, meanings: Sequence[int]) -> str:
    """A text that says these meanings, in that order."""
    return " ".join(word(lang, meaning) for meaning in meanings)


def corpus(langs: Sequence[str] = LANGS, concepts: int = CONCEPTS, seed: int = 0) -> list[Document]:
    """One document per concept and language: words of the concept's 15 meanings, some noise, no translation."""
    random = np.random.default_rng(seed)
    documents = []
    for i in range(concepts):
        core = random.choice(MEANINGS, 15, replace=False)
        for lang in langs:
            said = [*core, *random.choice(core, 20), *random.choice(MEANINGS, 6)]
            documents.append(Document(f"Q{i:03d}", lang, text(lang, random.permutation(said).tolist()), f"{lang} {i}"))
    return documents


def split(documents: Sequence[Document]) -> tuple[list[Document], list[Document]]:
    """Documents to train on, and those of the last concepts, which training never sees."""
    seen = {f"Q{i:03d}" for i in range(CONCEPTS - HELD_OUT)}
    return [d for d in documents if d.concept in seen], [d for d in documents if d.concept not in seen]


def texts(documents: Sequence[Document], lang: str) -> list[str]:
    """The texts of one language, in the order of their concepts."""
    return [d.text for d in sorted(documents, key=lambda d: d.concept) if d.lang == lang]


def shuffled(documents: Sequence[Document], seed: int = 0) -> list[Document]:
    """The same documents, the concepts of each language dealt out anew."""
    random = np.random.default_rng(seed)
    result = []
    for lang in sorted({d.lang for d in documents}):
        own = [d for d in documents if d.lang == lang]
        names = random.permutation([d.concept for d in own])
        result += [Document(str(name), lang, d.text, d.title) for name, d in zip(names, own, strict=True)]
    return result


def sentence_meanings(number: int, seed: int = 0) -> list[list[int]]:
    """The meanings of so many sentences of ten words."""
    random = np.random.default_rng(seed)
    return [random.choice(MEANINGS, 10, replace=False).tolist() for _ in range(number)]


def sentences(lang: str, meanings: Sequence[Sequence[int]]) -> list[str]:
    """Sentences that say these meanings, each with a capital and a full stop."""
    return [text(lang, said).capitalize() + "." for said in meanings]
