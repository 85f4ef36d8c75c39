"""Files that are whole or not there, whatever happens while they are written."""

import os
import re
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from cr5.errors import Cr5Error
from cr5.storage import atomic
from cr5.storage.atomic import atomic_folder, atomic_path, atomic_write, sync


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test runs in a folder of its own."""
    monkeypatch.chdir(tmp_path)


def by_file(path: Path, content: bytes, **options: Path) -> None:
    with atomic_write(path, **options) as file:
        file.write(content)


def by_name(path: Path, content: bytes, **options: Path) -> None:
    with atomic_path(path, **options) as hidden:
        hidden.write_bytes(content)


either = pytest.mark.parametrize("write", [by_file, by_name])


def files() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path().iterdir()}


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@either
def test_a_file_is_made_or_replaced_and_nothing_else_is_left(write: Callable[..., None]) -> None:
    for content in (b"old", b"", b"new"):
        write(Path("x.json"), content)
        assert files() == {"x.json": content}


@pytest.mark.parametrize("stop", [RuntimeError, KeyboardInterrupt, SystemExit, GeneratorExit])
@pytest.mark.parametrize("before", [{}, {"x": b"old"}])
def test_a_block_that_fails_leaves_what_was_there(stop: type[BaseException], before: dict[str, bytes]) -> None:
    def by_file() -> None:
        with atomic_write(Path("x")) as file:
            file.write(b"half")
            file.flush()
            raise stop

    def by_name() -> None:
        with atomic_path(Path("x")) as hidden:
            hidden.write_bytes(b"half")
            raise stop

    for name, content in before.items():
        Path(name).write_bytes(content)
    for write in (by_file, by_name):
        with pytest.raises(stop):
            write()
        assert files() == before


def test_the_file_being_written_is_hidden_beside_its_place() -> None:
    Path("x.json").write_bytes(b"old")
    with atomic_write(Path("x.json")) as file:
        file.write(b"new")
        file.flush()
        (name,) = set(files()) - {"x.json"}
        assert re.fullmatch(r"\.x\.json\.[0-9a-f]{8}\.tmp", name)
        assert files() == {"x.json": b"old", name: b"new"}


def test_a_reader_never_sees_half_of_a_file() -> None:
    contents = [bytes([number]) * 100_000 for number in range(8)]
    by_file(Path("x"), contents[0])

    def rewrite(content: bytes) -> None:
        for _ in range(10):
            with atomic_write(Path("x")) as file:
                for start in range(0, len(content), 10_000):
                    file.write(content[start : start + 10_000])
                    file.flush()

    with ThreadPoolExecutor(4) as pool:
        writers = [pool.submit(rewrite, content) for content in contents]
        while not all(writer.done() for writer in writers):
            assert Path("x").read_bytes() in contents
        for writer in writers:
            writer.result()
    assert list(files()) == ["x"]


def test_writers_do_not_tread_on_each_other() -> None:
    with atomic_write(Path("x")) as first:
        with atomic_write(Path("x")) as second:
            first.write(b"first")
            second.write(b"second")
        assert Path("x").read_bytes() == b"second"
    assert files() == {"x": b"first"}


def test_a_name_that_somebody_else_has_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda size: "ab" * size)
    with atomic_write(Path("x")), pytest.raises(FileExistsError), atomic_write(Path("x")):
        pass
    assert files() == {"x": b""}


@either
def test_the_content_is_on_the_disk_before_the_name_and_then_the_name(
    write: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[bool, bool]] = []

    def watch(descriptor: int) -> None:
        folder = os.fstat(descriptor).st_ino == tmp_path.stat().st_ino
        assert folder or os.fstat(descriptor).st_size == 4
        seen.append((folder, Path("x").exists()))

    monkeypatch.setattr(os, "fsync", watch)
    write(Path("x"), b"text")
    assert seen == [(False, False), (True, True)]


@pytest.mark.parametrize("mask", [0o002, 0o022, 0o027, 0o077])
def test_permissions_are_those_of_any_new_file(mask: int) -> None:
    with umask(mask):
        by_file(Path("x"), b"text")
    assert stat.S_IMODE(Path("x").stat().st_mode) == 0o666 & ~mask


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a system without /dev/full")
def test_a_disk_that_is_full_at_the_last_byte_leaves_the_old_file() -> None:
    def write() -> None:
        with atomic_write(Path("x")) as file:
            file.write(b"new")  # into the buffer
            with Path("/dev/full").open("wb") as full:
                os.dup2(full.fileno(), file.fileno())

    Path("x").write_bytes(b"old")
    with pytest.raises(OSError, match="No space left"):
        write()
    assert files() == {"x": b"old"}


@pytest.mark.parametrize("broken", ["os.fsync", "pathlib.Path.replace"])
def test_a_file_that_cannot_be_finished_leaves_the_old_one(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    Path("x").write_bytes(b"old")
    monkeypatch.setattr(broken, full)
    with pytest.raises(OSError, match="No space left"):
        by_file(Path("x"), b"new")
    assert files() == {"x": b"old"}


def test_the_first_error_is_raised_even_if_nothing_can_be_cleaned_up() -> None:
    def write() -> None:
        with atomic_path(Path("x")) as hidden:
            hidden.unlink()
            raise RuntimeError("first")

    with pytest.raises(RuntimeError, match="first"):
        write()


def test_a_folder_that_is_not_there_is_an_error_before_the_block() -> None:
    with pytest.raises(FileNotFoundError), atomic_write(Path("no/x")):
        raise AssertionError("not to be reached")


@either
def test_a_killed_run_leaves_the_old_file_and_the_next_one_is_not_disturbed(write: Callable[..., None]) -> None:
    Path("x").write_bytes(b"old")
    code = """
        import os, sys
        from pathlib import Path
        sys.path.append(sys.argv[1])  # alone, it is imported in no time
        from atomic import atomic_write
        via = Path(sys.argv[2]) if sys.argv[2:] else None
        with atomic_write(Path("x"), temporary=via) as file:
            file.write(b"much longer than the next")
            file.flush()
            os._exit(9)
    """
    run = [sys.executable, "-c", "if True:" + code, str(Path(atomic.__file__).parent)]
    assert subprocess.run(run, check=False).returncode == 9
    assert subprocess.run([*run, "x.part"], check=False).returncode == 9
    (left,) = set(files()) - {"x", "x.part"}
    assert left.startswith(".x.")
    assert left.endswith(".tmp")
    assert files()["x"] == b"old"
    Path(left).unlink()
    write(Path("x"), b"new", temporary=Path("x.part"))  # a fixed name clears itself
    assert files() == {"x": b"new"}


@either
def test_what_a_killed_process_left_is_removed_a_day_later(write: Callable[..., None]) -> None:
    day = 24 * 60 * 60
    ages = {
        ".x[1].0123abcd.tmp": day + 60,
        ".x[1].fedc4567.tmp": day - 60,
        ".x1.0123abcd.tmp": 2 * day,
        ".x[1].tmp": 9 * day,
    }
    for name, age in ages.items():
        Path(name).touch()
        os.utime(name, (time.time() - age, time.time() - age))
    write(Path("x[1]"), b"new")
    assert set(files()) == {"x[1]", *ages} - {".x[1].0123abcd.tmp"}


def test_a_folder_that_a_killed_process_left_is_removed_a_day_later() -> None:
    left = Path(".x.0123abcd.tmp")
    left.mkdir()
    (left / "part").touch()
    os.utime(left, (1, 1))
    with atomic_folder(Path("x")) as folder:
        (folder / "whole").touch()
    assert [path.name for path in Path().iterdir()] == ["x"]


@either
def test_a_link_stays_a_link(write: Callable[..., None]) -> None:
    Path("store").mkdir()
    Path("x").symlink_to("store/real")
    for content in (b"first", b"second"):
        write(Path("x"), content)
        assert Path("x").is_symlink()
        assert Path("store/real").read_bytes() == content
    assert [path.name for path in Path("store").iterdir()] == ["real"]


def test_the_block_may_change_the_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with atomic_write(Path("x"), temporary=Path("x.part")) as file:
        file.write(b"text")
        monkeypatch.chdir("/")
    monkeypatch.chdir(tmp_path)
    assert files() == {"x": b"text"}


def test_files_and_folders_are_synced_and_closed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    synced: list[int] = []

    def fail(descriptor: int) -> None:
        synced.append(descriptor)
        raise OSError("disk on fire")

    Path("x").touch()
    monkeypatch.setattr(os, "fsync", fail)
    for path in (Path("x"), tmp_path):
        with pytest.raises(OSError, match="disk on fire"):
            sync(path)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(synced[-1])


def test_a_folder_appears_when_it_is_complete() -> None:
    Path("empty").mkdir()
    for name in ("new", "empty"):
        with atomic_folder(Path(name)) as folder:
            (folder / "inner").mkdir()
            (folder / "inner" / "file").write_text("content")
            assert not list(Path(name).glob("*"))
        assert [path.read_text() for path in Path(name).rglob("*") if path.is_file()] == ["content"]
    assert sorted(path.name for path in Path().iterdir()) == ["empty", "new"]


def test_a_folder_that_fails_leaves_nothing_and_the_error_names_it() -> None:
    def write_too_much() -> None:
        with atomic_folder(Path("new")) as folder:
            (folder / "file").write_text("content")
            raise OSError(28, "No space left on device", str(folder / "file"))

    with pytest.raises(OSError, match=re.escape(str(Path("new").resolve()))) as error:
        write_too_much()
    assert error.value.filename == str(Path("new").resolve())
    assert not list(Path().iterdir())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
@either
def test_a_pipe_or_a_device_is_not_replaced(write: Callable[..., None]) -> None:
    os.mkfifo("pipe")
    with pytest.raises(Cr5Error, match="pipe cannot be written"):
        write(Path("pipe"), b"content")
    assert stat.S_ISFIFO(Path("pipe").stat().st_mode)
    assert [path.name for path in Path().iterdir()] == ["pipe"]
