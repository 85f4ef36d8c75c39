"""Outputs: checked before the work, one sentence if the disk is full, nothing half-written, quiet closed pipes."""

import errno
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import madeup
import numpy as np
import pytest

from cr5 import Cr5, DiskFullError, Document, ModelFileError, OutputWarning, RepeatedDocuments, write
from cr5.cli import run
from cr5.errors import Cr5Error
from cr5.evaluate.output import write_files
from cr5.index import Index
from cr5.model.folder_training import train_model
from cr5.storage import vector_files
from cr5.training import pipeline
from cr5.training.checkpoint import Checkpoint

COMMAND = Path(sys.executable).with_name("cr5")
SMALL: dict[str, Any] = {"rank": 10, "ridge": 1.0, "min_documents": 2, "min_unique": 5}
OPTIONS = ["--rank", "10", "--ridge", "1", "--set", "min_documents=2", "--set", "min_unique=5"]


def never_read() -> Iterator[Document]:
    raise AssertionError("the corpus was read")
    yield Document("", "", "")


def everything_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


# Targets


def a_file(folder: Path) -> Path:
    (folder / "file").write_text("")
    return folder / "file"


def below_a_file(folder: Path) -> Path:
    return a_file(folder) / "model"


def another_folder(folder: Path) -> Path:
    (folder / "notes").mkdir()
    (folder / "notes" / "todo.txt").write_text("")
    return folder / "notes"


def an_index(folder: Path) -> Path:
    (folder / "index").mkdir()
    (folder / "index" / "index.json").write_text("{}")
    return folder / "index"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (a_file, "file is a file; save the model to a new or empty folder"),
        (below_a_file, "file is a file, not a folder; choose another path"),
        (another_folder, "notes holds other files, such as todo.txt; save to a new or empty folder"),
        (an_index, "index holds other files, such as index.json; save to a new or empty folder"),
    ],
)
def test_a_wrong_target_is_refused_before_the_corpus_is_read(
    make: Callable[[Path], Path], message: str, tmp_path: Path
) -> None:
    target = make(tmp_path)
    before = everything_in(tmp_path)
    with pytest.raises(Cr5Error, match=message):
        train_model(Cr5(**SMALL), never_read(), target)
    assert everything_in(tmp_path) == before


