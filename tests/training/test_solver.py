"""The solver against the dense oracle, its invariances, and how it ends."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from oracle import dense_maps, with_subwords
from problems import filled, problem, random_subwords, stacked
from scipy.linalg import block_diag, subspace_angles
from scipy.sparse import csr_array

from cr5 import demo, settings
from cr5._typing import Array, Intercept, Ints, Sparse
from cr5.corpus.inputs import in_batches
from cr5.errors import Cr5Error, Cr5TypeError
from cr5.progress import Progress
from cr5.training import lobpcg, solver
from cr5.training.counted_corpus import count_corpus, subword_matrices
from cr5.training.engines import BlockInfo
from cr5.training.engines.cpu import CpuEngine
from cr5.training.lobpcg import POWER_STEPS
from cr5.training.solver import Fit, reduced_rank_ridge

SHAPES = {"n > p": (90, 25, 60), "p > n": (40, 90, 60), "few concepts": (60, 50, 12), "many concepts": (50, 60, 200)}


@pytest.mark.parametrize("languages", [1, 2, 4])
@pytest.mark.parametrize("intercept", ["language", "shared"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("ridge", [0.1, 3.0])
def test_solver_equals_the_dense_solution_of_the_papers_equations(
    languages: int, intercept: Intercept, shape: str, ridge: float
) -> None:
    documents, words, concepts = SHAPES[shape]
    blocks, labels = problem(languages, documents, words, concepts, seed=languages)
    fit = reduced_rank_ridge(blocks, labels, rank=6, ridge=ridge, intercept=intercept, tol=1e-7, max_steps=300)
    phi, eigenvalues = dense_maps(blocks, labels, rank=6, ridge=ridge, intercept=intercept)
    assert fit.converged
    np.testing.assert_allclose(fit.eigenvalues, eigenvalues, rtol=1e-6)
    assert subspace_angles(stacked(fit).astype(float), phi.T).max() < 1e-4  # sign and rotation are free


def test_arrays_in_place_of_a_dict_of_languages_are_named() -> None:
    X, numbers = csr_array(np.eye(3)), np.arange(3)
    with pytest.raises(Cr5TypeError, match="`blocks` is a csr_array; give a dict with an entry for each language"):
        reduced_rank_ridge(X, {"en": numbers}, rank=1, ridge=1.0)
    with pytest.raises(Cr5TypeError, match="`concepts` is an ndarray"):
        reduced_rank_ridge({"en": X}, numbers, rank=1, ridge=1.0)  # type: ignore[arg-type]
    with pytest.raises(Cr5Error, match="`concepts` has nothing for it"):
        reduced_rank_ridge({"en": X, "it": X}, {"en": numbers}, rank=1, ridge=1.0)


@pytest.mark.parametrize("intercept", ["language", "shared"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("languages", [1, 4])
def test_subwords_are_further_columns_that_are_linear_in_the_words(
    languages: int, intercept: Intercept, shape: str
) -> None:
    documents, words, concepts = SHAPES[shape]
    blocks, labels = problem(languages, documents, words, concepts, seed=languages)
    subwords = random_subwords(blocks)
    options: dict[str, Any] = {"rank": 6, "ridge": 1.0, "intercept": intercept}
    fit = reduced_rank_ridge(blocks, labels, subwords, tol=1e-7, max_steps=300, **options)
    phi, eigenvalues = dense_maps(with_subwords(blocks, subwords), labels, **options)
    assert fit.converged
    np.testing.assert_allclose(fit.eigenvalues, eigenvalues, rtol=1e-6)
    both = stacked(fit, subwords).astype(float)
    assert subspace_angles(both, phi.T).max() < 1e-4
    np.testing.assert_allclose(both.T @ both, np.eye(6), atol=1e-5)


@pytest.mark.parametrize("tol", [0.05, 1e-7])
def test_folded_maps_embed_words_as_words_and_subwords_together_do(tol: float) -> None:
    """However far a fit has converged: the maps of subwords are M' times those of the words at every step."""
    blocks, labels = problem(3)
    subwords = random_subwords(blocks)
    fit = reduced_rank_ridge(blocks, labels, subwords, rank=6, ridge=1.0, tol=tol)
    both = np.split(stacked(fit, subwords), np.cumsum([X.shape[1] for X in with_subwords(blocks, subwords).values()]))
    for (lang, X), Z in zip(with_subwords(blocks, subwords).items(), both, strict=False):
        np.testing.assert_allclose(blocks[lang] @ fit.folded_maps[lang], X @ Z, atol=1e-5)
    np.testing.assert_array_equal(fit.folded_maps["l1"], fit.maps["l1"])  # it has no subwords


