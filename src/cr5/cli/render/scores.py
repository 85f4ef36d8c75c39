"""How a run and a comparison of runs look in a terminal."""

from collections.abc import Sequence
from itertools import groupby
from typing import TypeAlias

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from cr5.cli.render.console import out
from cr5.evaluate.published import COLUMNS, PUBLISHED
from cr5.evaluate.published import Row as Printed
from cr5.evaluate.report.tables import (
    GIVEN,
    MISSING,
    NAMES,
    PARTIAL,
    Cell,
    Entry,
    Line,
    Pair,
    Row,
    called,
    figure,
    given,
    headline,
    lead,
    measures,
    named,
    pairs,
    regimes,
    span,
    summary,
    table,
)
from cr5.evaluate.runs import Comparison, Regime, Run, Score
from cr5.evaluate.statistics import CUTOFFS
from cr5.retrieval.top_k import Measure

PAIRS = 12  # more than these are shown by their means, the best and the worst
ENDS = 5
WIDTH = 80
NAME = 16  # a system's name, where it has to be broken
BLOCKS: tuple[Measure, ...] = ("cosine", "csls")


def run_tables(run: Run, details: bool = False) -> None:
    """Systems side by side, then the first cr5, or with ``details`` every system, direction by direction."""
    means = run.means()
    found, lines = headline(run, means), summary(run, means)
    if found:
        out.print(Text(found.text, "bold"))
        out.print(Text(found.context, "dim"))
    for measure in measures(run):
        _summary(run, regimes(run), lines, measure)
    if any(entry.partial for line in lines for entry in line.entries.values()):
        out.print(Text(f"* {PARTIAL}", "dim"))
    many, first = len(pairs(run)) > PAIRS, lead(run)
    hidden = False
    for (regime, system), group in groupby(table(run, means), lambda row: (row.regime, row.system)):
        if details or system == first:
            _details(named(system, regime), list(group), many)
        else:
            hidden = True
    if hidden:
        out.print()
        out.print(Text("-o FOLDER writes the figures of every system, --details prints them", "dim"))
    for note in run.notes:
        out.print(Text(f"note: {note}", "dim"))


def comparison_table(rows: list[Comparison]) -> None:
    """Two runs side by side; what is significant is bold and has a star."""
    for (a, b), part in groupby(rows, lambda row: (row.system_a, row.system_b)):
        title = f"P@1 of {a}, % (A and B: the two runs)" if a == b else f"P@1, %: {a} (A) and {b} (B)"
        shown = _table(("", "A", "B", "B - A", "95 % interval", "p", " "))
        for (regime, measure), group in groupby(part, lambda row: (row.regime, row.measure)):
            shown.add_section()
            shown.add_row(Text(NAMES[measure] if regime == GIVEN else f"{regime}, {NAMES[measure]}", "dim"))
            for row in group:
                shown.add_row(*_compared(row), style="bold" if row.significant else "")
        _print(title, shown)
        out.print()
    count = sum(row.significant for row in rows)
    text = f"* significant at 5 %: {count} of {len(rows)}; p: for all rows together, by Holm's method"
    out.print(Text(text, "dim"))


def _compared(row: Comparison) -> list[Text]:
    low, high = row.at_1.interval
    p = "<0.001" if row.adjusted < 0.001 else f"{row.adjusted:.3f}"
    name = f"{row.source} > {row.target}" if row.source else f"mean of {row.directions}"
    figures = (
        f"{row.precision_a:.1f}",
        f"{row.precision_b:.1f}",
        f"{row.at_1.value:+.1f}",
        f"{low:+.1f} to {high:+.1f}",
    )
    return [Text(cell) for cell in (name, *figures, p, "*" if row.significant else "")]


