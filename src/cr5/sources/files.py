"""Files of a source: opened whatever their compression, with errors that name them."""

import codecs
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypeAlias

from cr5.errors import CorpusError
from cr5.storage.compressed import READ_ERRORS, describe_error, open_decompressed

ErrorHandler: TypeAlias = Callable[[str, str], None]
"""Called with a short reason and a full message; ``raise_error`` raises, ``Skipped.add`` counts and goes on."""

LONGEST_LINE = 64 << 20
_BREAK = 1 << 20  # bytes that are read at a time within a line that is too long


def raise_error(reason: str, message: str) -> None:
    """Raise a ``CorpusError`` at the first problem."""
    raise CorpusError(message)


@contextmanager
def opened(path: str | Path, member: str | None = None) -> Iterator[IO[bytes]]:
    """The bytes of a file: decompressed if its name ends in .gz, .bz2 or .xz; of a .zip, those of a member.

    Whatever fails within the block while they are read is a ``CorpusError``.
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
    """Errors of files that are damaged or out of reach, in words that name the source."""
    try:
        yield
    except (zipfile.BadZipFile, *READ_ERRORS) as error:
        raise CorpusError(f"{source}: {describe_error(error)}") from None
    except NotImplementedError as error:  # an encrypted zip, or one with another compression
        raise CorpusError(f"{source}: cannot be unpacked ({error}); unpack it with another tool") from None
    except UnicodeDecodeError:  # only from a zip's table of contents, since files are read as bytes
        raise CorpusError(f"{source}: corrupt, its name is not UTF-8; copy or download it again") from None


def lines(stream: IO[bytes], source: str, handle_error: ErrorHandler) -> Iterator[str | None]:
    """Every line without its end, or None where it is no UTF-8 or too long, so that lines keep their numbers."""
    number = 0
    while True:
        number += 1
        line = stream.readline(LONGEST_LINE)
        if not line:
            return
        if len(line) >= LONGEST_LINE and not line.endswith(b"\n"):
            handle_error(
                "line too long", f"{source}:{number}: a line of more than {LONGEST_LINE >> 20} MB; break it up"
            )
            while (line := stream.readline(_BREAK)) and not line.endswith(b"\n"):
                pass
            yield None
            continue
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        try:
            yield line.decode().removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError as error:
            handle_error(
                "invalid UTF-8", f"{source}:{number}: byte {error.start + 1} is no UTF-8; convert it with iconv"
            )
            yield None
