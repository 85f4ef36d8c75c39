"""The scorer compares texts by several views at once, each scaled by the spread of its cosines.

A view has a row for every text, and the products of rows are cosines. The score of a candidate c for a query q is the
sum over the views of weight s / s_v (2 q'c - r(c)), where s_v is the standard deviation of the products of all queries
and candidates in view v, s that in the first view, and r(c) the candidate's neighbourhood mean in view v (see
``csls``). So weights are relative to that of the first view, whatever the spread of the cosines.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import numpy as np

from cr5._typing import Array, Sparse
from cr5.errors import Cr5Error
from cr5.features.counts import WordCounts
from cr5.retrieval.block_products import Matrix, WeightedView, multiply_rows
from cr5.retrieval.lexicon import Lexicon
from cr5.retrieval.strings import StringStatistics, centred_pair, string_rows
from cr5.retrieval.translation import WordWeights, mean_views, original_rows, translate_counts

DEFAULT_WEIGHTS = {"dense": 1.0, "lexicon": 0.6, "strings": 0.15}
SAMPLED_QUERIES, SAMPLED_CANDIDATES = 1024, 2048  # rows sampled for a standard deviation; fewer are all used
ROUNDING_DEVIATION = 1e-6  # cosines with a smaller deviation differ by rounding only
MIN_DEVIATION = 0.001  # so that the cosines of a view in which few texts match do not become huge scores
Value = TypeVar("Value")


class View(Protocol):
    """One way to compare texts."""

    def rows(
        self, queries: WordCounts, query_lang: str, candidates: WordCounts, candidate_lang: str
    ) -> tuple[Matrix, Matrix] | None:
        """Rows of both sides whose products are cosines; None if the view cannot tell these texts apart."""
        ...


class RowCache:
    """Caches what was computed for texts; entries live as long as the cache."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, Hashable], tuple[WordCounts, Any]] = {}

    def get(self, counts: WordCounts, key: Hashable, make: Callable[[], Value]) -> Value:
        """What ``make`` returned for these texts and this key."""
        entry = id(counts), key
        if entry not in self._kept:
            self._kept[entry] = counts, make()  # holding the counts keeps their id from being used again
        value: Value = self._kept[entry][1]
        return value


@dataclass(frozen=True)
class DenseView:
    """The vectors of a model; ``encode`` turns texts of a language into unit rows, texts x rank."""

    encode: Callable[[WordCounts, str], Array]
    cache: RowCache = field(default_factory=RowCache)

    def rows(
        self, queries: WordCounts, query_lang: str, candidates: WordCounts, candidate_lang: str
    ) -> tuple[Matrix, Matrix] | None:
        """The vectors of both sides; None if no text of one side has a known word."""
        pair = self._vectors(queries, query_lang), self._vectors(candidates, candidate_lang)
        return pair if all(vectors.any() for vectors in pair) else None

    def _vectors(self, counts: WordCounts, lang: str) -> Array:
        return self.cache.get(counts, lang, lambda: self.encode(counts, lang))


@dataclass(frozen=True)
class StringsView:
    """Character n-grams, centred by language; ``statistics`` gives those of a language for some of its texts.

    With ``always``, texts that have nothing in common have rows as well.
    """

    statistics: Callable[[WordCounts, str], StringStatistics]
    always: bool = False
    cache: RowCache = field(default_factory=RowCache)

    def rows(
        self, queries: WordCounts, query_lang: str, candidates: WordCounts, candidate_lang: str
    ) -> tuple[Matrix, Matrix] | None:
        """The centred rows of both sides; None if they share no n-grams except by hash collisions."""
        of_queries, of_candidates = self._rows(queries, query_lang), self._rows(candidates, candidate_lang)
        if not self.always and not _have_common_columns(of_queries[0], of_candidates[0]):
            return None
        return centred_pair(*of_queries, *of_candidates)

    def _rows(self, counts: WordCounts, lang: str) -> tuple[Sparse, StringStatistics]:
        def make() -> tuple[Sparse, StringStatistics]:
            statistics = self.statistics(counts, lang)
            return string_rows(counts, statistics), statistics

        return self.cache.get(counts, lang, make)


@dataclass(frozen=True)
class LexiconView:
    """Texts that are translated word by word, both ways; ``weights`` has the IDF of a language's words.

    ``lexicon`` gives the translations from one language to another. Texts of one language need none.
    """

    lexicon: Callable[[str, str], Lexicon]
    weights: Callable[[str], WordWeights]
    cache: RowCache = field(default_factory=RowCache)

    def rows(
        self, queries: WordCounts, query_lang: str, candidates: WordCounts, candidate_lang: str
    ) -> tuple[Matrix, Matrix] | None:
        """The rows of both sides in both languages; None if one language has no vocabulary."""
        if not self.weights(query_lang).index or not self.weights(candidate_lang).index:
            return None
        original = self._original(queries, query_lang), self._original(candidates, candidate_lang)
        if query_lang == candidate_lang:
            return original
        translated = (
            self._translated(queries, query_lang, candidate_lang),
            self._translated(candidates, candidate_lang, query_lang),
        )
        return mean_views(translated[0], original[0]), mean_views(original[1], translated[1])

    def _original(self, counts: WordCounts, lang: str) -> Any:
        return self.cache.get(counts, lang, lambda: original_rows(counts, self.weights(lang)))

    def _translated(self, counts: WordCounts, lang: str, to: str) -> Any:
        def make() -> Any:
            return translate_counts(counts, self.lexicon(lang, to), self.weights(to))

        return self.cache.get(counts, (lang, to), make)


