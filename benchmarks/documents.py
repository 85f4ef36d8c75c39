"""Made-up documents for benchmarks of search: any number of them, in four languages, with titles.

Words are as frequent as in real texts (Zipf's law), have inflected forms, and are spelled by syllables of their
language. The documents of a concept are in two languages and share topics (see ``data.synthetic``), so that a model
learns which words mean the same.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from cr5.corpus.documents import Document
from data import CHUNK, _concepts, _draw, _key, _topics

LANGS = ("en", "de", "fr", "it")
WORDS = 200_000  # of each language
ENDINGS = {"en": ("", "s", "ed"), "de": ("e", "en", "er"), "fr": ("e", "es", "ait"), "it": ("o", "i", "are")}
CONSONANTS = {"en": "bdfghklmnprstwy", "de": "bdfghklmnprstwz", "fr": "bcdfgjlmnpqrstv", "it": "bcdfglmnpqrstvz"}
VOWELS = "aeiou"
SHORT_LEMMAS, MEDIUM_LEMMAS = 100, 5_000  # the most frequent ones, which have fewer syllables
TITLE_WORDS = (2, 5)
SENTENCE_WORDS = 12


@cache
def spellings(lang: str) -> Any:
    """The words of a language, the most frequent first: three forms of every lemma."""
    consonants, words, taken = CONSONANTS[lang], list[str](), set[str]()
    rng = np.random.default_rng(LANGS.index(lang))
    while len(words) < WORDS:
        lemmas = len(words) // 3
        syllables = 1 if lemmas < SHORT_LEMMAS else 2 if lemmas < MEDIUM_LEMMAS else int(rng.integers(3, 5))
        letters = [consonants[rng.integers(len(consonants))] + VOWELS[rng.integers(5)] for _ in range(syllables)]
        stem = "".join(letters) + consonants[rng.integers(len(consonants))]
        if stem not in taken:
            taken.add(stem)
            words += [stem + ending for ending in ENDINGS[lang]]
    return np.array(words[:WORDS], dtype=object)


def documents(number: int, words: int = 60, seed: int = 0) -> Iterator[Document]:
    """Documents of about so many words, the languages in turn."""
    keys = [_key(seed, i) for i in range(len(LANGS))]
    ids = [_concepts(np, number, max(number // 2, 1), i, len(LANGS), keys[i]) for i in range(len(LANGS))]
    for begin in range(0, max(map(len, ids)), CHUNK):
        parts = [
            _part(ids[i][begin : begin + CHUNK], begin, words, lang, keys[i], seed) for i, lang in enumerate(LANGS)
        ]
        for row in range(CHUNK):
            yield from (part[row] for part in parts if row < len(part))


def _part(ids: Any, begin: int, words: int, lang: str, key: Any, seed: int) -> list[Document]:
    """The documents of some concepts in one language, whose first is number ``begin`` of that language."""
    if not len(ids):
        return []
    vocabulary = spellings(lang)
    numbers = _draw(np, _topics(np, ids, _key(seed, len(LANGS))), begin, words + SENTENCE_WORDS, key, WORDS)
    rng, made = np.random.default_rng([seed, begin]), []
    for concept, row in zip(ids.tolist(), numbers, strict=True):
        length = words + int(rng.integers(-SENTENCE_WORDS, SENTENCE_WORDS + 1))
        tokens = vocabulary[row[:length]]
        sentences = [" ".join(tokens[i : i + SENTENCE_WORDS]) for i in range(0, length, SENTENCE_WORDS)]
        # A title has the rarest of the words that the topics favour, as headings do.
        topical = np.unique(row[1:length:2])[::-1][: int(rng.integers(*TITLE_WORDS))]
        title = " ".join(vocabulary[topical])
        made.append(Document(f"c{concept}", lang, ". ".join(sentences) + ".", title=title))
    return made
