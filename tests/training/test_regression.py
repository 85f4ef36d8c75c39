"""The regression onto concept targets: against dense algebra, on every engine, and against the solver's own maps."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from oracle import dense_regression
from problems import problem, random_subwords

from cr5._typing import Array
from cr5.settings import make_settings
from cr5.training.engines import Engine
from cr5.training.engines.cpu import CpuEngine
from cr5.training.pipeline import concept_targets, max_documents_per_concept, metric_scale
from cr5.training.regression import regress, set_targets
from cr5.training.solver import Fit, reduced_rank_ridge

CONCEPTS, RANK, RIDGE = 30, 4, 0.5


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    pytest.importorskip("distributed")
    from cr5.training.engines.dask import DaskEngine

    with DaskEngine(workers=2, shard_bytes=3_000) as engine:
        yield engine


def targets() -> Array:
    return np.random.default_rng(1).standard_normal((CONCEPTS, RANK))


def fitted(engine: Engine, *, has_subwords: bool = True, **options: Any) -> Fit:
    """The first language of a problem, fitted to random targets."""
    blocks, concepts = problem(1)
    concepts["l0"][-1] = CONCEPTS - 1  # the engine has all concepts
    M = random_subwords(blocks)["l0"] if has_subwords else None
    engine.put("l0", blocks["l0"], concepts["l0"], M)
    set_targets(engine, targets())
    return regress(engine, ridge=RIDGE, **{"tol": 1e-8, "max_steps": 500} | options)


def expected(*, has_subwords: bool = True, intercept: str = "language") -> Array:
    blocks, concepts = problem(1)
    concepts["l0"][-1] = CONCEPTS - 1
    M = random_subwords(blocks)["l0"] if has_subwords else None
    return dense_regression(blocks["l0"], targets()[concepts["l0"]], M, ridge=RIDGE, intercept=intercept)


@pytest.mark.parametrize("intercept", ["language", "shared"])
@pytest.mark.parametrize("has_subwords", [False, True], ids=["words", "subwords"])
def test_the_map_is_that_of_dense_algebra(engine: Engine, has_subwords: bool, intercept: str) -> None:
    fit = fitted(engine, has_subwords=has_subwords, intercept=intercept)
    assert fit.converged
    M = random_subwords(problem(1).blocks)["l0"]
    whole = np.vstack([fit.maps["l0"], M.T @ fit.maps["l0"]]) if has_subwords else fit.maps["l0"]
    np.testing.assert_allclose(whole, expected(has_subwords=has_subwords, intercept=intercept), atol=1e-5)
    folded = fit.maps["l0"] + (M @ (M.T @ fit.maps["l0"]) if has_subwords else 0)
    np.testing.assert_allclose(fit.folded_maps["l0"], folded, atol=1e-5)


@pytest.mark.dask
def test_a_cluster_has_the_map_of_one_machine(cluster: Any) -> None:
    blocks, _ = problem(1)
    M = random_subwords(blocks)["l0"]
    Z = fitted(cluster).maps["l0"]
    assert len(cluster.shards) > 1
    np.testing.assert_allclose(np.vstack([Z, M.T @ Z]), expected(), atol=1e-5)


def test_a_fit_continues_from_the_map_that_the_engine_holds(engine: Engine) -> None:
    cold = fitted(engine)
    warm = regress(engine, ridge=RIDGE, start="engine", tol=0.0, max_steps=1)
    assert warm.products < cold.products / 4
    np.testing.assert_allclose(warm.maps["l0"], cold.maps["l0"], atol=1e-5)


def test_what_is_not_converged_says_so() -> None:
    fit = fitted(CpuEngine(), max_steps=2)
    assert (fit.converged, fit.steps) == (False, 2)
    assert fit.residual > 1e-8


def test_targets_that_are_all_zero_have_the_map_zero() -> None:
    blocks, concepts = problem(1)
    engine = CpuEngine()
    engine.put("l0", blocks["l0"], concepts["l0"])
    set_targets(engine, np.zeros((CONCEPTS, RANK)))
    fit = regress(engine, ridge=RIDGE)
    assert fit.converged
    assert not fit.maps["l0"].any()


@pytest.mark.parametrize("intercept", ["language", "shared"])
@pytest.mark.parametrize("metric", ["signal", "orthonormal"])
def test_a_language_fitted_to_the_targets_of_its_own_model_has_the_map_that_it_has_there(
    metric: str, intercept: str
) -> None:
    blocks, concepts = problem(3)
    concepts["l1"][-1] = CONCEPTS - 1
    settings = make_settings(metric=metric, intercept=intercept)
    options: dict[str, Any] = {"intercept": intercept, "tol": 1e-9, "max_steps": 500}
    joint = reduced_rank_ridge(
        blocks, concepts, random_subwords(blocks), rank=RANK, ridge=RIDGE, concept_sums=True, **options
    )
    scale = metric_scale(joint, settings, max_documents_per_concept(concepts))
    vectors, shared_intercept = concept_targets(joint, concepts, scale, settings)
    engine = CpuEngine()
    engine.put("l1", blocks["l1"], concepts["l1"])
    set_targets(engine, vectors - shared_intercept)
    alone = regress(engine, ridge=RIDGE, **options)
    own = joint.maps["l1"] if scale is None else joint.maps["l1"] @ scale
    np.testing.assert_allclose(alone.maps["l1"], own, atol=1e-4 * np.abs(own).max())
