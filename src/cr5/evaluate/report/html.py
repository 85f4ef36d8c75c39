"""The HTML form of a report: one page that needs no other file and no network.

The templates of this package draw the page and escape every value; this module prepares what they show.
"""

import math
import re
from functools import cache
from typing import Any, NamedTuple

from jinja2 import Environment
from markupsafe import Markup, escape

from cr5.evaluate.report.charts import LARGEST_K, SystemStyle, precision_chart, precision_curve, ridge_chart
from cr5.evaluate.report.contents import PARTIAL_NOTE, Report
from cr5.evaluate.report.facts import describe_accounting, describe_facts
from cr5.evaluate.report.failed_queries import QueryProperty
from cr5.evaluate.report.formatting import (
    MAX_SIGNATURES,
    MEASURE_NAMES,
    MISSING,
    REGIME_NOTES,
    format_count,
    format_duration,
    format_interval,
    format_number,
    format_percent,
    format_ratio,
    format_value,
    label,
    list_languages,
    system_name,
)
from cr5.evaluate.runs import PRETRAINED, Regime, Score, TrainedSystem
from cr5.evaluate.statistics import CUTOFFS
from cr5.evaluate.systems.registry import SystemRole
from cr5.message_parts import plural
from cr5.templates import read_asset, template_environment

# Limits that keep the page small enough for a phone; scores.csv has the rest.
MAX_DETAIL_ROWS = 8000
MAX_MATRIX_CELLS = 40_000
MAX_OPEN_CARDS = 12  # more examples or ridge paths are folded away
MAX_FOLDED_RIDGE_PATHS = 48
MAX_OPEN_MODELS = 36  # the tables of more trained models are folded away
AXIS_ENDS = (10, 20, 40, 60, 80, 100)  # where the axis of the curves may end, in percent
TASK_NAMES = {"documents": "Document retrieval", "sentences": "Sentence retrieval", "words": "Word translation"}
ROLE_NAMES: dict[SystemRole, str] = {"own": "", "baseline": "baseline", "upper bound": "upper bound"}
RIDGE_COLUMNS = ("ridge", "log likelihood", "P@1", "MRR", "energy", "steps", "time")
TRAINING_COLUMNS = ("documents", "words", "concepts", "ridge", "energy", "residual", "steps", "time")
NOT_REPORTED = ("signature", "seconds")  # the page shows these elsewhere
PROPERTY_TEXTS = {  # title, description and unit
    "different words": ("Length", "different words in the query", "words"),
    "words known, %": ("Coverage", "% of its words that the model knows", "%"),
}

Values = dict[str, Any]


class Section(NamedTuple):
    """A section of the page: its heading, its template, and the values for that; None leaves the section out."""

    title: str
    template: str
    values: Values | None


def render_html(report: Report) -> str:
    run = report.run
    styles = _styles(report)
    by_direction = (
        Section("From language to language", "matrices", _matrices(report))
        if report.has_many_pairs
        else Section("Direction by direction", "directions", _directions(report, styles))
    )
    sections = [
        Section("Systems side by side", "summary", _summary(report, styles)),
        Section("Precision at k", "curves", _curves(report, styles)),
        by_direction,
        Section("Details", "details", _details(report)),
        Section("Examples", "examples", _examples(report)),
        Section("Failed queries", "failures", _failures(report)),
        Section("Choosing the ridge", "ridges", _ridges(report)),
        Section("Training", "training", _training(report)),
        Section("Notes", "notes", {} if run.notes else None),
        Section("Signatures", "signatures", _signatures(report)),
        Section("How to read this", "guide", {}),
    ]
    facts = describe_facts(run.facts)
    return _environment().get_template("report.html.jinja").render(
        report=report,
        run=run,
        styles=styles,
        task_name=TASK_NAMES[run.task],
        facts=facts,
        accounting=describe_accounting(run.facts),
        sections=[section for section in sections if section.values is not None],
    )  # fmt: skip


@cache
def _environment() -> Environment:
    environment = template_environment("cr5.evaluate.report")
    environment.filters |= {
        "thousands": format_count,
        "interval": format_interval,
        "keep_units_together": _keep_units_together,
        "measure_name": MEASURE_NAMES.__getitem__,
        "percent": format_percent,
        "ratio": format_ratio,
        "code_spans": _code_spans,
        "capitalised": lambda text: text[:1].upper() + text[1:],
        "regime_note": lambda regime: REGIME_NOTES.get(regime, ""),
    }
    environment.globals |= {
        "CUTOFFS": CUTOFFS,
        "MISSING": MISSING,
        "PARTIAL_NOTE": PARTIAL_NOTE,
        "ROLE_NAMES": ROLE_NAMES,
        "plural": plural,
        "system_name": system_name,
        "style_sheet": read_asset(environment, "report.css"),
        "script": read_asset(environment, "report.js"),
    }
    return environment


