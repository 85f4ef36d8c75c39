"""Files of a source: whatever their compression, and whatever is wrong with them."""

import bz2
import gzip
import io
import lzma
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cr5.corpus.skipped import Skipped
from cr5.errors import CorpusError
from cr5.sources import files
from cr5.sources.files import lines, open_source, raise_error

CONTENT = "første linje\nanden 🦉\n".encode()
WRITERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}


@pytest.mark.parametrize("suffix", WRITERS)
def test_a_file_is_decompressed_by_its_name(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"corpus.txt{suffix}"
    path.write_bytes(WRITERS[suffix](CONTENT))
    with open_source(path) as stream:
        assert stream.read() == CONTENT


def test_a_member_of_a_zip_is_read_as_a_file(tmp_path: Path) -> None:
    path = tmp_path / "corpus.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("folder/a.txt", CONTENT)
    with open_source(path, "folder/a.txt") as stream:
        assert stream.read() == CONTENT


WESTERN = ["The first line", "Il perché è già così.", "", "Città e università, niño"]


@pytest.mark.parametrize("ending", [b"", b"\n"])
def test_a_text_that_is_evidently_in_windows_1252_is_decoded_so(ending: bytes) -> None:
    data, guessed = "\r\n".join(WESTERN).encode("cp1252") + ending, Skipped()
    assert list(lines(io.BytesIO(data), "x.it", raise_error, "ita", guessed)) == WESTERN
    assert (guessed.counts, guessed.examples) == ({"windows-1252": 1}, {"windows-1252": "x.it"})


@pytest.mark.parametrize(
    ("text", "lang"),
    [
        ("perch\xe9\nsecond\n", "ru"),  # in a language that is not written so
        ("perch\xe9\nsecond\n", ""),
        ("\xcf\xf0\xe8\xe2\xe5\xf2 \xec\xe8\xf0\nsecond\n", "it"),  # Cyrillic letters of another encoding
        ("citt\xc3\xa0\nperch\xe9\n", "it"),  # most of it is UTF-8
    ],
)
def test_what_is_not_evident_is_an_error_of_its_line_and_the_others_stay(text: str, lang: str) -> None:
    data, guessed, errors = text.encode("latin-1"), Skipped(), Skipped()
    found = list(lines(io.BytesIO(data), "x", errors.add, lang, guessed))
    assert found in ([None, "second"], ["città", None])
    assert (errors.counts, guessed.counts) == ({"invalid UTF-8": 1}, {})


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
def test_every_truncation_is_reported_as_one(suffix: str, tmp_path: Path) -> None:
    whole = WRITERS[suffix](CONTENT)
    path = tmp_path / f"corpus.txt{suffix}"
    for end in range(4, len(whole)):  # less than its first signs is nothing
        path.write_bytes(whole[:end])
        with pytest.raises(CorpusError) as caught, open_source(path) as stream:
            stream.read()
        assert str(caught.value) == (f"{path}: truncated, the compressed data has no end; copy or download it again")


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
def test_what_is_not_compressed_at_all_is_corrupt(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"corpus.txt{suffix}"
    path.write_bytes(b"plain text " * 100)
    with pytest.raises(CorpusError, match=r"corrupt, .*; copy or download it again"), open_source(path) as stream:
        stream.read()


def test_a_zip_that_is_none_and_a_file_that_is_not_there_are_named(tmp_path: Path) -> None:
    path = tmp_path / "corpus.zip"
    path.write_bytes(b"PK no")
    with pytest.raises(CorpusError) as caught, open_source(path, "a.txt"):
        pass
    assert str(caught.value) == f"{path}: a.txt: corrupt, file is not a zip file; copy or download it again"
    with pytest.raises(CorpusError) as caught, open_source(tmp_path / "none.txt"):
        pass
    assert str(caught.value) == f"{tmp_path}/none.txt: cannot be read, no such file or directory; check the name"


def test_lines_lose_their_ends_and_the_mark_at_the_beginning() -> None:
    assert list(lines(io.BytesIO(b"\xef\xbb\xbfa\r\nb\n\nc"), "x", raise_error)) == ["a", "b", "", "c"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_gives_the_encoding_of_lines(encoding: str) -> None:
    text = "Ċ a\n漢 🦉\n\nz"  # one byte of the first letter is that of a line feed
    assert list(lines(io.BytesIO(text.encode(encoding)), "x", raise_error)) == text.split("\n")


def test_after_a_line_that_is_not_utf_8_numbers_stay_right() -> None:
    skipped = Skipped()
    assert list(lines(io.BytesIO(b"a\nb\xff\nc\n"), "x.txt", skipped.add)) == ["a", None, "c"]
    problem = "byte 0xff at position 2 is not UTF-8; convert the file, e.g. with iconv -f windows-1252 -t utf-8"
    assert skipped.examples == {"invalid UTF-8": f"x.txt:2: {problem}"}


def test_after_a_line_that_is_too_long_numbers_stay_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_LINE_BYTES", 10)
    skipped = Skipped()
    stream = io.BytesIO(b"a\n" + b"b" * 50 + b"\nc\n" + b"d" * 9 + b"\n" + b"e" * 50)
    assert list(lines(stream, "x.txt", skipped.add)) == ["a", None, "c", "d" * 9, None]
    assert skipped.counts == {"line too long": 2}


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\r\ufeff"))))
def test_lines_come_back_as_they_were_written(written: list[str]) -> None:
    stream = io.BytesIO("".join(line + "\n" for line in written).encode())
    assert list(lines(stream, "x", raise_error)) == written
