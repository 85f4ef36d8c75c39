"""Ranks -> figures: precision at k, mean reciprocal rank, intervals, differences. Arrays only.

A rank is that of a query's counterpart, 1 at the top; 0 is a query that cannot be answered at all.
Queries about the same concept, in whatever direction, stand or fall together: whatever is drawn anew
is drawn by concept.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

from cr5._typing import Array, Ints

CUTOFFS = (1, 5, 10)
BOOTSTRAP_SAMPLES = 2000  # of concepts, for an interval
PERMUTATIONS = 10_000  # between two systems, for a p-value
LEVEL = 0.95

Gain: TypeAlias = Callable[[Ints], Array]


class Interval(NamedTuple):
    """A range that holds the figure, in percent, in 95 of 100 such samples of queries."""

    low: float
    high: float


class Difference(NamedTuple):
    """How much more the second of two systems scores, in percent, and how easily chance does as much."""

    value: float
    interval: Interval
    p_value: float


def hit_at(k: int) -> Gain:
    """1 for a counterpart among the first k, otherwise 0."""
    return lambda ranks: ((ranks >= 1) & (ranks <= k)).astype(float)


def reciprocal_ranks(ranks: Ints) -> Array:
    """1 / rank; 0 for what was not found."""
    return np.where(ranks > 0, 1 / np.maximum(ranks, 1), 0.0)


def precision(ranks: Ints, k: int) -> float:
    """P@k, in percent; 0 without queries."""
    return 100 * float(hit_at(k)(ranks).mean()) if len(ranks) else 0.0


def mean_reciprocal_rank(ranks: Ints) -> float:
    """The mean reciprocal rank, in percent; 0 without queries."""
    return 100 * float(reciprocal_ranks(ranks).mean()) if len(ranks) else 0.0


def bootstrap_interval(
    directions: Sequence[tuple[Ints, Ints]], gain: Gain, *, draws: int = BOOTSTRAP_SAMPLES, seed: int = 0
) -> Interval:
    """The bootstrap interval of a mean over directions, each (ranks, concept numbers); concepts are drawn.

    Where all queries gain 0, or all gain 1, draws tell nothing: there it is the exact binomial interval.
    """
    gains = [gain(ranks) for ranks, _ in directions]
    everything, concepts = (np.concatenate(parts) for parts in (gains, [numbers for _, numbers in directions]))
    if len(everything) and everything[0] in (0, 1) and (everything == everything[0]).all():
        far = 100 * ((1 - LEVEL) / 2) ** (1 / len(np.unique(concepts)))
        return Interval(far, 100.0) if everything[0] else Interval(0.0, 100 - far)
    return _middle(_means(directions, gains, draws, seed))


def paired_difference(
    first: Sequence[Ints],
    second: Sequence[Ints],
    concepts: Sequence[Ints],
    gain: Gain,
    *,
    draws: int = PERMUTATIONS,
    seed: int = 0,
) -> Difference:
    """Two systems on the same queries, direction by direction: a paired test by random exchange.

    If the systems were alike, either could have given either's answers to the queries about a concept:
    the p-value is the share of random exchanges that differ by as much as the systems do.
    """
    gains = [gain(b) - gain(a) for a, b in zip(first, second, strict=True)]
    directions = list(zip(first, concepts, strict=True))
    value = float(np.mean([part.mean() if len(part) else 0.0 for part in gains]))
    # One sum for each concept, such that the mean over directions is the sum over concepts.
    names, place = np.unique(np.concatenate(concepts), return_inverse=True)
    weight = np.concatenate([np.full(len(part), 1 / (max(len(part), 1) * len(gains))) for part in gains])
    sums = np.bincount(place, weights=weight * np.concatenate(gains), minlength=len(names))
    # Concepts that weigh the same are exchanged together: how many of them are is binomial.
    sizes, alike = np.unique(np.abs(sums[sums != 0]), return_counts=True)
    single, several, members = sizes[alike == 1], sizes[alike > 1], alike[alike > 1]
    random = np.random.default_rng(seed)
    as_much = 0
    for size in _chunks(draws, len(sizes)):
        won = random.integers(0, 2, (size, len(single)), bool).astype(float) @ single
        won += random.binomial(members, 0.5, (size, len(several))) @ several
        as_much += int((np.abs(2 * won - sizes @ alike) >= abs(value) - 1e-12).sum())
    p_value = (as_much + 1) / (draws + 1)
    everything = np.concatenate(gains)
    if len(everything) and everything[0] in (-1, 1) and (everything == everything[0]).all():
        # All won or all lost: draws tell nothing, but no more than ``far`` of all queries may be otherwise.
        far = 100 * (1 - ((1 - LEVEL) / 2) ** (1 / len(names)))
        bounds = Interval(100 - 2 * far, 100.0) if value > 0 else Interval(-100.0, 2 * far - 100)
        return Difference(100 * value, bounds, p_value)
    return Difference(100 * value, _middle(_means(directions, gains, min(draws, BOOTSTRAP_SAMPLES), seed)), p_value)


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values made larger for having looked at several (Holm's step-down method)."""
    order = np.argsort(p_values)
    adjusted = np.empty(len(p_values))
    highest = 0.0
    for i, j in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - i) * p_values[j]))
        adjusted[j] = highest
    return adjusted.tolist()


def _means(directions: Sequence[tuple[Ints, Ints]], gains: Sequence[Array], draws: int, seed: int) -> Array:
    """The mean over directions of the mean gain, for each draw of as many concepts as there are."""
    names, place = np.unique(np.concatenate([concepts for _, concepts in directions]), return_inverse=True)
    if not len(names):
        return np.zeros(draws)
    starts = np.cumsum([0, *(len(part) for part in gains)])
    places = [place[a:b] for a, b in pairwise(starts)]
    sums = np.stack([np.bincount(p, weights=g, minlength=len(names)) for p, g in zip(places, gains, strict=True)], 1)
    counts = np.stack([np.bincount(p, minlength=len(names)) for p in places], axis=1).astype(float)
    # Concepts that give the same are drawn together: most of them do, in one direction.
    rows, alike = np.unique(np.hstack([sums, counts]), axis=0, return_counts=True)
    sums, counts = np.hsplit(rows, 2)
    random = np.random.default_rng(seed)
    drawn = []
    for size in _chunks(draws, len(rows)):
        times = random.multinomial(len(names), alike / len(names), size).astype(float)
        drawn.append(((times @ sums) / np.maximum(times @ counts, 1)).mean(axis=1))
    return np.concatenate(drawn)


def _middle(drawn: Array) -> Interval:
    low, high = np.quantile(100 * drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(low), float(high))


def _chunks(draws: int, width: int) -> list[int]:
    """Numbers of draws that fit into memory at a time."""
    size = max(1, min(draws, 4_000_000 // max(width, 1)))
    return [min(size, draws - done) for done in range(0, draws, size)]
