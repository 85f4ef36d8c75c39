"""Output paths: checks, before any work is done, that a file or folder can be written."""

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cr5.errors import Cr5Error, DiskFullError
from cr5.message_parts import format_bytes, os_error_number, reason
from cr5.storage.atomic import FULL_DISK_ERRNOS, WRITE_ERRNOS


def check_folder_writable(path: Path) -> None:
    """Raise an error unless files can be created in a folder, or in its nearest parent if it does not exist yet."""
    folder = existing_folder(path)
    is_itself = folder == path.resolve()
    if not folder.is_dir():
        what = "it" if is_itself else folder
        raise Cr5Error(f"{path} cannot be written: {what} is a file, not a folder; choose another path")
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        where = "" if is_itself else f"{folder}: "
        permissions = "" if error.errno == errno.EROFS else ", or change the permissions"
        raise Cr5Error(f"{path} cannot be written: {where}{reason(error)}; choose another path{permissions}") from error


def check_output_file(path: Path, example: str = "") -> None:
    """Raise an error unless a file can be created or replaced; ``example`` is a name to advise in place of a folder."""
    if path.is_dir():
        raise Cr5Error(
            f"{path} cannot be written: it is a folder; name a file in it{example and f', such as {example}'}"
        )
    if path.exists() and not path.is_file():
        raise Cr5Error(f"{path} cannot be written: it is a device, a pipe or a socket; name a file")
    check_parent(path)


def check_not_input(output: Path, inputs: Iterable[Path | str]) -> None:
    """Raise an error if an output file is one of the files that are read, by whatever path or link."""
    for path in map(Path, inputs):
        if output.exists() and path.exists() and output.samefile(path):
            other_name = "" if path == output else f" as {path}"
            raise Cr5Error(f"{output} cannot be written: it is also read{other_name}; name another file")


def sibling_path(folder: Path, suffix: str) -> Path:
    """The path next to a folder with its name and a suffix: model -> model.checkpoint."""
    return Path(f"{folder if folder.name else folder.resolve()}.{suffix}")


def check_parent(path: Path) -> None:
    """Raise an error unless the folder that a file or folder is to be created in exists and can be written."""
    if not path.resolve().parent.is_dir():
        raise Cr5Error(f"{path} cannot be written: there is no folder {path.parent}; create it first")
    check_folder_writable(path.resolve().parent)


def check_free_space(path: Path, needed_bytes: int, purpose: str) -> None:
    """Raise an error if the disk of a folder has less free space than ``purpose`` needs."""
    if problem := lack_of_space(path, needed_bytes, purpose):
        raise Cr5Error(f"{problem}; free some space, or choose a path on another disk")


def lack_of_space(path: Path, needed_bytes: int, purpose: str) -> str:
    """How much less free space the disk of a folder has than ``purpose`` needs; "" if it has enough."""
    free = shutil.disk_usage(existing_folder(path)).free
    if free >= needed_bytes:
        return ""
    return f"{path} is on a disk with {format_bytes(free)} free, and {purpose} needs about {format_bytes(needed_bytes)}"


@contextmanager
def naming_os_errors(path: Path, *, files_inside: bool = False) -> Iterator[None]:
    """Turn errors of libraries in Rust that quote the system, "(os error 28)", into an ``OSError`` about a path.

    With ``files_inside``, what the system refuses to write inside the folder ``path`` is about the folder as well.
    """
    try:
        yield
    except Exception as error:
        if files_inside and isinstance(error, OSError) and error.errno in WRITE_ERRNOS and error.filename:
            error.filename = str(path) if path.resolve() in Path(error.filename).parents else error.filename
        number = os_error_number(error)
        if number is None or getattr(error, "errno", None):
            raise
        raise OSError(number, os.strerror(number), str(path)) from error


@contextmanager
def advising_on_full_disks(path: Path, advice: str | Callable[[], str]) -> Iterator[None]:
    """Turn the error about a full disk, of this process or of a task, into one that says what to do about a path.

    ``advice`` may be a function, which is called when the disk is full.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in FULL_DISK_ERRNOS or isinstance(error, DiskFullError):
            raise
        what_to_do = advice if isinstance(advice, str) else advice()
        raise DiskFullError(f"{error.filename or path}: {reason(error)}{what_to_do}") from error


def existing_folder(path: Path) -> Path:
    """A path, or the nearest folder above it that exists."""
    path = path.resolve()
    return next(folder for folder in (path, *path.parents) if folder.exists())
