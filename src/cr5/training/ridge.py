"""Ridge selection: a path of fits, each started from the last, scored by retrieval of held-out concepts."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from cr5._typing import Array, Ints, Mask, Sparse
from cr5.errors import Cr5Error
from cr5.progress import Progress, ProgressCallback, no_progress
from cr5.retrieval.top_k import counterpart_ranks
from cr5.training.engines import Engine
from cr5.training.solver import Fit, solve

RIDGES = (30.0, 10.0, 3.0, 1.0, 0.3, 0.1)  # largest first: an easy problem, and each next one is close to it
FIRST_STEPS, NEXT_STEPS = 3, 1  # of the solver at the first ridge and at each later one: enough to rank ridges
HELD_OUT_FRACTION, MIN_HELD_OUT, MAX_HELD_OUT = 0.1, 20, 1000  # of the concepts that two languages share


@dataclass(frozen=True)
class PathPoint:
    """One ridge of the path: P@1 and mean reciprocal rank by CSLS, over all language pairs."""

    ridge: float
    precision: float
    reciprocal_rank: float
    energy: float
    steps: int
    seconds: float


@dataclass(frozen=True)
class RidgePath:
    """The ridges in the order in which they were fitted, and the best of them."""

    points: list[PathPoint]
    best_ridge: float
    queries: int

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"points": [asdict(point) for point in self.points], "ridge": self.best_ridge, "queries": self.queries}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "RidgePath":
        """The path that ``to_json`` was called on."""
        return cls([PathPoint(**point) for point in values["points"]], values["ridge"], values["queries"])


def select_ridge(
    engine: Engine,
    concepts: Mapping[str, Ints],
    embed: Callable[[Fit, Mapping[str, Sparse]], dict[str, Array]],
    *,
    rank: int,
    seed: int = 0,
    ridges: tuple[float, ...] = RIDGES,
    progress: ProgressCallback = no_progress,
    should_stop: Callable[[], bool] = lambda: False,
    **options: Any,
) -> RidgePath:
    """Fit every ridge without the held-out concepts, and score how well these are retrieved.

    ``concepts`` are those of the engine's documents; ``embed`` turns documents into unit rows by a fit.
    The path ends early after two ridges in a row below the best, whose Z the engine then holds.
    """
    held = held_out(concepts, seed)
    left = len(np.unique(np.concatenate([ids[~held[ids]] for ids in concepts.values()])))
    if rank >= left:
        raise Cr5Error(
            f'`rank={rank}` is too large: `ridge="auto"` holds out {int(held.sum())} concepts and leaves {left}; '
            f"use `rank<={left - 1}`, or give `ridge` as a number"
        )
    training = engine.subset(~held)
    queries_X, query_concepts = engine.fetch_documents(held)
    points: list[PathPoint] = []
    best = 0
    note = ""
    for i, ridge in enumerate(ridges):
        progress(Progress("choose the ridge", i, len(ridges), note))
        few_steps: dict[str, Any] = options | {"tol": 0.0, "max_steps": NEXT_STEPS if i else FIRST_STEPS}
        fit = solve(
            training,
            rank=rank,
            ridge=ridge,
            seed=seed,
            start="engine" if i else None,
            should_stop=should_stop,
            **few_steps,
        )
        precision, reciprocal, queries = score(embed(fit, queries_X), query_concepts)
        points.append(PathPoint(ridge, precision, reciprocal, fit.energy, fit.steps, fit.seconds))
        if i == 0 or (precision, reciprocal) > (points[best].precision, points[best].reciprocal_rank):
            best = i
            engine.words.map(_store_best)
        note = f"ridge {ridge:g}: P@1 {100 * precision:.1f}"
        if should_stop() or i - best >= 2:
            break
    engine.words.map(_restore_best)
    return RidgePath(points, points[best].ridge, queries)


def _store_best(rows: dict[str, Array]) -> None:
    rows["best"] = rows["Z"] + 0  # a copy


def _restore_best(rows: dict[str, Array]) -> None:
    rows["Z"] = rows.pop("best")


def held_out(concepts: Mapping[str, Ints], seed: int) -> Mask:
    """A mask over concepts: those that are held out of training, each in two languages or more."""
    size = 1 + max(int(ids.max(initial=-1)) for ids in concepts.values())
    languages = sum(np.bincount(ids, minlength=size) > 0 for ids in concepts.values()).astype(int)  # type: ignore[union-attr]
    shared = np.flatnonzero(languages > 1)
    count = held_out_count(len(shared))
    mask = np.zeros(size, bool)
    mask[np.random.default_rng(seed).choice(shared, count, replace=False)] = True
    return mask


def held_out_count(shared: int) -> int:
    """How many of ``shared`` concepts are held out."""
    if shared < 2 * MIN_HELD_OUT:
        raise Cr5Error(
            f'`ridge="auto"` needs {2 * MIN_HELD_OUT} concepts that two languages share, and there are {shared}; '
            "give it as a number, such as `ridge=1`"
        )
    return min(max(int(HELD_OUT_FRACTION * shared), MIN_HELD_OUT), MAX_HELD_OUT)


def score(vectors: Mapping[str, Array], concepts: Mapping[str, Ints]) -> tuple[float, float, int]:
    """P@1 and mean reciprocal rank by CSLS over every ordered pair of languages, and the number of queries."""
    ranks_of_pairs = [
        counterpart_ranks(vectors[a], concepts[a], vectors[b], concepts[b], measure="csls")
        for a in vectors
        for b in vectors
        if a != b
    ]
    ranks = np.concatenate(ranks_of_pairs)
    return float((ranks == 1).mean()), float((1 / ranks).mean()), len(ranks)
