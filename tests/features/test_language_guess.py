"""Guessing languages with the vocabularies of a model: many texts at a time, against the definition one by one."""

import errno
import tempfile
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import slow_guess
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import up_to

from cr5.corpus import identification
from cr5.corpus.identification import FEW_TEXTS, identified_languages, identify
from cr5.corpus.reading import read
from cr5.features import language_guess
from cr5.features.counts import count_words
from cr5.features.language_guess import RECENT_WORDS, JointVocabulary, LanguageGuesser
from cr5.features.tokeniser import Tokeniser

TEXTS: dict[str, list[str]] = {}
for document in read("builtin"):
    TEXTS.setdefault(document.lang, []).append(document.text)
TEXTS["zh"] = ["狗是人类最早驯化的动物", "山上有雪和石头", "人类和动物住在山上，雪和石头是白色的"] * 30
TEXTS["ja"] = ["犬は人間が最初に家畜化した動物です", "山には雪と石があります", "白い雪と黒い石"] * 30
TEXTS["xx"] = ["zorg plim dog cane hund", "plim zorg zorg", "chó plim 123"] * 30
"""Texts of six languages; two are segmented, and the identifier does not know one."""


def vocabulary(lang: str, texts: Sequence[str]) -> list[str]:
    counts = count_words(texts, lang, Tokeniser())
    totals = Counter(dict(zip(counts.words, counts.matrix.sum(axis=0).tolist(), strict=True)))
    return [word for word, _ in totals.most_common()]


VOCABULARIES = {lang: vocabulary(lang, texts[::2]) for lang, texts in TEXTS.items()}


def excerpts(words: int) -> list[str]:
    """The beginnings of texts that no vocabulary is from, and some that say little about their language."""
    found = [" ".join(text.split()[3 : 3 + words]) or text[:words] for texts in TEXTS.values() for text in texts[1::40]]
    return [*found, "", "  123 ?", "CANE", "犬 dog", "\ud800 x", "Zażółć gęślą jaźń", "dog" * 500, "été " * 200]


def check(texts: Sequence[str], langs: Sequence[str], tokeniser: Tokeniser) -> None:
    vocabularies = {lang: VOCABULARIES[lang] for lang in langs}
    guesser = LanguageGuesser(vocabularies, tokeniser)
    guesses, counts = guesser(texts)
    ranks = {lang: {word: rank for rank, word in enumerate(VOCABULARIES[lang])} for lang in langs}
    expected = [slow_guess.guess_language(text, ranks, tokeniser) for text in texts]
    assert [guess.lang for guess in guesses] == [guess.lang for guess in expected]
    np.testing.assert_allclose([g.confidence for g in guesses], [g.confidence for g in expected], rtol=1e-3)
    for _ in range(2):  # with costs of words that are computed, and remembered
        one_by_one = [guesser.guess(text) for text in texts]
        assert [guess.lang for guess in one_by_one] == [guess.lang for guess in expected]
        np.testing.assert_allclose([g.confidence for g in one_by_one], [g.confidence for g in expected], rtol=1e-3)
    for lang in langs:
        by_lang = count_words(texts, lang, tokeniser)
        assert counts[lang].words == by_lang.words
        assert (counts[lang].matrix != by_lang.matrix).nnz == 0


@pytest.mark.parametrize("langs", [["en", "it", "da", "vi"], ["xx", "vi", "zh", "en", "ja"], ["da"]])
@pytest.mark.parametrize("words", [1, 4, 60])
def test_guesses_about_many_texts_are_those_about_each(langs: list[str], words: int) -> None:
    check(excerpts(words), langs, Tokeniser())


@pytest.mark.parametrize(
    "options", [{"segment": False}, {"lowercase": False}, {"pretokenised": True}, {"segment_by": "language"}]
)
def test_guesses_follow_the_settings_of_the_tokeniser(options: dict[str, Any]) -> None:
    check(excerpts(4), ["en", "it", "zh", "ja"], Tokeniser(**options))


