"""The passage that says why a text was found."""

from hypothesis import given
from hypothesis import strategies as st

from cr5.passage import passage

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
