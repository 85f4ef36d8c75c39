"""Files on their way: what has come outlives full disks, kills and other processes, and only what has come."""

import errno
import fcntl
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from faulty import CONTENT, Answer, Server, files, get, message, serving, settle, sha1, whole

from cr5.sources.http import partial_file

SCRIPT = """
import sys
from pathlib import Path
from cr5.sources.http import partial_file
from cr5.sources.http.download import fetch
partial_file._SYNC = 1
fetch(sys.argv[1], Path("dump.bz2"), agent="cr5-tests (tests@example.org)")
"""


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle(tmp_path, monkeypatch)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


def test_bytes_that_were_never_vouched_for_are_fetched_again(server: Server) -> None:
    server.plan = [Answer(drop=6000)]
    message(server, tries=1)
    with Path("dump.bz2.part").open("ab") as file:
        file.write(bytes(500))  # what a power failure may leave
    assert whole(get(server))
    assert server.ranges[-1] == "bytes=6000-"


def test_a_killed_process_costs_nothing_and_an_interrupted_one_neither(server: Server) -> None:
    for number, has in ((signal.SIGKILL, 4000), (signal.SIGINT, 7000)):
        server.plan = [Answer(drop=has if number == signal.SIGKILL else 3000, hang=True)]
        with subprocess.Popen([sys.executable, "-c", SCRIPT, server.url], stderr=subprocess.DEVNULL) as process:
            record, ends = Path("dump.bz2.part.json"), time.monotonic() + 120
            while not (record.exists() and json.loads(record.read_text())["safe"] == has) and time.monotonic() < ends:
                time.sleep(0.02)
            process.send_signal(number)
        assert files() == {"dump.bz2.part", "dump.bz2.part.json"}
        assert Path("dump.bz2.part").read_bytes() == CONTENT[:has]
    assert whole(get(server))
    assert server.ranges == ["all", "bytes=4000-", "bytes=7000-"]


def test_a_second_process_on_the_same_file_is_told(server: Server) -> None:
    with Path("dump.bz2.part").open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert message(server) == "dump.bz2.part: another process is fetching this file; wait until it ends"
    assert server.asked == []
    assert whole(get(server))


def test_a_part_that_another_process_finished_meanwhile_is_not_taken_for_ours(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, late = fcntl.flock, [True]

    def flock(file: Any, how: int) -> None:
        if late.pop() if late else False:
            get(server)  # the other one is faster: it opens, locks, fetches and renames
        real(file, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    found = get(server, digest=sha1(CONTENT))
    assert (whole(found), found.received) == (True, 0)
    assert server.ranges == ["all"]


# Disks


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (errno.ENOSPC, "no space left on the disk; free some"),
        (errno.EFBIG, "too large for this disk or for ulimit -f; choose another place"),
        (errno.EIO, "cannot be written, input/output error; mend it"),
    ],
)
def test_a_full_disk_is_a_clear_error_and_keeps_the_part(
    server: Server, monkeypatch: pytest.MonkeyPatch, number: int, text: str
) -> None:
    room, real, save = 5000, Path.open, partial_file.save_record

    class Small(io.FileIO):
        def write(self, data: Any) -> int:
            if (left := room - os.fstat(self.fileno()).st_size) <= 0:
                raise OSError(number, os.strerror(number))
            return super().write(data[:left])

    def small(path: Path, *args: Any, **options: Any) -> Any:
        return Small(path, "ab") if path.suffix == ".part" else real(path, *args, **options)

    def needs_room(path: Path, values: dict[str, Any]) -> None:
        if Path("dump.bz2.part").stat().st_size >= room:
            raise OSError(number, os.strerror(number))
        save(path, values)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", small)
        patch.setattr(partial_file, "save_record", needs_room)
        patch.setattr(partial_file, "_SPARE", 1000)
        assert message(server) == f"dump.bz2.part: {text} and run it again to go on; 4.0 kB of 10.2 kB are kept"
    assert whole(get(server))
    assert server.ranges == ["all", "bytes=4000-"]


def test_a_disk_that_will_not_do_is_known_before_the_first_byte(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(9, 9, 9))
        assert message(server) == (
            "dump.bz2.part: 10.2 kB are still to come and the disk has room for 9 bytes; free some and run it again to "
            "go on; nothing had come yet"
        )
    assert files() == set()


def test_a_part_that_cannot_be_written_is_named(server: Server) -> None:
    Path("dump.bz2.part").mkdir()
    assert message(server) == "dump.bz2.part: cannot be written, is a directory; check its permissions"


def test_a_disk_without_locks_is_named(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(file: Any, how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", fails)
    assert message(server) == "dump.bz2.part: cannot be locked, no locks available; choose another disk"


def test_a_name_that_cannot_be_given_keeps_the_part(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(path: Path, target: Path) -> Path:
        if path.suffix == ".part":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return real(path, target)

    real = Path.replace
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fails)
        assert message(server) == "dump.bz2: cannot be written, permission denied; check its permissions"
    assert whole(get(server))
    assert server.ranges == ["all"]
