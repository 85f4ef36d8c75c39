"""Reports: the same figures as CSV, Markdown, HTML and in the terminal."""

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from html import unescape
from html.parser import HTMLParser
from itertools import permutations
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from cr5.cli.render import console, scores
from cr5.evaluate.report.contents import Report
from cr5.evaluate.report.files import render_csv, write_reports
from cr5.evaluate.report.formatting import MISSING, FactTable, format_facts
from cr5.evaluate.report.headline import Headline
from cr5.evaluate.report.html import render_html
from cr5.evaluate.report.markdown import render_markdown
from cr5.evaluate.runs import (
    Comparison,
    ExampleQuery,
    Queries,
    RankedCandidate,
    Regime,
    Run,
    Score,
    Task,
    TrainedSystem,
    load_run,
)
from cr5.evaluate.statistics import Difference, Interval
from cr5.retrieval.top_k import Measure

NASTY = "<script>alert(1)</script> | `a` *b* [bold]&amp;\"'"
ARABIC = "الحاسوب الفائق (IBM)"
CHINESE = "超级计算机"
SYSTEMS = {"cr5": 0.3, "CL-LSI [x]": 0.15, "floor <b>|": 0.05}
PATH = [
    {"ridge": r, "precision": p, "reciprocal_rank": p + 0.1, "energy": 20.0, "steps": 3, "seconds": 0.5}
    for r, p in ((10.0, 0.25), (1.0, 0.5), (0.1, 0.375))
]
REPORT = {
    "concepts": 120,
    "languages": {"da": {"documents": 100, "words": 1000}, "en": {"documents": 110, "words": 2345}},
    "ridge": 1.0,
    "ridge_path": PATH,
    "energy": 20.5,
    "residual": 0.0005,
    "steps": 17,
    "converged": True,
    "warning": "",
}


def make_run(
    langs: Sequence[str] = ("da", "en", "ar"),
    regimes: Sequence[Regime] = ("joint", "pairwise"),
    systems: dict[str, float] = SYSTEMS,
    measures: Sequence[Measure] = ("cosine", "csls"),
    directions: Sequence[tuple[str, str]] | None = None,
    task: Task = "documents",
    queries: int = 30,
    coverage: bool = True,
) -> Run:
    """Made-up ranks: a system's number is the chance of a query to be answered first, and then of each next place."""
    random = np.random.default_rng(0)
    ways = list(directions or permutations(langs, 2))
    asked = [
        Queries(
            *way,
            [f"Q{i}" for i in random.choice(2 * queries, queries, replace=False)],
            random.integers(5, 200, queries).tolist(),
            random.uniform(0.5, 1, queries).tolist() if coverage else [],
        )
        for way in ways
    ]
    scores = []
    for regime in regimes:
        for system, chance in systems.items():
            for of in asked:
                for measure in measures:
                    ranks = np.minimum(random.geometric(chance, queries), 100)
                    ranks[random.random(queries) < 0.05] = 0
                    at_1 = 100 * float((ranks == 1).mean())
                    ends = Interval(0.75 * at_1, 1.25 * at_1)
                    sign = f"{system}|{regime}|{of.source}-{of.target}"
                    named = (system, regime, of.source, of.target, measure)
                    scores.append(Score(*named, ranks.tolist(), 100, 1234, sign, ends))
    both = [RankedCandidate(CHINESE, 0.5, False), RankedCandidate(ARABIC, 0.25, True)]
    return Run(
        task=task,
        title=f"A run {NASTY}",
        version="0.1.0",
        facts={"corpus": {"digest": "5fe1", "languages": {"da": {"documents": 12345}}}, "seed": 0, "path": NASTY},
        queries=asked,
        scores=scores,
        trained=[
            TrainedSystem("cr5", "joint", ["da", "en"], 1.25, REPORT),
            TrainedSystem(NASTY, "joint", ["da"], 0.5, {"words": 12345, "tool": NASTY, "values": [0.5] * 300}),
        ],
        examples=[
            ExampleQuery("cr5", "joint", "en", "ar", "csls", NASTY, 2, both),
            ExampleQuery("cr5", "joint", "ar", "en", "csls", ARABIC, 1, [RankedCandidate(NASTY, 0.75, True)]),
            ExampleQuery("cr5", "joint", "da", "en", "csls", CHINESE, 0, [RankedCandidate("Tianhe-I", 0.75, False)]),
        ],
        notes=[f"CL-LSI: {NASTY}"],
    )


