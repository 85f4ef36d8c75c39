"""Language identification with the vocabularies of a model, by word frequencies and a character-based identifier."""

from collections.abc import Mapping, Sequence

import numpy as np

from cr5._typing import Array
from cr5.corpus.identification import Guess, probabilities
from cr5.corpus.languages import primary_subtag
from cr5.features.tokeniser import Tokeniser

ZIPF_SHIFT = 2.7  # Mandelbrot's: the word at rank i, from 0, has a probability of about 1 / (i + ZIPF_SHIFT)
OOV_FACTOR = 10  # how many times less probable an unknown word is than the rarest word of any language
OOV_NATS_PER_BYTE = 2.0  # the least cost of an unknown word: to most languages, a text without spaces is one long word
IDENTIFIER_WEIGHT = 0.5  # of its log probabilities, which are not independent of those of the words


def guess_language(text: str, vocabularies: Mapping[str, Mapping[str, int]], tokeniser: Tokeniser) -> Guess:
    """argmax over languages of log P(text | lang) + w log P(lang | characters), with its posterior probability.

    ``vocabularies`` has the frequency rank of every word of each language, from which Zipf's law estimates its
    probability. The character-based identifier, of weight w, helps if words are few or unknown.
    """
    langs = list(vocabularies)
    totals = {lang: _log_harmonic(len(ranks)) for lang, ranks in vocabularies.items()}
    rarest = max(np.log(len(ranks) + ZIPF_SHIFT) + totals[lang] for lang, ranks in vocabularies.items())
    oov_cost = np.log(OOV_FACTOR) + rarest
    scores = np.log(_prior(text, langs)) * IDENTIFIER_WEIGHT
    for i, lang in enumerate(langs):
        tokens, vocabulary = tokeniser([text], lang), vocabularies[lang]
        ranks = np.array([vocabulary.get(word, -1) for word in tokens.words], float)
        spelling_costs = np.array([OOV_NATS_PER_BYTE * len(word.encode()) for word in tokens.words])
        known_costs = np.log(np.abs(ranks) + ZIPF_SHIFT) + totals[lang]
        costs = np.where(ranks >= 0, known_costs, np.maximum(oov_cost, spelling_costs))
        scores[i] -= np.bincount(tokens.ids, minlength=len(costs)) @ costs
    posterior = np.exp(scores - scores.max())
    best = int(posterior.argmax())
    return Guess(langs[best], float(posterior[best] / posterior.sum()))


def _log_harmonic(size: int) -> float:
    """The logarithm of the sum of 1 / (i + ZIPF_SHIFT) for i below ``size``, approximately."""
    return float(np.log(float(np.log((size + ZIPF_SHIFT - 0.5) / (ZIPF_SHIFT - 0.5)))))


def _prior(text: str, langs: Sequence[str]) -> Array:
    """The identifier's probability of each language, with sum 1; one that it does not know gets 1 / languages."""
    identified = probabilities(text)
    shares = [identified.get(lang, identified.get(primary_subtag(lang))) for lang in langs]
    total = sum(filter(None, shares)) + 1e-12
    prior = 1e-9 + np.array([1 / len(langs) if share is None else share / total for share in shares])
    return np.asarray(prior / prior.sum())
