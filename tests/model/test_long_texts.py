"""Explanations of short and long texts."""

import madeup
import numpy as np
import pytest

from cr5 import Cr5
from cr5.model.long_texts import MAX_EXPLAINED_CHARACTERS, PART_CHARACTERS, explain_texts
from cr5.retrieval.snippets import snippet

MEANT = [3, 4, 5, 6, 7, 8]


def said(lang: str, meanings: list[int], seed: int = 0) -> str:
    """Some 20,000 words of these meanings, in sentences."""
    random = np.random.default_rng(seed)
    return ". ".join(madeup.text(lang, random.choice(meanings, 20).tolist()) for _ in range(1000)) + ". "


def test_a_short_text_is_explained_as_a_whole(model: Cr5) -> None:
    a, b = madeup.text("aa", [3, 4, 5]), madeup.text("bb", [*range(3, 200)])
    expected, why = model.explain(a, "aa", b, "bb", 4), explain_texts(model, a, "aa", b, "bb", 4)
    assert (why.words_a, why.words_b, why.pairs) == (expected.words_a, expected.words_b, expected.pairs)
    assert why.similarity == pytest.approx(expected.similarity, abs=1e-6)
    assert (why.begin, why.end) == (0, len(b))


@pytest.mark.parametrize("place", [0, 0.3, 0.999, 1])
def test_of_a_long_text_the_part_is_explained_that_is_nearest_wherever_it_is(model: Cr5, place: float) -> None:
    sentence = madeup.text("bb", MEANT)
    sentences = said("bb", [*range(50, 250)]).split(". ")
    at = int(place * len(sentences))
    text = ". ".join([*sentences[:at], sentence, *sentences[at:]])
    why = explain_texts(model, madeup.text("aa", MEANT), "aa", text, "bb")
    assert sentence in text[why.begin : why.end]
    assert PART_CHARACTERS <= why.end - why.begin < 2 * PART_CHARACTERS < MAX_EXPLAINED_CHARACTERS
    assert len(set(sentence.split()) & {word for word, _ in why.words_b}) > len(MEANT) / 2
    assert sentence in snippet(text, why.words_b, 200, 60, why.begin, why.end)


def test_two_long_texts_are_explained_by_what_they_have_in_common(model: Cr5) -> None:
    a = said("aa", [*range(50, 150)]) + madeup.text("aa", MEANT)
    b = madeup.text("bb", MEANT) + ". " + said("bb", [*range(150, 250)])
    why = explain_texts(model, a, "aa", b, "bb")
    whole = model.encode([a], "aa")[0] @ model.encode([b], "bb")[0]
    assert why.similarity == pytest.approx(float(whole), abs=1e-6)
    assert len(why.words_a) == len(why.words_b) == len(why.pairs) == 10


def test_a_long_text_without_a_known_word_is_read_from_its_beginning(model: Cr5) -> None:
    why = explain_texts(model, madeup.text("aa", [3]), "aa", "unknown. " * 1000, "bb")
    assert (why.similarity, why.words_b, why.begin) == (0, [], 0)
