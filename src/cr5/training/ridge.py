"""The ridge by validation: a path of fits, each started from the last, scored by retrieval. Arrays only."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from cr5._typing import Array, Ints, Mask, Sparse
from cr5.errors import Cr5Error
from cr5.progress import Progress, ProgressCallback, silent
from cr5.retrieval.top_k import counterpart_ranks
from cr5.training.engines import Engine
from cr5.training.solver import Fit, solve

GRID = (30.0, 10.0, 3.0, 1.0, 0.3, 0.1)  # large first: an easy problem, and the next is never far
FIRST, NEXT = 3, 1  # steps at the first ridge, and at each after it: enough to tell ridges apart
SHARE, FEWEST, MOST = 0.1, 20, 1000  # of the concepts shared by two languages, held out for scoring


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
    """The path in the order it was walked, and the ridge that won."""

    points: list[PathPoint]
    ridge: float
    queries: int

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"points": [asdict(point) for point in self.points], "ridge": self.ridge, "queries": self.queries}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "RidgePath":
        """The path that ``to_json`` was called on."""
        return cls([PathPoint(**point) for point in values["points"]], values["ridge"], values["queries"])


def ridge_path(
    engine: Engine,
    concepts: Mapping[str, Ints],
    embed: Callable[[Fit, Mapping[str, Sparse]], dict[str, Array]],
    *,
    rank: int,
    seed: int = 0,
    grid: tuple[float, ...] = GRID,
    progress: ProgressCallback = silent,
    stop: Callable[[], bool] = lambda: False,
    **options: Any,
) -> RidgePath:
    """Fit every ridge of the grid without some concepts, and score how well these are found.

    ``concepts`` are those of the engine's documents; ``embed`` turns documents into unit rows by a fit.
    The walk ends early once two ridges in a row have scored below the best, whose Z the engine then holds.
    """
    held = held_out(concepts, seed)
    left = len(np.unique(np.concatenate([ids[~held[ids]] for ids in concepts.values()])))
    if rank >= left:
        raise Cr5Error(
            f"rank {rank} exceeds what the {left} concepts left beside the {int(held.sum())} "
            'that ridge "auto" holds out can give; lower --rank, or give the ridge as a number'
        )
    training = engine.subset(~held)
    waiting, answers = engine.fetch_documents(held)
    points: list[PathPoint] = []
    best = 0
    note = ""
    for i, ridge in enumerate(grid):
        progress(Progress("choose the ridge", i, len(grid), note))
        few: dict[str, Any] = options | {"tol": 0.0, "max_steps": NEXT if i else FIRST}
        fit = solve(training, rank=rank, ridge=ridge, seed=seed, start="engine" if i else None, stop=stop, **few)
        precision, reciprocal, queries = score(embed(fit, waiting), answers)
        points.append(PathPoint(ridge, precision, reciprocal, fit.energy, fit.steps, fit.seconds))
        if i == 0 or (precision, reciprocal) > (points[best].precision, points[best].reciprocal_rank):
            best = i
            engine.words.map(_remember)
        note = f"ridge {ridge:g}: P@1 {100 * precision:.1f}"
        if stop() or i - best >= 2:
            break
    engine.words.map(_recall)
    return RidgePath(points, points[best].ridge, queries)


def _remember(rows: dict[str, Array]) -> None:
    rows["best"] = rows["Z"] + 0  # an array of its own


def _recall(rows: dict[str, Array]) -> None:
    rows["Z"] = rows.pop("best")


def held_out(concepts: Mapping[str, Ints], seed: int) -> Mask:
    """A mask over concepts: those kept out of training, all of them in two languages or more."""
    size = 1 + max(int(ids.max(initial=-1)) for ids in concepts.values())
    languages = sum(np.bincount(ids, minlength=size) > 0 for ids in concepts.values()).astype(int)  # type: ignore[union-attr]
    shared = np.flatnonzero(languages > 1)
    count = min(max(int(SHARE * len(shared)), FEWEST), MOST)
    if len(shared) < 2 * FEWEST:
        raise Cr5Error(
            f'ridge "auto" needs {2 * FEWEST} concepts that two languages share, there are {len(shared)}; '
            "give the ridge as a number, such as 1"
        )
    mask = np.zeros(size, bool)
    mask[np.random.default_rng(seed).choice(shared, count, replace=False)] = True
    return mask


def score(vectors: Mapping[str, Array], concepts: Mapping[str, Ints]) -> tuple[float, float, int]:
    """P@1 and mean reciprocal rank by CSLS over every ordered pair of languages; and the queries asked."""
    found = [
        counterpart_ranks(vectors[a], concepts[a], vectors[b], concepts[b], measure="csls")
        for a in vectors
        for b in vectors
        if a != b
    ]
    rank = np.concatenate(found)
    return float((rank == 1).mean()), float((1 / rank).mean()), len(rank)
