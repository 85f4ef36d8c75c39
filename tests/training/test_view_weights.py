"""The weight of the strings view: chosen where strings find held-out documents that vectors do not."""

import json
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from madeup import LANGS, word

from cr5._typing import Array, Ints
from cr5.features.counts import WordCounts, count_tokens
from cr5.features.tokeniser import Tokens
from cr5.retrieval.scorer import DEFAULT_WEIGHTS, DenseView, Scorer, StringsView, View
from cr5.retrieval.strings import string_statistics
from cr5.retrieval.top_k import retrieve_views
from cr5.training import view_weights
from cr5.training.ridge import HeldOut
from cr5.training.view_weights import (
    LARGEST_EXPECTED,
    WEIGHTS,
    StringsWeight,
    choose_strings_weight,
    expected_weight,
    reciprocal_ranks,
)

CONCEPTS = 80


def counted(texts: Sequence[Sequence[str]]) -> WordCounts:
    return count_tokens(Tokens.from_lists([list(text) for text in texts]))


def with_names(seed: int = 0, langs: Sequence[str] = LANGS[:2]) -> dict[str, WordCounts]:
    """Documents of common words of their own language, and of a name that they share with their counterparts."""
    random = np.random.default_rng(seed)
    names = ["".join(letters) for letters in random.choice(list("abcdefghijklmnoprstuvz"), (CONCEPTS, 8))]
    common = {lang: [word(lang, meaning) for meaning in range(30)] for lang in langs}
    return {lang: counted([[*random.choice(common[lang], 12), name] for name in names]) for lang in langs}


def without_names(langs: Sequence[str] = LANGS[:2]) -> dict[str, WordCounts]:
    """Documents that share no string with their counterparts."""
    random = np.random.default_rng(1)
    return {
        lang: counted([random.choice([letter * 7 for letter in letters], 12).tolist() for _ in range(CONCEPTS)])
        for lang, letters in zip(langs, ("abc", "xyz"), strict=True)
    }


def held_out(noise: float, langs: Sequence[str] = LANGS[:2], seed: int = 0) -> HeldOut:
    """Vectors of counterparts that are equal but for noise."""
    random = np.random.default_rng(seed)
    meaning = random.standard_normal((CONCEPTS, 20))
    vectors = {}
    for lang in langs:
        V = meaning + noise * random.standard_normal(meaning.shape)
        vectors[lang] = (V / np.linalg.norm(V, axis=1, keepdims=True)).astype(np.float32)
    numbers = {lang: np.arange(CONCEPTS) for lang in langs}
    return HeldOut(numbers, numbers, vectors)


def choose(documents: HeldOut | None, counts: Mapping[str, WordCounts], concepts: int = 400) -> StringsWeight:
    def fetch(rows: Mapping[str, Ints]) -> dict[str, WordCounts]:
        return {lang: counts[lang].select_rows(chosen) for lang, chosen in rows.items()}

    return choose_strings_weight(documents, fetch_counts=fetch, concepts=concepts)


# How documents are retrieved


def test_documents_are_ranked_as_the_evaluation_ranks_them() -> None:
    documents, counts = held_out(2.0, LANGS), with_names(langs=LANGS)
    by_concept = reciprocal_ranks(documents, counts, WEIGHTS)
    assert by_concept is not None
    numbers = np.arange(CONCEPTS)
    for i, weight in enumerate(WEIGHTS):
        views: dict[str, View] = {
            "dense": DenseView(lambda _, lang: documents.vectors[lang]),
            "strings": StringsView(lambda texts, _: string_statistics(texts)),
        }
        scorer = Scorer(views, {"dense": 1, "strings": weight})
        found: list[Array] = []
        for a in LANGS:
            for b in LANGS:
                if a != b:
                    rows = scorer.weighted_views(counts[a], a, counts[b], b)
                    found.append(1 / retrieve_views(rows, numbers, numbers)["csls"].ranks)
        np.testing.assert_allclose(by_concept[:, i], np.mean(found, axis=0) / CONCEPTS, rtol=1e-6)


