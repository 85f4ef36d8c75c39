"""``cr5 corpus`` in an empty folder."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cr5.cli import run


@pytest.fixture
def corpus_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Run ``cr5 corpus`` within an empty folder."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: run(["corpus", *map(str, arguments)])


@pytest.fixture
def corpus_fails(corpus_command: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command that must end with 1 and one line on standard error; returns the line."""

    def call(*arguments: object) -> str:
        assert corpus_command(*arguments) == 1
        caught = capsys.readouterr()
        assert caught.out == ""
        assert caught.err.startswith("error: ")
        assert caught.err.count("\n") == 1
        return caught.err.removeprefix("error: ").removesuffix("\n")

    return call
