"""Language identification with the vocabularies of a model, by word frequencies and a character-based identifier."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import exp, log
from typing import NamedTuple

import numpy as np

from cr5._typing import Array, Ints
from cr5.corpus.identification import Guess, identified_languages, identify, identify_one
from cr5.corpus.languages import canonical_code, primary_subtag
from cr5.features.counts import WordCounts, count_words
from cr5.features.tokeniser import Tokeniser
from cr5.hashing import find_hashes

ZIPF_SHIFT = 2.7  # Mandelbrot's: the word at rank i, from 0, has a probability of about 1 / (i + ZIPF_SHIFT)
OOV_FACTOR = 10  # how many times less probable an unknown word is than the rarest word of any language
OOV_NATS_PER_BYTE = 2.0  # the least cost of an unknown word: to most languages, a text without spaces is one long word
EQUAL_NATS = 1e-6  # languages whose scores differ by less are equally probable
RECENT_WORDS = 4096  # of short texts, whose costs in each language are remembered
IDENTIFIER_WEIGHT = 0.5  # weight of its log probabilities, which are not independent of those of the words


class GuessedTexts(NamedTuple):
    """The language of each text, and the word counts of all texts, as each language's rules tokenise them."""

    guesses: list[Guess]
    counts: dict[str, WordCounts]


class GuessedText(NamedTuple):
    """The language of one text, the probability of each, and the tokens of the text by each language's rules."""

    guess: Guess
    probabilities: dict[str, float]
    tokens: dict[str, list[str]]


@dataclass(frozen=True)
class JointVocabulary:
    """The words of several languages in one table: which languages have a word, and its frequency rank in each.

    Words are represented by their 64-bit hashes, in ascending order, each once. Entries ``starts[i]`` to
    ``starts[i + 1]`` belong to word i: word ``rank`` of language l is entry ``offsets[l] + rank``. This takes 12 to 16
    bytes for each word of a language, a tenth of a dictionary; that any of ten million words is confused with a word
    of a text has a probability of 1 to 10^12.
    """

    hashes: Ints
    starts: Ints
    entries: Ints
    offsets: Ints

    @classmethod
    def from_words(cls, vocabularies: Sequence[Sequence[str]]) -> "JointVocabulary":
        """The words of each language, most frequent first."""
        hashes = np.concatenate([_hashes(words) for words in vocabularies])
        entries = np.argsort(hashes).astype(np.int32)
        hashes = hashes[entries]
        starts = np.flatnonzero(np.diff(hashes, prepend=~hashes[:1]))
        offsets = np.cumsum([0, *map(len, vocabularies)])
        return cls(hashes[starts], np.append(starts, len(hashes)).astype(np.int32), entries, offsets)

    def find(self, words: Sequence[str]) -> tuple[Ints, Ints, Ints]:
        """Where words occur: which of them, in which language, at which rank; one element for each occurrence."""
        position = find_hashes(self.hashes, _hashes(words))
        known = np.flatnonzero(position >= 0)
        first, last = self.starts[position[known]], self.starts[position[known] + 1]
        word = np.repeat(known, last - first)
        within = np.arange(len(word)) - np.repeat(np.cumsum(last - first) - (last - first), last - first)
        entry = self.entries[np.repeat(first, last - first) + within]
        lang = np.searchsorted(self.offsets, entry, side="right") - 1
        return word, lang, entry - self.offsets[lang]

    def find_in_each(self, words: Sequence[str]) -> list[list[tuple[int, int]]]:
        """For each of a few words, the languages that have it, and its rank there."""
        starts, entries, offsets = self._views
        return [
            [
                ((lang := bisect_right(offsets, entry) - 1), entry - offsets[lang])
                for entry in entries[starts[position] : starts[position + 1]]
            ]
            if position >= 0
            else []
            for position in find_hashes(self.hashes, _hashes(words)).tolist()
        ]

    @cached_property
    def _views(self) -> tuple[memoryview, memoryview, list[int]]:
        """Starts, entries and offsets, whose single elements are read without the overhead of NumPy."""
        return self.starts.data, self.entries.data, self.offsets.tolist()


