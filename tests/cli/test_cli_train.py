"""The command cr5 train."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import madeup
import numpy as np
import pytest
from command_line import SMALL, assert_same

from cr5 import Cr5, Document, write
from cr5.cli import run
from cr5.cli.render import models
from cr5.cli.render.models import path_table
from cr5.features.tfidf import Idf
from cr5.training import ridge

# Train


@pytest.mark.slow
@pytest.mark.parametrize("form", ["jsonl", "csv", "tsv", "jsonl.gz", "csv.xz", "parquet"])
def test_training_on_a_file_of_any_format_gives_the_same_model(
    form: str, documents: list[Document], small_model: Cr5, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / f"corpus.{form}", documents)
    assert run(["train", str(tmp_path / f"corpus.{form}"), "-o", str(tmp_path / "model"), *SMALL]) == 0
    assert_same(Cr5.load(tmp_path / "model"), small_model)
    caught = capsys.readouterr()
    assert "rank 10, ridge 1, 150 concepts" in caught.out
    assert re.fullmatch(r"warning: only 150 shared concepts, .*\n", caught.err)
    assert not (tmp_path / "model.checkpoint").exists()


@pytest.mark.parametrize("how", ["files", "folder", "glob"])
def test_training_on_one_file_per_language_gives_the_same_model(
    how: str, documents: list[Document], small_model: Cr5, tmp_path: Path
) -> None:
    (tmp_path / "corpus").mkdir()
    for lang in madeup.LANGS:
        write(tmp_path / "corpus" / f"{lang}.jsonl", [d for d in documents if d.lang == lang])
    given = {
        "files": [str(tmp_path / "corpus" / f"{lang}.jsonl") for lang in madeup.LANGS],
        "folder": [str(tmp_path / "corpus")],
        "glob": [str(tmp_path / "corpus" / "*.jsonl")],
    }[how]
    assert run(["train", *given, "-o", str(tmp_path / "model"), *SMALL]) == 0
    assert_same(Cr5.load(tmp_path / "model"), small_model)


@pytest.mark.slow
def test_training_on_standard_input_gives_the_same_model(
    corpus_file: Path, small_model: Cr5, tmp_path: Path, stdin: Any
) -> None:
    stdin(corpus_file.read_bytes())
    assert run(["train", "-", "-o", str(tmp_path / "new" / "model"), *SMALL]) == 0
    assert_same(Cr5.load(tmp_path / "new" / "model"), small_model)


def test_training_says_why_a_ridge_was_not_chosen(
    documents: list[Document], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "corpus.jsonl", [d for d in documents if int(d.concept[1:]) < 30])
    options = ["--rank", "5", "--set", "min_documents=2", "--set", "min_unique=5"]
    assert run(["train", str(tmp_path / "corpus.jsonl"), "-o", str(tmp_path / "model"), *options]) == 0
    caught, few = capsys.readouterr(), "only 30 shared concepts, too few for a good model"
    printed = " ".join(caught.out.split())
    assert "30 shared concepts are too few" in printed
    assert "energy: the sum of the eigenvalues" in printed
    assert "the relative error of the solution; the fit ends when it is below 0.05" in printed
    assert "weights of the views: dense 1, lexicon 0.6, strings 0." in printed
    assert (printed.count(few), caught.err.count(few)) == (0, 1)  # once: a warning comes before the work
    assert run(["info", str(tmp_path / "model")]) == 0
    assert few in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("report", "setting", "expected"),
    [
        ({"strings_weight_path": [{}]}, "auto", "strings 0.3 (chosen by retrieval of held-out documents)"),
        ({"strings_weight_path": [], "concepts": 30}, "auto", "strings 0.3 (expected for 30 concepts)"),
        ({"strings_weight_path": []}, 0.3, "strings 0.3 (set by strings_weight)"),
    ],
)
def test_the_weights_of_the_views_are_printed_with_their_origin(
    report: dict[str, Any], setting: Any, expected: str
) -> None:
    weights = {"dense": 1.0, "lexicon": 0.6, "strings": 0.3}
    settings = SimpleNamespace(strings_weight=setting)
    model: Any = SimpleNamespace(report=report | {"view_weights": weights}, view_weights=weights, settings=settings)
    assert models.view_weights_line(model) == f"weights of the views: dense 1, lexicon 0.6, {expected}"
    model.report = {}
    assert models.view_weights_line(model).endswith("(the same in all models written by earlier versions)")


@pytest.mark.parametrize(
    ("log_likelihoods", "noise", "expected"),
    [
        ([-1.01, -1.0, -1.02, -1.03], 0.5, "the ridge hardly matters: all from 1 to 30 are within one standard error"),
        (range(-20, 0), 0.0, "the best ridge, 0.001, is the smallest that was tried; a smaller one may be better"),
        ([-2.0, -1.0, -2.0, -3.0], 0.0, ""),
    ],
)
def test_training_and_info_report_a_flat_or_open_ended_ridge_path(
    log_likelihoods: Sequence[float],
    noise: float,
    expected: str,
    corpus_file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left, random = iter(log_likelihoods), np.random.default_rng(0)

    def score(vectors: Any, concepts: Any) -> ridge.Scores:
        value, errors = next(left), noise * random.standard_normal(30) / np.sqrt(30)
        return ridge.Scores(value, value / 30 + errors, np.full(30, 0.02), 0.5, 0.6, 180)

    monkeypatch.setattr(ridge, "score", score)
    options = ["--rank", "5", "--set", "min_documents=2", "--set", "min_unique=5"]
    assert run(["train", str(corpus_file), "-o", str(tmp_path / "model"), *options]) == 0
    trained = " ".join(capsys.readouterr().out.split())
    assert run(["info", str(tmp_path / "model")]) == 0
    described = " ".join(capsys.readouterr().out.split())
    for printed in (trained, described):
        assert expected in printed
        assert ("hardly matters" in printed or "that was tried" in printed) == bool(expected)
    assert Cr5.load(tmp_path / "model").report["ridge_note"] == expected


def test_the_ridge_path_says_what_was_searched_and_what_its_columns_mean(capsys: pytest.CaptureFixture[str]) -> None:
    report = {"ridge_path": [], "ridge_queries": 1200, "ridge_shares": [1.0, 0.7, 0.5], "ridge": 30}
    path_table(report)
    printed = " ".join(capsys.readouterr().out.split())
    assert "1,200 held-out queries, each also repeated with 30 % and 50 % of the words removed" in printed
    assert "P@1 and MRR are lower" in printed
    assert "means over all directions, also those of languages with few documents" in printed
    assert "error: standard error of the difference from the best ridge; steps: solver steps" in printed
    path_table(report | {"ridge_shares": [1.0]})
    assert "removed" not in capsys.readouterr().out
    path_table({"ridge_path": [], "ridge": 30})  # of an older version
    assert "searches" not in capsys.readouterr().out


def test_training_reports_in_json(corpus_file: Path, tmp_path: Path, run_json: Any) -> None:
    found = run_json("train", corpus_file, "-o", tmp_path / "model", *SMALL, "--json")
    assert set(found) == {"model", "saved", "seconds", "skipped", "report"}
    assert found["report"] == Cr5.load(tmp_path / "model").report
    assert found["skipped"] == {}


def test_training_takes_some_languages_of_a_corpus(corpus_file: Path, tmp_path: Path) -> None:
    assert run(["train", str(corpus_file), "-o", str(tmp_path / "model"), *SMALL, "--langs", "aa, cc"]) == 0
    assert Cr5.load(tmp_path / "model").langs == ["aa", "cc"]


def test_every_option_reaches_the_settings(corpus_file: Path, tmp_path: Path) -> None:
    options = ["--preset", "wsdm19", "--rank", "7", "--ridge", "0.5", "--seed", "3", "--threads", "1"]
    changes = ["min_unique=5", "tf=log", "lowercase=false", "tol=0.01", "idf_power=2"]
    arguments = [*options, *(part for change in changes for part in ("--set", change))]
    assert run(["train", str(corpus_file), "-o", str(tmp_path / "model"), *arguments]) == 0
    found = Cr5.load(tmp_path / "model").settings
    expected = Cr5("wsdm19", rank=7, ridge=0.5, seed=3, min_unique=5, tf="log", lowercase=False, tol=0.01, idf_power=2)
    assert found == expected.settings


def test_what_is_skipped_is_counted(
    documents: list[Document], tmp_path: Path, capsys: pytest.CaptureFixture[str], fails: Any
) -> None:
    path, model = tmp_path / "corpus.jsonl", tmp_path / "model"
    write(path, [*documents, Document("lonely", "aa", documents[0].text)])
    with path.open("a") as file:
        file.write("{no json\n" + '{"concept": "Q1", "lang": "aa"}\n')
    arguments = ["train", str(path), "-o", str(model), *SMALL]
    assert fails(*arguments).startswith(f"{path}:452: ")
    assert not model.exists()
    assert run([*arguments, "--on-error", "skip", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["skipped"] == {"broken JSON": 1, "missing field": 1}
    assert found["report"]["corpus"]["documents"] == {
        "read": 451,
        "used": 450,
        "left_out": {"concept in one language only": 1},
    }
    assert run([*arguments, "--on-error", "skip"]) == 0
    printed = capsys.readouterr()
    assert [line.split(": ")[1] for line in printed.err.splitlines()][1:] == ["skipped 1"] * 2
    assert "451 documents read, 450 used, 1 left out; 151 concepts read, 150 used, 1 left" in printed.out
    assert "alone: no other language has a document of the concept" in printed.out
    assert "also skipped, because they cannot be used: 1 broken JSON, 1 missing field" in " ".join(printed.out.split())


def test_a_tolerance_below_the_rounding_errors_is_said_to_be_out_of_reach(
    corpus_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    note = "because rounding errors of float32 leave nothing to gain"
    for tol, is_noted in (("1e-9", True), ("0.05", False)):
        folder = tmp_path / tol
        assert run(["train", str(corpus_file), "-o", str(folder), *SMALL, "--set", f"tol={tol}"]) == 0
        printed = " ".join(capsys.readouterr().out.split())
        report = Cr5.load(folder).report
        assert report["converged"]
        assert (report["residual"] > float(tol)) == is_noted
        assert (note in printed) == is_noted
        assert f"the fit ends when it is below {float(tol):g} (--set tol)" in printed


def test_a_fit_that_has_not_converged_warns_and_is_saved(
    corpus_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = ["--set", "max_steps=1", "--set", "tol=1e-9"]
    assert run(["train", str(corpus_file), "-o", str(tmp_path / "model"), *SMALL, *steps]) == 0
    caught = capsys.readouterr()
    assert "not converged" in caught.out
    warning = Cr5.load(tmp_path / "model").report["warning"]
    assert warning.startswith("the fit stopped after 1 step at residual")
    assert warning.endswith("increase `max_steps` or `tol`")
    assert caught.err.endswith("increase --set max_steps or --set tol\n")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["--rank", "150"], "--rank 150 is too large for 150 shared concepts; "
         "use --rank <= 149, or add documents"),
        (["--set", "rnak=5"], "there is no setting 'rnak'; did you mean rank?"),
        (["--set", "tol=abc"], "--set tol=abc must be a number of at least 0"),
        (["--set", "min_documents=2.5"], "--set min_documents=2.5 must be a whole number of at least 0"),
        (["--set", "lowercase=3"], "--set lowercase=3 must be true or false"),
        (["--set", "idf=rough"], f"--set idf=rough must be one of {', '.join(get_args(Idf))}"),
        (["--preset", "nope"], "there is no preset 'nope'; the presets are default, wsdm19"),
        (["--ridge", "-1"], '--ridge -1 must be a number above 0, or "auto"'),
        (["--langs", "aa"], "the corpus has documents in one language only (aa); give two languages or more"),
        (["--langs", "aa,fr"], "the corpus has no document in language fr; its languages are aa, bb, cc"),
        (["--langs", "aa", "--on-error", "raise"], "`documents[0]`"),
    ],
)  # fmt: skip
def test_a_mistake_in_training_is_one_line(
    changes: list[str], message: str, corpus_file: Path, tmp_path: Path, fails: Any
) -> None:
    found = fails("train", corpus_file, "-o", tmp_path / "model", *SMALL, *changes)
    if message == "`documents[0]`":
        message = (
            f"{corpus_file}:1: concept Q000 occurs in language aa only (150 concepts do); "
            "correct the corpus, or leave out --on-error raise"
        )
    assert found == message
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_no_model_can_be_saved_to_is_refused_before_the_work(
    corpus_file: Path, tmp_path: Path, fails: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cr5, "fit", None)
    (tmp_path / "notes.txt").touch()
    message = fails("train", corpus_file, "-o", tmp_path, *SMALL)
    assert str(tmp_path) in message
    assert "notes.txt" in message
    assert f"{tmp_path / 'notes.txt'} is a file" in fails("train", corpus_file, "-o", tmp_path / "notes.txt", *SMALL)


def test_a_language_code_that_no_file_can_have_is_refused_before_the_work(tmp_path: Path, fails: Any) -> None:
    renamed = [Document(d.concept, d.lang.replace("bb", "b/b"), d.text) for d in madeup.corpus()]
    write(tmp_path / "corpus.jsonl", renamed)
    assert "'b/b'" in fails("train", tmp_path / "corpus.jsonl", "-o", tmp_path / "model", *SMALL)


def test_a_model_may_be_written_to_the_folder_at_hand(
    corpus_file: Path, small_model: Cr5, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert run(["train", str(corpus_file), "-o", ".", *SMALL]) == 0
    assert_same(Cr5.load("."), small_model)
