"""Scores of vectors whose score is known: perfect ones, constant ones, shuffled ones."""

import json
import math

import numpy as np
import pytest

from cr5._typing import Array, Ints
from cr5.evaluate.baselines import shared_tokens
from cr5.evaluate.retrieval import CUTOFFS, MEASURES, Direction, chance, mean_precision, retrieval
from cr5.neighbours import counterpart_ranks


def unit(n: int, size: int = 8, seed: int = 0) -> Array:
    X = np.random.default_rng(seed).standard_normal((n, size)).astype(np.float32)
    return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True))


def same_concepts(n: int, *langs: str) -> dict[str, Ints]:
    return {lang: np.arange(n) for lang in langs}


def of(directions: list[Direction], source: str, target: str) -> Direction:
    return next(d for d in directions if (d.source, d.target) == (source, target))


# Retrieval


def test_identical_vectors_score_100() -> None:
    X = unit(50)
    directions = retrieval({"a": X, "b": X, "c": X}, same_concepts(50, "a", "b", "c"))
    assert [(d.source, d.target) for d in directions] == [
        ("a", "b"), ("a", "c"), ("b", "a"), ("b", "c"), ("c", "a"), ("c", "b"),
    ]  # fmt: skip
    for direction in directions:
        assert direction.cosine == direction.csls == {1: 100.0, 5: 100.0, 10: 100.0}
        assert (direction.queries, direction.candidates) == (50, 50)


def test_constant_vectors_score_nothing() -> None:
    X = np.ones((50, 1), np.float32)
    for direction in retrieval({"a": X, "b": X}, same_concepts(50, "a", "b")):
        assert direction.cosine == direction.csls == {1: 0.0, 5: 0.0, 10: 0.0}


@pytest.mark.parametrize("measure", MEASURES)
def test_shuffled_concepts_score_at_chance(measure: str) -> None:
    n, rounds = 100, 20
    found = dict.fromkeys(CUTOFFS, 0.0)
    for seed in range(rounds):
        X = unit(n, seed=seed)
        shuffled = {"a": np.arange(n), "b": np.random.default_rng(seed).permutation(n)}
        directions = retrieval({"a": X, "b": X}, shuffled)
        for k in CUTOFFS:
            found[k] += mean_precision(directions, measure, k) / rounds  # type: ignore[arg-type]
    assert chance(directions) == 1.0
    for k, percent in found.items():
        # 2,000 questions, each right with probability k / n; either direction asks nearly the same ones.
        assert abs(percent - k) < 4 * 100 * math.sqrt(k / n * (1 - k / n) / (n * rounds))


def test_precision_at_k_is_the_share_of_ranks_up_to_k() -> None:
    A, B = unit(40, 3), unit(60, 3, seed=1)
    concepts = {"a": np.arange(40), "b": np.arange(60) % 45}
    direction = of(retrieval({"a": A, "b": B}, concepts), "a", "b")
    for measure in MEASURES:
        ranks = counterpart_ranks(A, concepts["a"], B, concepts["b"], measure=measure)
        expected = {k: 100 * sum(rank <= k for rank in ranks.tolist()) / 40 for k in (1, 5, 10)}
        assert getattr(direction, measure) == pytest.approx(expected)


def test_only_the_concepts_asked_are_queries_and_all_documents_are_candidates() -> None:
    A, B = unit(30, 3), unit(30, 3, seed=1)
    asked = np.array([3, 7, 11, 99])
    direction = of(retrieval({"a": A, "b": B}, same_concepts(30, "a", "b"), asked), "b", "a")
    assert (direction.queries, direction.candidates) == (3, 30)
    ranks = counterpart_ranks(B[[3, 7, 11]], asked[:3], A, np.arange(30), measure="csls")
    assert direction.csls[10] == pytest.approx(100 * float((ranks <= 10).mean()))


def test_queries_without_an_answer_do_not_count() -> None:
    X = unit(6)
    concepts = {"a": np.arange(6), "b": np.array([0, 1, 2, 7, 8, 9])}
    directions = retrieval({"a": X, "b": X}, concepts)
    assert [d.queries for d in directions] == [3, 3]
    assert mean_precision(directions, "cosine") == 100


