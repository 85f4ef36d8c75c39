"""Atomic writes: a file is written next to its target, flushed to disk and renamed, so it is complete or absent."""

import errno
import os
import secrets
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import BinaryIO, TypeAlias

from cr5.errors import Cr5Error

CAN_REPLACE_MAPPED_FILES = sys.platform != "win32"
"""Whether a file may be replaced while it is mapped into the memory of a process."""
_ABANDONED_SECONDS = 24 * 60 * 60  # a temporary file without a write for this long has been abandoned
_RENAME_PAUSES_SECONDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
FULL_DISK_ERRNOS = (errno.ENOSPC, errno.EDQUOT)
WRITE_ERRNOS = (*FULL_DISK_ERRNOS, errno.EFBIG, errno.EROFS)
"""Errors that only writing can cause: disk full, over quota, file too large, read-only."""
Stamp: TypeAlias = tuple[int, int] | None
"""``(inode, modification time)`` of a file; None without a file."""


@contextmanager
def atomic_write(path: Path, *, temporary: Path | None = None) -> Iterator[BinaryIO]:
    """Open a file that becomes ``path`` in one step when the block ends, and is removed if the block fails.

    ``temporary`` is as for ``atomic_path``.
    """
    with atomic_path(path, temporary=temporary) as written, written.open("wb") as file:
        yield file


@contextmanager
def atomic_path(path: Path, *, temporary: Path | None = None) -> Iterator[Path]:
    """The same for code that needs a path: an empty temporary file, ``.NAME.0123abcd.tmp`` next to ``path``.

    Concurrent blocks never share a temporary file; one that a killed process left is removed by the first block a day
    later. A caller that excludes other writers may choose its path, ``temporary``, on the same disk; the next run then
    overwrites what a killed run left behind. An ``OSError``, such as a full disk, names ``path``.
    """
    path = path.resolve()  # a symbolic link stays one, and the block may change the working directory
    if path.exists() and not path.is_file() and not path.is_dir():
        raise Cr5Error(f"{path} cannot be written: it is a device, a pipe or a socket; name a file")
    is_chosen = temporary is not None
    temporary = (temporary or _new_temporary(path)).resolve()
    try:
        temporary.touch(exist_ok=is_chosen)
    except OSError as error:
        _replace_filename(error, path, temporary)
        raise
    try:
        yield temporary
        sync(temporary)
        replace(temporary, path)
    except BaseException as error:
        with suppress(OSError):  # the first error is the one to raise
            temporary.unlink()
        if isinstance(error, OSError):
            _replace_filename(error, path, temporary)
        raise
    sync(path.parent)  # the rename must survive a power failure, too


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """The same for a folder, which must be missing or empty: the block fills a temporary one next to ``path``."""
    path = path.resolve()
    temporary = _new_temporary(path)
    temporary.mkdir()
    try:
        yield temporary
        for inside in (*temporary.rglob("*"), temporary):
            sync(inside)
        if path.exists():
            path.rmdir()  # it is empty, and Windows does not rename over a folder
        replace(temporary, path)
    except BaseException as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if isinstance(error, OSError):
            _replace_filename(error, path, temporary)
        raise
    sync(path.parent)


def _new_temporary(path: Path) -> Path:
    """A new temporary path next to ``path``; old ones, of processes that were killed, are removed."""
    for left in path.parent.glob(f".{escape(path.name)}.{'[0-9a-f]' * 8}.tmp"):
        with suppress(OSError):  # which is not to keep anybody from writing
            if time.time() - left.stat().st_mtime > _ABANDONED_SECONDS:
                discard(left)
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")


def _replace_filename(error: OSError, path: Path, temporary: Path) -> None:
    """Replace the temporary path in an error by that of the target."""
    is_inside = error.filename is not None and Path(error.filename).is_relative_to(temporary)
    if is_inside or (error.filename is None and error.errno in WRITE_ERRNOS):
        error.filename = str(path)


def replace(source: Path, target: Path) -> None:
    """Rename a file; on Windows, wait for processes that are reading the file that it replaces."""
    for seconds in () if CAN_REPLACE_MAPPED_FILES else _RENAME_PAUSES_SECONDS:
        with suppress(PermissionError):
            source.replace(target)
            return
        time.sleep(seconds)
    source.replace(target)


def discard(path: Path) -> None:
    """Delete a file or folder that is not needed any more; on Windows it stays while a process has it open."""
    with suppress(*(() if CAN_REPLACE_MAPPED_FILES else (OSError,))):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


@contextmanager
def created_folder(path: Path, lock: Path | None = None) -> Iterator[None]:
    """Create a folder, with its parents, that the block writes into; if that fails, those still empty are removed.

    A new folder that holds nothing but the file ``lock`` counts as empty.
    """
    new = [folder for folder in (path, *path.parents) if not folder.exists()]
    try:
        path.mkdir(parents=True, exist_ok=True)
        for folder in new:
            sync(folder.parent)
        yield
    except BaseException:
        remove_new_folders(new, lock)
        raise


def remove_new_folders(new: Sequence[Path], lock: Path | None = None) -> None:
    """Remove what a write that failed has created, innermost first; folders that hold anything but its lock stay."""
    with suppress(OSError):
        if new and lock:
            lock.unlink(missing_ok=True)
        for folder in new:
            folder.rmdir()


def sync(path: Path) -> None:
    """Flush the content of a file, or the names in a folder, to disk; Windows cannot do that with a folder."""
    if sys.platform == "win32" and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDWR if sys.platform == "win32" else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def file_stamp(path: Path | str) -> Stamp:
    """A value that changes whenever a file is replaced; None without a file."""
    try:
        status = os.stat(path)  # noqa: PTH116 - which takes half as long as the method, several times in each search
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_ino, status.st_mtime_ns
