"""``cr5 eval``: what it prints and writes, and its error messages."""

import csv
import inspect
import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import madeup
import numpy as np
import pytest
from html_tree import parse
from limits import file_size_limit

from cr5 import Cr5, evaluate, read, write
from cr5.cli import evaluation, run
from cr5.evaluate.systems.fitted_system import FittedSystem
from cr5.evaluate.systems.registry import KEYS, SYSTEMS
from cr5.evaluate.systems.shared_tokens import shared_tokens

SETTINGS = [
    "--rank", "40", "--ridge", "0.3", "--set", "min_documents=2", "--set", "min_unique=5", "--set", "subwords=false",
]  # fmt: skip


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpora") / "corpus.jsonl"
    write(path, madeup.corpus(concepts=300))
    return path


@pytest.fixture
def fails(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command that must fail; returns its message."""

    def call(*arguments: object) -> str:
        assert run([str(argument) for argument in arguments]) == 1
        caught = capsys.readouterr()
        assert caught.out == ""
        return caught.err.strip().removeprefix("error: ")

    return call


@pytest.fixture(scope="module")
def results(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two regimes and all systems that the base install has."""
    path = tmp_path_factory.mktemp("results") / "first"
    given = [
        "eval",
        "documents",
        str(corpus),
        "-o",
        str(path),
        "--regime",
        "joint,low-resource",
        "--low-resource",
        "80",
    ]
    assert run([*given, *SETTINGS]) == 0
    return path


@pytest.mark.slow
def test_the_four_files_of_a_run_agree(results: Path) -> None:
    assert {p.name for p in results.iterdir()} == {
        "run.json", "scores.csv", "report.md", "report.html", "split.json",
    }  # fmt: skip
    plain = json.loads((results / "run.json").read_text())
    with (results / "scores.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(plain["scores"]) == 2 * 6 * 6 * 2
    for row, score in zip(rows, plain["scores"], strict=True):
        assert row["signature"] == score["signature"]
        assert float(row["P@1"]) == pytest.approx(score["precision"]["1"], abs=1e-4)
    page, text = ((results / name).read_text() for name in ("report.html", "report.md"))
    for mean in plain["means"]:
        if mean["measure"] == "csls":
            assert f"{mean['precision']['1']:.1f}" in page
            assert f"{mean['precision']['1']:.1f}" in text


@pytest.mark.slow
def test_the_last_line_names_the_files_that_are_in_the_folder(
    corpus: Path, model_folder: Path, tmp_path: Path, done: Callable[..., str]
) -> None:
    index = tmp_path / "index"
    done("index", model_folder, corpus, "-o", index)
    for name, given in (
        ("documents", [corpus, "--systems", "shared-tokens"]),
        ("search", [index, "--types", "title", "--queries", "20"]),
    ):
        folder = tmp_path / name
        listed = done("eval", name, *given, "-o", folder).rpartition("written to")[2].replace("\n", " ")
        names = listed.rpartition(": ")[2].replace(" ", "").split(",")
        assert set(names) == {path.name for path in folder.iterdir()}


@pytest.mark.slow
def test_a_disk_that_is_full_at_the_end_does_not_lose_the_figures(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, index = tmp_path / "model", tmp_path / "index"
    assert run(["train", str(corpus), "-o", str(model), *SETTINGS]) == 0
    assert run(["index", str(model), str(corpus), "-o", str(index)]) == 0
    for name, given in (
        ("documents", [str(corpus), "--systems", "shared-tokens", "--regime", "joint"]),
        ("search", [str(index), "--types", "sentence-short"]),
    ):
        capsys.readouterr()
        assert run(["eval", name, *given]) == 0
        expected = capsys.readouterr().out
        for json_option in ([], ["--json"]):
            with file_size_limit(1000):
                assert run(["eval", name, *given, "-o", str(tmp_path / "results"), *json_option]) == 1
            printed, error = capsys.readouterr()
            assert error.replace("\n", " ").split("error: ")[-1] == (
                f"{tmp_path}/results: the results cannot be written, file too large; the figures that are printed are "
                "complete; free some space, and run it again for the files "
            )
            assert json.loads(printed) if json_option else printed.split()[:20] == expected.split()[:20]
            assert "written to" not in printed
            assert not (tmp_path / "results").exists()


@pytest.mark.slow
def test_the_tables_fit_a_small_terminal_and_name_every_system(corpus: Path, done: Callable[..., str]) -> None:
    printed = done("eval", "documents", corpus, *SETTINGS)
    assert max(map(len, printed.splitlines())) <= 80
    for name in ("cr5", "shared tokens", "BM25 over shared words", "CL-ESA"):
        assert name in printed
    detailed = done("eval", "documents", corpus, *SETTINGS, "--systems", "cr5", "--details")
    assert "shared: training concepts that both languages have" in detailed


@pytest.mark.slow
def test_json_is_the_run_and_nothing_else(corpus: Path, done: Callable[..., str]) -> None:
    plain = json.loads(done("eval", "documents", corpus, *SETTINGS, "--systems", "cr5,wsdm19", "--json"))
    assert {score["system"] for score in plain["scores"]} == {"cr5", "cr5 as in the paper"}
    means = {(m["system"], m["measure"]): m["precision"]["1"] for m in plain["means"]}
    assert means["cr5", "csls"] > 50
    assert plain["facts"]["seconds"] > 0


@pytest.mark.slow
def test_a_stored_split_gives_the_same_run_again(corpus: Path, results: Path, done: Callable[..., str]) -> None:
    given = ["eval", "documents", corpus, *SETTINGS, "--systems", "cr5", "--json"]
    again = json.loads(done(*given, "--split", results / "split.json"))
    other = json.loads(done(*given, "--seed", "1"))
    first = [s for s in json.loads((results / "run.json").read_text())["scores"] if s["system"] == "cr5"]
    by_place = {(s["regime"], s["source"], s["target"], s["measure"]): s for s in first}
    for score in again["scores"]:
        place = (score["regime"], score["source"], score["target"], score["measure"])
        assert score["ranks"] == by_place[place]["ranks"]
        assert score["signature"] == by_place[place]["signature"]
    assert other["scores"][0]["signature"] != again["scores"][0]["signature"]


@pytest.mark.slow
def test_two_runs_are_compared(corpus: Path, results: Path, tmp_path: Path, done: Callable[..., str]) -> None:
    weak = ["--rank", "2", "--ridge", "0.3", "--set", "min_documents=2", "--set", "min_unique=5"]
    done(
        "eval",
        "documents",
        corpus,
        *weak,
        "--systems",
        "cr5-dense",
        "--split",
        results / "split.json",
        "-o",
        tmp_path / "b",
    )
    rows = json.loads(done("eval", "--json", "--compare", results, tmp_path / "b"))
    mean = next(row for row in rows if row["source"] == "" and row["measure"] == "csls")
    assert (mean["system_a"], mean["regime"], mean["directions"]) == ("cr5-dense", "joint", 6)
    assert mean["at_1"]["value"] < -30
    assert mean["significant"]
    printed = done("eval", "--compare", results, tmp_path / "b")
    assert max(map(len, printed.splitlines())) <= 80
    assert f"{mean['at_1']['value']:.1f}".lstrip("-") in printed
    same = json.loads(done("eval", "--json", "--compare", results, results))
    assert not any(row["significant"] for row in same)
    named = json.loads(done("eval", "--json", "--compare", results, results, "--systems", "cr5,shared tokens"))
    assert named[0]["precision_b"] < named[0]["precision_a"]


def test_texts_can_be_encoded_elsewhere_and_evaluated(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], done: Callable[..., str]
) -> None:
    done("eval", "documents", corpus, *SETTINGS, "--texts", tmp_path / "texts")
    own = Cr5(**madeup.SETTINGS).fit(madeup.corpus(concepts=300))
    (tmp_path / "vectors").mkdir()
    for lang in madeup.LANGS:
        held = [d.text for d in read(tmp_path / "texts" / f"{lang}.jsonl")]
        np.save(tmp_path / "vectors" / f"{lang}.npy", own.encode(held, lang))
    given = ["eval", "documents", corpus, *SETTINGS, "--systems", "floor", "--vectors", f"mine={tmp_path / 'vectors'}"]
    plain = json.loads(done(*given, "--json"))
    means = {(m["system"], m["measure"]): m["precision"]["1"] for m in plain["means"]}
    assert means["mine", "csls"] > 80
    assert means["shared tokens", "cosine"] < 5


@pytest.mark.slow
def test_a_trained_model_is_evaluated_on_sentences_and_words(
    model_folder: Path, corpus: Path, tmp_path: Path, done: Callable[..., str]
) -> None:
    random = np.random.default_rng(0)
    said = [random.choice(madeup.MEANINGS, 6, replace=False).tolist() for _ in range(200)]
    for lang in ("aa", "bb"):
        lines = [madeup.text(lang, meanings) for meanings in said]
        (tmp_path / f"sentences.{lang}").write_text("\n".join(lines) + "\n")
    files = [tmp_path / f"sentences.{lang}" for lang in ("aa", "bb")]
    plain = json.loads(done("eval", "sentences", model_folder, *files, "--json", "-o", tmp_path / "out"))
    assert {m["system"] for m in plain["means"]} == {"cr5", "cr5-dense"}
    assert min(m["precision"]["1"] for m in plain["means"]) > 20
    assert (tmp_path / "out" / "report.html").exists()
    beside = json.loads(
        done("eval", "sentences", model_folder, *files, "--train", corpus, "--systems", "floor,lsi", "--json")
    )
    assert {m["system"] for m in beside["means"]} == {"cr5", "cr5-dense", "shared tokens", "CL-LSI"}
    pairs = [f"{madeup.word('aa', i)}\t{madeup.word('bb', i)}" for i in range(60)]
    (tmp_path / "aa-bb.tsv").write_text("\n".join([*pairs, "unknown\tunheard"]) + "\n")
    words = json.loads(done("eval", "words", model_folder, tmp_path / "aa-bb.tsv", "--json"))
    assert min(m["precision"]["1"] for m in words["means"]) > 10
    assert words["scores"][0]["ranks"].count(0) >= 1
    for text in (
        done("eval", "words", model_folder, tmp_path / "aa-bb.tsv"),
        done("eval", "sentences", model_folder, *files),
    ):
        assert max(map(len, text.splitlines())) <= 80


def test_an_unknown_name_is_refused_with_the_known_ones(
    corpus: Path, tmp_path: Path, fails: Callable[..., str]
) -> None:
    assert fails("eval", "documents", corpus, "--regime", "alone") == (
        "there is no regime 'alone'; the regimes are joint, pairwise, low-resource, transitive, or all"
    )
    assert fails("eval", "documents", corpus, "--systems", "cr5,magic") == (
        f"there is no system 'magic'; the systems are {', '.join(KEYS)}, or all"
    )
    assert fails("eval", "documents", corpus, "--systems", "dictionary") == (
        "the system dictionary needs a bilingual dictionary; give one with --dictionary en-it.tsv"
    )
    (tmp_path / "words.tsv").write_text("a\tb\n")
    assert fails("eval", "documents", corpus, "--dictionary", tmp_path / "words.tsv").startswith(
        f"{tmp_path / 'words.tsv'}: the file name does not contain a language pair"
    )
    assert fails("eval", "words", tmp_path, tmp_path / "none").startswith(f"{tmp_path / 'none'}: cannot be read")
    assert fails("eval", "--compare", tmp_path, tmp_path) == (
        f"{tmp_path / 'run.json'} does not exist; name a folder that an evaluation wrote"
    )
    assert fails("eval", "documents", corpus, "--langs", "aa,xx").startswith(
        "the corpus has no document in language xx"
    )
    assert fails("reproduce", "wsdm19", tmp_path).startswith(f"{tmp_path}")


def test_a_failed_run_writes_nothing(corpus: Path, tmp_path: Path, fails: Callable[..., str]) -> None:
    message = fails(
        "eval",
        "documents",
        corpus,
        "--systems",
        "cr5",
        "--rank",
        "9999",
        "--set",
        "min_unique=5",
        "-o",
        tmp_path / "out",
    )
    assert message == (
        "cr5, joint: --rank 9999 is too large for 180 shared concepts, of which --ridge auto holds out 36; "
        "use --rank <= 143, or add documents"
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--split SPLIT --seed 1", "--seed is determined by the split SPLIT; leave it out"),
        ("--split SPLIT --queries 20", "--queries is determined by the split SPLIT; leave it out"),
        ("--low-resource 20", "--low-resource only applies to the regime low-resource; leave it out"),
        ("--pivot aa", "--pivot only applies to the regime transitive; leave it out"),
        ("--bridge aa", "--pivot only applies to the regime transitive; leave it out"),
        ("--drop-shared", "--drop-shared only applies to the regime transitive; leave it out"),
        ("--drop", "--drop-shared only applies to the regime transitive; leave it out"),
        ("--texts there --json", "--texts only writes texts; leave out --json"),
        ("--systems ,", "--systems is empty; the systems are"),
        ("--regime ,", "--regime is empty; the regimes are joint, pairwise, low-resource, transitive, or all"),
    ],
)
def test_options_that_would_be_ignored_are_refused(
    arguments: str, message: str, corpus: Path, results: Path, fails: Callable[..., str]
) -> None:
    split = str(results / "split.json")
    given = arguments.replace("SPLIT", split).split()
    assert fails("eval", "documents", corpus, *given).startswith(message.replace("SPLIT", split))


def test_a_folder_that_cannot_be_written_is_reported_before_any_work(
    corpus: Path, model_folder: Path, tmp_path: Path, fails: Callable[..., str]
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "aa-bb.tsv").write_text("a\tb\n")
    file = tmp_path / "file"
    expected = f"{file} cannot be written: it is a file, not a folder; choose another path"
    assert fails("eval", "documents", tmp_path / "nothing.jsonl", "-o", tmp_path / "file") == expected
    assert fails("eval", "words", model_folder, tmp_path / "aa-bb.tsv", "-o", tmp_path / "file") == expected
    assert fails("reproduce", "wsdm19", tmp_path, "-o", tmp_path / "file") == expected


@pytest.mark.slow
def test_eval_without_a_subcommand_lists_them(corpus: Path, results: Path, fails: Callable[..., str]) -> None:
    assert fails("eval", "--json") == (
        "name what to measure: documents, sentences, words or search; or give two runs to --compare"
    )
    assert fails("eval", "--compare", results, results, "documents", corpus) == (
        "--compare cannot be combined with documents; leave one of them out"
    )
    assert fails("eval", "--compare", results, results, "--systems", "cr5") == (
        "--systems is 'cr5'; with --compare it must be two names, one of each run"
    )


@pytest.mark.slow
def test_systems_can_be_compared_by_their_keys(results: Path, done: Callable[..., str]) -> None:
    rows = json.loads(done("eval", "--json", "--compare", results, results, "--systems", "cr5,floor"))
    assert (rows[0]["system_a"], rows[0]["system_b"]) == ("cr5", "shared tokens")


@pytest.mark.slow
def test_cr5_trained_as_a_baseline_does_not_replace_the_model(
    model_folder: Path, corpus: Path, tmp_path: Path, done: Callable[..., str], fails: Callable[..., str]
) -> None:
    random = np.random.default_rng(0)
    said = [random.choice(madeup.MEANINGS, 6, replace=False).tolist() for _ in range(60)]
    for lang in ("aa", "bb"):
        (tmp_path / f"s.{lang}").write_text("\n".join(madeup.text(lang, one) for one in said) + "\n")
    files = [tmp_path / "s.aa", tmp_path / "s.bb"]
    alone = json.loads(done("eval", "sentences", model_folder, *files, "--json"))
    beside = json.loads(
        done("eval", "sentences", model_folder, *files, "--train", corpus, "--systems", "cr5", "--json")
    )
    assert beside["facts"]["training"]["aa"] == {"read": 300, "trained": 300, "short": 0, "long": 0}
    first = {s["system"]: s for s in beside["scores"]}
    assert set(first) == {"cr5", "cr5-dense", "cr5 (trained here)"}
    assert first["cr5"]["signature"] == {s["system"]: s for s in alone["scores"]}["cr5"]["signature"]
    assert "|trained on " in first["cr5 (trained here)"]["signature"]
    assert fails("eval", "sentences", model_folder, *files, "--systems", "floor") == (
        "--systems needs documents to train on, which --train names; leave it out"
    )
    (tmp_path / "s.xx").write_text((tmp_path / "s.aa").read_text())
    (tmp_path / "s.yy").write_text((tmp_path / "s.aa").read_text())
    assert fails("eval", "sentences", model_folder, tmp_path / "s.xx", tmp_path / "s.yy") == (
        "the model has none of the languages xx, yy; its languages are aa, bb, cc"
    )


def test_ctrl_c_keeps_what_was_measured(corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    once: list[bool] = []

    def interrupt(training: object, **options: object) -> FittedSystem:
        if not once:
            once.append(True)
            signal.raise_signal(signal.SIGINT)
        return shared_tokens({}, rank=1, seed=0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SYSTEMS, "bm25", replace(SYSTEMS["bm25"], make=lambda options: interrupt))
        code = run(
            ["eval", "documents", str(corpus), *SETTINGS, "--systems", "floor,bm25,esa", "-o", str(tmp_path / "o")]
        )
    assert code == 130
    plain = json.loads((tmp_path / "o" / "run.json").read_text())
    assert {s["system"] for s in plain["scores"]} == {"shared tokens", "BM25 over shared words"}
    assert plain["notes"] == ["stopped before joint, CL-ESA: 1 of 3 trainings are missing"]
    assert "interrupted; the results so far are kept" in capsys.readouterr().err


def test_a_system_that_could_not_run_stands_in_every_report_with_its_reason(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: Callable[..., str]
) -> None:
    for module in ("sklearn", "gensim"):
        monkeypatch.setitem(sys.modules, module, None)  # as if it were not installed
    printed = done("eval", "documents", corpus, *SETTINGS, "--systems", "words,floor,lsi", "-o", tmp_path / "out")
    reasons = {
        "word vectors": "it needs gensim; install it with pip install 'cr5[eval]'",
        "CL-LSI": "it needs scikit-learn; install it with pip install 'cr5[eval]'",
    }
    page = parse((tmp_path / "out" / "report.html").read_text())
    table = next(page.all("table", "summary"))
    rows = {name.text: row.text for row in table.all("tr") for name in row.all("span", "name")}
    text = (tmp_path / "out" / "report.md").read_text()
    for system, reason in reasons.items():
        assert f"{system}, joint: {reason}" in " ".join(printed.split())
        assert re.search(rf"^{system} +not installed$", printed, re.MULTILINE)
        assert f"| {system} | not installed |" in text
        assert f"- {system}, joint: {reason.replace('[', chr(92) + '[').replace(']', chr(92) + ']')}" in text
        assert reason in rows[system]
    again = evaluate.load_run(tmp_path / "out")
    assert {failed.system: (failed.kind, failed.reason) for failed in again.failed} == {
        system: ("missing package", reason) for system, reason in reasons.items()
    }
    assert list(again.roles) == ["word vectors", "shared tokens", "CL-LSI"]


def test_the_command_fails_at_the_end_if_cr5_itself_could_not_run(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["eval", "documents", str(corpus), "--set", "min_unique=5", "--systems", "cr5,floor", "--rank", "9999"]
    assert run([*given, "-o", str(tmp_path / "out")]) == 1
    caught = capsys.readouterr()
    expected = (
        "cr5, joint: --rank 9999 is too large for 180 shared concepts, of which --ridge auto holds out 36; "
        "use --rank <= 143, or add documents"
    )
    assert f"could not run: {expected}" in " ".join(caught.out.split())
    assert caught.err.strip() == f"error: {expected}. Everything else was measured"
    assert {p.name for p in (tmp_path / "out").iterdir()} >= {"run.json", "report.html", "report.md", "scores.csv"}
    plain = json.loads((tmp_path / "out" / "run.json").read_text())
    assert {score["system"] for score in plain["scores"]} == {"shared tokens"}
    assert plain["failed"][0]["reason"].startswith("`rank=9999` ")
    page, text = ((tmp_path / "out" / name).read_text() for name in ("report.html", "report.md"))
    assert "use --rank &lt;= 143" in page
    assert "--ridge auto holds out" in text
    assert "`ridge" not in page + text


@pytest.mark.slow
def test_all_files_are_written_when_the_reader_of_the_output_closes_it(corpus: Path, tmp_path: Path) -> None:
    command = Path(sys.executable).with_name("cr5")
    given = [command, "eval", "documents", corpus, *SETTINGS, "--systems", "floor", "-o", tmp_path / "out"]
    done = subprocess.run(f"{shlex.join(map(str, given))} | head -c 1", shell=True, capture_output=True, check=False)
    assert len(done.stdout) == 1
    assert b"Traceback" not in done.stderr
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        "run.json", "scores.csv", "report.md", "report.html", "split.json",
    }  # fmt: skip


@pytest.mark.parametrize("task", ["documents", "sentences", "words"])
def test_a_command_has_the_parameters_and_defaults_of_its_function(task: str) -> None:
    """So that the two lists cannot drift apart."""
    only_command = {"documents": {"corpora", "preset", "rank", "ridge", "setting", "held_out_texts"}}
    only_function = {"documents": {"corpus", "settings", "name", "skipped", "should_stop", "bridge"}}
    command = dict(inspect.signature(getattr(evaluation, task)).parameters)
    function = dict(inspect.signature(getattr(evaluate, task)).parameters)
    assert command.keys() - function.keys() == only_command.get(task, set()) | {"details", "json"}
    assert function.keys() - command.keys() == only_function.get(task, set()) | {"progress"}
    for name in command.keys() & function.keys():
        of_command, of_function = command[name].default, function[name].default
        if isinstance(of_function, tuple):  # which the command takes as text with commas, or several times
            of_command = tuple(of_command.split(",")) if of_command else ()
        assert of_command == of_function, name


def test_a_comparable_corpus_must_have_the_language_order_of_the_split(
    corpus: Path, results: Path, fails: Callable[..., str]
) -> None:
    given = ["--comparable", "--split", results / "split.json", "--langs", "cc,bb,aa"]
    assert fails("eval", "documents", corpus, *given) == (
        "with --comparable the order of the languages decides which paragraphs each gets; "
        "use --langs aa,bb,cc, the order of the split"
    )
