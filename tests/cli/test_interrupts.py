"""Ctrl-C at every stage of a training: a real signal to a real process, and what is on disk afterwards."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from cr5 import Cr5, Document, write
from cr5.cli import run

pytestmark = pytest.mark.slow

SETTINGS = ["--rank", "60", "--set", "min_documents=2", "--set", "min_unique=5", "--set", "tol=1e-5"]

SMALL_CORPUS = "warning: only 150 shared concepts, "

# The command, with a pause at a stage; the file REACHED appears when it begins.
PAUSED = """
import os, time
from contextlib import contextmanager
from pathlib import Path
import cr5.cli.render.console as console, cr5.storage.model_files as model_files
from cr5.cli import main
stage, reached = os.environ["STAGE"], Path(os.environ["REACHED"])
def pause():
    reached.touch()
    time.sleep(1)
@contextmanager
def report(quiet=False):
    yield lambda progress: pause() if progress.stage == stage else None
console.progress_bars = report
write = model_files._write
def slowly(*arguments):
    if stage == "save":
        pause()
    write(*arguments)
model_files._write = slowly
main()
"""


class Ended(NamedTuple):
    code: int
    errors: str
    output: str
    folder: Path

    @property
    def model(self) -> Path:
        return self.folder / "model"

    @property
    def checkpoint(self) -> Path:
        return self.folder / "model.checkpoint"

    @property
    def is_interrupted(self) -> bool:
        return bool(Cr5.load(self.model).report["interrupted"])

    def others(self) -> set[str]:
        return {path.name for path in self.folder.iterdir()} - {"corpus.jsonl", "model", "model.checkpoint", "reached"}


Train = Callable[..., Ended]


@pytest.fixture
def train(documents: list[Document], tmp_path: Path) -> Iterator[Train]:
    """Train with a pause at a stage, sending a signal ``times`` times in it."""
    write(tmp_path / "corpus.jsonl", documents)
    reached, started = tmp_path / "reached", list[subprocess.Popen[str]]()

    def call(
        stage: str, *more: str, times: int = 1, number: int = signal.SIGINT, settings: Sequence[str] = SETTINGS
    ) -> Ended:
        reached.unlink(missing_ok=True)
        given = ["train", "corpus.jsonl", "-o", "model", *settings, *more]
        process = subprocess.Popen(
            [sys.executable, "-c", PAUSED, *given],
            cwd=tmp_path,
            env=os.environ | {"STAGE": stage, "REACHED": str(reached)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        while not reached.exists() and process.poll() is None and times:
            time.sleep(0.01)
        for _ in range(times):
            time.sleep(0.2)
            process.send_signal(number)
        output, errors = process.communicate(timeout=120)
        about_interrupt = [line for line in errors.splitlines(True) if not line.startswith(SMALL_CORPUS)]
        return Ended(process.returncode, "".join(about_interrupt), output, tmp_path)

    yield call
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait()


def finished_model(documents: list[Document], folder: Path) -> bytes:
    Cr5(rank=10, ridge=1.0, min_documents=2, min_unique=5).fit(documents).save(folder / "model")
    return (folder / "model" / "model.json").read_bytes()


def test_an_interrupt_while_reading_leaves_everything_as_it_was(train: Train) -> None:
    ended = train("read and count words")
    assert (ended.code, ended.errors) == (130, "stopped; model is as it was before\n")
    assert not ended.model.exists()
    assert not ended.checkpoint.exists()
    assert ended.others() == set()


def test_an_interrupt_while_the_ridge_is_selected_keeps_an_unfinished_model(
    train: Train, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = train("choose the ridge")
    assert ended.code == 130
    interrupted, where = ended.errors.splitlines()
    assert interrupted.startswith("warning: the fit was interrupted before its first step and has not converged: ")
    assert ", the tolerance 1e-05; the ridge was not chosen: interrupted after " in interrupted
    assert where == (
        "warning: the unfinished model is saved in model; to finish it, run it again from the beginning, because there "
        "is no checkpoint before the ridge is chosen"
    )
    assert ended.is_interrupted
    assert not ended.checkpoint.exists()
    assert ended.others() == set()
    assert run(["info", str(ended.model)]) == 0
    assert "(interrupted)" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_during_the_fit_keeps_the_model_and_resume_finishes_it(train: Train, number: int) -> None:
    ended = train("fit", number=number)
    assert ended.code == 128 + number
    assert "try: cr5 similar" not in ended.output  # with an unfinished model
    interrupted, where = ended.errors.splitlines()
    assert interrupted.startswith("warning: the fit was interrupted ")
    assert where == "warning: the unfinished model is saved in model; to finish it, continue with --resume"
    assert ended.is_interrupted
    assert ended.checkpoint.exists()
    assert ended.others() == set()
    resumed = train("nothing", "--resume", times=0)
    assert (resumed.code, resumed.errors) == (0, "")
    assert not resumed.is_interrupted
    assert not resumed.checkpoint.exists()


@pytest.mark.parametrize("stage", ["read and count words", "choose the ridge", "fit"])
def test_an_interrupted_fit_never_replaces_a_finished_model(
    train: Train, documents: list[Document], tmp_path: Path, stage: str
) -> None:
    before = finished_model(documents, tmp_path)
    ended = train(stage)
    assert ended.code == 130
    assert ("Interrupted model, not saved" in ended.output) == (stage != "read and count words")
    assert not any(text in ended.output for text in ("Model model", "written to", "try:"))
    assert (ended.model / "model.json").read_bytes() == before
    assert ended.checkpoint.exists() == (stage == "fit")
    assert ("model still has the finished model" in ended.errors) == (stage != "read and count words")
    assert ("continue with --resume" in ended.errors) == (stage == "fit")
    assert ended.others() == set()
    if stage == "fit":
        assert train("nothing", "--resume", times=0).code == 0
        assert (ended.model / "model.json").read_bytes() != before
        assert not ended.is_interrupted


def test_an_interrupted_update_saves_nothing_but_its_checkpoint(
    train: Train, documents: list[Document], tmp_path: Path
) -> None:
    Cr5(rank=60, ridge=1.0, min_documents=2, min_unique=5, tol=1e-5).fit(documents).save(tmp_path / "earlier")
    ended = train("fit", "--from", "earlier", settings=())
    assert (ended.code, ended.output, ended.model.exists()) == (130, "", False)
    assert "nothing is saved in model: continue with --resume" in ended.errors
    assert train("nothing", "--from", "earlier", "--resume", times=0, settings=()).code == 0
    assert not ended.is_interrupted
    assert not ended.checkpoint.exists()


def test_an_interrupt_while_saving_lets_it_end(train: Train) -> None:
    ended = train("save")
    assert (ended.code, ended.errors) == (0, "")
    assert not ended.is_interrupted
    assert not ended.checkpoint.exists()


def test_two_interrupts_while_saving_leave_the_model_and_the_checkpoint(
    train: Train, documents: list[Document], tmp_path: Path
) -> None:
    before = finished_model(documents, tmp_path)
    ended = train("save", times=2)
    assert (ended.code, ended.errors) == (130, "stopped; run the same command with --resume to continue\n")
    assert (ended.model / "model.json").read_bytes() == before
    assert ended.checkpoint.exists()
    manifest = json.loads(before)
    entries = [*manifest["languages"].values(), manifest["targets"]]
    named = {file["name"] for entry in entries for file in entry["files"].values()}
    assert {path.name for path in ended.model.iterdir()} <= named | {"model.json", ".lock"}
