"""The reproduction of the paper's Table 1 in a terminal."""

from collections.abc import Sequence
from typing import NamedTuple

from rich.table import Table
from rich.text import Text

from cr5.cli.render import console
from cr5.cli.render.console import out
from cr5.cli.render.scores import print_failures, print_notes
from cr5.evaluate.paper_data.table1 import COLUMNS, PUBLISHED, PublishedRow
from cr5.evaluate.report.formatting import MEASURE_NAMES, MISSING, PAPER_MEASURES, describe_failures
from cr5.evaluate.runs import LanguagePair, Regime, Run, Score
from cr5.retrieval.top_k import Measure

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
    print_failures(describe_failures(run.failed))
    print_notes(run.notes)
    sizes = sorted({(len(s.ranks), s.candidates) for s in run.scores})
    shown = "; ".join(f"{queries:,} queries among {candidates:,}" for queries, candidates in sizes[:4])
    out.print(Text(f"ours: {shown}{' …' if len(sizes) > 4 else ''}; printed: 1,000 among 200,000", "dim"))


def _print_section(title: str, pairs: Sequence[ReproducedPair]) -> None:
    both = _section_table(pairs, PAPER_MEASURES)
    if console.width(both) <= out.width:
        console.print_table(title, both)
    else:
        for measure in PAPER_MEASURES:
            console.print_table(f"{title}, {MEASURE_NAMES[measure]}", _section_table(pairs, [measure]))
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
