"""Runs: written, read and compared; small ones, whose figures can be computed by hand."""

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cr5.errors import Cr5Error
from cr5.evaluate.comparison import Comparison, compare
from cr5.evaluate.output import write_files
from cr5.evaluate.preparation import check_output
from cr5.evaluate.runs import (
    RUN_FILE,
    FailedSystem,
    Queries,
    RankedCandidate,
    Regime,
    ReportExample,
    Run,
    Score,
    TrainedSystem,
    load_run,
    save_run,
)
from cr5.evaluate.statistics import Interval, bootstrap_interval, hit_at, holm, paired_difference, reciprocal_ranks
from cr5.evaluate.systems.registry import display_name
from cr5.retrieval.top_k import Measure


def queries(source: str, target: str, concepts: Sequence[str]) -> Queries:
    n = len(concepts)
    return Queries(source, target, list(concepts), [10 + i for i in range(n)], [0.5] * n)


def score(
    system: str, source: str, target: str, ranks: Sequence[int], regime: Regime = "joint", measure: Measure = "csls"
) -> Score:
    ranked = [int(rank) for rank in ranks]
    return Score(system, regime, source, target, measure, ranked, 100, 40, f"{system}|v0", Interval(1.5, 98.25))


def run_of(directions: list[Queries], scores: list[Score]) -> Run:
    return Run("documents", "a title", "0.1.0", {"corpus": "made up"}, directions, scores)


def small_run() -> Run:
    """A run with everything that a run may have."""
    asked = [queries("aa", "bb", ["Q1", "Q2", "Q3", "Q4"]), queries("bb", "aa", ["Q2", "Q1"])]
    scores = [
        score("cr5", "aa", "bb", [1, 2, 0, 7]),
        score("cr5", "bb", "aa", [1, 1]),
        score("cr5", "aa", "bb", [1, 1, 1, 20], measure="cosine"),
        score("floor", "aa", "bb", [5, 5, 5, 5], regime="pretrained"),
        score("floor", "bb", "aa", [0, 0], regime="pretrained"),
    ]
    return replace(
        run_of(asked, scores),
        facts={"corpus": "“made up” äöü 東京", "seed": 0, "sizes": [1, 2.5, None], "inner": {"flag": True}},
        trained=[TrainedSystem("cr5", "joint", ["aa", "bb"], 1.25, {"rank": 3, "residual": 1e-9})],
        examples=[
            ReportExample("cr5", "joint", "aa", "bb", "csls", "Ein Titel", 2, [RankedCandidate("wrong\n", 0.5, False)])
        ],
        notes=["low-resource was left out: two languages only"],
        failed=[FailedSystem("mine", "joint", ["aa", "bb"], "out of memory", "there is not enough memory")],
        roles={"cr5": "own", "mine": "own", "floor": "baseline"},
        example_seed=3,
    )


def two_directions(system: str, quality: float, n: int = 80, seed: int = 0, names: str = "Q") -> Run:
    """A system that finds each counterpart with this probability, in two directions and by two measures."""
    random = np.random.default_rng(seed)
    concepts = [f"{names}{i}" for i in range(n)]
    ways = [("aa", "bb"), ("bb", "aa")]
    measures: list[Measure] = ["cosine", "csls"]
    scores = [
        score(system, *way, np.where(random.random(n) < quality, 1, 3).tolist(), measure=measure)
        for measure in measures
        for way in ways
    ]
    return run_of([queries(*way, concepts) for way in ways], scores)


# Figures


def test_a_score_computes_its_figures_from_the_ranks() -> None:
    own = score("cr5", "aa", "bb", [1, 2, 0, 7])
    assert [own.precision(k) for k in (1, 5, 10)] == [25, 50, 75]
    assert own.precision() == 25
    assert own.reciprocal_rank == pytest.approx(100 * (1 + 1 / 2 + 1 / 7) / 4)
    assert own.rank_array.tolist() == own.ranks


def test_means_are_over_directions_for_each_system_regime_and_measure() -> None:
    means = small_run().means()
    assert [mean[:4] for mean in means] == [
        ("cr5", "joint", "csls", 2),
        ("cr5", "joint", "cosine", 1),
        ("floor", "pretrained", "csls", 2),
    ]
    assert [mean.precision for mean in means] == [
        {1: (25 + 100) / 2, 5: (50 + 100) / 2, 10: (75 + 100) / 2},
        {1: 75, 5: 75, 10: 75},
        {1: 0, 5: 50, 10: 50},
    ]
    expected = [((1 + 1 / 2 + 1 / 7) / 4 + 1) / 2, (3 + 1 / 20) / 4, (1 / 5) / 2]
    assert [mean.reciprocal_rank for mean in means] == pytest.approx([100 * value for value in expected])


