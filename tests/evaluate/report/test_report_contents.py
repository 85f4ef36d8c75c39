"""The contents of a report: summary, details, failures and facts, the same in every form."""

import csv
import io
import re
from dataclasses import replace

import numpy as np
import pytest
from html_tree import parse
from reports import NASTY, html, make_run, markdown, markdown_cells, partial_run, word_run

from cr5.cli.render import scores
from cr5.evaluate.report.contents import Report
from cr5.evaluate.report.facts import FactTable, describe_facts
from cr5.evaluate.report.files import render_csv
from cr5.evaluate.report.formatting import MISSING
from cr5.evaluate.runs import FailedSystem, Run
from cr5.settings import make_settings


@pytest.fixture(scope="module")
def run() -> Run:
    return partial_run()


@pytest.fixture(scope="module")
def words() -> Run:
    return word_run()


def test_a_missing_score_is_shown_as_a_dash(run: Run) -> None:
    (table,) = [t for t in Report(run).details if (t.regime, t.system) == ("pairwise", "CL-LSI [x]")]
    (row,) = [row for row in table.rows if (row.first, row.second) == ("da", "en")]
    assert row.by_measure["csls"][0] is None
    assert row.by_measure["csls"][1] is not None
    gone = replace(run, scores=[s for s in run.scores if (s.system, s.regime) != ("cr5", "pairwise")])
    assert "| cr5 | " in markdown(gone)
    (line,) = [markdown_cells(x) for x in markdown(gone).splitlines() if x.startswith("| cr5 |")][:1]
    assert line[2] == MISSING


def test_a_regime_in_which_every_system_failed_stands_in_the_summary_with_the_reason() -> None:
    run = make_run(regimes=["joint"], systems={"cr5": 0.3, "floor": 0.05})
    failed = [FailedSystem(name, "pairwise", ["da", "en"], "out of memory", "too little") for name in ("cr5", "floor")]
    report = Report(replace(run, failed=failed))
    assert report.summary_regimes == ["joint", "pairwise"]
    assert [row.failures.keys() for row in report.summary] == [{"pairwise"}, {"pairwise"}]
    assert "too little" in markdown(replace(run, failed=failed))


def test_the_best_system_is_neither_an_upper_bound_nor_one_with_fewer_directions() -> None:
    run = make_run(regimes=["joint"], systems={"cr5": 0.3, "easy": 0.99, "upper-bound (within)": 0.95, "floor": 0.05})
    kept = [s for s in run.scores if s.system != "easy" or (s.source, s.target) == ("da", "en")]
    cells = {row.system: row.cells["joint", "csls"] for row in Report(replace(run, scores=kept)).summary}
    assert [name for name, cell in cells.items() if cell.best] == ["cr5"]
    assert [name for name, cell in cells.items() if cell.partial] == ["easy"]
    assert "fewer directions" in markdown(replace(run, scores=kept))


