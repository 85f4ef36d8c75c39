"""Figures and their uncertainty, compared with loops, full enumerations and simulated systems of known quality."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from cr5._typing import Array, Ints
from cr5.evaluate import statistics
from cr5.evaluate.statistics import (
    Gain,
    bootstrap_interval,
    hit_at,
    holm,
    mean_reciprocal_rank,
    paired_difference,
    precision,
    reciprocal_ranks,
)

GAINS: dict[str, Gain] = {"P@1": hit_at(1), "P@5": hit_at(5), "MRR": reciprocal_ranks}


def some_ranks(n: int, seed: int = 0, worst: int = 12) -> Ints:
    """Ranks from 0, which is a miss."""
    return np.random.default_rng(seed).integers(0, worst + 1, n)


def width(found: statistics.Interval) -> float:
    return found.high - found.low


# Figures


@pytest.mark.parametrize("k", [1, 5, 10])
def test_precision_is_the_share_of_counterparts_among_the_first_k(k: int) -> None:
    ranks = some_ranks(200)
    found = 0
    for rank in ranks.tolist():
        if rank in range(1, k + 1):
            found += 1
    assert precision(ranks, k) == pytest.approx(100 * found / 200)


def test_the_mean_reciprocal_rank_counts_queries_without_an_answer_as_zero() -> None:
    ranks = some_ranks(200)
    expected = sum(1 / rank for rank in ranks.tolist() if rank) / 200
    assert mean_reciprocal_rank(ranks) == pytest.approx(100 * expected)


def test_queries_that_cannot_be_answered_are_misses_at_every_cutoff() -> None:
    misses = np.zeros(7, np.int64)
    assert [precision(misses, k) for k in (1, 5, 1000)] == [0, 0, 0]
    assert mean_reciprocal_rank(misses) == 0


def test_without_queries_all_figures_are_zero() -> None:
    nothing = np.zeros(0, np.int64)
    assert precision(nothing, 1) == mean_reciprocal_rank(nothing) == 0
    assert bootstrap_interval([(nothing, nothing)], hit_at(1)) == (0, 0)
    assert paired_difference([nothing], [nothing], [nothing], hit_at(1)) == (0, (0, 0), 1)


# Intervals


def plain_bootstrap(directions: list[tuple[Ints, Ints]], gain: Gain, draws: int, seed: int) -> Array:
    """Draw concepts, gather their queries, take the mean of each direction, then the mean of these; in percent."""
    random = np.random.default_rng(seed)
    names = sorted({name for _, concepts in directions for name in concepts.tolist()})
    gains = [{name: gain(ranks[concepts == name]).tolist() for name in names} for ranks, concepts in directions]
    drawn = []
    for _ in range(draws):
        chosen = random.choice(names, len(names)).tolist()
        means = []
        for own in gains:
            values = [value for name in chosen for value in own[name]]
            means.append(sum(values) / max(len(values), 1))
        drawn.append(100 * sum(means) / len(means))
    return np.array(drawn)


@pytest.mark.parametrize("name", GAINS)
def test_the_interval_is_that_of_a_plain_bootstrap(name: str) -> None:
    random = np.random.default_rng(5)
    directions = [(some_ranks(n, seed=n, worst=3), random.integers(0, 30, n)) for n in (40, 25)]
    found = bootstrap_interval(directions, GAINS[name], samples=40_000)
    drawn = plain_bootstrap(directions, GAINS[name], draws=2000, seed=1)
    # As much of what the plain one drew lies below, between and above.
    assert np.mean(drawn < found.low) == pytest.approx(0.025, abs=0.012)
    assert np.mean(drawn > found.high) == pytest.approx(0.025, abs=0.012)


def test_the_interval_contains_the_true_share_in_95_of_100_samples() -> None:
    # Two directions whose queries about a concept mostly succeed together, as those of a real system do.
    truth, concepts, rounds = 0.6, np.arange(150), 500
    random = np.random.default_rng(0)
    covered = 0
    for seed in range(rounds):
        easy = random.random(150) < truth
        both = [np.where(random.random(150) < 0.8, easy, random.random(150) < truth).astype(int) for _ in range(2)]
        found = bootstrap_interval([(ranks, concepts) for ranks in both], hit_at(1), samples=500, seed=seed)
        covered += found.low <= 100 * truth <= found.high
    assert covered / rounds == pytest.approx(0.95, abs=0.03)  # three times the error of 500 rounds


def test_four_times_as_many_concepts_halve_the_bootstrap_interval() -> None:
    few, many = (np.tile([1, 1, 2, 5], n) for n in (50, 200))
    one, other = (bootstrap_interval([(ranks, np.arange(len(ranks)))], hit_at(1)) for ranks in (few, many))
    assert width(other) == pytest.approx(width(one) / 2, rel=0.15)


def test_the_same_concepts_in_a_second_direction_do_not_narrow_the_bootstrap_interval() -> None:
    ranks, concepts = some_ranks(80, worst=3), np.arange(80)
    once = bootstrap_interval([(ranks, concepts)], hit_at(1))
    assert bootstrap_interval([(ranks, concepts), (ranks, concepts)], hit_at(1)) == once
    twice = bootstrap_interval([(np.tile(ranks, 2), np.tile(concepts, 2))], hit_at(1))  # two queries about each concept
    assert twice == pytest.approx(once)


def test_other_concepts_in_a_second_direction_do_narrow_it() -> None:
    ranks, concepts = np.tile([1, 2], 60), np.arange(120)
    once = width(bootstrap_interval([(ranks, concepts)], hit_at(1)))
    twice = width(bootstrap_interval([(ranks, concepts), (ranks, concepts + 120)], hit_at(1)))
    assert twice == pytest.approx(once / np.sqrt(2), rel=0.15)


def test_a_seed_gives_the_same_interval_whatever_the_order_and_names_of_the_queries() -> None:
    ranks, concepts = some_ranks(90), np.random.default_rng(1).integers(0, 40, 90)
    found = bootstrap_interval([(ranks, concepts)], reciprocal_ranks, seed=3)
    order = np.random.default_rng(2).permutation(90)
    assert bootstrap_interval([(ranks, concepts)], reciprocal_ranks, seed=3) == found
    assert bootstrap_interval([(ranks, concepts)], reciprocal_ranks, seed=4) != found
    assert bootstrap_interval([(ranks[order], 1000 - 7 * concepts[order])], reciprocal_ranks, seed=3) == pytest.approx(
        found
    )


def test_the_interval_contains_the_figure() -> None:
    for seed in range(20):
        ranks = some_ranks(60, seed, worst=3)
        found = bootstrap_interval([(ranks, np.arange(60))], hit_at(1), seed=seed)
        assert 0 <= found.low <= precision(ranks, 1) <= found.high <= 100


# Differences


def enumerated(sums: Array) -> float:
    """The share of all exchanges of two systems, concept by concept, that differ by as much as they do."""
    every = [abs(float(np.dot(signs, sums))) for signs in product((-1, 1), repeat=len(sums))]
    return float(np.mean(np.array(every) >= abs(sums.sum()) - 1e-9))


@pytest.mark.parametrize("name", GAINS)
@pytest.mark.parametrize("seed", range(4))
def test_the_p_value_is_the_share_of_all_exchanges_that_differ_as_much(name: str, seed: int) -> None:
    gain, sizes = GAINS[name], (9, 14)
    random = np.random.default_rng(seed)
    first = [random.integers(0, 9, n) for n in sizes]
    second = [random.integers(0, 5, n) for n in sizes]
    concepts = [random.integers(0, 10, n) for n in sizes]
    sums = np.zeros(10)
    for a, b, own in zip(first, second, concepts, strict=True):
        for x, y, name_of in zip(gain(a), gain(b), own, strict=True):
            sums[name_of] += (y - x) / len(a) / 2
    found = paired_difference(first, second, concepts, gain, permutations=40_000)
    assert found.value == pytest.approx(100 * sums.sum())
    assert found.p_value == pytest.approx(enumerated(sums), abs=0.012)


@pytest.mark.parametrize("worst", [2, 4, 8])
def test_the_p_value_of_precision_is_that_of_mcnemars_exact_test(worst: int) -> None:
    a, b = some_ranks(120, 1, worst=4), some_ranks(120, 2, worst)
    won, lost = int(((b == 1) & (a != 1)).sum()), int(((a == 1) & (b != 1)).sum())
    expected = stats.binomtest(won, won + lost).pvalue
    found = paired_difference([a], [b], [np.arange(120)], hit_at(1), permutations=40_000)
    assert found.value == pytest.approx(100 * (won - lost) / 120)
    assert found.p_value == pytest.approx(expected, abs=0.012)


def test_the_p_value_of_reciprocal_ranks_is_that_of_scipys_paired_permutation_test() -> None:
    a, b = some_ranks(60, 3), some_ranks(60, 4, worst=8)
    expected = stats.permutation_test(
        (reciprocal_ranks(b), reciprocal_ranks(a)),
        lambda x, y, axis: (x - y).mean(axis=axis),
        permutation_type="samples",
        n_resamples=20_000,
        vectorized=True,
        rng=np.random.default_rng(0),
    )
    found = paired_difference([a], [b], [np.arange(60)], reciprocal_ranks, permutations=40_000)
    assert found.value == pytest.approx(100 * expected.statistic)
    assert found.p_value == pytest.approx(expected.pvalue, abs=0.015)


@pytest.mark.slow
@pytest.mark.parametrize("apart", [False, True])
def test_p_values_under_the_null_hypothesis_are_uniform_only_if_the_queries_of_a_concept_stay_together(
    apart: bool,
) -> None:
    # Both directions have the same concepts and nearly agree: counting them as twice as many finds too much.
    random = np.random.default_rng(0)
    concepts, p_values = [np.arange(60), np.arange(60) + 60 * apart], []
    for seed in range(200):
        alike = some_ranks(60, 2 * seed, worst=6), some_ranks(60, 2 * seed + 1, worst=6)
        first, second = ([np.maximum(ranks + random.integers(0, 2, 60), 1) for _ in range(2)] for ranks in alike)
        p_values.append(
            paired_difference(first, second, concepts, reciprocal_ranks, permutations=499, seed=seed).p_value
        )
    share = np.mean(np.array(p_values) < 0.05)
    assert share > 0.1 if apart else share == pytest.approx(0.05, abs=0.045)  # three times the error of 200
    assert (stats.kstest(p_values, "uniform").pvalue > 0.01) != apart


def test_a_real_difference_has_a_small_p_value_and_an_interval_without_zero() -> None:
    a, b = some_ranks(200, 1, worst=3), some_ranks(200, 2, worst=1)
    found = paired_difference([a], [b], [np.arange(200)], hit_at(1))
    assert 0 < found.p_value < 0.001
    assert 0 < found.interval.low < found.value < found.interval.high


def test_a_second_direction_with_the_same_ranks_is_no_further_evidence() -> None:
    a, b, concepts = some_ranks(100, 1, worst=4), some_ranks(100, 2, worst=3), np.arange(100)
    once = paired_difference([a], [b], [concepts], hit_at(1), permutations=40_000)
    twice = paired_difference([a, a], [b, b], [concepts, concepts], hit_at(1), permutations=40_000)
    assert twice.value == pytest.approx(once.value)
    assert twice.interval == pytest.approx(once.interval)
    assert twice.p_value == pytest.approx(once.p_value, abs=0.012)


@pytest.mark.parametrize("name", GAINS)
def test_exchanging_the_systems_changes_the_sign_of_the_difference(name: str) -> None:
    a, b = [some_ranks(70, 1), some_ranks(50, 2)], [some_ranks(70, 3), some_ranks(50, 4)]
    concepts = [np.arange(70), np.arange(50) + 20]
    there, back = paired_difference(a, b, concepts, GAINS[name]), paired_difference(b, a, concepts, GAINS[name])
    assert back.value == pytest.approx(-there.value)
    assert back.p_value == there.p_value
    # The same seed draws other concepts, so that the ends of the interval are the same but for chance.
    assert (-back.interval.high, -back.interval.low) == pytest.approx(there.interval, abs=0.1 * width(there.interval))


def test_equal_systems_differ_by_nothing() -> None:
    a, concepts = some_ranks(40), np.arange(40)
    assert paired_difference([a], [a], [concepts], reciprocal_ranks) == (0, (0, 0), 1)


def test_systems_that_differ_only_below_the_cutoff_differ_by_nothing() -> None:
    a, concepts = np.tile([1, 3], 20), np.arange(40)
    assert paired_difference([a], [np.where(a == 3, 0, 1)], [concepts], hit_at(1)) == (0, (0, 0), 1)


def test_the_p_value_is_never_zero() -> None:
    n = 300
    found = paired_difference([np.zeros(n, int)], [np.ones(n, int)], [np.arange(n)], hit_at(1), permutations=99)
    assert (found.value, found.p_value) == (100, 0.01)


def test_a_difference_that_every_query_shows_has_the_exact_bootstrap_interval() -> None:
    n = 20
    won = paired_difference([np.zeros(n, int)], [np.ones(n, int)], [np.arange(n)], hit_at(1))
    lost = paired_difference([np.ones(n, int)], [np.zeros(n, int)], [np.arange(n)], hit_at(1))
    least = 0.025 ** (1 / n)  # so many may win that 20 of 20 still happen in 2.5 of 100 cases
    assert won.interval == pytest.approx((100 * (2 * least - 1), 100))
    assert lost.interval == pytest.approx((-100, -100 * (2 * least - 1)))


def test_a_direction_without_queries_counts_as_zero() -> None:
    a, b, nothing = some_ranks(30, 1), some_ranks(30, 2), np.zeros(0, np.int64)
    concepts = np.arange(30)
    alone = paired_difference([a], [b], [concepts], reciprocal_ranks)
    beside = paired_difference([a, nothing], [b, nothing], [concepts, nothing], reciprocal_ranks)
    assert beside.value == pytest.approx(alone.value / 2)
    assert beside.p_value == pytest.approx(alone.p_value, abs=0.02)


def test_a_seed_gives_the_same_paired_difference() -> None:
    a, b, concepts = some_ranks(50, 1), some_ranks(50, 2), np.arange(50)
    one, same, other = (paired_difference([a], [b], [concepts], reciprocal_ranks, seed=seed) for seed in (1, 1, 2))
    assert one == same
    assert (one.interval, one.p_value) != (other.interval, other.p_value)
    assert one.p_value == pytest.approx(other.p_value, abs=0.03)


# Memory


def test_drawing_in_chunks_changes_nothing_but_chance() -> None:
    random = np.random.default_rng(0)
    sizes = (80, 61)
    a, b = ([random.integers(0, 20, n) for n in sizes] for _ in range(2))
    concepts = [random.integers(0, 70, n) for n in sizes]
    directions = list(zip(a, concepts, strict=True))
    at_once, in_chunks = (
        (
            bootstrap_interval(directions, reciprocal_ranks, chunk_cells=cells),
            paired_difference(a, b, concepts, reciprocal_ranks, permutations=40_000, chunk_cells=cells),
        )
        for cells in (10**9, 5000)
    )
    assert in_chunks[0] == pytest.approx(at_once[0])
    assert in_chunks[1].interval == pytest.approx(at_once[1].interval)
    assert in_chunks[1].p_value == pytest.approx(at_once[1].p_value, abs=0.015)


@pytest.mark.parametrize(("samples", "width"), [(2000, 0), (2000, 1), (2001, 5000), (7, 4_000_000), (3, 10**9), (0, 5)])
def test_chunks_fit_into_memory_and_add_up_to_all_samples(samples: int, width: int) -> None:
    sizes = statistics._chunks(samples, width, 4_000_000)
    assert sum(sizes) == samples
    assert all(size >= 1 and (size == 1 or size * width <= 4_000_000) for size in sizes)


@pytest.mark.slow
def test_a_hundred_thousand_concepts_have_a_sane_interval_and_p_value() -> None:
    # Every concept counts for something else, so that none are drawn together.
    n = 100_000
    a = np.arange(n) + 2
    concepts = np.arange(n)
    low, high = bootstrap_interval([(a, concepts)], reciprocal_ranks, samples=45)
    assert low < mean_reciprocal_rank(a) < high
    found = paired_difference([a], [a - 1], [concepts], reciprocal_ranks, permutations=45)
    assert 0 < found.interval.low < found.value < found.interval.high
    assert found.value == pytest.approx(100 * (1 - 1 / (n + 1)) / n)
    shuffled = np.random.default_rng(0).permutation(a)
    assert paired_difference([a], [shuffled], [concepts], hit_at(n // 2), permutations=45).p_value > 0.05


# Multiple comparisons


def textbook(p_values: list[float]) -> list[float]:
    """Holm (1979): the largest of (m - i + 1) p(i) up to its own place, 1 at most."""
    m, ordered = len(p_values), sorted(p_values)
    steps = [min(1.0, (m - i) * p) for i, p in enumerate(ordered)]
    return [max(steps[: ordered.index(p) + 1]) for p in p_values]


def test_holms_worked_example() -> None:
    # Four tests: 4 x 0.005, 3 x 0.01, 2 x 0.03, and 0.04, which may not fall below the one before.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_holm_equals_the_textbook_formula() -> None:
    for seed in range(20):
        random = np.random.default_rng(seed)
        p_values = (random.random(12) ** 3).tolist()
        assert holm(p_values) == pytest.approx(textbook(p_values))


def test_holm_raises_p_values_and_keeps_their_order() -> None:
    p_values = (np.random.default_rng(0).random(30) ** 2).round(2).tolist()  # some are equal
    adjusted = holm(p_values)
    assert all(p <= q <= 1 for p, q in zip(p_values, adjusted, strict=True))
    for p, q in zip(p_values, adjusted, strict=True):
        assert all(q <= other for one, other in zip(p_values, adjusted, strict=True) if p <= one)


def test_holm_does_not_change_a_single_p_value_and_accepts_an_empty_list() -> None:
    assert holm([0.03]) == [0.03]
    assert holm([]) == []
