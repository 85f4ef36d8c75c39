"""The headline of a report."""

from dataclasses import replace

import numpy as np
import pytest
from html_tree import parse
from reports import headline, html, make_run, markdown, word_run

from cr5.cli.render import scores
from cr5.evaluate.runs import Run
from cr5.evaluate.statistics import Difference, Interval


@pytest.fixture(scope="module")
def words() -> Run:
    return word_run()


def test_the_headline_compares_cr5_with_the_best_baseline() -> None:
    found = headline(make_run(queries=200, systems={"cr5": 0.5, "weak": 0.05, "strong": 0.2, "upper-bound": 0.9}))
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


def test_the_headline_is_about_the_first_cr5_system_even_if_another_is_better() -> None:
    found = headline(make_run(queries=200, systems={"weak": 0.1, "cr5": 0.3, "cr5 as in the paper": 0.6, "some": 0.2}))
    assert found.system.system == "cr5"
    assert found.competitor is not None
    assert found.competitor.system == "some"


def test_the_best_baseline_is_the_best_in_the_directions_of_cr5() -> None:
    run = make_run(["da", "en", "ar"], ["joint"], {"cr5": 0.3, "wide": 0.1, "apt": 0.2}, queries=200)
    kept = [s for s in run.scores if s.system == "wide" or s.source == "da"]
    found = headline(replace(run, scores=kept))
    assert found.competitor is not None
    assert found.competitor.system == "apt"
    alone = headline(replace(run, scores=[s for s in kept if s.system != "apt"]))
    assert "wide answers in 6 directions; the difference is over the 2 of cr5." in alone.context


@pytest.mark.parametrize(
    ("p_value", "sentence"),
    [
        (0.049, "The difference is +2.0 points (-0.1 to +4.0, paired by concept, p = 0.049)."),
        (
            0.05,
            "The difference, +2.0 points (-0.1 to +4.0, paired by concept, p = 0.050), is not significant.",
        ),
        (0.0001, "The difference is +2.0 points (-0.1 to +4.0, paired by concept, p < 0.001)."),
    ],
)
def test_a_difference_is_significant_by_its_p_value(
    p_value: float, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    apart = Difference(2.0, Interval(-0.1, 4.0), p_value)
    monkeypatch.setattr("cr5.evaluate.report.headline.paired_differences", lambda *_: [apart])
    found = headline(make_run())
    assert sentence in found.context


def test_the_headline_of_a_word_run_says_how_many_queries_have_known_words(
    words: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    known_words = []
    for system in ("cr5", "vectors"):
        ranks = [s.rank_array[s.rank_array > 0] for s in words.select(system, "pretrained", "csls")]
        known_words.append((sum(map(len, ranks)), f"{np.mean([100 * (part == 1).mean() for part in ranks]):.1f}"))
    (known, share), (less, other) = known_words
    assert known <= 80
    sentence = (
        f"The words of {known} of 200 queries are known to cr5 (P@1 among these: {share} %), those of {less} to "
        f"vectors ({other} %). All other queries count as misses."
    )
    scores.run_tables(words)
    printed = capsys.readouterr().out
    for text in (parse(html(words)).text.replace("\xa0", " "), markdown(words), " ".join(printed.split())):
        assert sentence in text


def test_a_system_that_knows_no_word_has_no_precision_among_known_words(words: Run) -> None:
    found = headline(replace(words, scores=[replace(s, ranks=[0] * 100) for s in words.scores]))
    assert "The words of 0 of 200 queries are known to cr5 (P@1 among these: – %)" in found.context
