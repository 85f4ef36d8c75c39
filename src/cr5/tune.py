"""The ridge by validation: a path of fits, each started from the last, scored by retrieval. Arrays only."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from cr5._typing import Array, Ints, Mask, Sparse
from cr5.errors import UserError
from cr5.neighbours import counterpart_ranks
from cr5.progress import Progress, Report, silent
from cr5.solve import Fit, reduced_rank_ridge

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
    """The path in the order it was walked, the ridge that won, and a basis to go on from."""

    points: list[PathPoint]
    ridge: float
    basis: dict[str, Array]
    queries: int

    def facts(self) -> dict[str, Any]:
        """All but the basis, as plain values."""
        return {"points": [asdict(point) for point in self.points], "ridge": self.ridge, "queries": self.queries}

    @classmethod
    def from_facts(cls, facts: dict[str, Any], basis: dict[str, Array]) -> "RidgePath":
        """The path that ``facts`` was taken from."""
        return cls([PathPoint(**point) for point in facts["points"]], facts["ridge"], basis, facts["queries"])


def ridge_path(
    blocks: Mapping[str, Sparse],
    concepts: Mapping[str, Ints],
    embed: Callable[[Fit, Mapping[str, Sparse]], dict[str, Array]],
    *,
    rank: int,
    seed: int = 0,
    grid: tuple[float, ...] = GRID,
    progress: Report = silent,
    stop: Callable[[], bool] = lambda: False,
    **options: Any,
) -> RidgePath:
    """Fit every ridge of the grid without some concepts, and score how well these are found.

    ``embed`` turns documents into unit rows by a fit. The walk ends early once two ridges in a row
    have scored below the best.
    """
    held = held_out(concepts, seed)
    inside = {lang: ~held[ids] for lang, ids in concepts.items()}
    training = {lang: X[inside[lang]] for lang, X in blocks.items()}
    labels = {lang: ids[inside[lang]] for lang, ids in concepts.items()}
    waiting = {lang: X[~inside[lang]] for lang, X in blocks.items()}
    answers = {lang: ids[~inside[lang]] for lang, ids in concepts.items()}
    left = len(np.unique(np.concatenate(list(labels.values()))))
    if rank >= left:
        raise UserError(
            f"rank {rank} exceeds what the {left} concepts left beside the {int(held.sum())} "
            'that ridge "auto" holds out can give; lower --rank, or give the ridge as a number'
        )
    points: list[PathPoint] = []
    best: tuple[PathPoint, dict[str, Array]] | None = None
    basis: dict[str, Array] | None = None
    note = ""
    for i, ridge in enumerate(grid):
        progress(Progress("choose the ridge", i, len(grid), note))
        few = options | {"tol": 0.0, "max_steps": FIRST if basis is None else NEXT}
        fit = reduced_rank_ridge(training, labels, rank=rank, ridge=ridge, seed=seed, start=basis, stop=stop, **few)
        precision, reciprocal, queries = score(embed(fit, waiting), answers)
        points.append(PathPoint(ridge, precision, reciprocal, fit.energy, fit.steps, fit.seconds))
        basis = fit.basis
        if best is None or (precision, reciprocal) > (best[0].precision, best[0].reciprocal_rank):
            best = points[-1], basis
        note = f"ridge {ridge:g}: P@1 {100 * precision:.1f}"
        if stop() or i - points.index(best[0]) >= 2:
            break
    assert best is not None
    return RidgePath(points, best[0].ridge, best[1], queries)


def held_out(concepts: Mapping[str, Ints], seed: int) -> Mask:
    """A mask over concepts: those kept out of training, all of them in two languages or more."""
    size = 1 + max(int(ids.max(initial=-1)) for ids in concepts.values())
    languages = sum(np.bincount(ids, minlength=size) > 0 for ids in concepts.values()).astype(int)  # type: ignore[union-attr]
    shared = np.flatnonzero(languages > 1)
    count = min(max(int(SHARE * len(shared)), FEWEST), MOST)
    if len(shared) < 2 * FEWEST:
        raise UserError(
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