@pytest.mark.parametrize("count", [0, 1, FEW_TEXTS, FEW_TEXTS + 1])
def test_the_number_of_texts_does_not_change_a_guess(count: int) -> None:
    check(excerpts(3)[:count], ["en", "it", "da", "vi", "zh"], Tokeniser())


def test_what_is_remembered_of_recent_words_is_bounded_and_changes_no_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language_guess, "RECENT_WORDS", 50)
    langs = ["da", "en"]
    guesser = LanguageGuesser({lang: VOCABULARIES[lang] for lang in langs}, Tokeniser())
    texts = [*excerpts(8), "x" * 100_000, " ".join(f"word{i}" for i in range(200))]
    guesses = [guesser.guess(text) for text in texts * 2]
    assert len(guesser._recent) <= 50
    assert max(map(len, guesser._recent)) <= language_guess.RECENT_WORD_CHARS
    new = LanguageGuesser({lang: VOCABULARIES[lang] for lang in langs}, Tokeniser())
    assert guesses[: len(texts)] == guesses[len(texts) :]
    assert guesses[::-1][0] == new.guess(texts[-1])


def test_the_costs_of_a_limited_number_of_words_are_remembered() -> None:
    guesser = LanguageGuesser({lang: VOCABULARIES[lang] for lang in ("en", "it")}, Tokeniser())
    for begin, end in ((0, 10), (0, 3000), (3000, 6000), (10, 2 * RECENT_WORDS), (0, 10)):
        text = " ".join(["cane", *(f"w{i}" for i in range(begin, end))])
        assert guesser.guess(text).confidence == pytest.approx(guesser([text]).guesses[0].confidence, rel=1e-3)
        assert len(guesser._recent) <= RECENT_WORDS


def test_the_identifier_needs_no_temporary_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    with pytest.raises(OSError, match="No space"):
        LanguageIdentifier.from_model_file(MODEL_FILE)
    assert identification._identifier.__wrapped__().classify("the dog barks at the cat")[0] == "en"


@given(
    st.lists(st.text(st.characters(exclude_categories=[]) | st.sampled_from("aeinor ÀéЖ犬"), max_size=400), max_size=20)
)
@settings(max_examples=up_to(40), deadline=None)
def test_texts_identified_together_have_the_probabilities_of_each(texts: list[str]) -> None:
    texts = [*texts, "IN THE MORNING", "e\u0301te\u0301", "été " * 100, ""] + ["the dog"] * FEW_TEXTS
    langs, rows = identified_languages(), identify(texts)
    np.testing.assert_allclose(rows.sum(axis=1), 1, rtol=1e-5)
    for text, row in zip(texts, rows.tolist(), strict=True):
        expected = slow_guess.identify(text)
        assert len(expected) == len(langs)
        np.testing.assert_allclose(row, [expected[lang] for lang in langs], rtol=2e-3, atol=1e-6)


@given(
    st.lists(st.lists(st.text(max_size=3), unique=True, min_size=1, max_size=30), min_size=1, max_size=5),
    st.lists(st.text(max_size=3)),
)
@settings(max_examples=up_to(60), deadline=None)
def test_the_joint_vocabulary_finds_every_word_in_every_language_that_has_it(
    vocabularies: list[list[str]], words: list[str]
) -> None:
    found = JointVocabulary.from_words(vocabularies).find(words)
    expected = [
        (i, lang, own.index(word))
        for i, word in enumerate(words)
        for lang, own in enumerate(vocabularies)
        if word in own
    ]
    assert sorted(zip(*(part.tolist() for part in found), strict=True)) == sorted(expected)


def test_a_joint_vocabulary_takes_at_most_16_bytes_for_each_word() -> None:
    joint = JointVocabulary.from_words([VOCABULARIES["en"], VOCABULARIES["it"]])
    words = len(VOCABULARIES["en"]) + len(VOCABULARIES["it"])
    assert joint.hashes.nbytes + joint.starts.nbytes + joint.entries.nbytes + joint.offsets.nbytes <= 16 * words + 32
