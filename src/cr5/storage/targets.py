"""Output targets: whether a file or folder can be written, found out before any work is done for it, and why not."""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cr5.errors import Cr5Error, format_bytes, reason


def check_writable(path: Path) -> None:
    """Raise an error unless files can be created in a folder, or in its nearest parent if it does not exist yet."""
    folder = _existing(path)
    if not folder.is_dir():
        raise Cr5Error(f"{path} cannot be written: {folder} is a file, not a folder; name another place")
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise Cr5Error(
            f"{path} cannot be written: {folder}: {reason(error)}; name another place, or change its permissions"
        ) from error


def check_free_space(path: Path, needed_bytes: int, purpose: str) -> None:
    """Raise an error if the disk of a folder has less free space than ``purpose`` needs."""
    free = shutil.disk_usage(_existing(path)).free
    if free < needed_bytes:
        raise Cr5Error(
            f"{path} is on a disk with {format_bytes(free)} free, and {purpose} needs about "
            f"{format_bytes(needed_bytes)}; free some space, or name a place on another disk"
        )


@contextmanager
def naming_os_errors(path: Path) -> Iterator[None]:
    """Turn errors of libraries in Rust that quote the system, "(os error 28)", into an ``OSError`` about a path."""
    try:
        yield
    except Exception as error:
        number = re.search(r"\(os error (\d+)\)", str(error))
        if number is None or getattr(error, "errno", None):
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error


def _existing(path: Path) -> Path:
    path = path.resolve()
    return next(folder for folder in (path, *path.parents) if folder.exists())
