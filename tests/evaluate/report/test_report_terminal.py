"""Reports in the terminal: runs, comparisons and the reproduction of the paper's table."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from reports import as_json, big_run, expected_rows, make_run, mean_text, partial_run

from cr5.cli.render import console, scores, table1
from cr5.evaluate.comparison import Comparison
from cr5.evaluate.report.contents import Report
from cr5.evaluate.report.formatting import MISSING
from cr5.evaluate.runs import FailedSystem, Run
from cr5.evaluate.statistics import Difference, Interval


@pytest.fixture(scope="module")
def run() -> Run:
    return partial_run()


@pytest.fixture(scope="module")
def values(run: Run) -> dict[str, Any]:
    return as_json(run)


@pytest.fixture(scope="module")
def big() -> Run:
    return big_run()


def direction_lines(lines: Sequence[str]) -> list[list[str]]:
    """The lines of single directions, as they are printed."""
    return [line.split() for line in lines if re.match(r"\w\w > \w\w ", line)]


def expected_direction_lines(rows: Sequence[list[str]], measures: Sequence[int] = (0, 1)) -> list[list[str]]:
    """The same lines, from the paper's rows: cosine is 0, CSLS 1."""
    expected = []
    for row in rows:
        for way, at in (((row[0], row[1]), 2), ((row[1], row[0]), 5)):
            of = [value for m in measures for value in row[at + 6 * m : at + 6 * m + 3]]
            if set(of) != {MISSING}:
                expected.append([way[0], ">", way[1], *of, *row[14:]])
    return expected


def test_the_terminal_shows_the_figures_of_the_json_in_80_columns(
    run: Run, values: dict[str, Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console.out, "_width", 80)
    scores.run_tables(run, details=True)
    lines = capsys.readouterr().out.splitlines()
    assert max(len(line) for line in lines) <= 80
    assert direction_lines(lines) == expected_direction_lines(expected_rows(values))
    assert "--details" not in " ".join(lines)
    text = " ".join(" ".join(lines).split())
    for regime, measure in (("joint", "csls"), ("pairwise", "cosine")):
        assert mean_text(values, "cr5", regime, measure).replace("(", "").replace(")", "") in text
    assert "CL-LSI [x], joint" in text


def test_the_terminal_details_one_system_and_says_how_to_see_the_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    several = make_run(systems={"floor": 0.05, "cr5 as asked": 0.3, "cr5 also": 0.5, "CL-LSI [x]": 0.15})
    scores.run_tables(several)
    lines = capsys.readouterr().out.splitlines()
    asked = [s for s in several.scores if s.system == "cr5 as asked"]
    rows = expected_rows(json.loads(json.dumps(replace(several, scores=asked).to_json())))
    assert direction_lines(lines) == expected_direction_lines(rows)
    assert {"cr5 as asked, joint", "cr5 as asked, pairwise"} <= set(lines)
    assert "--details prints the figures of every system, -o FOLDER writes them" in lines
    for system in ("floor", "cr5 also", "CL-LSI [x]"):
        assert len([line for line in lines if line.startswith(f"{system} ")]) == 2


def test_the_best_mean_has_a_mark_that_survives_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(["da", "en"], ["joint"], {"weak": 0.05, "cr5": 0.3, "upper-bound": 0.9}, queries=100)
    scores.run_tables(run)
    lines = capsys.readouterr().out.splitlines()
    best = [line for line in lines if "●" in line and "(● the best)" not in line]
    assert [line.split()[:2] for line in best] == [["cr5", "●"]] * 2


@pytest.mark.slow
def test_a_narrow_terminal_stacks_the_measures_and_truncates_nothing(
    values: dict[str, Any], run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console.out, "_width", 60)
    scores.run_tables(run, details=True)
    lines = capsys.readouterr().out.splitlines()
    assert max(len(line) for line in lines) <= 60
    assert "…" not in "".join(lines)
    rows, expected = expected_rows(values), []
    for start in range(0, len(rows), 3):  # pairs of one system and regime
        for measure in (0, 1):
            expected += expected_direction_lines(rows[start : start + 3], [measure])
    assert direction_lines(lines) == expected
    for width in (30, 45, 60, 80):
        monkeypatch.setattr(console.out, "_width", width)
        names = {"cr5": 0.3, "upper-bound (within the language)": 0.6}
        wide = make_run(["da", "en"], ["joint", "pairwise", "low-resource", "transitive"], names)
        scores.run_tables(wide)
        text = capsys.readouterr().out
        assert "…" not in text
        for mean in wide.means():
            assert f"{mean.precision[1]:.1f}" in text


def test_a_title_is_not_wrapped_to_the_width_of_its_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console.out, "_width", 80)
    scores.run_tables(make_run(["da", "en"], ["joint"], {"cr5": 0.3}, ["csls"]))
    assert "Mean P@1 and its 95 % interval, CSLS, % (● the best)" in capsys.readouterr().out.splitlines()


