"""Text files whose byte order mark or zero bytes give their encoding."""

import io

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cr5.storage.text_encodings import as_utf8, evident_encoding


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
    assert evident_encoding("a".encode("utf-32")) == "utf-32"
    assert evident_encoding("a".encode("utf-16")) == "utf-16"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@given(text=st.text(st.sampled_from("abcé ñ"), min_size=2), rest=st.text(st.sampled_from("aé犬ж\n")))
def test_utf_16_without_a_mark_is_recognised_by_its_zero_bytes(encoding: str, text: str, rest: str) -> None:
    data = f"{text}\n{rest}".encode(encoding)
    stream = io.BytesIO(data)
    converted = as_utf8(stream, stream.readline())
    assert converted is not None
    assert converted.read() == data.decode(encoding).encode()


@given(st.text(st.characters(exclude_characters="\0")), st.sampled_from(["utf-8", "latin-1", "cp1251"]))
def test_a_text_without_zero_bytes_is_not_taken_for_utf_16(text: str, encoding: str) -> None:
    assume(not text.startswith("\ufeff"))
    data = text.encode(encoding, "ignore")
    assume(not data.startswith((b"\xff\xfe", b"\xfe\xff")))
    assert evident_encoding(data) is None


def test_malformed_text_is_an_error_of_reading() -> None:
    converted = as_utf8(io.BytesIO(), "a".encode("utf-16") + b"\0")
    assert converted is not None
    with pytest.raises(OSError, match="not valid utf-16"):
        converted.read()
