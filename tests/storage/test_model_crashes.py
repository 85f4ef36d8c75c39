"""Models that cannot be saved, and processes that end while they save one."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_folders import assert_same, fails, language, model, names, with_ngrams
from safetensors.numpy import save_file

from cr5.errors import ModelFileError
from cr5.storage.language_map import LanguageMap
from cr5.storage.model_files import open_model, save


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "model"
    save(path, *model(1))
    return path


# What cannot be saved


def changed(**parts: Any) -> dict[str, LanguageMap]:
    return {"de": LanguageMap(**{**vars(language(1)), **parts})}


FIVE = [f"w{i}" for i in range(5)]
OWN: Any = with_ngrams(1).subwords


@pytest.mark.parametrize(
    ("languages", "message"),
    [
        (
            {"../de": language(1)},
            "language '../de' cannot name a file; use only letters a to z, digits, - and _",
        ),
        (changed(words=[]), "language de has 0 words and rank 3; both must be at least 1"),
        (changed(words=FIVE[:4]), "idf of de is float32 (5,); make it float32 (4,)"),
        (changed(map=np.ones((5, 3))), "map of de is float64 (5, 3); make it float32 (5, 3)"),
        (changed(idf=np.full(5, np.inf, np.float32)), "idf of de is not finite; check the training data"),
        (
            {"zh": replace(with_ngrams(1), subwords=replace(OWN, map=np.ones((4, 3), np.float32)))},
            "subword_map of zh is float32 (4, 3); make it float16 (4, 3)",
        ),
        (
            {"zh": replace(with_ngrams(1), subwords=replace(OWN, ngrams=["<a", "b>", "<a", "c>"]))},
            "n-gram '<a' of zh occurs twice; keep one of them",
        ),
        (changed(words=[*FIVE[:4], "w1"]), "word 'w1' of de occurs twice; keep one of them"),
        *(
            (
                changed(words=[*FIVE[:4], word]),
                f"word {word!r} of de is empty, has white space or is not Unicode; drop it",
            )
            for word in ("", "a b", "a\n", "\u2028a", "\ud800")
        ),
    ],
)
def test_what_is_no_model_is_refused_and_nothing_written(
    tmp_path: Path, languages: dict[str, LanguageMap], message: str
) -> None:
    with fails(message):
        save(tmp_path / "model", {}, languages)
    assert not names(tmp_path)


def test_a_header_must_be_strict_json(tmp_path: Path) -> None:
    message = "the metadata is not JSON: Object of type float32 is not JSON serializable; "
    with fails(message + "use strings, finite numbers, lists, dicts"):
        save(tmp_path / "model", {"rank": np.float32(1)}, model(1)[1])
    for header in ({"loss": float("nan")}, {"name": "\ud800"}):
        with pytest.raises(
            ModelFileError, match=r"^the metadata is not JSON: .*; use strings, finite numbers, lists, dicts$"
        ):
            save(tmp_path / "model", header, model(1)[1])
    assert not names(tmp_path)


def test_a_file_is_not_saved_over(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with fails(f"{tmp_path}/file is a file; save the model to a new or empty folder"):
        save(tmp_path / "file", *model(1))
    assert (tmp_path / "file").read_text() == "mine"


def test_a_folder_of_other_files_is_not_saved_over(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with fails(f"{tmp_path} holds other files, such as thesis.tex; save to a new or empty folder"):
        save(tmp_path, *model(1))
    assert names(tmp_path) == ["thesis.tex"]


@pytest.mark.parametrize("content", ["pickle", '{"kind": "spacy"}', '{"kind": "cr5 model", "format": 4}'])
def test_a_model_json_of_others_is_not_saved_over(tmp_path: Path, content: str) -> None:
    (tmp_path / "model.json").write_text(content)
    with fails(f"cannot save over {tmp_path}, which this cr5 did not write; save elsewhere"):
        save(tmp_path, *model(1))
    assert names(tmp_path) == ["model.json"]
    assert (tmp_path / "model.json").read_text() == content


# Crashes


class CrashError(Exception):
    """The machine stops."""


class Steps:
    """Counts what touches the disk and stops at one step: for good, as a crash, or once, as an error."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, stop: int, *, once: bool) -> None:
        self.count, self.stop, self.once = 0, stop, once
        for name in ("mkdir", "open", "fsync", "replace", "unlink", "rmdir", "chmod"):
            monkeypatch.setattr(os, name, self.watch(getattr(os, name)))
        monkeypatch.setattr(fcntl, "flock", self.watch(fcntl.flock))
        monkeypatch.setattr("safetensors.numpy.save_file", self.watch(save_file, self.half_tensors))
        monkeypatch.setattr(Path, "write_bytes", self.watch(Path.write_bytes, self.half_bytes))

    def watch(self, function: Callable[..., Any], torn: Callable[..., Any] | None = None) -> Callable[..., Any]:
        def step(*arguments: Any, **named: Any) -> Any:
            self.count += 1
            if self.count == self.stop or (self.count > self.stop > 0 and not self.once):
                if torn and self.count == self.stop:
                    torn(*arguments)
                raise CrashError
            return function(*arguments, **named)

        return step

    @staticmethod
    def half_tensors(arrays: Any, file: Path, metadata: Any) -> None:
        save_file(arrays, file, metadata)
        os.truncate(file, file.stat().st_size // 2)
        (file.parent / ".tmpA1b2C3").touch()  # the library's own

    @staticmethod
    def half_bytes(file: Path, content: bytes) -> None:
        with file.open("wb") as opened:
            opened.write(content[: len(content) // 2])


@pytest.mark.slow
@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("first", [False, True])
def test_a_crash_at_any_step_leaves_the_old_model_or_the_new_one(tmp_path: Path, first: bool, once: bool) -> None:
    seen = []
    save(tmp_path / "old", *model(1))
    for stop in range(1, 1000):
        path = tmp_path / str(stop)
        if not first:
            shutil.copytree(tmp_path / "old", path)
        with pytest.MonkeyPatch.context() as monkeypatch:
            steps = Steps(monkeypatch, stop, once=once)
            try:
                save(path, *model(5))
            except CrashError:
                pass
            else:
                break
        if (path / "model.json").exists():
            seen.append(open_model(path).metadata["seed"])
            assert_same(path, model(seen[-1]))
        else:
            assert first
            seen.append(None)
        if not once:
            save(path, *model(9))
            assert_same(path, model(9))
            assert len(names(path)) == 7  # nothing stale is left
    assert steps.count == stop - 1 > 20
    assert set(seen) == {None if first else 1, 5}
    assert seen == sorted(seen, key=lambda seed: seed == 5)  # one step decides


def test_everything_is_on_disk_before_the_step_that_decides(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: set[int] = set()
    waiting: list[str] = []
    decided = False
    fsync, replace, unlink = os.fsync, os.replace, os.unlink

    def watch_fsync(descriptor: int) -> None:
        fsync(descriptor)
        synced.add(os.fstat(descriptor).st_ino)
        if os.fstat(descriptor).st_ino == folder.stat().st_ino:
            waiting.clear()

    def watch_replace(source: Path, target: Path) -> None:
        nonlocal decided
        assert source.stat().st_ino in synced
        if target.name == "model.json":
            assert not waiting
            decided = True
        waiting.append(target.name)
        replace(source, target)

    def watch_unlink(file: Any, **named: Any) -> None:
        assert decided
        assert not waiting
        unlink(file, **named)

    monkeypatch.setattr(os, "fsync", watch_fsync)
    monkeypatch.setattr(os, "replace", watch_replace)
    monkeypatch.setattr(os, "unlink", watch_unlink)
    save(folder, *model(5))
    assert decided


def test_old_files_stay_while_the_new_model_json_may_be_lost(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, fsync = set(names(folder)), os.fsync

    def fail_once_decided(descriptor: int) -> None:
        if json.loads((folder / "model.json").read_text())["header"]["seed"] == 5:
            raise OSError("disk on fire")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fail_once_decided)
    for _ in range(2):  # nor does the next save take them away
        with pytest.raises(ModelFileError, match="disk on fire"):
            save(folder, *model(5))
        assert before <= set(names(folder))
    assert_same(folder, model(5))


KILLER = """
import os, random, signal, sys, time
from pathlib import Path
from test_model_files import assert_same, model, names, open_model, save

path, broken, seen = Path(sys.argv[1]), 0, []
random.seed(5)
save(path, *model(1))
for i in range(400):
    child = os.fork()
    while child == 0:
        save(path, *model(5))
        save(path, *model(1))
    time.sleep(random.uniform(0.001, 0.03 * (1 + i / 40)))  # longer and longer, for a busy machine
    os.kill(child, signal.SIGKILL)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    broken += len(names(path)) > 7
    seen.append(open_model(path).metadata["seed"])
    assert_same(path, model(seen[-1]))
    if i >= 39 and broken and len(set(seen)) == 2:
        break
save(path, *model(9))
assert_same(path, model(9))
assert len(names(path)) == 7
print(broken, *sorted(set(seen)))
"""


@pytest.mark.slow
def test_a_process_killed_while_saving_leaves_a_whole_model(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLER, str(tmp_path / "model")]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert result.returncode == 0, result.stderr
    broken, *seen = map(int, result.stdout.split())
    assert broken > 0  # otherwise no save was interrupted
    assert seen == [1, 5]


def test_saves_at_the_same_time_wait_for_each_other(tmp_path: Path) -> None:
    path = tmp_path / "model"
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda seed: save(path, *model(seed)), range(10, 30)))
    seed = open_model(path).metadata["seed"]
    assert seed in range(10, 30)
    assert_same(path, model(seed))
    assert len(names(path)) == 7
