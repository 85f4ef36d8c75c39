"""The command line: what it prints, where to, and how it ends."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import madeup
import numpy as np
import pyarrow.parquet as pq
import pytest
from madeup import text, texts, word

from cr5 import Cr5, Document, __version__, read, write
from cr5.cli import run
from cr5.cli.render import models
from cr5.cli.render.models import path_table
from cr5.errors import format_bytes
from cr5.retrieval.explanations import CosineFall, Explanation, ViewContribution

COMMAND = Path(sys.executable).with_name("cr5")
SMALL = ["--rank", "10", "--ridge", "1", "--set", "min_documents=2", "--set", "min_unique=5"]
LONG = ["--rank", "60", "--set", "min_documents=2", "--set", "min_unique=5"]
COMMANDS = {
    "demo": "cr5 demo",
    "train": "cr5 train",
    "encode": "cr5 encode",
    "similar": "cr5 similar",
    "lexicon": "cr5 lexicon",
    "explain": "cr5 explain",
    "info": "cr5 info",
    "model add-language": "cr5 model add-language",
    "pull": "cr5 pull",
    "push": "cr5 push",
    "pretrain": "cr5 pretrain",
    "corpus inspect": "cr5 corpus inspect",
    "corpus convert": "cr5 corpus convert",
}


@pytest.fixture(scope="module")
def corpus_file(documents: list[Document], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpora") / "corpus.jsonl"
    write(path, documents)
    return path


@pytest.fixture(scope="module")
def small_model(documents: list[Document]) -> Cr5:
    """What SMALL makes of the corpus."""
    return Cr5(rank=10, ridge=1.0, min_documents=2, min_unique=5).fit(documents)


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Call it with the bytes that standard input is to hold."""
    return lambda content: monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))


@pytest.fixture
def run_json(capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a command that must end well, and parse all of its standard output."""

    def call(*arguments: object) -> Any:
        assert run([str(a) for a in arguments]) == 0
        return json.loads(capsys.readouterr().out)

    return call


@pytest.fixture
def fails(capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a command that must end with 1, one line on standard error and nothing else; returns the line.

    A warning that the corpus is small may come before it.
    """

    def call(*arguments: object) -> str:
        assert run([str(a) for a in arguments]) == 1
        caught = capsys.readouterr()
        assert caught.out == ""
        error = re.sub(r"^warning: only \d+ shared concepts, .*\n", "", caught.err)
        assert error.count("\n") == 1
        assert error.startswith("error: ")
        return error.removeprefix("error: ").removesuffix("\n")

    return call


def fits(printed: str) -> bool:
    """Whether no line is longer than 80 columns, and no cell was cut to make it so."""
    return all(len(line) <= 80 for line in printed.splitlines()) and "…" not in printed


def assert_same(one: Cr5, other: Cr5) -> None:
    assert one.langs == other.langs
    for lang in one.langs:
        some = texts(madeup.corpus(), lang)[:20]
        np.testing.assert_array_equal(one.encode(some, lang), other.encode(some, lang))


# Help, version, usage


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*command.split(), "--help"]) == 0
    printed = capsys.readouterr().out
    assert re.search(rf"^ +{COMMANDS[command]}\b", printed.split("Example")[1], re.MULTILINE)
    assert fits(printed)


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["-h"]) == 0
    assert run(["corpus", "-h"]) == 0
    assert run(["model", "-h"]) == 0
    printed = capsys.readouterr().out
    assert all(command.split()[-1] in printed for command in COMMANDS)
    assert fits(printed)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"cr5 {__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["nope"],
        ["train"],
        ["train", "corpus.jsonl"],
        ["train", "builtin", "-o", "model", "--nope"],
        ["train", "builtin", "-o", "model", "--rank", "0"],
        ["train", "builtin", "-o", "model", "--rank", "many"],
        ["train", "builtin", "-o", "model", "--ridge", "strong"],
        ["train", "builtin", "-o", "model", "--set", "rank"],
        ["train", "builtin", "-o", "model", "--on-error", "ignore"],
        ["similar", "model", "word"],
        ["lexicon", "model", "en", "it"],
        ["similar", "model", "word", "--lang", "it", "-k", "0"],
        ["demo", "--seeds", "0"],
    ],
)
def test_wrong_usage_ends_with_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(arguments) == 2
    caught = capsys.readouterr()
    assert caught.out == ""
    assert "Usage: cr5" in caught.err
    assert "Error: " in caught.err
    assert list(tmp_path.iterdir()) == []


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
        ({"strings_weight_path": []}, 0.3, "strings 0.3 (as given)"),
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
    assert models.view_weights_line(model).endswith("(the same in all models of older versions)")


