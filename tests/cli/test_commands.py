"""The command line: help, usage, the commands for corpora, and how a command ends."""

import io
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import madeup
import pytest
from command_line import SMALL, fits
from madeup import texts

from cr5 import Cr5, Document, __version__, read, write
from cr5.cli import run

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
    assert caught.err == b"150 documents written\ndocuments: 150 read, 150 written\n"


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
        (
            MemoryError(),
            "there is not enough memory; close other programs, or raise the memory limit of the process or container",
        ),
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
