"""Evaluation results in a terminal: a run, a comparison of two runs, and the reproduction of the paper's table."""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import NamedTuple

from rich.table import Table
from rich.text import Text

from cr5.cli.render.console import out, plain_table
from cr5.evaluate.comparison import Comparison
from cr5.evaluate.paper_data.table1 import COLUMNS, PUBLISHED, PublishedRow
from cr5.evaluate.report.contents import (
    PARTIAL_NOTE,
    DetailRow,
    DetailTable,
    PrecisionCell,
    Report,
    SummaryRow,
)
from cr5.evaluate.report.facts import accounting
from cr5.evaluate.report.formatting import (
    MEASURE_NAMES,
    MISSING,
    format_count,
    format_interval,
    format_percent,
    format_ratio,
    regime_name,
)
from cr5.evaluate.runs import TRAINED_ELSEWHERE, LanguagePair, Regime, Run, Score
from cr5.evaluate.statistics import CUTOFFS
from cr5.retrieval.top_k import Measure

SHOWN_EXTREMES = 5  # of the best and of the worst pairs, where there are too many to list all
MAX_WIDTH = 80  # of the summary, in columns
MIN_NAME_WIDTH = 16  # of a system's name that has to be broken
MEASURE_ORDER: tuple[Measure, ...] = ("cosine", "csls")  # as in the paper's table


def run_tables(run: Run, details: bool = False, translate: Callable[[str], str] = str, has_files: bool = False) -> None:
    """Print systems side by side, then the main system, or with ``details`` every system, direction by direction.

    ``translate`` turns the messages of the library into those of the command line. ``has_files`` says that all figures
    are in files already.
    """
    report = Report(run)
    if report.headline:
        out.print(Text(report.headline.text, "bold"))
        out.print(Text(report.headline.context, "dim"))
    if sentence := accounting(run.facts):
        out.print(Text(sentence, "dim"))
    for measure in report.measures:
        _print_summary(report, report.summary_regimes, measure)
    if report.has_partial_means:
        out.print(Text(f"* {PARTIAL_NOTE}", "dim"))
    _print_failures(report, translate)
    shown = [table for table in report.details if details or table.system == report.main_system]
    for table in shown:
        _print_details(table, report.has_many_pairs)
    if len(shown) < len(report.details):
        out.print()
        other_way = "" if has_files else ", -o FOLDER writes them"
        out.print(Text(f"--details prints the figures of every system{other_way}", "dim"))
    _print_notes(run, translate)