def test_the_interval_of_a_mean_identifies_concepts_by_name_in_every_direction() -> None:
    ranks, names = [1] * 30 + [2] * 30, [f"Q{i}" for i in range(60)]
    asked = [queries("aa", "bb", names), queries("bb", "aa", names[::-1])]
    run = run_of(asked, [score("cr5", "aa", "bb", ranks), score("cr5", "bb", "aa", ranks[::-1])])
    alone = bootstrap_interval([(np.array(ranks), np.arange(60))], hit_at(1))
    assert run.means()[0].interval == alone  # the second direction has the same ranks


def test_groups_scores_and_queries_keep_the_order_of_the_run() -> None:
    run = small_run()
    assert run.groups() == [("cr5", "joint", "csls"), ("cr5", "joint", "cosine"), ("floor", "pretrained", "csls")]
    assert run.select("cr5", "joint", "csls") == run.scores[:2]
    assert run.select("cr5", "pairwise", "csls") == []
    assert run.direction("bb", "aa") is run.queries[1]


# Writing and reading


def test_a_run_comes_back_from_json() -> None:
    run = small_run()
    assert Run.from_json(json.loads(json.dumps(run.to_json()))) == run


def test_a_run_of_an_older_version_still_opens(tmp_path: Path) -> None:
    run = replace(small_run(), failed=[], roles={}, example_seed=None)
    values = run.to_json()
    for name in ("failed", "roles", "example_seed"):
        del values[name]
    (tmp_path / RUN_FILE).write_text(json.dumps(values))
    assert load_run(tmp_path) == run
    assert [run.role(system) for system in ("cr5", "floor", "mine")] == ["own", "baseline", "baseline"]


def test_an_empty_run_comes_back_from_json() -> None:
    run = run_of([], [])
    assert Run.from_json(json.loads(json.dumps(run.to_json()))) == run


def test_the_json_has_the_figures_as_well_as_the_ranks() -> None:
    run = small_run()
    values = json.loads(json.dumps(run.to_json()))
    assert values["format"] == 1
    plain = values["scores"][0]
    assert (plain["ranks"], plain["queries"], plain["interval"]) == ([1, 2, 0, 7], 4, [1.5, 98.25])
    assert plain["precision"] == {"1": 25, "5": 50, "10": 75}
    assert plain["reciprocal_rank"] == run.scores[0].reciprocal_rank
    mean, of = values["means"][0], run.means()[0]
    assert (mean["system"], mean["directions"], mean["precision"]["1"]) == ("cr5", 2, 62.5)
    assert (mean["reciprocal_rank"], mean["interval"]) == (of.reciprocal_rank, list(of.interval))


def test_a_run_of_an_earlier_version_has_the_names_and_roles_of_today(tmp_path: Path) -> None:
    earlier = {"ceiling (TF-IDF within the language)": "ceiling", "shared tokens (floor)": "baseline"}
    save_run(two_directions("shared tokens (floor)", 0.3), tmp_path)
    values = json.loads((tmp_path / RUN_FILE).read_text()) | {"roles": earlier}
    values["scores"] = [score | {"regime": "as given"} for score in values["scores"]]
    (tmp_path / RUN_FILE).write_text(json.dumps(values))
    loaded = load_run(tmp_path)
    assert {(score.system, score.regime) for score in loaded.scores} == {("shared tokens", "pretrained")}
    assert loaded.roles == {"upper bound (TF-IDF within the language)": "upper bound", "shared tokens": "baseline"}
    assert display_name("floor") == "shared tokens"


def test_a_run_is_loaded_from_its_folder_or_its_file(tmp_path: Path) -> None:
    run, folder = small_run(), tmp_path / "some" / "folder"
    save_run(run, folder)
    assert [path.name for path in folder.iterdir()] == [RUN_FILE] == ["run.json"]
    assert load_run(folder) == load_run(folder / RUN_FILE) == run
    assert (folder / RUN_FILE).read_text(encoding="utf-8").endswith("}\n")