def test_the_terminal_shows_the_best_and_the_worst_of_many_pairs(big: Run, capsys: pytest.CaptureFixture[str]) -> None:
    one = replace(big, scores=[s for s in big.scores if (s.system, s.regime) == ("cr5", "joint")])
    scores.run_tables(one)
    text = capsys.readouterr().out
    shown = re.findall(r"^(\w\w) > (\w\w) ", text, re.MULTILINE)
    csls = [(s.precision(1), {s.source, s.target}) for s in one.scores if s.measure == "csls"]
    both = {pair: np.mean([value for value, langs in csls if langs == set(pair)]) for pair in Report(one).pairs()}
    ordered = sorted(both.values())
    values = [both[pair] for pair in shown[::2]]
    assert values == [*ordered[:-6:-1], *ordered[4::-1]]
    assert "the best 5 and the worst 5 of 435 pairs" in text


@pytest.mark.parametrize("width", [80, 60])
def test_a_reproduction_shows_our_row_only_for_evaluated_pairs(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console.out, "_width", width)
    some = make_run(["en", "it"], ["joint"], {"cr5": 0.3}, queries=200)
    table1.reproduction_table(replace(some, notes=[]))
    lines = capsys.readouterr().out.splitlines()
    assert max(len(line) for line in lines) <= width
    assert not [line for line in lines if MISSING in line or "…" in line]
    ours = [line.split() for line in lines if " ours " in line]
    at = {
        (measure, side): [f"{s.precision(k):.1f}" for k in (1, 5, 10)]
        for measure in ("cosine", "csls")
        for side, way in enumerate((("en", "it"), ("it", "en")))
        for s in some.select("cr5", "joint", measure)
        if (s.source, s.target) == way
    }
    blocks = [["cosine", "csls"]] if width == 80 else [["cosine"], ["csls"]]
    assert ours == [["en-it", "ours", *(v for m in block for i in (0, 1) for v in at[m, i]), "1k"] for block in blocks]
    assert len([line for line in lines if " paper " in line]) == len(blocks) * (6 + 6 + 3 + 1 + 1)


def test_a_reproduction_names_what_could_not_run(capsys: pytest.CaptureFixture[str]) -> None:
    failed = [FailedSystem("cr5", "pairwise", ["en", "it"], "out of memory", "there is not enough memory")]
    table1.reproduction_table(replace(make_run(["en", "it"], ["joint"], {"cr5": 0.3}), failed=failed))
    lines = capsys.readouterr().out.splitlines()
    assert "could not run: cr5, pairwise en-it: there is not enough memory" in lines


def test_a_comparison_marks_significant_rows_with_a_star(capsys: pytest.CaptureFixture[str]) -> None:
    none = Difference(0.0, Interval(0.0, 0.0), 1.0)
    apart = Difference(12.46, Interval(9.5, 15.25), 1e-4), Difference(-0.5, Interval(-3.0, 2.0), 0.31)
    clear = Comparison("a [x]", "b", "joint", "csls", "", "", 40.04, 52.5, apart[0], none, 12, 0.0002)
    vague = Comparison("a [x]", "b", "joint", "csls", "da", "en", 40.04, 39.5, apart[1], none, 1, 0.6251)
    scores.comparison_table([clear, vague])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["mean", "of", "12", "40.0", "52.5", "+12.5", "+9.5", "to", "+15.2", "<0.001", "*"] in lines
    assert ["da", ">", "en", "40.0", "39.5", "-0.5", "-3.0", "to", "+2.0", "0.625"] in lines
    assert ["P@1,", "%:", "a", "[x]", "(A)", "and", "b", "(B)"] in lines
