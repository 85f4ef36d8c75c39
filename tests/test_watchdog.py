"""The time limit of tests ends what an exception cannot end."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import ctypes
import pytest

def hang():
    ctypes.PyDLL(None).sleep(600)  # holds the global interpreter lock

@pytest.fixture
def endless():
    yield
    hang()

def test_hangs():
    hang()

def test_fails(endless):
    assert not "this"
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="calls a function of the C library")
def test_processes_that_hang_print_their_stacks_and_end_and_the_other_tests_run(tmp_path: Path) -> None:
    (tmp_path / "test_endless.py").write_text(TESTS)
    options = ["-p", "watchdog", "-o", "hang_seconds=1", "-p", "no:cacheprovider", "-n1", "-c", os.devnull]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--rootdir", str(tmp_path), str(tmp_path)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=200,
        check=False,
    )
    assert ended.returncode == 1
    for test, line in (("test_hangs", "in test_hangs"), ("test_fails", "in endless")):
        assert f"crashed while running 'test_endless.py::{test}'" in ended.stdout
        assert line in ended.stderr