def _keep_units_together(text: str) -> str:
    """Text in which no line ends between a figure and its sign."""
    return re.sub(r" (?=[%<=])|(?<=[<=]) ", "\N{NO-BREAK SPACE}", text)


def _code_spans(text: str) -> Markup:
    """Text whose parts in backticks are code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _styles(report: Report) -> dict[str, SystemStyle]:
    """The look of each system; cr5 first, upper bounds last."""
    roles = {row.system: report.run.role(row.system) for row in report.summary}
    ordered = sorted(roles, key=lambda name: list(ROLE_NAMES).index(roles[name]))
    return {system: SystemStyle.of(system, roles[system]) for system in ordered}


def _summary(report: Report, styles: dict[str, SystemStyle]) -> Values | None:
    if not report.run.scores:
        return None
    columns = []
    for regime in report.summary_regimes:
        cells = [cell for row in report.summary for cell in row.by_measure(regime).values()]
        directions = plural(max((cell.scores.directions for cell in cells), default=0), "direction")
        name = "Mean P@1" if report.all_pretrained else str(regime)
        columns.append({"name": name, "directions": directions})
    order = list(styles)
    return {"columns": columns, "rows": sorted(report.summary, key=lambda row: order.index(row.system))}


def _curves(report: Report, styles: dict[str, SystemStyle]) -> Values | None:
    if not report.run.scores:
        return None
    return {"figures": [_figure(report, regime, styles) for regime in report.regimes]}


def _figure(report: Report, regime: Regime, styles: dict[str, SystemStyle]) -> Values:
    """The curves of one regime: a panel for each language pair, or one for the mean over very many."""
    scores = [s for s in report.run.scores if (s.regime, s.measure) == (regime, report.measures[0])]
    largest_k = max(2, min(LARGEST_K, max((s.candidates for s in scores), default=2)))
    panels: dict[str, list[Score]] = {}
    if report.has_many_pairs:
        panels |= {"mean over all directions": scores} if scores else {}
    else:
        for pair in report.pairs(regime):
            of_pair = [s for s in scores if {s.source, s.target} == set(pair)]
            directions = {(s.source, s.target) for s in of_pair}
            if directions:
                panels[" ↔ ".join(pair) if len(directions) == 2 else " → ".join(*directions)] = of_pair
    curves = {
        name: {
            system: precision_curve([s for s in of_panel if s.system == system], largest_k)
            for system in styles
            if any(s.system == system for s in of_panel)
        }
        for name, of_panel in panels.items()
    }
    highest = max((float(curve[-1]) for by_system in curves.values() for curve in by_system.values()), default=100)
    top = next(end for end in AXIS_ENDS if end >= min(highest, 100))
    return {
        "regime": regime,
        "systems": [system for system in styles if system in report.systems(regime)],
        "panels": {
            name: precision_chart(name, by_system, styles, top, wide=report.has_many_pairs)
            for name, by_system in curves.items()
        },
    }


def _directions(report: Report, styles: dict[str, SystemStyle]) -> Values | None:
    """All systems of a regime next to each other, direction by direction."""
    if len(report.systems()) < 2:
        return None
    tables = []
    for regime in report.regimes:
        systems = [system for system in styles if system in report.systems(regime)]
        of_regime = [s for s in report.run.scores if (s.regime, s.measure) == (regime, report.measures[0])]
        scores = {(s.system, s.source, s.target): s.precision(1) for s in of_regime}
        rows = []
        for source, target in [direction for a, b in report.pairs(regime) for direction in ((a, b), (b, a))]:
            keys = {system: (system, source, target) for system in systems}
            precision = {system: scores[key] for system, key in keys.items() if key in scores}
            competing = {
                system: value for system, value in precision.items() if report.run.role(system) != "upper bound"
            }
            best = {system for system, value in competing.items() if value == max(competing.values())}
            if precision:
                rows.append({"source": source, "target": target, "precision": precision, "best": best})
        tables.append({"regime": regime, "systems": systems, "rows": rows})
    return {"tables": tables}


def _matrices(report: Report) -> Values:
    """For each regime and system the P@1 of every direction, the main system first, as many as the page may hold."""
    langs = list(dict.fromkeys(lang for s in report.run.scores for lang in (s.source, s.target)))
    groups = [(system, regime) for regime in report.regimes for system in report.systems(regime)]
    main = next((group for group in groups if report.run.role(group[0]) == "own"), groups[0])
    shown = sorted(groups, key=lambda group: group != main)[: max(MAX_MATRIX_CELLS // len(langs) ** 2, 1)]
    matrices = [
        {
            "title": system_name(system, regime),
            "precision": {
                (s.source, s.target): s.precision(1) for s in report.run.select(system, regime, report.measures[0])
            },
        }
        for system, regime in shown
    ]
    return {"langs": langs, "matrices": matrices, "left_out": len(groups) - len(shown)}


def _details(report: Report) -> Values | None:
    """The tables of all systems by regime, as many as the page may hold, but at least one."""
    tables: dict[str, list[Any]] = {}
    rows_left, left_out = MAX_DETAIL_ROWS, 0
    for table in report.details:
        rows = len(table.rows) + 1
        if rows > rows_left and tables:
            left_out += rows
        else:
            rows_left -= rows
            tables.setdefault(table.regime, []).append(table)
    return {"tables": tables, "left_out": left_out} if tables else None


def _examples(report: Report) -> Values | None:
    if not report.run.examples:
        return None
    return _opened_and_folded(report.run.examples) | {"text": report.examples_text}


def _opened_and_folded(cards: list[Any]) -> Values:
    return {"first": cards[:MAX_OPEN_CARDS], "rest": cards[MAX_OPEN_CARDS:]}


def _failures(report: Report) -> Values | None:
    if not report.failed_queries or not report.failed_queries.properties:
        return None
    return {"properties": [_property(each) for each in report.failed_queries.properties]}


def _property(values: QueryProperty) -> Values:
    title, description, unit = PROPERTY_TEXTS[values.name]
    quartiles = []
    for quartile in values.quartiles:
        ends = dict.fromkeys(_short(end) for end in (quartile.low, quartile.high))
        quartiles.append(quartile._asdict() | {"range": "–".join(ends)})
    return {
        "title": title,
        "description": description,
        "unit": unit,
        "quartiles": quartiles,
        "median_answered": _short(values.median_answered),
        "median_failed": _short(values.median_failed),
    }


def _short(value: float) -> str:
    return MISSING if math.isnan(value) else f"{value:.1f}".removesuffix(".0")


def _ridges(report: Report) -> Values | None:
    models = [model for model in report.run.trained if model.report.get("ridge_path")]
    if not models:
        return None
    cards = [
        _ridge(model, SystemStyle.of(model.system, report.run.role(model.system)).css_class)
        for model in models[: MAX_OPEN_CARDS + MAX_FOLDED_RIDGE_PATHS]
    ]
    return _opened_and_folded(cards) | {"total": len(models), "columns": RIDGE_COLUMNS}


def _ridge(model: TrainedSystem, css_class: str) -> Values:
    path = sorted(model.report["ridge_path"], key=lambda point: float(point["ridge"]))
    chosen = model.report.get("ridge")
    rows = []
    for point in path:
        percents = [format_percent(100 * point[k]) if k in point else MISSING for k in ("precision", "reciprocal_rank")]
        others = [format_value(point.get(key)) for key in ("energy", "steps")]
        time = format_duration(point["seconds"]) if "seconds" in point else MISSING
        likelihood = f"{point['log_likelihood']:.3f}" if "log_likelihood" in point else MISSING
        cells = [format_number(point["ridge"]), likelihood, *percents, *others, time]
        rows.append({"chosen": point["ridge"] == chosen, "cells": cells})
    name = f"{system_name(model.system, model.regime)}, {list_languages(model.langs)}"
    return {
        "system": model.system,
        "languages": system_name(list_languages(model.langs), model.regime),
        "chart": ridge_chart(name, path, chosen, css_class),
        "rows": rows,
    }


def _training(report: Report) -> Values | None:
    """The trained models: those of cr5, with the figures of their fit, and what other systems report."""
    models = report.run.trained
    if not models:
        return None
    fitted, others = [], []
    for model in models:
        values = {"system": model.system, "regime": model.regime, "languages": list_languages(model.langs)}
        if isinstance(model.report.get("languages"), dict) and "energy" in model.report:
            fitted.append(values | {"cells": _fit_cells(model), "warning": model.report.get("warning")})
        else:
            facts = {label(k): _shortened(format_value(v)) for k, v in model.report.items() if k not in NOT_REPORTED}
            others.append(values | {"time": format_duration(model.seconds), "facts": facts})
    return {
        "has_regimes": any(model.regime != PRETRAINED for model in models),
        "columns": TRAINING_COLUMNS,
        "fitted": fitted,
        "others": others,
        "folded": plural(len(models), "trained model") if len(models) > MAX_OPEN_MODELS else "",
    }


def _fit_cells(model: TrainedSystem) -> list[str]:
    report = model.report
    languages = report["languages"].values()
    sums = [sum(int(facts.get(key, 0)) for facts in languages) for key in ("documents", "words")]
    counts = [format_count(n if isinstance(n, int) else None) for n in (*sums, report.get("concepts"))]
    fit = [format_value(report.get(key)) for key in ("ridge", "energy", "residual")]
    steps = format_value(report.get("steps")) + ("" if report.get("converged", True) else " (not converged)")
    return [*counts, *fit, steps, format_duration(model.seconds)]


def _shortened(text: str) -> str:
    return text if len(text) <= 120 else text[:119] + "…"


def _signatures(report: Report) -> Values | None:
    known = list(report.signatures.items())
    return {"shown": known[:MAX_SIGNATURES], "left_out": len(known[MAX_SIGNATURES:])} if known else None
