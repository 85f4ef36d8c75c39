"""Why a text was found: its words, and the passage where they stand."""

import madeup
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cr5 import Cr5
from cr5.retrieval.passages import MAX_EXPLAINED_CHARACTERS, PART_CHARACTERS, explain_texts, passage

TEXT = "Wolves were first. They live in packs and hunt at night. Much later a dog came to guide the blind. It sleeps."


def test_it_is_where_the_words_stand_that_matter() -> None:
    assert (
        passage(TEXT, [("blind", 0.5), ("dog", 0.3), ("wolves", 0.1)], 45, 20)
        == "… Much later a dog came to guide the blind. It…"
    )
    assert (
        passage(TEXT, [("wolves", 0.5), ("dog", 0.3), ("blind", 0.1)], 45, 20)
        == "Wolves were first. They live in packs and…"
    )


def test_a_sentence_is_shown_from_its_beginning_if_that_is_near() -> None:
    assert passage(TEXT, [("dog", 1.0)], 30, 20).startswith("… Much later a dog")
    assert passage(TEXT, [("dog", 1.0)], 30, 8).startswith("… a dog")


def test_without_a_word_it_is_the_beginning() -> None:
    assert passage(TEXT, [], 20, 8) == "Wolves were first. …"
    assert passage(TEXT, [("cat", 1.0), ("dog", -1.0), ("", 1.0)], 20, 8) == "Wolves were first. …"
    assert passage(TEXT, [("night", 1.0)], 1000, 8) == TEXT
    assert passage("", [("dog", 1.0)], 20, 8) == ""


def test_a_word_that_is_repeated_counts_once() -> None:
    text = "dog dog dog dog. " + 40 * "x " + "A dog and a cat."
    assert passage(text, [("dog", 1.0), ("cat", 0.1)], 16, 4) == "… A dog and a cat."


def test_a_text_without_blanks_is_cut_anywhere() -> None:
    assert passage("犬は人間の友です" * 3, [("友", 1.0)], 4, 2) == "… 友です犬…"


def test_a_word_is_not_found_inside_another_word() -> None:
    text = "The education of cattle is a matter of patience. " + 30 * "x " + "A cat came."
    assert passage(text, [("cat", 1.0)], 20, 8).endswith("A cat came.")


def test_characters_that_become_longer_in_lower_case_move_nothing() -> None:
    text = 40 * "İ" + " says that. " + 30 * "x " + "A dog came."
    assert passage(text, [("dog", 1.0)], 20, 8).endswith("A dog came.")


def test_words_are_looked_for_in_a_part_and_shown_within_the_whole() -> None:
    later = TEXT.index("Much")
    assert passage(TEXT, [("wolves", 1.0), ("dog", 0.1)], 30, 20, later) == "… Much later a dog came to guide…"
    assert passage(TEXT, [("wolves", 1.0)], 30, 20, later) == "… Much later a dog came to guide…"
    assert passage(TEXT, [("wolves", 0.1), ("dog", 1.0)], 30, 20, 0, later) == "Wolves were first. They live…"


def test_a_word_is_found_however_often_it_occurred_before() -> None:
    assert passage(1000 * "a dog. " + "A dog and a cat.", [("dog", 1.0), ("cat", 0.1)], 20, 4).endswith("and a cat.")


# Reasons


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
    assert sentence in passage(text, why.words_b, 200, 60, why.begin, why.end)


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


# Properties

letters = st.text(alphabet="ab .\n\u0130字", max_size=80)


@given(
    letters,
    st.lists(st.tuples(st.sampled_from(["a", "ab", "b a", "字", "(", "i\u0307"]), st.floats(-1, 1)), max_size=4),
)
def test_it_is_a_part_of_the_text_in_one_line(text: str, words: list[tuple[str, float]]) -> None:
    line = passage(text, words, 20, 6)
    assert "\n" not in line
    assert line.removeprefix("… ").removesuffix("…").strip() in " ".join(text.split())
    assert len(line) <= 20 + 4
