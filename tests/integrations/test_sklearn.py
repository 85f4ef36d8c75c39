"""The transformer for scikit-learn: its conventions, and pipelines that work."""

from typing import Any

import pandas as pd
import pytest
from madeup import word
from sklearn.exceptions import SkipTestWarning
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import check_estimator

from cr5 import Cr5, Document
from cr5.integrations.sklearn import Cr5Transformer

# The checks of scikit-learn that need no matrix of numbers; ``check_estimator`` itself skips those that do.
CHECKS = [
    "check_estimator_cloneable",
    "check_estimator_tags_renamed",
    "check_valid_tag_types",
    "check_estimator_repr",
    "check_no_attributes_set_in_init",
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_mixin_order",
    "check_parameters_default_constructible",
    "check_get_params_invariance",
    "check_set_params",
    "check_estimator_get_tags_default_keys",
]


@pytest.fixture(scope="module")
def frame(documents: list[Document]) -> pd.DataFrame:
    """The documents as a table, with a label that depends on what a text is about, not on its language."""
    table = pd.DataFrame([(d.concept, d.lang, d.text) for d in documents], columns=["concept", "lang", "text"])
    labels = {d.concept: word("aa", 3) in d.text.split() for d in documents if d.lang == "aa"}
    return table.assign(label=table.concept.map(labels).astype(int))


# Conventions


@pytest.mark.parametrize("model", [None, Cr5(rank=5), "folder"], ids=["default", "a model", "a folder"])
def test_scikit_learns_own_checks_pass(model: Any) -> None:
    with pytest.warns(SkipTestWarning, match="Can't test estimator Cr5Transformer"):
        check_estimator(Cr5Transformer(model))
    for name in CHECKS:
        check = getattr(estimator_checks, name, None)
        if check is not None:
            check("Cr5Transformer", Cr5Transformer(model))