def html(run: Run) -> str:
    return render_html(Report(run))


def markdown(run: Run) -> str:
    return render_markdown(Report(run))


def headline(run: Run) -> Headline:
    found = Report(run).headline
    assert found is not None
    return found


@pytest.fixture(scope="module")
def run() -> Run:
    """Two regimes, three systems, three languages; in one direction one system has no score."""
    full = make_run()
    lost = ("CL-LSI [x]", "pairwise", "da", "en")
    return replace(full, scores=[s for s in full.scores if (s.system, s.regime, s.source, s.target) != lost])


@pytest.fixture(scope="module")
def values(run: Run) -> dict[str, Any]:
    """The run as JSON."""
    found: dict[str, Any] = json.loads(json.dumps(run.to_json()))
    return found


@pytest.fixture(scope="module")
def text(run: Run) -> str:
    """The run as a page."""
    return html(run)


@pytest.fixture(scope="module")
def page(text: str) -> "Node":
    """The page, taken apart."""
    return parse(text)


@pytest.fixture(scope="module")
def big() -> Run:
    langs = [f"{a}{b}" for a in "abcde" for b in "uvwxyz"]
    return make_run(langs, ["joint"], {"cr5": 0.3, "CL-LSI": 0.15}, queries=6)


# Reading the page


@dataclass
class Node:
    """An element of a page."""

    name: str
    attributes: dict[str, str | None] = field(default_factory=dict)
    children: list["Node | str"] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    def all(self, name: str, class_: str | None = None) -> Iterator["Node"]:
        for child in self.children:
            if isinstance(child, Node):
                if child.name == name and (class_ is None or class_ in (child.attributes.get("class") or "").split()):
                    yield child
                yield from child.all(name, class_)


class Tree(HTMLParser):
    """A parser that complains about whatever is not closed, or closed by another."""

    VOID = ("meta", "br", "hr", "link", "img", "input")

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open = [Node("")]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), f"{tag} has an attribute twice"
        node = Node(tag, dict(attrs))
        self.open[-1].children.append(node)
        if tag not in self.VOID:
            self.open.append(node)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].name == tag, f"</{tag}> closes <{self.open[-1].name}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def parse(text: str) -> Node:
    tree = Tree()
    tree.feed(text)
    tree.close()
    assert len(tree.open) == 1, f"<{tree.open[-1].name}> is never closed"
    return tree.open[0]


def everything(node: Node) -> Iterator[Node]:
    for child in node.children:
        if isinstance(child, Node):
            yield child
            yield from everything(child)


def expected_rows(values: dict[str, Any]) -> list[list[str]]:
    """The paper's rows, straight from the JSON."""
    scores = {(s["regime"], s["system"], s["measure"], s["source"], s["target"]): s for s in values["scores"]}
    rows = []
    for regime in dict.fromkeys(key[0] for key in scores):
        for system in dict.fromkeys(key[1] for key in scores):
            for a, b in (("da", "en"), ("da", "ar"), ("en", "ar")):
                row = [a, b]
                for measure in ("cosine", "csls"):
                    for way in ((a, b), (b, a)):
                        score = scores.get((regime, system, measure, *way))
                        row += [f"{score['precision'][k]:.1f}" if score else MISSING for k in ("1", "5", "10")]
                rows.append([*row, "1,234"])
    return rows


# The same figures everywhere


def test_the_csv_holds_the_figures_of_the_json(run: Run, values: dict[str, Any]) -> None:
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


