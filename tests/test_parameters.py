"""The keywords of ``Cr5``: one for every setting, as editors and scikit-learn see them."""

import inspect
import json
import pickle
from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Any, get_type_hints

import madeup
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from cr5 import Cr5, Cr5Error, Document, FitNeeded, Index, read
from cr5.errors import Cr5TypeError, NotFittedError
from cr5.features.tfidf import Weighting
from cr5.features.tokeniser import Tokeniser
from cr5.settings import Settings, setting_rows


def test_every_setting_is_a_keyword_of_the_same_type() -> None:
    parameters = dict(inspect.signature(Cr5).parameters)
    assert parameters.pop("preset").default == "default"
    assert parameters.pop("unknown").kind is inspect.Parameter.VAR_KEYWORD
    assert list(parameters) == [row.name for row in setting_rows()]
    types = get_type_hints(Settings) | get_type_hints(Weighting) | get_type_hints(Tokeniser)
    for name, parameter in parameters.items():
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
        assert parameter.default is None
        assert parameter.annotation == types[name] | None, name


def test_help_has_the_meaning_and_the_default_of_every_setting() -> None:
    described = inspect.getdoc(Cr5) or ""
    for row in setting_rows():
        assert f"\n{row.name}\n    {row.meaning} Default: {row.default}" in described
    assert "Default: no limit; 1000 in the preset wsdm19." in described


