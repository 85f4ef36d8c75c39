"""The similarity of texts by all views of a model: a weighted mean of cosines, and what each view adds to it."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from cr5._typing import Array, Ints
from cr5.features.counts import WordCounts
from cr5.retrieval.block_products import multiply_chosen, multiply_rows
from cr5.retrieval.explanations import CosineFall, ViewContribution
from cr5.retrieval.scorer import Scorer, View

TYPICAL_DEVIATIONS = {"dense": 0.12, "lexicon": 0.03, "strings": 0.01}
"""Standard deviations of the cosines between documents; fixed, so that a similarity does not depend on other texts.

On five corpora they are 0.09 to 0.14, 0.01 to 0.05 and 0.007 to 0.024 (``benchmarks/similarity.py``).
"""
MAX_REMOVED_WORDS = 100
"""The number of words of a text that are removed to see what they add; each of them makes a text that is compared."""


class TextsOfLanguage(NamedTuple):
    """The word counts of texts in one language, and where they stand among texts in several languages."""

    counts: WordCounts
    lang: str
    positions: Ints


def view_shares(scorer: Scorer) -> dict[str, float]:
    """The share of each active view in a similarity; they add up to 1."""
    scales = scorer.scales({name: TYPICAL_DEVIATIONS[name] for name in scorer.views})
    return {name: scale / sum(scales.values()) for name, scale in scales.items()}


def similarities_across_languages(scorer: Scorer, a: Sequence[TextsOfLanguage], b: Sequence[TextsOfLanguage]) -> Array:
    """texts of a x texts of b: ``similarities`` of texts in several languages, by their positions."""
    result = np.zeros([sum(len(part.positions) for part in side) for side in (a, b)], np.float32)
    for x in a:
        for y in b:
            result[np.ix_(x.positions, y.positions)] = similarities(scorer, x.counts, x.lang, y.counts, y.lang)
    return result


def similarities(scorer: Scorer, a: WordCounts, lang_a: str, b: WordCounts, lang_b: str) -> Array:
    """texts of a x texts of b: the sum over the views of share x cosine; where texts share nothing, a cosine is 0."""
    total = np.zeros((a.matrix.shape[0], b.matrix.shape[0]), np.float32)
    shares = view_shares(scorer)
    for name, pair in scorer.pairs(a, lang_a, b, lang_b).items():
        total += np.float32(shares[name]) * multiply_rows(*pair)
    return total


def pair_similarities(scorer: Scorer, a: WordCounts, lang_a: str, b: WordCounts, lang_b: str) -> Array:
    """The similarity of each text of a with the text of b in the same row."""
    chosen, shares = np.arange(a.matrix.shape[0])[:, None], view_shares(scorer)
    total = np.zeros(len(chosen), np.float32)
    for name, pair in scorer.pairs(a, lang_a, b, lang_b).items():
        total += np.float32(shares[name]) * multiply_chosen(*pair, chosen)[:, 0]
    return total


def explain_views(
    scorer: Scorer,
    a: WordCounts,
    lang_a: str,
    b: WordCounts,
    lang_b: str,
    k: int,
    *,
    max_removed_words: int = MAX_REMOVED_WORDS,
) -> list[ViewContribution]:
    """The share of each view that is switched on, its cosine, and the k words of each text without which it drops most.

    If a text has more than ``max_removed_words`` different words, only those are removed, one at a time, whose own
    cosine with the other text times ln(1 + count) is largest.
    """
    found = []
    a, b = a.drop_unused_words(), b.drop_unused_words()
    for name, share in view_shares(scorer).items():
        cosines = partial(_cosines, scorer.views[name], lang_a=lang_a, lang_b=lang_b)
        words_a = _largest_drops(a, partial(cosines, b=b), k, max_removed_words)
        words_b = _largest_drops(b, partial(cosines, a), k, max_removed_words)
        found.append(ViewContribution(name, share, float(cosines(a, b)[0]), words_a, words_b))
    return found


def _cosines(view: View, a: WordCounts, b: WordCounts, *, lang_a: str, lang_b: str) -> Array:
    """The cosines of one text with others, on whichever side; 0 if the view cannot tell them apart."""
    pair = view.rows(a, lang_a, b, lang_b)
    return np.zeros(max(a.matrix.shape[0], b.matrix.shape[0])) if pair is None else multiply_rows(*pair).ravel()


def _largest_drops(
    text: WordCounts, cosines: Callable[[WordCounts], Array], k: int, max_removed_words: int
) -> list[CosineFall]:
    """The k words without which the cosine of a text drops most, and by how much."""
    removed = np.arange(len(text.words))
    if len(removed) > max_removed_words:
        strength = cosines(_each_word_alone(text)) * np.log1p(text.matrix.toarray()[0])
        removed = np.sort(np.argsort(-strength, kind="stable")[:max_removed_words])
    whole, *others = cosines(_without_each_word(text, removed)).tolist()
    drops = whole - np.array(others)
    order = np.argsort(-drops, kind="stable")[:k]
    return [CosineFall(text.words[removed[i]], float(drops[i])) for i in order if drops[i] > 0]


def _each_word_alone(text: WordCounts) -> WordCounts:
    """For each word of a text, a text of that word alone."""
    from scipy.sparse import csr_array, eye_array

    return WordCounts(text.words, csr_array(eye_array(len(text.words), dtype=text.matrix.dtype)))


def _without_each_word(text: WordCounts, removed: Ints) -> WordCounts:
    """The text itself, and for each of the words to be removed the text without it."""
    from scipy.sparse import csr_array

    rows = np.repeat(text.matrix.toarray(), 1 + len(removed), axis=0)
    rows[1 + np.arange(len(removed)), removed] = 0
    return WordCounts(text.words, csr_array(rows))
