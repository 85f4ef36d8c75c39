"""Evaluation results in a terminal: a run, a comparison of two runs, and an evaluation of search."""

from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np
from rich.table import Table
from rich.text import Text

from cr5.cli.render import console
from cr5.cli.render.console import out
from cr5.evaluate.comparison import Comparison
from cr5.evaluate.report.contents import PARTIAL_NOTE, DetailRow, DetailTable, PrecisionCell, Report, SummaryRow
from cr5.evaluate.report.facts import describe_accounting
from cr5.evaluate.report.formatting import (
    MEASURE_NAMES,
    MEASURES,
    MISSING,
    PAPER_MEASURES,
    format_count,
    format_interval,
    format_percent,
    format_ratio,
)
from cr5.evaluate.runs import PRETRAINED, MeanScore, Regime, Run
from cr5.evaluate.statistics import CUTOFFS
from cr5.evaluate.tasks.search import run as search_run
from cr5.evaluate.tasks.search.run import SearchRun
from cr5.retrieval.top_k import Measure

SHOWN_EXTREMES = 5  # number of best and of worst pairs shown, if there are too many to list all
MAX_WIDTH = 80  # width of the summary, in columns
MIN_NAME_WIDTH = 16  # least width of a system's name that has to be broken
_REPORT_FILES = ("report.html", "report.md", "scores.csv", "run.json")
_FILES = {"documents": (*_REPORT_FILES, "split.json"), "search": ("report.md", "scores.csv", "search.json")}


def run_tables(run: Run, details: bool = False, translate: Callable[[str], str] = str, has_files: bool = False) -> None:
    """Print systems side by side, then the main system, or with ``details`` every system, direction by direction.

    ``translate`` turns the messages of the library into those of the command line. ``has_files`` says that all figures
    are in files already.
    """
    report = Report(run)
    if report.headline:
        out.print(Text(report.headline.text, "bold"))
        out.print(Text(report.headline.context, "dim"))
    if sentence := describe_accounting(run.facts):
        out.print(Text(sentence, "dim"))
    for measure in report.measures:
        _print_summary(report, report.summary_regimes, measure)
    if report.has_partial_means:
        out.print(Text(f"* {PARTIAL_NOTE}", "dim"))
    print_failures(report.failures, translate)
    shown = [table for table in report.details if details or table.system == report.main_system]
    for table in shown:
        _print_details(table, report.has_many_pairs)
    if len(shown) < len(report.details):
        out.print()
        other_way = "" if has_files else ", -o FOLDER writes them"
        out.print(Text(f"--details prints the figures of every system{other_way}", "dim"))
    print_notes(run.notes, translate)


def comparison_table(rows: list[Comparison]) -> None:
    """Print two runs side by side; significant differences are bold and have a star."""
    for (a, b), rows_of_systems in groupby(rows, lambda row: (row.system_a, row.system_b)):
        title = f"P@1 of {a}, % (A and B: the two runs)" if a == b else f"P@1, %: {a} (A) and {b} (B)"
        table = console.figure_table(("", "A", "B", "B - A", "95 % interval", "p", " "))
        for (regime, measure), group in groupby(rows_of_systems, lambda row: (row.regime, row.measure)):
            name = MEASURE_NAMES[measure]
            table.add_section()
            table.add_row(Text(name if regime == PRETRAINED else f"{regime}, {name}", "dim"))
            for row in group:
                table.add_row(*map(Text, _comparison_cells(row)), style="bold" if row.significant else "")
        console.print_table(title, table)
        out.print()
    count = sum(row.significant for row in rows)
    text = f"* significant at 5 %: {count} of {len(rows)}; p: adjusted for all rows together (Holm's method)"
    out.print(Text(text, "dim"))


def search_tables(run: SearchRun) -> None:
    """Print success@1, @3, @10 and MRR by type and by language, of search and of BM25, and the notes."""
    out.print(Text(f"Search in {run.title}, {run.facts['query_set']} queries", "bold"))
    out.print(Text(search_run.EXPLANATION, "dim"))
    for title, rows in search_run.tables(run):
        table = console.figure_table(search_run.HEADER)
        for name, row in rows:
            table.add_row(Text(name), *search_run.cells(row), style="bold" if name == search_run.ALL else "")
        out.print()
        console.print_table(title, table)
    print_notes(run.notes)


def written_files(folder: Path | None, task: str) -> None:
    """Print which files the results of a task were written to, if there is a folder for them."""
    if folder is not None:
        names = _FILES.get(task, _REPORT_FILES)
        out.print(f"written to {folder}: {', '.join(names)}", style="dim")


def _comparison_cells(row: Comparison) -> tuple[str, ...]:
    low, high = row.at_1.interval
    return (
        f"{row.source} > {row.target}" if row.source else f"mean of {row.directions}",
        f"{row.precision_a:.1f}",
        f"{row.precision_b:.1f}",
        f"{row.at_1.value:+.1f}",
        f"{low:+.1f} to {high:+.1f}",
        "<0.001" if row.adjusted < 0.001 else f"{row.adjusted:.3f}",
        "*" if row.significant else "",
    )


