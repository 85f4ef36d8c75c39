"""Crosslingual retrieval: for a text of one language, find its counterpart among those of another."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from cr5._typing import Ints
from cr5.neighbours import Measure, Rows, counterpart_ranks

CUTOFFS = (1, 5, 10)
MEASURES: tuple[Measure, ...] = ("cosine", "csls")


@dataclass(frozen=True)
class Direction:
    """Queries of one language, candidates of another: precision at k in percent, for each measure."""

    source: str
    target: str
    queries: int
    candidates: int
    cosine: dict[int, float]
    csls: dict[int, float]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def retrieval(vectors: Mapping[str, Rows], concepts: Mapping[str, Ints], asked: Ints | None = None) -> list[Direction]:
    """Precision at 1, 5 and 10 for every ordered pair of languages. Rows are unit vectors.

    Every document of the concepts ``asked``, or of all, is a query, and every document of the other
    language is a candidate. The neighbourhoods of CSLS are taken over the queries. A pair of languages
    that shares none of these concepts is left out.
    """
    chosen = {lang: np.isin(ids, ids if asked is None else asked) for lang, ids in concepts.items()}
    queries = {lang: (vectors[lang][chosen[lang]], concepts[lang][chosen[lang]]) for lang in vectors}
    return [
        _direction(source, target, *queries[source], vectors[target], concepts[target])
        for source in vectors
        for target in vectors
        if source != target and np.isin(queries[source][1], concepts[target]).any()
    ]


def mean_precision(directions: list[Direction], measure: Measure, k: int = 1) -> float:
    """The mean over directions, in percent."""
    return float(np.mean([getattr(direction, measure)[k] for direction in directions]))


def chance(directions: list[Direction]) -> float:
    """What guessing would score at 1, in percent."""
    return float(np.mean([100 / direction.candidates for direction in directions]))


def _direction(source: str, target: str, queries: Rows, labels: Ints, candidates: Rows, answers: Ints) -> Direction:
    found = {m: counterpart_ranks(queries, labels, candidates, answers, measure=m) for m in MEASURES}
    precision = {m: {k: 100 * float((rank <= k).mean()) for k in CUTOFFS} for m, rank in found.items()}
    return Direction(source, target, len(found["cosine"]), candidates.shape[0], **precision)
