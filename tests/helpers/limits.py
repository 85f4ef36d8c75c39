"""Disks that are full, limits of the operating system that stand in for one, and users whom permissions bind."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Within this block, a write beyond that many bytes of a file fails as if the disk were full."""
    resource = pytest.importorskip("resource")  # which Windows lacks
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def fill(disk: Path, free_bytes: int = 0) -> Path:
    """A file that takes all space of a disk, except for some bytes."""
    path = disk / "filling"
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            file.truncate(file.tell() - free_bytes)
    return path


@contextmanager
def ordinary_user() -> Iterator[int]:
    """Within this block, the process has the rights of a user whom permissions bind, and not those of root."""
    if sys.platform == "win32":
        pytest.skip("there are no users with numbers")
    before = os.geteuid()
    os.seteuid(before or 65534)
    try:
        yield os.geteuid()
    finally:
        os.seteuid(before)
