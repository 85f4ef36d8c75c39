"""The files of a report: run.json, scores.csv, report.md and report.html."""

from pathlib import Path

from cr5.evaluate.output import csv_table, write_files
from cr5.evaluate.report.contents import Report
from cr5.evaluate.report.html import render_html
from cr5.evaluate.report.markdown import render_markdown
from cr5.evaluate.runs import RUN_FILE, Run, Score
from cr5.evaluate.splits import Split
from cr5.evaluate.statistics import CUTOFFS
from cr5.storage.json_files import json_text

CSV_COLUMNS = (
    "task", "regime", "system", "measure", "source", "target", *(f"P@{k}" for k in CUTOFFS), "MRR",
    "P@1 low", "P@1 high", "queries", "candidates", "shared", "signature",
)  # fmt: skip


def write_reports(run: Run, folder: str | Path, split: Split | None = None) -> None:
    """Write a run into a folder: run.json, scores.csv, report.md, report.html and, with a split, split.json.

    If one of them cannot be written, none is, and earlier ones stay.
    """
    texts = {RUN_FILE: json_text(run.to_json())}
    if split is not None:
        texts["split.json"] = json_text(split.to_json())
    write_files(Path(folder), texts | {"scores.csv": render_csv(run)} | _pages(run))


def write_pages(run: Run, folder: str | Path) -> None:
    """Write only report.md and report.html, of a run whose messages were changed for those who read them."""
    write_files(Path(folder), _pages(run))


def _pages(run: Run) -> dict[str, str]:
    report = Report(run)
    return {"report.md": render_markdown(report), "report.html": render_html(report)}


def render_csv(run: Run) -> str:
    """One line for each score, with all its figures."""
    return csv_table(CSV_COLUMNS, (_cells(run, score) for score in run.scores))


def _cells(run: Run, score: Score) -> tuple[object, ...]:
    names = (run.task, score.regime, score.system, score.measure, score.source, score.target)
    figures = (*map(score.precision, CUTOFFS), score.reciprocal_rank, *score.interval)
    return (*names, *figures, len(score.ranks), score.candidates, score.shared, score.signature)
