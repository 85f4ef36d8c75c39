"""The Markdown form of a report."""

import re
from collections.abc import Iterable, Sequence
from itertools import groupby

from cr5.evaluate.report.contents import PARTIAL_NOTE, DetailTable, Report, SummaryRow
from cr5.evaluate.report.facts import describe_accounting, describe_facts
from cr5.evaluate.report.formatting import (
    MAX_SIGNATURES,
    MEASURE_NAMES,
    MEASURES,
    MISSING,
    PAPER_MEASURES,
    REGIME_NOTES,
    format_count,
    format_interval,
    format_percent,
    format_ratio,
)
from cr5.evaluate.runs import Regime, ReportExample
from cr5.evaluate.statistics import CUTOFFS
from cr5.message_parts import plural
from cr5.retrieval.top_k import Measure


def render_markdown(report: Report) -> str:
    run = report.run
    lines = [f"# {_escape(run.title)}", ""]
    if report.headline:
        lines += [f"**{_escape(report.headline.text)}** {_escape(report.headline.context)}", ""]
    if sentence := describe_accounting(run.facts):
        lines += [sentence, ""]
    lines += ["## Systems side by side", "", *_summary(report)]
    lines += ["## Details", "", "Precision at k, %; queries in either language of a pair, l1 and l2.", ""]
    for regime, tables_of_regime in groupby(report.details, lambda table: table.regime):
        if not report.all_pretrained:
            lines += [f"### {_escape(regime)}: {REGIME_NOTES.get(regime, '')}", ""]
        heading = "###" if report.all_pretrained else "####"
        for details in tables_of_regime:
            lines += [f"{heading} {_escape(details.system)}", "", *_details(details), ""]
    if run.examples:
        lines += ["## Examples", "", _escape(report.examples_text), "", *_examples(run.examples), ""]
    if run.notes:
        lines += ["## Notes", "", *(f"- {_with_code(note)}" for note in run.notes), ""]
    facts = describe_facts(run.facts)
    single = {"task": run.task, "cr5": run.version} | facts.single
    lines += ["## Corpus and settings", "", *(f"- {_escape(name)}: {_escape(text)}" for name, text in single.items())]
    for table in facts.tables:
        lines += ["", *table_head([table.title, *table.columns], text_columns=1)]
        lines += [table_row(map(_escape, (name, *cells))) for name, cells in table.rows.items()]
    lines.append("")
    if report.signatures:
        shown = list(report.signatures.items())[:MAX_SIGNATURES]
        lines += ["## Signatures", "", *(f"- {_escape(scores)}: {_code(signature)}" for signature, scores in shown)]
        if len(report.signatures) > len(shown):
            lines.append(f"- and {len(report.signatures) - len(shown):,} more, in scores.csv")
    return "\n".join(lines).rstrip() + "\n"


def _summary(report: Report) -> list[str]:
    lines = []
    for measure in report.measures:
        ratios = ", and its ratio to the upper bound" if report.has_ratios else ""
        lines += [f"Mean P@1, {MEASURE_NAMES[measure]}, %, with its 95 % interval{ratios}; the best in bold.", ""]
        columns = ["P@1"] if report.all_pretrained else list(map(str, report.summary_regimes))
        lines += table_head(["system", *columns], text_columns=1)
        for row in report.summary:
            cells = [_summary_cell(row, regime, measure) for regime in report.summary_regimes]
            lines.append(table_row([_escape(row.system), *cells]))
        lines.append("")
    if report.has_partial_means:
        lines += [f"\\* {PARTIAL_NOTE}", ""]
    if report.failures:
        lines += ["Systems that could not run:", "", *(f"- {_with_code(text)}" for text in report.failures), ""]
    return lines


def _summary_cell(row: SummaryRow, regime: Regime, measure: Measure) -> str:
    cell = row.cells.get((regime, measure))
    if cell is None:
        return row.failures[regime].label if regime in row.failures else MISSING
    value = format_percent(cell.scores.precision[1])
    mark = "\\*" if cell.partial else ""
    ratio = "" if cell.ratio is None else f", {format_ratio(cell.ratio)}"
    return (f"**{value}**" if cell.best else value) + f" ({format_interval(cell.scores.interval)}){mark}{ratio}"


def _examples(examples: Sequence[ReportExample]) -> list[str]:
    lines = table_head(["query", "right answer at rank", "first answer"], text_columns=3)
    for example in examples:
        direction = f"{_escape(example.source)} > {_escape(example.target)}"
        first = example.hits[0].title if example.hits else MISSING
        cells = (f"{direction}: {_escape(example.query)}", format_count(example.rank or None), _escape(first))
        lines.append(table_row(cells))
    return lines


def _details(table: DetailTable) -> list[str]:
    blocks = [(MEASURE_NAMES[measure], side) for measure in PAPER_MEASURES for side in ("l1", "l2")]
    columns = [f"{side} {measure} P@{k}" if k == 1 else f"P@{k}" for measure, side in blocks for k in CUTOFFS]
    lines = table_head(["l1", "l2", *columns, *["shared"] * table.has_shared], text_columns=2)
    for row in table.rows:
        values = [format_percent(cell.precision[k] if cell else None) for cell in row.cells for k in CUTOFFS]
        shared = [format_count(row.shared)] * table.has_shared
        lines.append(table_row([_escape(row.first), _escape(row.second), *values, *shared]))
    lines.append("")
    for measure in MEASURES:
        mean = table.means.get(measure)
        if mean:
            values = [f"P@{k} {mean.precision[k]:.1f}" for k in CUTOFFS]
            lines.append(
                f"Mean, {MEASURE_NAMES[measure]}: {', '.join(values)} over {plural(mean.directions, 'direction')}; "
                f"interval of P@1 {format_interval(mean.interval)}  "
            )
    return lines


def table_head(names: Sequence[str], *, text_columns: int) -> list[str]:
    """The head of a table whose first columns are text and whose others are numbers."""
    rule = "|" + "---|" * text_columns + "---:|" * (len(names) - text_columns)
    return [table_row(map(_escape, names)), rule]


def table_row(cells: Iterable[str]) -> str:
    """A row of a table; the cells are Markdown already."""
    return "| " + " | ".join(cells) + " |"


def _escape(text: str) -> str:
    """Text in which Markdown finds nothing to format."""
    text = re.sub(r"([\\`*_\[\]|#~])", r"\\\1", re.sub(r"\s+", " ", text))
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _with_code(text: str) -> str:
    """Text in which only the parts in backticks are formatted, as code."""
    parts = re.split(r"`([^`]+)`", text)
    return "".join(_code(part) if i % 2 else _escape(part) for i, part in enumerate(parts))


def _code(text: str) -> str:
    """A code span, whatever backticks the text holds."""
    text = " ".join(text.split())
    fence = "`" * (1 + max((len(ticks) for ticks in re.findall("`+", text)), default=0))
    return f"{fence}{text}{fence}" if len(fence) == 1 else f"{fence} {text} {fence}"
