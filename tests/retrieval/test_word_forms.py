"""Word forms: edit distances and common prefixs beside plain Python, and which words stand for another one."""

import unicodedata
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cr5.retrieval.word_forms import (
    ACCENT_BOOST,
    FORM_BOOST,
    MAX_FORMS,
    OTHER_ACCENT_BOOST,
    RECENT_WORDS,
    TYPO_BOOST,
    Form,
    LanguageForms,
    TermDictionary,
    _code_points,
    _letter_sets,
    best_forms,
    find_forms,
    fold,
    with_regular_forms,
)
from cr5.retrieval.word_kernels import common_prefixes, edit_distances

# Few letters, so that words are similar; "a" and "ġ", 192 code points apart, are one bit of a set of letters.
LETTERS = st.text("abcġж", max_size=7)
relaxed = settings(deadline=None)  # a kernel is compiled in the first example


def edits(a: str, b: str) -> int:
    """The optimal string alignment distance, by its recursion."""
    table = [[i + j for j in range(len(b) + 1)] for i in range(len(a) + 1)]
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            replaced = table[i - 1][j - 1] + (a[i - 1] != b[j - 1])
            table[i][j] = min(table[i - 1][j] + 1, table[i][j - 1] + 1, replaced)
            if i > 1 and j > 1 and a[i - 2 : i] == b[j - 1] + b[j - 2]:
                table[i][j] = min(table[i][j], table[i - 2][j - 2] + 1)
    return table[-1][-1]


