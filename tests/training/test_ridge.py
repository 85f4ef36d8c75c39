"""The ridge that the path chooses, against fits that know nothing of each other."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from problems import Problem
from scipy.sparse import csr_array

from cr5._typing import Array, Ints, Sparse
from cr5.errors import Cr5Error
from cr5.progress import Progress
from cr5.training import ridge, solver
from cr5.training.engines import Engine
from cr5.training.engines.cpu import CpuEngine
from cr5.training.ridge import RIDGES, RidgePath, held_out, score, select_ridge
from cr5.training.solver import Fit, reduced_rank_ridge

RANK = 8
Embed = Callable[[Fit, Mapping[str, Sparse]], dict[str, Array]]


def signal(concepts: int = 200, words: int = 120, topics: int = RANK, languages: int = 2, seed: int = 0) -> Problem:
    """Documents that say in words of their own what is the same in all languages, beside noise."""
    random = np.random.default_rng(seed)
    meaning = random.standard_normal((concepts, topics))
    blocks, labels = {}, {}
    for i in range(languages):
        ids = random.permutation(concepts)
        X = meaning[ids] @ random.standard_normal((topics, words)) / np.sqrt(topics)
        X = np.maximum(X + random.standard_normal(X.shape) - 0.5, 0)
        blocks[f"l{i}"] = csr_array((X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32))
        labels[f"l{i}"] = ids
    return Problem(blocks, labels)


def embed(fit: Fit, blocks: Mapping[str, Sparse]) -> dict[str, Array]:
    """Centred documents through the maps, as unit rows."""
    vectors = {lang: X @ fit.maps[lang] - fit.means[lang] @ fit.maps[lang] for lang, X in blocks.items()}
    return {lang: V / np.linalg.norm(V, axis=1, keepdims=True) for lang, V in vectors.items()}


def filled(given: Problem, memory: int | None = None) -> CpuEngine:
    """An engine that holds a problem."""
    engine = CpuEngine(memory)
    for lang, X in given.blocks.items():
        engine.put(lang, X, given.concepts[lang])
    return engine


def walk(given: Problem, embed: Embed = embed, **options: Any) -> RidgePath:
    return select_ridge(filled(given), given.concepts, embed, **options)


class Spy:
    """Watches every fit of a path: the engine and options it is given, the Z before it and after it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.given: list[tuple[Engine, dict[str, Any]]] = []
        self.before: list[list[Array]] = []
        self.after: list[list[Array]] = []
        self.fits: list[Fit] = []
        monkeypatch.setattr(ridge, "solve", self)

    def __call__(self, engine: Engine, **options: Any) -> Fit:
        self.before.append(engine.words.get("Z") if options["start"] == "engine" else [])
        self.given.append((engine, options))
        self.fits.append(solver.solve(engine, **options))
        self.after.append(engine.words.get("Z"))
        return self.fits[-1]


def scripted(monkeypatch: pytest.MonkeyPatch, *precisions: float) -> None:
    """Scores that are known beforehand."""
    left = iter(precisions)
    monkeypatch.setattr(ridge, "score", lambda vectors, concepts: (next(left), 0.5, 40))


def brute_force(given: Problem, ridge: float, seed: int) -> tuple[float, float]:
    """A fit from nothing to the end for one ridge; precision and reciprocal rank straight from CSLS."""
    held = set(np.flatnonzero(held_out(given.concepts, seed)).tolist())
    inside = {lang: np.array([c not in held for c in ids]) for lang, ids in given.concepts.items()}
    fit = reduced_rank_ridge(
        {lang: X[inside[lang]] for lang, X in given.blocks.items()},
        {lang: ids[inside[lang]] for lang, ids in given.concepts.items()},
        rank=RANK,
        ridge=ridge,
        tol=1e-4,
        seed=99,
    )
    vectors = embed(fit, {lang: X[~inside[lang]] for lang, X in given.blocks.items()})
    answers = {lang: ids[~inside[lang]] for lang, ids in given.concepts.items()}
    ranks = []
    for a in vectors:
        for b in vectors:
            if a != b:
                cosine = vectors[a] @ vectors[b].T
                r_a = np.sort(cosine, axis=1)[:, -10:].mean(axis=1)
                r_b = np.sort(cosine, axis=0)[-10:].mean(axis=0)
                order = np.argsort(-(2 * cosine - r_a[:, None] - r_b), axis=1)
                ranks += [1 + answers[b][row].tolist().index(c) for row, c in zip(order, answers[a], strict=True)]
    return float(np.mean(np.array(ranks) == 1)), float(np.mean(1 / np.array(ranks)))


@pytest.mark.parametrize("seed", [0, 1])
def test_the_path_scores_and_chooses_as_independent_fits_would(seed: int) -> None:
    given = signal(concepts=300, seed=seed)
    path = walk(given, rank=RANK, seed=seed)
    slow = {ridge: brute_force(given, ridge, seed) for ridge in RIDGES}
    for point in path.points:
        assert point.precision == pytest.approx(slow[point.ridge][0], abs=0.1)
        assert point.reciprocal_rank == pytest.approx(slow[point.ridge][1], abs=0.1)
    best = max(precision for precision, _ in slow.values())
    assert best > 0.3  # chance: 1 in 30
    noise = np.sqrt(best * (1 - best) / path.queries)
    assert slow[path.best_ridge][0] >= best - 2 * noise