def test_a_pair_of_languages_that_shares_no_concept_is_left_out() -> None:
    X = unit(6)
    concepts = {"a": np.arange(6), "b": np.arange(6) + 100, "c": np.arange(6)}
    directions = retrieval(dict.fromkeys("abc", X), concepts)
    assert [(d.source, d.target) for d in directions] == [("a", "c"), ("c", "a")]


def test_means_and_chance_are_over_directions() -> None:
    directions = [
        Direction("a", "b", 10, 50, {1: 10.0, 5: 30.0, 10: 60.0}, {1: 20.0, 5: 40.0, 10: 70.0}),
        Direction("b", "a", 99, 200, {1: 30.0, 5: 50.0, 10: 80.0}, {1: 60.0, 5: 80.0, 10: 90.0}),
    ]
    assert mean_precision(directions, "cosine") == 20
    assert mean_precision(directions, "csls", 5) == 60
    assert chance(directions) == pytest.approx((2 + 0.5) / 2)


def test_a_direction_is_plain_values() -> None:
    X = unit(12)
    direction = retrieval({"a": X, "b": X}, same_concepts(12, "a", "b"))[0]
    plain = json.loads(json.dumps(direction.to_json()))
    assert (plain["source"], plain["queries"], plain["csls"]["1"]) == ("a", 12, 100.0)


# The floor

TRAINING = {"en": ["the dog and the cat", "the house", "the Nokia"], "it": ["il cane e il gatto", "la casa", "il 1984"]}


def test_texts_that_share_a_rare_string_are_matched() -> None:
    texts = {
        "en": ["the Shakespeare play", "the year 1789", "a house in Ouagadougou"],
        "it": ["una casa a Ouagadougou", "l'opera di Shakespeare", "l'anno 1789"],
    }
    rows = shared_tokens(TRAINING, texts)
    concepts = {"en": np.array([0, 1, 2]), "it": np.array([2, 0, 1])}
    assert mean_precision(retrieval(rows, concepts), "cosine") == 100


def test_texts_that_share_no_string_are_orthogonal() -> None:
    rows = shared_tokens(TRAINING, {"en": ["the dog", ""], "it": ["il cane", "!"]})
    assert abs(rows["en"] @ rows["it"].T).sum() == 0
    floor = retrieval(rows, same_concepts(2, "en", "it"))
    assert mean_precision(floor, "cosine") == 0


def test_all_languages_have_the_same_columns_and_rows_of_length_one() -> None:
    rows = shared_tokens(TRAINING, {"en": ["the dog 1984", "Nokia"], "it": ["gatto Nokia"]})
    assert rows["en"].shape[1] == rows["it"].shape[1]
    for X in rows.values():
        np.testing.assert_allclose((X.toarray() ** 2).sum(axis=1), 1, rtol=1e-6)


def test_idf_comes_from_the_training_texts_of_all_languages_only() -> None:
    # Of 6 training texts: "casa" in 1, "il" in 2, "nokia" in 1, "zzz" in none.
    def idf(df: int) -> float:
        return math.log((1 + 6) / (1 + df)) + 1

    rows = shared_tokens(TRAINING, {"en": ["zzz nokia"], "it": ["il casa zzz zzz"]})
    length = math.hypot(idf(0), idf(1)) * math.hypot(idf(2), idf(1), (1 + math.log(2)) * idf(0))
    cosine = (rows["en"] @ rows["it"].T).toarray()[0, 0]
    assert cosine == pytest.approx(idf(0) * (1 + math.log(2)) * idf(0) / length, rel=1e-6)


def test_the_other_texts_that_are_scored_change_nothing() -> None:
    few = {"en": ["the zzz Nokia"], "it": ["il zzz 1984 Nokia"]}
    many = {"en": [*few["en"], *["zzz nokia"] * 50], "it": [*few["it"], *["zzz"] * 50]}
    one, other = shared_tokens(TRAINING, few), shared_tokens(TRAINING, many)
    assert (one["en"] @ one["it"].T).toarray()[0, 0] == pytest.approx((other["en"] @ other["it"].T).toarray()[0, 0])
