"""Two runs compared: paired differences in P@1 and mean reciprocal rank, with p-values adjusted by Holm's method."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cr5.errors import Cr5Error
from cr5.evaluate.runs import Regime, Run, Score, load_run, number_concepts
from cr5.evaluate.statistics import (
    PERMUTATIONS,
    Difference,
    hit_at,
    holm,
    paired_difference,
    precision,
    reciprocal_ranks,
)
from cr5.evaluate.systems.registry import display_name
from cr5.retrieval.top_k import Measure

SIGNIFICANCE_LEVEL = 0.05


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


class _RowKey(NamedTuple):
    system_a: str
    system_b: str
    regime: Regime
    measure: Measure
    source: str = ""
    target: str = ""


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
        name_a, name_b = systems
        pairs = [
            (
                name_a if name_a in names_a else display_name(name_a),
                name_b if name_b in names_b else display_name(name_b),
            )
        ]
    elif len(names_a) == len(names_b) == 1:
        pairs = [(names_a[0], names_b[0])]
    else:
        pairs = [(name, name) for name in names_a if name in names_b]
    rows: list[tuple[_RowKey, list[tuple[Score, Score]]]] = []
    for name_a, name_b in pairs:
        for regime, measure in dict.fromkeys((s.regime, s.measure) for s in a.scores):
            scores_b = {(s.source, s.target): s for s in b.select(name_b, regime, measure)}
            both = [
                (score, scores_b[score.source, score.target])
                for score in a.select(name_a, regime, measure)
                if (score.source, score.target) in scores_b
            ]
            both = [pair for pair in both if _same_test_set(a, b, *pair)]
            if not both:
                continue
            rows.append((_RowKey(name_a, name_b, regime, measure), both))
            if len(both) > 1:
                rows += [(_RowKey(name_a, name_b, regime, measure, x.source, x.target), [(x, y)]) for x, y in both]
    if not rows:
        raise Cr5Error(
            "the two runs have no system and queries in common; compare runs of the same corpus and split "
            f"(systems {', '.join(names_a)} and {', '.join(names_b)})"
        )
    # The smallest possible p-value, 1 / permutations, must be significant after adjustment for all rows.
    permutations = max(PERMUTATIONS, round(2 / SIGNIFICANCE_LEVEL) * len(rows))
    compared = [Comparison(*key, *_differences(a, both, permutations), directions=len(both)) for key, both in rows]
    identical = [all(x.ranks == y.ranks for x, y in both) for _, both in rows]
    for means in (True, False):  # means and directions are adjusted separately, identical rankings not at all
        family = [i for i, row in enumerate(compared) if (row.source == "") == means and not identical[i]]
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


def _differences(
    run: Run, pairs: list[tuple[Score, Score]], permutations: int
) -> tuple[float, float, Difference, Difference]:
    """P@1 of both sides, and the paired differences in P@1 and in mean reciprocal rank."""
    concepts = number_concepts(run.direction(x.source, x.target).concepts for x, _ in pairs)
    ranks = [x.rank_array for x, _ in pairs], [y.rank_array for _, y in pairs]
    at_1, reciprocal = (
        paired_difference(*ranks, concepts, gain, permutations=permutations) for gain in (hit_at(1), reciprocal_ranks)
    )
    mean_a, mean_b = (float(np.mean([precision(r, 1) for r in side])) for side in ranks)
    return mean_a, mean_b, at_1, reciprocal
