"""Ranks -> figures: precision at k, mean reciprocal rank, confidence intervals, significance. Arrays only.

A rank is that of a query's counterpart, 1 at the top; 0 is a query that cannot be answered. Queries about the same
concept, in whatever direction, are not independent, so all resampling is by concept.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

from cr5._typing import Array, Ints

CUTOFFS = (1, 5, 10)
BOOTSTRAP_SAMPLES = 2000
PERMUTATIONS = 10_000
CONFIDENCE = 0.95
CHUNK_CELLS = 4_000_000  # samples x concepts drawn at a time: they fill 32 MB

Gain: TypeAlias = Callable[[Ints], Array]
"""Maps ranks to what each query contributes to a figure, 0 to 1."""


class Interval(NamedTuple):
    """A 95 % confidence interval, in percent."""

    low: float
    high: float


class Difference(NamedTuple):
    """How much more the second of two systems scores, in percent, with its interval and two-sided p-value."""

    value: float
    interval: Interval
    p_value: float


def hit_at(k: int) -> Gain:
    """The value of a rank under P@k: 1 for a rank from 1 to k, otherwise 0."""
    return lambda ranks: ((ranks >= 1) & (ranks <= k)).astype(float)


def reciprocal_ranks(ranks: Ints) -> Array:
    """The value of a rank under the mean reciprocal rank: 1 / rank; 0 for a query without an answer."""
    return np.where(ranks > 0, 1 / np.maximum(ranks, 1), 0.0)


def precision(ranks: Ints, k: int) -> float:
    """P@k, in percent; 0 without queries."""
    return 100 * float(hit_at(k)(ranks).mean()) if len(ranks) else 0.0


def mean_reciprocal_rank(ranks: Ints) -> float:
    """The mean of 1 / rank, in percent; 0 without queries."""
    return 100 * float(reciprocal_ranks(ranks).mean()) if len(ranks) else 0.0


def bootstrap_interval(
    directions: Sequence[tuple[Ints, Ints]],
    gain: Gain,
    *,
    samples: int = BOOTSTRAP_SAMPLES,
    seed: int = 0,
    chunk_cells: int = CHUNK_CELLS,
) -> Interval:
    """The percentile bootstrap interval of a mean over directions, each (ranks, concept numbers).

    If all gains are 0, or all are 1, every sample is the same; then it is the exact binomial interval.
    """
    gains = [gain(ranks) for ranks, _ in directions]
    every_gain, concepts = (np.concatenate(parts) for parts in (gains, [numbers for _, numbers in directions]))
    if len(every_gain) and every_gain[0] in (0, 1) and (every_gain == every_gain[0]).all():
        bound = 100 * ((1 - CONFIDENCE) / 2) ** (1 / len(np.unique(concepts)))
        return Interval(bound, 100.0) if every_gain[0] else Interval(0.0, 100 - bound)
    return _percentiles(_bootstrap_means(directions, gains, samples, seed, chunk_cells))


def paired_difference(
    first: Sequence[Ints],
    second: Sequence[Ints],
    concepts: Sequence[Ints],
    gain: Gain,
    *,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
    chunk_cells: int = CHUNK_CELLS,
) -> Difference:
    """Compare the ranks of two systems on the same queries, direction by direction, by a paired permutation test.

    Under the null hypothesis the systems are exchangeable: for the queries about a concept, either could have given
    the other's answers. The p-value is the share of random exchanges with a difference at least as large.
    """
    gains = [gain(b) - gain(a) for a, b in zip(first, second, strict=True)]
    directions = list(zip(first, concepts, strict=True))
    value = float(np.mean([part.mean() if len(part) else 0.0 for part in gains]))
    # One sum for each concept, such that the mean over directions is the sum over concepts.
    names, position = np.unique(np.concatenate(concepts), return_inverse=True)
    weight = np.concatenate([np.full(len(part), 1 / (max(len(part), 1) * len(gains))) for part in gains])
    every_gain = np.concatenate(gains)
    sums = np.bincount(position, weights=weight * every_gain, minlength=len(names))
    # Concepts of equal weight are exchanged together: the number of those exchanged is binomial.
    sizes, multiplicity = np.unique(np.abs(sums[sums != 0]), return_counts=True)
    single, repeated, members = sizes[multiplicity == 1], sizes[multiplicity > 1], multiplicity[multiplicity > 1]
    random = np.random.default_rng(seed)
    at_least_as_large = 0
    for size in _chunks(permutations, len(sizes), chunk_cells):
        exchanged = random.integers(0, 2, (size, len(single)), bool).astype(float) @ single
        exchanged += random.binomial(members, 0.5, (size, len(repeated))) @ repeated
        at_least_as_large += int((np.abs(2 * exchanged - sizes @ multiplicity) >= abs(value) - 1e-12).sum())
    p_value = (at_least_as_large + 1) / (permutations + 1)
    if len(every_gain) and every_gain[0] in (-1, 1) and (every_gain == every_gain[0]).all():
        # One system wins every query and all samples are the same: bound the share of other outcomes exactly.
        bound = 100 * (1 - ((1 - CONFIDENCE) / 2) ** (1 / len(names)))
        interval = Interval(100 - 2 * bound, 100.0) if value > 0 else Interval(-100.0, 2 * bound - 100)
        return Difference(100 * value, interval, p_value)
    means = _bootstrap_means(directions, gains, min(permutations, BOOTSTRAP_SAMPLES), seed, chunk_cells)
    return Difference(100 * value, _percentiles(means), p_value)


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted for multiple comparisons by Holm's step-down method."""
    order = np.argsort(p_values)
    adjusted = np.empty(len(p_values))
    highest = 0.0
    for i, j in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - i) * p_values[j]))
        adjusted[j] = highest
    return adjusted.tolist()


def _bootstrap_means(
    directions: Sequence[tuple[Ints, Ints]], gains: Sequence[Array], samples: int, seed: int, chunk_cells: int
) -> Array:
    """The mean over directions of the mean gain, for each sample of as many concepts as there are."""
    names, position = np.unique(np.concatenate([concepts for _, concepts in directions]), return_inverse=True)
    if not len(names):
        return np.zeros(samples)
    starts = np.cumsum([0, *(len(part) for part in gains)])
    positions = [position[a:b] for a, b in pairwise(starts)]
    sums = np.stack([np.bincount(p, weights=g, minlength=len(names)) for p, g in zip(positions, gains, strict=True)], 1)
    counts = np.stack([np.bincount(p, minlength=len(names)) for p in positions], axis=1).astype(float)
    # Concepts with the same gains and counts are drawn together; in one direction most concepts are such.
    rows, multiplicity = np.unique(np.hstack([sums, counts]), axis=0, return_counts=True)
    sums, counts = np.hsplit(rows, 2)
    random = np.random.default_rng(seed)
    means = []
    for size in _chunks(samples, len(rows), chunk_cells):
        times = random.multinomial(len(names), multiplicity / len(names), size).astype(float)
        means.append(((times @ sums) / np.maximum(times @ counts, 1)).mean(axis=1))
    return np.concatenate(means)


def _percentiles(means: Array) -> Interval:
    low, high = np.quantile(100 * means, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Interval(float(low), float(high))


def _chunks(samples: int, width: int, cells: int) -> list[int]:
    """Sizes of chunks of samples, each with at most ``cells`` numbers or a single sample."""
    size = max(1, min(samples, cells // max(width, 1)))
    return [min(size, samples - done) for done in range(0, samples, size)]
