"""The view of strings against dense rows over sets of n-grams, one text at a time."""

import math

import numpy as np

from cr5._typing import Array
from cr5.features.counts import WordCounts, count_words
from cr5.features.tokeniser import Tokeniser
from cr5.retrieval.strings import centred_pair, string_rows, string_statistics, to_latin

ENGLISH = [
    "The European Parliament discussed fisheries in Rotterdam",
    "Fish, fish and more fish from Rotterdam and Gdansk",
    "42 members of the Parliament",
    "",
    "Completely different topics: theatre, music",
]
ITALIAN = ["Il Parlamento europeo ha discusso della pesca a Rotterdam", "musica e teatro", "", "42 membri a Danzica"]


def count(texts: list[str], lang: str) -> WordCounts:
    return count_words(texts, lang, Tokeniser())


def ngrams(word: str) -> set[str]:
    padded = f"<{word}>"
    return {padded[i : i + n] for n in (4, 5) for i in range(len(padded) - n + 1)} or {padded}


def dense(texts: list[str], sample: list[str], lang: str, space: list[str]) -> tuple[Array, Array]:
    """The unit rows of texts over the n-grams of ``space``, and the mean row of a sample, as they are defined."""

    def ngram_counts(text: str) -> list[int]:
        words = Tokeniser().words(text, lang)
        return [sum(ngram in ngrams(word) for word in words) for ngram in space]

    sampled = [ngram_counts(text) for text in sample]
    idf = [math.log((1 + len(sample)) / (1 + sum(row[i] > 0 for row in sampled))) + 1 for i in range(len(space))]

    def unit(row: list[int]) -> Array:
        weighted = np.array([math.log(1 + value) * weight for value, weight in zip(row, idf, strict=True)])
        return weighted / (np.linalg.norm(weighted) or 1)

    return np.array([unit(ngram_counts(t)) for t in texts]), np.mean([unit(row) for row in sampled], axis=0)


def test_centred_rows_have_the_cosines_of_dense_centred_rows() -> None:
    words = {word for text in ENGLISH + ITALIAN for word in Tokeniser().words(text, "en")}
    space = sorted(set().union(*map(ngrams, words)))
    samples = ENGLISH[:3], ITALIAN[:2]  # so that some texts have n-grams which no sampled text has
    (queries, query_mean), (candidates, candidate_mean) = (
        dense(texts, sample, lang, space)
        for texts, sample, lang in [(ENGLISH, samples[0], "en"), (ITALIAN, samples[1], "it")]
    )
    centred = [
        np.array([(row - mean) / np.linalg.norm(row - mean) if row.any() else row for row in rows])
        for rows, mean in [(queries, query_mean), (candidates, candidate_mean)]
    ]
    english, italian = string_statistics(count(samples[0], "en")), string_statistics(count(samples[1], "it"))
    pair = centred_pair(
        string_rows(count(ENGLISH, "en"), english),
        english,
        string_rows(count(ITALIAN, "it"), italian),
        italian,
    )
    np.testing.assert_allclose((pair[0] @ pair[1].T).toarray(), centred[0] @ centred[1].T, atol=1e-6)


def test_a_text_without_words_scores_zero_with_every_text() -> None:
    english, italian = string_statistics(count(ENGLISH, "en")), string_statistics(count(ITALIAN, "it"))
    rows = string_rows(count(ENGLISH, "en"), english), string_rows(count(ITALIAN, "it"), italian)
    queries, candidates = centred_pair(rows[0], english, rows[1], italian)
    scores = (queries @ candidates.T).toarray()
    assert not scores[3].any()
    assert not scores[:, 2].any()
    assert scores[0].argmax() == 0


def test_rows_do_not_depend_on_the_batch() -> None:
    statistics = string_statistics(count(ENGLISH, "en"))
    together = string_rows(count(ENGLISH, "en"), statistics).toarray()
    for i, text in enumerate(ENGLISH):
        np.testing.assert_allclose(string_rows(count([text], "en"), statistics).toarray()[0], together[i], rtol=1e-6)


def test_statistics_of_no_texts_weigh_all_ngrams_alike_and_centre_nothing() -> None:
    statistics = string_statistics(count([], "en"))
    assert set(statistics.idf.tolist()) == {1.0}
    assert not statistics.mean.any()


def test_transliteration_lets_texts_in_different_scripts_meet() -> None:
    assert to_latin(["наука", "abc", "việt"]) == ["nauka", "abc", "viet"]
    russian, english = count(["Роттердам"], "ru"), count(["Rotterdam"], "en")
    cosines = []
    for transliterate in (False, True):
        none = string_statistics(count([], "en"), transliterate=transliterate)
        cosines.append(float((string_rows(russian, none) @ string_rows(english, none).T).toarray()[0, 0]))
    assert cosines[0] == 0
    assert cosines[1] > 0.3
