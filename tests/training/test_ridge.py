"""The ridge that the path chooses, against fits that know nothing of each other."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from problems import Problem
from ridge_paths import RANK, embed, filled, log_likelihood, path_of, signal

from cr5._typing import Array, Ints, Sparse
from cr5.progress import Progress
from cr5.training import ridge, solver
from cr5.training.engines import Engine
from cr5.training.ridge import (
    RIDGES,
    RidgePath,
    Scores,
    held_out,
    select_ridge,
    some_words,
)
from cr5.training.solver import Fit, reduced_rank_ridge


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


def scripted(
    monkeypatch: pytest.MonkeyPatch, *log_likelihoods: float, noise: float = 0.0, ranks: Sequence[float] = ()
) -> None:
    """Log likelihoods that are known beforehand, by concept with so much noise that differs between ridges.

    ``ranks`` are the mean reciprocal ranks, with the same noise.
    """
    left, ranks_left = iter(log_likelihoods), iter(ranks)

    def score(vectors: Mapping[str, Array], concepts: Mapping[str, Ints]) -> Scores:
        value = next(left)
        parts = np.random.default_rng(int(1000 * abs(value))).standard_normal(100)
        errors = noise * (parts - parts.mean()) / parts.std(ddof=1) / np.sqrt(2 * 100)
        rank = next(ranks_left, 0.6)
        return Scores(value, value / 100 + errors, rank / 100 + errors * bool(ranks), 0.5, rank, 40)

    monkeypatch.setattr(ridge, "score", score)


def brute_force(given: Problem, ridge: float, shares: tuple[float, ...], seed: int) -> tuple[float, float]:
    """A fit from nothing to the end for one ridge; log likelihood and precision straight from CSLS, mean of shares."""
    held = np.flatnonzero(held_out(given.concepts, seed))
    inside = {lang: ~np.isin(ids, held) for lang, ids in given.concepts.items()}
    fit = reduced_rank_ridge(
        {lang: X[inside[lang]] for lang, X in given.blocks.items()},
        {lang: ids[inside[lang]] for lang, ids in given.concepts.items()},
        rank=RANK,
        ridge=ridge,
        tol=1e-4,
        seed=99,
    )
    random = np.random.default_rng(seed)
    order = {lang: [ids.tolist().index(c) for c in held] for lang, ids in given.concepts.items()}
    whole = {lang: X[order[lang]] for lang, X in given.blocks.items()}
    results = []
    for share in shares:
        parts = {lang: some_words(X, share, random) for lang, X in whole.items()} if share < 1 else whole
        vectors = embed(fit, parts)
        pairs = []
        for a, b in permutations(vectors, 2):
            cosine = vectors[a] @ vectors[b].T
            r_a = np.sort(cosine, axis=1)[:, -10:].mean(axis=1)
            r_b = np.sort(cosine, axis=0)[-10:].mean(axis=0)
            pairs.append(2 * cosine - r_a[:, None] - r_b)
        precision = np.mean([np.mean(scores.argmax(axis=1) == np.arange(len(held))) for scores in pairs])
        likelihoods = [np.mean([log_likelihood(scores, t) for scores in pairs]) for t in np.geomspace(1, 512, 100)]
        results.append((max(likelihoods), precision))
    return float(np.mean([value for value, _ in results])), float(np.mean([value for _, value in results]))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_the_path_scores_and_chooses_as_independent_fits_would(seed: int) -> None:
    given = signal(concepts=400, seed=seed)
    path = path_of(given, rank=RANK, seed=seed)
    slow = {point.ridge: brute_force(given, point.ridge, path.shares, seed) for point in path.points}
    for point in path.points:
        assert point.log_likelihood == pytest.approx(slow[point.ridge][0], abs=0.1)
        assert point.precision == pytest.approx(slow[point.ridge][1], abs=0.1)
    chosen = next(point for point in path.points if point.ridge == path.ridge)
    assert chosen.precision > 0.2  # chance: 1 in 80
    assert slow[path.ridge][0] >= max(value for value, _ in slow.values()) - 2 * chosen.standard_error - 0.05


def test_a_path_tells_how_its_fits_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    spy = Spy(monkeypatch)
    path = path_of(signal(), rank=RANK)
    assert [point.energy for point in path.points] == [fit.energy for fit in spy.fits]
    assert [point.steps for point in path.points] == [fit.steps for fit in spy.fits]


def test_a_path_leaves_only_its_last_Z_in_the_partitions() -> None:
    given = signal(60, 30)
    engine = filled(given)
    select_ridge(engine, given.concepts, embed, rank=4)
    assert [sorted(store) for store in engine.words.arrays] == [["Z", "diagonal", "mean"]] * 2
    assert engine.documents.arrays == [{}, {}]


def test_held_out_concepts_are_absent_from_every_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    given = signal(languages=3)
    spy = Spy(monkeypatch)
    asked: list[Mapping[str, Sparse]] = []

    def watched(fit: Fit, blocks: Mapping[str, Sparse]) -> dict[str, Array]:
        asked.append(blocks)
        return embed(fit, blocks)

    path = path_of(given, watched, rank=RANK, seed=5)
    held = np.flatnonzero(held_out(given.concepts, 5))
    assert len(held) == 40
    assert path.queries == 6 * 40
    for engine, _ in spy.given:
        blocks, concepts = engine.fetch_documents(np.ones(200, bool))
        for lang, ids in given.concepts.items():
            inside = ~np.isin(ids, held)
            np.testing.assert_array_equal(concepts[lang], ids[inside])
            assert not np.isin(concepts[lang], held).any()
            np.testing.assert_array_equal(blocks[lang].toarray(), given.blocks[lang].toarray()[inside])
    for waiting in asked:
        assert {lang: X.shape[0] for lang, X in waiting.items()} == {"l0": 40, "l1": 40, "l2": 40}


def test_each_fit_starts_from_the_last_and_with_the_options_given(monkeypatch: pytest.MonkeyPatch) -> None:
    spy = Spy(monkeypatch)
    path = path_of(signal(), rank=RANK, seed=3, intercept="shared", tol=1e-6, max_steps=50)
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
    scripted(monkeypatch, *range(-6, 0), -9)  # ever better: no early end
    path = path_of(given, **few)
    assert [point.ridge for point in path.points[:6]] == list(RIDGES)
    one = reduced_rank_ridge(*given, ridge=1.0, tol=0.03, **few)
    assert sum(fit.products for fit in spy.fits[:6]) <= 2 * one.products


@pytest.mark.parametrize(
    ("values", "tried", "chosen"),
    [
        ((-1, -2, -3), 3, 0),
        ((-2, -1, -2, -2), 4, 1),
        ((-3, -4, -2, -3, -1, -2), 6, 4),
        ((-1, -1, -1), 3, 0),
    ],
)
def test_the_path_ends_once_two_ridges_in_a_row_are_no_better(
    values: tuple[float, ...], tried: int, chosen: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, *values, -9, -9)
    seen: list[Progress] = []
    path = path_of(signal(60, 30), rank=4, ridges=RIDGES, progress=seen.append)
    inside = [point for point in path.points if point.ridge <= RIDGES[0]]
    assert [point.log_likelihood for point in inside] == list(values[:tried])
    assert path.ridge == RIDGES[chosen]
    assert [(p.stage, p.done) for p in seen] == [("choose the ridge", i) for i in range(len(path.points))]
    assert seen[1].note == f"ridge 30: log likelihood {values[0]:.3f}"


# The best ridge, and how sure that is


def test_the_best_ridge_is_chosen_and_the_others_have_the_standard_error_of_their_difference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scripted(monkeypatch, -1.3, -1.05, -1.0, -1.1, -1.2, noise=0.1)
    path = path_of(signal(60, 30), rank=4)
    assert (path.ridge, path.note) == (3, "")
    best = path.points[2]
    assert best.standard_error == 0
    assert [point.standard_error for point in path.points if point is not best] == pytest.approx([0.1] * 4, rel=0.3)


@pytest.mark.parametrize(("noise", "chosen"), [(0.01, 10), (0.1, 30)])
def test_of_the_ridges_that_find_as_much_but_for_chance_the_most_likely_is_chosen(
    noise: float, chosen: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, -1.0, -2.0, -3.0, -4.0, -5.0, -6.0, noise=noise, ranks=[0.50, 0.55, 0.4, 0.3, 0.2, 0.1])
    assert path_of(signal(), rank=3).ridge == chosen


def test_ridges_are_compared_concept_by_concept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Concepts differ by far more than ridges do; a difference that all of them agree on is none of chance."""
    hard = np.random.default_rng(0).standard_normal(100)
    values = iter([-1.02, -1.01, -1.0, -1.01, -1.02])

    def score(vectors: Mapping[str, Array], concepts: Mapping[str, Ints]) -> Scores:
        value = next(values)
        return Scores(value, value / 100 + hard - hard.mean(), np.full(100, 0.006), 0.5, 0.6, 40)

    monkeypatch.setattr(ridge, "score", score)
    path = path_of(signal(60, 30), rank=4)
    assert (path.ridge, path.note) == (3, "")
    assert max(point.standard_error for point in path.points) < 1e-6


