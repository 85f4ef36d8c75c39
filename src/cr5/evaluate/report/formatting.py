"""How figures, names and facts are written, the same in every form of a report."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from cr5.evaluate.runs import TRAINED_ELSEWHERE
from cr5.evaluate.statistics import Interval
from cr5.retrieval.top_k import Measure

MISSING = "–"
MAX_SIGNATURES = 200  # scores.csv has all of them
MEASURES: tuple[Measure, ...] = ("csls", "cosine")  # the preferred one first
MEASURE_NAMES: dict[Measure, str] = {"cosine": "cosine", "csls": "CSLS"}
REGIME_NOTES: dict[str, str] = {
    "joint": "one model for all languages",
    "pairwise": "one model for each language pair, trained on these two languages only",
    "low-resource": "pairwise, with fewer shared concepts",
    "transitive": "the two languages share no training concept; other languages link them",
    TRAINED_ELSEWHERE: "models that were trained elsewhere",
}


class FactTable(NamedTuple):
    """A fact with rows and columns, as text."""

    title: str
    columns: list[str]
    rows: dict[str, list[str]]


def format_percent(value: float | None) -> str:
    """A percentage with one decimal."""
    return MISSING if value is None or np.isnan(value) else f"{value:.1f}"


def format_interval(interval: Interval) -> str:
    return f"{interval.low:.1f}–{interval.high:.1f}"


def format_count(number: int | None) -> str:
    """A whole number with commas between the thousands."""
    return MISSING if number is None else f"{number:,}"


def format_value(value: Any) -> str:
    """Any JSON value as text."""
    if value is None or value == "" or value == [] or value == {}:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.1f}" if abs(value) >= 1000 else f"{value:.4g}"
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 10_000 else str(value)
    if isinstance(value, dict):
        return ", ".join(f"{key}: {format_value(part)}" for key, part in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(format_value, value)) if len(value) <= 40 else f"{len(value):,} values"
    return str(value)


def quantity(number: int, noun: str) -> str:
    """A number and its noun, in the plural where there are several."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def list_languages(langs: Sequence[str]) -> str:
    """The codes of a few languages, or the number of many."""
    return ", ".join(langs) if len(langs) <= 8 else f"{len(langs)} languages"


def regime_name(regime: str) -> str:
    """A regime as readers see it."""
    return "trained elsewhere" if regime == TRAINED_ELSEWHERE else regime


def system_name(system: str, regime: str) -> str:
    """A system with its regime, where it was trained in one."""
    return system if regime == TRAINED_ELSEWHERE else f"{system}, {regime}"


def format_facts(facts: dict[str, Any]) -> tuple[dict[str, str], list[FactTable]]:
    """The facts of a run as text: single values by name, and tables where a fact has rows and columns."""
    single: dict[str, str] = {}
    tables: list[FactTable] = []

    def add(name: str, value: Any) -> None:
        parts = list(value.values()) if isinstance(value, dict) else []
        rows = [row for part in parts if isinstance(part, dict) for row in part.values()]
        if rows and all(isinstance(part, dict) for part in [*parts, *rows]):
            flat = {f"{key}, {row}": cells for key, part in value.items() for row, cells in part.items()}
            tables.append(_fact_table(name, flat))
        elif parts and all(isinstance(part, dict) for part in parts):
            tables.append(_fact_table(name, value))
        elif any(isinstance(part, dict) for part in parts):
            for key, part in value.items():
                add(f"{name}, {key}", part)
        else:
            single[name] = format_value(value)

    for name, value in facts.items():
        add(str(name), value)
    return single, tables


def _fact_table(title: str, rows: dict[str, dict[str, Any]]) -> FactTable:
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    cells = {str(name): [format_value(row.get(column)) for column in columns] for name, row in rows.items()}
    return FactTable(title, list(map(str, columns)), cells)
