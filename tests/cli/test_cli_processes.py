"""The command as a process of its own: pipes, Ctrl-C, killed runs."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import madeup
import numpy as np
import pytest
from command_line import COMMAND, assert_same, command
from madeup import text

from cr5 import Cr5, __version__

LONG = ["--rank", "60", "--set", "min_documents=2", "--set", "min_unique=5"]


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
from cr5.training.lobpcg import Lobpcg
from cr5.cli import run
step = Lobpcg.ritz_step
def slow(self, *arguments):
    if Path(f"{sys.argv[4]}.checkpoint").exists():
        time.sleep(float(os.environ["PAUSE"]))
    return step(self, *arguments)
Lobpcg.ritz_step = slow
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
@pytest.mark.skipif(os.name != "posix", reason="Windows has no such signals")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("ignored", [None, "SIGINT", "SIGHUP"])  # as of a job in the background, and by nohup
def test_a_signal_stops_any_command_and_nothing_half_written_stays(
    name: str, ignored: str | None, tmp_path: Path, processes: list[subprocess.Popen[bytes]]
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", "from cr5.cli import main; main()", "corpus", "convert", "-", "-o", "out/corpus.csv"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.Signals[ignored], signal.SIG_IGN) if ignored else None,
    )
    processes.append(process)
    while not list(folder.glob(".corpus.csv.*.tmp")):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.Signals[name])
    if name != ignored:
        assert process.wait(timeout=60) == 128 + signal.Signals[name]
        assert not list(folder.iterdir())
    _, errors = process.communicate(b'{"concept": "Q1", "lang": "en", "text": "a dog"}\n', timeout=60)
    if name == ignored:
        assert process.returncode == 0
        assert [path.name for path in folder.iterdir()] == ["corpus.csv"]
    else:
        assert errors == b"stopped\n"


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
    assert refused.startswith(f"{checkpoint} belongs to other documents or settings (--seed was 0 and is 1); ")
    assert_same(Cr5.load(model), small_model)
    resumed = run_json(*given, "--resume", "--json")["report"]
    assert not checkpoint.exists()
    whole = run_json(*given[:3], str(tmp_path / "other"), *given[4:], "--json")["report"]
    assert resumed["converged"]
    assert resumed["ridge"] == whole["ridge"]
    np.testing.assert_allclose(resumed["eigenvalues"], whole["eigenvalues"], rtol=1e-3)
    assert [p["ridge"] for p in resumed["ridge_path"]] == [p["ridge"] for p in whole["ridge_path"]]
    assert Cr5.load(model).settings.rank == 60
