"""The files of a source: opened with any compression, read line by line, with errors that name them."""

import codecs
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TypeAlias

from cr5.corpus.encodings import SAMPLE_BYTES, WESTERN, decode_western
from cr5.corpus.skipped import Skipped
from cr5.corpus.tables import describe_utf8_error
from cr5.errors import CorpusError
from cr5.storage.compressed import READ_ERRORS, broken_link, describe_error, open_decompressed
from cr5.storage.text_encodings import as_utf8, marked_encoding, put_back, reencoded

ErrorHandler: TypeAlias = Callable[[str, str], None]
"""Called with a short reason and a full message; ``raise_error`` raises, ``Skipped.add`` counts and returns.

Readers of tables know the line but not the file, and call an ``ErrorReporter`` of ``corpus.tables`` instead, which adds
the name of the file and passes the message on.
"""

MAX_LINE_BYTES = 64 << 20
_CHUNK_BYTES = 1 << 18  # read at a time where lines are not needed


def raise_error(reason: str, message: str) -> None:
    """Raise a ``CorpusError`` at the first problem."""
    raise CorpusError(message)


@contextmanager
def open_source(
    path: str | Path, member: str | None = None, archive: zipfile.ZipFile | None = None
) -> Iterator[IO[bytes]]:
    """Open a file, decompressed if its name ends in .gz, .bz2 or .xz, or a member of a .zip.

    Errors of reading it within the block are raised as ``CorpusError``. ``archive`` is the .zip if it is open already.
    """
    name = str(path) if member is None else f"{path}: {member}"
    with corpus_errors(name), ExitStack() as stack:
        if member is None:
            if problem := broken_link(path):
                raise CorpusError(f"{name}: {problem}")
            yield stack.enter_context(open_decompressed(path))
        else:
            archive = archive or stack.enter_context(zipfile.ZipFile(path))
            yield stack.enter_context(archive.open(member))


@contextmanager
def corpus_errors(source: str) -> Iterator[None]:
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
    stream: IO[bytes], source: str, handle_error: ErrorHandler, lang: str = "", guessed: Skipped | None = None
) -> Iterator[str | None]:
    """Every line without its line break, or None for one that is not UTF-8 or too long.

    Unusable lines are not left out, so that line numbers stay correct. If ``lang`` and ``guessed`` are given, a text in
    this language whose encoding is evidently Windows-1252 is decoded by that, and counted in ``guessed``; UTF-16
    without a byte order mark is then recognised, too.
    """
    number, may_be_western = 0, bool(lang) and guessed is not None
    while True:
        number += 1
        line = stream.readline(MAX_LINE_BYTES)
        if number == 1:
            converted = as_utf8(stream, line) if may_be_western or marked_encoding(line) else None
            if converted:
                stream, line = converted, converted.readline(MAX_LINE_BYTES)
            line = line.removeprefix(codecs.BOM_UTF8)
        if not line:
            return
        if len(line) >= MAX_LINE_BYTES and not line.endswith(b"\n"):
            handle_error(
                "line too long", f"{source}:{number}: a line of more than {MAX_LINE_BYTES >> 20} MB; break it up"
            )
            while (line := stream.readline(_CHUNK_BYTES)) and not line.endswith(b"\n"):
                pass
            yield None
            continue
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            if may_be_western:
                may_be_western = False
                sample = line + stream.read(SAMPLE_BYTES)
                if guessed is not None and decode_western(sample, lang) is not None:
                    guessed.add(WESTERN, source)
                    stream = reencoded(stream, sample, WESTERN)
                    yield stream.readline().decode().removesuffix("\n").removesuffix("\r")
                    continue
                stream = put_back(stream, sample[len(line) :])
            handle_error("invalid UTF-8", f"{source}:{number}: {describe_utf8_error(error)}")
            yield None
            continue
        may_be_western = may_be_western and line.isascii()  # nothing but ASCII so far
        yield text.removesuffix("\n").removesuffix("\r")


def count_lines(stream: IO[bytes]) -> int:
    """How many lines ``lines`` yields, which takes a fraction of the time; the last one may lack its line feed."""
    count, last = 0, b"\n"
    chunk = stream.read(_CHUNK_BYTES)
    if converted := as_utf8(stream, chunk):
        stream, chunk = converted, converted.read(_CHUNK_BYTES)
    if chunk.startswith(codecs.BOM_UTF8):  # a file that is only a byte order mark has no lines
        chunk = chunk.removeprefix(codecs.BOM_UTF8) or stream.read(_CHUNK_BYTES)
    while chunk:
        count += chunk.count(b"\n")
        last = chunk[-1:]
        chunk = stream.read(_CHUNK_BYTES)
    return count + (last != b"\n")
