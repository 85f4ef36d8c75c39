"""Columns of strings from which a search reads a few rows, without an Arrow call for each column: that takes longer."""

import zlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from cr5._typing import Ints

# Texts are raw DEFLATE streams: those of a few hundred bytes are smaller than with zstd, and decompressed in a third
# of the time. Earlier versions wrote zstd frames, each preceded by the length of its text.
RAW = -zlib.MAX_WBITS
_ZSTD, SIZE_BYTES, ZSTD_MAGIC = pa.Codec("zstd"), 4, b"\x28\xb5\x2f\xfd"


class Strings:
    """A column of strings or bytes of one Arrow array, which may be in a mapped file.

    With ``keeps``, strings that have been read are kept in memory: for columns that many searches read.
    """

    def __init__(self, column: pa.Array, *, keeps: bool = False) -> None:
        _, offsets, content = column.buffers()
        is_large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
        numbers = np.frombuffer(offsets, np.int64 if is_large else np.int32) if offsets else np.zeros(1, np.int32)
        self._offsets = numbers[column.offset : column.offset + len(column) + 1]
        self._content = memoryview(content) if content else memoryview(b"")
        self._kept: list[str | None] | None = [None] * len(column) if keeps else None

    def take(self, rows: Ints) -> list[str]:
        """The strings of some rows."""
        kept = self._kept
        if kept is None:
            return [str(part, "utf-8") for part in self._parts(rows)]
        found = [kept[row] for row in rows.tolist()]
        if None in found:
            found = [str(part, "utf-8") for part in self._parts(rows)]
            for row, string in zip(rows.tolist(), found, strict=True):
                kept[row] = string
        return found

    def take_texts(self, rows: Ints) -> list[str]:
        """The texts of some rows of a column that ``compressed`` made."""
        return [_decompress(part) for part in self._parts(rows)]

    def _parts(self, rows: Ints) -> list[memoryview]:
        begins, ends, content = self._offsets[rows].tolist(), self._offsets[rows + 1].tolist(), self._content
        return [content[begin:end] for begin, end in zip(begins, ends, strict=True)]


def compressed(texts: Sequence[str]) -> pa.LargeBinaryArray:
    """Texts, each compressed by itself."""
    return pa.array([_compress(text.encode()) for text in texts], pa.large_binary())


def _compress(text: bytes) -> bytes:
    part = zlib.compress(text, wbits=RAW)
    if _is_zstd(part):  # looks like one by chance; a stored text cannot, because no text begins with b5 2f fd
        part = zlib.compress(text, 0, RAW)
    return part


def _decompress(part: memoryview) -> str:
    if _is_zstd(part):
        return str(_ZSTD.decompress(part[SIZE_BYTES:], int.from_bytes(part[:SIZE_BYTES], "little")), "utf-8")
    return str(zlib.decompress(part, RAW), "utf-8")


def _is_zstd(part: bytes | memoryview) -> bool:
    return bytes(part[SIZE_BYTES : SIZE_BYTES + len(ZSTD_MAGIC)]) == ZSTD_MAGIC  # Arrow's bytes are signed
