"""Partial files: the bytes received survive full disks, kills and other processes."""

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
from pathlib import Path
from typing import Any

import pytest
from faulty import CONTENT, Server, files, get, is_complete, message
from local_server import Fault, sha1

from cr5.sources.http import partial_file
from cr5.storage.json_files import write_json

SCRIPT = """
import sys
from pathlib import Path
from cr5.sources.http import partial_file
from cr5.storage.json_files import write_json
from cr5.sources.http.download import fetch
partial_file.SYNC_BYTES = 1
fetch(sys.argv[1], Path("dump.bz2"), user_agent="cr5-tests (tests@example.org)")
"""


def test_bytes_that_the_record_does_not_cover_are_downloaded_again(server: Server) -> None:
    server.planned = [Fault(drop=6000)]
    message(server, max_attempts=1)
    with Path("dump.bz2.part").open("ab") as file:
        file.write(bytes(500))  # as a power failure may leave them
    assert is_complete(get(server))
    assert server.ranges[-1] == "bytes=6000-"


@pytest.mark.slow
def test_neither_a_kill_nor_an_interrupt_loses_a_byte(server: Server) -> None:
    for number, kept in ((signal.SIGKILL, 4000), (signal.SIGINT, 7000)):
        server.planned = [Fault(drop=kept if number == signal.SIGKILL else 3000, hang=True)]
        with subprocess.Popen([sys.executable, "-c", SCRIPT, server.url], stderr=subprocess.DEVNULL) as process:
            record, ends = Path("dump.bz2.part.json"), time.monotonic() + 120
            while not (record.exists() and json.loads(record.read_text())["safe"] == kept) and time.monotonic() < ends:
                time.sleep(0.02)
            process.send_signal(number)
        assert files() == {"dump.bz2.part", "dump.bz2.part.json"}
        assert Path("dump.bz2.part").read_bytes() == CONTENT[:kept]
    assert is_complete(get(server))
    assert server.ranges == ["all", "bytes=4000-", "bytes=7000-"]


def test_a_second_process_on_the_same_file_is_refused(server: Server) -> None:
    with Path("dump.bz2.part").open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert message(server).startswith("dump.bz2.part: another process")
    assert server.requests == []
    assert is_complete(get(server))


def test_a_file_that_another_process_finishes_meanwhile_is_not_downloaded_again(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, late = fcntl.flock, [True]

    def flock(file: Any, how: int) -> None:
        if late.pop() if late else False:
            get(server)  # the other process opens, locks, downloads and renames the file first
        real(file, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    fetched = get(server, digest=sha1(CONTENT))
    assert is_complete(fetched)
    assert server.ranges == ["all"]


# Disks


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (errno.ENOSPC, "no space left on the disk; free some"),
        (errno.EFBIG, "too large for this disk or for ulimit -f; use another disk"),
        (errno.EIO, "cannot be written, input/output error; check the disk"),
    ],
)
def test_a_full_disk_raises_a_clear_error_and_keeps_the_partial_file(
    server: Server, monkeypatch: pytest.MonkeyPatch, number: int, text: str
) -> None:
    capacity, real = 5000, Path.open

    class Small(io.FileIO):
        def write(self, data: Any) -> int:
            if (free := capacity - os.fstat(self.fileno()).st_size) <= 0:
                raise OSError(number, os.strerror(number))
            return super().write(data[:free])

    def small(path: Path, *args: Any, **options: Any) -> Any:
        return Small(path, "ab") if path.suffix == ".part" else real(path, *args, **options)

    def save_if_space(path: Path, values: dict[str, Any], **options: Any) -> None:
        if Path("dump.bz2.part").stat().st_size >= capacity:
            raise OSError(number, os.strerror(number))
        write_json(path, values, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", small)
        patch.setattr(partial_file, "write_json", save_if_space)
        patch.setattr(partial_file, "RESERVED_BYTES", 1000)
        shown = message(server)
    assert shown == f"dump.bz2.part: {text} and run it again to resume; 4.0 kB of 10.2 kB are kept"
    assert is_complete(get(server))
    assert server.ranges == ["all", "bytes=4000-"]


def test_a_disk_that_is_too_small_is_noticed_before_the_first_byte(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(9, 9, 9))
        shown = message(server)
    assert shown.startswith("dump.bz2.part: 10.2 kB are still to come and the disk has 9 bytes left")
    assert files() == set()


def test_a_partial_file_that_cannot_be_written_is_named(server: Server) -> None:
    Path("dump.bz2.part").mkdir()
    assert message(server) == "dump.bz2.part: cannot be written, is a directory; check its permissions"


def test_a_disk_without_file_locks_is_reported(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(file: Any, how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", fails)
    assert message(server) == "dump.bz2.part: cannot be locked, no locks available; use another disk"


def test_a_failed_rename_keeps_the_partial_file(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(path: Path, target: Path) -> Path:
        if path.suffix == ".part":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return real(path, target)

    real = Path.replace
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fails)
        assert message(server) == "dump.bz2: cannot be written, permission denied; check its permissions"
    assert is_complete(get(server))
    assert server.ranges == ["all"]