def test_only_concepts_that_two_languages_share_are_searched() -> None:
    documents, counts = held_out(2.0), with_names()
    a, b = LANGS[:2]
    some = {a: np.arange(60), b: np.arange(20, CONCEPTS)}
    part = HeldOut(some, some, {lang: documents.vectors[lang][rows] for lang, rows in some.items()})
    by_concept = reciprocal_ranks(part, {lang: counts[lang].select_rows(rows) for lang, rows in some.items()}, [0.2])
    assert by_concept is not None
    assert (by_concept[:, 0] > 0).tolist() == [20 <= i < 60 for i in range(CONCEPTS)]


# Which weight is chosen


def test_names_that_counterparts_share_count_more_where_vectors_are_poor() -> None:
    poor, good = (choose(held_out(noise), with_names()) for noise in (8.0, 0.3))
    assert poor.weight > poor.expected >= good.weight
    assert [point.weight for point in poor.points] == list(WEIGHTS)


def test_strings_that_only_mislead_keep_the_default_weight() -> None:
    counts = with_names()
    shuffled = np.random.default_rng(3).permutation(CONCEPTS)
    misled = counts | {LANGS[0]: counts[LANGS[0]].select_rows(shuffled)}
    found = choose(held_out(1.0), misled)
    best = max(found.points, key=lambda point: point.reciprocal_rank)
    assert best.weight < found.weight == DEFAULT_WEIGHTS["strings"] < found.expected


def test_of_weights_that_find_as_much_the_middle_is_chosen() -> None:
    found = choose(held_out(0.01), with_names())
    good = [point.weight for point in found.points if point.reciprocal_rank == pytest.approx(1)]
    assert good[0] == 0
    assert len(good) > 5
    assert found.weight == pytest.approx(np.prod([0.025, *good[1:]]) ** (1 / len(good)), abs=0.005)


def test_weights_within_one_standard_error_of_the_best_count_as_good(monkeypatch: pytest.MonkeyPatch) -> None:
    by_concept = np.zeros((100, len(WEIGHTS)))
    by_concept[:, 3:] = 0.005
    by_concept[:50, 5] += 0.001  # better for some concepts, the same for the others
    by_concept[:, 4] += 0.001 * (np.arange(100) % 2 - 0.05)  # as much, but not the same
    monkeypatch.setattr(view_weights, "reciprocal_ranks", lambda *_: by_concept)
    found = choose(held_out(1.0), with_names())
    sums = by_concept.sum(axis=0)
    assert sums.argmax() == 5
    assert sums[5] - sums[4] < found.points[4].standard_error
    assert sums[5] - sums[3] > found.points[3].standard_error
    assert found.weight == pytest.approx(np.sqrt(WEIGHTS[4] * WEIGHTS[5]), abs=0.005)


def test_documents_without_a_common_string_say_nothing() -> None:
    assert choose(held_out(1.0), without_names()) == StringsWeight(expected_weight(400), expected_weight(400), [])


def test_without_held_out_documents_the_expected_weight_is_used() -> None:
    assert choose(None, {}, concepts=1000) == StringsWeight(0.26, 0.26, [])


@pytest.mark.parametrize("weight", [0.0, 0.4])
def test_a_weight_that_is_given_is_used(weight: float) -> None:
    def fetch(rows: Mapping[str, Ints]) -> dict[str, WordCounts]:
        raise AssertionError("nothing is to be chosen")

    found = choose_strings_weight(held_out(1.0), fetch_counts=fetch, concepts=1000, setting=weight)
    assert (found.weight, found.points) == (weight, [])


def test_fewer_concepts_let_expect_a_larger_weight() -> None:
    sizes = [1, 40, 100, 300, 1000, 3000, 10**6]
    weights = [expected_weight(size) for size in sizes]
    assert weights == sorted(weights, reverse=True)
    assert (weights[0], weights[-2], weights[-1]) == (LARGEST_EXPECTED, *[DEFAULT_WEIGHTS["strings"]] * 2)


def test_a_choice_survives_json() -> None:
    found = choose(held_out(2.0), with_names())
    assert StringsWeight.from_json(json.loads(json.dumps(found.to_json()))) == found