def test_the_residual_is_that_of_the_pencil_with_subwords_in_the_jacobi_preconditioner() -> None:
    blocks, labels = problem(2, 200, 300, 150)
    subwords = random_subwords(blocks)
    options: dict[str, Any] = {"rank": 10, "ridge": 1.0, "intercept": "language"}
    fit = reduced_rank_ridge(blocks, labels, subwords, tol=0.05, **options)
    X = block_diag(*(X.toarray() - X.toarray().mean(axis=0) for X in with_subwords(blocks, subwords).values()))
    Y = np.eye(150)[np.concatenate(list(labels.values()))]
    A, B = X.T @ Y @ Y.T @ X, X.T @ X + np.eye(X.shape[1])
    Z = stacked(fit, subwords).astype(float) @ fit.eigenvectors
    R = A @ Z - B @ Z * fit.eigenvalues
    expected = np.sqrt((R**2 / np.diag(B)[:, None]).sum() / (fit.eigenvalues**2).sum())
    assert fit.residual == pytest.approx(expected, rel=0.3)  # the diagonal of B is as if words occurred independently


def exact_residual(fit: Fit, blocks: Mapping[str, Sparse], labels: Mapping[str, Ints], ridge: float) -> float:
    """|A Z - B Z Theta| in the norm of the Jacobi preconditioner, relative to Theta, with dense matrices."""
    X = block_diag(*(X.toarray() - X.toarray().mean(axis=0) for X in blocks.values()))
    Y = np.eye(1 + max(ids.max() for ids in labels.values()))[np.concatenate(list(labels.values()))]
    A, B = X.T @ Y @ Y.T @ X, X.T @ X + ridge * np.eye(X.shape[1])
    Z = stacked(fit).astype(float) @ fit.eigenvectors
    R = A @ Z - B @ Z * fit.eigenvalues
    return float(np.sqrt((R**2 / np.diag(B)[:, None]).sum() / (fit.eigenvalues**2).sum()))


