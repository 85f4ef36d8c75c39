"""Filters: what conditions mean, and what is wrong with those that cannot be used."""

from typing import Any

import pytest
from store_places import refused

from cr5.index.filters import Filter

FIELDS = {
    "year": 2019, "score": 0.5, "kind": "howto", "draft": False, "tags": ["a", "b", 3, None], "empty": [],
    "author": {"name": "Ada", "born": 1815, "langs": ["en"]}, "dc.title": "T", "nothing": None, "date": "2019-05-01",
}  # fmt: skip


@pytest.mark.parametrize(
    "where",
    [
        {},
        {"year": 2019},
        {"year": 2019.0},
        {"year": [1, 2019]},
        {"year": {">=": 2019, "<": 2020}},
        {"year": {">": 2018.5}, "kind": "howto"},
        {"draft": False},
        {"nothing": None},
        {"tags": "a"},
        {"tags": None},
        {"tags": ["x", "b"]},
        {"tags": {">": 2}},
        {"tags": {">": "a"}},
        {"tags": {"!=": "c"}},
        {"author.name": "Ada"},
        {"author.langs": "en"},
        {"author.born": {"<=": 1815}},
        {"dc.title": "T"},
        {"date": {">=": "2019-01-01", "<": "2020"}},
        {"missing": {"!=": 1}},
        {"author": {"!=": "Ada"}},
        {"empty": {"!=": None}},
        {"year": {"!=": [2018, 2020]}},
    ],
)
def test_a_filter_matches_fields_that_meet_all_its_conditions(where: dict[str, Any]) -> None:
    assert Filter.parse(where).matches(FIELDS)


@pytest.mark.parametrize(
    "where",
    [
        {"year": "2019"},
        {"year": True},
        {"year": []},
        {"year": {">=": 2019, "<": 2019}},
        {"year": {">": "2018"}},
        {"year": 2019, "kind": "other"},
        {"draft": 0},
        {"draft": {"<": 1}},
        {"nothing": {"!=": None}},
        {"nothing": {"<": 1}},
        {"missing": None},
        {"missing": {"<": 1}},
        {"missing": [None, 1]},
        {"empty": None},
        {"tags": {"!=": "a"}},
        {"tags": {"!=": ["c", 3]}},
        {"author": "Ada"},
        {"author.missing": None},
        {"kind.name": "howto"},
        {"year": {"!=": [2018, 2019]}},
    ],
)
def test_a_filter_does_not_match_fields_that_miss_one_of_its_conditions(where: dict[str, Any]) -> None:
    assert not Filter.parse(where).matches(FIELDS)


@pytest.mark.parametrize(
    ("where", "facts"),
    [
        ("year", ["`where`", "'year'"]),
        ({1: 2}, ["1", "string"]),
        ({"": 2}, ["''", "string"]),
        ({"year": {"gte": 3}}, ["'year'", "'gte'", ">="]),
        ({"year": {}}, ["'year'", "empty"]),
        ({"year": {">": None}}, ["'year'", ">", "None"]),
        ({"year": {">": True}}, ["'year'", ">", "True"]),
        ({"year": {"<": [1]}}, ["'year'", "<", "a list"]),
        ({"year": float("nan")}, ["'year'", "nan"]),
        ({"year": {"!=": float("inf")}}, ["'year'", "!=", "inf"]),
        ({"year": [[1]]}, ["'year'", "a list"]),
        ({"year": 2**70}, ["'year'", "bits"]),
        ({"kind": "a\0"}, ["'kind'", "NUL"]),
        ({"kind": list(range(1001))}, ["'kind'", "1,001", "1,000"]),
        ({f"f{i}": i for i in range(33)}, ["33", "32"]),
    ],
)
def test_a_wrong_condition_is_refused_with_its_field_operator_and_value(where: Any, facts: list[str]) -> None:
    message = refused(lambda: Filter.parse(where))
    for fact in facts:
        assert fact in message


def test_filters_that_mean_different_things_have_different_keys() -> None:
    filters: list[dict[str, Any]] = [
        {"a": 1},
        {"a": True},
        {"a": "1"},
        {"a": [1]},
        {"a": {"!=": 1}},
        {"a": [1, 2]},
        {"b": 1},
    ]
    keys = [Filter.parse(where).key for where in filters]
    assert keys[0] == keys.pop(3) == Filter.parse(Filter.parse({"a": 1})).key
    assert len(set(keys)) == len(keys)
