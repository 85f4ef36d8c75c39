"""The demo on the built-in corpus: the model must beat chance and the shared-token baseline on held-out concepts."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import madeup
import numpy as np
import pytest

from cr5 import Cr5, Document, demo
from cr5.cli import run
from cr5.corpus.inputs import in_batches
from cr5.evaluate.splits import training_rows
from cr5.evaluate.texts import EvaluationCorpus, read_texts
from cr5.features.tokeniser import Tokeniser
from cr5.training.ridge import RIDGES

pytestmark = pytest.mark.slow

LANGS = ["da", "en", "it", "vi"]
SEEDS = 2  # of random splits


@pytest.fixture(scope="module")
def articles() -> list[Document]:
    return demo.encyclopedia()


@pytest.fixture(scope="module")
def outcome() -> tuple[dict[str, Any], Any]:
    """What ``cr5 demo --no-serve --json`` printed, and what its trials returned, of fewer splits than by default."""
    kept: list[Any] = []
    trials = demo.evaluate_splits

    def remembered(*given: Any) -> Any:
        kept.append(trials(*given))
        return kept[0]

    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as printed:
        patch.setattr(demo, "evaluate_splits", remembered)
        assert run(["demo", "--no-serve", "--json", "--seeds", str(SEEDS)]) == 0
    return json.loads(printed.getvalue()), kept[0]


@pytest.fixture(scope="module")
def figures(outcome: tuple[dict[str, Any], Any]) -> dict[str, Any]:
    return outcome[0]


@pytest.mark.parametrize("measure", ["p1_cosine", "p1_csls"])
def test_the_model_clearly_beats_chance_and_the_shared_token_baseline(figures: dict[str, Any], measure: str) -> None:
    mean = figures["mean"]
    assert mean[measure] > 20 * mean["chance"]
    # Shared names alone find nearly all articles, which leaves the model no ten points to gain, but errors to avoid.
    assert 100 - mean[measure] < (100 - max(mean["p1_baseline"], mean["p1_baseline_csls"])) / 2


@pytest.fixture(scope="module")
def explanations(articles: list[Document]) -> dict[str, float]:
    """P@1 among the second to fifth sentences of the articles, which have few of the names that languages share."""
    parts = [replace(a, text=" ".join(re.split(r"(?<=[.!?])\s+", a.text)[1:5])) for a in articles]
    return demo.precision_at_1(demo.evaluate_split(read_texts(in_batches(parts), Tokeniser()), seed=0, ridge=30.0))


@pytest.mark.parametrize("measure", ["p1_cosine", "p1_csls", "p1_dense_cosine", "p1_dense_csls"])
def test_the_model_finds_explanations_with_few_names_ten_points_more_often_than_the_baseline(
    explanations: dict[str, float], measure: str
) -> None:
    assert explanations[measure] > 20 * explanations["chance"]
    assert explanations[measure] > 10 + max(explanations["p1_baseline"], explanations["p1_baseline_csls"])


def test_the_demo_has_every_figure(figures: dict[str, Any], articles: list[Document]) -> None:
    assert set(figures) == {
        "version", "documents", "held_out", "seeds", "settings", "ridge", "ridge_path", "mean", "trials", "fit",
        "searches", "seconds",
    }  # fmt: skip
    assert (figures["documents"], figures["held_out"], figures["seeds"]) == (len(articles), 64, SEEDS)
    assert figures["ridge"] in RIDGES
    assert figures["ridge"] in [point["ridge"] for point in figures["ridge_path"]]
    assert figures["fit"]["converged"]
    assert [trial["seed"] for trial in figures["trials"]] == [*range(SEEDS)]
    pairs = [(a, b) for a in LANGS for b in LANGS if a != b]
    for trial in figures["trials"]:
        assert trial["chance"] == 100 / 64
        for system in (demo.MODEL_NAME, demo.DENSE_NAME, demo.BASELINE_NAME):
            for measure in ("cosine", "csls"):
                own = [s for s in trial["scores"] if (s["system"], s["measure"]) == (system, measure)]
                assert sorted((s["source"], s["target"]) for s in own) == pairs
                for score in own:
                    assert (score["queries"], score["candidates"]) == (64, 64)
                    assert 0 <= score["precision"]["1"] <= score["precision"]["5"] <= score["precision"]["10"] <= 100
                baseline = {"cosine": "p1_baseline", "csls": "p1_baseline_csls"}[measure]
                keys = {demo.MODEL_NAME: f"p1_{measure}", demo.DENSE_NAME: f"p1_dense_{measure}"}
                key = keys.get(system, baseline)
                assert trial[key] == pytest.approx(np.mean([s["precision"]["1"] for s in own]))
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
    monkeypatch.setattr(demo, "evaluate_splits", lambda *_: trials)
    monkeypatch.setitem(demo.SETTINGS, "rank", 20)
    assert run(["demo", "--no-serve", "--seeds", str(SEEDS)]) == 0
    caught = capsys.readouterr()
    lines = caught.out.splitlines()
    tables = lines[: next(i for i, line in enumerate(lines) if line.startswith("Done in"))]
    assert max(map(len, tables)) <= 80
    assert "…" not in caught.out
    assert caught.err == ""
    mean = figures["mean"]
    assert f"Mean P@1 of {SEEDS} such splits: {mean['p1_cosine']:.1f} cosine, {mean['p1_csls']:.1f} CSLS" in caught.out


@pytest.fixture(scope="module")
def corpus(articles: list[Document]) -> EvaluationCorpus:
    return read_texts(in_batches(articles), Tokeniser())


@pytest.mark.parametrize("seed", range(demo.SEEDS))
def test_no_concept_is_on_both_sides_of_a_split(corpus: EvaluationCorpus, seed: int) -> None:
    made = demo.draw_split(corpus, seed)
    assert len(made.held_out) == 64
    rows = training_rows(made, corpus, "joint")
    for lang, own in rows.items():
        trained = {corpus.concepts[i] for i in corpus.languages[lang].concepts[own]}
        assert trained == set(corpus.concepts) - made.held_out
    assert demo.draw_split(corpus, seed) == made


def test_different_seeds_give_different_splits(corpus: EvaluationCorpus) -> None:
    assert len({demo.draw_split(corpus, seed).held_out for seed in range(5)}) == 5


def test_shuffled_concepts_fall_to_chance(articles: list[Document]) -> None:
    found = demo.precision_at_1(
        demo.evaluate_split(read_texts(in_batches(madeup.shuffled(articles)), Tokeniser()), seed=0, ridge=3.0)
    )
    assert found["p1_cosine"] < 3 * found["chance"]
    assert found["p1_csls"] < 3 * found["chance"]
    assert found["p1_dense_csls"] < 3 * found["chance"]
    assert found["p1_baseline"] < 3 * found["chance"]


def test_a_model_of_shuffled_concepts_finds_no_true_counterpart(
    articles: list[Document], corpus: EvaluationCorpus
) -> None:
    held_out = demo.draw_split(corpus, 0).held_out
    training, test = ([d for d in articles if (d.concept in held_out) == side] for side in (False, True))
    model = Cr5(**demo.SETTINGS | {"ridge": 3.0, "rank": 50}).fit(madeup.shuffled(training))
    vectors = {lang: model.encode(madeup.texts(test, lang), lang) for lang in LANGS}
    right = [(vectors[a] @ vectors[b].T).argmax(axis=1) == np.arange(64) for a in LANGS for b in LANGS if a != b]
    assert np.mean(right) < 3 / 64


def test_searching_finds_an_article_by_its_own_text(articles: list[Document]) -> None:
    model = Cr5(**demo.SETTINGS | {"ridge": 3.0, "rank": 50}).fit(articles)
    hits = demo.search_documents(model, articles, articles[0].text, articles[0].lang)
    assert [hit.lang for hit in hits] == [lang for lang in LANGS if lang != articles[0].lang]
    query = model.encode([articles[0].text], articles[0].lang)[0]
    for hit in hits:
        candidates = [d for d in articles if d.lang == hit.lang]
        cosines = model.encode([d.text for d in candidates], hit.lang) @ query
        assert hit.title == candidates[cosines.argmax()].title
        assert hit.score == pytest.approx(cosines.max(), abs=1e-5)
    same = {d.title for d in articles if d.concept == articles[0].concept}
    assert {hit.title for hit in hits} & same


@pytest.mark.services
def test_the_demo_ends_by_serving_a_page_even_if_its_terminal_lacks_characters(tmp_path: Path) -> None:
    smaller = "from cr5 import demo; demo.SETTINGS |= {'rank': 50, 'subwords': False}"
    command = [sys.executable, "-c", f"{smaller}; from cr5.cli import main; main()", "demo", "--seeds", "1"]
    variables = os.environ | {"PYTHONIOENCODING": "cp1252"}
    shown = tmp_path / "shown.txt"
    with (
        shown.open("w") as output,
        subprocess.Popen(command, stdout=output, stderr=subprocess.PIPE, encoding="cp1252", env=variables) as process,
    ):
        assert process.stderr is not None
        said = ""
        while (found := re.search(r"http://127\.0\.0\.1:\d+/", said)) is None:
            line = process.stderr.readline()
            assert line, said
            said += line
        with urllib.request.urlopen(f"{found[0]}search?q=cane&in=en&k=1") as answer:
            assert json.load(answer)["hits"][0]["title"] == "Dog"
        with urllib.request.urlopen(found[0]) as answer:
            assert b"<title>" in answer.read()
        process.send_signal(signal.SIGINT)
        process.stderr.read()
    assert process.returncode == 0
    assert "P@1" in shown.read_text("cp1252")
