"""The similarity of texts by all views of a model: a weighted mean of cosines, and what each view adds to it."""

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from cr5._typing import Array
from cr5.features.counts import WordCounts
from cr5.features.tfidf import Vocabulary
from cr5.retrieval.block_products import multiply_rows
from cr5.retrieval.explanations import Contribution, ViewContribution
from cr5.retrieval.lexicon import Lexicon
from cr5.retrieval.scorer import DenseView, LexiconView, Scorer, StringsView
from cr5.retrieval.strings import StringStatistics, vocabulary_statistics
from cr5.retrieval.translation import WordWeights, word_weights

TYPICAL_DEVIATIONS = {"dense": 0.12, "lexicon": 0.03, "strings": 0.01}
"""Of the cosines between documents; fixed, so that the similarity of two texts does not depend on other texts."""


def views_of_model(
    encode: Callable[[WordCounts, str], Array],
    lexicon: Callable[[str, str], Lexicon],
    vocabulary: Callable[[str], Vocabulary],
    documents: Callable[[str], int],
) -> Callable[[], Scorer]:
    """A function that makes scorers; what they need of a language is computed once, of a text for one scorer.

    ``documents`` is how many a language was trained on.
    """

    @cache
    def weights(lang: str) -> WordWeights:
        own = vocabulary(lang)
        return word_weights(own.words, own.idf, idf_power=own.weighting.idf_power, documents=documents(lang))

    @cache
    def statistics(lang: str) -> StringStatistics:
        own, number = vocabulary(lang), documents(lang)
        return vocabulary_statistics(own.words, own.document_frequency(number), number)

    def make() -> Scorer:
        strings = StringsView(lambda _, lang: statistics(lang), always=True)
        return Scorer({"dense": DenseView(encode), "lexicon": LexiconView(lexicon, weights), "strings": strings})

    return make


def shares(scorer: Scorer) -> dict[str, float]:
    """What every view counts in a similarity; the shares add up to 1."""
    scales = scorer.scales({name: TYPICAL_DEVIATIONS[name] for name in scorer.views})
    return {name: scale / sum(scales.values()) for name, scale in scales.items()}


def similarities(scorer: Scorer, a: WordCounts, lang_a: str, b: WordCounts, lang_b: str) -> Array:
    """texts of a x texts of b: the sum over the views of share x cosine; where texts share nothing, a cosine is 0."""
    total = np.zeros((a.matrix.shape[0], b.matrix.shape[0]), np.float32)
    of_views = shares(scorer)
    for name, pair in scorer.pairs(a, lang_a, b, lang_b).items():
        total += np.float32(of_views[name]) * multiply_rows(*pair)
    return total


def explain_views(
    scorer: Scorer, a: WordCounts, lang_a: str, b: WordCounts, lang_b: str, k: int
) -> list[ViewContribution]:
    """Each view's share, its cosine of two texts, and the k words of each text without which it falls most."""
    found, of_views = [], shares(scorer)
    a, b = a.drop_unused_words(), b.drop_unused_words()
    without_a, without_b = _without_each_word(a), _without_each_word(b)
    for name, view in scorer.views.items():
        cosine, falls_a, falls_b = 0.0, np.zeros(len(a.words)), np.zeros(len(b.words))
        if (pair := view.rows(without_a, lang_a, b, lang_b)) is not None:
            cosine, *others = multiply_rows(*pair)[:, 0].tolist()
            falls_a = cosine - np.array(others)
        if (pair := view.rows(a, lang_a, without_b, lang_b)) is not None:
            whole, *others = multiply_rows(*pair)[0].tolist()
            falls_b = whole - np.array(others)
        words = _largest(a.words, falls_a, k), _largest(b.words, falls_b, k)
        found.append(ViewContribution(name, of_views[name], cosine, *words))
    return found


def _without_each_word(text: WordCounts) -> WordCounts:
    """The text itself, and for each of its words the text without it."""
    from scipy.sparse import csr_array

    counts, size = text.matrix.toarray(), len(text.words)
    rows = np.vstack([counts, np.where(np.eye(size, dtype=bool), 0, np.tile(counts, (size, 1)))])
    return WordCounts(text.words, csr_array(rows))


def _largest(words: Sequence[str], values: Array, k: int) -> list[Contribution]:
    order = np.argsort(-values, kind="stable")[:k]
    return [Contribution(words[i], float(values[i])) for i in order if values[i] > 0]