def cells_of(line: str) -> list[str]:
    """A line of a Markdown table, its escapes undone."""
    cells = re.split(r"(?<!\\)\|", line)[1:-1]
    return [unescape(re.sub(r"\\(.)", r"\1", cell.strip())) for cell in cells]


def test_the_markdown_tables_hold_the_figures_of_the_json(run: Run, values: dict[str, Any]) -> None:
    lines = [cells_of(line) for line in markdown(run).splitlines() if line.startswith("| ")]
    assert [line for line in lines if len(line) == 15 and line[0] != "l1"] == expected_rows(values)
    cells = [line for line in lines if len(line) == 3 and line[0] in SYSTEMS]
    assert len(cells) == 2 * len(SYSTEMS)
    for (name, *of), (system, measure) in zip(
        cells, [(s, m) for m in ("csls", "cosine") for s in SYSTEMS], strict=True
    ):
        assert name == system
        for cell, regime in zip(of, ("joint", "pairwise"), strict=True):
            assert cell.replace("*", "") == mean_text(values, system, regime, measure)


def mean_text(values: dict[str, Any], system: str, regime: str, measure: str) -> str:
    (mean,) = [m for m in values["means"] if (m["system"], m["regime"], m["measure"]) == (system, regime, measure)]
    low, high = mean["interval"]
    return f"{mean['precision']['1']:.1f} ({low:.1f}–{high:.1f})"


def test_the_details_of_the_page_hold_the_figures_of_the_json(page: Node, values: dict[str, Any]) -> None:
    rows = []
    for grid in page.all("table", "details"):
        for line in grid.all("tr"):
            cells = [cell.text for cell in (*line.all("th"), *line.all("td"))]
            if len(cells) == 15 and "td" in [child.name for child in line.children if isinstance(child, Node)]:
                rows.append(cells)
    assert rows == expected_rows(values)


def test_the_summary_of_the_page_holds_the_means_of_the_json(page: Node, values: dict[str, Any]) -> None:
    (grid,) = page.all("table", "summary")
    (body,) = grid.all("tbody")
    found = {}
    for line in body.all("tr"):
        (name,) = line.all("th")
        for cell in line.all("div"):
            if "data-p1" in cell.attributes:
                key = (name.text, str(cell.attributes["data-regime"]), str(cell.attributes["data-measure"]))
                (ends,) = cell.all("span", "span")
                (shown,) = [*cell.all("b", "value"), *cell.all("span", "value")]
                found[key] = (float(cell.attributes["data-p1"] or 0), f"{shown.text} ({ends.text.strip(' ●*')})")
    assert len(found) == len(values["means"])
    for mean in values["means"]:
        key = (mean["system"], mean["regime"], mean["measure"])
        assert found[key] == (mean["precision"]["1"], mean_text(values, *key))


def test_the_curves_pass_through_the_mean_of_both_directions(page: Node, run: Run) -> None:
    titles = {title.text for title in page.all("title")}
    for k in (1, 5, 10):
        both = [s.precision(k) for s in run.select("cr5", "joint", "csls") if {s.source, s.target} == {"da", "en"}]
        assert f"cr5, da ↔ en: P@{k} {np.mean(both):.1f} %" in titles


def test_a_curve_of_one_direction_says_so() -> None:
    (only,) = parse(html(make_run(directions=[("en", "da")], regimes=["joint"]))).all("figcaption")
    assert only.text == "en → da"


def ways_of(lines: Sequence[str]) -> list[list[str]]:
    """The lines of single directions, as they are printed."""
    return [line.split() for line in lines if re.match(r"\w\w > \w\w ", line)]


def expected_ways(rows: Sequence[list[str]], measures: Sequence[int] = (0, 1)) -> list[list[str]]:
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
    assert ways_of(lines) == expected_ways(expected_rows(values))
    assert "--details" not in " ".join(lines)
    text = " ".join(" ".join(lines).split())
    for regime, measure in (("joint", "csls"), ("pairwise", "cosine")):
        assert mean_text(values, "cr5", regime, measure).replace("(", "").replace(")", "") in text
    assert "CL-LSI [x], joint" in text