class LanguageGuesser:
    """Guesses which of several languages texts are in: argmax of log P(text | lang) + w log P(lang | characters).

    Zipf's law estimates the probability of a word from its frequency rank. The character-based identifier, of weight
    w, helps if words are few or unknown. A text without words is equally probable in all languages.

    ``vocabularies`` has the words of each language, most frequent first.
    """

    def __init__(self, vocabularies: Mapping[str, Sequence[str]], tokeniser: Tokeniser) -> None:
        self.langs, self.tokeniser = list(vocabularies), tokeniser
        sizes = np.array([len(words) for words in vocabularies.values()])
        self._sizes = sizes
        self._log_totals = np.log(np.log((sizes + ZIPF_SHIFT - 0.5) / (ZIPF_SHIFT - 0.5)))
        self._oov_cost = np.log(OOV_FACTOR) + (np.log(sizes + ZIPF_SHIFT) + self._log_totals).max()
        # Languages that are tokenised alike share the tokens of a text.
        self._columns: dict[str, list[int]] = {}
        for column, lang in enumerate(self.langs):
            self._columns.setdefault(tokeniser.rules_key(lang), []).append(column)
        position = {lang: i for i, lang in enumerate(identified_languages())}
        codes = map(canonical_code, self.langs)
        found = [position.get(code, position.get(primary_subtag(code), -1)) for code in codes]
        self._identified = np.array(found)  # the column of each language in what the identifier returns, -1 if none
        self._vocabulary = JointVocabulary.from_words(list(vocabularies.values()))
        self._recent: dict[str, list[float]] = {}  # the costs of recent words

    def __call__(self, texts: Sequence[str]) -> GuessedTexts:
        """The most probable language of each text, with its posterior probability."""
        scores = IDENTIFIER_WEIGHT * np.log(self._shares(identify(texts)))
        counts: dict[str, WordCounts] = {}
        has_words = np.zeros(len(texts), bool)
        for columns in self._columns.values():
            counted = count_words(texts, self.langs[columns[0]], self.tokeniser)
            scores[:, columns] -= counted.matrix @ self._costs(counted.words)[:, columns]
            counts |= {self.langs[column]: counted for column in columns}
            has_words |= counted.unique_words > 0
        scores[~has_words] = 0.0
        return GuessedTexts(self._most_probable(scores), counts)

    def guess(self, text: str) -> Guess:
        """The most probable language of one text, without the overhead of a batch."""
        return self.read(text).guess

    def read(self, text: str) -> GuessedText:
        """The probability of every language of one text, and its tokens, without the overhead of a batch."""
        scores = [IDENTIFIER_WEIGHT * log(share) for share in self._shares_of_one(text)]
        tokens: dict[str, list[str]] = {}
        for columns in self._columns.values():
            words = self.tokeniser.words(text, self.langs[columns[0]])
            for costs in self._costs_of_each(words):
                for column in columns:
                    scores[column] -= costs[column]
            tokens |= dict.fromkeys([self.langs[column] for column in columns], words)
        scores = scores if any(tokens.values()) else [0.0] * len(scores)
        largest = max(scores)
        shares = [exp(score - largest) for score in scores]
        total = sum(shares)
        probabilities = {lang: share / total for lang, share in zip(self.langs, shares, strict=True)}
        best = [i for i, score in enumerate(scores) if score > largest - EQUAL_NATS]
        likely = self.langs[max(best, key=self._sizes.__getitem__)]
        return GuessedText(Guess(likely, probabilities[likely]), probabilities, tokens)

    def _most_probable(self, scores: Array) -> list[Guess]:
        """The language with the largest score of each text (texts x languages), and its posterior probability.

        Of languages that are equally probable, as for a text without a letter, it is the one with most words.
        """
        largest = scores.max(axis=1, keepdims=True)
        best = np.where(scores > largest - EQUAL_NATS, self._sizes, -1).argmax(axis=1)
        confidences = 1 / np.exp(scores - largest).sum(axis=1)
        return [Guess(self.langs[i], share) for i, share in zip(best.tolist(), confidences.tolist(), strict=True)]

    def _shares(self, identified: Array) -> Array:
        """What ``identify`` returns -> texts x languages, with sum 1; 1 / languages where it has none."""
        is_known = self._identified >= 0
        identified = identified[:, self._identified[is_known]].astype(np.float64)
        priors = np.full((len(identified), len(self.langs)), 1 / len(self.langs))
        priors[:, is_known] = identified / (identified.sum(axis=1, keepdims=True) + 1e-12)
        priors += 1e-9
        return np.asarray(priors / priors.sum(axis=1, keepdims=True))

    def _shares_of_one(self, text: str) -> list[float]:
        """The row that ``_shares`` has for one text."""
        identified, columns = identify_one(text).tolist(), self._identified.tolist()
        known = [identified[column] for column in columns if column >= 0]
        total, share = sum(known) + 1e-12, 1 / len(columns)
        priors = [(identified[column] / total if column >= 0 else share) + 1e-9 for column in columns]
        total = sum(priors)
        return [prior / total for prior in priors]

    def _costs_of_each(self, words: Sequence[str]) -> list[list[float]]:
        """The rows that ``_costs`` has for a few words; those of recent words are remembered."""
        recent, log_totals, oov_cost = self._recent, self._log_totals.tolist(), float(self._oov_cost)
        new = [word for word in words if word not in recent]
        if len(recent) + len(new) > RECENT_WORDS:
            recent, new = {}, list(words)  # other threads may still be reading the old one
        for word, found in zip(new, self._vocabulary.find_in_each(new) if new else (), strict=True):
            costs = [max(oov_cost, OOV_NATS_PER_BYTE * len(word.encode()))] * len(log_totals)
            for lang, rank in found:
                costs[lang] = log(rank + ZIPF_SHIFT) + log_totals[lang]
            recent[word] = costs
        if len(recent) <= RECENT_WORDS:
            self._recent = recent
        return [recent[word] for word in words]

    def _costs(self, words: Sequence[str]) -> Array:
        """Words x languages: the negative log probability of each word, and the cost of an unknown one."""
        spelling_costs = np.array([OOV_NATS_PER_BYTE * len(word.encode()) for word in words])
        costs = np.repeat(np.maximum(self._oov_cost, spelling_costs)[:, None], len(self.langs), axis=1)
        word, lang, rank = self._vocabulary.find(words)
        costs[word, lang] = np.log(rank + ZIPF_SHIFT) + self._log_totals[lang]
        return costs


def _hashes(words: Sequence[str]) -> Ints:
    return np.fromiter(map(hash, words), np.int64, len(words))
