"""A transformer for scikit-learn: texts in any language -> rows that a classifier, regressor or clustering takes."""

import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from cr5._typing import Array
from cr5.corpus.documents import Document
from cr5.corpus.inputs import in_batches
from cr5.corpus.texts import Texts, describe, is_table
from cr5.errors import (
    CountryCode,
    Cr5Error,
    Cr5TypeError,
    DocumentsLeftOut,
    FewDocuments,
    LanguageLeftOut,
    RankLowered,
    RepeatedDocuments,
    SeveralCodes,
    needs_package,
    warn,
)
from cr5.model import Cr5
from cr5.settings import make_settings

with needs_package("Cr5Transformer", "scikit-learn", "sklearn"):
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
    from sklearn.utils.validation import check_is_fitted


# Warnings about documents, which all fits of a grid search would repeat with slightly other numbers.
_ABOUT_DOCUMENTS = (CountryCode, DocumentsLeftOut, FewDocuments, LanguageLeftOut, RankLowered, RepeatedDocuments,
                    SeveralCodes)  # fmt: skip


@contextmanager
def _warning_once(issued: set[type[Warning]]) -> Iterator[None]:
    """Of each class of warnings about documents, issue those of the first fit alone; ``issued`` are these classes.

    Fits in other threads than the main one issue all: recording warnings changes the whole process, and two recordings
    that overlap would swallow all later ones.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        finally:
            found = [each for each in caught if each.category not in issued]
            issued.update({each.category for each in found}.intersection(_ABOUT_DOCUMENTS))
    for each in found:
        note = each.message if isinstance(each.message, Warning) else each.category(each.message)
        warn(note)


class Cr5Transformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Encodes texts with a model, as a step of a pipeline.

    ``model`` is a fitted model, or the folder of one, which is used as it is: X holds texts. Or it is an unfitted
    model, ``Cr5(rank=100)``: then ``fit`` trains a copy of it on X, which holds documents with concept, lang and text,
    and a grid search addresses its settings as ``model__rank``, ``model__ridge``, …; a fitted model whose settings have
    been changed in this way counts as unfitted.
    ``lang`` is the language of all texts. If it is None, a text is in the language of its document (the column lang),
    or in the one that the model guesses.
    """

    def __init__(self, model: Cr5 | str | Path | None = None, *, lang: str | None = None) -> None:
        self.model = model
        self.lang = lang

    def fit(self, X: Any, y: object = None) -> Self:
        """Train the model if it is not fitted yet; ``y`` is ignored."""
        model = self.model if self.model is not None else Cr5()
        if isinstance(model, str | Path):
            model = Cr5.load(model)
        if not isinstance(model, Cr5):
            raise Cr5TypeError(f"`model` is {describe(model)}; give a Cr5, or the folder of a saved one")
        if not model.langs or make_settings(**model.get_params()) != model.settings:
            if not is_table(X) and any(isinstance(item, str) for item in X):
                state = "has other settings than those of its fit" if model.langs else "is not fitted"
                raise Cr5Error(
                    f"the model {state}, and texts alone cannot train it; give X the columns concept, lang and text, "
                    "or give a fitted `model`"
                )
            with _warning_once(self.__dict__.get("_warned", set())):
                model = Cr5(**model.get_params()).fit(X)
        self.model_ = model
        return self

    def transform(self, X: Any) -> Array:
        """Texts, or documents with a text and optionally a lang -> texts x rank, float32 rows of length 1 or 0."""
        check_is_fitted(self)
        texts, langs = _texts_and_languages(X)
        return self.model_.encode(texts, langs if self.lang is None else self.lang)

    @property
    def _n_features_out(self) -> int:
        return self.model_.rank

    def __sklearn_clone__(self) -> Self:
        """An unfitted copy. A fitted model is a parameter like any other, and stays fitted."""
        model = self.model
        fitted = isinstance(model, Cr5) and model.langs
        cloned = type(self)(copy(model) if fitted else clone(model, safe=False), lang=self.lang)
        cloned._warned = self.__dict__.setdefault("_warned", set())  # shared by all fits of a search
        for name in ("_sklearn_output_config", "_metadata_request"):
            if hasattr(self, name):
                setattr(cloned, name, copy(getattr(self, name)))
        return cloned

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.one_d_array, tags.input_tags.string = False, True, True
        tags.transformer_tags.preserves_dtype = []
        return tags


def _texts_and_languages(X: Any) -> tuple[Texts, list[str | None] | None]:
    if is_table(X):
        names = list(X.column_names if hasattr(X, "column_names") else X.columns)
        if "text" not in names:
            raise Cr5Error(f"X has no column 'text', only {', '.join(map(str, names))}; rename one, or give one column")
        return X["text"], X["lang"] if "lang" in names else None
    if isinstance(X, str):
        raise Cr5Error(f"X is one text, {describe(X)}, not several; give a list, [text]")
    items = list(X)
    if items and isinstance(items[0], Document | Mapping | tuple):
        rows = pa.Table.from_batches([batch.rows for batch in in_batches(items)])
        return rows["text"], rows["lang"].to_pylist()
    return items, None
