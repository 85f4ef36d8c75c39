"""Held-out concepts and the scores by which ridges are compared."""

import json
from collections.abc import Mapping

import numpy as np
import pytest
from problems import Problem
from ridge_paths import RANK, each, embed, filled, log_likelihood, path_of, signal
from scipy.sparse import csr_array

from cr5._typing import Array, Sparse
from cr5.errors import Cr5Error
from cr5.training import ridge
from cr5.training.ridge import (
    MAX_WEIGHT_PAIRS,
    RidgePath,
    held_out,
    held_out_count,
    one_for_each_concept,
    score,
    scored_pairs,
    select_ridge,
    some_words,
)
from cr5.training.solver import Fit

# Held-out concepts


@pytest.mark.parametrize(
    ("shared", "expected"), [(39, 0), (40, 8), (300, 60), (4_000, 500), (7_000, 700), (20_000, 1000)]
)
def test_a_tenth_of_the_shared_concepts_is_held_out_and_more_of_few(shared: int, expected: int) -> None:
    mask = held_out({"a": np.arange(shared), "b": np.arange(shared)}, 0)
    assert (mask.shape, mask.sum(), held_out_count(shared)) == ((shared,), expected, expected)


def test_only_concepts_of_two_languages_are_held_out() -> None:
    concepts = {"a": np.arange(0, 100), "b": np.arange(50, 150), "c": np.r_[np.arange(120, 170), 160, 160]}
    for seed in range(5):
        chosen = np.flatnonzero(held_out(concepts, seed))
        assert set(chosen) <= {*range(50, 100), *range(120, 150)}


def test_the_seed_chooses_the_concepts() -> None:
    concepts = {"a": np.arange(100), "b": np.arange(100)}
    first, again, other = (held_out(concepts, seed) for seed in (0, 0, 1))
    assert (first == again).all()
    assert (first != other).any()


def test_too_few_concepts_to_choose_on_take_the_default_ridge_with_a_note() -> None:
    given = signal(concepts=39)
    engine = filled(given)
    path = select_ridge(engine, given.concepts, embed, rank=RANK)
    assert (path.ridge, path.points, path.queries) == (ridge.DEFAULT_RIDGE, [], 0)
    assert path.note == "the ridge is 3, not chosen: 39 shared concepts are too few to hold some out"
    assert RidgePath.from_json(json.loads(json.dumps(path.to_json()))) == path


# Documents that are neither too easy nor too hard to find


def test_some_words_are_a_random_share_of_each_row_scaled_to_length_one() -> None:
    random = np.random.default_rng(0)
    dense = np.abs(random.standard_normal((40, 30))) * (random.random((40, 30)) < np.linspace(0, 1, 40)[:, None])
    X = csr_array(dense.astype(np.float32))
    assert (np.diff(X.indptr) == 0).any()
    Y = some_words(X, 0.5, np.random.default_rng(1))
    np.testing.assert_array_equal(np.diff(Y.indptr), np.ceil(np.diff(X.indptr) / 2))
    for row, part in zip(X.toarray(), Y.toarray(), strict=True):
        kept = part > 0
        np.testing.assert_allclose(part[kept], row[kept] / max(np.linalg.norm(row[kept]), 1e-9), rtol=1e-5)
    assert (some_words(X, 0.5, np.random.default_rng(2)).toarray() != Y.toarray()).any()
    np.testing.assert_array_equal(np.diff(some_words(X, 1e-9, random).indptr), np.diff(X.indptr) > 0)


def test_the_longest_document_of_a_concept_is_the_query() -> None:
    X = csr_array(np.array([[1, 0, 0], [1, 1, 0], [0, 0, 1], [1, 1, 1], [0, 1, 0]], np.float32))
    blocks, concepts, rows = one_for_each_concept({"a": X}, {"a": np.array([7, 7, 2, 7, 5])})
    np.testing.assert_array_equal(concepts["a"], [2, 5, 7])
    np.testing.assert_array_equal(rows["a"], [2, 4, 3])
    np.testing.assert_array_equal(blocks["a"].toarray(), X.toarray()[rows["a"]])