def test_the_ridge_path_says_what_was_searched_and_what_its_columns_mean(capsys: pytest.CaptureFixture[str]) -> None:
    report = {"ridge_path": [], "ridge_queries": 1200, "ridge_shares": [1.0, 0.7, 0.5], "ridge": 30}
    path_table(report)
    printed = " ".join(capsys.readouterr().out.split())
    assert "1,200 held-out queries, each also repeated with 30 % and 50 % of the words removed" in printed
    assert "P@1 and MRR are lower" in printed
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


def test_a_fit_that_has_not_converged_warns_and_is_saved(
    corpus_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = ["--set", "max_steps=1", "--set", "tol=1e-9"]
    assert run(["train", str(corpus_file), "-o", str(tmp_path / "model"), *SMALL, *steps]) == 0
    caught = capsys.readouterr()
    assert "not converged" in caught.out
    warning = Cr5.load(tmp_path / "model").report["warning"]
    assert warning.startswith("the fit stopped after 1 step at residual")
    assert warning.endswith("raise `max_steps` or `tol`")
    assert caught.err.endswith("raise --set max_steps or --set tol\n")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["--rank", "150"], "--rank 150 is too large for 150 shared concepts; "
         "use --rank <= 149, or add documents"),
        (["--set", "rnak=5"], "there is no setting 'rnak'; did you mean rank?"),
        (["--set", "tol=abc"], "--set tol=abc must be a number of at least 0"),
        (["--set", "min_documents=2.5"], "--set min_documents=2.5 must be a whole number of at least 0"),
        (["--set", "lowercase=3"], "--set lowercase=3 must be true or false"),
        (["--set", "idf=rough"], "--set idf=rough must be one of plain, smooth"),
        (["--preset", "nope"], "there is no preset 'nope'; the presets are default, wsdm19"),
        (["--ridge", "-1"], '--ridge -1.0 must be a number above 0, or "auto"'),
        (["--langs", "aa"], "the corpus has documents in one language only (aa); give two languages or more"),
        (["--langs", "aa", "--on-error", "raise"], "document 1"),
    ],
)  # fmt: skip
def test_a_mistake_in_training_is_one_line(
    changes: list[str], message: str, corpus_file: Path, tmp_path: Path, fails: Any
) -> None:
    found = fails("train", corpus_file, "-o", tmp_path / "model", *SMALL, *changes)
    if message == "document 1":
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


# Encode


LINES = [text("aa", range(20)), "", "zzz", text("aa", range(30, 40))]


def test_encoding_writes_an_array_to_standard_output(
    model: Cr5, model_folder: Path, stdin: Any, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    stdin("\n".join(LINES).encode())
    assert run(["encode", str(model_folder), "--lang", "aa"]) == 0
    caught = capsysbinary.readouterr()
    np.testing.assert_array_equal(np.load(io.BytesIO(caught.out)), model.encode(LINES, "aa"), strict=True)
    warning = b"warning: 2 of 4 texts contain no aa word or n-gram that the model knows; their vectors are zero\n"
    assert caught.err == warning


def test_encoding_guesses_the_language_of_every_line(
    model: Cr5, model_folder: Path, stdin: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [text("aa", range(20)), text("bb", range(20)), text("aa", range(30, 40)), "zzz"]
    stdin("\n".join(lines).encode())
    assert run(["encode", str(model_folder), "-o", str(tmp_path / "rows.parquet"), "--coverage"]) == 0
    table = pq.read_table(tmp_path / "rows.parquet")
    np.testing.assert_array_equal(np.array(table["vector"].to_pylist(), np.float32), model.encode(lines))
    assert table["known"].to_pylist() == model.coverage(lines).tolist() == [1, 1, 1, 0]
    guessed, warning = capsys.readouterr().err.splitlines()
    assert guessed.startswith("languages guessed: aa ")
    assert "bb 1" in guessed
    assert warning == "warning: 1 of 4 texts contain no word or n-gram that the model knows; their vectors are zero"


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False], ids=["ended", "open"])
def test_a_row_is_a_line(model: Cr5, model_folder: Path, stdin: Any, tmp_path: Path, ending: str, last: bool) -> None:
    lines = [*LINES, f"{word('aa', 1)}\x0c{word('aa', 2)}", f"{word('aa', 3)}\u2028\x85{word('aa', 4)}"]
    stdin((ending.join(lines) + (ending if last else "")).encode())
    assert run(["encode", str(model_folder), "--lang", "aa", "-o", str(tmp_path / "rows.npy")]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "rows.npy"), model.encode(lines, "aa"), strict=True)