def test_saving_again_replaces_the_run(tmp_path: Path) -> None:
    save_run(small_run(), tmp_path)
    save_run(two_directions("cr5", 0.5), tmp_path)
    assert load_run(tmp_path) == two_directions("cr5", 0.5)


def test_a_lone_surrogate_in_a_name_survives_saving_and_loading(tmp_path: Path) -> None:
    run = replace(small_run(), facts={"corpus": os.fsdecode(b"caf\xe9.jsonl")})  # a file name in Latin-1
    save_run(run, tmp_path)
    assert load_run(tmp_path) == run


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_run(small_run(), tmp_path)
    before = (tmp_path / RUN_FILE).read_bytes()

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        save_run(two_directions("cr5", 0.5), tmp_path)
    with pytest.raises(OSError, match="No space left"):
        write_files(tmp_path, {"report.md": "text", "scores.csv": "text"})
    check_output(tmp_path / "new" / "folder")
    with pytest.raises(OSError, match="No space left"):
        save_run(small_run(), tmp_path / "new" / "folder")
    assert [path.name for path in tmp_path.iterdir()] == [RUN_FILE]
    assert (tmp_path / RUN_FILE).read_bytes() == before


def test_a_missing_run_is_named(tmp_path: Path) -> None:
    for given, file in ((tmp_path, tmp_path / "run.json"), (tmp_path / "other", tmp_path / "other")):
        with pytest.raises(Cr5Error) as error:
            load_run(given)
        assert str(error.value).startswith(f"{file} does not exist")


@pytest.mark.parametrize("content", [b"", b"concept\tlang\n", b"{'format': 1}", b"\xff\xfe", b'{"format": 1'])
def test_a_file_that_is_not_json_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "run.json"
    file.write_bytes(content)
    with pytest.raises(Cr5Error) as error:
        load_run(tmp_path)
    assert str(error.value).startswith(f"{file} is not a run")


def test_a_folder_in_place_of_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.json").mkdir()
    with pytest.raises(Cr5Error) as error:
        load_run(tmp_path)
    assert str(error.value).startswith(f"{tmp_path / 'run.json'} is not a run")


@pytest.mark.parametrize(
    ("values", "found"), [({"format": 2}, "2"), ({}, "None"), ([1], "None"), ("text", "None"), ({"format": "1"}, "1")]
)
def test_another_format_is_refused(tmp_path: Path, values: Any, found: str) -> None:
    file = tmp_path / "run.json"
    file.write_text(json.dumps(values))
    with pytest.raises(Cr5Error) as error:
        load_run(file)
    assert str(error.value).startswith(f"{file} has the format {found}, but this version reads format 1")


