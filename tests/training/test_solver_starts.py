"""Fits that start from earlier ones: from their maps, from a checkpoint, or from what the engine holds."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import dense_maps
from problems import filled, problem, random_subwords, stacked
from scipy.linalg import subspace_angles

from cr5._typing import Array
from cr5.errors import Cr5Error
from cr5.training import solver
from cr5.training.solver import reduced_rank_ridge


def test_a_start_from_an_earlier_Z_saves_products() -> None:
    blocks, labels = problem(2, 200, 300, 150)
    cold = reduced_rank_ridge(blocks, labels, rank=10, ridge=1.0, tol=1e-3)
    warm = reduced_rank_ridge(blocks, labels, rank=10, ridge=1.0, tol=1e-3, start=cold.maps)
    assert warm.steps <= 1
    assert warm.products < cold.products / 2
    np.testing.assert_allclose(warm.eigenvalues, cold.eigenvalues, rtol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("rank", [3, 10, 40])
def test_a_start_of_words_determines_that_of_their_subwords(rank: int) -> None:
    blocks, labels = problem(3, 200, 300, 150)
    subwords = random_subwords(blocks)
    options: dict[str, Any] = {"rank": 10, "ridge": 1.0, "tol": 1e-4, "max_steps": 300}
    cold = reduced_rank_ridge(blocks, labels, subwords, **options)
    earlier = reduced_rank_ridge(blocks, labels, subwords, **options | {"rank": rank}).maps
    warm = reduced_rank_ridge(blocks, labels, subwords, start=earlier, **options)
    np.testing.assert_allclose(warm.eigenvalues, cold.eigenvalues, rtol=1e-5)
    assert warm.steps < cold.steps


@pytest.mark.slow
def test_a_checkpoint_of_a_fit_with_subwords_is_a_start_that_continues() -> None:
    blocks, labels = problem(3, 200, 300, 150)
    subwords = random_subwords(blocks)
    options: dict[str, Any] = {"rank": 10, "ridge": 1.0, "tol": 1e-4}
    saved: list[dict[str, Array]] = []

    def save(fetch: Callable[[], dict[str, Array]], *_: Any) -> None:
        saved.append(fetch())

    cold = reduced_rank_ridge(blocks, labels, subwords, save_checkpoint=save, **options)
    assert {lang: len(Z) for lang, Z in saved[-1].items()} == {lang: X.shape[1] for lang, X in blocks.items()}
    continued = reduced_rank_ridge(blocks, labels, subwords, start=saved[-1], **options)
    assert (continued.converged, continued.steps) == (True, 0)
    np.testing.assert_allclose(continued.eigenvalues, cold.eigenvalues, rtol=1e-6)
    engine = filled(blocks, labels, subwords)
    first = solver.solve(engine, **options | {"max_steps": 2})
    assert not first.converged
    assert solver.solve(engine, start="engine", **options).products < cold.products


@pytest.mark.parametrize("has_subwords", [False, True])
@pytest.mark.parametrize("after", [1, 5, solver.RESTART_STEPS])
def test_a_fit_that_is_continued_ends_where_an_uninterrupted_one_does(after: int, has_subwords: bool) -> None:
    blocks, labels = problem(3, 200, 300, 150)
    subwords = random_subwords(blocks) if has_subwords else {}
    options: dict[str, Any] = {"rank": 10, "ridge": 1.0, "tol": 0, "max_steps": 14}
    saved: dict[int, tuple[dict[str, Array], solver.SolverState]] = {}

    def save(fetch: Callable[[], dict[str, Array]], position: solver.SolverState, is_stopped: bool) -> None:
        saved[position.steps] = fetch(), position

    whole = reduced_rank_ridge(blocks, labels, subwords, save_checkpoint=save, **options)
    start, position = saved[after]
    continued = reduced_rank_ridge(blocks, labels, subwords, start=start, position=position, **options)
    assert continued.steps == whole.steps
    np.testing.assert_allclose(continued.eigenvalues, whole.eigenvalues, rtol=1e-9)
    assert subspace_angles(stacked(continued).astype(float), stacked(whole).astype(float)).max() < 1e-5
    elsewhere = reduced_rank_ridge(blocks, labels, subwords, start=start, **options | {"max_steps": 14 - after})
    if after < solver.RESTART_STEPS:  # without P it ends elsewhere
        assert abs(elsewhere.energy / whole.energy - 1) > 1e-9


@pytest.mark.parametrize("rank", [3, 10, 40])
def test_a_start_may_have_fewer_columns_or_more(rank: int) -> None:
    blocks, labels = problem(2, 200, 300, 150)
    options: dict[str, Any] = {"rank": 10, "ridge": 1.0, "tol": 1e-4, "max_steps": 300}
    cold = reduced_rank_ridge(blocks, labels, **options)
    earlier = reduced_rank_ridge(blocks, labels, **options | {"rank": rank}).maps
    before = {lang: Z.copy() for lang, Z in earlier.items()}
    warm = reduced_rank_ridge(blocks, labels, start=earlier, **options)
    np.testing.assert_allclose(warm.eigenvalues, cold.eigenvalues, rtol=1e-5)
    assert warm.steps <= cold.steps
    assert all(np.array_equal(Z, before[lang]) for lang, Z in earlier.items())  # what is given stays as it was


def test_a_start_with_rows_for_other_words_is_refused() -> None:
    blocks, labels = problem(2, 200, 300, 150)
    earlier = {lang: np.ones((X.shape[1] + 7, 5)) for lang, X in blocks.items()}
    with pytest.raises(Cr5Error, match=r"`start` has 307 rows for the 300 words of language l0; .*checkpoint"):
        reduced_rank_ridge(blocks, labels, rank=5, ridge=1.0, start=earlier)


def test_a_start_from_the_engine_continues_from_the_Z_that_it_holds() -> None:
    blocks, labels = problem(2)
    phi, eigenvalues = dense_maps(blocks, labels, rank=6, ridge=1.0, intercept="language")
    engine = filled(blocks, labels)
    engine.words.set("Z", np.split(phi.T, [blocks["l0"].shape[1]]))
    fit = solver.solve(engine, rank=6, ridge=1.0, tol=1e-6, start="engine")
    assert (fit.converged, fit.steps) == (True, 0)  # it began with the answer
    np.testing.assert_allclose(fit.eigenvalues, eigenvalues, rtol=1e-6)


def test_a_fit_leaves_the_Z_that_the_next_one_continues_from() -> None:
    blocks, labels = problem(2, 200, 300, 150)
    options: dict[str, Any] = {"rank": 10, "ridge": 1.0, "tol": 1e-4}
    engine = filled(blocks, labels)
    first = solver.solve(engine, **options | {"max_steps": 4})
    second = solver.solve(engine, start="engine", **options)
    cold = reduced_rank_ridge(blocks, labels, **options)
    np.testing.assert_allclose(second.eigenvalues, cold.eigenvalues, rtol=1e-5)
    assert not first.converged
    assert second.converged
    assert second.products < cold.products
    assert solver.solve(engine, start="engine", **options).steps == 0
