"""The ridge that the path chooses, against fits that know nothing of each other."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
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
from cr5.training.ridge import (
    MAX_WEIGHT_PAIRS,
    RIDGES,
    RidgePath,
    Scores,
    held_out,
    held_out_count,
    one_for_each_concept,
    score,
    scored_pairs,
    select_ridge,
    some_words,
)
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


def log_likelihood(scores: Array, inverse_temperature: float) -> float:
    """Of the diagonal of queries x candidates, straight from the definition."""
    scaled = inverse_temperature * scores.astype(np.float64)
    return float(np.mean(np.diagonal(scaled) - np.logaddexp.reduce(scaled, axis=1)))


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
    path = walk(given, rank=RANK, seed=seed)
    slow = {point.ridge: brute_force(given, point.ridge, path.shares, seed) for point in path.points}
    for point in path.points:
        assert point.log_likelihood == pytest.approx(slow[point.ridge][0], abs=0.1)
        assert point.precision == pytest.approx(slow[point.ridge][1], abs=0.1)
    chosen = next(point for point in path.points if point.ridge == path.ridge)
    assert chosen.precision > 0.2  # chance: 1 in 80
    assert slow[path.ridge][0] >= max(value for value, _ in slow.values()) - 2 * chosen.standard_error - 0.05


def test_a_path_tells_how_its_fits_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    spy = Spy(monkeypatch)
    path = walk(signal(), rank=RANK)
    assert [point.energy for point in path.points] == [fit.energy for fit in spy.fits]
    assert [point.steps for point in path.points] == [fit.steps for fit in spy.fits]


def test_a_path_leaves_nothing_but_its_last_basis_in_the_partitions() -> None:
    given = signal(60, 30)
    engine = filled(given)
    select_ridge(engine, given.concepts, embed, rank=4)
    assert [sorted(store) for store in engine.words.arrays] == [["D", "Z", "mean"]] * 2
    assert engine.documents.arrays == [{}, {}]


def test_held_out_concepts_are_absent_from_every_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    given = signal(languages=3)
    spy = Spy(monkeypatch)
    asked: list[Mapping[str, Sparse]] = []

    def watched(fit: Fit, blocks: Mapping[str, Sparse]) -> dict[str, Array]:
        asked.append(blocks)
        return embed(fit, blocks)

    path = walk(given, watched, rank=RANK, seed=5)
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
    scripted(monkeypatch, *range(-6, 0), -9)  # ever better: no early end
    path = walk(given, **few)
    assert [point.ridge for point in path.points[:6]] == list(RIDGES)
    one = reduced_rank_ridge(*given, ridge=1.0, tol=0.03, **few)
    assert sum(fit.products for fit in spy.fits[:6]) <= 2 * one.products


@pytest.mark.parametrize(
    ("values", "walked", "chosen"),
    [
        ((-1, -2, -3), 3, 0),
        ((-2, -1, -2, -2), 4, 1),
        ((-3, -4, -2, -3, -1, -2), 6, 4),
        ((-1, -1, -1), 3, 0),
    ],
)
def test_the_walk_ends_once_two_ridges_in_a_row_are_no_better(
    values: tuple[float, ...], walked: int, chosen: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, *values, -9, -9)
    seen: list[Progress] = []
    path = walk(signal(60, 30), rank=4, ridges=RIDGES, progress=seen.append)
    inside = [point for point in path.points if point.ridge <= RIDGES[0]]
    assert [point.log_likelihood for point in inside] == list(values[:walked])
    assert path.ridge == RIDGES[chosen]
    assert [(p.stage, p.done) for p in seen] == [("choose the ridge", i) for i in range(len(path.points))]
    assert seen[1].note == f"ridge 30: log likelihood {values[0]:.3f}"


# The best ridge, and how sure that is


def test_the_best_ridge_is_chosen_and_the_others_have_the_standard_error_of_their_difference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scripted(monkeypatch, -1.3, -1.05, -1.0, -1.1, -1.2, noise=0.1)
    path = walk(signal(60, 30), rank=4)
    assert (path.ridge, path.note) == (3, "")
    best = path.points[2]
    assert best.standard_error == 0
    assert [point.standard_error for point in path.points if point is not best] == pytest.approx([0.1] * 4, rel=0.3)


@pytest.mark.parametrize(("noise", "chosen"), [(0.01, 10), (0.1, 30)])
def test_of_the_ridges_that_find_as_much_but_for_chance_the_most_likely_is_chosen(
    noise: float, chosen: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, -1.0, -2.0, -3.0, -4.0, -5.0, -6.0, noise=noise, ranks=[0.50, 0.55, 0.4, 0.3, 0.2, 0.1])
    assert walk(signal(), rank=3).ridge == chosen


def test_ridges_are_compared_concept_by_concept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Concepts differ by far more than ridges do; a difference that all of them agree on is none of chance."""
    hard = np.random.default_rng(0).standard_normal(100)
    values = iter([-1.02, -1.01, -1.0, -1.01, -1.02])

    def score(vectors: Mapping[str, Array], concepts: Mapping[str, Ints]) -> Scores:
        value = next(values)
        return Scores(value, value / 100 + hard - hard.mean(), np.full(100, 0.006), 0.5, 0.6, 40)

    monkeypatch.setattr(ridge, "score", score)
    path = walk(signal(60, 30), rank=4)
    assert (path.ridge, path.note) == (3, "")
    assert max(point.standard_error for point in path.points) < 1e-6


