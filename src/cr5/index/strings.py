"""Columns of strings from which a search reads a few rows, without an Arrow call for each column: that takes longer."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from cr5._typing import Ints

_CODEC = pa.Codec("zstd", compression_level=1)
SIZE_BYTES = 4  # the length of a compressed text precedes it


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
    """Texts, each compressed by itself and preceded by its length in bytes."""
    return pa.array([_compress(text.encode()) for text in texts], pa.large_binary())


def _compress(text: bytes) -> bytes:
    size = len(text).to_bytes(SIZE_BYTES, "little")
    return size + bytes(_CODEC.compress(text, asbytes=True))


def _decompress(part: memoryview) -> str:
    size = int.from_bytes(part[:SIZE_BYTES], "little")
    return str(_CODEC.decompress(part[SIZE_BYTES:], size), "utf-8")
