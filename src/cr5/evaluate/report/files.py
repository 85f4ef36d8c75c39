"""The report of a run: CSV, Markdown, and the files that hold it."""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from cr5.evaluate.report.html import html
from cr5.evaluate.report.tables import (
    MEASURES,
    MISSING,
    NAMES,
    PARTIAL,
    REGIME_NOTES,
    SIGNATURES,
    Cell,
    Entry,
    Row,
    called,
    columns,
    counted,
    facts,
    figure,
    given,
    headline,
    measures,
    of_scores,
    regimes,
    signatures,
    span,
    summary,
    table,
)
from cr5.evaluate.runs import MeanScore, Run, save_run, write_text
from cr5.evaluate.statistics import CUTOFFS
from cr5.retrieval.top_k import Measure

COLUMNS = (
    "task", "regime", "system", "measure", "source", "target", *(f"P@{k}" for k in CUTOFFS), "MRR",
    "P@1 low", "P@1 high", "queries", "candidates", "shared", "signature",
)  # fmt: skip


def csv_text(run: Run) -> str:
    """One line for each score, with all its figures."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(COLUMNS)
    for s in run.scores:
        what = (run.task, s.regime, s.system, s.measure, s.source, s.target)
        figures = [round(value, 4) for value in (*map(s.precision, CUTOFFS), s.reciprocal_rank, *s.interval)]
        lines.writerow((*what, *figures, len(s.ranks), s.candidates, s.shared, s.signature))
    return text.getvalue()


def markdown(run: Run) -> str:
    """The run as a page of Markdown."""
    parts = [f"# {_mark(run.title)}", ""]
    means = run.means()
    found = headline(run, means)
    if found:
        parts += [f"**{_mark(found.text)}** {_mark(found.context)}", ""]
    single, tables = facts(run)
    single = {"task": run.task, "cr5": run.version} | single
    parts += [f"- {_mark(key)}: {_mark(value)}" for key, value in single.items()]
    for title, rows in tables.items():
        names = columns(rows)
        parts += ["", *_head([title, *names], words=1)]
        parts += [
            _pipes(_mark(cell) for cell in (row, *(of.get(k, MISSING) for k in names))) for row, of in rows.items()
        ]
    parts += ["", "## Systems side by side", "", *_summary(run, means)]
    parts += ["## Details", "", "Precision at k, %; queries in either language of a pair, l1 and l2.", ""]
    for regime, by_regime in groupby(table(run, means), lambda row: row.regime):
        if not given(run):
            parts += [f"### {_mark(called(regime))}: {REGIME_NOTES.get(regime, '')}", ""]
        for system, part in groupby(by_regime, lambda row: row.system):
            parts += [f"{'###' if given(run) else '####'} {_mark(system)}", "", *_details(list(part)), ""]
    if run.notes:
        parts += ["## Notes", "", *(f"- {_mark(note)}" for note in run.notes), ""]
    known = signatures(run)
    if known:
        shown = list(known.items())[:SIGNATURES]
        parts += ["## Signatures", "", *(f"- {_mark(of_scores(of))}: {_code(name)}" for name, of in shown)]
        if len(known) > len(shown):
            parts.append(f"- and {len(known) - len(shown):,} more, in scores.csv")
    return "\n".join(parts).rstrip() + "\n"


def _summary(run: Run, means: Sequence[MeanScore]) -> list[str]:
    parts = []
    lines = summary(run, means)
    for measure in measures(run):
        parts += [f"Mean P@1, {NAMES[measure]}, %, with its 95 % interval; the best in bold.", ""]
        parts += _head(["system", *(["P@1"] if given(run) else map(called, regimes(run)))], words=1)
        parts += [
            _pipes([_mark(line.system), *(_entry(line.entries.get((regime, measure))) for regime in regimes(run))])
            for line in lines
        ]
        parts.append("")
    if any(entry.partial for line in lines for entry in line.entries.values()):
        parts += [f"\\* {PARTIAL}", ""]
    return parts


def _entry(entry: Entry | None) -> str:
    if entry is None:
        return MISSING
    value = figure(entry.cell.precision[1])
    mark = "\\*" if entry.partial else ""
    return (f"**{value}**" if entry.best else value) + f" ({span(entry.cell.interval)}){mark}"


def _details(rows: Sequence[Row]) -> list[str]:
    told = any(row.shared is not None for row in rows)
    blocks = [(measure, side) for measure in ("cosine", "CSLS") for side in ("l1", "l2")]
    head = [f"{side} {measure} P@{k}" if k == 1 else f"P@{k}" for measure, side in blocks for k in CUTOFFS]
    lines = _head(["l1", "l2", *head, *["shared"] * told], words=2)
    means = [""]
    for row in rows:
        if row.is_mean:
            means += [_mean_line(measure, *row.cells(measure)) for measure in MEASURES]
            continue
        values = [figure(cell.precision[k] if cell else None) for cell in (*row.cosine, *row.csls) for k in CUTOFFS]
        shared = [MISSING if row.shared is None else f"{row.shared:,}"] * told
        lines.append(_pipes([_mark(row.first), _mark(row.second), *values, *shared]))
    return [*lines, *(f"{line}  " if line else "" for line in means)]


def _mean_line(measure: Measure, cell: Cell | None) -> str:
    if cell is None:
        return ""
    values = ", ".join(f"P@{k} {cell.precision[k]:.1f}" for k in CUTOFFS)
    return (
        f"Mean, {NAMES[measure]}: {values} over {counted(cell.directions, 'direction')}; "
        f"interval of P@1 {span(cell.interval)}"
    )


def _head(names: Sequence[str], *, words: int) -> list[str]:
    """The head of a table: the first columns are words, all others numbers."""
    return [_pipes([_mark(name) for name in names]), "|" + "---|" * words + "---:|" * (len(names) - words)]


def _pipes(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def write_reports(run: Run, folder: Path) -> None:
    """Write a run into a folder: run.json, scores.csv, report.md, report.html."""

    save_run(run, folder)
    for name, write in (("scores.csv", csv_text), ("report.md", markdown), ("report.html", html)):
        write_text(folder / name, write(run))


def _mark(text: str) -> str:
    """Text that Markdown takes as it is."""
    text = re.sub(r"([\\`*_\[\]|#~])", r"\\\1", " ".join(text.split()))
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _code(text: str) -> str:
    """Code, whatever backticks it has inside."""
    text = " ".join(text.split())
    fence = "`" * (1 + max((len(ticks) for ticks in re.findall("`+", text)), default=0))
    return f"{fence}{text}{fence}" if len(fence) == 1 else f"{fence} {text} {fence}"
