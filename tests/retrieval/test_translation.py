"""Texts translated word by word, against dicts of expected counts."""

import math
from typing import get_args

import numpy as np
import pytest

from cr5.features.counts import WordCounts, count_words
from cr5.features.ngrams import word_columns
from cr5.features.tfidf import Idf, Vocabulary, Weighting, fit_vocabulary
from cr5.features.tokeniser import Tokeniser
from cr5.retrieval.block_products import multiply_rows
from cr5.retrieval.lexicon import Lexicon
from cr5.retrieval.scorer import LexiconView
from cr5.retrieval.translation import (
    UNKNOWN_COLUMNS,
    WordWeights,
    original_rows,
    translate_counts,
    word_weights,
)

ENGLISH = WordWeights({"the": 0, "dog": 1, "cat": 2, "hound": 3}, np.array([1, 2, 3, 4], np.float32), 5.0)
ITALIAN = WordWeights({"il": 0, "cane": 1, "gatto": 2}, np.array([1.5, 2.5, 3.5], np.float32), 4.5)
THERE = {"the": {"il": 1.0}, "dog": {"cane": 0.75, "gatto": 0.25}, "cat": {"gatto": 1.0}, "hound": {"cane": 1.0}}
BACK = {"il": {"the": 1.0}, "cane": {"dog": 0.5, "hound": 0.5}, "gatto": {"cat": 1.0}}
QUERIES = ["The dog, the hound and Rotterdam", "cat cat cane", "", "Gdansk Gdansk"]
CANDIDATES = ["il cane di Rotterdam", "gatto", "gdansk dog", ""]


def lexicon(translations: dict[str, dict[str, float]], source: WordWeights, target: WordWeights) -> Lexicon:
    source_words, target_words = list(source.index), list(target.index)
    rows = [[*translations[word].items(), (target_words[0], 0.0)][:2] for word in source_words]
    indices = [[target.index[word] for word, _ in row] for row in rows]
    return Lexicon(source_words, target_words, np.array(indices, np.int32), np.array([[p for _, p in r] for r in rows]))


def count(texts: list[str], lang: str) -> WordCounts:
    return count_words(texts, lang, Tokeniser())


def unit(expected: dict[str, float], weights: WordWeights) -> dict[str, float]:
    idf = dict(zip(weights.index, weights.idf.tolist(), strict=True))
    row = {word: math.log(1 + n) * idf.get(word, weights.unseen_idf) for word, n in expected.items()}
    length = math.sqrt(sum(value**2 for value in row.values())) or 1
    return {word: value / length for word, value in row.items()}


def row_of(text: str, translations: dict[str, dict[str, float]], weights: WordWeights) -> dict[str, float]:
    expected: dict[str, float] = {}
    for token in Tokeniser().words(text, "en"):
        for word, probability in translations.get(token, {token: 1.0}).items():
            expected[word] = expected.get(word, 0) + probability
    return unit(expected, weights)


def cosine(a: dict[str, float], b: dict[str, float]) -> float:
    return sum(value * b.get(word, 0) for word, value in a.items())


def test_products_of_rows_are_the_mean_cosines_of_texts_translated_word_by_word_both_ways() -> None:
    def both_ways(query: str, candidate: str) -> float:
        there = cosine(row_of(query, THERE, ITALIAN), row_of(candidate, {}, ITALIAN))
        return (there + cosine(row_of(query, {}, ENGLISH), row_of(candidate, BACK, ENGLISH))) / 2

    expected = [[both_ways(query, candidate) for candidate in CANDIDATES] for query in QUERIES]
    lexicons = {("en", "it"): lexicon(THERE, ENGLISH, ITALIAN), ("it", "en"): lexicon(BACK, ITALIAN, ENGLISH)}
    weights = {"en": ENGLISH, "it": ITALIAN}
    view = LexiconView(lambda source, target: lexicons[source, target], weights.__getitem__)
    pair = view.rows(count(QUERIES, "en"), "en", count(CANDIDATES, "it"), "it")
    assert pair
    queries, candidates = pair
    np.testing.assert_allclose(multiply_rows(queries, candidates), expected, atol=1e-6)
    assert expected[3][2] > 0.5  # both say Gdansk, which no vocabulary has
    assert expected[1][0] > 0  # an English text says "cane", which the Italian vocabulary has
    lengths = np.sqrt(np.diagonal(multiply_rows(queries, queries)))
    np.testing.assert_allclose(lengths, [1, 1, 0, 1], rtol=1e-6)


def test_a_text_is_translated_by_its_words_alone_and_not_by_those_of_the_batch() -> None:
    there = lexicon(THERE, ENGLISH, ITALIAN)
    together = translate_counts(count(QUERIES, "en"), there, ITALIAN)
    for i, text in enumerate(QUERIES):
        assert abs(translate_counts(count([text], "en"), there, ITALIAN) - together[[i]]).max() < 1e-6
        alone, among = (original_rows(count(texts, "en"), ENGLISH) for texts in ([text], QUERIES))
        assert abs(alone - among[[i]]).max() < 1e-6


def test_the_logarithm_is_taken_after_adding_expected_counts() -> None:
    row = translate_counts(count(["dog hound"], "en"), lexicon(THERE, ENGLISH, ITALIAN), ITALIAN).toarray()[0]
    np.testing.assert_allclose(row[1] / row[2], math.log(2.75) * 2.5 / (math.log(1.25) * 3.5), rtol=1e-6)


def test_unknown_words_whose_hashes_are_equal_are_added() -> None:
    seen: dict[int, str] = {}
    names = (f"w{i}" for i in range(10**6))
    for name, column in ((name, int(word_columns([name], UNKNOWN_COLUMNS)[0])) for name in names):
        if column in seen:
            break
        seen[column] = name
    for rows in (
        original_rows(count([f"{name} {seen[column]}"], "en"), ENGLISH),
        translate_counts(count([f"{name} {seen[column]}"], "en"), lexicon(THERE, ENGLISH, ITALIAN), ITALIAN),
    ):
        assert rows.data.tolist() == [1.0]


@pytest.mark.parametrize("idf", get_args(Idf))
@pytest.mark.parametrize("power", [1.0, 1.5])
def test_weights_of_a_model_are_its_idf_to_the_power_of_one_also_that_of_a_new_word(idf: Idf, power: float) -> None:
    counts = count_words(["a", "a b", "a b c"], "en", Tokeniser())
    model, plain = (
        fit_vocabulary(counts, Weighting(idf=idf, idf_power=each, min_documents=1, subwords=False))
        for each in (power, 1.0)
    )
    weights = word_weights(model, 3)
    assert list(weights.index) == plain.words
    np.testing.assert_allclose(weights.idf, plain.idf, rtol=1e-6)
    assert weights.unseen_idf == pytest.approx(Weighting(idf=idf).unseen_idf(3))


def test_words_of_a_model_without_idf_all_have_the_weight_one() -> None:
    vocabulary = Vocabulary(["a", "b"], np.ones(2, np.float32), Weighting(idf_power=0))
    assert word_weights(vocabulary, 9).idf.tolist() == [1, 1]
