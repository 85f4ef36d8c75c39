"""Word vectors: skip-gram in every language, rotated onto a pivot language, averaged into documents.

The family of baselines that the paper compares itself with (Conneau et al., "Word translation without parallel
data"; Litschko et al., "Unsupervised cross-lingual information retrieval"), trained on the same texts as the other
systems. It ignores concept numbers: what relates the languages is a dictionary, or the strings that they share.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from cr5._typing import Array, Ints
from cr5.errors import needs_package
from cr5.evaluate.dictionaries import WordPairs
from cr5.evaluate.systems.fitted_system import FittedSystem, NotApplicableError, System
from cr5.evaluate.systems.procrustes import Alignment, procrustes, refine
from cr5.evaluate.texts import TokenisedTexts, counts_by_column
from cr5.features.tfidf import tfidf_rows
from cr5.features.tokeniser import Tokens
from cr5.hashing import json_digest
from cr5.machine import available_cores
from cr5.retrieval.vectors import unit_rows

PIVOT = "en"
MIN_SEED_PAIRS = 20  # word pairs that an alignment needs
REFINEMENT_WORDS = 10_000  # number of most frequent words that refinement uses
_MAX_SENTENCE_TOKENS = 10_000  # gensim ignores the rest of a longer sentence
_MIN_BATCHES = 100  # batches per epoch: gensim lowers the learning rate between two batches


@dataclass(frozen=True)
class SkipGram:
    """How vectors are learned from running text; everything else is gensim's default.

    An epoch is one pass over a language's tokens. Small corpora get more epochs, until ``tokens`` have been seen, but
    no more than ``max_epochs``: on 370,000 tokens, 10 epochs gave P@1 86 on validation documents and 30 gave 96.
    Twice as many negative words did not improve documents.
    """

    window: int = 5
    negative: int = 5
    sample: float = 1e-4
    rate: float = 0.025
    min_count: int = 3
    max_words: int = 200_000
    tokens: int = 20_000_000
    min_epochs: int = 5
    max_epochs: int = 30

    def epochs(self, size: int) -> int:
        """The number of passes over a corpus of ``size`` tokens."""
        return int(np.clip(self.tokens // max(size, 1), self.min_epochs, self.max_epochs))


class LanguageVectors(NamedTuple):
    """The words of a language, most frequent first, their positions, unit vectors and IDF."""

    words: list[str]
    position: dict[str, int]
    vectors: Array
    idf: Array


class WordVectorSystem(FittedSystem):
    """Documents as the IDF-weighted mean of the unit vectors of their words."""

    def __init__(self, languages: Mapping[str, LanguageVectors], report: Mapping[str, Any]) -> None:
        self._languages = languages
        self.report = report

    @property
    def langs(self) -> list[str]:
        return list(self._languages)

    def words(self, lang: str) -> list[str]:
        return self._language(lang).words

    def word_vectors(self, lang: str) -> Array:
        return self._language(lang).vectors

    def embed(self, texts: TokenisedTexts, lang: str) -> Array:
        """Unit rows; a text without a known word gets a row of zeros."""
        language = self._language(lang)
        X = tfidf_rows(counts_by_column(texts.counts, language.position), language.idf, "raw")
        return unit_rows(X @ language.vectors)

    def _language(self, lang: str) -> LanguageVectors:
        if lang not in self._languages:
            known = ", ".join(sorted(self._languages))
            raise NotApplicableError(f"there are no word vectors for language {lang}; the languages are {known}")
        return self._languages[lang]


class MonolingualVectors:
    """Skip-gram vectors per language, trained on first use and cached.

    Systems that are trained on several sets of languages or concepts share them: the relations among a
    language's words do not depend on the other languages, and learning them is what takes time.
    """

    def __init__(self, texts: Mapping[str, TokenisedTexts], skip_gram: SkipGram | None = None) -> None:
        self.texts, self.settings = texts, skip_gram or SkipGram()
        self._learned: dict[tuple[str, int, int], LanguageVectors] = {}

    def languages(self, langs: Iterable[str], rank: int, seed: int) -> dict[str, LanguageVectors]:
        """The vectors of these languages, learned in parallel, each on one thread so that a seed determines them."""
        wanted = list(langs)
        missing = [lang for lang in wanted if (lang, rank, seed) not in self._learned]
        learn = _learner(self.settings, rank, seed)
        with ThreadPoolExecutor(available_cores()) as executor:
            learned = executor.map(learn, missing, [self.texts[lang] for lang in missing])
            self._learned |= {(lang, rank, seed): vectors for lang, vectors in zip(missing, learned, strict=True)}
        return {lang: self._learned[lang, rank, seed] for lang in wanted}


def word_vectors(
    monolingual: MonolingualVectors, dictionaries: Mapping[tuple[str, str], WordPairs] | None = None
) -> System:
    """Skip-gram vectors, every language rotated onto the pivot: English, or else the first language by code.

    ``dictionaries`` has the word pairs of two languages by (source, target), in either direction; without it the
    seed pairs are the strings that two vocabularies share.
    """

    def train(training: Mapping[str, TokenisedTexts], *, rank: int, seed: int) -> WordVectorSystem:
        started = time.perf_counter()
        pivot = PIVOT if PIVOT in training else min(training)
        learned = monolingual.languages(training, rank, seed)
        kinds: dict[str, str] = {}
        seeds: dict[str, int] = {}
        alignments: dict[str, Alignment] = {}
        for lang in training:
            if lang != pivot:
                kinds[lang], rows, pivot_rows = _seed_pairs(lang, learned[lang], pivot, learned[pivot], dictionaries)
                seeds[lang] = len(rows)
                X, Y = learned[lang].vectors, learned[pivot].vectors
                W = procrustes(X[rows], Y[pivot_rows])
                alignments[lang] = refine(X[:REFINEMENT_WORDS], Y[:REFINEMENT_WORDS], W)
        tokens = {lang: len(monolingual.texts[lang].tokens.ids) for lang in training}
        report = {
            "signature": f"rank {rank}, {_describe(dictionaries)}",
            "pivot": pivot,
            "words": {lang: len(language.words) for lang, language in learned.items()},
            "kind": kinds,
            "seeds": seeds,
            "rounds": {lang: alignment.rounds for lang, alignment in alignments.items()},
            "csls": {lang: alignment.csls for lang, alignment in alignments.items()},
            "epochs": {lang: monolingual.settings.epochs(size) for lang, size in tokens.items()},
            "settings": {**asdict(monolingual.settings), "dimensions": rank, "workers": 1},
            "seconds": time.perf_counter() - started,
        }
        aligned = {
            lang: language._replace(vectors=unit_rows(language.vectors @ alignments[lang].W.astype(np.float32)))
            if lang in alignments
            else language
            for lang, language in learned.items()
        }
        return WordVectorSystem(aligned, report)

    return train


def centred_unit_rows(vectors: Array) -> Array:
    """Unit length, mean 0, unit length again: what all words have in common distinguishes none of them.

    On validation documents this improved cosine by two points and left CSLS as it was.
    """
    vectors = unit_rows(vectors)
    return unit_rows(vectors - vectors.mean(axis=0))


class TokenLists:
    """Documents as gensim reads them in each epoch: lists of words, divided where it would ignore the rest."""

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens

    def __iter__(self) -> Iterator[list[str]]:
        words = np.array(self.tokens.words, dtype=object)
        for start, end in pairwise(self.tokens.offsets.tolist()):
            for first in range(start, end, _MAX_SENTENCE_TOKENS):
                yield words[self.tokens.ids[first : min(first + _MAX_SENTENCE_TOKENS, end)]].tolist()


def _learner(settings: SkipGram, rank: int, seed: int) -> Callable[[str, TokenisedTexts], LanguageVectors]:
    with needs_package("a system of word vectors", "gensim", "eval"):
        from gensim.models import Word2Vec

    def learn(lang: str, texts: TokenisedTexts) -> LanguageVectors:
        counts = np.bincount(texts.tokens.ids, minlength=1)
        if counts.max() < settings.min_count:
            raise NotApplicableError(
                f"no word of language {lang} occurs {settings.min_count} times in the training texts, "
                "too few for word vectors; add documents"
            )
        size = len(texts.tokens.ids)
        # Each language has its own seed: vectors that start from the same numbers would be aligned by accident.
        language_seed = int(np.random.SeedSequence([seed, *lang.encode()]).generate_state(1)[0])
        model = Word2Vec(
            TokenLists(texts.tokens),
            sg=1,
            vector_size=rank,
            window=settings.window,
            negative=settings.negative,
            sample=settings.sample,
            alpha=settings.rate,
            min_count=settings.min_count,
            max_final_vocab=settings.max_words,
            epochs=settings.epochs(size),
            batch_words=int(np.clip(size // _MIN_BATCHES, 100, _MAX_SENTENCE_TOKENS)),
            seed=language_seed,
            workers=1,
        )
        words = list(model.wv.index_to_key)
        column = {word: i for i, word in enumerate(texts.counts.words)}
        documents = np.bincount(texts.counts.matrix.indices, minlength=len(column))
        idf = np.log(len(texts) / documents[[column[word] for word in words]]).astype(np.float32)
        return LanguageVectors(words, dict(model.wv.key_to_index), centred_unit_rows(model.wv.vectors), idf)

    return learn


def _describe(dictionaries: Mapping[tuple[str, str], WordPairs] | None) -> str:
    """The origin of the seed pairs, for a signature."""
    if dictionaries is None:
        return "identical strings"
    content = sorted((*langs, *pair) for langs, pairs in dictionaries.items() for pair in pairs)
    return f"dictionary {json_digest(content, 8)}"


def _seed_pairs(
    lang: str,
    language: LanguageVectors,
    pivot: str,
    pivot_language: LanguageVectors,
    dictionaries: Mapping[tuple[str, str], WordPairs] | None,
) -> tuple[str, Ints, Ints]:
    """The origin of the seed pairs, and their positions in both vocabularies."""
    forward, backward = (dictionaries or {}).get((lang, pivot)), (dictionaries or {}).get((pivot, lang))
    if dictionaries is None:
        kind, pairs = "identical strings", [(word, word) for word in language.words]
    elif forward is None and backward is None:
        raise NotApplicableError(f"there is no dictionary of {lang} and {pivot}; add one to align their word vectors")
    else:
        kind, pairs = "dictionary", [*(forward or []), *((target, source) for source, target in backward or [])]
    known = [
        (language.position[word], pivot_language.position[translation])
        for word, translation in dict.fromkeys(pairs)
        if word in language.position and translation in pivot_language.position
    ]
    if len(known) < MIN_SEED_PAIRS:
        what = "strings that both languages have" if dictionaries is None else "dictionary entries that both know"
        raise NotApplicableError(
            f"too few {what} to align the word vectors of {lang} and {pivot}: {len(known)} of at least "
            f"{MIN_SEED_PAIRS}; add a larger dictionary"
        )
    rows, pivot_rows = np.array(known, np.int64).T
    return kind, rows, pivot_rows