@pytest.mark.parametrize("coverage", [True, False])
def test_encoding_writes_a_table(
    model: Cr5, model_folder: Path, stdin: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], coverage: bool
) -> None:
    stdin("\n".join(LINES).encode())
    path = tmp_path / "rows.parquet"
    extra = ["--coverage"] if coverage else []
    assert run(["encode", str(model_folder), "--lang", "aa", "-o", str(path), *extra]) == 0
    table = pq.read_table(path)
    assert table["text"].to_pylist() == LINES
    found = np.array(table["vector"].to_pylist(), np.float32)
    np.testing.assert_array_equal(found, model.encode(LINES, "aa"))
    shares = model.coverage_parts(LINES, "aa")._asdict() if coverage else {}
    assert table.column_names == ["text", "vector", *shares]
    for name, expected in shares.items():
        assert table[name].to_pylist() == expected.tolist()
    assert capsys.readouterr().out == ""
    assert [p.name for p in tmp_path.iterdir()] == ["rows.parquet"]


def test_lines_that_are_evidently_in_windows_1252_are_read_so(
    tmp_path: Path, stdin: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = {"en": "the city and the university {}", "it": "la città e l'università {}"}
    documents = [Document(f"Q{i}", lang, text.format(f"x{i}")) for i in range(20) for lang, text in texts.items()]
    own = Cr5(rank=5, ridge=1.0, min_documents=1).fit(documents)
    own.save(tmp_path / "model")
    stdin("la città\nl'università\n".encode("cp1252"))
    given = ["encode", str(tmp_path / "model"), "--lang", "it", "-o", str(tmp_path / "rows.npy")]
    assert run(given) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "rows.npy"), own.encode(["la città", "l'università"], "it"))
    assert "note: standard input is not UTF-8; it is read as windows-1252" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", ["npy", "parquet"])
def test_no_lines_are_no_rows(model_folder: Path, stdin: Any, tmp_path: Path, suffix: str) -> None:
    stdin(b"")
    path = tmp_path / f"rows.{suffix}"
    assert run(["encode", str(model_folder), "--lang", "aa", "-o", str(path)]) == 0
    if suffix == "npy":
        assert np.load(path).shape == (0, 60)
    else:
        assert pq.read_table(path).shape == (0, 2)


