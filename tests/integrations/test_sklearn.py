"""The transformer for scikit-learn: its conventions, and pipelines that work."""

import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from madeup import MEANINGS, SETTINGS, word
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError, SkipTestWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import validate_data

from cr5 import Cr5, Cr5Error, Document
from cr5._typing import Array
from cr5.errors import Cr5TypeError, Cr5Warning, FewDocuments
from cr5.integrations.sklearn import Cr5Transformer

EXPECTED_FAILED_CHECKS = {
    "check_fit2d_1sample": "a model needs two concepts; the message says so in the words of cr5, not of scikit-learn"
}


class OnNumbers(Cr5Transformer):
    """Rows of numbers as texts: the checks of scikit-learn have nothing but numbers."""

    def __init__(self, model: Any = None, *, lang: str | None = None) -> None:
        super().__init__(model, lang=lang)

    def fit(self, X: Any, y: object = None) -> Self:
        texts = self._texts(validate_data(self, X))
        return super().fit([(str(i), lang, text) for i, text in enumerate(texts) for lang in ("aa", "bb")])

    def transform(self, X: Any) -> Array:
        if hasattr(self, "model_"):  # otherwise the method of the base class complains
            X = self._texts(validate_data(self, X, reset=False))
        return super().transform(X)

    @staticmethod
    def _texts(X: Array) -> list[str]:
        return [" ".join(f"c{j}v{int(4 * value)}".replace("-", "m") for j, value in enumerate(row)) for row in X]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.one_d_array, tags.input_tags.string = True, False, False
        return tags


@pytest.fixture(scope="module")
def frame(documents: list[Document]) -> pd.DataFrame:
    """The documents as a table, with a label that depends on what a text is about, not on its language."""
    meanings = {word("aa", i): i for i in range(MEANINGS)}
    average = {d.concept: np.mean([meanings[w] for w in d.text.split()]) for d in documents if d.lang == "aa"}
    middle = np.median(list(average.values()))
    rows = [(d.concept, d.lang, d.text, int(average[d.concept] > middle)) for d in documents]
    return pd.DataFrame(rows, columns=["concept", "lang", "text", "label"])


