import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cr5.errors import Cr5Error
from cr5.storage.locks import locked, try_lock, unlock

HOLD = """
import sys, time
from pathlib import Path
from cr5.storage.locks import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_lock_that_is_held_elsewhere_raises_the_given_error(tmp_path: Path) -> None:
    with locked(tmp_path / "lock"), ThreadPoolExecutor(1) as pool:
        with pytest.raises(Cr5Error, match="busy"), locked(tmp_path / "lock", error_if_locked=Cr5Error("busy")):
            pytest.fail("the lock was taken twice")
        with (tmp_path / "lock").open("a") as file:
            assert not pool.submit(try_lock, file).result()


def test_without_an_error_to_raise_the_second_holder_waits(tmp_path: Path) -> None:
    order = []

    def second() -> None:
        with locked(tmp_path / "lock"):
            order.append("second")

    with ThreadPoolExecutor(1) as pool:
        with locked(tmp_path / "lock"):
            waiting = pool.submit(second)
            time.sleep(0.1)
            order.append("first")
        waiting.result()
    assert order == ["first", "second"]


def test_a_lock_is_free_again_after_the_block_even_if_the_block_fails(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), locked(tmp_path / "lock"):
        _ = 1 / 0
    with locked(tmp_path / "lock", error_if_locked=Cr5Error("busy")):
        pass
    assert (tmp_path / "lock").exists()


@pytest.mark.slow
def test_the_lock_of_a_killed_process_is_free_again(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(Cr5Error, match="busy"), locked(tmp_path / "lock", error_if_locked=Cr5Error("busy")):
            pytest.fail("the lock was taken twice")
        holder.send_signal(signal.SIGKILL)
    with locked(tmp_path / "lock", error_if_locked=Cr5Error("busy")):
        pass


def test_unlocking_releases_the_lock_though_the_file_stays_open_elsewhere(tmp_path: Path) -> None:
    with (tmp_path / "file").open("ab") as file:
        assert try_lock(file)
        copy = os.dup(file.fileno())  # as in a forked process
        try:
            unlock(file)
            with locked(tmp_path / "file", error_if_locked=Cr5Error("busy")):
                pass
        finally:
            os.close(copy)


def test_locking_keeps_the_content_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    with locked(tmp_path / "file"):
        pass
    assert (tmp_path / "file").read_bytes() == b"content"
