"""How a run and a comparison of runs look in a terminal."""

from collections.abc import Sequence
from itertools import groupby

from rich.table import Table
from rich.text import Text

from cr5.cli.show import _table, out
from cr5.evaluate.measures import CUTOFFS
from cr5.evaluate.published import COLUMNS, PUBLISHED
from cr5.evaluate.published import Row as Printed
from cr5.evaluate.run import Compared, Regime, Run, Score
from cr5.evaluate.tables import (
    MISSING,
    NAMES,
    PARTIAL,
    Cell,
    Entry,
    Line,
    Pair,
    Row,
    figure,
    headline,
    measures,
    pairs,
    regimes,
    span,
    summary,
    table,
)
from cr5.neighbours import Measure

PAIRS = 12  # more than these are shown by their means, the best and the worst
ENDS = 5
WIDTH = 80
BLOCKS: tuple[Measure, ...] = ("cosine", "csls")


def run_tables(run: Run) -> None:
    """Systems side by side, then every system's precision, direction by direction."""
    means = run.means()
    found, lines = headline(run, means), summary(run, means)
    if found:
        out.print(Text(found.text, "bold"))
        out.print(Text(found.context, "dim"))
        out.print()
    for measure in measures(run):
        _summary(regimes(run), lines, measure)
    if any(entry.partial for line in lines for entry in line.entries.values()):
        out.print(Text(f"* {PARTIAL}", "dim"))
    many = len(pairs(run)) > PAIRS
    for regime, by_regime in groupby(table(run, means), lambda row: row.regime):
        for system, rows in groupby(by_regime, lambda row: row.system):
            out.print()
            _details(f"{system}, {regime}", list(rows), many)
    for note in run.notes:
        out.print(Text(f"note: {note}", "dim"))


def comparison_table(rows: list[Compared]) -> None:
    """Two runs side by side; what is significant is bold and has a star."""
    for (a, b), part in groupby(rows, lambda row: (row.system_a, row.system_b)):
        title = f"P@1 of {a}, % (A and B: the two runs)" if a == b else f"P@1, %: {a} (A) and {b} (B)"
        columns = ("", "A", "B", "B - A", "95 % interval", "p", " ")
        shown = _table("", *columns, left=("", " "))
        shown.title = Text(title)
        for (regime, measure), group in groupby(part, lambda row: (row.regime, row.measure)):
            shown.add_section()
            shown.add_row(Text(f"{regime}, {NAMES[measure]}", "dim"))
            for row in group:
                shown.add_row(*_compared(row), style="bold" if row.significant else "")
        out.print(shown)
    count = sum(row.significant for row in rows)
    text = f"* significant at 5 %: {count} of {len(rows)}; p: for all rows together, by Holm's method"
    out.print(Text(text, "dim"))


def _compared(row: Compared) -> list[Text]:
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


def _summary(names: Sequence[Regime], lines: Sequence[Line], measure: Measure) -> None:
    cells = {line.system: [line.entries.get((regime, measure)) for regime in names] for line in lines}
    for apart in (" ", "\n"):  # the interval beside the figure, or below it where the line would be too long
        shown = _titled(f"Mean P@1 and its 95 % interval, {NAMES[measure]}, %", ("system", *names), left=("system",))
        for system, entries in cells.items():
            shown.add_row(Text(system), *(_entry(entry, apart) for entry in entries))
        if out.measure(shown, options=out.options.update(max_width=1000)).maximum <= min(WIDTH, out.width):
            break
    out.print(shown)


def _entry(entry: Entry | None, apart: str) -> Text:
    if entry is None:
        return Text(MISSING)
    value = figure(entry.cell.precision[1]) + ("*" if entry.partial else "")
    return Text.assemble((value, "bold" if entry.best else ""), apart, (span(entry.cell.interval), "dim"))


def _details(title: str, rows: Sequence[Row], many: bool) -> None:
    """One line for each direction: both measures, and the training concepts that its languages share."""
    own = [row for row in rows if not row.is_mean]
    heads = [f"{NAMES[m]} P@{k}" if k == 1 else f"P@{k}" for m in BLOCKS for k in CUTOFFS]
    shown = _titled(title, ("", *heads, "shared"), left=("",))
    for part in _ends(own) if many else [own]:
        for row in part:
            for side, (source, target) in enumerate(((row.first, row.second), (row.second, row.first))):
                cells = [row.cells(measure)[side] for measure in BLOCKS]
                if any(cells):
                    shared = MISSING if row.shared is None else f"{row.shared:,}"
                    shown.add_row(Text(f"{source} > {target}"), *_figures(cells), shared)
        shown.add_section()
    (mean,) = [row for row in rows if row.is_mean]
    means = [row_cells[0] for row_cells in (mean.cosine, mean.csls)]
    shown.add_row("mean", *_figures(means), "", style="bold")
    out.print(shown)
    if many:
        out.print(Text(f"the best {ENDS} and the worst {ENDS} of {len(own)} pairs", "dim"))
    spans = [f"{NAMES[m]} {span(cell.interval)}" for m, cell in zip(BLOCKS, means, strict=True) if cell]
    out.print(Text(f"95 % interval of the mean P@1: {', '.join(spans)}", "dim"))


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


def _titled(title: str, columns: Sequence[str], left: tuple[str, ...]) -> Table:
    """A table whose title is taken as it is: a system's name is no markup."""
    shown = _table("", *columns, left=left)
    shown.title = Text(title)
    return shown


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
        asked = list(dict.fromkeys((min(a, b), max(a, b)) for a, b, _ in ours))
        lines = [
            (pair, [ours.get((pair[side], pair[1 - side], measure)) for measure, side, _ in COLUMNS], printed.get(pair))
            for printed in [PUBLISHED[regime]]
            for pair in [*asked, *(pair for pair in printed if pair not in asked)]
        ]
        _section(title, lines)
    for note in run.notes:
        out.print(Text(f"note: {note}", "dim"))
    sizes = sorted({(len(s.ranks), s.candidates) for s in run.scores})
    asked_about = "; ".join(f"{queries:,} queries among {candidates:,}" for queries, candidates in sizes[:4])
    out.print(Text(f"ours: {asked_about}{' …' if len(sizes) > 4 else ''}; printed: 1,000 among 200,000", "dim"))


def _section(title: str, lines: Sequence[tuple[Pair, Sequence[Score | None] | None, Printed | None]]) -> None:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("", "", *("@1", "@5", "@10") * 4, "docs"):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    for (a, b), ours, printed in lines:
        name = f"{a}-{b}"
        if ours is not None:
            found = [
                MISSING if score is None else f"{score.precision(k):.1f}"
                for score, (_, _, k) in zip(ours, COLUMNS, strict=True)
            ]
            shared = next((score.shared for score in ours if score), None)
            table.add_row(name, "ours", *found, "" if shared is None else _thousands(shared), style="bold")
            name = ""
        if printed is not None:
            figures = [f"{value:.1f}" for value in printed.scores]
            table.add_row(name, "paper", *figures, "" if printed.shared is None else _thousands(printed.shared))
    out.print(table)
    out.print()


def _thousands(number: int) -> str:
    return f"{number // 1000}k" if number >= 1000 else str(number)
