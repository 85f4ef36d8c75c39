"""Candidates: documents as arrays, and the order of the best."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cr5.index.candidates import PARTS, TITLE, VECTORS, WORDS, Candidates, best_first
from cr5.index.stores.base import CandidateRows


def candidates(ids: str) -> Candidates:
    vectors = np.arange(len(ids), dtype=np.float32)[:, None] + np.zeros(2, np.float32)
    return Candidates.of_rows(CandidateRows([*ids], ["aa"] * len(ids), vectors, vectors[:, :1]))


@given(st.lists(st.sampled_from([0.0, 0.1, 0.5, -np.inf]), max_size=9), st.integers(1, 10), st.randoms())
def test_the_best_are_those_with_the_largest_scores_and_then_the_smallest_ids(scores, k, random) -> None:  # type: ignore[no-untyped-def]
    ids = random.sample("abcdefghi", len(scores))
    expected = sorted(range(len(ids)), key=lambda i: (-scores[i], ids[i]))[:k]
    assert best_first(np.array(scores), ids, k) == expected


def test_the_relevance_is_the_sum_of_the_parts_from_0_to_1() -> None:
    some = candidates("abc")
    values = some.part_values
    values[:, WORDS], values[:, TITLE], values[:, VECTORS] = [0.25, 0.75, 0], [0.5, 0.5, 0], [0, 0, -0.1]
    np.testing.assert_array_equal(some.relevance, [0.75, 1, 0])
    first, last = some.documents([0, 2])
    assert (first.id, first.relevance, first.parts) == ("a", 0.75, {"words": 0.25, "title": 0.5})
    assert (last.id, last.relevance, last.parts) == ("c", 0.0, {PARTS[VECTORS]: -0.1})


def test_candidates_are_taken_left_out_and_joined_with_all_their_values() -> None:
    some, none = candidates("abcd"), candidates("")
    some.evidence[:], some.passages[:] = [1, 2, 3, 4], [4, 3, 2, 1]
    both = some.without({"b", "d", "x"}) + some.select_rows([3])
    assert (both.ids, both.langs) == (["a", "c", "d"], ["aa"] * 3)
    np.testing.assert_array_equal(both.vectors, some.vectors[[0, 2, 3]])
    np.testing.assert_array_equal(both.hubness, some.hubness[[0, 2, 3]])
    np.testing.assert_array_equal(both.part_values, some.part_values[[0, 2, 3]])
    assert (both.evidence.tolist(), both.passages.tolist()) == ([1, 3, 4], [4, 2, 1])
    assert (some + none).ids == (none + some).ids == some.ids
    assert len(none + none) == len(some.without("abcd")) == 0
