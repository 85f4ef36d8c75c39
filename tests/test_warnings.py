"""Warnings of the library have classes, and the command prints them as it prints its own."""

import ast
import contextlib
import warnings
from pathlib import Path

import pytest

import cr5
from cr5 import errors
from cr5.cli import run
from cr5.errors import Cr5Warning

SOURCE = Path(cr5.__file__).parent


def test_every_warning_has_a_class_that_is_exported() -> None:
    found = set()
    for path in SOURCE.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        nodes = list(ast.walk(ast.parse(source if "warn" in source else "")))
        calls = [n for n in nodes if isinstance(n, ast.Call)]
        # One function decides which line a warning points at.
        assert path == Path(errors.__file__) or not any(ast.unparse(n.func) == "warnings.warn" for n in calls), path
        from_errors = [n for n in nodes if isinstance(n, ast.ImportFrom) and n.module == "cr5.errors"]
        if not any(alias.name == "warn" for n in from_errors for alias in n.names):
            continue
        for call in (n for n in calls if ast.unparse(n.func) == "warn"):
            if len(call.args) > 1:  # otherwise it is an instance
                category = getattr(errors, ast.unparse(call.args[1]))
                assert issubclass(category, Cr5Warning), path
                found.add(category.__name__)
            else:
                assert ast.unparse(call.args[0]) in ("note", "notes[-1]"), path  # of class Cr5Warning, as mypy checks
    assert found >= {"NotConverged", "Interrupted", "OutputWarning"}
    kinds = [value for value in vars(errors).values() if isinstance(value, type)]  # earlier names are the same classes
    classes = {kind.__name__ for kind in kinds if issubclass(kind, Warning)}
    assert classes <= set(cr5.__all__)


def test_a_warning_points_at_the_line_of_the_caller() -> None:
    documents = [("a", "en", "a dog"), ("a", "it", None)]
    with pytest.warns(cr5.InputSkipped) as caught, contextlib.suppress(cr5.CorpusError):
        cr5.Cr5().fit(documents, on_error="skip")
    assert [Path(warning.filename) for warning in caught] == [Path(__file__)]


def test_the_command_prints_warnings_in_its_own_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fit(*_: object, **__: object) -> None:
        warnings.warn("`rank=500` is high; try `min_unique`", errors.RankLowered, stacklevel=1)
        raise errors.Cr5Error("enough")

    monkeypatch.setattr(cr5.Cr5, "fit", fit)
    before = warnings.showwarning
    for _ in range(2):  # every time, not once per process
        assert run(["train", "builtin", "-o", str(tmp_path / "model")]) == 1
        caught = capsys.readouterr().err
        assert caught == "warning: --rank 500 is high; try --set min_unique\nerror: enough\n"
    assert warnings.showwarning is before