def test_the_best_point_of_the_path_is_chosen_and_the_engine_holds_its_basis(monkeypatch: pytest.MonkeyPatch) -> None:
    spy, given = Spy(monkeypatch), signal()
    engine = filled(given)
    path = select_ridge(engine, given.concepts, embed, rank=RANK)
    best = max(path.points, key=lambda point: (point.precision, point.reciprocal_rank))
    assert path.best_ridge == best.ridge
    assert best is not path.points[-1]  # or any engine would hold it
    kept = spy.after[path.points.index(best)]
    assert all(np.array_equal(Z, other) for Z, other in zip(engine.words.get("Z"), kept, strict=True))
    assert [point.energy for point in path.points] == [fit.energy for fit in spy.fits]
    assert [point.steps for point in path.points] == [fit.steps for fit in spy.fits]


def test_a_path_leaves_nothing_but_the_best_basis_in_the_partitions() -> None:
    given = signal(60, 30)
    engine = filled(given)
    select_ridge(engine, given.concepts, embed, rank=4)
    assert [sorted(store) for store in engine.words.arrays] == [["D", "Z", "mean"]] * 2
    assert engine.documents.arrays == [{}, {}]


def test_a_fit_goes_on_from_the_basis_that_a_path_leaves() -> None:
    given = signal(concepts=300)
    engine = filled(given)
    path = select_ridge(engine, given.concepts, embed, rank=RANK)
    options: dict[str, Any] = {"rank": RANK, "ridge": path.best_ridge, "tol": 1e-3}
    warm = solver.solve(engine, start="engine", **options)
    cold = reduced_rank_ridge(*given, **options)
    np.testing.assert_allclose(warm.eigenvalues, cold.eigenvalues, rtol=1e-3)
    assert warm.products < cold.products


def test_held_out_concepts_are_absent_from_every_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    given = signal(languages=3)
    spy = Spy(monkeypatch)
    asked: list[Mapping[str, Sparse]] = []

    def watched(fit: Fit, blocks: Mapping[str, Sparse]) -> dict[str, Array]:
        asked.append(blocks)
        return embed(fit, blocks)

    path = walk(given, watched, rank=RANK, seed=5)
    held = np.flatnonzero(held_out(given.concepts, 5))
    assert len(held) == 20
    assert path.queries == 6 * 20
    for engine, _ in spy.given:
        blocks, concepts = engine.fetch_documents(np.ones(200, bool))
        for lang, ids in given.concepts.items():
            inside = ~np.isin(ids, held)
            np.testing.assert_array_equal(concepts[lang], ids[inside])
            assert not np.isin(concepts[lang], held).any()
            np.testing.assert_array_equal(blocks[lang].toarray(), given.blocks[lang].toarray()[inside])
    for waiting in asked:
        assert {lang: X.shape[0] for lang, X in waiting.items()} == {"l0": 20, "l1": 20, "l2": 20}


def test_each_fit_starts_from_the_last_and_with_the_options_given(monkeypatch: pytest.MonkeyPatch) -> None:
    spy = Spy(monkeypatch)
    path = walk(signal(), rank=RANK, seed=3, intercept="shared", tol=1e-6, max_steps=50)
    assert [options["ridge"] for _, options in spy.given] == list(RIDGES[: len(path.points)])
    assert [options["start"] for _, options in spy.given] == [None] + ["engine"] * (len(path.points) - 1)
    for before, last in zip(spy.before[1:], spy.after, strict=False):
        assert all(np.array_equal(Z, other) for Z, other in zip(before, last, strict=True))
    for i, (_, options) in enumerate(spy.given):
        steps = ridge.NEXT_STEPS if i else ridge.FIRST_STEPS
        expected = {"rank": RANK, "seed": 3, "intercept": "shared", "max_steps": steps, "tol": 0.0}
        assert options | expected == options
        assert spy.fits[i].steps == steps


def test_the_whole_path_takes_at_most_twice_the_products_of_one_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    given = signal(concepts=600, words=400, topics=40)
    few: dict[str, Any] = {"rank": RANK, "oversampling": 4}  # more columns beyond the 8 would make any fit easy
    spy = Spy(monkeypatch)
    scripted(monkeypatch, *range(6))  # ever better: no early end
    path = walk(given, **few)
    assert [point.ridge for point in path.points] == list(RIDGES)
    one = reduced_rank_ridge(*given, ridge=1.0, tol=0.03, **few)
    assert sum(fit.products for fit in spy.fits) <= 2 * one.products


