"""The part of a text that is shown: where the words stand that matter."""

import re

from hypothesis import given
from hypothesis import strategies as st

from cr5.retrieval.snippets import _without_last_word, snippet, word_spans

TEXT = "Wolves were first. They live in packs and hunt at night. Much later a dog came to guide the blind. It sleeps."


def test_it_is_where_the_words_stand_that_matter() -> None:
    assert (
        snippet(TEXT, [("blind", 0.5), ("dog", 0.3), ("wolves", 0.1)], 45, 20)
        == "… Much later a dog came to guide the blind. It…"
    )
    assert (
        snippet(TEXT, [("wolves", 0.5), ("dog", 0.3), ("blind", 0.1)], 45, 20)
        == "Wolves were first. They live in packs and…"
    )


def test_a_sentence_is_shown_from_its_beginning_if_that_is_near() -> None:
    assert snippet(TEXT, [("dog", 1.0)], 30, 20).startswith("… Much later a dog")
    assert snippet(TEXT, [("dog", 1.0)], 30, 8).startswith("… a dog")


def test_without_a_word_it_is_the_beginning() -> None:
    assert snippet(TEXT, [], 20, 8) == "Wolves were first. …"
    assert snippet(TEXT, [("cat", 1.0), ("dog", -1.0), ("", 1.0)], 20, 8) == "Wolves were first. …"
    assert snippet(TEXT, [("night", 1.0)], 1000, 8) == TEXT
    assert snippet("", [("dog", 1.0)], 20, 8) == ""


def test_a_word_that_is_repeated_counts_once() -> None:
    text = "dog dog dog dog. " + 40 * "x " + "A dog and a cat."
    assert snippet(text, [("dog", 1.0), ("cat", 0.1)], 16, 4) == "… A dog and a cat."


def test_a_text_without_blanks_is_cut_anywhere() -> None:
    assert snippet("犬は人間の友です" * 3, [("友", 1.0)], 4, 2) == "… 友です犬…"


def test_a_word_is_not_found_inside_another_word() -> None:
    text = "The education of cattle is a matter of patience. " + 30 * "x " + "A cat came."
    assert snippet(text, [("cat", 1.0)], 20, 8).endswith("A cat came.")


def test_characters_that_become_longer_in_lower_case_move_nothing() -> None:
    text = 40 * "İ" + " says that. " + 30 * "x " + "A dog came."
    assert snippet(text, [("dog", 1.0)], 20, 8).endswith("A dog came.")


def test_words_are_looked_for_in_a_part_and_shown_within_the_whole() -> None:
    later = TEXT.index("Much")
    assert snippet(TEXT, [("wolves", 1.0), ("dog", 0.1)], 30, 20, later) == "… Much later a dog came to guide…"
    assert snippet(TEXT, [("wolves", 1.0)], 30, 20, later) == "… Much later a dog came to guide…"
    assert snippet(TEXT, [("wolves", 0.1), ("dog", 1.0)], 30, 20, 0, later) == "Wolves were first. They live…"


def test_a_word_is_found_however_often_it_occurred_before() -> None:
    assert snippet(1000 * "a dog. " + "A dog and a cat.", [("dog", 1.0), ("cat", 0.1)], 20, 4).endswith("and a cat.")


# Properties

letters = st.text(alphabet="ab .\n\u0130字", max_size=80)


@given(
    letters,
    st.lists(st.tuples(st.sampled_from(["a", "ab", "b a", "字", "(", "i\u0307"]), st.floats(-1, 1)), max_size=4),
)
def test_it_is_a_part_of_the_text_in_one_line(text: str, words: list[tuple[str, float]]) -> None:
    line = snippet(text, words, 20, 6)
    assert "\n" not in line
    assert line.removeprefix("… ").removesuffix("…").strip() in " ".join(text.split())
    assert len(line) <= 20 + 4


@given(st.text("ab_ '城市é", max_size=12), st.text("ab城é", min_size=1, max_size=2))
def test_words_are_found_where_a_regular_expression_finds_them(text: str, word: str) -> None:
    pattern = re.escape(word) if "城" in word else rf"(?<!\w){re.escape(word)}(?!\w)"
    assert word_spans(text, [word]) == [match.span() for match in re.finditer(pattern, text)]


@given(st.text(" ab\n\u3000", max_size=8))
def test_a_text_is_cut_before_its_last_word_and_the_spaces_before_it(text: str) -> None:
    found = re.match(r"(.*)\s\S*$", text, re.DOTALL)
    assert _without_last_word(text).strip() == (found[1] if found else text).strip()
    assert text.startswith(_without_last_word(text))