def test_the_terminal_leaves_other_systems_to_the_summary_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    several = make_run(systems={"floor": 0.05, "cr5 as asked": 0.3, "cr5 also": 0.5, "CL-LSI [x]": 0.15})
    scores.run_tables(several)
    lines = capsys.readouterr().out.splitlines()
    asked = [s for s in several.scores if s.system == "cr5 as asked"]
    rows = expected_rows(json.loads(json.dumps(replace(several, scores=asked).to_json())))
    assert ways_of(lines) == expected_ways(rows)
    assert {"cr5 as asked, joint", "cr5 as asked, pairwise"} <= set(lines)
    assert "-o FOLDER writes the figures of every system, --details prints them" in lines
    for system in ("floor", "cr5 also", "CL-LSI [x]"):
        assert len([line for line in lines if line.startswith(f"{system} ")]) == 2


def test_the_best_of_the_summary_has_a_sign_that_a_pipe_keeps(capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(["da", "en"], ["joint"], {"weak": 0.05, "cr5": 0.3, "ceiling": 0.9}, queries=100)
    scores.run_tables(run)
    lines = capsys.readouterr().out.splitlines()
    best = [line for line in lines if "●" in line and "(● the best)" not in line]
    assert [line.split()[:2] for line in best] == [["cr5", "●"]] * 2


def test_a_narrow_terminal_stacks_the_measures_and_cuts_nothing(
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
            expected += expected_ways(rows[start : start + 3], [measure])
    assert ways_of(lines) == expected
    for width in (30, 45, 60, 80):
        monkeypatch.setattr(console.out, "_width", width)
        names = {"cr5": 0.3, "ceiling (within the language)": 0.6}
        wide = make_run(["da", "en"], ["joint", "pairwise", "low-resource", "transitive"], names)
        scores.run_tables(wide)
        text = capsys.readouterr().out
        assert "…" not in text
        for mean in wide.means():
            assert f"{mean.precision[1]:.1f}" in text


def test_a_long_title_stands_on_a_line_of_its_own(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console.out, "_width", 80)
    scores.run_tables(make_run(["da", "en"], ["joint"], {"cr5": 0.3}, ["csls"]))
    assert "Mean P@1 and its 95 % interval, CSLS, % (● the best)" in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("width", [80, 60])
def test_a_reproduction_shows_our_row_only_for_pairs_that_were_asked(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console.out, "_width", width)
    some = make_run(["en", "it"], ["joint"], {"cr5": 0.3}, queries=200)
    scores.reproduction_table(replace(some, notes=[]))
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


# What is shown, and how


def test_a_score_that_does_not_exist_is_a_dash(run: Run) -> None:
    (table,) = [t for t in Report(run).details if (t.regime, t.system) == ("pairwise", "CL-LSI [x]")]
    (row,) = [row for row in table.rows if (row.first, row.second) == ("da", "en")]
    assert row.csls[0] is None
    assert row.csls[1] is not None
    gone = replace(run, scores=[s for s in run.scores if (s.system, s.regime) != ("cr5", "pairwise")])
    assert "| cr5 | " in markdown(gone)
    (line,) = [cells_of(x) for x in markdown(gone).splitlines() if x.startswith("| cr5 |")][:1]
    assert line[2] == MISSING


def test_the_best_is_neither_a_ceiling_nor_one_that_answers_in_fewer_directions() -> None:
    run = make_run(regimes=["joint"], systems={"cr5": 0.3, "easy": 0.99, "ceiling (within)": 0.95, "floor": 0.05})
    kept = [s for s in run.scores if s.system != "easy" or (s.source, s.target) == ("da", "en")]
    cells = {row.system: row.cells["joint", "csls"] for row in Report(replace(run, scores=kept)).summary}
    assert [name for name, cell in cells.items() if cell.best] == ["cr5"]
    assert [name for name, cell in cells.items() if cell.partial] == ["easy"]
    assert "fewer directions" in markdown(replace(run, scores=kept))


def test_the_headline_sets_cr5_against_the_best_baseline() -> None:
    found = headline(make_run(queries=200, systems={"cr5": 0.5, "weak": 0.05, "strong": 0.2, "ceiling": 0.9}))
    assert found.competitor is not None
    assert found.competitor.system == "strong"
    assert found.text == (
        f"cr5 puts the right document first for {found.system.precision[1]:.1f} % of the queries "
        f"({found.system.interval.low:.1f}–{found.system.interval.high:.1f}); the best baseline, strong, "
        f"for {found.competitor.precision[1]:.1f} % "
        f"({found.competitor.interval.low:.1f}–{found.competitor.interval.high:.1f})."
    )
    assert found.difference is not None
    assert found.difference.value == pytest.approx(found.system.precision[1] - found.competitor.precision[1])
    assert "The difference is +" in found.context


def test_the_headline_does_not_hide_a_defeat_or_a_tie() -> None:
    lost = headline(make_run(queries=200, systems={"cr5": 0.1, "strong": 0.5}))
    assert lost.system.system == "cr5"
    assert "The difference is -" in lost.context
    even = headline(make_run(directions=[("da", "en")], queries=30, systems={"cr5": 0.3, "alike": 0.3}))
    assert even.difference is not None
    assert even.difference.interval.low < 0 < even.difference.interval.high
    assert "is not significant" in even.context


def test_the_headline_is_about_the_first_cr5_and_not_its_luckiest() -> None:
    found = headline(make_run(queries=200, systems={"weak": 0.1, "cr5": 0.3, "cr5 as in the paper": 0.6, "some": 0.2}))
    assert found.system.system == "cr5"
    assert found.competitor is not None
    assert found.competitor.system == "some"


def test_the_best_baseline_is_that_in_the_directions_of_cr5() -> None:
    run = make_run(["da", "en", "ar"], ["joint"], {"cr5": 0.3, "wide": 0.1, "apt": 0.2}, queries=200)
    kept = [s for s in run.scores if s.system == "wide" or s.source == "da"]
    found = headline(replace(run, scores=kept))
    assert found.competitor is not None
    assert found.competitor.system == "apt"
    alone = headline(replace(run, scores=[s for s in kept if s.system != "apt"]))
    assert "wide answers in 6 directions; the difference is over the 2 of cr5." in alone.context


@pytest.mark.parametrize(
    ("p_value", "said"),
    [
        (0.049, "The difference is +2.0 points (-0.1 to +4.0, paired by query, p = 0.049)."),
        (
            0.05,
            "The difference, +2.0 points (-0.1 to +4.0, paired by query, p = 0.050), is not significant.",
        ),
        (0.0001, "The difference is +2.0 points (-0.1 to +4.0, paired by query, p < 0.001)."),
    ],
)
def test_the_verdict_goes_by_the_p_value(p_value: float, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    apart = Difference(2.0, Interval(-0.1, 4.0), p_value)
    monkeypatch.setattr("cr5.evaluate.report.headline.paired_difference", lambda *_: apart)
    found = headline(make_run())
    assert said in found.context


@pytest.fixture(scope="module")
def words() -> Run:
    """Two systems that know few of the words; nothing is known of their training."""
    run = make_run(["en", "it"], ["as given"], {"cr5": 0.4, "vectors": 0.2}, task="words", queries=100, coverage=False)
    lost = {"cr5": 60, "vectors": 70}
    scores = [replace(s, shared=None, ranks=[0] * lost[s.system] + s.ranks[lost[s.system] :]) for s in run.scores]
    known = {"known": 40, "unknown": 50, "unanswered": 10}
    facts = {"known": {"cr5": {"en>it": known, "it>en": known}}, "seed": 0}
    trained = [replace(t, regime="as given") for t in run.trained]
    examples = [replace(e, regime="as given") for e in run.examples]
    return replace(run, title="words", facts=facts, scores=scores, trained=trained, examples=examples)


def test_the_headline_of_words_tells_how_many_are_known(words: Run, capsys: pytest.CaptureFixture[str]) -> None:
    told = []
    for system in ("cr5", "vectors"):
        ranks = [s.rank_array[s.rank_array > 0] for s in words.select(system, "as given", "csls")]
        told.append((sum(map(len, ranks)), f"{np.mean([100 * (part == 1).mean() for part in ranks]):.1f}"))
    (known, share), (less, other) = told
    assert known <= 80
    said = (
        f"The words of {known} of 200 queries are known to cr5 (P@1 among these: {share} %), those of {less} to "
        f"vectors ({other} %). All other queries count as misses."
    )
    scores.run_tables(words)
    printed = capsys.readouterr().out
    for text in (parse(html(words)).text.replace("\xa0", " "), markdown(words), " ".join(printed.split())):
        assert said in text


def test_a_system_without_a_known_word_has_no_share_of_them(words: Run) -> None:
    found = headline(replace(words, scores=[replace(s, ranks=[0] * 100) for s in words.scores]))
    assert "The words of 0 of 200 queries are known to cr5 (P@1 among these: – %)" in found.context


def test_models_that_were_trained_elsewhere_have_no_regime(words: Run, capsys: pytest.CaptureFixture[str]) -> None:
    scores.run_tables(words, details=True)
    bare = replace(words, scores=[replace(s, signature="") for s in words.scores])
    for text in (parse(html(bare)).text, markdown(bare), capsys.readouterr().out):
        assert "as given" not in text
        assert "a model trained elsewhere" in " ".join(text.split())
    both = make_run(["da", "en"], ["joint", "as given"])
    assert [h.text for h in parse(html(both)).all("h3")].count("trained elsewhere") == 2
    assert "| system | joint | trained elsewhere |" in markdown(both)


def test_shared_concepts_that_are_unknown_have_no_column(
    words: Run, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    (grid,) = parse(html(words)).all("table", "details")
    assert "shared" not in grid.text
    sizes = {
        sum(int(cell.attributes.get("colspan") or 1) for cell in (*line.all("th"), *line.all("td")))
        for body in grid.all("tbody")
        for line in body.all("tr")
    }
    assert sizes == {14}
    assert "Shared concepts" not in parse(html(words)).text
    scores.run_tables(words, details=True)
    assert "shared" not in markdown(words) + capsys.readouterr().out
    assert {line["shared"] for line in csv.DictReader(io.StringIO(render_csv(words)))} == {""}
    some = replace(run, scores=[replace(s, shared=None) if s.source == "ar" else s for s in run.scores])
    some = replace(some, scores=[replace(s, shared=None) if s.target == "ar" else s for s in some.scores])
    scores.run_tables(some)
    ways = [line.split() for line in capsys.readouterr().out.splitlines() if re.match(r"\w\w > \w\w ", line)]
    assert {(way[0] == "ar" or way[2] == "ar", way[-1]) for way in ways} == {(True, MISSING), (False, "1,234")}


def test_the_guide_explains_scores_baseline_and_upper_bound(page: Node) -> None:
    (guide,) = page.all("dl", "guide")
    assert "“cosine” stands for the system's own score" in guide.text
    assert "an upper bound: TF-IDF within the query language" in guide.text
    assert "the shared-token baseline" in guide.text
    assert "hubness" in guide.text


def test_failures_are_counted_by_quarters_of_length_and_coverage() -> None:
    run = make_run(queries=80)
    found = Report(run).failures
    assert found is not None
    scores = run.select("cr5", "joint", "csls")
    first = np.concatenate([s.rank_array == 1 for s in scores])
    lengths = np.concatenate([run.direction(s.source, s.target).lengths for s in scores])
    assert (found.queries, found.failed) == (len(first), int((~first).sum()))
    length, coverage = found.properties
    assert (
        sum(quartile.queries for quartile in length.quartiles)
        == sum(quartile.queries for quartile in coverage.quartiles)
        == len(first)
    )
    for quartile in length.quartiles:
        inside = (lengths >= quartile.low) & (lengths <= quartile.high)
        assert inside.sum() == quartile.queries
        assert quartile.precision == pytest.approx(100 * first[inside].mean())
    assert length.median_answered == np.median(lengths[first])
    assert length.median_failed == np.median(lengths[~first])


def test_failures_do_without_coverage_and_without_cr5() -> None:
    found = Report(make_run(coverage=False)).failures
    assert found is not None
    assert [each.name for each in found.properties] == ["different words"]
    assert "Coverage" not in [h.text.split()[0] for h in parse(html(make_run(coverage=False))).all("h3")]
    other = make_run(systems={"CL-LSI": 0.1})
    assert Report(other).failures is None
    assert "failed queries" not in html(other)


def test_the_page_marks_the_ridge_that_was_chosen(page: Node) -> None:
    (row,) = page.all("tr", "chosen")
    assert [cell.text for cell in row.all("td")][:3] == ["1", "50.0", "60.0"]
    assert "P@1 25.0 %" in next(t.text for t in page.all("title") if t.text.startswith("ridge 10:"))


def test_facts_with_rows_become_tables(run: Run) -> None:
    single, tables = format_facts(run.facts)
    assert single == {"corpus, digest": "5fe1", "seed": "0", "path": NASTY}
    assert tables == [FactTable("corpus, languages", ["documents"], {"da": ["12,345"]})]


def test_plain_facts_are_shown_as_they_come(run: Run, words: Run) -> None:
    plain = {"low-resource": 1000, "dropped": {"da": 3, "en": 4}, "tokeniser": "words [x]", "bridge": None, "cut": 0.5}
    single, tables = format_facts(plain)
    assert tables == []
    assert single == {
        "low-resource": "1000", "dropped": "da: 3, en: 4", "tokeniser": "words [x]", "bridge": MISSING, "cut": "0.5",
    }  # fmt: skip
    page = parse(html(replace(run, facts=plain)))
    assert {name.text: value.text for dl in page.all("dl", "facts") for div in dl.all("div")
            for name, value in [(next(div.all("dt")), next(div.all("dd")))]} == single  # fmt: skip
    row = ["40", "50", "10"]
    (table,) = format_facts(words.facts)[1]
    assert table == FactTable("known", ["known", "unknown", "unanswered"], {"cr5, en>it": row, "cr5, it>en": row})


def test_examples_show_hit_and_miss_by_a_sign_and_words(page: Node) -> None:
    badges = [badge.text for badge in page.all("span", "badge")]
    assert badges == ["◐ found at rank 2", "✓ found first", "✗ missed, no answer"]
    assert [item.text for item in page.all("li", "right")] == [f"{ARABIC} ✓0.25", f"{NASTY} ✓0.75"]


# Safe and self-contained


def test_titles_of_any_script_stand_in_their_own_direction(page: Node) -> None:
    for title in (NASTY, ARABIC, CHINESE):
        found = [node for node in everything(page) if node.name == "bdi" and node.text == title]
        assert found
        assert all(node.attributes["dir"] == "auto" for node in found)


def test_the_page_escapes_whatever_it_is_given(run: Run, text: str, page: Node) -> None:
    assert "<script>alert" not in text
    assert len(list(page.all("script"))) == len(list(page.all("style"))) == 1
    assert not [node for node in everything(page) if any(name.startswith("on") for name in node.attributes)]
    assert "alert" not in next(page.all("script")).text
    (title, *_) = page.all("title")
    assert title.text == f"A run {NASTY}"
    assert "<script>" not in markdown(run)


def test_the_page_asks_for_nothing_else(text: str, page: Node) -> None:
    for node in everything(page):
        assert node.name not in ("link", "img", "iframe", "object", "embed", "base", "use", "image")
        for name, value in node.attributes.items():
            assert name not in ("src", "srcset", "xlink:href", "action", "background")
            assert name != "href" or (value or "").startswith("#")
    assert not re.search(r"url\(|@import|https?://|fetch\(|XMLHttpRequest", text)


def test_every_link_and_label_leads_somewhere(page: Node) -> None:
    ids = [node.attributes["id"] for node in everything(page) if "id" in node.attributes]
    assert len(ids) == len(set(ids))
    for node in everything(page):
        if "href" in node.attributes:
            assert (node.attributes["href"] or "")[1:] in ids
        if "aria-labelledby" in node.attributes:
            assert node.attributes["aria-labelledby"] in ids


# Runs of every kind


@pytest.mark.parametrize("task", get_args(Task))
def test_one_system_in_one_direction_by_one_measure_is_enough(
    task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(["en", "it"], ["as given"], {"given": 0.3}, ["cosine"], [("en", "it")], task, coverage=False)
    run = replace(run, examples=[], trained=[], notes=[], facts={})
    write_reports(run, tmp_path)
    scores.run_tables(run)
    assert "en > it" in capsys.readouterr().out
    page = parse((tmp_path / "report.html").read_text())
    assert "Examples" not in [heading.text for heading in page.all("h2")]
    value = run.scores[0].precision(1)
    assert f"first for {value:.1f}\N{NO-BREAK SPACE}% of the queries" in page.text


def test_a_run_without_scores_is_reported_too(capsys: pytest.CaptureFixture[str]) -> None:
    run = replace(make_run(), scores=[], queries=[], examples=[])
    assert "This run has no scores" in parse(html(run)).text
    assert render_csv(run).count("\n") == 1
    assert "## Notes" in markdown(run)
    scores.run_tables(run)
    assert "note: CL-LSI" in capsys.readouterr().out


def test_thirty_languages_make_a_small_page_with_a_matrix(big: Run) -> None:
    text = html(big)
    assert len(text.encode()) < 3_000_000
    page = parse(text)
    matrix = next(page.all("table", "matrix"))
    (head, *lines) = matrix.all("tr")
    names = [cell.text for cell in head.all("th")][1:]
    scores = {(s.source, s.target): s for s in big.select("cr5", "joint", "csls")}
    assert len(lines) == len(names) == 30
    for line in lines:
        source = next(line.all("th")).text
        for target, cell in zip(names, line.all("td"), strict=True):
            assert cell.text == (f"{scores[source, target].precision(1):.0f}" if source != target else "")
    assert len(list(page.all("figcaption"))) == 1
    inside = [grid for fold in page.all("details") for grid in fold.all("table", "details")]
    assert len(inside) == len(list(page.all("table", "details"))) == 1


def test_the_terminal_shows_the_ends_of_many_pairs(big: Run, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_reports_lie_in_one_folder_and_the_run_reads_back(run: Run, text: str, tmp_path: Path) -> None:
    write_reports(run, tmp_path / "results")
    assert sorted(path.name for path in (tmp_path / "results").iterdir()) == [
        "report.html",
        "report.md",
        "run.json",
        "scores.csv",
    ]
    again = load_run(tmp_path / "results")
    assert again == run
    assert (tmp_path / "results" / "report.html").read_text() == text


def test_a_comparison_marks_what_is_significant_by_a_star(capsys: pytest.CaptureFixture[str]) -> None:
    none = Difference(0.0, Interval(0.0, 0.0), 1.0)
    apart = Difference(12.46, Interval(9.5, 15.25), 1e-4), Difference(-0.5, Interval(-3.0, 2.0), 0.31)
    clear = Comparison("a [x]", "b", "joint", "csls", "", "", 40.04, 52.5, apart[0], none, 12, 0.0002)
    vague = Comparison("a [x]", "b", "joint", "csls", "da", "en", 40.04, 39.5, apart[1], none, 1, 0.6251)
    scores.comparison_table([clear, vague])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["mean", "of", "12", "40.0", "52.5", "+12.5", "+9.5", "to", "+15.2", "<0.001", "*"] in lines
    assert ["da", ">", "en", "40.0", "39.5", "-0.5", "-3.0", "to", "+2.0", "0.625"] in lines
    assert ["P@1,", "%:", "a", "[x]", "(A)", "and", "b", "(B)"] in lines
