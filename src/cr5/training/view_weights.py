"""The weight of the strings view relative to the vectors, chosen by retrieval of held-out concepts.

The better the vectors of a model are, the less the strings of texts add to them. How good they are depends on the
documents and on the number of concepts that were trained on, so that no weight is right for every model.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from cr5._typing import Array, Ints
from cr5.features.counts import WordCounts
from cr5.retrieval.block_products import multiply_rows
from cr5.retrieval.csls import csls, means_of_largest
from cr5.retrieval.scorer import DEFAULT_WEIGHTS, DenseView, Scorer, StringsView, standard_deviation
from cr5.retrieval.strings import string_statistics
from cr5.training.ridge import (
    MAX_WEIGHT_PAIRS,
    HeldOut,
    matching_rows,
    ranks_on_diagonal,
    scored_pairs,
    standard_error,
)

WEIGHTS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.45, 0.7, 1.0)
SMALLEST_WEIGHT = 0.025  # stands for the weight 0 in a geometric mean
MANY_CONCEPTS = 3000  # with this many concepts or more, the expected weight is the default
LARGEST_EXPECTED = 0.45


@dataclass(frozen=True)
class WeightPoint:
    """One weight, by retrieval of held-out documents with the vectors and the strings view.

    reciprocal_rank: its mean over all ordered pairs of languages. standard_error: of its difference from the best one,
    over concepts.
    """

    weight: float
    reciprocal_rank: float
    standard_error: float


@dataclass(frozen=True)
class StringsWeight:
    """The weight of the strings view, and what led to it; no points if nothing could be retrieved."""

    weight: float
    expected: float
    points: list[WeightPoint]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "StringsWeight":
        """The weight that ``to_json`` was called on."""
        return cls(**(values | {"points": [WeightPoint(**point) for point in values["points"]]}))


def choose_strings_weight(
    held_out: HeldOut | None,
    *,
    fetch_counts: Callable[[Mapping[str, Ints]], dict[str, WordCounts]],
    concepts: int,
    setting: float | Literal["auto"] = "auto",
) -> StringsWeight:
    """The weight of the setting; for "auto" one by which held-out documents are found well.

    ``concepts``: how many are shared and trained on. ``fetch_counts`` gives the words of documents by their rows.
    It is the geometric mean of the weights whose mean reciprocal rank is within one standard error of the best: where
    held-out documents are found with any weight, it is one in the middle. It is not below the default weight, which
    was chosen over all corpora: held-out documents say nothing about texts of another kind. Where none are held out,
    or strings cannot help, it is ``expected_weight``.
    """
    expected = expected_weight(concepts)
    if setting != "auto" or held_out is None:
        return StringsWeight(expected if setting == "auto" else setting, expected, [])
    counts = fetch_counts({lang: held_out.rows[lang] for lang in held_out.vectors})
    by_concept = reciprocal_ranks(held_out, counts, WEIGHTS)
    if by_concept is None:
        return StringsWeight(expected, expected, [])
    means = by_concept.sum(axis=0)
    best = by_concept[:, means.argmax()]
    errors = [standard_error(column - best) for column in by_concept.T]
    points = [WeightPoint(*map(float, point)) for point in zip(WEIGHTS, means, errors, strict=True)]
    good = [point.weight for point in points if point.reciprocal_rank >= means.max() - point.standard_error]
    mean = float(np.exp(np.log(np.maximum(good, SMALLEST_WEIGHT)).mean()))
    return StringsWeight(round(max(mean, DEFAULT_WEIGHTS["strings"]), 2), expected, points)


def expected_weight(concepts: int) -> float:
    """The weight that a number of shared concepts suggests: vectors that were learned from few are poor."""
    growth = max(1.0, float(np.sqrt(MANY_CONCEPTS / max(concepts, 1))))
    return round(min(DEFAULT_WEIGHTS["strings"] * growth, LARGEST_EXPECTED), 2)


def reciprocal_ranks(held_out: HeldOut, counts: Mapping[str, WordCounts], weights: Sequence[float]) -> Array | None:
    """concepts x weights: what every concept adds to the mean reciprocal rank; None if the strings view cannot help."""
    scorer = Scorer(
        {
            "dense": DenseView(lambda _, lang: held_out.vectors[lang]),
            "strings": StringsView(lambda documents, _: string_statistics(documents)),
        },
        {"dense": 1.0, "strings": 1.0},
    )
    concepts = held_out.concepts
    held = len(np.unique(np.concatenate(list(concepts.values()))))
    sums, directions = np.zeros((held, len(weights))), 0
    chosen = scored_pairs({lang: concepts[lang] for lang in held_out.vectors}, MAX_WEIGHT_PAIRS)
    for a, b, rows_a, rows_b, places in matching_rows(concepts, chosen):
        rows = {name: (x[rows_a], y[rows_b]) for name, (x, y) in scorer.pairs(counts[a], a, counts[b], b).items()}
        scales = scorer.scales({name: standard_deviation(*pair) for name, pair in rows.items()})
        if len(scales) < len(scorer.views):
            continue
        dense, strings = (multiply_rows(*rows[name]) * np.float32(scales[name]) for name in scorer.views)
        for products in ((dense, strings), (dense.T, strings.T)):
            dense_scores, string_scores = map(_corrected_for_hubs, products)
            ranks = [ranks_on_diagonal(dense_scores + np.float32(weight) * string_scores) for weight in weights]
            sums[places] += 1 / np.stack(ranks, axis=1) / len(places)
            directions += 1
    return sums / directions if directions else None


def _corrected_for_hubs(cosines: Array) -> Array:
    """queries x candidates: 2 cos(q, c) - r(c), which ranks the candidates of a query as CSLS does."""
    return csls(cosines, np.zeros(1, np.float32), means_of_largest(np.ascontiguousarray(cosines.T)))