def arrays(words: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The code points of words, where each ends, and its set of letters."""
    codes, ends = _code_points("".join(words)), np.cumsum([0, *map(len, words)])
    return codes, ends, _letter_sets(codes, ends)


@relaxed
@given(LETTERS, st.lists(LETTERS, max_size=8), st.sampled_from([1, 2]))
def test_edit_distances_up_to_a_limit_are_those_of_the_recursion(word: str, words: list[str], limit: int) -> None:
    [letters] = arrays([word])[2]
    distances = edit_distances(_code_points(word), letters, limit, *arrays(words))
    assert distances.tolist() == [min(edits(word, other), limit + 1) for other in words]


@relaxed
@given(LETTERS, st.lists(LETTERS, max_size=8), st.integers(1, 3), st.integers(0, 4))
def test_common_prefixes_are_those_of_a_plain_loop(word: str, words: list[str], least: int, longest: int) -> None:
    codes, ends, _ = arrays(words)
    expected = []
    for other in words:
        common = next(
            (i for i, (a, b) in enumerate(zip(word, other, strict=False)) if a != b), min(len(word), len(other))
        )
        is_form = common >= least and max(len(word), len(other)) - common <= longest
        expected.append(2 * common / (len(word) + len(other)) if is_form else 0)
    begin = min(1, len(words))
    found = common_prefixes(_code_points(word), codes, ends, begin, len(words), least, longest)
    np.testing.assert_allclose(found, expected[begin:], rtol=1e-6)


def test_a_word_stands_for_itself_then_for_other_accents_then_for_its_forms() -> None:
    words = TermDictionary(["dog", "resume", "résumé", "resumes", "resumed", "resort", "rescue", "presume"])
    inflected = FORM_BOOST * float(np.float32(12 / 13)) ** 2  # as similar as 6 common letters of 6 and 7
    assert find_forms([words], "resume") == [
        Form("resume", "same", 1.0),
        Form("resumed", "form", inflected),
        Form("resumes", "form", inflected),
        Form("résumé", "accents", OTHER_ACCENT_BOOST),
    ]
    assert find_forms([words], "resumé")[:2] == [
        Form("resume", "accents", ACCENT_BOOST),
        Form("résumé", "accents", ACCENT_BOOST),
    ]
    assert "presume" not in {form.word for form in find_forms([words], "resumé")}  # a typo, but the word is there


def test_only_a_missing_word_has_typos_one_in_a_short_word_and_two_in_a_long_one() -> None:
    words = TermDictionary(["bread", "break", "printer", "painter", "pointers"])
    assert find_forms([words], "bread")[0] == Form("bread", "same", 1.0)
    assert {form.kind for form in find_forms([words], "bread")} == {"same", "form"}
    assert find_forms([words], "rbead") == [Form("bread", "typo", TYPO_BOOST * (1 - 1 / 5) ** 2)]
    assert find_forms([words], "rbeda") == []
    assert {form.word: form.kind for form in find_forms([words], "rpinetr")} == {"printer": "typo"}
    assert find_forms([words], "rpinetr")[0].boost == pytest.approx(TYPO_BOOST * (5 / 7) ** 2)


def test_a_missing_word_that_is_inflected_and_a_typo_of_another_stands_for_that_first() -> None:
    both = find_forms([TermDictionary(["vulcani", "vulcano"])], "vulcanno")
    assert [form.word for form in both] == ["vulcano", "vulcani"]  # one edit, and two
    inflected, typo = FORM_BOOST * (12 / 15) ** 2, TYPO_BOOST * (1 - 1 / 8) ** 2
    assert both[0].boost == pytest.approx(1 - (1 - inflected) * (1 - typo))


def test_other_accents_count_fully_if_the_query_was_typed_without_them() -> None:
    words = TermDictionary(["ca", "cà", "cá", "phê", "dog"])
    assert words.is_accented
    assert not TermDictionary(["cane", "caffè"]).is_accented
    boosts = {form.word: form.boost for form in find_forms([words], "ca", is_unaccented=True)}
    assert boosts == {"ca": 1.0, "cà": ACCENT_BOOST, "cá": ACCENT_BOOST}


@pytest.mark.parametrize(
    ("word", "other"),
    [("молкоо", "молоко"), ("ελαδα", "ελλάδα"), ("한국어을", "한국어는"), ("कितावें", "किताबें"), ("می‌خواهم", "می‌خواهد")],
)
def test_words_of_any_script_have_forms(word: str, other: str) -> None:
    assert [form.word for form in find_forms([TermDictionary([other, "other"])], word)] == [other]


def test_short_words_and_words_with_digits_have_no_forms_but_other_accents() -> None:
    words = TermDictionary(["a", "e", "der", "dem", "vé", "e0412", "e0413", "12345", "c3po", "résumé2"])
    for word, expected in {
        "a": ["a"], "b": [], "den": [], "dem": ["dem"], "ve": ["vé"], "e0412": ["e0412"], "e0414": [], "12346": [],
        "c3pq": [], "resume2": ["résumé2"], "": [],
    }.items():  # fmt: skip
        assert [form.word for form in find_forms([words], word)] == expected


def test_an_empty_dictionary_has_no_forms() -> None:
    empty = TermDictionary([])
    assert (len(empty), find_forms([empty], "printer"), find_forms([empty], "")) == (0, [], [])


def test_a_word_of_several_dictionaries_is_one_form_with_the_largest_share_and_few_are_kept() -> None:
    forms = [Form("b", "typo", 0.4), Form("a", "form", 0.4), Form("b", "accents", 0.9)]
    assert best_forms(forms) == [Form("b", "accents", 0.9), Form("a", "form", 0.4)]
    many = [Form(f"w{i:02d}", "form", i / 100) for i in range(40)]
    assert best_forms(many) == many[: -MAX_FORMS - 1 : -1]


@relaxed
@given(st.text(max_size=8))
def test_folding_twice_is_folding_once_and_leaves_no_accents(text: str) -> None:
    folded = fold(text)
    assert fold(folded) == folded
    assert not any(unicodedata.combining(character) for character in unicodedata.normalize("NFD", folded))


@relaxed
@given(st.lists(st.text(st.characters(exclude_characters="\n"), max_size=5), max_size=5))
def test_words_are_folded_together_as_they_are_alone(words: list[str]) -> None:
    dictionary = TermDictionary(words)
    assert sorted(dictionary.words) == sorted(words)
    folded = [fold(word) for word in dictionary.words]
    assert [fold(word) for word in dictionary.words] == folded
    assert all(a <= b for a, b in pairwise(folded))


def test_folding_is_lower_case_without_accents() -> None:
    for text, expected in {
        "Ærø": "aero", "ŁÓDŹ": "lodz", "Straße": "strasse", "ĐẶNG": "dang", "İzmir": "izmir", "ё": "е", "가": "가",
    }.items():  # fmt: skip
        assert fold(text) == expected


def test_remembered_forms_are_those_that_are_looked_up_also_after_many_other_words() -> None:
    dictionaries = [TermDictionary(["wolf", "wolfs", "wolves", "cà", "ca"]), TermDictionary(["wolfs", "dog"])]
    forms = LanguageForms(dictionaries)
    for _ in range(2):
        for word in ("wolf", "wofl", "ca", "nothing", 70 * "a"):
            for is_unaccented in (False, True):
                expected = find_forms(dictionaries, word, is_unaccented=is_unaccented)
                assert forms.find(word, is_unaccented=is_unaccented) == expected
                regular = with_regular_forms(dictionaries, word, expected)
                assert forms.find_with_regular(word, is_unaccented=is_unaccented) == regular
        for number in range(RECENT_WORDS + 1):
            forms.find(f"{number}")
        assert len(forms._recent) <= RECENT_WORDS
    assert LanguageForms([]).find("wolf") == []
