"""The encoding of a text file by its byte order mark, and its content as UTF-8."""

import codecs
import io
from typing import IO, cast

# The longer ones first: the byte order mark of UTF-32 starts with that of UTF-16.
BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def marked_encoding(start: bytes) -> str | None:
    """The encoding that the first bytes of a file declare by a byte order mark; None without one."""
    return next((name for mark, name in BYTE_ORDER_MARKS.items() if start.startswith(mark)), None)


def as_utf8(stream: IO[bytes], start: bytes) -> IO[bytes] | None:
    """The content of a UTF-16 or UTF-32 file as UTF-8, without its byte order mark; None if it is neither.

    ``start`` is what has been read of the stream, at least four bytes if it has as many. Malformed text raises
    ``OSError``, like damage of a compressed file.
    """
    encoding = marked_encoding(start)
    if encoding is None or encoding == "utf-8-sig":
        return None
    return reencoded(stream, start, encoding)


def reencoded(stream: IO[bytes], start: bytes, encoding: str) -> IO[bytes]:
    """A text of this encoding as UTF-8; ``start`` is what has been read of the stream and is to be read again."""
    return io.BufferedReader(cast(io.RawIOBase, _Utf8Stream(stream, start, encoding)))


def put_back(stream: IO[bytes], start: bytes) -> IO[bytes]:
    """A stream of ``start`` and then of the rest of another stream, which it was read from."""
    return io.BufferedReader(cast(io.RawIOBase, _JoinedStream(stream, start)))


class _JoinedStream(io.RawIOBase):
    def __init__(self, stream: IO[bytes], start: bytes) -> None:
        self.stream, self.start = stream, start

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        data = self.start or self.stream.read(len(buffer))
        count = min(len(buffer), len(data))
        buffer[:count], self.start = data[:count], data[count:]
        return count


class _Utf8Stream(io.RawIOBase):
    def __init__(self, stream: IO[bytes], start: bytes, encoding: str) -> None:
        self.stream, self.next_chunk = stream, start
        self.decoder = codecs.getincrementaldecoder(encoding)()
        self.encoded, self.ended = b"", False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        while not self.encoded and not self.ended:
            self.ended = not self.next_chunk
            try:
                self.encoded = self.decoder.decode(self.next_chunk, self.ended).encode()
            except UnicodeDecodeError as error:
                raise OSError(f"not valid {error.encoding}, {error.reason}") from None
            self.next_chunk = self.stream.read(1 << 16)
        count = min(len(buffer), len(self.encoded))
        buffer[:count], self.encoded = self.encoded[:count], self.encoded[count:]
        return count