def test_an_unknown_keyword_is_refused_with_the_closest_one() -> None:
    with pytest.raises(Cr5TypeError, match=r"^there is no setting 'rnak'; did you mean rank\?$"):
        Cr5(rnak=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^there is no setting 'rnak'; did you mean rank\?$"):
        Cr5().set_params(rnak=3)


GIVEN: list[dict[str, Any]] = [
    {},
    {"preset": "wsdm19"},
    {"rank": 7, "ridge": "auto", "tf": "raw", "segment": False},
    {"rank": np.int64(7), "ridge": np.float32(0.1), "lowercase": np.False_},
]


@pytest.mark.parametrize("given", GIVEN)
def test_parameters_are_what_was_given(given: dict[str, Any]) -> None:
    model = Cr5(**given)
    found = model.get_params()
    assert sorted(found) == sorted(["preset", *(row.name for row in setting_rows())])
    assert {name: value for name, value in found.items() if value is not None} == {"preset": "default"} | given
    assert json.loads(json.dumps(found)) == found
    assert Cr5(**found).settings == model.settings
    assert Cr5().set_params(**given).get_params() == found


@pytest.mark.parametrize("given", GIVEN)
def test_scikit_learn_can_clone_a_model(given: dict[str, Any]) -> None:
    model = Cr5(**given)
    cloned = clone(model)
    assert type(cloned) is Cr5
    assert cloned is not model
    assert (cloned.get_params(), cloned.settings) == (model.get_params(), model.settings)


def test_a_clone_of_a_fitted_model_is_not_fitted(model: Cr5, model_folder: Any) -> None:
    for fitted in (model, Cr5.load(model_folder)):
        cloned = clone(fitted)
        assert cloned.langs == []
        assert cloned.settings == fitted.settings


def test_parameters_of_a_model_that_is_not_fitted_apply_at_once() -> None:
    model = Cr5(rank=7)
    assert model.set_params(rank=9, preset="wsdm19") is model
    assert (model.settings.rank, model.settings.preset, model.settings.weighting.tf) == (9, "wsdm19", "raw")


def test_a_fitted_model_stays_as_it_is_until_the_next_fit(documents: list[Document]) -> None:
    model = Cr5(**madeup.SETTINGS).fit(documents)
    assert model.set_params() is model
    settings, report, vectors = model.settings, model.report, model.encode([documents[0].text], "aa")
    assert model.set_params(rank=9, ridge=0.1, tol=0.1, seed=3) is model  # of training alone: no warning
    assert model.get_params()["rank"] == 9
    for same in (model, copy(model), pickle.loads(pickle.dumps(model))):
        assert (same.settings, same.report, same.rank) == (settings, report, 60)
        np.testing.assert_array_equal(same.encode([documents[0].text], "aa"), vectors)
        assert same.get_params()["rank"] == 9
    assert model.fit(documents).encode("kaka", "aa").shape == (9,)
    assert (model.settings.rank, model.settings.tol) == (9, 0.1)


@pytest.mark.parametrize(
    ("params", "facts"),
    [
        (
            {"lowercase": False, "rank": 5},
            "^`lowercase=False` will apply from the next fit on; .* `lowercase=True`",
        ),
        ({"preset": "wsdm19"}, "`tf='raw'`, `idf='plain'`, `idf_power=1.0`, `subwords=False` will"),
    ],
)
def test_a_setting_of_encoding_that_waits_for_the_next_fit_is_a_warning(
    model: Cr5, params: dict[str, Any], facts: str
) -> None:
    changed, text = copy(model), madeup.text("aa", range(9)).upper()
    with pytest.warns(FitNeeded, match=facts):
        changed.set_params(**params)
    np.testing.assert_array_equal(changed.encode([text], "aa"), model.encode([text], "aa"))
    assert changed.set_params(**model.get_params()).get_params() == model.get_params()  # which is no warning


def test_a_model_is_saved_and_updated_with_the_settings_of_its_fit(
    model: Cr5, documents: list[Document], tmp_path: Path
) -> None:
    changed = copy(model).set_params(rank=9)
    changed.save(tmp_path / "model")
    loaded = Cr5.load(tmp_path / "model")
    assert (loaded.settings, loaded.get_params()["rank"]) == (model.settings, 60)
    assert changed.update(documents).rank == 60


def test_a_fit_that_fails_leaves_the_settings_of_the_model(model: Cr5) -> None:
    changed = copy(model).set_params(rank=9)
    with pytest.raises(Cr5Error):
        changed.fit([])
    assert changed.settings == model.settings


def test_a_parameter_that_is_refused_changes_nothing(model: Cr5) -> None:
    before = model.get_params()
    with pytest.raises(Cr5Error, match=r"^`rank=0` must be"):
        model.set_params(rank=0)
    assert model.get_params() == before
    assert model.langs


def test_what_is_no_language_or_text_is_refused_by_its_parameter(model: Cr5) -> None:
    calls: dict[str, Any] = {
        "`lang` is 5, not a language code; convert it": lambda: model.encode("x", lang=5),  # type: ignore[arg-type]
        "`lang` is b'en', not a language code; decode it": lambda: model.encode("x", lang=b"en"),  # type: ignore[arg-type]
        "`texts` is b'x', not a string; decode it": lambda: model.encode(b"x"),  # type: ignore[arg-type]
        "`text` is None, not a string; give one text": lambda: model.guess_language(None),  # type: ignore[arg-type]
        "`text` is 5, not a string; give one text": lambda: model.encode_text(5, "aa"),  # type: ignore[arg-type]
        "`word` is a list, not a string; give one text": lambda: model.similar_words(["x"], "aa", "bb"),  # type: ignore[arg-type]
        "`lang` is None, not a language code; give one such as 'en'": lambda: model.encode_text("x", None),  # type: ignore[arg-type]
        "`lang` is 7, not a language code; convert it": lambda: model.encode_text("x", 7),  # type: ignore[arg-type]
    }
    for message, call in calls.items():
        with pytest.raises(Cr5TypeError) as caught:
            call()
        assert str(caught.value) == message


@pytest.mark.parametrize(
    "use",
    [
        lambda model, _: model.encode("a"),
        lambda model, _: model.encode("a", "en"),
        lambda model, _: model.encode([]),
        lambda model, _: model.encode_text("a", "en"),
        lambda model, _: model.coverage([]),
        lambda model, _: model.coverage_parts("a", "en"),
        lambda model, _: model.guess_language("a"),
        lambda model, _: model.guess_languages([]),
        lambda model, _: model.find_language("en"),
        lambda model, _: model.words("en"),
        lambda model, _: model.word_vectors("en"),
        lambda model, _: model.similar_words("a", "en", "it"),
        lambda model, _: model.lexicon("en", "it"),
        lambda model, _: model.translate_words([], "en", "it"),
        lambda model, _: model.similarity("a", None, [], "it"),
        lambda model, _: model.explain("a", "en", "b", "it"),
        lambda model, folder: model.save(folder / "model"),
        lambda model, folder: Index.create(folder / "index", model),
    ],
)
@pytest.mark.parametrize("settings", [{}, {"rank": 5}])
def test_a_model_that_is_not_fitted_says_so_in_one_sentence(use: Any, settings: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(NotFittedError) as caught:
        use(Cr5(**settings), tmp_path)
    assert str(caught.value) == "the model is not fitted and has no languages; fit the model first"
    assert isinstance(caught.value, Cr5Error)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_fit_without_documents_is_refused() -> None:
    with pytest.raises(Cr5Error, match=r"^the corpus has no documents; give documents in two languages or more"):
        Cr5().fit([])


def test_one_language_may_be_a_string(model: Cr5, model_folder: Any) -> None:
    assert Cr5.load(model_folder, langs="aa").langs == ["aa"]
    assert [guess.lang for guess in model.guess_languages(["kaka"], langs="bb")] == ["bb"]
    assert model.guess_language("kaka", "cc").lang == "cc"


@pytest.mark.parametrize("k", [np.int64(3), np.uint8(3), np.int32(3)])
def test_a_number_of_results_may_be_a_number_of_numpy(model: Cr5, k: Any) -> None:
    word = madeup.word("aa", 5)
    assert model.similar_words(word, "aa", "bb", k) == model.similar_words(word, "aa", "bb", 3)
    assert model.explain(word, "aa", word, "aa", k) == model.explain(word, "aa", word, "aa", 3)


@pytest.mark.parametrize(("k", "error"), [(2.5, TypeError), ("3", TypeError), (None, TypeError), (-1, ValueError)])
def test_what_is_no_number_of_results_is_refused(model: Cr5, k: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=rf"^`k={k!r}` must be a whole number of at least 0$") as caught:
        model.similar_words(madeup.word("aa", 5), "aa", "bb", k)
    assert isinstance(caught.value, Cr5Error)


def test_what_is_no_path_function_or_code_is_refused_by_its_name(model: Cr5, tmp_path: Path) -> None:
    everything: list[Any] = [Cr5, Index, read, model]
    new, index, reading, fitted = everything
    (tmp_path / "file").touch()
    frame = pd.DataFrame({"concept": ["Q1"], "lang": ["en"], "text": ["a"]})
    cases: list[tuple[Callable[[], Any], str]] = [
        (lambda: new.load(None), "`path` is None; give a path"),
        (lambda: fitted.save(5), "`path` is 5; give a path"),
        (lambda: index.create(model, "model"), "`folder` is a Cr5; give a path"),
        (lambda: index.create(tmp_path / "index", None), "`model` is None; give a path"),
        (lambda: index.create(tmp_path / "file", model), "it is a file, not a folder; choose another path"),
        (lambda: copy(fitted).add_language([], ["de"]), "`lang` is a list, not a language code"),
        (lambda: new().fit([], progress=True), "`progress=True` must be a function"),
        (lambda: reading(frame), "`paths` has a DataFrame; read takes paths; documents in memory are given to fit"),
        (lambda: reading(None), "`paths` has None"),
        (lambda: reading([Document("Q1", "en", "a")]), "`paths` has a Document"),
        (lambda: new().fit(Document("Q1", "en", "a")), "`documents` is a Document; put it into a list"),
        (lambda: new().fit("buildin"), "buildin: no such file or folder; did you mean builtin?"),
        (lambda: reading("https://a.b/c.csv"), "https://a.b/c.csv: an address, not a path; download the file first"),
        (lambda: fitted.guess_languages("kaka"), "`texts` is 'kaka'; give a list of texts, or this one to `guess_la"),
        (lambda: new(min_unique=50, max_unique=10), "`max_unique=10` must be a whole number of at least 50 (`min_uni"),
        (lambda: new(ridge=0.0), "`ridge=0` must be a number above 0"),
    ]  # fmt: skip
    for use, fact in cases:
        with pytest.raises(Cr5Error) as caught:
            use()
        assert fact in str(caught.value)