@dataclass(frozen=True)
class Scorer:
    """Several views by name, the first of which sets the unit of the score, and their weights.

    A view of weight 0 is switched off: it is not computed at all. So is one that cannot help, because the texts of
    both sides have nothing in common in it, or because all its cosines are equal.
    """

    views: Mapping[str, View]
    weights: Mapping[str, float] = field(default_factory=lambda: DEFAULT_WEIGHTS)

    def __post_init__(self) -> None:
        unknown = [name for name in self.views if name not in self.weights]
        if unknown or not self.views:
            raise Cr5Error(f"`weights` has no weight for {', '.join(unknown)}" if unknown else "`views` is empty")
        for name, weight in self.weights.items():
            if not 0 <= weight < np.inf:
                raise Cr5Error(f"the weight {weight:g} of the view {name!r} must be 0 or more; 0 switches a view off")

    def only(self, *names: str) -> "Scorer":
        """The scorer with these views alone."""
        for name in names:
            if name not in self.views:
                raise Cr5Error(f"there is no view {name!r}; the views are {', '.join(self.views)}")
        return replace(self, views={name: view for name, view in self.views.items() if name in names})

    def pairs(
        self, queries: WordCounts, query_lang: str, candidates: WordCounts, candidate_lang: str
    ) -> dict[str, tuple[Matrix, Matrix]]:
        """The rows of queries and candidates in every view that is switched on and can help."""
        active = {name: view for name, view in self.views.items() if self.weights[name] > 0}
        pairs = {name: view.rows(queries, query_lang, candidates, candidate_lang) for name, view in active.items()}
        return {name: pair for name, pair in pairs.items() if pair is not None}

    def weighted_views(
        self,
        queries: WordCounts,
        query_lang: str,
        candidates: WordCounts,
        candidate_lang: str,
        *,
        deviations: Mapping[str, float] | None = None,
    ) -> list[WeightedView]:
        """The weighted views of queries and candidates, as ``retrieval.top_k`` ranks them.

        ``deviations`` are the standard deviations of the views' cosines, by default those between these queries and
        candidates (see ``standard_deviation``). Give those of a background to score a few candidates, or one query,
        with the same numbers as many. If no view can help, the result is one view with zero columns.
        """
        pairs = self.pairs(queries, query_lang, candidates, candidate_lang)
        if deviations is None:
            deviations = {name: standard_deviation(*pair) for name, pair in pairs.items()}
        weights = self.scales(deviations)
        views = [WeightedView(*pair, weights[name]) for name, pair in pairs.items() if weights.get(name)]
        return views or [WeightedView(_empty_rows(queries), _empty_rows(candidates))]

    def scales(self, deviations: Mapping[str, float]) -> dict[str, float]:
        """The factor by which the cosines of each view are multiplied, given their standard deviations.

        The factor of the first view that has a deviation is 1; of one whose cosines do not differ it is 0.
        """
        active = [name for name in self.views if self.weights[name] > 0]
        present = [name for name in active if deviations.get(name, 0) > ROUNDING_DEVIATION]
        per_view = {name: self.weights[name] / max(deviations[name], MIN_DEVIATION) for name in present}
        unit = per_view[present[0]] if present else 1.0
        return {name: value / unit for name, value in per_view.items()}


def standard_deviation(queries: Matrix, candidates: Matrix) -> float:
    """The standard deviation of the products of queries and candidates; of many rows, evenly spaced ones are used."""
    chosen = _evenly(queries.shape[0], SAMPLED_QUERIES), _evenly(candidates.shape[0], SAMPLED_CANDIDATES)
    products = multiply_rows(queries[chosen[0]], candidates[chosen[1]])
    return float(products.std(dtype=np.float64)) if products.size else 0.0


def _have_common_columns(queries: Sparse, candidates: Sparse) -> bool:
    """Whether both sides use more columns in common than independent hashes would: by four standard deviations."""
    of_queries, of_candidates = (np.unique(rows.indices) for rows in (queries, candidates))
    expected = len(of_queries) * len(of_candidates) / queries.shape[1]
    return bool(np.isin(of_queries, of_candidates).sum() > expected + 4 * np.sqrt(expected))


def _empty_rows(counts: WordCounts) -> Array:
    return np.zeros((counts.matrix.shape[0], 0), np.float32)


def _evenly(rows: int, size: int) -> Array:
    """At most ``size`` of the rows, evenly spaced."""
    return np.arange(rows) if rows <= size else np.arange(size) * rows // size