def comparison_table(rows: list[Comparison]) -> None:
    """Print two runs side by side; significant differences are bold and have a star."""
    for (a, b), rows_of_systems in groupby(rows, lambda row: (row.system_a, row.system_b)):
        title = f"P@1 of {a}, % (A and B: the two runs)" if a == b else f"P@1, %: {a} (A) and {b} (B)"
        table = _table(("", "A", "B", "B - A", "95 % interval", "p", " "))
        for (regime, measure), group in groupby(rows_of_systems, lambda row: (row.regime, row.measure)):
            name = MEASURE_NAMES[measure]
            table.add_section()
            table.add_row(Text(name if regime == TRAINED_ELSEWHERE else f"{regime}, {name}", "dim"))
            for row in group:
                table.add_row(*map(Text, _comparison_cells(row)), style="bold" if row.significant else "")
        _print_table(title, table)
        out.print()
    count = sum(row.significant for row in rows)
    text = f"* significant at 5 %: {count} of {len(rows)}; p: adjusted for all rows together (Holm's method)"
    out.print(Text(text, "dim"))


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
    # The interval stands beside the figure, or below it where the line would be too long.
    table = _summary_table(report, regimes, measure, " ")
    if _width(table) > max_width:
        table = _summary_table(report, regimes, measure, "\n")
    if _width(table) > max_width:  # only then are names broken
        names = max((len(row.system) for row in report.summary), default=0)
        name_width = max_width - (_width(table) - names)
        table.columns[0].no_wrap, table.columns[0].max_width = False, max(name_width, MIN_NAME_WIDTH)
        if name_width < min(names, MIN_NAME_WIDTH) and len(regimes) > 1:
            for half in (regimes[: len(regimes) // 2], regimes[len(regimes) // 2 :]):
                _print_summary(report, half, measure)
            return
    out.print()
    _print_table(title, table)


def _summary_table(report: Report, regimes: Sequence[Regime], measure: Measure, separator: str) -> Table:
    columns = ["P@1"] if report.trained_elsewhere else [regime_name(regime) for regime in regimes]
    table = _table(("system", *columns))
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
    measures = [measure for measure in MEASURE_ORDER if measure in table.means]
    fits = _width(_direction_table(table, measures, only_extremes)) <= out.width
    out.print()
    for i, block in enumerate([measures] if fits else [[measure] for measure in measures]):
        _print_table("" if i else table.title, _direction_table(table, block, only_extremes))
    if only_extremes:
        out.print(Text(f"the best {SHOWN_EXTREMES} and the worst {SHOWN_EXTREMES} of {len(table.rows)} pairs", "dim"))
    intervals = [f"{MEASURE_NAMES[m]} {format_interval(table.means[m].interval)}" for m in measures]
    out.print(Text(f"95 % interval of the mean P@1: {', '.join(intervals)}", "dim"))


def _direction_table(details: DetailTable, measures: Sequence[Measure], only_extremes: bool) -> Table:
    has_shared = any(row.shared is not None for row in details.rows)
    columns = [f"{MEASURE_NAMES[m]} P@{k}" if k == 1 else f"P@{k}" for m in measures for k in CUTOFFS]
    table = _table(("", *columns, *["shared"] * has_shared))
    for rows in _extremes(details.rows) if only_extremes else [details.rows]:
        for row in rows:
            for side, (source, target) in enumerate(((row.first, row.second), (row.second, row.first))):
                cells = [row.by_measure(measure)[side] for measure in measures]
                if any(cells):
                    shared = [format_count(row.shared)] * has_shared
                    table.add_row(Text(f"{source} > {target}"), *_figures(cells), *shared)
        table.add_section()
    table.add_row("mean", *_figures([details.means[measure] for measure in measures]), style="bold")
    return table


def _figures(cells: Sequence[PrecisionCell | None]) -> list[str]:
    return [format_percent(cell.precision[k] if cell else None) for cell in cells for k in CUTOFFS]


def _extremes(rows: Sequence[DetailRow]) -> list[Sequence[DetailRow]]:
    """The best pairs and the worst, by the mean P@1 of both directions, CSLS where there is any."""

    def precision(row: DetailRow) -> float:
        cells = [cell for cell in row.csls if cell] or [cell for cell in row.cosine if cell]
        return sum(cell.precision[1] for cell in cells) / max(len(cells), 1)

    ranked = sorted((row for row in rows if any(row.cells)), key=precision, reverse=True)
    if len(ranked) <= 2 * SHOWN_EXTREMES:
        return [ranked]
    return [ranked[:SHOWN_EXTREMES], ranked[-SHOWN_EXTREMES:]]


def _table(columns: Sequence[str]) -> Table:
    """A table whose first column is text and whose others are numbers; no line of it is broken."""
    table = plain_table("", *columns, left=columns[:1])
    table.show_edge, table.padding = False, (0, 1, 0, 0)
    for column in table.columns:
        column.no_wrap = True
    return table


def _width(table: Table) -> int:
    """The columns that a table needs to show every line unbroken."""
    return out.measure(table, options=out.options.update(max_width=1000)).maximum


def _print_table(title: str, table: Table) -> None:
    """A table below its title, neither wrapped to the width of the other; a table that is too wide is not cut."""
    if title:
        out.print(Text(title, "bold"))
    width = _width(table)
    table.width = width if width > out.width else None
    out.print(table, crop=False)


def _print_failures(report: Report, translate: Callable[[str], str] = str) -> None:
    for failure in report.failures:
        out.print(Text.assemble(("could not run: ", "yellow"), translate(failure)))


def _print_notes(run: Run, translate: Callable[[str], str] = str) -> None:
    for note in run.notes:
        out.print(Text(f"note: {translate(note)}", "dim"))


SECTIONS: dict[Regime, str] = {
    "joint": "(b) joint training",
    "pairwise": "(c) pairwise training",
    "low-resource": "(d) pairwise training, low resources",
    "transitive": "(e) transitive training",
}


class ReproducedPair(NamedTuple):
    """A language pair of the paper's table: our scores in the order of its columns, and the printed row."""

    langs: LanguagePair
    ours: list[Score | None] | None
    printed: PublishedRow | None


def reproduction_table(run: Run) -> None:
    """Print Table 1 of the paper: its baseline as printed, then every section, our row above the printed one."""
    out.print(Text("P@1, P@5, P@10 in %, by cosine (query in l1, then in l2) and by CSLS (the same)", "bold"))
    baseline = [ReproducedPair(pair, None, row) for pair, row in PUBLISHED["baseline"].items()]
    _print_section("(a) MUSE, as printed", baseline)
    for regime, title in SECTIONS.items():
        scores = {(s.source, s.target, str(s.measure)): s for s in run.scores if s.regime == regime}
        ours = {
            pair: [scores.get((pair[side], pair[1 - side], measure)) for measure, side, _ in COLUMNS]
            for pair in dict.fromkeys((min(a, b), max(a, b)) for a, b, _ in scores)
        }
        printed = PUBLISHED[regime]
        pairs = dict.fromkeys([*ours, *printed])
        _print_section(title, [ReproducedPair(pair, ours.get(pair), printed.get(pair)) for pair in pairs])
    _print_failures(Report(run))
    _print_notes(run)
    sizes = sorted({(len(s.ranks), s.candidates) for s in run.scores})
    shown = "; ".join(f"{queries:,} queries among {candidates:,}" for queries, candidates in sizes[:4])
    out.print(Text(f"ours: {shown}{' …' if len(sizes) > 4 else ''}; printed: 1,000 among 200,000", "dim"))


def _print_section(title: str, pairs: Sequence[ReproducedPair]) -> None:
    both = _section_table(pairs, MEASURE_ORDER)
    if _width(both) <= out.width:
        _print_table(title, both)
    else:
        for measure in MEASURE_ORDER:
            _print_table(f"{title}, {MEASURE_NAMES[measure]}", _section_table(pairs, [measure]))
    out.print()


def _section_table(pairs: Sequence[ReproducedPair], measures: Sequence[Measure]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("", "", *("@1", "@5", "@10") * 2 * len(measures), "docs"):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    columns = [i for i, (measure, _, _) in enumerate(COLUMNS) if measure in measures]
    for (a, b), ours, printed in pairs:
        name = f"{a}-{b}"
        if ours is not None:
            scores = [(ours[i], COLUMNS[i][2]) for i in columns]
            figures = [MISSING if score is None else f"{score.precision(k):.1f}" for score, k in scores]
            shared = next((score.shared for score in ours if score), None)
            table.add_row(name, "ours", *figures, _thousands(shared), style="bold")
            name = ""
        if printed is not None:
            table.add_row(name, "paper", *(f"{printed.scores[i]:.1f}" for i in columns), _thousands(printed.shared))
    return table


def _thousands(number: int | None) -> str:
    if number is None:
        return ""
    return f"{number // 1000}k" if number >= 1000 else str(number)
