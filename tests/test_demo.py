"""The main job on the built-in corpus: it must beat the floor and chance, and honestly."""

import json
from collections.abc import Sequence
from contextlib import redirect_stdout
from io import StringIO
from typing import Any, Self

import numpy as np
import pytest

import madeup
from cr5 import Cr5, Document, demo
from cr5._typing import Array
from cr5.cli import run
from cr5.tune import GRID

LANGS = ["da", "en", "it", "vi"]


@pytest.fixture(scope="module")
def articles() -> list[Document]:
    return demo.encyclopedia()


@pytest.fixture(scope="module")
def outcome() -> tuple[dict[str, Any], Any]:
    """What ``cr5 demo --no-serve --json`` printed, and what its trials returned."""
    kept: list[Any] = []
    trials = demo.trials

    def remembered(*given: Any) -> Any:
        kept.append(trials(*given))
        return kept[0]

    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as printed:
        patch.setattr(demo, "trials", remembered)
        assert run(["demo", "--no-serve", "--json"]) == 0
    return json.loads(printed.getvalue()), kept[0]


@pytest.fixture(scope="module")
def figures(outcome: tuple[dict[str, Any], Any]) -> dict[str, Any]:
    return outcome[0]


@pytest.mark.parametrize("measure", ["p1_cosine", "p1_csls"])
def test_the_model_clearly_beats_chance_and_the_shared_token_floor(figures: dict[str, Any], measure: str) -> None:
    mean = figures["mean"]
    assert mean[measure] > 20 * mean["chance"]
    assert mean[measure] > 10 + max(mean["p1_floor"], mean["p1_floor_csls"])


def test_the_demo_has_every_figure(figures: dict[str, Any], articles: list[Document]) -> None:
    assert set(figures) == {
        "version", "documents", "held_out", "seeds", "settings", "ridge", "ridge_path", "mean", "trials", "fit",
        "searches", "seconds",
    }  # fmt: skip
    assert (figures["documents"], figures["held_out"], figures["seeds"]) == (len(articles), 64, 5)
    assert figures["ridge"] in GRID
    assert figures["ridge"] in [point["ridge"] for point in figures["ridge_path"]]
    assert figures["fit"]["converged"]
    assert [trial["seed"] for trial in figures["trials"]] == [0, 1, 2, 3, 4]
    pairs = [(a, b) for a in LANGS for b in LANGS if a != b]
    for trial in figures["trials"]:
        assert trial["chance"] == 100 / 64
        for part in ("directions", "floor"):
            assert [(d["source"], d["target"]) for d in trial[part]] == pairs
            for d in trial[part]:
                assert (d["queries"], d["candidates"]) == (64, 64)
                for measure in ("cosine", "csls"):
                    assert 0 <= d[measure]["1"] <= d[measure]["5"] <= d[measure]["10"] <= 100
        assert trial["p1_cosine"] == pytest.approx(np.mean([d["cosine"]["1"] for d in trial["directions"]]))
    for name, value in figures["mean"].items():
        assert value == pytest.approx(np.mean([trial[name] for trial in figures["trials"]]))


def test_the_demo_searches_every_other_language(figures: dict[str, Any], articles: list[Document]) -> None:
    titles = {(d.lang, d.title) for d in articles}
    assert [(s["lang"], s["query"]) for s in figures["searches"]] == list(demo.QUERIES)
    for search in figures["searches"]:
        assert [hit["lang"] for hit in search["hits"]] == [lang for lang in LANGS if lang != search["lang"]]
        assert all((hit["lang"], hit["title"]) in titles and 0 < hit["score"] <= 1 for hit in search["hits"])


def test_the_demo_fits_a_small_terminal(
    outcome: tuple[dict[str, Any], Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    figures, trials = outcome
    monkeypatch.setattr(demo, "trials", lambda *_: trials)
    monkeypatch.setitem(demo.SETTINGS, "rank", 20)
    assert run(["demo"]) == 0
    caught = capsys.readouterr()
    lines = caught.out.splitlines()
    tables = lines[: next(i for i, line in enumerate(lines) if line.startswith("Done in"))]
    assert max(map(len, tables)) <= 80
    assert "…" not in caught.out
    assert caught.err == ""
    mean = figures["mean"]
    assert f"Mean P@1 of 5 such splits: {mean['p1_cosine']:.1f} cosine, {mean['p1_csls']:.1f} CSLS" in caught.out


@pytest.mark.parametrize("seed", range(demo.SEEDS))
def test_no_concept_is_on_both_sides_of_a_split(articles: list[Document], seed: int) -> None:
    training, test = demo.split(articles, 64, seed)
    assert len(training) + len(test) == len(articles)
    assert not {d.concept for d in training} & {d.concept for d in test}
    assert len({d.concept for d in test}) == 64
    assert demo.split(articles, 64, seed) == (training, test)
    assert demo.split(articles[::-1], 64, seed)[1] == test[::-1]


def test_seeds_split_differently(articles: list[Document]) -> None:
    held_out = [frozenset(d.concept for d in demo.split(articles, 64, seed)[1]) for seed in range(5)]
    assert len(set(held_out)) == 5


def test_no_trained_document_is_among_the_candidates(articles: list[Document], monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[Document] = []
    candidates: list[str] = []

    class Watched(Cr5):
        def fit(self, documents: Any, **options: Any) -> Self:
            trained.extend(documents)
            return super().fit(documents, **options)

        def encode(self, texts: Sequence[str], lang: str) -> Array:
            candidates.extend(texts)
            return super().encode(texts, lang)

    monkeypatch.setattr(demo, "Cr5", Watched)
    monkeypatch.setitem(demo.SETTINGS, "rank", 20)
    demo.trial(articles, seed=1, ridge=3.0)
    concept = {d.text: d.concept for d in articles}
    assert len(candidates) == 4 * 64
    assert not {d.text for d in trained} & set(candidates)
    assert not {d.concept for d in trained} & {concept[text] for text in candidates}


def test_shuffled_concepts_fall_to_chance(articles: list[Document]) -> None:
    found, _ = demo.trial(madeup.shuffled(articles), seed=0, ridge=3.0)
    values = found.to_json()
    assert values["p1_cosine"] < 3 * values["chance"]
    assert values["p1_csls"] < 3 * values["chance"]
    assert values["p1_floor"] < 3 * values["chance"]


def test_a_model_of_shuffled_concepts_finds_no_true_counterpart(articles: list[Document]) -> None:
    training, test = demo.split(articles, 64, 0)
    model = Cr5(**demo.SETTINGS | {"ridge": 3.0, "rank": 50}).fit(madeup.shuffled(training))
    vectors = {lang: model.encode(madeup.texts(test, lang), lang) for lang in LANGS}
    right = [(vectors[a] @ vectors[b].T).argmax(axis=1) == np.arange(64) for a in LANGS for b in LANGS if a != b]
    assert np.mean(right) < 3 / 64


def test_searching_finds_an_article_by_its_own_text(articles: list[Document]) -> None:
    model = Cr5(**demo.SETTINGS | {"ridge": 3.0, "rank": 50}).fit(articles)
    hits = demo.find(model, articles, articles[0].text, articles[0].lang, k=3)
    assert [hit.lang for hit in hits] == [lang for lang in LANGS if lang != articles[0].lang for _ in range(3)]
    for i in range(0, len(hits), 3):
        scores = [hit.score for hit in hits[i : i + 3]]
        assert scores == sorted(scores, reverse=True)
    same = {d.title for d in articles if d.concept == articles[0].concept}
    assert {hit.title for hit in hits} & same
