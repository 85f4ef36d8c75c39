"""The files of a report: CSV and Markdown have the figures of the JSON."""

import csv
import io
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from html_tree import parse
from reports import SYSTEMS, as_json, expected_rows, html, make_run, markdown, markdown_cells, mean_text, partial_run

from cr5.cli.render import scores
from cr5.evaluate.report.files import render_csv, write_reports
from cr5.evaluate.runs import Run, Task, load_run


@pytest.fixture(scope="module")
def run() -> Run:
    return partial_run()


@pytest.fixture(scope="module")
def values(run: Run) -> dict[str, Any]:
    return as_json(run)


@pytest.fixture(scope="module")
def text(run: Run) -> str:
    return html(run)


def test_the_csv_contains_the_figures_of_the_json(run: Run, values: dict[str, Any]) -> None:
    lines = list(csv.DictReader(io.StringIO(render_csv(run))))
    assert len(lines) == len(values["scores"])
    for line, score in zip(lines, values["scores"], strict=True):
        for name in ("system", "regime", "measure", "source", "target", "signature"):
            assert line[name] == score[name]
        for name in ("queries", "candidates", "shared"):
            assert int(line[name]) == score[name]
        shown = [line[name] for name in ("P@1", "P@5", "P@10", "P@1 low", "P@1 high", "MRR")]
        exact = [*(score["precision"][k] for k in ("1", "5", "10")), *score["interval"], score["reciprocal_rank"]]
        assert [float(value) for value in shown] == pytest.approx(exact, abs=5.1e-5)
        assert max(len(value.partition(".")[2]) for value in shown) <= 4


def test_the_markdown_tables_contain_the_figures_of_the_json(run: Run, values: dict[str, Any]) -> None:
    lines = [markdown_cells(line) for line in markdown(run).splitlines() if line.startswith("| ")]
    assert [line for line in lines if len(line) == 15 and line[0] != "l1"] == expected_rows(values)
    cells = [line for line in lines if len(line) == 3 and line[0] in SYSTEMS]
    assert len(cells) == 2 * len(SYSTEMS)
    for (name, *of), (system, measure) in zip(
        cells, [(s, m) for m in ("csls", "cosine") for s in SYSTEMS], strict=True
    ):
        assert name == system
        for cell, regime in zip(of, ("joint", "pairwise"), strict=True):
            assert cell.replace("*", "") == mean_text(values, system, regime, measure)


@pytest.mark.parametrize("task", get_args(Task))
def test_one_system_in_one_direction_by_one_measure_is_enough(
    task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(["en", "it"], ["pretrained"], {"given": 0.3}, ["cosine"], [("en", "it")], task, coverage=False)
    run = replace(run, examples=[], trained=[], notes=[], facts={})
    write_reports(run, tmp_path)
    scores.run_tables(run)
    assert "en > it" in capsys.readouterr().out
    page = parse((tmp_path / "report.html").read_text())
    assert "Examples" not in [heading.text for heading in page.all("h2")]
    value = run.scores[0].precision(1)
    assert f"first for {value:.1f}\N{NO-BREAK SPACE}% of the queries" in page.text


def test_a_run_without_scores_has_a_report(capsys: pytest.CaptureFixture[str]) -> None:
    run = replace(make_run(), scores=[], queries=[], examples=[])
    assert "This run has no scores" in parse(html(run)).text
    assert render_csv(run).count("\n") == 1
    assert "## Notes" in markdown(run)
    scores.run_tables(run)
    assert "note: CL-LSI" in capsys.readouterr().out


def test_reports_are_written_to_one_folder_and_the_run_loads_again(run: Run, text: str, tmp_path: Path) -> None:
    write_reports(run, str(tmp_path / "results"))
    assert sorted(path.name for path in (tmp_path / "results").iterdir()) == [
        "report.html",
        "report.md",
        "run.json",
        "scores.csv",
    ]
    again = load_run(tmp_path / "results")
    assert again == run
    assert (tmp_path / "results" / "report.html").read_text() == text