@pytest.mark.parametrize(
    ("precisions", "walked", "chosen"),
    [
        ((0.5, 0.4, 0.3), 3, 0),
        ((0.5, 0.6, 0.5, 0.5), 4, 1),
        ((0.5, 0.4, 0.6, 0.5, 0.7, 0.6), 6, 4),
        ((0.1, 0.2, 0.3, 0.4, 0.5, 0.6), 6, 5),
        ((0.5, 0.5, 0.5), 3, 0),
    ],
)
def test_the_walk_ends_once_two_ridges_in_a_row_are_no_better(
    precisions: tuple[float, ...], walked: int, chosen: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, *precisions)
    seen: list[Progress] = []
    path = walk(signal(60, 30), rank=4, progress=seen.append)
    assert [point.precision for point in path.points] == list(precisions[:walked])
    assert path.best_ridge == RIDGES[chosen]
    assert [(p.stage, p.done, p.total) for p in seen] == [("choose the ridge", i, 6) for i in range(walked)]
    assert seen[1].note == f"ridge 30: P@1 {100 * precisions[0]:.1f}"


def test_equal_precision_is_decided_by_reciprocal_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = iter([(0.5, 0.6, 40), (0.5, 0.7, 40), (0.5, 0.65, 40), (0.4, 0.9, 40)])
    monkeypatch.setattr(ridge, "score", lambda vectors, concepts: next(scores))
    assert walk(signal(60, 30), rank=4).best_ridge == RIDGES[1]


def test_a_walk_that_is_stopped_keeps_what_it_has() -> None:
    given = signal()
    engine = filled(given)
    path = select_ridge(engine, given.concepts, embed, rank=RANK, should_stop=lambda: True)
    assert [point.ridge for point in path.points] == [path.best_ridge] == [RIDGES[0]]
    assert [Z.shape for Z in engine.words.get("Z")] == [(120, RANK + solver.OVERSAMPLING)] * 2


def test_the_same_seed_walks_the_same_path() -> None:
    one, other = (walk(signal(), rank=RANK, seed=2) for _ in range(2))
    assert [(p.ridge, p.precision, p.energy) for p in one.points] == [
        (p.ridge, p.precision, p.energy) for p in other.points
    ]


def test_a_path_within_a_memory_budget_is_the_same_path() -> None:
    given = signal()
    engine, scarce = filled(given), filled(given, 2**29)
    one, other = (select_ridge(each, given.concepts, embed, rank=RANK) for each in (engine, scarce))
    assert [replace(p, seconds=0) for p in one.points] == [replace(p, seconds=0) for p in other.points]
    for Z, same in zip(engine.words.get("Z"), scarce.words.get("Z"), strict=True):
        np.testing.assert_array_equal(Z, same)


def test_a_path_survives_json() -> None:
    path = walk(signal(60, 30), rank=4)
    assert RidgePath.from_json(json.loads(json.dumps(path.to_json()))) == path


# Held-out concepts


@pytest.mark.parametrize(("shared", "expected"), [(40, 20), (199, 20), (300, 30), (20_000, 1000)])
def test_a_tenth_of_the_shared_concepts_is_held_out_within_limits(shared: int, expected: int) -> None:
    mask = held_out({"a": np.arange(shared), "b": np.arange(shared)}, 0)
    assert (mask.shape, mask.sum()) == ((shared,), expected)


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


def test_too_few_shared_concepts_are_refused() -> None:
    concepts = {"a": np.arange(100), "b": np.arange(61, 200)}
    with pytest.raises(Cr5Error) as caught:
        held_out(concepts, 0)
    assert str(caught.value) == (
        '`ridge="auto"` needs 40 concepts that two languages share, and there are 39; '
        "give it as a number, such as `ridge=1`"
    )


# Scores


def each(n: int, *langs: str) -> dict[str, Ints]:
    return {lang: np.arange(n) for lang in langs}


def test_identical_vectors_score_one_and_constant_ones_at_most_chance() -> None:
    X = np.random.default_rng(0).standard_normal((30, 9))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    assert score({"a": X, "b": X, "c": X}, each(30, "a", "b", "c")) == (1, 1, 6 * 30)
    constant = np.ones((30, 1))
    precision, reciprocal, queries = score({"a": constant, "b": constant}, each(30, "a", "b"))
    assert (precision, queries) == (0, 60)
    assert reciprocal == pytest.approx(1 / 30)


def test_a_pair_of_languages_without_a_shared_concept_asks_nothing() -> None:
    X = np.eye(4)
    concepts = {"a": np.arange(4), "b": np.arange(4), "c": np.arange(4) + 10}
    assert score(dict.fromkeys("abc", X), concepts) == (1, 1, 8)


def test_a_path_takes_languages_that_are_never_held_out_together() -> None:
    blocks, concepts = signal(concepts=120, words=60, languages=3)
    concepts["l2"] = concepts["l2"] + 1000  # a language that shares nothing
    path = walk(Problem(blocks, concepts), rank=4)
    assert path.queries == 2 * 20


def test_a_rank_beyond_the_concepts_that_are_left_is_refused() -> None:
    given = signal(concepts=60)
    with pytest.raises(Cr5Error) as error:
        walk(given, rank=45)
    for fact in ("`rank=45`", "holds out 20 concepts and leaves 40", "`rank<=39`"):
        assert fact in str(error.value)