def test_a_path_has_the_vectors_of_whole_held_out_documents_by_the_chosen_ridge() -> None:
    given, kept = signal(), []

    def watch(fit: Fit, blocks: Mapping[str, Sparse]) -> dict[str, Array]:
        kept.append((blocks, embed(fit, blocks)))
        return kept[-1][1]

    path = path_of(given, watch, rank=RANK)
    assert path.held_out is not None
    tried = [(blocks, vectors) for blocks, vectors in kept if blocks is kept[0][0]]  # not the shortened ones
    vectors = tried[[point.ridge for point in path.points].index(path.ridge)][1]
    for lang, rows in path.held_out.rows.items():
        np.testing.assert_array_equal(given.concepts[lang][rows], path.held_out.concepts[lang])
        np.testing.assert_array_equal(given.blocks[lang][rows].toarray(), tried[0][0][lang].toarray())
        np.testing.assert_array_equal(path.held_out.vectors[lang], vectors[lang])


def test_the_vectors_of_a_few_pairs_of_languages_are_kept() -> None:
    held = path_of(signal(60, 30, languages=9), rank=4).held_out
    assert held is not None
    assert len(scored_pairs(held.concepts, MAX_WEIGHT_PAIRS)) == MAX_WEIGHT_PAIRS
    assert set(held.vectors) == {lang for pair in scored_pairs(held.concepts, MAX_WEIGHT_PAIRS) for lang in pair}


def test_where_documents_are_easily_found_parts_of_them_are_searched_too() -> None:
    random = np.random.default_rng(0)
    rows = (random.random((400, 300)) < 0.2) * random.random((400, 300))  # the other language: word for word
    X = csr_array((rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32))
    given = Problem({"a": X, "b": X}, {"a": np.arange(400), "b": np.arange(400)})
    path = path_of(given, rank=60)
    assert path.shares == (1.0, 0.7, 0.5)
    assert all(point.precision < 0.99 for point in path.points)  # of whole documents: 1
    assert len({point.log_likelihood for point in path.points}) == len(path.points)


def test_where_few_documents_are_found_they_are_whole() -> None:
    path = path_of(signal(seed=3), rank=2)
    assert path.points[0].precision < 0.5
    assert path.shares == (1.0,)


def unit_rows(*shape: int, seed: int = 0) -> Array:
    X = np.random.default_rng(seed).standard_normal(shape)
    return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True))


def test_identical_vectors_score_one_and_constant_ones_at_most_chance() -> None:
    X = unit_rows(30, 9)
    perfect = score({"a": X, "b": X, "c": X}, each(30, "a", "b", "c"))
    assert [perfect.precision, perfect.reciprocal_rank, perfect.queries] == pytest.approx([1, 1, 180])
    assert perfect.log_likelihood == pytest.approx(0, abs=1e-6)
    constant = np.ones((30, 1))
    chance = score({"a": constant, "b": constant}, each(30, "a", "b"))
    assert (chance.precision, chance.queries) == (0, 60)
    assert chance.reciprocal_rank == pytest.approx(1 / 30)
    assert chance.log_likelihood == pytest.approx(-np.log(30))


def test_the_likelihood_is_that_of_the_best_temperature() -> None:
    A, B = unit_rows(80, 9), unit_rows(80, 9, seed=1)
    B = (A + B) / np.linalg.norm(A + B, axis=1, keepdims=True)
    cosine = A @ B.T
    csls = 2 * cosine - np.sort(cosine)[:, -10:].mean(axis=1)[:, None] - np.sort(cosine, axis=0)[-10:].mean(axis=0)
    best = max(log_likelihood(csls, t) + log_likelihood(csls.T, t) for t in np.geomspace(1, 512, 500)) / 2
    scored = score({"a": A, "b": B}, each(80, "a", "b"))
    assert scored.log_likelihood == pytest.approx(best, rel=0.02)
    assert scored.by_concept.sum() == pytest.approx(scored.log_likelihood)


