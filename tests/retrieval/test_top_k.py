"""Search against its definitions, written out one query at a time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import up_to
from ranked_vectors import MEASURES, csls, grid_vectors, mean_of_nearest, search, slow_ranks, unit
from ranks import counterpart_ranks

from cr5.retrieval.top_k import Measure, mutual_nearest, nearest

# nearest


@pytest.mark.parametrize("k", [1, 3, 29, 30])
def test_nearest_is_the_head_of_a_full_sort(k: int) -> None:
    queries, candidates = unit(8), unit(30, seed=1)
    found = nearest(queries, candidates, k)
    products = queries @ candidates.T
    np.testing.assert_array_equal(found.indices, np.argsort(-products, axis=1)[:, :k])
    np.testing.assert_allclose(found.scores, -np.sort(-products, axis=1)[:, :k], rtol=1e-6)


@given(seed=st.integers(0, 10_000), k=st.integers(0, 45))
@settings(max_examples=up_to(60), deadline=None)
def test_ties_go_to_the_lower_index_also_at_the_last_place(seed: int, k: int) -> None:
    queries, candidates = grid_vectors(5, seed), grid_vectors(40, seed + 1)
    found = nearest(queries, candidates, k)
    expected = [sorted(range(40), key=lambda c: (-float(q @ candidates[c]), c))[:k] for q in queries]
    assert found.indices.tolist() == expected


def test_a_penalty_is_subtracted_from_every_product() -> None:
    queries, candidates = unit(4), unit(9, seed=1)
    penalty = np.linspace(0, 2, 9)
    found = nearest(queries, candidates, 9, penalty=penalty)
    np.testing.assert_array_equal(found.indices, np.argsort(-(queries @ candidates.T - penalty), axis=1))


def test_more_neighbours_than_candidates_are_all_candidates() -> None:
    assert nearest(unit(3), unit(4, seed=1), 10).indices.shape == (3, 4)


def test_no_queries_or_no_candidates_find_nothing() -> None:
    assert nearest(unit(0), unit(4), 2).indices.shape == (0, 2)
    assert nearest(unit(3), unit(0), 2).indices.shape == (3, 0)
    for measure in MEASURES:
        assert search(unit(3), unit(0), 2, measure=measure).scores.shape == (3, 0)
        assert search(unit(0), unit(3), 2, measure=measure).scores.shape == (0, 2)


# search


@pytest.mark.parametrize("sizes", [(12, 25), (4, 25), (25, 4)])
@pytest.mark.parametrize("own", [True, False])
def test_csls_ranks_as_its_definition_and_scores_it_but_for_the_querys_own_term(
    sizes: tuple[int, int], own: bool
) -> None:
    queries, candidates = unit(sizes[0]), unit(sizes[1], seed=1)
    background = None if own else unit(17, seed=2)
    found = search(queries, candidates, 4, measure="csls", background=background)
    scores = csls(queries, candidates, background)
    np.testing.assert_array_equal(found.indices, np.argsort(-scores, axis=1)[:, :4])
    own_term = np.array([[mean_of_nearest(q, candidates)] for q in queries])
    np.testing.assert_allclose(found.scores, -np.sort(-scores, axis=1)[:, :4] + own_term, atol=1e-5)


def test_cosine_search_is_nearest() -> None:
    queries, candidates = unit(5), unit(9, seed=1)
    one, other = search(queries, candidates, 3), nearest(queries, candidates, 3)
    np.testing.assert_array_equal(one.indices, other.indices)
    np.testing.assert_array_equal(one.scores, other.scores)


def test_csls_takes_a_hub_down() -> None:
    # Candidate 0 is near to every query, and each query has a candidate of its own a little further away.
    queries = np.eye(4, dtype=np.float32)
    hub = np.full((1, 4), 0.5, np.float32)
    candidates = np.vstack([hub, 0.45 * np.eye(4, dtype=np.float32)])
    assert search(queries, candidates, 1).indices.ravel().tolist() == [0, 0, 0, 0]
    assert search(queries, candidates, 1, measure="csls").indices.ravel().tolist() == [1, 2, 3, 4]


# counterpart_ranks


@given(seed=st.integers(0, 10_000), measure=st.sampled_from(MEASURES))
@settings(max_examples=up_to(80), deadline=None)
def test_ranks_are_those_of_the_definition_with_ties_missing_and_several_answers(seed: int, measure: Measure) -> None:
    random = np.random.default_rng(seed)
    queries, candidates = grid_vectors(8, seed) / 8, grid_vectors(12, seed + 1)
    asked, answers = random.integers(0, 9, 8), random.integers(0, 9, 12)
    found = counterpart_ranks(queries, asked, candidates, answers, measure=measure)
    answered = np.isin(asked, answers)
    scores = queries[answered] @ candidates.T
    if measure == "csls" and answered.any():
        # Ten of fewer than ten: all of them, so r(c) is a plain mean; the query's own term moves nothing.
        scores = scores - (candidates @ queries[answered].T).mean(axis=1) / 2
    assert found.tolist() == slow_ranks(scores, asked[answered], answers)


@pytest.mark.parametrize("measure", MEASURES)
def test_ranks_of_random_vectors_are_those_of_the_definition(measure: Measure) -> None:
    queries, candidates = unit(30), unit(40, seed=1)
    asked, answers = np.arange(30) % 20, np.arange(40) % 25
    scores = csls(queries, candidates) if measure == "csls" else queries @ candidates.T
    assert counterpart_ranks(queries, asked, candidates, answers, measure=measure).tolist() == slow_ranks(
        scores, asked, answers
    )


def test_ties_count_against_the_answer() -> None:
    alike = np.ones((6, 2), np.float32)
    concepts = np.arange(6)
    for measure in MEASURES:
        assert counterpart_ranks(alike, concepts, alike, concepts, measure=measure).tolist() == [6] * 6


def test_a_zero_vector_finds_nothing() -> None:
    queries, candidates = np.zeros((1, 6), np.float32), unit(9)
    assert counterpart_ranks(queries, np.array([4]), candidates, np.arange(9)).tolist() == [9]


def test_the_best_of_several_right_answers_counts_and_the_others_do_not_stand_in_its_way() -> None:
    candidates = np.array([[1.0], [0.9], [0.8], [0.7]], np.float32)
    query = np.ones((1, 1), np.float32)
    for answers, rank in (([1, 1, 0, 0], 1), ([0, 1, 1, 0], 2), ([0, 0, 1, 1], 3), ([0, 1, 0, 1], 2)):
        assert counterpart_ranks(query, np.array([1]), candidates, np.array(answers)).tolist() == [rank]


@pytest.mark.parametrize("measure", MEASURES)
def test_queries_without_an_answer_are_left_out(measure: Measure) -> None:
    queries, candidates = unit(6), unit(5, seed=1)
    asked, answers = np.array([0, 70, 1, 71, 2, 72]), np.arange(5)
    found = counterpart_ranks(queries, asked, candidates, answers, measure=measure)
    only = counterpart_ranks(queries[::2], asked[::2], candidates, answers, measure=measure)
    np.testing.assert_array_equal(found, only)
    assert counterpart_ranks(queries, asked + 1000, candidates, answers, measure=measure).tolist() == []


def test_mutual_nearest_rows_have_each_other() -> None:
    nearest_b, nearest_a = np.array([1, 0, -1, 1, 2]), np.array([1, 3, -1])
    assert mutual_nearest(nearest_b, nearest_a).tolist() == [1, 3]
    assert mutual_nearest(np.array([-1, -1]), np.empty(0, np.int64)).tolist() == []
