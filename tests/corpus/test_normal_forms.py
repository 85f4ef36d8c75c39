"""Normal forms of Unicode, against those of the standard library."""

import itertools
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cr5.corpus.normal_forms import MAX_MARKS, normal_form

MARKS = ("\u0301", "\u0323", "\uff9e")  # of different classes, so that they are put in order; the last is a letter
marked_texts = st.text(st.sampled_from([*"aöが \n-…ﷺ", *MARKS]), max_size=MAX_MARKS)


@given(st.text() | marked_texts)
def test_a_text_with_few_marks_in_a_row_has_the_normal_form_of_the_standard_library(text: str) -> None:
    assert normal_form("NFKC", text) == unicodedata.normalize("NFKC", text)
    assert normal_form("NFC", text) == unicodedata.normalize("NFC", text)


def test_a_long_run_of_punctuation_is_not_changed() -> None:
    text = "a" + "—" * 1000 + "b" + "-" * 1000
    assert normal_form("NFKC", text) == text


@pytest.mark.parametrize("marks", ["\u0301\u0323", "\uff9e\u0323", "\u0344\u0323", "\u0301\u0323-"])
def test_no_more_marks_than_the_limit_are_put_in_order_together(marks: str) -> None:
    normal = normal_form("NFKC", "a" + marks * 10_000)
    runs = itertools.groupby(unicodedata.normalize("NFD", normal), key=lambda c: unicodedata.combining(c) > 0)
    assert max(len(list(run)) for is_mark, run in runs if is_mark) <= 2 * MAX_MARKS  # of which one became two
    assert len(re.sub("\u034f", "", normal)) >= 10_000


def test_every_character_that_becomes_a_mark_counts_as_one() -> None:
    decomposed = ((character, unicodedata.normalize("NFKD", character)) for character in map(chr, range(0x110000)))
    marks = [character for character, parts in decomposed if all(map(unicodedata.combining, parts))]
    assert len(marks) > 800
    others = ("\u0323", "\u0301", "\u05b0")  # one of them comes before a mark, so that it is not in order
    for mark in marks:
        assert any("\u034f" in normal_form("NFKC", "a" + (mark + other) * MAX_MARKS) for other in others)
