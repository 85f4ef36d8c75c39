"""How figures, names and facts are written, the same in every form of a report."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from cr5.evaluate.runs import PRETRAINED, FailedSystem, Regime
from cr5.evaluate.statistics import Interval
from cr5.retrieval.top_k import Measure

MISSING = "–"
MAX_SIGNATURES = 200  # signatures in a report; scores.csv has all of them
MAX_LISTED_VALUES = 40  # values of a list or a mapping that are shown
SMALLEST_PLAIN = 1e-4  # smaller numbers are written with a power of ten
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
MEASURES: tuple[Measure, ...] = ("csls", "cosine")  # the preferred one first
PAPER_MEASURES: tuple[Measure, ...] = ("cosine", "csls")  # in the order of the paper's table
MEASURE_NAMES: dict[Measure, str] = {"cosine": "cosine", "csls": "CSLS"}
REGIME_NOTES: dict[str, str] = {
    "joint": "one model for all languages",
    "pairwise": "one model for each language pair, trained on these two languages only",
    "low-resource": "pairwise, with fewer shared concepts",
    "transitive": "the two languages share no training concept; other languages link them",
    PRETRAINED: "models that were trained before the evaluation",
}


def format_percent(value: float | None) -> str:
    """A percentage with one decimal."""
    return MISSING if value is None or np.isnan(value) else f"{value:.1f}"


def format_ratio(ratio: float | None) -> str:
    """A ratio to the upper bound, with two decimals."""
    return MISSING if ratio is None else f"{ratio:.2f}"


def format_interval(interval: Interval) -> str:
    return f"{interval.low:.1f}–{interval.high:.1f}"


def format_count(number: int | None) -> str:
    """A whole number with commas between the thousands."""
    return MISSING if number is None else f"{number:,}"


def format_number(value: float) -> str:
    """A number with four significant digits, without an exponent unless it is very small: 5.7 × 10⁻⁶."""
    if value == 0 or math.isinf(value):
        return f"{value:g}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) >= SMALLEST_PLAIN:
        return np.format_float_positional(value, 4, fractional=False, trim="-")
    exponent = math.floor(math.log10(abs(value)))
    return f"{value / 10**exponent:.1f} × 10{str(exponent).translate(SUPERSCRIPTS)}"


def format_duration(seconds: float) -> str:
    """A duration in the unit that suits it: 12 ms, 3.4 s, 2 min 5 s, 1 h 12 min."""
    if seconds < 0.001:
        return "under 1 ms"
    if seconds < 0.9995:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def format_value(value: Any) -> str:
    """Any JSON value as text; the parts of a nested one in brackets."""
    if value is None or value == "" or value == [] or value == {}:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return MISSING if math.isnan(value) else format_number(value)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict | list | tuple) and len(value) > MAX_LISTED_VALUES:
        return f"{len(value):,} values"
    if isinstance(value, dict):
        return ", ".join(f"{label(key)} {_bracketed(part)}" for key, part in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_bracketed, value))
    return str(value)


def _bracketed(value: Any) -> str:
    text = format_value(value)
    return f"({text})" if isinstance(value, dict | list | tuple) and value else text


def label(name: object) -> str:
    """The key of a fact as readers see it."""
    return str(name).replace("_", " ")


def list_languages(langs: Sequence[str]) -> str:
    """The codes of a few languages, or the number of many."""
    return ", ".join(langs) if len(langs) <= 8 else f"{len(langs)} languages"


def system_name(system: str, regime: str) -> str:
    """A system with its regime, where it was trained in one."""
    return system if regime == PRETRAINED else f"{system}, {regime}"


def describe_failures(failures: Iterable[FailedSystem]) -> list[str]:
    """Sentences on systems that could not run; a reason in several regimes or language pairs is given once.

    Of several reasons in the same regimes, the first is given, with the number of the others.
    """
    places: dict[tuple[str, str], dict[Regime, list[list[str]]]] = {}
    for failed in failures:
        places.setdefault((failed.system, failed.reason), {}).setdefault(failed.regime, []).append(failed.langs)
    sentences: dict[str, list[str]] = {}
    for (system, reason), by_regime in places.items():
        where = ", ".join([system, *filter(None, (_place(regime, langs) for regime, langs in by_regime.items()))])
        sentences.setdefault(f"{system} {list(by_regime)}", []).append(f"{where}: {reason}")
    return [first + format_others(len(others)) for first, *others in sentences.values()]


def format_others(others: int) -> str:
    """How many others there are besides the first, which is shown; "" for none."""
    return f" (and {others:,} more like it)" if others else ""


def _place(regime: Regime, langs: Sequence[list[str]]) -> str:
    """Where a system could not run: a regime, and the language pair or the number of pairs."""
    name = "" if regime == PRETRAINED else str(regime)
    pairs = {frozenset(each) for each in langs if len(each) == 2}
    if not pairs:
        return name
    return f"{name} {'-'.join(langs[0]) if len(pairs) == 1 else f'({len(pairs):,} language pairs)'}".strip()