@pytest.mark.parametrize("tol", [0.1, 0.05, 1e-3])
@pytest.mark.parametrize("seed", range(3))
def test_the_estimated_residual_of_a_last_step_is_hardly_above_the_exact_one(
    tol: float, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    estimates: list[float] = []
    estimate = lobpcg.Lobpcg.estimate_residual

    def record(self: lobpcg.Lobpcg, theta: Array, rank: int) -> float:
        estimates.append(estimate(self, theta, rank))
        return estimates[-1]

    monkeypatch.setattr(lobpcg.Lobpcg, "estimate_residual", record)
    blocks, labels = problem(2, 300, 400, 250, seed=seed)
    rank = 2 * lobpcg.PROBES
    fit = reduced_rank_ridge(blocks, labels, rank=rank, ridge=1.0, tol=tol)
    assert fit.converged
    assert fit.residual == estimates[-1]
    exact = exact_residual(fit, blocks, labels, 1.0)
    assert 0.97 * exact < fit.residual < 1.15 * exact
    assert fit.residual <= tol


@pytest.mark.parametrize("has_subwords", [False, True])
def test_what_a_last_step_leaves_out_is_computed_when_a_fit_goes_on(has_subwords: bool) -> None:
    """From a checkpoint and from what the engine holds; eigenvalues and sums are those of the maps."""
    blocks, labels = problem(3, 200, 300, 150)
    subwords = random_subwords(blocks) if has_subwords else {}
    options: dict[str, Any] = {"rank": 2 * lobpcg.PROBES, "ridge": 1.0, "concept_sums": True}
    saved: list[tuple[dict[str, Array], solver.SolverState]] = []

    def save(fetch: Callable[[], dict[str, Array]], position: solver.SolverState, is_stopped: bool) -> None:
        saved.append((fetch(), position))

    engine = filled(blocks, labels, subwords)
    first = solver.solve(engine, save_checkpoint=save, **options)
    start, position = saved[-1]
    continued = reduced_rank_ridge(blocks, labels, subwords, start=start, position=position, **options)
    assert (first.converged, continued.converged, continued.steps) == (True, True, first.steps)
    np.testing.assert_allclose(continued.eigenvalues, first.eigenvalues, rtol=1e-6)
    again = solver.solve(engine, start="engine", **options)
    assert (again.converged, again.steps) == (True, 0)
    np.testing.assert_allclose(again.eigenvalues, first.eigenvalues, rtol=1e-6)
    assert first.concept_sums is not None
    sums = np.zeros_like(first.concept_sums)
    for lang, X in blocks.items():
        np.add.at(sums, labels[lang], (X.toarray() - X.toarray().mean(axis=0)) @ first.folded_maps[lang])
    np.testing.assert_allclose(first.concept_sums, sums, atol=1e-5)


@pytest.mark.parametrize("subwords", [None, "no columns"])
def test_without_subwords_nothing_changes(subwords: str | None) -> None:
    blocks, labels = problem(2)
    none = {lang: csr_array((X.shape[1], 0)) for lang, X in blocks.items()} if subwords else None
    plain = reduced_rank_ridge(blocks, labels, rank=4, ridge=1.0)
    fit = reduced_rank_ridge(blocks, labels, none, rank=4, ridge=1.0)
    for lang in blocks:
        np.testing.assert_array_equal(fit.maps[lang], plain.maps[lang])
        assert fit.folded_maps[lang] is fit.maps[lang]


@pytest.mark.parametrize("intercept", ["language", "shared"])
def test_maps_are_orthonormal_over_all_languages_together(intercept: Intercept) -> None:
    fit = reduced_rank_ridge(*problem(3), rank=8, ridge=1.0, intercept=intercept, tol=1e-6)
    np.testing.assert_allclose(stacked(fit).T @ stacked(fit), np.eye(8), atol=1e-5)
    assert all(Z.dtype == np.float32 for Z in fit.maps.values())


def test_means_are_those_that_the_intercept_subtracts() -> None:
    blocks, labels = problem(2)
    total = sum(X.shape[0] for X in blocks.values())
    own = reduced_rank_ridge(blocks, labels, rank=4, ridge=1.0, intercept="language")
    shared = reduced_rank_ridge(blocks, labels, rank=4, ridge=1.0, intercept="shared")
    for lang, X in blocks.items():
        np.testing.assert_allclose(own.means[lang], X.sum(axis=0) / X.shape[0], rtol=1e-6)
        np.testing.assert_allclose(shared.means[lang], X.sum(axis=0) / total, rtol=1e-6)


def test_eigenvectors_are_eigenvectors_of_the_pencil() -> None:
    blocks, labels = problem(2)
    fit = reduced_rank_ridge(blocks, labels, rank=5, ridge=2.0, tol=1e-8, max_steps=300)
    centred = {lang: X.toarray() - X.toarray().mean(axis=0) for lang, X in blocks.items()}
    images = {lang: centred[lang] @ fit.maps[lang] for lang in blocks}
    sums = np.zeros((30, 5))
    for lang in blocks:
        np.add.at(sums, labels[lang], images[lang])
    A, B = sums.T @ sums, sum(G.T @ G for G in images.values()) + 2.0 * np.eye(5)
    V = fit.eigenvectors
    np.testing.assert_allclose(V.T @ B @ V, np.eye(5), atol=1e-5)
    np.testing.assert_allclose(V.T @ A @ V, np.diag(fit.eigenvalues), atol=1e-4)


@pytest.mark.parametrize("seed", range(6))
def test_single_precision_never_reports_more_energy_than_there_is(seed: int) -> None:
    blocks, labels = problem(3, 120, 150, 90, seed=seed, dtype=np.float32)
    _, exact = dense_maps(blocks, labels, rank=20, ridge=0.5, intercept="language")
    for tol in (0.3, 1e-2, 1e-4):
        fit = reduced_rank_ridge(blocks, labels, rank=20, ridge=0.5, tol=tol, max_steps=60)
        assert fit.energy <= exact.sum() * (1 + 1e-6)
        assert fit.energy >= exact.sum() * (0.8 if tol > 0.1 else 0.99)


@pytest.mark.parametrize("steps", [1, lobpcg.MAX_TRUSTED_UPDATES, lobpcg.MAX_TRUSTED_UPDATES + 1])
@pytest.mark.parametrize("has_subwords", [False, True])
def test_eigenvalues_and_sums_are_those_of_the_returned_maps(steps: int, has_subwords: bool) -> None:
    blocks, labels = problem(3, 120, 150, 90, dtype=np.float32)
    subwords = random_subwords(blocks) if has_subwords else {}
    options: dict[str, Any] = {"rank": 20, "ridge": 0.5, "tol": 0, "max_steps": steps, "concept_sums": True}
    fit = reduced_rank_ridge(blocks, labels, subwords, **options)
    sums, images = np.zeros((90, 20)), []
    for lang, X in blocks.items():
        images.append((X.toarray() - X.toarray().mean(axis=0)).astype(float) @ fit.folded_maps[lang])
        np.add.at(sums, labels[lang], images[-1])
    B, V = sum(G.T @ G for G in images) + 0.5 * np.eye(20), fit.eigenvectors
    np.testing.assert_allclose(V.T @ B @ V, np.eye(20), atol=2e-5)
    np.testing.assert_allclose(V.T @ sums.T @ sums @ V, np.diag(fit.eigenvalues), atol=2e-5)
    assert fit.concept_sums is not None
    np.testing.assert_allclose(fit.concept_sums, sums, atol=1e-5)


def test_energy_grows_with_every_step() -> None:
    blocks, labels = problem(2, 200, 300, 150)
    energies = [reduced_rank_ridge(blocks, labels, rank=10, ridge=1.0, tol=0, max_steps=k).energy for k in range(1, 5)]
    assert energies == sorted(energies)


def test_a_fit_that_is_stopped_says_so() -> None:
    blocks, labels = problem(2, 200, 300, 150)
    fit = reduced_rank_ridge(blocks, labels, rank=10, ridge=1.0, tol=1e-9, max_steps=2)
    assert (fit.converged, fit.steps) == (False, 2)
    assert fit.residual > 1e-9
    asked = iter([False, True])
    fit = reduced_rank_ridge(blocks, labels, rank=10, ridge=1.0, tol=1e-9, should_stop=lambda: next(asked))
    assert (fit.converged, fit.steps) == (False, 1)
    np.testing.assert_allclose(stacked(fit).T @ stacked(fit), np.eye(10), atol=1e-5)


@pytest.mark.parametrize("intercept", ["language", "shared"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("has_subwords", [False, True])
def test_a_fit_within_a_memory_budget_is_the_same_to_the_last_bit(
    intercept: Intercept, dtype: type, has_subwords: bool
) -> None:
    blocks, labels = problem(3, dtype=dtype)
    subwords = random_subwords(blocks) if has_subwords else {}
    options: dict[str, Any] = {"rank": 6, "ridge": 1.0, "intercept": intercept, "tol": 1e-3}
    plain = reduced_rank_ridge(blocks, labels, subwords, **options)
    scarce = reduced_rank_ridge(blocks, labels, subwords, engine=CpuEngine(memory=2**29), **options)
    assert np.array_equal(stacked(plain), stacked(scarce))
    assert all(np.array_equal(Z, scarce.folded_maps[lang]) for lang, Z in plain.folded_maps.items())
    assert np.array_equal(plain.eigenvalues, scarce.eigenvalues)
    assert (plain.steps, plain.products, plain.residual) == (scarce.steps, scarce.products, scarce.residual)


# Work


@pytest.fixture(scope="module")
def encyclopedia() -> CpuEngine:
    """The built-in corpus, weighed as the demo weighs it: 400 concepts in four languages, 15,000 words."""
    picked, engine = settings.make_settings(**demo.SETTINGS), CpuEngine()
    corpus = count_corpus(in_batches(demo.encyclopedia()), picked.tokeniser)
    vocabularies = corpus.fit_vocabularies(picked.weighting)
    corpus.load_into(engine, vocabularies, np.arange(len(corpus.concepts)), subword_matrices(vocabularies))
    return engine


@pytest.mark.slow
def test_a_fit_of_real_text_takes_few_products_and_finds_nearly_all_energy(encyclopedia: CpuEngine) -> None:
    rank = 100
    width = rank + solver.OVERSAMPLING
    fit = solver.solve(encyclopedia, rank=rank, ridge=1.0)
    tight = solver.solve(encyclopedia, rank=rank, ridge=1.0, tol=1e-3)
    assert fit.converged
    assert tight.converged
    assert 0.98 * tight.energy <= fit.energy <= tight.energy * (1 + 1e-5)
    # One product for the start, two for each power step, one for the restart, two for each step, one for the last
    # residual, and the maps once. Four steps are what it may take: it took three.
    assert fit.steps <= 4
    assert fit.products <= (1 + 2 * POWER_STEPS + 1 + 2 * 4 + 1) * width + rank


@pytest.mark.slow
def test_columns_that_have_converged_take_no_part_in_products(encyclopedia: CpuEngine) -> None:
    rank = 100
    width = rank + solver.OVERSAMPLING
    fit = solver.solve(encyclopedia, rank=rank, ridge=1.0, tol=1e-3)
    restarts = 1 + fit.steps // solver.RESTART_STEPS
    assert fit.products < (1 + 2 * POWER_STEPS + restarts + 2 * fit.steps + 1) * width + rank


def test_products_are_two_blocks_a_step_and_few_more() -> None:
    blocks, labels = problem(2, 200, 300, 150)
    width = 10 + solver.OVERSAMPLING
    fit = reduced_rank_ridge(blocks, labels, rank=10, ridge=1.0, tol=0, max_steps=5)
    # the start, its power steps and a restart, five steps, and the final check of the maps
    assert fit.products <= (1 + 2 * POWER_STEPS + 1) * width + 5 * 2 * width + 10


@pytest.mark.slow
def test_power_steps_at_the_start_find_more_energy_and_keep_the_columns_apart(
    encyclopedia: CpuEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    energies = []
    for count in (1, 3, 8):  # columns that are only divided by their lengths would be alike after eight
        monkeypatch.setattr(lobpcg, "POWER_STEPS", count)
        energies.append(solver.solve(encyclopedia, rank=100, ridge=1.0, tol=0, max_steps=0).energy)
    assert energies == sorted(energies)
    assert energies[0] < 0.97 * energies[-1]


@pytest.mark.slow
def test_the_shift_of_the_preconditioner_does_not_change_the_solution(
    encyclopedia: CpuEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    energies = []
    for shift in (0, 3, 9):
        monkeypatch.setattr(lobpcg, "SHIFT", shift)
        energies.append(solver.solve(encyclopedia, rank=100, ridge=1.0, tol=1e-3).energy)
    np.testing.assert_allclose(energies, energies[0], rtol=1e-5)


def test_progress_and_keep_see_every_step() -> None:
    seen: list[Progress] = []
    kept: list[int] = []
    blocks, labels = problem(2, 200, 300, 150)
    fit = reduced_rank_ridge(
        blocks,
        labels,
        rank=5,
        ridge=1.0,
        tol=1e-3,
        progress=seen.append,
        save_checkpoint=lambda fetch, *_: kept.append(fetch()["l0"].shape[0]),
    )
    assert [p.done for p in seen] == list(range(fit.steps + 1))
    assert "energy" in seen[-1].note
    assert kept == [300] * fit.steps


def test_the_same_seed_gives_the_same_maps_and_another_the_same_space() -> None:
    blocks, labels = problem(2)
    one, two = (reduced_rank_ridge(blocks, labels, rank=6, ridge=1.0, tol=1e-7, seed=3) for _ in range(2))
    assert all(np.array_equal(one.maps[lang], two.maps[lang]) for lang in blocks)
    other = reduced_rank_ridge(blocks, labels, rank=6, ridge=1.0, tol=1e-7, seed=4)
    assert subspace_angles(stacked(one), stacked(other)).max() < 1e-4


@pytest.mark.slow
@given(seed=st.integers(0, 10_000), intercept=st.sampled_from(["language", "shared"]))
@examples(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_order_of_documents_and_languages_and_names_of_concepts_do_not_matter(seed: int, intercept: Intercept) -> None:
    blocks, labels = problem(3, seed=seed)
    random = np.random.default_rng(seed)
    options: dict[str, Any] = {"rank": 5, "ridge": 1.0, "intercept": intercept, "tol": 1e-7, "max_steps": 300}
    plain = reduced_rank_ridge(blocks, labels, **options)
    renamed = random.permutation(30)
    shuffled_blocks, shuffled_labels = {}, {}
    for lang in reversed(blocks):
        order = random.permutation(blocks[lang].shape[0])
        shuffled_blocks[lang] = blocks[lang][order]
        shuffled_labels[lang] = renamed[labels[lang][order]]
    other = reduced_rank_ridge(shuffled_blocks, shuffled_labels, **options)
    np.testing.assert_allclose(other.eigenvalues, plain.eigenvalues, rtol=1e-6)
    V = np.vstack([other.maps[lang] for lang in blocks])
    gap = plain.eigenvalues[4] - dense_maps(blocks, labels, rank=6, ridge=1.0, intercept=intercept)[1][5]
    assert subspace_angles(V, stacked(plain)).max() < 1e-3 or gap < 1e-3


def test_a_rank_beyond_the_data_is_refused() -> None:
    blocks, labels = problem(2, concepts=8)
    with pytest.raises(Cr5Error, match="`rank=20` is more than the 7 dimensions"):
        reduced_rank_ridge(blocks, labels, rank=20, ridge=1.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_documents_that_are_all_alike_span_no_dimension(value: float, dtype: type) -> None:
    X = csr_array(np.full((20, 10), value, dtype))
    blocks, labels = {"a": X, "b": X}, {"a": np.arange(20), "b": np.arange(20)}
    with pytest.raises(Cr5Error, match="`rank=2` is more than the 0 dimensions"):
        reduced_rank_ridge(blocks, labels, rank=2, ridge=1.0)


def test_memory_is_predicted_within_reason() -> None:
    facts = [BlockInfo(i, 1000, 5000, 100_000, "float32") for i in range(3)]
    small, large = solver.memory_needed(facts, 1000, 100), solver.memory_needed(facts, 1000, 10_000)
    assert small > 3 * 2 * 8 * 100_000
    assert large > 10 * small
    more = [block._replace(subwords=7000, subword_nonzeros=90_000) for block in facts]
    extra = solver.memory_needed(more, 1000, 100) - small
    assert extra >= 3 * (2 * 8 * 90_000 + 4 * 12_000 * 120)  # M in both orientations; M'W and W + M M'W
    assert solver.memory_needed(more + more, 1000, 100) - solver.memory_needed(facts + facts, 1000, 100) == extra


@pytest.mark.slow
@pytest.mark.parametrize(("concepts", "words", "rank", "seed"), [(150, 2000, 149, 1), (250, 1500, 224, 0)])
def test_steps_after_the_solution_was_found_do_not_spoil_it(concepts: int, words: int, rank: int, seed: int) -> None:
    random = np.random.default_rng(seed)  # there is one eigenvector less than concepts: fewer than columns, or not
    topics = random.random((concepts, 12)) ** 4
    blocks, labels = {}, {}
    for lang in ("a", "b"):
        expected = topics @ random.random((12, words)) ** 6 / 3 + 0.3 * random.random((concepts, words)) ** 8
        X = np.log1p(random.poisson(expected))
        X = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)
        blocks[lang], labels[lang] = csr_array(X), np.arange(concepts)
    options: dict[str, Any] = {"rank": rank, "ridge": 30.0}
    double = {lang: X.astype(np.float64) for lang, X in blocks.items()}
    exact = dense_maps(double, labels, intercept="language", **options)[1]
    for max_steps in (3, 4, 8):
        fit = reduced_rank_ridge(blocks, labels, tol=0.0, max_steps=max_steps, **options)
        np.testing.assert_allclose(fit.eigenvalues, exact, rtol=1e-2)
        assert fit.energy <= exact.sum() * (1 + 1e-5)
