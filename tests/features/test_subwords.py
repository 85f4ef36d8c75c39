"""N-grams of words and their weights, against the formulas in plain Python."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import up_to

from cr5.features.counts import WordCounts, count_words
from cr5.features.subwords import Subwords
from cr5.features.tfidf import Vocabulary, Weighting, fit_vocabulary
from cr5.features.tokeniser import Tokeniser

TEXTS = [
    "banana bananas and cabanas",
    "the banana and the bandana",
    "Straßenbahn und Strassenbahn",
    "die Bahn und die Bahnen",
    "犬 と 猫 the 犬小屋 a",
    "the the the банан бананы",
]
EVERYTHING = Weighting(min_documents=1, subwords=True)
CHOICES = [
    EVERYTHING,
    replace(EVERYTHING, idf="plain", idf_power=1.0, tf="raw"),
    replace(EVERYTHING, min_documents=2, subword_weight=2.5),
    replace(EVERYTHING, max_subwords=7),
    replace(EVERYTHING, max_words=5, max_subwords=1),
]
words_of = st.text(st.sampled_from("abcñ犬б𝔸"), min_size=1, max_size=9)


def counted(texts: list[str]) -> WordCounts:
    return count_words(texts, "en", Tokeniser())


def ngrams_of(word: str) -> set[str]:
    marked = f"<{word}>"
    return {marked[i : i + n] for n in (3, 4, 5) for i in range(len(marked) - n + 1)}


def idf(df: float, n: int, weighting: Weighting) -> float:
    value = math.log((1 + n) / (1 + df)) if weighting.idf == "smooth" else math.log(n / df)
    return float((value + 1) ** weighting.idf_power)


def expected_weights(vocabulary: Vocabulary, texts: list[str]) -> dict[str, float]:
    """Every n-gram that is kept and its weight, most frequent first, by the definition."""
    weighting, n = vocabulary.weighting, len(texts)
    tokens = [set(Tokeniser().words(text, "en")) for text in texts]
    word_frequency = {word: sum(word in text for text in tokens) for word in vocabulary.words}
    absent: dict[str, float] = {}
    for word, df in word_frequency.items():
        for ngram in ngrams_of(word):
            absent[ngram] = absent.get(ngram, 1.0) * (1 - df / n)
    frequency = {ngram: round(n * (1 - product), 6) for ngram, product in absent.items()}
    kept = [ngram for ngram, df in frequency.items() if df >= weighting.min_documents]
    kept = sorted(kept, key=lambda ngram: (-frequency[ngram], ngram))[: weighting.max_subwords]
    unscaled = {ngram: idf(frequency[ngram], n, weighting) for ngram in kept}
    of_words = sum(df * idf(df, n, weighting) ** 2 for df in word_frequency.values())
    of_ngrams = sum(
        df * sum(unscaled[ngram] ** 2 for ngram in ngrams_of(word) & unscaled.keys())
        for word, df in word_frequency.items()
    )
    scale = math.sqrt(weighting.subword_weight * of_words / of_ngrams)
    return {ngram: scale * value for ngram, value in unscaled.items()}


def made(texts: list[str], weighting: Weighting) -> tuple[Vocabulary, Subwords]:
    vocabulary = fit_vocabulary(counted(texts), weighting)
    assert vocabulary.subwords is not None
    return vocabulary, vocabulary.subwords


@pytest.mark.parametrize("weighting", CHOICES)
def test_ngrams_and_their_weights_follow_the_formulas(weighting: Weighting) -> None:
    vocabulary, subwords = made(TEXTS, weighting)
    expected = expected_weights(vocabulary, TEXTS)
    assert subwords.ngrams == list(expected)
    np.testing.assert_allclose(subwords.weights, list(expected.values()), rtol=1e-5)
    squares = [sum(expected.get(ngram, 0) ** 2 for ngram in ngrams_of(word)) for word in vocabulary.words]
    np.testing.assert_allclose(subwords.squares, squares, rtol=1e-5)


@settings(max_examples=up_to(50), deadline=None)
@given(st.lists(st.lists(words_of, min_size=1, max_size=4), min_size=1, max_size=8), st.integers(1, 30))
def test_any_words_have_the_ngrams_of_the_formulas(drawn: list[list[str]], most: int) -> None:
    texts = [" ".join(words) for words in drawn]
    vocabulary, subwords = made(texts, replace(EVERYTHING, max_subwords=most))
    expected = expected_weights(vocabulary, texts)
    assert subwords.ngrams == list(expected)
    np.testing.assert_allclose(subwords.weights, list(expected.values()), rtol=1e-5)


@pytest.mark.parametrize("weighting", CHOICES)
def test_rows_and_the_subword_matrix_are_the_features_of_documents(weighting: Weighting) -> None:
    vocabulary, subwords = made(TEXTS, weighting)
    X, M = vocabulary.transform(counted(TEXTS)), vocabulary.subword_matrix()
    assert M is not None
    assert M.shape == (len(vocabulary.words), len(subwords.ngrams))
    assert (M.dtype, X.dtype) == (np.float32, np.float32)
    weight = dict(zip(subwords.ngrams, subwords.weights.tolist(), strict=True))
    for row, text in enumerate(TEXTS):
        words: dict[str, float] = {}
        for token in Tokeniser().words(text, "en"):
            words[token] = words.get(token, 0) + 1
        tf = {w: 1 + math.log(n) if weighting.tf == "log" else n for w, n in words.items() if w in vocabulary.index}
        expected = np.zeros(len(vocabulary.words) + len(weight))
        square = 0.0
        for word, frequency in tf.items():
            own = np.zeros_like(expected)
            own[vocabulary.index[word]] = vocabulary.idf[vocabulary.index[word]]
            for ngram in ngrams_of(word) & weight.keys():
                own[len(vocabulary.words) + subwords.ngrams.index(ngram)] = weight[ngram]
            expected += frequency * own
            square += frequency**2 * float(own @ own)
        found = np.concatenate([X[[row]].toarray()[0], (X[[row]] @ M).toarray()[0]])
        np.testing.assert_allclose(found, expected / math.sqrt(square or 1), rtol=1e-5, atol=1e-7)


def test_a_word_outside_the_vocabulary_has_the_weights_of_its_known_ngrams() -> None:
    _, subwords = made(TEXTS, EVERYTHING)
    words = ["bananas", "xyz", "ananas", "", "日"]
    rows = subwords.weigh(words)
    rows.check_format(full_check=True)
    for row, word in zip(rows.toarray(), words, strict=True):
        known = ngrams_of(word) & set(subwords.ngrams)
        assert {subwords.ngrams[i] for i in np.flatnonzero(row)} == known
        np.testing.assert_array_equal(row[row > 0], subwords.weights[row > 0])
    lengths, unit = subwords.unit_rows(words)
    dense = rows.toarray()
    np.testing.assert_allclose(lengths, np.linalg.norm(dense, axis=1), rtol=1e-6)
    np.testing.assert_allclose(unit.toarray(), dense[lengths > 0] / lengths[lengths > 0, None], rtol=1e-6)
    assert (lengths > 0).tolist() == [True, False, True, False, False]


def test_further_columns_hold_words_outside_the_vocabulary_and_count_in_the_length() -> None:
    vocabulary, _ = made(TEXTS, replace(EVERYTHING, min_documents=2))
    texts = ["banana zebra zebra the", "quagga", "the and", ""]
    outside = {"quagga": 2.0, "zebra": 3.0}
    X = vocabulary.transform(counted(texts), outside)
    width = len(vocabulary.words)
    assert X.shape == (4, width + 2)
    known = vocabulary.transform(counted(texts))
    ratio = X[:, :width].toarray()[0] / np.where(known.toarray()[0], known.toarray()[0], 1)
    alone = known.toarray()[0] @ known.toarray()[0]
    assert 0 < alone < 1
    assert np.unique(ratio[ratio > 0].round(5)).size == 1
    tf = 1 + math.log(2)
    lengths = (vocabulary.idf**2 + made(TEXTS, vocabulary.weighting)[1].squares)[
        [vocabulary.index[word] for word in ("banana", "the")]
    ]
    norm = math.sqrt(lengths.sum() + (3 * tf) ** 2)
    np.testing.assert_allclose(X.toarray()[0, width:], [0, 3 * tf / norm], rtol=1e-6)
    np.testing.assert_array_equal(X[[1]].toarray()[0, width:], [1, 0])
    np.testing.assert_array_equal(X[[2]].toarray()[0, :width], known[[2]].toarray()[0])
    for row, text in enumerate(texts):
        columns, values = vocabulary.transform_words(Tokeniser().words(text, "en"), outside)
        np.testing.assert_array_equal(columns, X[[row]].indices)
        np.testing.assert_array_equal(values, X[[row]].data)


def test_without_ngrams_nothing_changes() -> None:
    without = fit_vocabulary(counted(TEXTS), replace(EVERYTHING, subwords=False))
    assert without.subwords is None
    assert without.subword_matrix() is None
    vocabulary, _ = made(TEXTS, EVERYTHING)
    assert vocabulary.words == without.words
    np.testing.assert_array_equal(vocabulary.idf, without.idf)
    plain = replace(vocabulary, subwords=None)
    np.testing.assert_array_equal(
        plain.transform(counted(TEXTS)).toarray(), without.transform(counted(TEXTS)).toarray()
    )


@pytest.mark.parametrize("change", [{"max_subwords": 0}, {"subword_weight": 0.0}, {"min_documents": 7}])
def test_a_vocabulary_may_have_no_ngrams(change: dict[str, Any]) -> None:
    vocabulary = fit_vocabulary(counted(TEXTS), replace(EVERYTHING, **change))
    assert vocabulary.subwords is None
    assert fit_vocabulary(counted([]), EVERYTHING).subwords is None


def test_the_order_of_documents_does_not_matter() -> None:
    one, other = made(TEXTS, EVERYTHING)[1], made(TEXTS[::-1], EVERYTHING)[1]
    assert one.ngrams == other.ngrams
    np.testing.assert_array_equal(one.weights, other.weights)
    np.testing.assert_array_equal(one.squares, other.squares)


def test_the_most_frequent_ngrams_can_be_taken_alone() -> None:
    _, subwords = made(TEXTS, EVERYTHING)
    few = subwords.most_frequent(10)
    assert few.ngrams == subwords.ngrams[:10]
    np.testing.assert_array_equal(few.weigh(["banana"]).toarray(), subwords.weigh(["banana"]).toarray()[:, :10])
    np.testing.assert_array_equal(few.squares, subwords.squares)
