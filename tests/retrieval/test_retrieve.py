"""Retrieval by both measures and several views, compared with brute force."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import up_to
from ranked_vectors import MEASURES, grid_vectors, mean_of_nearest, retrieve, search, slow_ranks, unit
from ranks import counterpart_ranks
from scipy.sparse import csr_array
from threadpoolctl import threadpool_info

from cr5._typing import Array, Ints
from cr5.errors import Cr5Error
from cr5.retrieval import kernels
from cr5.retrieval.block_products import BlockSizes, Matrix, WeightedView
from cr5.retrieval.top_k import Measure, nearest, nearest_in_views, retrieve_views, search_views

BLOCK = BlockSizes().candidates


# retrieve


class Expected(NamedTuple):
    ranks: list[int]
    indices: list[list[int]]
    scores: Array


def brute_force(
    queries: Array, asked: Ints, candidates: Array, answers: Ints, measure: Measure, k: int, background: Array | None
) -> Expected:
    """All scores in double precision, then everything one query at a time."""
    scores = queries.astype(float) @ candidates.astype(float).T
    if measure == "csls":
        others = queries if background is None else background
        to_others = np.sort(candidates.astype(float) @ others.astype(float).T, axis=1)[:, ::-1][:, :10]
        scores = 2 * scores - (to_others.mean(axis=1) if len(others) else 0)
    ranks, indices = [], []
    for row, concept in zip(scores, asked, strict=True):
        right = [s for s, c in zip(row, answers, strict=True) if c == concept]
        wrong = [s for s, c in zip(row, answers, strict=True) if c != concept]
        ranks.append(1 + sum(s >= max(right) - 1e-6 * max(1, abs(max(right))) for s in wrong) if right else 0)
        indices.append(sorted(range(len(row)), key=lambda c, row=row: (-row[c], c))[:k])  # type: ignore[misc]
    return Expected(ranks, indices, -np.sort(-scores, axis=1)[:, :k])


def check(
    queries: Array,
    asked: Ints,
    candidates: Array,
    answers: Ints,
    *,
    k: int = 10,
    background: Array | None = None,
    rows: Any = np.asarray,
    sizes: BlockSizes | None = None,
) -> None:
    """Both measures are what brute force finds."""
    others: Matrix | None = None if background is None else rows(background)
    found = retrieve(rows(queries), asked, rows(candidates), answers, k=k, background=others, sizes=sizes)
    assert list(found) == MEASURES
    for measure, hits in found.items():
        expected = brute_force(queries, asked, candidates, answers, measure, k, background)
        assert hits.ranks.tolist() == expected.ranks
        assert hits.indices.tolist() == expected.indices
        np.testing.assert_allclose(hits.scores, expected.scores, atol=1e-5)


KINDS = pytest.mark.parametrize("rows", [np.asarray, csr_array], ids=["dense", "sparse"])
BACKGROUNDS = pytest.mark.parametrize("background", [None, 0, 4, 17])


@KINDS
@BACKGROUNDS
def test_retrieval_is_what_brute_force_finds(rows: Any, background: int | None) -> None:
    # Several documents a concept on both sides; the concepts from 25 on have no counterpart.
    queries, candidates = unit(40), unit(60, seed=1)
    others = None if background is None else unit(background, seed=2)
    check(queries, np.arange(40) % 30, candidates, np.arange(60) % 25, background=others, rows=rows)


@KINDS
@given(seed=st.integers(0, 10_000), sizes=st.tuples(st.integers(0, 9), st.integers(0, 14)), k=st.integers(0, 16))
@settings(max_examples=up_to(60), deadline=None)
def test_ties_zero_rows_and_empty_sides_are_as_brute_force_has_them(
    rows: Any, seed: int, sizes: tuple[int, int], k: int
) -> None:
    # Every number up to 10 divides 2520: products and their means are whole numbers, so that ties are ties.
    random, (n, m) = np.random.default_rng(seed), sizes
    queries, candidates = grid_vectors(n, seed) * 2520, grid_vectors(m, seed + 1)
    check(queries, random.integers(0, 6, n), candidates, random.integers(0, 6, m), k=k, rows=rows)


@pytest.mark.slow
@given(
    seed=st.integers(0, 10_000),
    sizes=st.builds(BlockSizes, queries=st.integers(1, 12), candidates=st.integers(1, 12), products=st.integers(1, 60)),
)
@settings(max_examples=up_to(60), deadline=None)
def test_blocks_of_any_size_give_what_brute_force_finds(seed: int, sizes: BlockSizes) -> None:
    random = np.random.default_rng(seed)
    queries, candidates = grid_vectors(11, seed) * 2520, grid_vectors(23, seed + 1)
    background = grid_vectors(8, seed + 2) * 2520 if seed % 2 else None
    asked, answers = random.integers(0, 9, 11), random.integers(0, 9, 23)
    check(queries, asked, candidates, answers, k=5, background=background, sizes=sizes)


@pytest.mark.parametrize("rest", [-1, 0, 1])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_rows_at_the_end_of_a_block_are_neither_lost_nor_doubled(rest: int, threads: int) -> None:
    queries, candidates = unit(kernels.LANES + rest, 12), unit(2 * BLOCK + rest, 12, seed=1)
    sizes = BlockSizes(threads=threads)
    check(queries, np.arange(len(queries)), candidates, np.arange(len(candidates))[::-1], sizes=sizes)


def test_neighbourhood_means_are_taken_over_all_queries_however_many_are_processed_together() -> None:
    queries, candidates, concepts = unit(50), unit(30, seed=1), np.arange(50)
    check(queries, concepts, candidates, concepts[:30], sizes=BlockSizes(queries=7))
    check(queries, concepts, candidates, concepts[:30], background=unit(40, seed=2), sizes=BlockSizes(queries=7))


@pytest.mark.parametrize("size", [1, 7, 300])
def test_vectors_that_are_all_alike_score_nothing_in_whatever_block_they_are(size: int) -> None:
    # Of a length that no product is exact for: equal rows may differ in the last bits from block to block.
    n = 2 * BLOCK + 5
    alike = np.repeat(unit(1, size, seed=3), n, axis=0)
    for hits in retrieve(alike, np.arange(n), alike, np.arange(n)).values():
        assert hits.ranks.tolist() == [n] * n


def test_a_copy_of_the_answer_in_another_block_counts_against_it() -> None:
    queries, n = unit(5, 300), BLOCK
    candidates = np.vstack([unit(n + 3, 300, seed=1), queries, unit(2 * n, 300, seed=2), queries])
    concepts = np.arange(len(candidates)) + 100
    concepts[n + 3 : n + 8] = np.arange(5)
    for hits in retrieve(queries, np.arange(5), candidates, concepts, k=2).values():
        assert hits.ranks.tolist() == [2] * 5
    concepts[-5:] = np.arange(5)
    for hits in retrieve(queries, np.arange(5), candidates, concepts, k=2).values():
        assert hits.ranks.tolist() == [1] * 5


@KINDS
def test_zero_rows_score_nothing_and_are_numbers(rows: Any) -> None:
    queries, candidates = unit(4), unit(9, seed=1)
    queries[1], candidates[[3, 5]] = 0, 0
    check(queries, np.arange(4), candidates, np.arange(9), rows=rows)
    for hits in retrieve(rows(queries), np.arange(4), rows(candidates), np.arange(9)).values():
        assert np.isfinite(hits.scores).all()
    nothing = np.zeros((4, 6), np.float32)
    for hits in retrieve(rows(nothing), np.arange(4), rows(nothing), np.arange(4)).values():
        assert hits.ranks.tolist() == [4] * 4


@KINDS
def test_rows_of_any_length_are_ranked_by_their_products(rows: Any) -> None:
    queries, candidates = 30 * unit(12), unit(25, seed=1) * np.linspace(0, 5, 25, dtype=np.float32)[:, None]
    found = retrieve(rows(queries), np.arange(12), rows(candidates), np.arange(25), k=25)
    for measure, hits in found.items():
        expected = brute_force(queries, np.arange(12), candidates, np.arange(25), measure, 25, None)
        assert hits.ranks.tolist() == expected.ranks
        np.testing.assert_allclose(hits.scores, expected.scores, rtol=1e-5, atol=1e-4)


def test_vectors_that_say_nothing_are_found_at_chance() -> None:
    queries, candidates, concepts = unit(400, 30), unit(500, 30, seed=1), np.arange(500)
    for hits in retrieve(queries, concepts[:400], candidates, concepts).values():
        # The mean of 400 ranks that are drawn from 1 to 500: 250.5, with a standard error of 7.2.
        assert 250.5 - 4 * 7.2 < hits.ranks.mean() < 250.5 + 4 * 7.2
        assert (hits.ranks == 1).mean() < 0.02


def test_vectors_that_say_all_are_found() -> None:
    queries, concepts = unit(300, 30), np.arange(300)
    candidates = queries + 0.3 * unit(300, 30, seed=1)
    for hits in retrieve(queries, concepts, candidates, concepts).values():
        assert (hits.ranks == 1).mean() > 0.95
        np.testing.assert_array_equal(hits.indices[hits.ranks == 1, 0], concepts[hits.ranks == 1])


def test_the_other_functions_are_parts_of_retrieval() -> None:
    queries, candidates = unit(20), unit(33, seed=1)
    asked, answers = np.arange(20) % 15, np.arange(33) % 18
    for measure, hits in retrieve(queries, asked, candidates, answers, k=4).items():
        found = search(queries, candidates, 4, measure=measure)
        np.testing.assert_array_equal(found.indices, hits.indices)
        np.testing.assert_array_equal(found.scores, hits.scores)
        ranks = counterpart_ranks(queries, asked, candidates, answers, measure=measure)
        np.testing.assert_array_equal(ranks, hits.ranks)


def test_searches_at_the_same_time_do_not_disturb_each_other() -> None:
    problems = [(unit(30, seed=i), unit(3 * BLOCK, seed=i + 50)) for i in range(8)]
    before = threadpool_info()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda problem: nearest(problem[0], problem[1], 5).indices, problems))
    for (queries, candidates), indices in zip(problems, found, strict=True):
        np.testing.assert_array_equal(indices, nearest(queries, candidates, 5).indices)
    assert threadpool_info() == before


# Several views


def some_views(n: int, m: int, background: int | None = None) -> list[WeightedView]:
    """A dense view of weight 1 and two sparse ones, of different dimensions and scales."""
    views = []
    for i, (size, weight, kind) in enumerate([(6, 1.0, np.asarray), (20, 0.6, csr_array), (9, 13.0, csr_array)]):
        others = None if background is None else kind(unit(background, size, seed=30 + i))
        queries, candidates = unit(n, size, seed=10 + i), unit(m, size, seed=20 + i)
        views.append(WeightedView(kind(queries), kind(candidates), weight, others))
    return views


def dense_oracle(views: list[WeightedView], measure: Measure) -> Array:
    """Queries x candidates: the sum over views of weight q'c, or weight (2 q'c - r(c)), as one dense matrix."""

    def dense(matrix: Any) -> Array:
        return np.asarray(matrix if isinstance(matrix, np.ndarray) else matrix.toarray(), float)

    total = np.zeros((views[0].queries.shape[0], views[0].candidates.shape[0]))
    for view in views:
        queries, candidates = dense(view.queries), dense(view.candidates)
        background = queries if view.background is None else dense(view.background)
        products = queries @ candidates.T
        means = np.array([mean_of_nearest(c, background) for c in candidates])
        total += view.weight * (products if measure == "cosine" else 2 * products - means)
    return total


@pytest.mark.parametrize("background", [None, 17])
@pytest.mark.parametrize("sizes", [None, BlockSizes(7, 4, 20), BlockSizes(threads=3)])
def test_views_are_ranked_by_the_sum_of_their_weighted_scores(background: int | None, sizes: BlockSizes | None) -> None:
    views = some_views(25, 60, background)
    asked, answers = np.arange(25) % 21, np.arange(60) % 20
    for measure, hits in retrieve_views(views, asked, answers, k=8, sizes=sizes).items():
        scores = dense_oracle(views, measure)
        order = np.argsort(-scores, axis=1)[:, :8]
        np.testing.assert_array_equal(hits.indices, order)
        np.testing.assert_allclose(hits.scores, np.take_along_axis(scores, order, axis=1), rtol=1e-5, atol=1e-5)
        assert hits.ranks[hits.ranks > 0].tolist() == slow_ranks(scores, asked, answers)
        assert (hits.ranks == 0).tolist() == (asked == 20).tolist()
        found = search_views(views, 8, measure=measure, sizes=sizes)
        np.testing.assert_array_equal(found.indices, order)


def test_the_nearest_in_views_have_the_largest_sum_of_products_less_the_penalty() -> None:
    views, penalty = some_views(5, 30), np.linspace(0, 9, 30)
    found = nearest_in_views(views, 4, penalty=penalty)
    np.testing.assert_array_equal(found.indices, np.argsort(-(dense_oracle(views, "cosine") - penalty))[:, :4])


@pytest.mark.parametrize("background", [None, 17])
def test_one_view_of_weight_one_gives_bit_for_bit_what_its_matrices_give(background: int | None) -> None:
    [view, *_] = some_views(40, 3 * BLOCK, background)
    concepts = np.arange(40), np.arange(3 * BLOCK)
    of_views = retrieve_views([view], *concepts)
    of_pair = retrieve(view.queries, concepts[0], view.candidates, concepts[1], background=view.background)
    for measure in MEASURES:
        for one, other in zip(of_views[measure], of_pair[measure], strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_view_without_weight_changes_nothing_and_is_never_multiplied() -> None:
    class Forbidden(csr_array):  # type: ignore[misc]
        def __matmul__(self, other: Any) -> Any:
            raise AssertionError("a view of weight 0 was multiplied")

    views = some_views(12, 30)
    off = WeightedView(views[1].queries, Forbidden(views[1].candidates), 0)
    concepts = np.arange(12), np.arange(30)
    with_it, without = retrieve_views([off, views[0]], *concepts), retrieve_views(views[:1], *concepts)
    for measure in MEASURES:
        for one, other in zip(with_it[measure], without[measure], strict=True):
            np.testing.assert_array_equal(one, other)


def test_views_without_any_weight_say_nothing() -> None:
    off = [WeightedView(view.queries, view.candidates, 0) for view in some_views(12, 30)]
    for hits in retrieve_views(off, np.arange(12), np.arange(30)).values():
        assert hits.ranks.tolist() == [30] * 12


def test_views_must_be_of_the_same_rows_and_weights_not_negative() -> None:
    with pytest.raises(Cr5Error, match="12 x 30, 13 x 30"):
        search_views([some_views(12, 30)[0], some_views(13, 30)[1]], 3)
    with pytest.raises(Cr5Error, match="none"):
        search_views([], 3)
    with pytest.raises(Cr5Error, match="`weight=-1`"):
        WeightedView(unit(2), unit(3), -1)
    with pytest.raises(Cr5Error, match="`queries` have 5 dimensions and `candidates` 4"):
        WeightedView(csr_array((2, 5), dtype=np.float32), csr_array((3, 4), dtype=np.float32))


# All of them


@pytest.mark.parametrize("measure", MEASURES)
def test_several_blocks_give_what_one_block_gives(measure: Measure) -> None:
    queries, candidates, concepts = unit(23), unit(31, seed=1), np.arange(31)

    def results(sizes: BlockSizes | None) -> list[Array]:
        ranks = counterpart_ranks(queries, concepts[:23], candidates, concepts, measure=measure, sizes=sizes)
        return [*search(queries, candidates, 5, measure=measure, sizes=sizes), ranks]

    expected = results(None)
    for size in (1, 4, 22, 23):
        for one, other in zip(results(BlockSizes(size, size, size)), expected, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-6)


def test_more_rows_than_the_real_block_are_all_ranked() -> None:
    n = 2 * BLOCK + 3
    vectors = unit(n, 12)
    assert nearest(vectors, vectors, 1).indices.ravel().tolist() == list(range(n))
    assert counterpart_ranks(vectors, np.arange(n), vectors, np.arange(n)).tolist() == [1] * n


@pytest.mark.parametrize("measure", MEASURES)
def test_sparse_rows_rank_as_dense_ones(measure: Measure) -> None:
    queries, candidates = grid_vectors(9, 1), grid_vectors(14, 2)
    asked, answers = np.arange(9), np.arange(14)
    dense = search(queries, candidates, 4, measure=measure)
    sparse = search(csr_array(queries), csr_array(candidates), 4, measure=measure)
    np.testing.assert_array_equal(sparse.indices, dense.indices)
    np.testing.assert_allclose(sparse.scores, dense.scores, atol=1e-6)
    np.testing.assert_array_equal(
        counterpart_ranks(csr_array(queries), asked, csr_array(candidates), answers, measure=measure),
        counterpart_ranks(queries, asked, candidates, answers, measure=measure),
    )
