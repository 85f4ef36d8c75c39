"""The scorer against the definition of the fused score, written out densely."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from cr5._typing import Array
from cr5.errors import Cr5Error
from cr5.features.counts import WordCounts, count_words
from cr5.features.tokeniser import Tokeniser
from cr5.retrieval.block_products import Matrix, WeightedView
from cr5.retrieval.scorer import (
    DEFAULT_WEIGHTS,
    MIN_DEVIATION,
    DenseView,
    RowCache,
    Scorer,
    StringsView,
    View,
    standard_deviation,
)
from cr5.retrieval.strings import string_statistics
from cr5.retrieval.top_k import Measure, search_views
from cr5.retrieval.vectors import unit_rows


def some_texts(n: int, seed: int = 0) -> WordCounts:
    """Texts of words such as w0 … w49."""
    random = np.random.default_rng(seed)
    return count_words([" ".join(f"w{i}" for i in random.choice(50, 12)) for _ in range(n)], "en", Tokeniser())


def random_rows(n: int, size: int, scale: float, seed: int) -> Array:
    """Rows whose products have about the standard deviation ``scale``, dense."""
    rows = unit_rows(np.random.default_rng(seed).standard_normal((n, size)).astype(np.float32))
    return np.asarray(rows * np.sqrt(scale * np.sqrt(size)), np.float32)


@dataclass
class Fixed:
    """A view that returns given rows and counts how often it was asked."""

    pair: tuple[Matrix, Matrix] | None
    asked: list[str] = field(default_factory=list)

    def rows(self, queries: WordCounts, query_lang: str, candidates: WordCounts, candidate_lang: str) -> Any:
        self.asked.append(f"{query_lang}>{candidate_lang}")
        return self.pair


N, M = 30, 80
QUERIES, CANDIDATES = some_texts(N), some_texts(M, seed=1)


def three_views() -> dict[str, Fixed]:
    return {
        "dense": Fixed((random_rows(N, 8, 0.3, 1), random_rows(M, 8, 0.3, 2))),
        "lexicon": Fixed((csr_array(random_rows(N, 30, 0.1, 3)), csr_array(random_rows(M, 30, 0.1, 4)))),
        "strings": Fixed((csr_array(random_rows(N, 20, 0.02, 5)), csr_array(random_rows(M, 20, 0.02, 6)))),
    }


def scored(scorer: Scorer, **options: Any) -> list[WeightedView]:
    return scorer.weighted_views(QUERIES, "en", CANDIDATES, "it", **options)


def dense(matrix: Any) -> Array:
    return np.asarray(matrix if isinstance(matrix, np.ndarray) else matrix.toarray(), float)


def fused(pairs: Sequence[tuple[Matrix, Matrix]], weights: Sequence[float], measure: Measure) -> Array:
    """sum weight / deviation (2 q'c - r(c)), in units of the first view's deviation over its weight."""
    products = [dense(q) @ dense(c).T for q, c in pairs]
    total, unit = np.zeros((N, M)), products[0].std() / weights[0]
    for each, weight in zip(products, weights, strict=True):
        means = np.sort(each, axis=0)[-10:].mean(axis=0)
        total += weight / each.std() * (each if measure == "cosine" else 2 * each - means)
    return np.asarray(total * unit)


@pytest.mark.parametrize("measure", ["cosine", "csls"])
def test_the_fused_score_is_the_weighted_sum_of_the_views_in_units_of_their_deviations(measure: Measure) -> None:
    weights = {"dense": 1.0, "lexicon": 0.6, "strings": 0.1}
    views = three_views()
    rows = scored(Scorer(views, weights))
    expected = fused([v.pair for v in views.values() if v.pair], list(weights.values()), measure)
    found = search_views(rows, 9, measure=measure)
    np.testing.assert_array_equal(found.indices, np.argsort(-expected, axis=1)[:, :9])
    np.testing.assert_allclose(found.scores, -np.sort(-expected, axis=1)[:, :9], rtol=1e-4, atol=1e-5)
    assert rows[0].weight == 1


def test_one_query_and_few_candidates_have_the_numbers_of_all_with_the_same_deviations_and_background() -> None:
    views = three_views()
    scorer = Scorer(views)
    deviations = {name: standard_deviation(*view.pair) for name, view in views.items() if view.pair}
    full = scored(scorer)
    chosen = np.array([3, 50, 7])
    part = Scorer({n: Fixed((v.pair[0][[4]], v.pair[1][chosen])) for n, v in views.items() if v.pair})
    few = part.weighted_views(some_texts(1), "en", some_texts(3), "it", deviations=deviations)
    few = [WeightedView(f.queries, f.candidates, f.weight, a.queries) for f, a in zip(few, full, strict=True)]
    found = search_views(few, 3, measure="csls")
    everything = search_views(full, M, measure="csls")
    exact = dict(zip(everything.indices[4].tolist(), everything.scores[4].tolist(), strict=True))
    best = sorted(chosen.tolist(), key=lambda candidate: -exact[candidate])
    assert chosen[found.indices[0]].tolist() == best
    np.testing.assert_allclose(found.scores[0], [exact[candidate] for candidate in best], rtol=1e-5)


def test_a_view_that_is_switched_off_is_not_computed() -> None:
    views = three_views()
    rows = scored(Scorer(views, {"dense": 1, "lexicon": 0, "strings": 0.1}))
    assert len(rows) == 2
    assert views["lexicon"].asked == []
    assert len(scored(Scorer(views).only("dense", "strings"))) == 2
    assert views["lexicon"].asked == []


def constant(value: float) -> tuple[Array, Array]:
    return np.full((N, 2), value, np.float32), np.full((M, 2), value, np.float32)


USELESS = {"nothing in common": None, "empty rows": constant(0), "equal cosines": constant(1 / 3)}


@pytest.mark.parametrize("useless", USELESS.values(), ids=USELESS)
def test_a_view_that_cannot_help_changes_nothing(useless: Any) -> None:
    views = three_views()
    with_it = scored(Scorer(views | {"strings": Fixed(useless)}))
    without = scored(Scorer(views).only("dense", "lexicon"))
    assert [row.weight for row in with_it] == [row.weight for row in without]
    others = scored(Scorer({"dense": Fixed(useless), "lexicon": views["lexicon"]}))
    assert [row.weight for row in others] == [1]


def test_without_any_view_that_helps_all_candidates_score_the_same() -> None:
    rows = scored(Scorer({"dense": Fixed(None)}))
    assert search_views(rows, 3, measure="csls").scores.tolist() == [[0] * 3] * N


def test_a_view_in_which_hardly_any_texts_meet_is_not_blown_up() -> None:
    dense_rows = three_views()["dense"].pair
    assert dense_rows
    pair = np.zeros((N, 1), np.float32), np.zeros((M, 1), np.float32)
    pair[0][0], pair[1][0] = 0.1, 0.1  # one of 2,400 cosines is 0.01, the others 0
    rows = scored(Scorer({"dense": Fixed(dense_rows), "strings": Fixed(pair)}))
    assert rows[1].weight == pytest.approx(DEFAULT_WEIGHTS["strings"] * standard_deviation(*dense_rows) / MIN_DEVIATION)


def test_a_sampled_deviation_is_close_to_that_of_all_products_and_always_the_same() -> None:
    queries, candidates = random_rows(3000, 5, 0.3, 0), random_rows(5000, 5, 0.3, 1)
    sampled = standard_deviation(queries, candidates)
    assert sampled == pytest.approx(float((queries @ candidates.T).std()), rel=0.02)
    assert sampled == standard_deviation(queries, candidates)


def test_views_without_a_weight_or_a_name_are_refused() -> None:
    with pytest.raises(Cr5Error, match="no weight for smells"):
        Scorer({"smells": Fixed(None)})
    with pytest.raises(Cr5Error, match="no view 'smells'; the views are dense"):
        Scorer({"dense": Fixed(None)}).only("smells")


# The views


def test_strings_are_centred_cosines_and_none_where_no_ngram_is_shared() -> None:
    def statistics(counts: WordCounts, lang: str) -> Any:
        return string_statistics(counts)

    def count(texts: list[str]) -> WordCounts:
        return count_words(texts, "en", Tokeniser())

    english = count(["Rotterdam is a harbour", "Gdansk and Rotterdam", "the music of Verdi"])
    italian = count(["Verdi compose musica", "il porto di Rotterdam"])
    view: View = StringsView(statistics)
    pair = view.rows(english, "en", italian, "it")
    assert pair
    products = dense(pair[0]) @ dense(pair[1]).T
    assert products[2].argmax() == 0
    assert products[0].argmax() == 1
    assert view.rows(english, "en", count(["Ждём", "щи"]), "ru") is None
    assert view.rows(english, "en", count(["", ""]), "it") is None


def test_dense_rows_are_computed_once_for_the_same_texts_and_none_without_known_words() -> None:
    calls: list[str] = []

    def encode(counts: WordCounts, lang: str) -> Array:
        calls.append(lang)
        return np.ones((counts.matrix.shape[0], 2), np.float32) * (lang != "xx")

    view: View = DenseView(encode, RowCache())
    assert view.rows(QUERIES, "en", CANDIDATES, "it")
    assert view.rows(CANDIDATES, "it", QUERIES, "en")
    assert calls == ["en", "it"]
    assert view.rows(QUERIES, "xx", CANDIDATES, "it") is None
