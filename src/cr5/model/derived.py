"""Models derived from trained ones: some of their languages, the languages of two together, maps of fewer bits."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np

from cr5.errors import Cr5Error
from cr5.model.reports import space_digest
from cr5.settings import Settings
from cr5.storage.concept_targets import ConceptTargets
from cr5.storage.language_map import LanguageMap

BITS = (16, 8)
"""The sizes of numbers that a model can be quantised to."""


class TrainedParts(NamedTuple):
    """The parts of a model: the map of each language, the report of the fit, and perhaps concept targets."""

    languages: Mapping[str, LanguageMap]
    report: dict[str, Any]
    targets: ConceptTargets | None = None


def subset(parts: TrainedParts, langs: Collection[str]) -> TrainedParts:
    """Only some of the languages."""
    languages, report, targets = parts
    reports = {lang: entry for lang, entry in report["languages"].items() if lang in langs}
    kept = {lang: languages[lang] for lang in languages if lang in langs}
    return TrainedParts(kept, report | {"languages": reports}, targets)


def merge(a: TrainedParts, b: TrainedParts, settings: tuple[Settings, Settings]) -> TrainedParts:
    """The languages of two models of the same space; of a language that both have, that of the first."""
    shared = [lang for lang in a.languages if lang in b.languages]
    identical = {lang for lang in shared if _are_equal(a.languages[lang], b.languages[lang])}
    spaces = [space_digest(settings[0], a.report), space_digest(settings[1], b.report)]
    if not identical and (spaces[0] is None or spaces[0] != spaces[1]):
        raise Cr5Error(
            f"`other` ({', '.join(b.languages)}) has another vector space: it was not trained together with this model "
            f"({', '.join(a.languages)}), so their vectors cannot be compared; merge models that were derived from one "
            "trained model, or train one with all languages"
        )
    if settings[0].tokeniser != settings[1].tokeniser or settings[0].weighting != settings[1].weighting:
        raise Cr5Error("`other` weights or tokenises words by other settings; merge models with the same settings")
    for lang in shared:
        first, second = a.languages[lang], b.languages[lang]
        if lang not in identical and (first.words != second.words or first.bits == second.bits):
            raise Cr5Error(
                f"both models have the language {lang}, trained on different documents; "
                "leave it out of one of them with `subset`"
            )
    targets = a.targets or b.targets
    return TrainedParts(_first_of_each(a.languages, b.languages), _merged_report(a.report, b.report), targets)


def quantise(parts: TrainedParts, bits: int) -> TrainedParts:
    """Maps of ``bits`` bits; languages that have as few already stay as they are."""
    if bits not in BITS:
        raise Cr5Error(f"`bits={bits!r}` must be {' or '.join(map(str, BITS))}")
    most = max(language.bits for language in parts.languages.values())
    if most < bits:
        raise Cr5Error(f"`bits={bits}`: the model has {most} bits already; quantise the model that it was derived from")
    languages = {lang: language.quantised(bits) for lang, language in parts.languages.items()}
    reports = {
        lang: entry | {"bits": languages[lang].bits}
        for lang, entry in parts.report["languages"].items()
        if lang in languages
    }
    return TrainedParts(languages, parts.report | {"languages": reports}, parts.targets)


def _are_equal(a: LanguageMap, b: LanguageMap) -> bool:
    return a.words == b.words and np.array_equal(a.offset, b.offset) and np.array_equal(a.map, b.map)


def _merged_report(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    """The first report, with the entries of the second for further languages."""
    merged = a | {"languages": _first_of_each(a["languages"], b["languages"])}
    if "corpus" in a and "corpus" in b:
        usage = _first_of_each(a["corpus"]["languages"], b["corpus"]["languages"])
        merged["corpus"] = a["corpus"] | {"languages": usage}
    return merged


def _first_of_each(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, Any]:
    return {**a, **{lang: value for lang, value in b.items() if lang not in a}}
