"""Files that are whole or not there: written beside their place, put on the disk, then renamed."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: Path, *, via: Path | None = None) -> Iterator[BinaryIO]:
    """A file to write to; it becomes ``path``, in one step, when the block ends, and vanishes if the block fails.

    ``via`` is as for ``temporary``.
    """
    with temporary(path, via=via) as hidden, hidden.open("wb") as file:
        yield file


@contextmanager
def temporary(path: Path, *, via: Path | None = None) -> Iterator[Path]:
    """The same for who needs a name to write to: an empty file, ``.NAME.0123abcd.tmp`` beside ``path``.

    No two blocks share a name. Who keeps other writers out may fix it as ``via``, on the same disk: what a killed
    run left is then written over by the next one.
    """
    path = path.resolve()  # a link stays a link, and the block may change the directory
    hidden = via.resolve() if via else path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    hidden.touch(exist_ok=via is not None)
    try:
        mode = hidden.stat().st_mode
        yield hidden
        if hidden.stat().st_mode != mode:
            hidden.chmod(mode)  # some libraries write for the owner's eyes only
        sync(hidden)
        hidden.replace(path)
    except BaseException:
        with suppress(OSError):  # the first error is the one to tell
            hidden.unlink()
        raise
    sync(path.parent)  # the name must last as well


def sync(path: Path) -> None:
    """Wait until a file's content, or a folder's names, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