def test_a_flat_path_is_reported_and_takes_the_largest_ridge(monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(monkeypatch, -1.01, -1.0, -1.02, -1.03, noise=0.5)
    path = walk(signal(60, 30), rank=4)
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
    path = walk(signal(60, 30), rank=4)
    assert [point.ridge for point in path.points] == pytest.approx(tried)
    assert path.ridge == pytest.approx(chosen)
    assert path.note == ""


def test_a_path_that_rises_as_far_as_it_goes_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(monkeypatch, *range(-20, 0))
    path = walk(signal(60, 30), rank=4)
    assert path.ridge == pytest.approx(ridge.SMALLEST_RIDGE)
    assert path.note == "the best ridge, 0.001, is the smallest that was tried; a smaller one may be better"


def test_a_path_that_goes_up_starts_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    spy = Spy(monkeypatch)
    scripted(monkeypatch, -2, -3, -4, -5)
    path = walk(signal(60, 30), rank=4)
    assert [point.ridge for point in path.points] == [30, 10, 3, 100]
    assert [options["start"] for _, options in spy.given] == [None, "engine", "engine", None]
    assert path.points[3].steps == ridge.FIRST_STEPS


def test_a_walk_that_is_stopped_keeps_what_it_has() -> None:
    given = signal()
    engine = filled(given)
    path = select_ridge(engine, given.concepts, embed, rank=RANK, should_stop=lambda: True)
    assert [point.ridge for point in path.points] == [path.ridge] == [RIDGES[0]]
    assert [Z.shape for Z in engine.words.get("Z")] == [(120, RANK + solver.OVERSAMPLING)] * 2


def test_the_same_seed_walks_the_same_path() -> None:
    one, other = (walk(signal(), rank=RANK, seed=2) for _ in range(2))
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
    path = walk(signal(60, 30), rank=4)
    assert RidgePath.from_json(json.loads(json.dumps(path.to_json()))) == path


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


def test_the_longest_document_of_a_concept_is_asked_for() -> None:
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

    path = walk(given, watch, rank=RANK)
    assert path.held_out is not None
    tried = [(blocks, vectors) for blocks, vectors in kept if blocks is kept[0][0]]  # not the shortened ones
    vectors = tried[[point.ridge for point in path.points].index(path.ridge)][1]
    for lang, rows in path.held_out.rows.items():
        np.testing.assert_array_equal(given.concepts[lang][rows], path.held_out.concepts[lang])
        np.testing.assert_array_equal(given.blocks[lang][rows].toarray(), tried[0][0][lang].toarray())
        np.testing.assert_array_equal(path.held_out.vectors[lang], vectors[lang])


def test_the_vectors_of_a_few_pairs_of_languages_are_kept() -> None:
    held = walk(signal(60, 30, languages=9), rank=4).held_out
    assert held is not None
    assert len(scored_pairs(held.concepts, MAX_WEIGHT_PAIRS)) == MAX_WEIGHT_PAIRS
    assert set(held.vectors) == {lang for pair in scored_pairs(held.concepts, MAX_WEIGHT_PAIRS) for lang in pair}


def test_where_documents_are_easily_found_parts_of_them_are_searched_too() -> None:
    random = np.random.default_rng(0)
    rows = (random.random((400, 300)) < 0.2) * random.random((400, 300))  # the other language: word for word
    X = csr_array((rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32))
    given = Problem({"a": X, "b": X}, {"a": np.arange(400), "b": np.arange(400)})
    path = walk(given, rank=60)
    assert path.shares == (1.0, 0.7, 0.5)
    assert all(point.precision < 0.99 for point in path.points)  # of whole documents: 1
    assert len({point.log_likelihood for point in path.points}) == len(path.points)


def test_where_few_documents_are_found_they_are_whole() -> None:
    path = walk(signal(seed=3), rank=2)
    assert path.points[0].precision < 0.5
    assert path.shares == (1.0,)


# Scores


def each(n: int, *langs: str) -> dict[str, Ints]:
    return {lang: np.arange(n) for lang in langs}


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


def test_of_many_pairs_of_languages_a_fixed_number_is_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ridge, "MAX_PAIRS", 4)
    vectors = {lang: unit_rows(20, 8, seed=i) for i, lang in enumerate("abcdef")}
    concepts = each(20, *"abcde") | {"f": np.arange(100, 120)}  # f shares nothing
    scored = score(vectors, concepts)
    assert scored.queries == 2 * 4 * 20
    assert score(vectors, concepts).log_likelihood == scored.log_likelihood


def test_a_pair_of_languages_without_a_shared_concept_asks_nothing() -> None:
    X = np.eye(4)
    concepts = {"a": np.arange(4), "b": np.arange(4), "c": np.arange(4) + 10}
    scored = score(dict.fromkeys("abc", X), concepts)
    assert [scored.precision, scored.queries] == pytest.approx([1, 8])


def test_a_path_takes_languages_that_are_never_held_out_together() -> None:
    blocks, concepts = signal(concepts=120, words=60, languages=3)
    concepts["l2"] = concepts["l2"] + 1000  # a language that shares nothing
    path = walk(Problem(blocks, concepts), rank=4)
    assert path.queries == 2 * 24


def test_a_rank_beyond_the_concepts_that_are_left_is_refused() -> None:
    given = signal(concepts=60)
    with pytest.raises(Cr5Error) as error:
        walk(given, rank=48)
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
