"""The builder of a run: examples are a random sample, and failures have kinds."""

from collections import Counter

import numpy as np
import pytest

from cr5._typing import Ints
from cr5.errors import Cr5Error, MissingPackageError
from cr5.evaluate.run_builder import EXAMPLES, Condition, RunBuilder
from cr5.evaluate.runs import FailedSystem, RankedCandidate, ReportExample

DIRECTIONS, QUERIES = 10, 100


def examples(ranks: Ints, seed: int = 0) -> list[ReportExample]:
    """The examples of a run with these ranks in every direction; the title of a query is its number."""
    builder = RunBuilder(seed)
    for i in range(DIRECTIONS):
        condition = Condition("cr5", "joint", f"a{i}", "bb")
        builder.add_examples(condition, ranks, lambda query: (str(query), [RankedCandidate("first", 0.5, False)]))
    return builder.build("documents", "", {}).examples


@pytest.mark.parametrize("failed", [0, 1, 10, 30, 50, 99, 100])
def test_examples_fail_as_often_as_all_queries(failed: int) -> None:
    ranks = np.array([3] * failed + [1] * (QUERIES - failed))
    for seed in range(3):
        drawn = examples(ranks, seed)
        assert len(drawn) == EXAMPLES
        assert sum(e.rank != 1 for e in drawn) == round(EXAMPLES * failed / QUERIES)
        for shown in range(1, EXAMPLES):  # the page folds the last ones away
            assert abs(sum(e.rank != 1 for e in drawn[:shown]) - shown * failed / QUERIES) <= 1


def test_queries_without_an_answer_are_failures() -> None:
    assert {e.rank for e in examples(np.zeros(QUERIES, np.int64))} == {0}


def test_examples_are_drawn_at_random_from_all_directions() -> None:
    ranks = np.tile([1, 1, 7, 1], QUERIES // 4)
    drawn = [e for seed in range(200) for e in examples(ranks, seed)]
    for counts, values in (
        (Counter(e.source for e in drawn), DIRECTIONS),
        (Counter(int(e.query) // 10 for e in drawn), QUERIES // 10),
    ):
        expected = len(drawn) / values
        assert len(counts) == values
        assert all(abs(count - expected) < 5 * expected**0.5 for count in counts.values())
    assert all(len({(e.source, e.query) for e in examples(ranks, seed)}) == EXAMPLES for seed in range(20))


def test_a_seed_draws_the_same_examples_again_and_another_seed_others() -> None:
    ranks = np.tile([1, 2], QUERIES // 2)
    assert examples(ranks, 1) == examples(ranks, 1) != examples(ranks, 2)


def test_a_run_with_few_queries_shows_them_all() -> None:
    builder = RunBuilder()
    ranks = np.array([1, 4, 1])
    builder.add_examples(Condition("cr5", "joint", "aa", "bb"), ranks, lambda query: (str(query), []))
    assert sorted((e.query, e.rank) for e in builder.build("documents", "", {}).examples) == [
        ("0", 1), ("1", 4), ("2", 1),
    ]  # fmt: skip


def test_examples_are_of_one_system_and_regime() -> None:
    builder = RunBuilder()
    for system, regime in (("cr5", "joint"), ("other", "joint"), ("cr5", "pairwise")):
        condition = Condition(system, regime, "aa", "bb")  # type: ignore[arg-type]
        builder.add_examples(condition, np.ones(5, np.int64), lambda query: (str(query), []))
    assert {(e.system, e.regime) for e in builder.build("documents", "", {}).examples} == {("cr5", "joint")}


@pytest.mark.parametrize(
    ("error", "kind", "reason"),
    [
        (MissingPackageError("it needs gensim"), "missing package", "it needs gensim"),
        (ModuleNotFoundError("No module named 'x'"), "missing package", "No module named 'x'"),
        (MemoryError("Unable to allocate 3 TiB"), "out of memory", "Unable to allocate 3 TiB"),
        (Cr5Error("no document has 50 different words"), "not applicable", "no document has 50 different words"),
        (ZeroDivisionError("division by zero"), "error", "ZeroDivisionError: division by zero"),
    ],
)
def test_a_failure_has_a_kind_and_a_reason(error: Exception, kind: str, reason: str) -> None:
    builder = RunBuilder()
    with builder.record_failure("mine", "joint", ("aa", "bb")):
        raise error
    assert builder.build("documents", "", {}).failed == [FailedSystem("mine", "joint", ["aa", "bb"], kind, reason)]


def test_ctrl_c_is_no_failure_of_a_system() -> None:
    with pytest.raises(KeyboardInterrupt), RunBuilder().record_failure("mine", "joint", ()):
        raise KeyboardInterrupt