def test_the_likelihood_tells_apart_what_precision_cannot() -> None:
    X = unit_rows(50, 20)
    scored = []
    for amount in (1.5, 2.5):  # the first document resembles the second one, more or less
        other = X.copy()
        other[0] = (X[0] + amount * X[1]) / np.linalg.norm(X[0] + amount * X[1])
        scored.append(score({"a": X, "b": other}, each(50, "a", "b")))
    assert scored[0].precision == scored[1].precision < 1
    assert scored[0].log_likelihood > scored[1].log_likelihood + 0.001


def test_every_pair_of_languages_has_the_same_weight() -> None:
    X, noise = unit_rows(100, 8), unit_rows(100, 8, seed=1)
    vectors = {"a": X, "b": X, "c": noise[:10]}  # c shares ten concepts, and none of them is found
    concepts = each(100, "a", "b") | each(10, "c")
    together = score(vectors, concepts)
    alone = {
        (x, y): score({x: vectors[x], y: vectors[y]}, {x: concepts[x], y: concepts[y]})
        for x, y in (("a", "b"), ("a", "c"), ("b", "c"))
    }
    assert together.queries == 2 * (100 + 10 + 10)
    assert together.precision == pytest.approx(np.mean([each.precision for each in alone.values()]))
    assert together.precision < 0.5


def test_scores_of_several_versions_of_the_documents_are_their_mean_and_still_add_up() -> None:
    X, concepts = unit_rows(50, 8), each(50, "a", "b")
    versions = [score({"a": X, "b": unit_rows(50, 8, seed=seed)}, concepts) for seed in (1, 2, 3)]
    mean = ridge._mean(versions)
    for name in ("log_likelihood", "precision", "reciprocal_rank"):
        assert getattr(mean, name) == pytest.approx(np.mean([getattr(each, name) for each in versions]))
    assert mean.by_concept.sum() == pytest.approx(mean.log_likelihood)
    assert mean.ranks_by_concept.sum() == pytest.approx(mean.reciprocal_rank)
    assert mean.queries == versions[0].queries


def test_of_many_pairs_of_languages_a_fixed_number_is_scored() -> None:
    vectors = {lang: unit_rows(20, 8, seed=i) for i, lang in enumerate("abcdef")}
    concepts = each(20, *"abcde") | {"f": np.arange(100, 120)}  # f shares nothing
    scored = score(vectors, concepts, max_pairs=4)
    assert scored.queries == 2 * 4 * 20
    assert score(vectors, concepts, max_pairs=4).log_likelihood == scored.log_likelihood


def test_a_pair_of_languages_without_a_shared_concept_has_no_queries() -> None:
    X = np.eye(4)
    concepts = {"a": np.arange(4), "b": np.arange(4), "c": np.arange(4) + 10}
    scored = score(dict.fromkeys("abc", X), concepts)
    assert [scored.precision, scored.queries] == pytest.approx([1, 8])


def test_a_path_takes_languages_that_are_never_held_out_together() -> None:
    blocks, concepts = signal(concepts=120, words=60, languages=3)
    concepts["l2"] = concepts["l2"] + 1000  # a language that shares nothing
    path = path_of(Problem(blocks, concepts), rank=4)
    assert path.queries == 2 * 24


def test_a_rank_beyond_the_concepts_that_are_left_is_refused() -> None:
    given = signal(concepts=60)
    with pytest.raises(Cr5Error) as error:
        path_of(given, rank=48)
    for fact in ("`rank=48`", "holds out 12 concepts and leaves 48", "`rank<=47`"):
        assert fact in str(error.value)


def test_some_words_are_scaled_to_length_one_over_words_and_ngrams() -> None:
    random = np.random.default_rng(0)
    X = csr_array(random.random((6, 9)) * (random.random((6, 9)) < 0.6)).astype(np.float32)
    M = random.random((9, 4)).astype(np.float32)
    Y = some_words(X, 0.5, random, 1 + (M**2).sum(axis=1)).toarray()
    # Every word has n-grams of its own, as in the definition of the length of a row.
    lengths = np.sqrt((Y**2).sum(axis=1) + (Y**2 @ M**2).sum(axis=1))
    np.testing.assert_allclose(lengths[np.diff(X.indptr) > 0], 1, rtol=1e-6)
