"""Neighbouring words of a query in texts."""

import pytest

from cr5.features.tokeniser import Tokeniser
from cr5.index.query_words import WeightedQuery
from cr5.index.terms import QueryWord
from cr5.index.word_pairs import FEW_TOKENS, MAX_TOKENS, WordPair, informativeness, share_of_pairs, word_pairs


def weighted(tokens: list[str], weights: dict[str, float] | None, lang: str) -> WeightedQuery:
    words = [QueryWord((weights or {}).get(word, 1.0), {word: 1.0}) for word in dict.fromkeys(tokens)]
    return WeightedQuery(lang, words, float(len(words)), {})


def pairs_of(text: str, weights: dict[str, float] | None = None, lang: str = "en") -> list[WordPair]:
    tokens = Tokeniser().words(text, lang)
    return word_pairs(text, tokens, weighted(tokens, weights, lang))


@pytest.mark.parametrize(
    ("query", "lang", "text", "share"),
    [
        ("real time clock", "en", "A clock in REAL\n  time", 1 / 2),
        ("real time clock", "en", "Real-time clock", 1 / 2),
        ("setup.exe", "en", "Run (setup.exe) now", 1.0),
        ("setup.exe", "en", "exe files and the setup", 0.0),
        ("polar bear", "en", "Polar bears swim", 1.0),
        ("Bồ Đào Nha", "vi", "Bồ Đào Nha và Tây Ban Nha", 1.0),
        ("東京の大学", "ja", "これは東京の大学です", 1.0),
        ("ｆｕｌｌ width", "en", "full width", 1.0),
    ],
)
def test_the_share_of_pairs_is_that_of_words_that_are_neighbours_in_both(
    query: str, lang: str, text: str, share: float
) -> None:
    assert share_of_pairs(pairs_of(query, lang=lang), text) == pytest.approx(share)


def test_a_pair_weighs_as_much_as_the_lighter_of_its_words_and_one_of_weight_zero_is_left_out() -> None:
    pairs = pairs_of("the real time of", {"the": 0.1, "real": 3.0, "time": 2.0, "of": 0.0})
    assert [pair.weight for pair in pairs] == [0.1, 2.0]
    assert share_of_pairs(pairs, "the real thing") == pytest.approx(0.1 / 2.1)


def test_a_repeated_pair_counts_once_and_one_word_or_very_many_have_none() -> None:
    assert len(pairs_of("tic tac tic tac")) == 2
    assert pairs_of("clock") == pairs_of("") == []
    assert pairs_of(" ".join(f"w{i}" for i in range(MAX_TOKENS + 1))) == []
    assert share_of_pairs([], "clock") == 0


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("the dog", 0.1),  # 0.3 of 3
        ("the the dog", 0.2),
        ("black dog", 2 / 3),
        ("big black dog", 1.0),  # 2 + 2 of 3: not more than 1
        ("the.dog", 1.0),  # written without a space
        (" ".join(["the"] * FEW_TOKENS) + " dog", 1.0),  # a longer query
    ],
)
def test_a_pair_of_a_rare_and_a_common_word_says_little_in_a_short_query(query: str, expected: float) -> None:
    weights = {"the": 0.3, "dog": 3.0, "black": 2.0, "big": 2.0}
    tokens = Tokeniser().words(query, "en")
    assert informativeness(pairs_of(query, weights), tokens, weighted(tokens, weights, "en")) == pytest.approx(expected)
