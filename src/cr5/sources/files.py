"""The files of a source: opened with any compression, read line by line, with errors that name them."""

import codecs
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypeAlias

from cr5.errors import CorpusError
from cr5.storage.compressed import READ_ERRORS, describe_error, open_decompressed

ErrorHandler: TypeAlias = Callable[[str, str], None]
"""Called with a short reason and a full message; ``raise_error`` raises, ``Skipped.add`` counts and returns."""

MAX_LINE_BYTES = 64 << 20
_SKIPPED_BYTES = 1 << 20  # read at a time within a line that is too long


def raise_error(reason: str, message: str) -> None:
    """Raise a ``CorpusError`` at the first problem."""
    raise CorpusError(message)


@contextmanager
def opened(path: str | Path, member: str | None = None) -> Iterator[IO[bytes]]:
    """Open a file, decompressed if its name ends in .gz, .bz2 or .xz, or a member of a .zip.

    Errors of reading it within the block are raised as ``CorpusError``.
    """
    name = str(path) if member is None else f"{path}: {member}"
    with reading(name):
        if member is not None:
            with zipfile.ZipFile(path) as archive, archive.open(member) as stream:
                yield stream
        else:
            with open_decompressed(path) as stream:
                yield stream


@contextmanager
def reading(source: str) -> Iterator[None]:
    """Raise the errors of reading a file within the block as ``CorpusError``, with the name of the source."""
    try:
        yield
    except (zipfile.BadZipFile, *READ_ERRORS) as error:
        raise CorpusError(f"{source}: {describe_error(error)}") from None
    except NotImplementedError as error:  # an encrypted zip, or one with another compression
        raise CorpusError(f"{source}: cannot be unpacked ({error}); unpack it with another tool") from None
    except UnicodeDecodeError:  # only from a zip's table of contents, since files are read as bytes
        raise CorpusError(f"{source}: corrupt, its name is not UTF-8; copy or download it again") from None


def lines(
    stream: IO[bytes], source: str, handle_error: ErrorHandler, max_bytes: int | None = None
) -> Iterator[str | None]:
    """Every line without its line break, or None for one that is not UTF-8 or too long, so that numbers stay right."""
    max_bytes = max_bytes or MAX_LINE_BYTES
    number = 0
    while True:
        number += 1
        line = stream.readline(max_bytes)
        if not line:
            return
        if len(line) >= max_bytes and not line.endswith(b"\n"):
            handle_error("line too long", f"{source}:{number}: a line of more than {max_bytes >> 20} MB; break it up")
            while (line := stream.readline(_SKIPPED_BYTES)) and not line.endswith(b"\n"):
                pass
            yield None
            continue
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        try:
            yield line.decode().removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError as error:
            handle_error(
                "invalid UTF-8", f"{source}:{number}: byte {error.start + 1} is not UTF-8; convert it with iconv"
            )
            yield None
