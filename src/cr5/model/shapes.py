"""Models made of trained ones: some of their languages, the languages of two together, maps of fewer bits."""

import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np

from cr5.errors import Cr5Error
from cr5.settings import Settings
from cr5.storage.concept_targets import ConceptTargets
from cr5.storage.language_map import LanguageMap

BITS = (16, 8)
"""The sizes of numbers that a model can be quantised to."""


class Trained(NamedTuple):
    """What a model consists of: the map of each language, the report of the fit, and perhaps concept targets."""

    languages: Mapping[str, LanguageMap]
    report: dict[str, Any]
    targets: ConceptTargets | None = None


def space_digest(settings: Settings, report: Mapping[str, Any]) -> str | None:
    """What identifies the space of a model; None if its report does not tell.

    It is recorded by a fit and kept by whatever is made of the model. In models of older versions it follows from
    what the report has kept: no two fits of different data or settings end with the same eigenvalues and residual.
    """
    if "space" in report or not report.get("eigenvalues"):
        return report.get("space")
    facts = [report.get(name) for name in ("eigenvalues", "energy", "residual", "steps", "concepts", "ridge")]
    own = settings.to_json() | {"rank": report.get("rank", settings.rank)}  # which may have been "auto" before the fit
    return hashlib.sha256(json.dumps([own, facts], sort_keys=True).encode()).hexdigest()[:16]


def ridge_of(report: Mapping[str, Any]) -> float:
    """The ridge that a model was trained with; an error if cr5 did not train it."""
    if "ridge" not in report:
        raise Cr5Error(
            "the model was not trained by cr5, but made of published word vectors, which cannot be trained further; "
            "train a model of your own with `fit`"
        )
    return float(report["ridge"])


def subset(trained: Trained, langs: Collection[str]) -> Trained:
    """Only some of the languages."""
    languages, report, targets = trained
    facts = {lang: facts for lang, facts in report["languages"].items() if lang in langs}
    kept = {lang: languages[lang] for lang in languages if lang in langs}
    return Trained(kept, report | {"languages": facts}, targets)


def merge(a: Trained, b: Trained, settings: tuple[Settings, Settings]) -> Trained:
    """The languages of two models of the same space; of a language that both have, that of the first."""
    shared = [lang for lang in a.languages if lang in b.languages]
    identical = {lang for lang in shared if _are_equal(a.languages[lang], b.languages[lang])}
    spaces = [space_digest(own, trained.report) for own, trained in zip(settings, (a, b), strict=True)]
    if not identical and (spaces[0] is None or spaces[0] != spaces[1]):
        raise Cr5Error(
            f"`other` ({', '.join(b.languages)}) is of another space: it was not trained together with this model "
            f"({', '.join(a.languages)}), so that their vectors cannot be compared; merge models that were made of one "
            "trained model, or train one with all languages"
        )
    if settings[0].tokeniser != settings[1].tokeniser or settings[0].weighting != settings[1].weighting:
        raise Cr5Error("`other` weights or tokenises words by other settings; merge models with the same settings")
    for lang in shared:
        own, others = a.languages[lang], b.languages[lang]
        if lang not in identical and (own.words != others.words or own.bits == others.bits):
            raise Cr5Error(
                f"both models have the language {lang}, trained on different documents; "
                "leave it out of one of them with `subset`"
            )
    targets = a.targets or b.targets
    return Trained(_first_of_each(a.languages, b.languages), _merged_reports(a.report, b.report), targets)


def quantise(trained: Trained, bits: int) -> Trained:
    """Maps of ``bits`` bits; languages that have as few already stay as they are."""
    if bits not in BITS:
        raise Cr5Error(f"`bits={bits!r}` must be {' or '.join(map(str, BITS))}")
    most = max(language.bits for language in trained.languages.values())
    if most < bits:
        raise Cr5Error(f"`bits={bits}`: the model has {most} bits already; quantise the model that it was made of")
    languages = {lang: language.quantised(bits) for lang, language in trained.languages.items()}
    facts = {
        lang: facts | {"bits": languages[lang].bits}
        for lang, facts in trained.report["languages"].items()
        if lang in languages
    }
    return Trained(languages, trained.report | {"languages": facts}, trained.targets)


def _are_equal(a: LanguageMap, b: LanguageMap) -> bool:
    return a.words == b.words and np.array_equal(a.offset, b.offset) and np.array_equal(a.map, b.map)


def _merged_reports(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    """The first report, with what the second says about further languages."""
    merged = a | {"languages": _first_of_each(a["languages"], b["languages"])}
    if "corpus" in a and "corpus" in b:
        usage = _first_of_each(a["corpus"]["languages"], b["corpus"]["languages"])
        merged["corpus"] = a["corpus"] | {"languages": usage}
    return merged


def _first_of_each(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, Any]:
    return {**a, **{lang: value for lang, value in b.items() if lang not in a}}