def test_a_flat_path_is_reported_and_takes_the_largest_ridge(monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(monkeypatch, -1.01, -1.0, -1.02, -1.03, noise=0.5)
    path = path_of(signal(60, 30), rank=4)
    assert path.ridge == 30
    assert path.note == "the ridge hardly matters: all from 1 to 30 are within one standard error"


@pytest.mark.parametrize(
    ("values", "tried", "chosen"),
    [
        ((-8, -7, -6, -5, -4, -3, -2, -2.5, -2.6), [*RIDGES, 0.03, 0.01], 0.03),
        ((-2, -3, -4, -1, -1.5), [30, 10, 3, 100, 300], 100),
    ],
)
def test_a_path_that_rises_to_an_end_goes_on_beyond_it(
    values: tuple[float, ...], tried: list[float], chosen: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, *values)
    path = path_of(signal(60, 30), rank=4)
    assert [point.ridge for point in path.points] == pytest.approx(tried)
    assert path.ridge == pytest.approx(chosen)
    assert path.note == ""


def test_a_path_that_rises_as_far_as_it_goes_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(monkeypatch, *range(-20, 0))
    path = path_of(signal(60, 30), rank=4)
    assert path.ridge == pytest.approx(ridge.SMALLEST_RIDGE)
    assert path.note == "the best ridge, 0.001, is the smallest that was tried; a smaller one may be better"


def test_a_path_to_larger_ridges_starts_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    spy = Spy(monkeypatch)
    scripted(monkeypatch, -2, -3, -4, -5)
    path = path_of(signal(60, 30), rank=4)
    assert [point.ridge for point in path.points] == [30, 10, 3, 100]
    assert [options["start"] for _, options in spy.given] == [None, "engine", "engine", None]
    first, later = ridge.FIRST_STEPS, ridge.NEXT_STEPS
    assert [options["max_steps"] for _, options in spy.given] == [first, later, later, first]


def test_a_path_that_is_interrupted_keeps_the_ridges_that_were_fitted() -> None:
    given = signal()
    engine = filled(given)
    path = select_ridge(engine, given.concepts, embed, rank=RANK, should_stop=lambda: True)
    assert [point.ridge for point in path.points] == [path.ridge] == [RIDGES[0]]
    assert [Z.shape for Z in engine.words.get("Z")] == [(120, RANK + solver.OVERSAMPLING)] * 2


def test_the_same_seed_gives_the_same_path() -> None:
    one, other = (path_of(signal(), rank=RANK, seed=2) for _ in range(2))
    assert [(p.ridge, p.log_likelihood, p.energy) for p in one.points] == [
        (p.ridge, p.log_likelihood, p.energy) for p in other.points
    ]


def test_a_path_within_a_memory_budget_is_the_same_path() -> None:
    given = signal()
    engine, scarce = filled(given), filled(given, 2**29)
    one, other = (select_ridge(each, given.concepts, embed, rank=RANK) for each in (engine, scarce))
    assert [replace(p, seconds=0) for p in one.points] == [replace(p, seconds=0) for p in other.points]
    for Z, same in zip(engine.words.get("Z"), scarce.words.get("Z"), strict=True):
        np.testing.assert_array_equal(Z, same)


def test_a_path_survives_json() -> None:
    path = path_of(signal(60, 30), rank=4)
    assert RidgePath.from_json(json.loads(json.dumps(path.to_json()))) == path
