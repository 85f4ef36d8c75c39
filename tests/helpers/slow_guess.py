"""Language guessing as its definition reads: one text, one language and one word at a time."""

from collections.abc import Mapping, Sequence

import numpy as np

from cr5.corpus import identification
from cr5.corpus.identification import EXCERPT_SIZE, Guess
from cr5.corpus.languages import bcp47_code, primary_subtag
from cr5.features.language_guess import IDENTIFIER_WEIGHT, OOV_FACTOR, OOV_NATS_PER_BYTE, ZIPF_SHIFT
from cr5.features.tokeniser import Tokeniser


def guess_language(text: str, ranks: Mapping[str, Mapping[str, int]], tokeniser: Tokeniser) -> Guess:
    """argmax over languages of log P(text | lang) + w log P(lang | characters), with its posterior probability.

    A text without words is equally probable in all languages. Of equally probable languages, it is the one with most
    words.
    ``ranks`` are those of the words in the vocabulary of each language.
    """
    costs = {lang: _costs(len(words)) for lang, words in ranks.items()}
    unknown_cost = np.log(OOV_FACTOR) + max(
        np.log(len(words) + ZIPF_SHIFT) + costs[lang] for lang, words in ranks.items()
    )
    scores = []
    for lang, prior in zip(ranks, _prior(text, list(ranks)), strict=True):
        tokens = tokeniser([text], lang)
        score = IDENTIFIER_WEIGHT * np.log(prior)
        for word in (tokens.words[i] for i in tokens.ids):
            if word in ranks[lang]:
                score -= np.log(ranks[lang][word] + ZIPF_SHIFT) + costs[lang]
            else:
                score -= max(unknown_cost, OOV_NATS_PER_BYTE * len(word.encode()))
        scores.append(score)
    if not any(tokeniser.words(text, lang) for lang in ranks):
        scores = [0.0] * len(scores)
    posterior = np.exp(np.array(scores) - max(scores))
    best = max((i for i, share in enumerate(posterior) if share > 1 - 1e-6), key=lambda i: len(list(ranks.values())[i]))
    return Guess(list(ranks)[best], float(posterior[best] / posterior.sum()))


def _costs(size: int) -> float:
    """The logarithm of the sum of 1 / (i + ZIPF_SHIFT) for i below ``size``, approximately."""
    return float(np.log(np.log((size + ZIPF_SHIFT - 0.5) / (ZIPF_SHIFT - 0.5))))


def _prior(text: str, langs: Sequence[str]) -> list[float]:
    """The identifier's probability of each language, with sum 1; one that it does not know gets 1 / languages."""
    identified = identify(text)
    shares = [identified.get(lang, identified.get(primary_subtag(lang))) for lang in langs]
    total = sum(filter(None, shares)) + 1e-12
    prior = [1e-9 + (1 / len(langs) if share is None else share / total) for share in shares]
    return [share / sum(prior) for share in prior]


def identify(text: str) -> dict[str, float]:
    """The identifier's probability of each language, from its own function for one text."""
    excerpt = text[:EXCERPT_SIZE].encode("utf-8", "replace")[:EXCERPT_SIZE]
    return {bcp47_code(label): share for label, share in identification._identifier().rank(excerpt)}