@pytest.fixture
def read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """No file can be created, as on a read-only disk; root may write to folders whose permissions forbid it."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)


@pytest.mark.usefixtures("read_only")
def test_a_read_only_target_is_refused_before_the_corpus_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sentence = rf"{tmp_path}/a/b cannot be written: {tmp_path}: read-only file system; choose another path$"
    with pytest.raises(Cr5Error, match=sentence):
        train_model(Cr5(**SMALL), never_read(), tmp_path / "a" / "b")
    with pytest.raises(Cr5Error, match="read-only file system"):
        vector_files.check_vector_file(tmp_path / "vectors.npy")
    assert run(["train", "builtin", "-o", str(tmp_path / "model")]) == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert everything_in(tmp_path) == set()


def test_a_disk_that_is_too_small_is_refused_before_the_fit(
    documents: list[Document], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages: list[str] = []
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=20_000))
    with pytest.raises(
        Cr5Error,
        match=r"on a disk with 20.0 kB free, and the model needs about .* [kM]B; free some",
    ):
        train_model(Cr5(**SMALL), documents, tmp_path / "model", progress=lambda p: stages.append(p.stage))
    assert "fit" not in stages
    assert everything_in(tmp_path) == set()


def test_a_disk_that_is_too_small_for_a_checkpoint_is_warned_of_and_a_short_fit_needs_none(
    documents: list[Document], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed: list[int] = []
    monkeypatch.setattr(pipeline, "check_free_space", lambda path, size, purpose: needed.append(size))
    train_model(Cr5(**SMALL), documents, tmp_path / "first")
    monkeypatch.undo()
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=needed[0]))
    with pytest.warns(OutputWarning, match=r"the model with a checkpoint needs about .* takes longer than 30 s$"):
        assert train_model(Cr5(**SMALL), documents, tmp_path / "model")
    assert Cr5.load(tmp_path / "model").report["converged"]


def test_a_disk_with_space_for_the_model_and_two_checkpoints_is_large_enough(
    documents: list[Document], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed: list[int] = []
    monkeypatch.setattr(pipeline, "lack_of_space", lambda path, most, purpose: needed.append(most))
    model, save, saved = Cr5(**SMALL, tol=1e-3), Checkpoint.save, list[int]()

    def save_and_measure(checkpoint: Checkpoint, *arguments: Any, **options: Any) -> None:
        save(checkpoint, *arguments, force=True)
        saved.append(checkpoint.path.stat().st_size)

    monkeypatch.setattr(Checkpoint, "save", save_and_measure)
    train_model(model, documents, tmp_path / "model")
    written = sum(file.stat().st_size for file in (tmp_path / "model").iterdir())
    assert max(saved) + max(max(saved), written) <= needed[0] + 40_000  # of headers, words and the report
    assert needed[0] <= 2 * (max(saved) + max(max(saved), written))


def test_a_place_without_permission_is_named_with_advice(
    tmp_path: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(path: Path, *_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    advice = "permission denied; change its permissions, or choose another path\n"
    for command, method, target in (
        (["corpus", "convert", "builtin"], "touch", tmp_path / "corpus.csv"),
        (["index", str(model_folder), "builtin"], "mkdir", tmp_path / "index"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(Path, method, refuse)
            assert run([*command, "-o", str(target)]) == 1
        assert capsys.readouterr().err == f"error: {target}: {advice}"


# A full disk


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("is_new", [True, False], ids=["new", "replaced"])
@pytest.mark.parametrize("part", ["model_files.write_tensors", "model_files.sync"])
def test_a_model_that_does_not_fit_leaves_the_earlier_one_or_nothing(
    model: Cr5, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_new: bool, part: str
) -> None:
    target = tmp_path / "some" / "model"
    if not is_new:
        model.save(target)
    before = everything_in(tmp_path)
    monkeypatch.setattr(f"cr5.storage.{part}", full)
    with pytest.raises(
        ModelFileError, match=r"model: the model of .* kB cannot be saved, no space left on device; free"
    ):
        model.save(target)
    monkeypatch.undo()
    assert everything_in(tmp_path) - {"some/model/.lock"} == before - {"some/model/.lock"}
    if not is_new:
        np.testing.assert_array_equal(Cr5.load(target).word_vectors("aa"), model.word_vectors("aa"))


def test_an_index_that_does_not_fit_is_one_sentence_and_leaves_nothing(
    model: Cr5, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model.save(tmp_path / "model")
    before = everything_in(tmp_path)

    def copy(source: Path, target: Path) -> None:
        target.write_bytes(b"a part")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(source), None, str(target))

    monkeypatch.setattr(os, "link", full)
    monkeypatch.setattr(shutil, "copy2", copy)
    assert run(["index", str(tmp_path / "model"), "builtin", "-o", str(tmp_path / "some" / "index")]) == 1
    message = capsys.readouterr().err
    index = tmp_path / "some" / "index"
    assert message == f"error: {index}: no space left on device; free some space, or write to another disk\n"
    assert everything_in(tmp_path) == before


def test_a_model_in_memory_that_does_not_fit_beside_its_index_is_about_the_index(
    model: Cr5, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cr5.storage.model_files.write_tensors", full)
    with pytest.raises(DiskFullError) as caught:
        Index.create(tmp_path / "some" / "index", model)
    advice = "no space left on device; free some space, or write to another disk"
    assert str(caught.value) == f"{tmp_path / 'some' / 'index'}: {advice}"
    assert everything_in(tmp_path) <= {"some"}


def test_an_index_that_fills_the_disk_says_how_to_go_on_and_is_continued(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus, output = tmp_path / "corpus.jsonl", tmp_path / "index"
    write(corpus, [Document(str(i), "aa", madeup.text("aa", range(i, i + 9))) for i in range(20)])
    command = ["index", str(model_folder), str(corpus), "-o", str(output)]
    with monkeypatch.context() as patch:
        patch.setattr("cr5.index.ingest.write_documents", full)
        assert run(command) == 1
    problem = "no space left on device, and no document was added or replaced"
    advice = "free some space, and add the documents again"
    assert capsys.readouterr().err == f"error: {output}: {problem}; {advice}\n"
    assert run(command) == 0
    with closing(Index.open(output)) as index:
        assert sum(index.count().values()) == 20


def test_a_checkpoint_that_does_not_fit_is_a_warning_and_the_earlier_one_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = Checkpoint(tmp_path / "fit.checkpoint", "fingerprint")
    checkpoint.save(lambda: {"aa": np.ones((3, 2), np.float32)}, {}, force=True)
    monkeypatch.setattr("cr5.training.checkpoint.write_tensors", full)
    with pytest.warns(
        OutputWarning, match=r"fit.checkpoint cannot be written: no space left on device; the fit goes on"
    ):
        checkpoint.save(lambda: {"aa": np.zeros((3, 2), np.float32)}, {}, force=True)
    loaded = checkpoint.load()
    assert loaded is not None
    np.testing.assert_array_equal(loaded[0]["aa"], np.ones((3, 2)))
    assert everything_in(tmp_path) == {"fit.checkpoint"}


@pytest.mark.parametrize("has_checkpoint", [True, False])
def test_scratch_files_that_fill_the_disk_keep_the_checkpoint_and_say_how_to_go_on(
    documents: list[Document], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_checkpoint: bool
) -> None:
    checkpoint, allocate = tmp_path / "model.checkpoint", os.posix_fallocate

    def fill(file: int, begin: int, size: int) -> None:
        if checkpoint.exists() or not has_checkpoint:
            full()
        allocate(file, begin, size)

    settings = SMALL | {"ridge": "auto"}
    given: dict[str, Any] = {"engine_options": {"memory": 2**30}}
    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", fill)
        with pytest.raises(Cr5Error, match=f"{tmp_path} has no space for .* of scratch files; free some") as caught:
            train_model(Cr5(**settings), documents, tmp_path / "model", **given)
    advice = "continue with `resume=True`" if has_checkpoint else "run it again from the beginning"
    assert str(caught.value).endswith(f"; then {advice}")
    assert everything_in(tmp_path) == ({"model.checkpoint"} if has_checkpoint else set())
    assert train_model(Cr5(**settings), documents, tmp_path / "model", resume=has_checkpoint, **given)
    assert not checkpoint.exists()


def test_the_path_of_a_checkpoint_may_be_a_string_and_is_checked_before_the_documents_are_read(tmp_path: Path) -> None:
    with pytest.raises(Cr5Error, match=r"missing/fit\.checkpoint cannot be written: there is no folder"):
        Cr5().fit(never_read(), checkpoint=str(tmp_path / "missing" / "fit.checkpoint"))
    with pytest.raises(Cr5Error, match="`checkpoint` is True; give a path"):
        Cr5().fit(never_read(), checkpoint=True)  # type: ignore[arg-type]


def test_a_rank_that_the_documents_do_not_allow_leaves_no_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save, saved = Checkpoint.save, []

    def save_always(self: Checkpoint, fetch: Any, state: Any, *, force: bool = False) -> None:
        save(self, fetch, state, force=True)
        saved.append(tmp_path / "model.checkpoint")

    monkeypatch.setattr(Checkpoint, "save", save_always)
    words = {"en": ("dog", "cat", "house"), "it": ("cane", "gatto", "casa")}
    documents = [Document(str(i), lang, texts[i % 3]) for lang, texts in words.items() for i in range(30)]
    settings: dict[str, Any] = {"ridge": 1.0, "tol": 1e-12, "max_steps": 2}
    with pytest.warns(RepeatedDocuments), pytest.raises(Cr5Error, match="`rank=5` is more than the 2 dim"):
        train_model(Cr5(rank=5, **settings), documents, tmp_path / "model")
    assert saved
    assert not list(tmp_path.iterdir())
    with pytest.warns(RepeatedDocuments):
        assert train_model(Cr5(rank=2, ridge=1.0), documents, tmp_path / "model")


def error_lines(ended: subprocess.CompletedProcess[bytes]) -> list[str]:
    """What a command printed on standard error, but that the corpus is small."""
    lines = ended.stderr.decode().splitlines()
    return [line for line in lines if not line.startswith("warning: only 150 shared concepts, ")]


def limited(arguments: list[str], folder: Path, limit: int, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """The command in a process that cannot write more than ``limit`` bytes to a file."""
    script = "import sys; from cr5.cli import run; sys.exit(run(sys.argv[1:]))"
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=folder,
        input=stdin,
        capture_output=True,
        timeout=120,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )


@pytest.fixture(scope="module")
def folder(documents: list[Document], model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("outputs")
    write(path / "corpus.jsonl", documents)
    shutil.copytree(model_folder, path / "saved")
    return path


LINES = "".join(madeup.text("aa", range(i, i + 9)) + "\n" for i in range(200)).encode()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (["train", "corpus.jsonl", "-o", "OUT/model", *OPTIONS], "OUT/model"),
        (["encode", "saved", "--lang", "aa", "-o", "OUT/vectors.npy"], "OUT/vectors.npy"),
        (["encode", "saved", "--lang", "aa", "-o", "OUT/vectors.parquet"], "OUT/vectors.parquet"),
        (["corpus", "convert", "corpus.jsonl", "-o", "OUT/corpus.csv"], "OUT/corpus.csv"),
        (["corpus", "convert", "corpus.jsonl", "-o", "OUT/corpus.jsonl.gz"], "OUT/corpus.jsonl.gz"),
        (["corpus", "table", "corpus.jsonl", "-o", "OUT/corpus.parquet"], "OUT/corpus.parquet"),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else None,
)
def test_a_file_that_cannot_be_written_gives_one_sentence_and_leaves_nothing(
    folder: Path, arguments: list[str], output: str
) -> None:
    shutil.rmtree(folder / "OUT", ignore_errors=True)
    (folder / "OUT").mkdir()
    ended = limited(arguments, folder, 2000, LINES)
    errors = error_lines(ended)
    assert ended.returncode == 1, errors
    assert len(errors) == 1, errors
    assert errors[0].startswith("error: ")
    assert output in errors[0]
    assert "file too large" in errors[0]
    assert [path.name for path in (folder / "OUT").rglob("*") if path.is_file() and path.stat().st_size > 1900] == []


@pytest.mark.slow
def test_an_index_that_cannot_be_written_gives_one_sentence_and_is_continued(folder: Path) -> None:
    given = ["index", "saved", "corpus.jsonl", "-o", "OUT/index"]
    shutil.rmtree(folder / "OUT", ignore_errors=True)
    ended = limited(given, folder, 40_000)
    [error] = ended.stderr.decode().splitlines()
    assert error == "error: OUT/index: file too large; write to another disk"
    assert limited(given, folder, 10**9).returncode == 0
    with closing(Index.open(folder / "OUT" / "index")) as index:
        assert sum(index.count().values()) == 450


def test_a_report_that_does_not_fit_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"report\.md") as caught:
        write_files(tmp_path, {"report.md": "# Results"})
    assert caught.value.filename == str(tmp_path / "report.md")
    assert everything_in(tmp_path) == set()


@pytest.mark.slow
def test_a_model_that_cannot_be_saved_keeps_its_checkpoint_and_is_resumed(folder: Path) -> None:
    shutil.rmtree(folder / "OUT", ignore_errors=True)
    (folder / "OUT").mkdir()
    given = ["train", "corpus.jsonl", "-o", "OUT/model", "--rank", "10", *OPTIONS[4:]]
    script = (
        "import sys, signal; from cr5.cli import run; import cr5.cli.render.console as c; import contextlib\n"
        "report = lambda p: signal.raise_signal(signal.SIGINT) if p.stage == 'fit' and p.done == 1 else None\n"
        "c.progress_bars = contextlib.contextmanager(lambda quiet=False: (yield report))\n"
        "sys.exit(run(sys.argv[1:]))"
    )
    tight = [*given, "--set", "tol=1e-5"]
    assert (
        subprocess.run([sys.executable, "-c", script, *tight], cwd=folder, timeout=120, check=False).returncode == 130
    )
    shutil.rmtree(folder / "OUT" / "model")
    ended = limited([*tight, "--resume"], folder, 2000)
    [error] = error_lines(ended)
    assert error.endswith("file too large; free disk space, or save it elsewhere; then continue with --resume")
    assert everything_in(folder / "OUT") == {"model.checkpoint"}
    assert limited([*tight, "--resume"], folder, 10**9).returncode == 0
    assert not Cr5.load(folder / "OUT" / "model").report["interrupted"]


# Standard streams


@pytest.mark.slow
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "arguments", ["encode saved --lang aa", "info saved --json", "corpus convert corpus.jsonl -o -"]
)
def test_a_standard_output_that_is_full_gives_one_sentence(folder: Path, arguments: str, unbuffered: str) -> None:
    with (folder / "cut").open("wb") as output:
        ended = subprocess.run(
            [COMMAND, *arguments.split()],
            cwd=folder,
            input=LINES,
            stdout=output,
            stderr=subprocess.PIPE,
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
            timeout=120,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000)),
        )
    assert ended.stderr.decode() == "error: standard output: file too large; write to another disk\n"
    assert ended.returncode == 1


@pytest.mark.slow
@pytest.mark.parametrize("arguments", ["info saved", "info saved --json", "encode saved --lang aa"])
def test_closed_standard_streams_are_no_error(folder: Path, arguments: str) -> None:
    for closed in (">&-", "<&-", "2>&-"):
        ended = subprocess.run(
            ["bash", "-c", f"{COMMAND} {arguments} {closed}"], cwd=folder, capture_output=True, timeout=120, check=False
        )
        assert (ended.returncode, ended.stderr) == (0, b"")
        assert bool(ended.stdout) == (closed != ">&-")


# Closed pipes


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        "encode saved --lang aa",
        "corpus convert corpus.jsonl -o -",
        "info saved",
        "info saved --json",
        "similar saved WORD --lang aa -k 200",
        "similar saved WORD --lang aa -k 200 --json",
        "corpus inspect corpus.jsonl --json",
        "search index WORD --lang aa -k 50",
        "search index WORD --lang aa -k 50 --json",
        "--help",
    ],
)
def test_a_reader_that_ends_is_no_error(folder: Path, arguments: str) -> None:
    if arguments.startswith("search") and not (folder / "index").exists():
        assert run(["index", str(folder / "saved"), str(folder / "corpus.jsonl"), "-o", str(folder / "index")]) == 0
    given = f"{COMMAND} {arguments}".replace("WORD", madeup.word("aa", 1))
    # The reader ends at once; the lines of standard input are many enough for the vectors to exceed a pipe's buffer.
    shell = f"{given} 2> errors | true; echo ${{PIPESTATUS[0]}}"
    ended = subprocess.run(
        ["bash", "-c", shell], cwd=folder, input=LINES * 20, capture_output=True, timeout=120, check=False
    )
    assert ended.stdout.decode().strip() == "141"
    assert (folder / "errors").read_text() in ("", "450 documents written\n")