def test_encoding_refuses_what_it_cannot_do(
    model_folder: Path, stdin: Any, tmp_path: Path, fails: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin("niño\n".encode("latin-1"))
    given = ["encode", model_folder, "--lang", "aa"]
    assert "'.csv'" in fails(*given, "-o", tmp_path / "rows.csv")
    expected = "standard input is not UTF-8 (byte 2); convert it first, e.g. with iconv"
    assert fails(*given, "-o", tmp_path / "rows.npy") == expected
    stdin(b"text")
    assert fails(*given, "-o", tmp_path / "no" / "rows.npy").endswith(
        f"there is no folder {tmp_path}/no; create it first"
    )
    assert "--coverage" in fails(*given, "--coverage")
    message = fails("encode", model_folder, "--lang", "xx", "-o", tmp_path / "rows.npy")
    assert "'xx'" in message
    assert "aa, bb, cc" in message
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert "standard output is a terminal" in fails(*given)
    assert list(tmp_path.iterdir()) == []


# Similar, explain, info


def test_similar_words_are_shown(
    model: Cr5, model_folder: Path, run_json: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["similar", str(model_folder), word("aa", 5), "--lang", "aa"]
    assert run(given) == 0
    printed = capsys.readouterr().out
    assert fits(printed)
    assert all(found in printed for to in ("bb", "cc") for found, _ in model.similar_words(word("aa", 5), "aa", to))
    found = run_json(*given, "--json", "--to", "cc,aa", "-k", "3")
    assert (found["word"], found["lang"], list(found["similar"])) == (word("aa", 5), "aa", ["cc", "aa"])
    expected = [list(pair) for pair in model.similar_words(word("aa", 5), "aa", "cc", 3)]
    assert found["similar"]["cc"] == expected


def test_translations_are_shown(
    model: Cr5, model_folder: Path, run_json: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["lexicon", str(model_folder), "aa", "bb", word("aa", 5), "zzz"]
    assert run(given) == 0
    printed = capsys.readouterr().out
    [expected, _] = model.translate_words([word("aa", 5), "zzz"], "aa", "bb")
    assert fits(printed)
    assert all(translation in printed for translation, _ in expected[:5])
    assert "zzz (aa): not a word that the model knows" in printed
    found = run_json(*given, "--json", "-k", "2")
    assert found["translations"] == {word("aa", 5): [list(pair) for pair in expected[:2]], "zzz": []}
    assert (found["source"], found["target"]) == ("aa", "bb")


def test_translations_of_unknown_words_alone_fail(model_folder: Path, fails: Any) -> None:
    expected = "the model knows no aa word among 'zzz', 'yyy'; try more frequent words, or other forms of them"
    for more in ([], ["--json"]):
        assert fails("lexicon", model_folder, "aa", "bb", "zzz", "yyy", *more) == expected


@pytest.mark.slow
def test_the_package_runs_as_the_command(model_folder: Path) -> None:
    given = ["similar", str(model_folder), word("aa", 5), "--lang", "aa"]
    ends = [
        subprocess.run([*start, *given], capture_output=True) for start in ([COMMAND], [sys.executable, "-m", "cr5"])
    ]
    assert [end.returncode for end in ends] == [0, 0]
    assert ends[0].stdout == ends[1].stdout != b""
    wrong = subprocess.run([sys.executable, "-m", "cr5", "similar"], capture_output=True)
    assert wrong.returncode == 2
    assert b"Usage: cr5 similar" in wrong.stderr


def test_a_lexicon_of_one_language_is_refused(model_folder: Path, fails: Any) -> None:
    expected = "the source and the target language are both aa; a lexicon needs two languages"
    assert fails("lexicon", model_folder, "aa", "aa", word("aa", 5)) == expected


def test_a_similarity_is_explained(
    model: Cr5, model_folder: Path, tmp_path: Path, run_json: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = text("aa", range(12)), text("bb", range(12))
    (tmp_path / "b.txt").write_text(b)
    expected = model.explain(a, "aa", b, "bb")
    given = ["explain", str(model_folder), a, f"@{tmp_path}/b.txt", "-a", "aa", "-b", "bb"]
    assert run(given) == 0
    printed = capsys.readouterr().out
    assert f"cosine {expected.similarity:.3f}" in printed
    assert fits(printed)
    found = run_json(*given, "--json")
    assert found["similarity"] == expected.similarity
    assert list(found["views"][0]) == ["view", "share", "cosine", "words_a", "words_b"]
    assert found["similarity_by_views"] == sum(view["share"] * view["cosine"] for view in found["views"])
    assert f"Similarity by all views {found['similarity_by_views']:.3f}" in printed
    assert [tuple(pair) for pair in found["pairs"]] == [tuple(pair) for pair in expected.pairs]
    for words, rest in (("words_a", "rest_a"), ("words_b", "rest_b")):
        assert sum(value for _, value in found[words]) + found[rest] == pytest.approx(found["similarity"], abs=1e-6)


def test_texts_that_have_nothing_in_common_with_the_model_are_explained_too(
    model_folder: Path, run_json: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["explain", str(model_folder), "zzz", "", "-a", "aa", "-b", "bb"]
    assert run(given) == 0
    assert "cosine 0.000" in capsys.readouterr().out
    assert run_json(*given, "--json")["pairs"] == []


def test_a_model_is_shown(model: Cr5, model_folder: Path, run_json: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["info", str(model_folder)]) == 0
    printed = capsys.readouterr().out
    assert "rank 60, ridge 0.3, 110 concepts" in printed
    assert fits("\n".join(printed.splitlines()[1:]))  # the first line is the path
    found = run_json("info", model_folder, "--json")
    sizes = {lang: size._asdict() for lang, size in Cr5.load(model_folder).sizes().items()}
    settings = model.settings.to_json()
    assert found == {"langs": model.langs, "sizes": sizes, "settings": settings, "report": model.report}
    for size in sizes.values():
        assert re.search(rf"{size['words']:,} +{size['ngrams']:,} +{re.escape(format_bytes(size['bytes']))}", printed)


def test_a_mistake_is_one_line(model_folder: Path, tmp_path: Path, fails: Any) -> None:
    nowhere = tmp_path / "nope"
    assert fails("info", nowhere) == f"{nowhere} does not exist; check the path, or save a model there first"
    expected = f"'zzz' is not one of the {len(Cr5.load(model_folder).words('aa'))} words known in aa; "
    found = fails("similar", model_folder, "zzz", "--lang", "aa")
    assert found == expected + "try a more frequent word or another form of it"
    message = fails("similar", model_folder, word("aa", 5), "--lang", "aa", "--to", "xx")
    assert "'xx'" in message
    assert "aa, bb, cc" in message
    (tmp_path / "latin").write_bytes("é".encode("latin-1"))
    expected = f"{tmp_path}/latin is not UTF-8 (byte 0); convert it first, e.g. with iconv"
    assert fails("explain", model_folder, f"@{tmp_path}/latin", "b", "-a", "aa", "-b", "bb") == expected
    expected = f"{nowhere}: no such file or directory"
    assert fails("explain", model_folder, f"@{nowhere}", "b", "-a", "aa", "-b", "bb") == expected
    assert fails("train", nowhere, "-o", nowhere) == f"{nowhere}: no such file or folder; check the spelling"


def test_words_that_hardly_change_a_view_are_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    words = [CosineFall("strong", 0.5), CosineFall("weak", 0.006), CosineFall("weakest", 1e-5)]
    views = [ViewContribution("dense", 0.5, 0.7, words, words[2:]), ViewContribution("strings", 0.5, 0.2, words, [])]
    models.explanation(Explanation(0.7, [], [], [], 0, 0, views), "aa", "bb")
    printed = capsys.readouterr().out
    shown = [line.split()[3:] for line in printed.splitlines() if line.startswith((" dense", " strings"))]
    assert shown == [["strong"], ["strong,", "weak"]]
    legend = " ".join(printed.split())
    assert "adds: a word's part of the cosine of the vectors, which is the sum of all parts" in legend
    assert "falls most without: the words whose removal lowers the cosine of a view most, which do not add up" in legend


# Corpus


def test_a_corpus_is_inspected(corpus_file: Path, run_json: Any, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["corpus", "inspect", str(corpus_file), "--langs", "aa,bb", "--set", "min_unique=20"]
    assert run(given) == 0
    printed = capsys.readouterr().out
    assert "150 concepts, 150 of them in two languages or more" in printed
    assert fits(printed)
    found = run_json(*given, "--json")
    assert list(found["languages"]) == ["aa", "bb"]
    unique = [len(set(t.split())) for t in texts(madeup.corpus(), "aa")]
    assert found["languages"]["aa"]["documents"] == 150
    assert found["usage"]["languages"]["aa"]["left_out"]["too short"] == sum(n < 20 for n in unique)
    documents = found["usage"]["documents"]
    assert f"300 documents read, {documents['used']} used, {300 - documents['used']} left out; 150 conc" in printed
    assert "short: fewer different words than --set min_unique=20" in " ".join(printed.split())
    assert found["shared"]["aa"]["bb"] == 150
    assert found["skipped"] == {}


def test_a_language_with_few_documents_is_warned_of(
    tmp_path: Path, run_json: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path, model = tmp_path / "corpus.jsonl", tmp_path / "model"
    write(path, [d for d in madeup.corpus(concepts=200) if d.lang != "cc" or d.concept < "Q050"])
    warning = "language cc shares only 50 concepts with the others"
    assert run(["corpus", "inspect", str(path)]) == 0
    assert f"warning: {warning}" in capsys.readouterr().err
    assert run_json("corpus", "inspect", path, "--json")["notes"][0].startswith(warning)
    assert run(["train", str(path), "-o", str(model), *SMALL]) == 0
    assert f"warning: {warning}" in capsys.readouterr().err
    assert Cr5.load(model).report["notes"][0].startswith(warning)


def test_the_built_in_corpus_is_inspected(run_json: Any) -> None:
    found = run_json("corpus", "inspect", "builtin", "--json")
    assert list(found["languages"]) == ["da", "en", "it", "vi"]
    assert found["concepts"] == found["concepts_shared"]


@pytest.mark.parametrize("form", ["jsonl", "csv", "tsv", "jsonl.gz", "tsv.xz", "parquet"])
def test_a_corpus_goes_through_every_format_unharmed(
    corpus_file: Path, documents: list[Document], tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    there, back = tmp_path / f"there.{form}", tmp_path / "back.jsonl"
    assert run(["corpus", "convert", str(corpus_file), "-o", str(there)]) == 0
    caught = capsys.readouterr()
    assert caught.out == ""
    assert "450 documents written" in caught.err
    assert run(["corpus", "convert", str(there), "-o", str(back)]) == 0
    assert list(read(back)) == documents
    assert back.read_bytes() == corpus_file.read_bytes()


def test_a_corpus_is_written_to_standard_output(corpus_file: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run(["corpus", "convert", str(corpus_file), "-o", "-", "--langs", "bb"]) == 0
    caught = capsysbinary.readouterr()
    assert [json.loads(line)["lang"] for line in caught.out.splitlines()] == ["bb"] * 150
    assert caught.err == b"150 documents written\n"


def test_an_unknown_format_is_refused(corpus_file: Path, tmp_path: Path, fails: Any) -> None:
    message = fails("corpus", "convert", corpus_file, "-o", tmp_path / "corpus.xml")
    assert message.startswith(f"{tmp_path}/corpus.xml: unknown suffix '.xml'; the formats are .jsonl, .csv and .tsv")
    assert list(tmp_path.iterdir()) == []


# How it ends


def test_an_interrupt_ends_with_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Cr5, "load", interrupted)
    assert run(["info", "model"]) == 130
    caught = capsys.readouterr()
    assert caught.out == ""
    assert caught.err.strip() == "stopped"


def test_an_interrupt_while_reading_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Impatient(io.BytesIO):
        def read(self, *_: Any) -> bytes:
            raise KeyboardInterrupt

        readline = read1 = readinto = read  # type: ignore[assignment]

    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=Impatient()))
    assert run(["train", "-", "-o", str(tmp_path / "model"), *SMALL]) == 130
    assert list(tmp_path.iterdir()) == []


def test_debugging_shows_the_traceback_of_a_mistake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CR5_DEBUG", "1")
    with pytest.raises(ValueError, match="check the path, or save a model there first"):
        run(["info", str(tmp_path / "nope")])


def test_a_bug_is_not_dressed_up_as_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(Cr5, "load", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        run(["info", "model"])


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (MemoryError(), "MemoryError"),
        (
            OSError(28, "No space left on device", "/disk/model"),
            "/disk/model: no space left on device; free some space, or write to another disk",
        ),
        (OSError(5, "Input/output error"), "input/output error"),
    ],
)
def test_troubles_of_the_machine_are_one_line(
    error: Exception, line: str, monkeypatch: pytest.MonkeyPatch, fails: Any
) -> None:
    def troubled(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(Cr5, "load", troubled)
    assert fails("info", "model") == line


# The real thing


def command(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    given = [str(COMMAND), *map(str, arguments)]
    return subprocess.run(given, capture_output=True, text=True, timeout=300, check=False, **options)


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    for _ in range(2400):
        if path.exists():
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    raise AssertionError(f"{path} never came")


@pytest.mark.slow
def test_the_installed_command_works_and_ends_as_it_should(model_folder: Path, tmp_path: Path) -> None:
    assert command("--version").stdout == f"cr5 {__version__}\n"
    missing = command("info", tmp_path / "nope")
    assert (missing.returncode, missing.stdout, missing.stderr.count("\n")) == (1, "", 1)
    assert "Traceback" not in missing.stderr
    debugged = command("info", tmp_path / "nope", env=os.environ | {"CR5_DEBUG": "1"})
    assert debugged.returncode == 1
    assert "Traceback" in debugged.stderr
    assert command("nope").returncode == 2
    assert json.loads(command("info", model_folder, "--json").stdout)["langs"] == list(madeup.LANGS)


@pytest.mark.parametrize("arguments", ["corpus convert builtin -o -", "info MODEL", "info MODEL --json"])
@pytest.mark.slow
def test_a_reader_that_has_seen_enough_is_no_error(arguments: str, model_folder: Path) -> None:
    given = f"{COMMAND} {arguments} | head -c 1".replace("MODEL", str(model_folder))
    done = subprocess.run(given, shell=True, capture_output=True, text=True, timeout=300, check=False)
    assert len(done.stdout) == 1
    assert done.stderr in ("", "1,600 documents written\n")


SLOWLY = """
import os, sys, time
from pathlib import Path
from cr5.training import solver as solve
from cr5.cli import run
step = solve.Problem.step
def slow(self, *arguments):
    if Path(f"{sys.argv[4]}.checkpoint").exists():
        time.sleep(float(os.environ["PAUSE"]))
    return step(self, *arguments)
solve.Problem.step = slow
sys.exit(run(sys.argv[1:]))
"""


def slowly(arguments: list[str], pause: float) -> subprocess.Popen[bytes]:
    """The command, with a pause before every step of the fit itself; the ridge path runs at full speed."""
    given = [sys.executable, "-c", SLOWLY, *arguments]
    environment = os.environ | {"PAUSE": str(pause)}
    return subprocess.Popen(given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)


@pytest.mark.slow
def test_ctrl_c_during_the_fit_saves_the_model(
    corpus_file: Path, tmp_path: Path, processes: list[subprocess.Popen[bytes]]
) -> None:
    model, checkpoint = tmp_path / "model", tmp_path / "model.checkpoint"
    process = slowly(["train", str(corpus_file), "-o", str(model), *LONG, "--set", "tol=1e-30"], pause=1)
    processes.append(process)
    wait_for(checkpoint, process)  # it is written between the ridge path and the fit
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    report = Cr5.load(model).report
    assert (report["interrupted"], report["converged"]) == (True, False)
    assert "the unfinished model is saved in" in errors.decode()
    assert Cr5.load(model).encode([text("aa", range(9))], "aa").any()


@pytest.mark.slow
def test_a_killed_run_leaves_the_old_model_and_can_be_resumed(
    corpus_file: Path,
    small_model: Cr5,
    tmp_path: Path,
    processes: list[subprocess.Popen[bytes]],
    run_json: Any,
    fails: Any,
) -> None:
    model, checkpoint = tmp_path / "model", tmp_path / "model.checkpoint"
    small_model.save(model)
    given = ["train", str(corpus_file), "-o", str(model), *LONG, "--set", "tol=3e-4"]
    process = slowly(given, pause=30)
    processes.append(process)
    wait_for(checkpoint, process)
    process.kill()
    process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL
    assert_same(Cr5.load(model), small_model)
    expected = f"{checkpoint} is from an interrupted run; continue it with --resume, or delete the file"
    assert fails(*given) == expected
    refused = fails(*given, "--resume", "--seed", "1")
    assert refused.startswith(f"{checkpoint} belongs to other documents or settings")
    assert_same(Cr5.load(model), small_model)
    resumed = run_json(*given, "--resume", "--json")["report"]
    assert not checkpoint.exists()
    whole = run_json(*given[:3], str(tmp_path / "other"), *given[4:], "--json")["report"]
    assert resumed["converged"]
    assert resumed["ridge"] == whole["ridge"]
    np.testing.assert_allclose(resumed["eigenvalues"], whole["eigenvalues"], rtol=1e-3)
    assert [p["ridge"] for p in resumed["ridge_path"]] == [p["ridge"] for p in whole["ridge_path"]]
    assert Cr5.load(model).settings.rank == 60
