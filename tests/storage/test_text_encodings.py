"""Text files whose byte order mark gives their encoding."""

import io

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cr5.storage.text_encodings import as_utf8, marked_encoding


@given(st.text(), st.sampled_from(["utf-16", "utf-32"]), st.integers(4, 40))
def test_other_encodings_become_utf_8(text: str, encoding: str, read_before: int) -> None:
    assume(not text.startswith("\0"))  # after the mark of UTF-16, that of UTF-32
    stream = io.BytesIO(text.encode(encoding))
    converted = as_utf8(stream, stream.read(read_before))
    assert converted is not None
    assert converted.read() == text.encode()


@pytest.mark.parametrize("start", [b"", b"a", b"\xef\xbb\xbfa", b"\xff"])
def test_utf_8_and_unmarked_files_are_left_alone(start: bytes) -> None:
    assert as_utf8(io.BytesIO(), start) is None


def test_the_mark_of_utf_32_is_not_taken_for_that_of_utf_16() -> None:
    assert marked_encoding("a".encode("utf-32")) == "utf-32"
    assert marked_encoding("a".encode("utf-16")) == "utf-16"


def test_malformed_text_is_an_error_of_reading() -> None:
    converted = as_utf8(io.BytesIO(), "a".encode("utf-16") + b"\0")
    assert converted is not None
    with pytest.raises(OSError, match="not valid utf-16"):
        converted.read()