def _print_summary(report: Report, regimes: Sequence[Regime], measure: Measure) -> None:
    """The means of all systems in some regimes; a table that is too wide is split into two."""
    figures = ", 95 % interval and ratio to the upper bound" if report.has_ratios else " and its 95 % interval"
    title = f"Mean P@1{figures}, {MEASURE_NAMES[measure]}, % (● the best)"
    max_width = min(MAX_WIDTH, out.width)
    # The interval stands next to the figure, or below it where the line would be too long.
    table = _summary_table(report, regimes, measure, " ")
    if console.width(table) > max_width:
        table = _summary_table(report, regimes, measure, "\n")
    if console.width(table) > max_width:  # only then are names broken
        names = max((len(row.system) for row in report.summary), default=0)
        name_width = max_width - (console.width(table) - names)
        table.columns[0].no_wrap, table.columns[0].max_width = False, max(name_width, MIN_NAME_WIDTH)
        if name_width < min(names, MIN_NAME_WIDTH) and len(regimes) > 1:
            for half in (regimes[: len(regimes) // 2], regimes[len(regimes) // 2 :]):
                _print_summary(report, half, measure)
            return
    out.print()
    console.print_table(title, table)


def _summary_table(report: Report, regimes: Sequence[Regime], measure: Measure, separator: str) -> Table:
    columns = ["P@1"] if report.all_pretrained else list(map(str, regimes))
    table = console.figure_table(("system", *columns))
    for row in report.summary:
        cells = [_summary_cell(row, regime, measure, separator) for regime in regimes]
        table.add_row(Text(row.system), *cells)
    return table


def _summary_cell(row: SummaryRow, regime: Regime, measure: Measure, separator: str) -> Text:
    cell = row.cells.get((regime, measure))
    if cell is None:
        return Text(row.failures[regime].label, "dim") if regime in row.failures else Text(MISSING)
    mark = "* " if cell.partial else "● " if cell.best else ""
    value = (mark + format_percent(cell.scores.precision[1]), "bold" if cell.best else "")
    ratio = "" if cell.ratio is None else f" {format_ratio(cell.ratio)}"
    return Text.assemble(value, separator, (format_interval(cell.scores.interval), "dim"), ratio)


def _print_details(table: DetailTable, only_extremes: bool) -> None:
    """One line for each direction: both measures, and the training concepts that its languages share."""
    measures = [measure for measure in PAPER_MEASURES if measure in table.means]
    fits = console.width(_direction_table(table, measures, only_extremes)) <= out.width
    out.print()
    for i, block in enumerate([measures] if fits else [[measure] for measure in measures]):
        console.print_table("" if i else table.title, _direction_table(table, block, only_extremes))
    if table.has_shared:
        out.print(Text("shared: training concepts that both languages have", "dim"))
    if only_extremes:
        out.print(Text(f"the best {SHOWN_EXTREMES} and the worst {SHOWN_EXTREMES} of {len(table.rows)} pairs", "dim"))
    intervals = [f"{MEASURE_NAMES[m]} {format_interval(table.means[m].interval)}" for m in measures]
    out.print(Text(f"95 % interval of the mean P@1: {', '.join(intervals)}", "dim"))


def _direction_table(details: DetailTable, measures: Sequence[Measure], only_extremes: bool) -> Table:
    columns = [f"{MEASURE_NAMES[m]} P@{k}" if k == 1 else f"P@{k}" for m in measures for k in CUTOFFS]
    table = console.figure_table(("", *columns, *["shared"] * details.has_shared))
    for rows in _extremes(details.rows) if only_extremes else [details.rows]:
        for row in rows:
            for side, (source, target) in enumerate(((row.first, row.second), (row.second, row.first))):
                cells = [row.by_measure[measure][side] for measure in measures]
                if any(cells):
                    shared = [format_count(row.shared)] * details.has_shared
                    table.add_row(Text(f"{source} > {target}"), *_figures(cells), *shared)
        table.add_section()
    table.add_row("mean", *_figures([details.means[measure] for measure in measures]), style="bold")
    return table


def _figures(cells: Sequence[PrecisionCell | MeanScore | None]) -> list[str]:
    return [format_percent(cell.precision[k] if cell else None) for cell in cells for k in CUTOFFS]


def _extremes(rows: Sequence[DetailRow]) -> list[Sequence[DetailRow]]:
    """The best pairs and the worst, by the mean P@1 of both directions, CSLS where there is any."""

    def precision(row: DetailRow) -> float:
        cells = next(filter(any, (row.by_measure[measure] for measure in MEASURES)), [])
        return float(np.mean([cell.precision[1] for cell in cells if cell]))

    ranked = sorted((row for row in rows if any(row.cells)), key=precision, reverse=True)
    if len(ranked) <= 2 * SHOWN_EXTREMES:
        return [ranked]
    return [ranked[:SHOWN_EXTREMES], ranked[-SHOWN_EXTREMES:]]


def print_failures(failures: Sequence[str], translate: Callable[[str], str] = str) -> None:
    """Print sentences on systems that could not run."""
    for failure in failures:
        out.print(Text.assemble(("could not run: ", "yellow"), translate(failure)))


def print_notes(notes: Sequence[str], translate: Callable[[str], str] = str) -> None:
    """Print the notes of a run."""
    for note in notes:
        out.print(Text(f"note: {translate(note)}", "dim"))
