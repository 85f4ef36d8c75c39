"""Commands that are run by the tests, and their input."""

import io
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cr5 import Cr5, Document, write
from cr5.cli import run


@pytest.fixture(scope="session")
def corpus_file(documents: list[Document], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpora") / "corpus.jsonl"
    write(path, documents)
    return path


@pytest.fixture(scope="session")
def small_model(documents: list[Document]) -> Cr5:
    """What SMALL makes of the corpus."""
    return Cr5(rank=10, ridge=1.0, min_documents=2, min_unique=5).fit(documents)


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Call it with the bytes that standard input is to hold."""
    return lambda content: monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))


@pytest.fixture
def done(capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a command that must end well; returns what it printed."""

    def call(*arguments: object) -> str:
        code = run([str(argument) for argument in arguments])
        caught = capsys.readouterr()
        assert code == 0, caught.err
        return caught.out

    return call


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
