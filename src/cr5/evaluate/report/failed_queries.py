"""The failed queries of a run: how length and vocabulary coverage differ from those of the answered ones."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from cr5._typing import Array
from cr5.evaluate.runs import Regime, Run
from cr5.retrieval.top_k import Measure


class Quartile(NamedTuple):
    """The queries with a property from ``low`` to ``high``, and their P@1."""

    low: float
    high: float
    queries: int
    precision: float


class QueryProperty(NamedTuple):
    """P@1 by quartile of one property of the queries, and its medians over answered and over failed queries."""

    name: str
    quartiles: list[Quartile]
    median_answered: float
    median_failed: float


class FailureAnalysis(NamedTuple):
    """What the failed queries of one system have in common; a query fails unless the right answer comes first."""

    system: str
    regime: Regime
    measure: Measure
    queries: int
    failed: int
    properties: list[QueryProperty]


def analyse_failures(run: Run, measure: Measure) -> FailureAnalysis | None:
    """Length and coverage of the queries that the first cr5 system answers and fails; None without such a system."""
    scores = [s for s in run.scores if run.role(s.system) == "own" and s.measure == measure and s.ranks]
    scores = [s for s in scores if (s.system, s.regime) == (scores[0].system, scores[0].regime)]
    if not scores:
        return None
    directions = [(s.rank_array == 1, run.direction(s.source, s.target)) for s in scores]
    properties = [
        _by_quartile("different words", [(answered, q.lengths) for answered, q in directions]),
        _by_quartile(
            "words known, %", [(answered, [100 * share for share in q.coverage]) for answered, q in directions]
        ),
    ]
    answered = np.concatenate([answered for answered, _ in directions])
    system, regime = scores[0].system, scores[0].regime
    known = [each for each in properties if each]
    return FailureAnalysis(system, regime, measure, len(answered), int((~answered).sum()), known)


def _by_quartile(name: str, directions: Sequence[tuple[Any, Sequence[float]]]) -> QueryProperty | None:
    """P@1 by quartile of a property; None where it is unknown, or equal for all queries."""
    known = [(answered, np.array(values, float)) for answered, values in directions if len(values) == len(answered)]
    if not known:
        return None
    answered: Array = np.concatenate([part for part, _ in known])
    values: Array = np.concatenate([part for _, part in known])
    # Equal values stay together, so that there may be fewer than four quartiles.
    quartile = np.searchsorted(np.unique(np.quantile(values, [0.25, 0.5, 0.75])), values)
    members = [quartile == number for number in np.unique(quartile)]
    if len(members) < 2:
        return None
    quartiles = [
        Quartile(float(values[m].min()), float(values[m].max()), int(m.sum()), 100 * float(answered[m].mean()))
        for m in members
    ]
    medians = [float(np.median(values[m])) if m.any() else float("nan") for m in (answered, ~answered)]
    return QueryProperty(name, quartiles, *medians)
