"""Every setting has one name, one default and one error message."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from cr5 import Cr5
from cr5.errors import Cr5Error
from cr5.features.tfidf import NO_LIMIT, Idf, Tf, Weighting
from cr5.features.tokeniser import Tokeniser
from cr5.settings import PRESETS, Settings, changed_settings, make_settings, setting_rows


def message(*arguments: Any, **changes: Any) -> str:
    with pytest.raises(Cr5Error) as caught:
        make_settings(*arguments, **changes)
    return str(caught.value)


def test_a_weighting_and_a_tokeniser_have_the_defaults_of_the_default_preset() -> None:
    assert make_settings().weighting == Weighting()
    assert make_settings().tokeniser == Tokeniser()


def test_wsdm19_is_exactly_the_paper() -> None:
    paper = make_settings("wsdm19")
    assert paper.weighting == Weighting(
        tf="raw",
        idf="plain",
        idf_power=1.0,
        min_documents=3,
        max_words=200_000,
        min_unique=50,
        max_unique=1_000,
        subwords=False,
    )
    assert (paper.preset, paper.nominal_rank, paper.intercept, paper.metric) == ("wsdm19", 300, "shared", "orthonormal")


def test_the_default_differs_from_the_paper_where_it_says_so() -> None:
    default, paper = make_settings().to_json(), make_settings("wsdm19").to_json()
    assert {name for name in default if default[name] != paper[name]} == {
        "preset", "intercept", "metric", "weighting",
    }  # fmt: skip
    weighting = {name for name, value in default["weighting"].items() if value != paper["weighting"][name]}
    assert weighting == {"tf", "idf", "idf_power", "min_unique", "max_unique", "subwords"}
    assert (default["weighting"]["min_unique"], default["weighting"]["max_unique"]) == (1, NO_LIMIT)


def test_settings_of_models_before_ngrams_have_none() -> None:
    saved = make_settings().to_json()
    for name in ("subwords", "subword_weight", "max_subwords"):
        del saved["weighting"][name]
    assert not Settings.from_json(saved).weighting.subwords
    assert Settings.from_json(make_settings().to_json()).weighting.subwords


def test_a_change_reaches_the_part_that_has_the_setting_and_no_other() -> None:
    changed = make_settings("wsdm19", rank=7, min_documents=1, segment=False)
    expected = PRESETS["wsdm19"].to_json() | {"rank": 7}
    expected["weighting"] = expected["weighting"] | {"min_documents": 1}
    expected["tokeniser"] = expected["tokeniser"] | {"segment": False}
    assert changed.to_json() == expected
    assert PRESETS["wsdm19"].rank == "auto"


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_is_named_as_it_is_called(preset: str) -> None:
    assert make_settings(preset) == PRESETS[preset]
    assert make_settings(preset).preset == preset


@pytest.mark.parametrize(
    "chosen",
    [
        make_settings(),
        make_settings("wsdm19"),
        make_settings(ridge=0.3, rank=5, tf="raw", max_words=9, pretokenised=True),
        Settings(weighting=Weighting(min_unique=1), tokeniser=Tokeniser(lowercase=False)),
    ],
)
def test_settings_come_back_from_json(chosen: Settings) -> None:
    assert Settings.from_json(json.loads(json.dumps(chosen.to_json()))) == chosen


def test_settings_of_earlier_versions_segment_by_language() -> None:
    saved = make_settings(rank=5).to_json()
    del saved["tokeniser"]["segment_by"]
    assert Settings.from_json(saved) == make_settings(rank=5, segment_by="language")
    assert make_settings().tokeniser.segment_by == "script"


def test_an_unknown_preset_is_named_beside_the_known_ones() -> None:
    assert message("wsdm20") == "there is no preset 'wsdm20'; the presets are default, wsdm19"


def test_a_setting_without_its_name_is_not_taken_for_a_preset() -> None:
    for given in (300, {"rank": 300}):
        assert message(given) == (
            f"there is no preset {given}; the presets are default, wsdm19; name other settings, as in `rank=300`"
        )


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("rnak", "; did you mean rank?"),
        ("lower_case", "; did you mean lowercase?"),
        ("min_document", "; did you mean min_documents?"),
        ("n_components", "; did you mean rank?"),
        ("min_df", "; did you mean min_documents?"),
        ("colour", "; the settings are idf, "),
        ("weighting", "; the settings are idf, "),
    ],
)
def test_an_unknown_setting_is_named_with_the_closest_known_one(name: str, hint: str) -> None:
    assert message(**{name: 1}).startswith(f"there is no setting {name!r}{hint}")


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("rank", 0, '`rank=0` must be a whole number of at least 1, or "auto"'),
        ("max_steps", 0, "`max_steps=0` must be a whole number of at least 1"),
        ("tol", -0.1, "`tol=-0.1` must be a number of at least 0"),
        ("tol", float("nan"), "`tol=nan` must be a number of at least 0"),
        ("seed", -1, "`seed=-1` must be a whole number of at least 0"),
        ("ridge", 0, '`ridge=0` must be a number above 0, or "auto"'),
        ("ridge", -1.5, '`ridge=-1.5` must be a number above 0, or "auto"'),
        ("ridge", float("nan"), '`ridge=nan` must be a number above 0, or "auto"'),
        ("strings_weight", -0.1, '`strings_weight=-0.1` must be a number of at least 0, or "auto"'),
        ("strings_weight", "none", "`strings_weight='none'` must be a number of at least 0, or \"auto\""),
        ("rank", 2.5, '`rank=2.5` must be a whole number of at least 1, or "auto"'),
        ("rank", True, '`rank=True` must be a whole number of at least 1, or "auto"'),
        ("rank", "3", "`rank='3'` must be a whole number of at least 1, or \"auto\""),
        ("tol", True, "`tol=True` must be a number of at least 0"),
        ("ridge", True, '`ridge=True` must be a number above 0, or "auto"'),
        ("lowercase", 1, "`lowercase=1` must be true or false"),
        ("tf", 1, f"`tf=1` must be one of {', '.join(get_args(Tf))}"),
        ("min_documents", -1, "`min_documents=-1` must be a whole number of at least 0"),
        ("max_unique", 0, "`max_unique=0` must be a whole number of at least 1"),
        ("idf_power", "x", "`idf_power='x'` must be a number of at least 0"),
        ("ridge", float("inf"), '`ridge=inf` must be a number above 0, or "auto"'),
        ("ridge", "Auto", "`ridge='Auto'` must be a number above 0, or \"auto\""),
        ("intercept", "none", "`intercept='none'` must be one of language, shared"),
        ("metric", "cosine", "`metric='cosine'` must be one of orthonormal, signal"),
        ("tf", "count", f"`tf='count'` must be one of {', '.join(get_args(Tf))}"),
        ("idf", "none", f"`idf='none'` must be one of {', '.join(get_args(Idf))}"),
    ],
)
def test_an_impossible_value_is_refused(name: str, value: object, expected: str) -> None:
    assert message(**{name: value}) == expected


@pytest.mark.parametrize("name", ["rank", "min_documents", "max_steps", "seed", "min_unique", "max_words"])
def test_a_whole_number_may_be_a_float(name: str) -> None:
    for number in (20.0, np.float64(20), np.linspace(10, 20, 2)[1]):
        given: dict[str, Any] = {name: number}
        changed = make_settings(**given).value(name)
        assert (changed, type(changed)) == (20, int)
    assert make_settings(ridge=3.0).ridge == 3.0
    for number in (20.5, float("nan"), float("inf")):
        assert f"`{name}={number!r}` must be a whole number" in message(**{name: number})


def test_numbers_of_numpy_are_numbers() -> None:
    given: dict[str, Any] = {
        "rank": np.int64(300),
        "ridge": np.float32(0.5),
        "lowercase": np.True_,
        "min_unique": np.uint8(3),
    }
    chosen = make_settings(**given)
    assert chosen == make_settings(rank=300, ridge=0.5, lowercase=True, min_unique=3)
    assert Settings.from_json(json.loads(json.dumps(chosen.to_json()))) == chosen
    assert message(rank=np.float64(2.5)) == '`rank=2.5` must be a whole number of at least 1, or "auto"'
    assert message(ridge=np.float32("nan")) == '`ridge=nan` must be a number above 0, or "auto"'


def test_none_is_the_setting_of_the_preset() -> None:
    assert make_settings("wsdm19", tf=None, rank=None, ridge=1.0) == make_settings("wsdm19", ridge=1.0)


def test_the_changes_of_a_preset_make_the_same_settings() -> None:
    chosen = make_settings("wsdm19", rank=7, tf="log", segment=False, ridge="auto")
    assert changed_settings(chosen) == {"rank": 7, "tf": "log", "segment": False}
    assert make_settings("wsdm19", **changed_settings(chosen)) == chosen


def test_values_at_their_limits_are_taken() -> None:
    chosen = make_settings(rank=1, max_steps=1, tol=0, seed=0, ridge=1e-9)
    assert (chosen.rank, chosen.tol, chosen.ridge) == (1, 0, 1e-9)


def test_every_setting_has_a_row_with_its_default_and_its_meaning() -> None:
    rows = {row.name: row for row in setting_rows()}
    nested = [*fields(Weighting), *fields(Tokeniser)]
    assert set(rows) == {f.name for f in [*fields(Settings), *nested]} - {"preset", "weighting", "tokeniser"}
    assert (rows["rank"].default, rows["tf"].default, rows["tf"].paper) == ("'auto'", "'log'", "'raw'")
    assert all(row.meaning.endswith(".") for row in rows.values())


def test_a_model_that_an_earlier_version_saved_segments_by_language() -> None:
    saved = Path(__file__).parent / "data" / "index-format-1" / "model"
    assert Cr5.load(saved).settings.tokeniser == Tokeniser(segment_by="language")
