"""Columns of strings and of compressed texts, some rows at a time."""

import zlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cr5.index.strings import SIZE_BYTES, ZSTD_MAGIC, Strings, compressed

TEXTS = ["", "one word", "smørrebrød på dansk " * 40, "漢字"]


def as_earlier(text: str) -> bytes:
    """A compressed text as earlier versions wrote it."""
    raw = text.encode()
    return len(raw).to_bytes(SIZE_BYTES, "little") + bytes(pa.Codec("zstd", 1).compress(raw, asbytes=True))


@settings(deadline=None)
@given(st.lists(st.text(), min_size=1))
def test_compressed_texts_are_read_as_they_were(texts: list[str]) -> None:
    rows = np.arange(len(texts))[::-1]
    assert Strings(compressed(texts)).take_texts(rows) == texts[::-1]


def test_texts_that_an_earlier_version_compressed_are_read_also_among_new_ones() -> None:
    old = pa.array([as_earlier(text) for text in TEXTS], pa.large_binary())
    both = pa.concat_arrays([old, compressed(TEXTS)])
    assert Strings(both).take_texts(np.arange(len(both))) == 2 * TEXTS


def test_a_text_whose_compressed_bytes_look_like_those_of_an_earlier_version_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compress = zlib.compress

    def unlucky(data: bytes, level: int = -1, wbits: int = 15) -> bytes:
        return b"1234" + ZSTD_MAGIC if level == -1 else compress(data, level, wbits)

    monkeypatch.setattr(zlib, "compress", unlucky)
    assert Strings(compressed(TEXTS)).take_texts(np.arange(len(TEXTS))) == TEXTS


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_strings_of_some_rows_of_a_slice(kind: pa.DataType, keeps: bool) -> None:
    column = Strings(pa.array(["left out", *TEXTS], kind).slice(1), keeps=keeps)
    for _ in range(2):
        assert column.take(np.array([2, 0, 2])) == [TEXTS[2], "", TEXTS[2]]