def test_every_system_has_its_ratio_to_the_upper_bound_if_one_was_measured(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = make_run(regimes=["joint"], systems={"cr5": 0.3, "easy": 0.9, "upper-bound (within)": 0.6, "floor": 0.05})
    kept = replace(run, scores=[s for s in run.scores if s.system != "easy" or (s.source, s.target) == ("da", "en")])
    means = {(m.system, m.measure): m.precision[1] for m in kept.means()}
    rows = {row.system: row for row in Report(kept).summary}
    for measure in ("csls", "cosine"):
        for name in ("cr5", "floor", "upper-bound (within)"):
            expected = means[name, measure] / means["upper-bound (within)", measure]
            assert rows[name].cells["joint", measure].ratio == pytest.approx(expected)
    assert rows["easy"].cells["joint", "csls"].ratio is None  # it has fewer directions
    shown = f"{means['cr5', 'csls'] / means['upper-bound (within)', 'csls']:.2f}"
    scores.run_tables(kept)
    printed = capsys.readouterr().out
    assert "Mean P@1, 95 % interval and ratio to the upper bound, CSLS, % (● the best)" in printed
    assert shown in next(line for line in printed.splitlines() if line.startswith("cr5 ") and "●" in line)
    assert shown in next(line for line in markdown(kept).splitlines() if line.startswith("| cr5 |"))
    assert shown in [each.text for each in parse(html(kept)).all("span") if each.attributes.get("class") == "ratio"]
    without = replace(kept, scores=[s for s in kept.scores if not s.system.startswith("upper-bound")])
    assert "upper bound" not in markdown(without)


def test_models_that_were_trained_elsewhere_have_no_regime(words: Run, capsys: pytest.CaptureFixture[str]) -> None:
    scores.run_tables(words, details=True)
    bare = replace(words, scores=[replace(s, signature="") for s in words.scores])
    for text in (parse(html(bare)).text, markdown(bare), capsys.readouterr().out):
        assert "a pretrained model" in " ".join(text.split())
    both = make_run(["da", "en"], ["joint", "pretrained"])
    assert [h.text for h in parse(html(both)).all("h3")].count("pretrained") == 2
    assert "| system | joint | pretrained |" in markdown(both)


def test_unknown_numbers_of_shared_concepts_have_no_column(
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


def test_failures_are_counted_by_quartile_of_length_and_coverage() -> None:
    run = make_run(queries=80)
    found = Report(run).failed_queries
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


def test_the_failure_analysis_omits_unknown_coverage_and_needs_a_cr5_system() -> None:
    found = Report(make_run(coverage=False)).failed_queries
    assert found is not None
    assert [each.name for each in found.properties] == ["different words"]
    assert "Coverage" not in [h.text.split()[0] for h in parse(html(make_run(coverage=False))).all("h3")]
    other = make_run(systems={"CL-LSI": 0.1})
    assert Report(other).failed_queries is None
    assert "failed queries" not in html(other)


def test_facts_with_rows_become_tables(run: Run) -> None:
    single, tables = describe_facts(run.facts)
    assert single == {"corpus, digest": "5fe1", "seed": "0", "path": NASTY}
    assert tables == [FactTable("corpus, languages", ["documents"], {"da": ["12,345"]})]


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        ((50, 1000), "50 to 1,000 different words"),
        ((5, 10**9), "5 different words or more"),
        ((1, 10**9), "of any length"),
    ],
)
def test_the_lengths_of_documents_are_words(limits: tuple[int, int], text: str) -> None:
    facts = {"split": {"seed": 0, "digest": "5fe1", "smallest": limits[0], "largest": limits[1]}}
    assert describe_facts(facts).single["documents used"] == text
    (table,) = describe_facts({"settings": make_settings(max_unique=limits[1]).to_json()}).tables
    assert table.rows["max_unique"] == (["no limit", ""] if limits[1] == 10**9 else ["1,000", "no limit"])


def test_facts_of_another_form_are_shown_as_they_are() -> None:
    facts = {"split": "seed 3", "csls": {"neighbours": 10}, "settings": {"preset": "default"}, "corpus": "made up"}
    assert describe_facts(facts) == (
        {"split": "seed 3", "csls": "neighbours 10", "settings": "preset default", "corpus": "made up"}, [],
    )  # fmt: skip


def test_facts_without_rows_are_shown_as_text(run: Run, words: Run) -> None:
    plain = {"low-resource": 1000, "dropped": {"da": 3, "en": 4}, "tokeniser": "words [x]", "bridge": None, "cut": 0.5}
    single, tables = describe_facts(plain)
    assert tables == []
    assert single == {
        "concepts, low-resource": "1,000", "dropped": "da 3, en 4", "tokeniser": "words [x]", "bridge": MISSING,
        "cut": "0.5",
    }  # fmt: skip
    page = parse(html(replace(run, facts=plain)))
    assert {name.text: value.text for dl in page.all("dl", "facts") for div in dl.all("div")
            for name, value in [(next(div.all("dt")), next(div.all("dd")))]} == single  # fmt: skip
    row = ["40", "50", "10"]
    (table,) = describe_facts(words.facts).tables
    assert table == FactTable("known", ["known", "unknown", "unanswered"], {"cr5, en>it": row, "cr5, it>en": row})
