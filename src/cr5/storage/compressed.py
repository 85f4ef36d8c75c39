"""Files that may be compressed with gzip, bzip2 or xz, as the suffix of their name says."""

import bz2
import gzip
import lzma
import os
import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO, Any, cast

_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
SUFFIXES = frozenset(_OPENERS)
READ_ERRORS = (OSError, EOFError, zlib.error, lzma.LZMAError)
"""Everything that reading a compressed file may raise; ``describe_error`` puts it into words."""


def split_suffix(name: str) -> tuple[str, str]:
    """A file name without the suffix of its compression, and that suffix: "en.csv.gz" -> ("en.csv", ".gz")."""
    stem, suffix = os.path.splitext(name)  # noqa: PTH122 - many times faster than a Path
    return (stem, suffix.lower()) if suffix.lower() in SUFFIXES else (name, "")


def broken_link(path: str | Path) -> str | None:
    """What is wrong with a link that leads nowhere, and what to do; None for anything else."""
    path = Path(path)
    if path.exists() or not path.is_symlink():
        return None
    return f"a broken link to {path.readlink()}; correct it or remove it"


def open_decompressed(file: str | Path | IO[bytes], compression: str | None = None) -> IO[bytes]:
    """Open a file for reading, decompressed; ``compression`` overrides the suffix, "" for none."""
    if compression is None:
        compression = split_suffix(str(file))[1]
    if compression:
        return cast(IO[bytes], _OPENERS[compression](file))
    return Path(file).open("rb") if isinstance(file, str | Path) else file


def compressed_writer(raw: IO[bytes], compression: str) -> AbstractContextManager[IO[bytes]]:
    """A stream whose content is written compressed to ``raw``; the same content gives the same bytes."""
    if compression == ".gz":
        return cast(IO[bytes], gzip.GzipFile("", "wb", 6, raw, mtime=0))
    return cast(IO[bytes], _OPENERS[compression](raw, "wb")) if compression else nullcontext(raw)


def describe_error(error: BaseException) -> str:
    """What a failed read says about a file, and what to do; the caller puts the file's name before it."""
    if isinstance(error, EOFError):
        return "truncated, the compressed data has no end; copy or download it again"
    if isinstance(error, OSError) and error.strerror:
        remedy = "check the name" if isinstance(error, FileNotFoundError) else "check its permissions"
        return f"cannot be read, {error.strerror.lower()}; {remedy}"
    text = str(error)
    text = text if text[1:2].isupper() else text[:1].lower() + text[1:]  # "CRC check failed" keeps its capitals
    return f"corrupt, {text}; copy or download it again"
