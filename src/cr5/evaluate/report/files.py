"""The files of a report: run.json, scores.csv, report.md and report.html."""

import csv
import io
from pathlib import Path

from cr5.evaluate.report.contents import Report
from cr5.evaluate.report.html import render_html
from cr5.evaluate.report.markdown import render_markdown
from cr5.evaluate.runs import Run, save_run, write_text
from cr5.evaluate.statistics import CUTOFFS

CSV_COLUMNS = (
    "task", "regime", "system", "measure", "source", "target", *(f"P@{k}" for k in CUTOFFS), "MRR",
    "P@1 low", "P@1 high", "queries", "candidates", "shared", "signature",
)  # fmt: skip


def write_reports(run: Run, folder: Path) -> None:
    """Write a run into a folder: run.json, scores.csv, report.md, report.html."""
    save_run(run, folder)
    report = Report(run)
    write_text(folder / "scores.csv", render_csv(run))
    write_text(folder / "report.md", render_markdown(report))
    write_text(folder / "report.html", render_html(report))


def render_csv(run: Run) -> str:
    """One line for each score, with all its figures."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for score in run.scores:
        names = (run.task, score.regime, score.system, score.measure, score.source, score.target)
        figures = (*map(score.precision, CUTOFFS), score.reciprocal_rank, *score.interval)
        counts = (len(score.ranks), score.candidates, score.shared)
        writer.writerow((*names, *(round(figure, 4) for figure in figures), *counts, score.signature))
    return text.getvalue()
