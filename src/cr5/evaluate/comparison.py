"""Two runs compared: paired differences in P@1 and mean reciprocal rank, with p-values adjusted by Holm's method."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from cr5.errors import Cr5Error
from cr5.evaluate.runs import Regime, Run, Score, load_run, number_concepts
from cr5.evaluate.statistics import PERMUTATIONS, Difference, Gain, hit_at, holm, paired_difference, reciprocal_ranks
from cr5.evaluate.systems.registry import display_name
from cr5.retrieval.top_k import Measure

SIGNIFICANCE_LEVEL = 0.05
ScorePair: TypeAlias = tuple[Score, Score]
"""Scores of two systems in the same direction."""


class Comparison(NamedTuple):
    """One row: P@1 of both runs, and the differences in P@1 and in mean reciprocal rank, B - A.

    A row is one direction, or the mean over ``directions`` with empty ``source`` and ``target``. ``adjusted`` is the
    p-value of the difference in P@1, adjusted for the number of rows that are compared together (Holm).
    """

    system_a: str
    system_b: str
    regime: Regime
    measure: Measure
    source: str
    target: str
    precision_a: float
    precision_b: float
    at_1: Difference
    reciprocal: Difference
    directions: int = 1
    adjusted: float = 1.0

    @property
    def significant(self) -> bool:
        """Whether the adjusted p-value is below 0.05."""
        return self.adjusted < SIGNIFICANCE_LEVEL

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        differences = {"at_1": self.at_1, "reciprocal": self.reciprocal}
        plain = {k: v._asdict() | {"interval": list(v.interval)} for k, v in differences.items()}
        return self._asdict() | plain | {"significant": self.significant}


def compare(
    run_a: Run | str | Path, run_b: Run | str | Path, systems: tuple[str, str] | None = None
) -> list[Comparison]:
    """Compare two runs wherever both have scores for the same queries: means first, then single directions.

    Parameters
    ----------
    run_a, run_b
        Runs, or the folders that they were written to.
    systems
        One system of each run, by key or by name in the tables. By default every system is compared with the
        system of the same name; if each run has a single system, these two are compared.
    """
    a, b = (run if isinstance(run, Run) else load_run(run) for run in (run_a, run_b))
    names_a, names_b = ([*dict.fromkeys(s.system for s in run.scores)] for run in (a, b))
    if systems:
        name_a, name_b = (
            name if name in names else display_name(name)
            for name, names in zip(systems, (names_a, names_b), strict=True)
        )
        pairs = [(name_a, name_b)]
    elif len(names_a) == len(names_b) == 1:
        pairs = [(names_a[0], names_b[0])]
    else:
        pairs = [(name, name) for name in names_a if name in names_b]
    rows: list[tuple[tuple[str, str, Regime, Measure, str, str], list[ScorePair]]] = []
    for name_a, name_b in pairs:
        for regime, measure in dict.fromkeys((s.regime, s.measure) for s in a.scores):
            scores_b = b.by_direction(name_b, regime, measure)
            scores_a = a.by_direction(name_a, regime, measure)
            both = [(score, scores_b[direction]) for direction, score in scores_a.items() if direction in scores_b]
            both = [pair for pair in both if _same_test_set(a, b, *pair)]
            if both:
                rows.append(((name_a, name_b, regime, measure, "", ""), both))
            if len(both) > 1:
                rows += [((name_a, name_b, regime, measure, x.source, x.target), [(x, y)]) for x, y in both]
    if not rows:
        raise Cr5Error(
            "the two runs have no system and queries in common; compare runs of the same corpus and split "
            f"(systems {', '.join(names_a)} and {', '.join(names_b)})"
        )
    # The smallest possible p-value, 1 / permutations, must be significant after adjustment for all rows.
    permutations = max(PERMUTATIONS, round(2 / SIGNIFICANCE_LEVEL) * len(rows))
    compared = []
    for key, both in rows:
        mean_a, mean_b = (float(np.mean([score.precision() for score in side])) for side in zip(*both, strict=True))
        at_1, reciprocal = paired_differences(a, both, [hit_at(1), reciprocal_ranks], permutations)
        compared.append(Comparison(*key, mean_a, mean_b, at_1, reciprocal, directions=len(both)))
    identical = [all(x.ranks == y.ranks for x, y in both) for _, both in rows]
    for are_means in (True, False):  # means and directions are adjusted separately, identical rankings not at all
        family = [i for i, row in enumerate(compared) if (row.source == "") == are_means and not identical[i]]
        adjusted = holm([compared[i].at_1.p_value for i in family])
        for i, p_value in zip(family, adjusted, strict=True):
            compared[i] = compared[i]._replace(adjusted=p_value)
    return compared


def _same_test_set(a: Run, b: Run, x: Score, y: Score) -> bool:
    """Whether two scores have the same queries and as many candidates; words may be sought in any vocabulary."""
    concepts_a, concepts_b = (run.direction(x.source, x.target).concepts for run in (a, b))
    same_queries = concepts_a == concepts_b and _test_set(x) == _test_set(y)
    return same_queries and (a.task == "words" or x.candidates == y.candidates)


def _test_set(score: Score) -> list[str]:
    """The parts of a signature up to the queries: task, corpus, split and direction, but not the version."""
    parts = score.signature.split("|")[1:]
    end = next((i for i, part in enumerate(parts) if part.endswith(" queries")), len(parts))
    return parts[: end + 1]


def paired_differences(
    run: Run, pairs: Sequence[ScorePair], gains: Sequence[Gain], permutations: int = PERMUTATIONS
) -> list[Difference]:
    """How much more the second score of each pair is than the first, over all directions, by each of the gains.

    The pairs have the same queries, those of ``run``.
    """
    concepts = number_concepts(run.direction(x.source, x.target).concepts for x, _ in pairs)
    ranks = [x.rank_array for x, _ in pairs], [y.rank_array for _, y in pairs]
    return [paired_difference(*ranks, concepts, gain, permutations=permutations) for gain in gains]