@pytest.fixture(scope="module")
def few(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.iloc[::10]


# Conventions


@pytest.mark.slow
def test_scikit_learns_own_checks_pass() -> None:
    model = Cr5(rank=1, ridge=1.0, min_documents=1, min_unique=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(
            OnNumbers(model, lang="aa"), expected_failed_checks=EXPECTED_FAILED_CHECKS, on_fail="raise", on_skip=None
        )
    assert {result["check_name"] for result in results if result["status"] == "xfail"} == set(EXPECTED_FAILED_CHECKS)
    assert sum(result["status"] == "passed" for result in results) > 30


@pytest.mark.filterwarnings("default")
def test_scikit_learn_knows_that_the_input_is_text() -> None:
    with pytest.warns(SkipTestWarning, match=r"Can't test estimator Cr5Transformer .*string=True"):
        check_estimator(Cr5Transformer())


def test_a_transformer_that_is_not_fitted_says_so() -> None:
    with pytest.raises(NotFittedError, match="not fitted"):
        Cr5Transformer(Cr5(rank=3)).transform(["text"])
    with pytest.raises(NotFittedError, match="not fitted"):
        Cr5Transformer(Cr5(rank=3)).get_feature_names_out()


def test_one_string_is_not_taken_for_a_list_of_characters(model: Cr5) -> None:
    with pytest.raises(Cr5Error, match=r"X is one text, 'one text', not several; give a list, \[text\]"):
        Cr5Transformer(model).fit(["one text"]).transform("one text")


def test_a_clone_keeps_a_fitted_model_and_forgets_one_that_was_fitted_in_the_pipeline(
    model: Cr5, model_folder: Path, frame: pd.DataFrame, few: pd.DataFrame
) -> None:
    texts = few.text.tolist()
    expected = model.encode(texts)
    for given in (model, model_folder, str(model_folder)):
        cloned = clone(Cr5Transformer(given).fit(texts))
        assert not hasattr(cloned, "model_")
        np.testing.assert_array_equal(cloned.fit(texts).transform(texts), expected)
    given_model = Cr5(**SETTINGS)
    inside = Cr5Transformer(given_model).fit(frame)
    assert (given_model.langs, clone(inside).model.langs) == ([], [])
    assert clone(inside).model is not given_model


def test_settings_of_a_clone_do_not_change_the_original_and_train_a_model(
    model: Cr5, frame: pd.DataFrame, few: pd.DataFrame
) -> None:
    cloned = clone(Cr5Transformer(model)).set_params(model__rank=3, lang="aa")
    assert cloned.fit(frame).model_.rank == 3
    with pytest.raises(Cr5Error, match=r"^the model has other settings than those of its fit, and texts alone cannot"):
        cloned.fit(few.text)
    assert (model.settings.rank, model.langs) == (SETTINGS["rank"], ["aa", "bb", "cc"])
    assert Cr5Transformer(model).get_params()["model__rank"] == SETTINGS["rank"]


def test_output_may_be_a_data_frame(model: Cr5, few: pd.DataFrame) -> None:
    transformer = clone(Cr5Transformer(model).set_output(transform="pandas"))
    found = transformer.fit_transform(few.text)
    assert isinstance(found, pd.DataFrame)
    assert list(found.columns[:2]) == ["cr5transformer0", "cr5transformer1"]
    assert found.index.equals(few.index)
    np.testing.assert_array_equal(found.to_numpy(), model.encode(few.text))
    assert list(transformer.get_feature_names_out()) == list(found.columns)


def test_a_fitted_transformer_can_be_pickled_and_shown(model: Cr5, few: pd.DataFrame) -> None:
    pipeline = make_pipeline(Cr5Transformer(model), LogisticRegression()).fit(few.text, few.label)
    again = pickle.loads(pickle.dumps(pipeline))
    np.testing.assert_array_equal(again.predict(few.text), pipeline.predict(few.text))
    assert "Cr5Transformer" in repr(pipeline)
    assert "Cr5Transformer" in pipeline._repr_html_()


# Input


def test_texts_come_in_the_language_that_is_known(model: Cr5, few: pd.DataFrame) -> None:
    some, transformer = few, Cr5Transformer(model).fit(None)
    expected = model.encode(some.text, some.lang)
    records = some.to_dict("records")
    for X in (
        some, some[["text", "lang"]], pl.from_pandas(some), pa.Table.from_pandas(some), records,
        [tuple(row.values()) for row in some[["concept", "lang", "text"]].to_dict("records")],
        [Document(row["concept"], row["lang"], row["text"]) for row in records],
        some[["text"]], some.text, some.text.tolist(), some.text.to_numpy(), pl.Series(some.text.tolist()),
    ):  # fmt: skip
        np.testing.assert_array_equal(transformer.transform(X), expected)
    fixed = Cr5Transformer(model, lang="aa").fit(some)
    np.testing.assert_array_equal(fixed.transform(some), model.encode(some.text, "aa"))


def test_what_cannot_be_encoded_or_trained_on_is_refused(model: Cr5) -> None:
    transformer = Cr5Transformer(model).fit(None)
    with pytest.raises(Cr5Error, match=r"^`texts\[1\]` is None, not a string"):
        transformer.transform(["a", None])
    with pytest.raises(Cr5Error, match=r"^X has no column 'text', only body, label; rename one, or give one column$"):
        transformer.transform(pd.DataFrame({"body": ["a"], "label": [1]}))
    with pytest.raises(
        Cr5Error, match=r"^the model is not fitted, and texts alone cannot train it; give X the columns"
    ):
        Cr5Transformer(Cr5(rank=3)).fit(["a", "b"])
    with pytest.raises(Cr5TypeError, match=r"^`model` is 5; give a Cr5, or the folder of a saved one$"):
        Cr5Transformer(5).fit(["a"])  # type: ignore[arg-type]


# Pipelines


def test_a_classifier_of_one_language_works_in_another(model: Cr5, frame: pd.DataFrame) -> None:
    pipeline = make_pipeline(Cr5Transformer(model), LogisticRegression(C=100))
    known, other = frame[frame.lang == "aa"], frame[frame.lang == "bb"]
    pipeline.fit(known, known.label)
    assert pipeline.score(other, other.label) > 0.8
    shuffled = np.random.default_rng(0).permutation(known.label)
    assert pipeline.fit(known, shuffled).score(other, other.label) < 0.7


def test_texts_may_be_one_column_of_several(model: Cr5, few: pd.DataFrame) -> None:
    columns = make_column_transformer((Cr5Transformer(model), "text"), ("passthrough", ["label"]))
    found = columns.fit_transform(few)
    np.testing.assert_array_equal(found[:, :-1], model.encode(few.text))
    np.testing.assert_array_equal(found[:, -1], few.label)


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [None, 2])
def test_a_search_over_settings_trains_every_model(frame: pd.DataFrame, jobs: int | None) -> None:
    pipeline = make_pipeline(Cr5Transformer(Cr5(**SETTINGS)), LogisticRegression(C=100))
    search = GridSearchCV(pipeline, {"cr5transformer__model__rank": [1, 40]}, cv=GroupKFold(3), n_jobs=jobs)
    search.fit(frame, frame.label, groups=frame.concept)
    assert search.best_estimator_[0].model_.settings.rank == search.best_params_["cr5transformer__model__rank"]
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert len(set(search.cv_results_["mean_test_score"])) == 2


def test_fits_in_threads_leave_the_warnings_of_the_process_alone(
    frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    filters = list[Any]()
    monkeypatch.setattr(Cr5, "fit", lambda *_, **__: filters.append(warnings.filters))
    transformer = Cr5Transformer(Cr5(**SETTINGS))
    with ThreadPoolExecutor() as pool:
        pool.submit(transformer.fit, frame).result()
    assert filters[0] is warnings.filters
    transformer.fit(frame)
    assert filters[1] is not warnings.filters


@pytest.mark.slow
def test_a_search_warns_once_of_what_every_fit_would_repeat(frame: pd.DataFrame) -> None:
    pipeline = make_pipeline(Cr5Transformer(Cr5(**SETTINGS)), LogisticRegression(C=100))
    search = GridSearchCV(pipeline, {"cr5transformer__model__rank": [1, 40]}, cv=GroupKFold(3))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search.fit(frame, frame.label, groups=frame.concept)
        assert [each.category for each in caught if issubclass(each.category, Cr5Warning)] == [FewDocuments]
        Cr5Transformer(Cr5(**SETTINGS)).fit(frame)  # another estimator warns of its own documents
    assert [each.category for each in caught if issubclass(each.category, Cr5Warning)] == [FewDocuments] * 2
