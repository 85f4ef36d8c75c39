"""Numbers and durations as reports write them."""

import pytest

from cr5.evaluate.report.formatting import MISSING, describe_failures, format_duration, format_number, format_value
from cr5.evaluate.runs import FailedSystem


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "under 1 ms"),
        (5.7e-06, "under 1 ms"),
        (0.0123, "12 ms"),
        (0.9999, "1.0 s"),
        (3.44, "3.4 s"),
        (59.97, "1 min 0 s"),
        (125.4, "2 min 5 s"),
        (3599.7, "1 h 0 min"),
        (4321.0, "1 h 12 min"),
    ],
)
def test_a_duration_has_the_unit_that_suits_it(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (300.0, "300"),
        (0.05, "0.05"),
        (0.0001, "0.0001"),
        (2 / 3, "0.6667"),
        (12345.678, "12,346"),
        (-0.25, "-0.25"),
        (5.7e-06, "5.7 × 10⁻⁶"),
        (1e-10, "1.0 × 10⁻¹⁰"),
        (float("inf"), "inf"),
    ],
)
def test_a_number_has_four_digits_and_no_exponent(value: float, text: str) -> None:
    assert format_number(value) == text


def test_a_reason_is_given_once_for_all_regimes_and_pairs() -> None:
    failures = [
        FailedSystem("lsi", "joint", ["aa", "bb", "cc"], "missing package", "it needs scikit-learn"),
        FailedSystem("lsi", "pairwise", ["aa", "bb"], "missing package", "it needs scikit-learn"),
        FailedSystem("lsi", "pairwise", ["aa", "cc"], "missing package", "it needs scikit-learn"),
        FailedSystem("cr5", "pairwise", ["aa", "bb"], "not applicable", "12 concepts are too few"),
        FailedSystem("cr5", "pairwise", ["aa", "cc"], "not applicable", "17 concepts are too few"),
        FailedSystem("half", "pretrained", ["aa", "bb"], "not applicable", "it has no language bb"),
        FailedSystem("words", "pretrained", ["aa", "bb", "cc"], "out of memory", "there is not enough memory"),
    ]
    assert describe_failures(failures) == [
        "lsi, joint, pairwise (2 language pairs): it needs scikit-learn",
        "cr5, pairwise aa-bb: 12 concepts are too few (and 1 more like it)",
        "half, aa-bb: it has no language bb",
        "words: there is not enough memory",
    ]


def test_nested_values_are_words_and_brackets() -> None:
    assert format_value({"en": {"words": 12000, "known_share": 0.5}, "it": None}) == (
        f"en (words 12,000, known share 0.5), it {MISSING}"
    )
    assert format_value([1, [2, 3], True]) == "1, (2, 3), yes"
    assert format_value(list(range(300))) == "300 values"
    assert format_value(float("nan")) == MISSING
