"""The encoding of a text file by its first bytes, and its content as UTF-8."""

import codecs
import io
from collections.abc import Iterator
from typing import IO, cast

_CHUNK_BYTES = 1 << 16
# The longer ones first: the byte order mark of UTF-32 starts with that of UTF-16.
BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def marked_encoding(start: bytes) -> str | None:
    """The encoding that a byte order mark declares, or None without one."""
    return next((name for mark, name in BYTE_ORDER_MARKS.items() if start.startswith(mark)), None)


def evident_encoding(start: bytes) -> str | None:
    """The encoding that a byte order mark declares, or UTF-16 if the first line shows it; else None.

    In UTF-16, most characters of many scripts have one byte that is zero, always the first or always the second.
    """
    if marked := marked_encoding(start):
        return marked
    line = start.partition(b"\n")[0]
    first, second = line[::2], line[1::2]
    if b"\0" not in first and 2 * second.count(0) > len(second) > 1:
        return "utf-16-le"
    if b"\0" not in second and 2 * first.count(0) > len(first) > 1:
        return "utf-16-be"
    return None


def as_utf8(stream: IO[bytes], start: bytes) -> IO[bytes] | None:
    """The content of a UTF-16 or UTF-32 file as UTF-8, without its byte order mark; None if it is neither.

    ``start`` is what has been read of the stream, the first line at least. Malformed text raises
    ``OSError``, like damage of a compressed file.
    """
    encoding = evident_encoding(start)
    if encoding is None or encoding == "utf-8-sig":
        return None
    return reencoded(stream, start, encoding)


def reencoded(stream: IO[bytes], start: bytes, encoding: str) -> IO[bytes]:
    """A text of this encoding as UTF-8; ``start`` is what has been read of the stream and is to be read again."""

    def chunks() -> Iterator[bytes]:
        decoder = codecs.getincrementaldecoder(encoding)()
        try:
            for chunk in _read_again(stream, start):
                yield decoder.decode(chunk).encode()
            decoder.decode(b"", final=True)
        except UnicodeDecodeError as error:
            raise OSError(f"not valid {error.encoding}, {error.reason}") from None

    return stream_of(chunks())


def put_back(stream: IO[bytes], start: bytes) -> IO[bytes]:
    """A stream of ``start`` and then of the rest of another stream, which it was read from."""
    return stream_of(_read_again(stream, start))


def _read_again(stream: IO[bytes], start: bytes) -> Iterator[bytes]:
    yield start
    while chunk := stream.read(_CHUNK_BYTES):
        yield chunk


def stream_of(chunks: Iterator[bytes]) -> IO[bytes]:
    """A stream of chunks of bytes, which may be empty."""
    return io.BufferedReader(cast(io.RawIOBase, _Chunks(chunks)))


class _Chunks(io.RawIOBase):
    def __init__(self, chunks: Iterator[bytes]) -> None:
        self.chunks, self.rest = chunks, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        self.rest = self.rest or next(filter(None, self.chunks), b"")
        count = min(len(buffer), len(self.rest))
        buffer[:count], self.rest = self.rest[:count], self.rest[count:]
        return count
