"""The encoder of one language: word counts -> unit vectors, with words outside the vocabulary by their n-grams."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from cr5._typing import Array
from cr5.features.counts import WordCounts
from cr5.features.subwords import Subwords
from cr5.features.tfidf import Vocabulary, Weighting
from cr5.features.tokeniser import Tokens
from cr5.retrieval.explanations import VectorParts
from cr5.retrieval.vectors import document_vectors, text_vector, times_quantised
from cr5.storage.language_map import LanguageMap

MAX_CACHED_WORDS = 4096  # words outside the vocabulary whose vectors are cached
# Texts encoded at a time: bounds the memory for vectors of out-of-vocabulary words and of a quantised map.
BLOCK_TEXTS = 1024
BLOCK_WORDS = 8192  # different out-of-vocabulary words encoded at a time, of several texts


Share = TypeVar("Share", float, Array)


class Coverage(NamedTuple, Generic[Share]):
    """The shares of a text's tokens that are in the vocabulary, have a known n-gram, or are unknown.

    They add up to 1; a text without tokens has 0 of each. They are numbers for one text, and arrays for several.
    """

    known: Share
    by_subword: Share
    unknown: Share


class EncodedText(NamedTuple):
    """A text in one language: its tokens in order, its unit vector (rank), and the shares of its tokens.

    The vector is all zeros if none of the tokens is known or has a known n-gram.
    """

    tokens: list[str]
    vector: Array
    coverage: Coverage[float]


class OutsideWords(NamedTuple):
    """Words outside the vocabulary that have a known n-gram, in alphabetical order: weights, and words x rank."""

    weights: dict[str, float]
    vectors: Array


class LanguageEncoder:
    """Turns the words of texts in one language into vectors; threads may share it.

    It keeps the vectors of recent words outside the vocabulary, because many of them come again.
    """

    def __init__(self, language: LanguageMap, weighting: Weighting) -> None:
        self.language = language
        stored = language.subwords
        subwords = Subwords(stored.ngrams, stored.weights, stored.squares) if stored else None
        self._recent: dict[str, tuple[float, Array]] = {}  # word -> weight, vector; every access to it is atomic
        self.vocabulary = Vocabulary(language.words, language.idf, weighting, subwords)

    def vectors(self, counts: WordCounts) -> Array:
        """Word counts -> unit vectors, texts x rank; zero for a text without a word that has a vector."""
        columns = self.vocabulary.columns(counts.words)  # which is most of the work for known words, and done once
        unknown = [counts.words[i] for i in np.flatnonzero(columns < 0).tolist()] if self.language.subwords else []
        is_converted = bool(unknown) or self.language.scale is not None
        texts = len(counts.matrix.indptr) - 1
        parts = min(texts, max(-(-texts // BLOCK_TEXTS), -(-len(unknown) // BLOCK_WORDS))) if is_converted else 1
        if parts > 1:
            blocks = np.array_split(np.arange(texts), parts)
            return np.vstack([self.vectors(counts.select_rows(rows).drop_unused_words()) for rows in blocks])
        outside = self._outside(unknown)
        X, language = self.vocabulary.transform(counts, outside.weights, columns), self.language
        return document_vectors(X, language.map, language.offset, outside.vectors, language.scale)

    def vector(self, words: Sequence[str]) -> Array:
        """The tokens of one text -> what ``vectors`` computes for it in a batch."""
        return self._vector(words, self._outside(self._unknown(words)))

    def encode_text(self, words: list[str]) -> EncodedText:
        """The tokens of one text -> its vector and its coverage."""
        unknown = self._unknown(words)
        outside, total = self._outside(unknown), max(len(words), 1)
        known = sum(word in self.vocabulary.index for word in words)
        by_subword = sum(word in outside.weights for word in unknown)
        shares = np.array([known, by_subword, len(words) - known - by_subword]) / total
        return EncodedText(words, self._vector(words, outside), Coverage(*shares.astype(np.float32).tolist()))

    def parts(self, words: Sequence[str]) -> VectorParts:
        """The tokens of one text -> its vector, and what each different word contributes to it."""
        language, outside = self.language, self._outside(self._unknown(words))
        columns, values = self.vocabulary.transform_words(words, outside.weights)
        known = columns[columns < len(language.words)]
        names = [*(language.words[i] for i in known), *outside.weights]
        summands = values[:, None] * np.vstack([language.vectors(known), outside.vectors])
        vector = summands.sum(axis=0) - language.offset if len(columns) else np.zeros_like(language.offset)
        norm = float(np.linalg.norm(vector)) or 1.0
        return VectorParts(names, summands / norm, vector / norm)

    def coverage(self, tokens: Tokens) -> Coverage[Array]:
        """The shares of each text's tokens."""
        index, outside = self.vocabulary.index, self._outside(self._unknown(tokens.words)).weights
        totals = np.maximum(np.diff(tokens.offsets), 1)

        def share(is_counted: list[bool]) -> Array:
            counted_before = np.concatenate([[0], np.cumsum(np.array(is_counted, bool)[tokens.ids])])
            return np.asarray(np.diff(counted_before[tokens.offsets]) / totals, np.float32)

        in_vocabulary = [word in index for word in tokens.words]
        has_ngram = [word in outside for word in tokens.words]
        neither = [not a and not b for a, b in zip(in_vocabulary, has_ngram, strict=True)]
        return Coverage(share(in_vocabulary), share(has_ngram), share(neither))

    def _vector(self, words: Sequence[str], outside: OutsideWords) -> Array:
        language, row = self.language, self.vocabulary.transform_words(words, outside.weights)
        return text_vector(*row, language.map, language.offset, outside.vectors, language.scale)

    def _unknown(self, words: Iterable[str]) -> list[str]:
        """The words outside the vocabulary, if they may have vectors."""
        index = self.vocabulary.index
        return [word for word in words if word not in index] if self.language.subwords else []

    def _outside(self, words: Sequence[str]) -> OutsideWords:
        """The given words, all outside the vocabulary, if they have a known n-gram."""
        if not words:
            return self._nothing
        found = {word: self._recent.get(word) for word in sorted(set(words))}
        missing, new = [word for word, encoded in found.items() if encoded is None], dict[str, tuple[float, Array]]()
        for i in range(0, len(missing), BLOCK_WORDS):
            new |= self._encode_words(missing[i : i + BLOCK_WORDS])
        if new:
            if len(self._recent) + len(new) > MAX_CACHED_WORDS:
                self._recent.clear()
            self._recent.update(list(new.items())[:MAX_CACHED_WORDS])
        encoded = {word: known or new[word] for word, known in found.items()}
        weights = {word: weight for word, (weight, _) in encoded.items() if weight}
        vectors = [vector for weight, vector in encoded.values() if weight]
        return OutsideWords(weights, np.array(vectors)) if vectors else self._nothing

    def _encode_words(self, words: Sequence[str]) -> dict[str, tuple[float, Array]]:
        """|N| of every word, and N Z / |N| for its row N over the n-grams and their map Z, if it has any."""
        subword_map, subwords = self.language.subwords, self.vocabulary.subwords
        if not words or subword_map is None or subwords is None:
            return {}
        lengths, rows = subwords.unit_rows(words)
        vectors = np.zeros((len(words), len(self.language.offset)), np.float32)
        vectors[lengths > 0] = times_quantised(rows, subword_map.map, subword_map.scale)
        return {
            word: (length, vector.copy())  # a view would keep all of them in memory
            for word, length, vector in zip(words, lengths.tolist(), vectors, strict=True)
        }

    @cached_property
    def _nothing(self) -> OutsideWords:
        return OutsideWords({}, np.zeros((0, self.language.offset.size), np.float32))
