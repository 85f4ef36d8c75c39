"""Which pairs of endings are regular in a made-up dictionary, and which words they make forms of each other."""

from hypothesis import given
from hypothesis import strategies as st

from cr5._typing import Ints
from cr5.retrieval.endings import (
    BLOCK_WORDS,
    MAX_ENDING,
    MIN_PAIRS,
    MIN_PREFIX,
    SAMPLE_WORDS,
    count_endings,
    ending_pair,
)
from cr5.retrieval.word_forms import REGULAR_BOOST, TermDictionary, find_forms, with_regular_forms

STEMS = [f"{a}{b}lk" for a in "bdfgkm" for b in "aeiou"]
REGULAR = sorted(stem + ending for stem in STEMS for ending in ("", "s"))


def test_endings_that_many_neighbours_differ_by_are_regular_and_others_are_not() -> None:
    words = sorted([*REGULAR, "than", "thatch"])
    endings = count_endings(TermDictionary(words).words_at, len(words))
    assert endings.pairs["", "s"] == len(STEMS)
    assert endings.are_regular("wolf", "wolfs")
    assert endings.are_regular("wolfs", "wolf")
    assert not endings.are_regular("than", "thatch")


def test_a_few_pairs_are_not_enough_and_accents_are_not_ignored() -> None:
    few = sorted(word + ending for word in STEMS[: MIN_PAIRS - 1] for ending in ("", "s"))
    assert not count_endings(TermDictionary(few).words_at, len(few)).are_regular("wolf", "wolfs")
    endings = count_endings(TermDictionary(REGULAR).words_at, len(REGULAR))
    assert endings.are_regular("wolf", "wolfs")
    assert not endings.are_regular("wolf", "wölfs")


def test_of_a_large_dictionary_only_blocks_are_read() -> None:
    number, read = 10 * SAMPLE_WORDS, list[int]()

    def take(numbers: Ints) -> list[str]:
        read.extend(numbers.tolist())
        return [f"stem{i // 2:06d}{'' if i % 2 == 0 else 's'}" for i in numbers.tolist()]

    endings = count_endings(take, number)
    assert len(set(read)) == SAMPLE_WORDS
    assert max(read) >= 0.9 * number
    assert endings.neighbours == SAMPLE_WORDS - SAMPLE_WORDS // BLOCK_WORDS
    assert endings.are_regular("wolf", "wolfs")


@given(st.text("ab", max_size=9), st.text("ab", max_size=9))
def test_a_pair_of_endings_completes_the_common_prefix_of_both_words(word: str, other: str) -> None:
    pair = ending_pair(word, other)
    assert pair == ending_pair(other, word)
    if pair is not None:
        beginnings = {word[: len(word) - len(end)] for end in pair if word.endswith(end)}
        assert any({start + pair[0], start + pair[1]} == {word, other} for start in beginnings)
        assert pair[0] <= pair[1]
        assert max(map(len, pair)) <= MAX_ENDING
        assert min(len(word), len(other)) >= MIN_PREFIX


def test_a_form_with_a_regular_ending_counts_more_and_comes_before_others() -> None:
    dictionary = TermDictionary([*REGULAR, "walk", "walks", "wall", "walkk"])
    plain = find_forms([dictionary], "walk")
    regular = with_regular_forms([TermDictionary([]), dictionary], "walk", plain)
    assert {form.word: form.boost for form in regular} == {form.word: form.boost for form in plain} | {
        "walks": REGULAR_BOOST
    }
    assert [form.word for form in regular][:2] == ["walk", "walks"]


def test_without_forms_endings_are_not_counted() -> None:
    assert with_regular_forms([], "walk", []) == []