def _summary(run: Run, shown: Sequence[Regime], lines: Sequence[Line], measure: Measure) -> None:
    title = f"Mean P@1 and its 95 % interval, {NAMES[measure]}, % (● the best)"
    heads = ["P@1"] if given(run) else [called(regime) for regime in shown]
    grids = []
    for apart in (" ", "\n"):  # the interval beside the figure, or below it where the line would be too long
        grid = _table(("system", *heads))
        for line in lines:
            grid.add_row(Text(line.system), *(_entry(line.entries.get((r, measure)), apart) for r in shown))
        grids.append(grid)
    width = min(WIDTH, out.width)
    fits = next((grid for grid in grids if _width(grid) <= width), None)
    if fits is None:  # only then a name is broken
        fits = grids[-1]
        names = max((len(line.system) for line in lines), default=0)
        room = width - (_width(fits) - names)
        fits.columns[0].no_wrap, fits.columns[0].max_width = False, max(room, NAME)
        if room < min(names, NAME) and len(shown) > 1:
            for half in (shown[: len(shown) // 2], shown[len(shown) // 2 :]):
                _summary(run, half, lines, measure)
            return
    out.print()
    _print(title, fits)


def _entry(entry: Entry | None, apart: str) -> Text:
    if entry is None:
        return Text(MISSING)
    sign = "* " if entry.partial else "● " if entry.best else ""
    value = sign + figure(entry.cell.precision[1])
    return Text.assemble((value, "bold" if entry.best else ""), apart, (span(entry.cell.interval), "dim"))


def _details(title: str, rows: Sequence[Row], many: bool) -> None:
    """One line for each direction: both measures, and the training concepts that its languages share."""
    own = [row for row in rows if not row.is_mean]
    (mean,) = [row for row in rows if row.is_mean]
    measures = [measure for measure in BLOCKS if any(mean.cells(measure))]
    both = _directions(own, mean, measures, many)
    blocks = [measures] if _width(both) <= out.width else [[measure] for measure in measures]
    out.print()
    for i, block in enumerate(blocks):
        _print("" if i else title, _directions(own, mean, block, many))
    if many:
        out.print(Text(f"the best {ENDS} and the worst {ENDS} of {len(own)} pairs", "dim"))
    spans = [f"{NAMES[m]} {span(cell.interval)}" for m in measures for cell in mean.cells(m) if cell]
    out.print(Text(f"95 % interval of the mean P@1: {', '.join(spans)}", "dim"))


def _directions(rows: Sequence[Row], mean: Row, measures: Sequence[Measure], many: bool) -> Table:
    told = any(row.shared is not None for row in rows)
    heads = [f"{NAMES[m]} P@{k}" if k == 1 else f"P@{k}" for m in measures for k in CUTOFFS]
    shown = _table(("", *heads, *["shared"] * told))
    for part in _ends(rows) if many else [rows]:
        for row in part:
            for side, (source, target) in enumerate(((row.first, row.second), (row.second, row.first))):
                cells = [row.cells(measure)[side] for measure in measures]
                if any(cells):
                    shared = [MISSING if row.shared is None else f"{row.shared:,}"] * told
                    shown.add_row(Text(f"{source} > {target}"), *_figures(cells), *shared)
        shown.add_section()
    shown.add_row("mean", *_figures([mean.cells(measure)[0] for measure in measures]), style="bold")
    return shown


def _figures(cells: Sequence[Cell | None]) -> list[str]:
    return [figure(cell.precision[k] if cell else None) for cell in cells for k in CUTOFFS]


def _ends(rows: Sequence[Row]) -> list[Sequence[Row]]:
    """The best pairs and the worst, by P@1 of both directions, CSLS where there is any."""

    def value(row: Row) -> float:
        cells = [cell for cell in row.csls if cell] or [cell for cell in row.cosine if cell]
        return sum(cell.precision[1] for cell in cells) / max(len(cells), 1)

    ordered = sorted((row for row in rows if any((*row.csls, *row.cosine))), key=value, reverse=True)
    if len(ordered) <= 2 * ENDS:
        return [ordered]
    return [ordered[:ENDS], ordered[-ENDS:]]


def _table(columns: Sequence[str]) -> Table:
    """A table whose first column is words and whose others are numbers; no line of it is broken."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for i, name in enumerate(columns):
        table.add_column(Text(name), justify="right" if i else "left", no_wrap=True)
    return table


def _width(table: Table) -> int:
    """The columns that a table takes where there is room."""
    return out.measure(table, options=out.options.update(max_width=1000)).maximum


def _print(title: str, table: Table) -> None:
    """A table below its title, neither wrapped to the width of the other; what is too wide is not cut."""
    if title:
        out.print(Text(title, "bold"))
    width = _width(table)
    table.width = width if width > out.width else None
    out.print(table, crop=False)


SECTIONS: dict[Regime, str] = {
    "joint": "(b) joint training",
    "pairwise": "(c) pairwise training",
    "low-resource": "(d) pairwise training, low resources",
    "transitive": "(e) transitive training",
}


def reproduction_table(run: Run) -> None:
    """Table 1 of the paper: its baseline as printed, then every section, ours above what was printed."""
    out.print(Text("P@1, P@5, P@10 in %, by cosine (query in l1, then in l2) and by CSLS (the same)", "bold"))
    _section("(a) MUSE, as printed", [(pair, None, row) for pair, row in PUBLISHED["baseline"].items()])
    for regime, title in SECTIONS.items():
        ours = {(s.source, s.target, str(s.measure)): s for s in run.scores if s.regime == regime}
        asked = dict.fromkeys((min(a, b), max(a, b)) for a, b, _ in ours)
        found = {
            pair: [ours.get((pair[side], pair[1 - side], measure)) for measure, side, _ in COLUMNS] for pair in asked
        }
        printed = PUBLISHED[regime]
        _section(title, [(pair, found.get(pair), printed.get(pair)) for pair in asked | dict.fromkeys(printed)])
    for note in run.notes:
        out.print(Text(f"note: {note}", "dim"))
    sizes = sorted({(len(s.ranks), s.candidates) for s in run.scores})
    asked_about = "; ".join(f"{queries:,} queries among {candidates:,}" for queries, candidates in sizes[:4])
    out.print(Text(f"ours: {asked_about}{' …' if len(sizes) > 4 else ''}; printed: 1,000 among 200,000", "dim"))


Reproduced: TypeAlias = tuple[Pair, Sequence[Score | None] | None, Printed | None]


def _section(title: str, lines: Sequence[Reproduced]) -> None:
    both = _reproduced(lines, BLOCKS)
    if _width(both) <= out.width:
        _print(title, both)
    else:
        for measure in BLOCKS:
            _print(f"{title}, {NAMES[measure]}", _reproduced(lines, [measure]))
    out.print()


def _reproduced(lines: Sequence[Reproduced], measures: Sequence[Measure]) -> Table:
    """Pairs of languages, ours above what was printed, by the given measures."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("", "", *("@1", "@5", "@10") * 2 * len(measures), "docs"):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    places = [i for i, (measure, _, _) in enumerate(COLUMNS) if measure in measures]
    for (a, b), ours, printed in lines:
        name = f"{a}-{b}"
        if ours is not None:
            scores = [(ours[i], COLUMNS[i][2]) for i in places]
            found = [MISSING if score is None else f"{score.precision(k):.1f}" for score, k in scores]
            shared = next((score.shared for score in ours if score), None)
            table.add_row(name, "ours", *found, "" if shared is None else _thousands(shared), style="bold")
            name = ""
        if printed is not None:
            figures = [f"{printed.scores[i]:.1f}" for i in places]
            table.add_row(name, "paper", *figures, "" if printed.shared is None else _thousands(printed.shared))
    return table


def _thousands(number: int) -> str:
    return f"{number // 1000}k" if number >= 1000 else str(number)