DAMAGE: dict[str, tuple[dict[str, Any], str]] = {
    "a list is missing": ({"scores": ...}, "'scores'"),
    "a name is missing": ({"title": ...}, "Run.__init__() missing 1 required positional argument: 'title'"),
    "a name is unknown": ({"colour": 1}, "Run.__init__() got an unexpected keyword argument 'colour'"),
    "a score is a number": ({"scores": [3]}, "'int' object has no attribute 'items'"),
    "a score is empty": ({"scores": [{}]}, "'interval'"),
    "the scores are a number": ({"scores": 3}, "'int' object is not iterable"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_run_is_refused(tmp_path: Path, damage: str) -> None:
    changes, reason = DAMAGE[damage]
    file = tmp_path / "run.json"
    values = small_run().to_json() | changes
    file.write_text(json.dumps({name: value for name, value in values.items() if value is not ...}))
    with pytest.raises(Cr5Error) as error:
        load_run(file)
    assert str(error.value) == f"{file} is damaged ({reason}); evaluate again"


# Comparing


def where(rows: Sequence[Comparison]) -> list[tuple[str, str, str]]:
    return [(row.measure, row.source, row.target) for row in rows]


def test_a_run_does_not_differ_from_itself() -> None:
    run = small_run()
    rows = compare(run, run)
    assert [(row.system_a, row.system_b, *spot) for row, spot in zip(rows, where(rows), strict=True)] == [
        ("cr5", "cr5", "csls", "", ""),
        ("cr5", "cr5", "csls", "aa", "bb"),
        ("cr5", "cr5", "csls", "bb", "aa"),
        ("cr5", "cr5", "cosine", "", ""),  # one direction is its own mean
        ("floor", "floor", "csls", "", ""),
        ("floor", "floor", "csls", "aa", "bb"),
        ("floor", "floor", "csls", "bb", "aa"),
    ]
    for row in rows:
        assert not row.significant
        assert row.at_1 == row.reciprocal == (0, (0, 0), 1)
        assert row.precision_a == row.precision_b
    assert rows[0].precision_a == 62.5


def test_a_clearly_better_run_is_significantly_better_in_every_row() -> None:
    rows = compare(two_directions("cr5", 0.3), two_directions("cr5", 0.8, seed=1))
    assert where(rows) == [
        (measure, source, target)
        for measure in ("cosine", "csls")
        for source, target in (("", ""), ("aa", "bb"), ("bb", "aa"))
    ]
    for row in rows:
        assert row.significant
        assert row.at_1.value == pytest.approx(row.precision_b - row.precision_a)
        assert row.at_1.interval.low > 0
        assert row.reciprocal.interval.low > 0


def test_two_runs_that_differ_by_chance_do_not_differ_significantly() -> None:
    rows = compare(two_directions("cr5", 0.5), two_directions("cr5", 0.5, seed=1))
    assert any(row.at_1.value != 0 for row in rows)
    assert not any(row.significant for row in rows)


def test_rows_have_the_paired_differences_of_their_directions() -> None:
    a, b = two_directions("cr5", 0.3), two_directions("cr5", 0.5, seed=1)
    rows = compare(a, b)[:3]
    ranks_a, ranks_b = ([s.rank_array for s in run.scores[:2]] for run in (a, b))
    concepts = [np.arange(80)] * 2
    assert rows[0].at_1 == paired_difference(ranks_a, ranks_b, concepts, hit_at(1))
    assert rows[0].reciprocal == paired_difference(ranks_a, ranks_b, concepts, reciprocal_ranks)
    assert rows[2].at_1 == paired_difference(ranks_a[1:], ranks_b[1:], concepts[1:], hit_at(1))
    assert [rows[0].precision_a, rows[0].precision_b] == pytest.approx(
        [np.mean([s.precision() for s in run.scores[:2]]) for run in (a, b)]
    )


def test_a_row_is_plain_values() -> None:
    row = compare(two_directions("cr5", 0.3), two_directions("cr5", 0.8, seed=1))[1]
    plain = json.loads(json.dumps(row.to_json()))
    assert (plain["source"], plain["target"], plain["significant"]) == ("aa", "bb", True)
    for name, value in (("at_1", row.at_1), ("reciprocal", row.reciprocal)):
        assert plain[name] == {"value": value.value, "interval": list(value.interval), "p_value": value.p_value}


def test_a_direction_that_one_run_lacks_is_left_out() -> None:
    a, b = two_directions("cr5", 0.3), two_directions("cr5", 0.6, seed=1)
    fewer = replace(b, queries=b.queries[1:], scores=[s for s in b.scores if s.source == "bb"])
    alone = replace(a, queries=a.queries[1:], scores=[s for s in a.scores if s.source == "bb"])
    rows = compare(a, fewer)
    assert where(rows) == [("cosine", "", ""), ("csls", "", "")]
    assert rows == compare(alone, fewer)
    assert where(compare(fewer, a)) == where(rows)


def test_a_direction_with_other_queries_is_left_out() -> None:
    a, b = two_directions("cr5", 0.3), two_directions("cr5", 0.6, seed=1)
    others = replace(b, queries=[b.queries[0], queries("bb", "aa", [f"other{i}" for i in range(80)])])
    assert where(compare(a, others)) == [("cosine", "", ""), ("csls", "", "")]


def test_runs_of_other_queries_cannot_be_compared() -> None:
    with pytest.raises(Cr5Error) as error:
        compare(two_directions("cr5", 0.3), two_directions("floor", 0.6, names="P"))
    assert str(error.value) == (
        "the two runs have no system and queries in common; compare runs of the same corpus and split "
        "(systems cr5 and floor)"
    )


def test_runs_without_a_common_system_cannot_be_compared() -> None:
    only_cr5 = replace(small_run(), scores=[replace(s, system="other") for s in small_run().scores[:2]])
    with pytest.raises(Cr5Error) as error:
        compare(small_run(), only_cr5)
    assert str(error.value) == (
        "the two runs have no system and queries in common; compare runs of the same corpus and split "
        "(systems cr5, floor and other)"
    )


def test_the_only_systems_of_two_runs_are_compared_whatever_their_names() -> None:
    rows = compare(two_directions("floor", 0.3), two_directions("cr5", 0.8, seed=1))
    assert {(row.system_a, row.system_b) for row in rows} == {("floor", "cr5")}


def test_two_systems_are_compared_by_name_within_a_run_and_between_runs() -> None:
    one, other = two_directions("floor", 0.3), two_directions("cr5", 0.8, seed=1)
    both = replace(one, scores=[*one.scores, *other.scores])
    assert compare(both, both, ("floor", "cr5")) == compare(one, other)
    assert compare(one, both, ("floor", "cr5")) == compare(one, other)
    assert {(row.system_a, row.system_b) for row in compare(both, both)} == {("floor", "floor"), ("cr5", "cr5")}
    with pytest.raises(Cr5Error, match="the two runs have no system and queries in common"):
        compare(both, both, ("floor", "unknown"))


def test_regimes_and_measures_are_compared_with_themselves_only() -> None:
    one = two_directions("cr5", 0.3)
    cosine = replace(one, scores=[s for s in one.scores if s.measure == "cosine"])
    assert {row.measure for row in compare(one, cosine)} == {"cosine"}
    pairwise = replace(one, scores=[replace(s, regime="pairwise") for s in one.scores])
    with pytest.raises(Cr5Error, match="the two runs have no system and queries in common"):
        compare(one, pairwise)


def many_directions(better: int, langs: int, n: int = 40) -> tuple[Run, Run]:
    """Two systems that are alike in all directions but the first, where the second wins so many queries more."""
    names = [f"l{i}" for i in range(langs)]
    ways = [(a, b) for a in names for b in names if a != b]
    asked = [queries(*way, [f"Q{i}" for i in range(n)]) for way in ways]
    won = [1] * better + [2] * (n - better)
    one, other = ([score("cr5", *way, ranks) for way in ways[:1]] for ranks in ([2] * n, won))
    rest = [score("cr5", *way, [2] * n) for way in ways[1:]]
    return run_of(asked, [*one, *rest]), run_of(asked, [*other, *rest])


def test_p_values_are_adjusted_for_all_directions_and_separately_for_all_means() -> None:
    # 7 queries won of 7: p = 2 / 2**7 = 0.016, enough for one row or three, not for six.
    one, other = many_directions(7, langs=3)
    losing = [replace(s, ranks=[1, *s.ranks[1:]]) for s in one.scores[1:]]  # the other directions differ by a query
    rows = compare(replace(one, scores=[one.scores[0], *losing]), other)
    mean, directions = rows[0], rows[1:]
    assert mean.adjusted == mean.at_1.p_value  # there is one mean only
    assert [row.adjusted for row in directions] == holm([row.at_1.p_value for row in directions])
    assert directions[0].at_1.p_value == pytest.approx(2 / 2**7, abs=0.004)
    assert not any(row.significant for row in directions)


def test_identical_rankings_do_not_take_part_in_the_adjustment() -> None:
    rows = compare(*many_directions(7, langs=3))
    assert [row.adjusted for row in rows[2:]] == [1] * 5
    assert rows[1].adjusted == rows[1].at_1.p_value == pytest.approx(2 / 2**7, abs=0.004)
    assert rows[1].significant


def test_runs_of_other_corpora_are_not_compared() -> None:
    one, _ = many_directions(7, langs=2)
    signed = [replace(s, signature=f"cr5 1|documents|corpus a|x>y|40 test queries|{s.system}") for s in one.scores]
    other = [replace(s, signature=s.signature.replace("corpus a", "corpus b")) for s in signed]
    newer = [replace(s, signature=s.signature.replace("cr5 1|", "cr5 2|")) for s in signed]
    assert compare(replace(one, scores=signed), replace(one, scores=newer))
    with pytest.raises(Cr5Error, match="the two runs have no system and queries in common"):
        compare(replace(one, scores=signed), replace(one, scores=other))


@pytest.mark.slow
def test_a_clear_difference_is_significant_among_552_directions() -> None:
    rows = compare(*many_directions(40, langs=24))
    assert len(rows) == 1 + 24 * 23
    assert [(row.source, row.target) for row in rows if row.significant] == [("", ""), ("l0", "l1")]
