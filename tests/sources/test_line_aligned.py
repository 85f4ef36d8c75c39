"""Line-aligned files: which files belong together, and lines side by side. Moses' tests cover the documents."""

from pathlib import Path

import pytest

from cr5.corpus.skipped import Skipped
from cr5.errors import CorpusError
from cr5.sources.accounting import Accounting
from cr5.sources.files import raise_error
from cr5.sources.input_files import InputFile
from cr5.sources.line_aligned import LineAlignedFiles, group_files, read_aligned_lines


def test_files_are_grouped_by_folder_and_stem_and_keep_their_order() -> None:
    files = [InputFile(Path(name)) for name in ("a/x.it", "a/x.en.gz", "b/x.en", "a/README", "a/y.en-da.en")]
    groups = group_files(files, Accounting())
    assert [(group.stem, list(group.files)) for group in groups] == [
        ("x", ["it", "en"]),
        ("x", ["en"]),
        ("y.en-da", ["en"]),
    ]
    assert [group.source for group in groups] == ["a/x", "b/x", "a/y.en-da"]
    assert [group.missing_language for group in groups] == ["", "", "da"]


def test_members_of_a_zip_are_grouped_too() -> None:
    (group,) = group_files([InputFile(Path("a.zip"), "d/x.en"), InputFile(Path("a.zip"), "d/x.it")], Accounting())
    assert group.source == "a.zip: d/x"


def test_two_files_of_one_language_are_an_error() -> None:
    with pytest.raises(CorpusError, match=r"x\.en\.gz: seems to be the same text as x\.en;"):
        group_files([InputFile(Path("x.en")), InputFile(Path("x.en.gz"))], Accounting())


def put(folder: Path, **texts: bytes) -> LineAlignedFiles:
    for lang, text in texts.items():
        (folder / f"x.{lang}").write_bytes(text)
    return LineAlignedFiles("x", {lang: InputFile(folder / f"x.{lang}") for lang in texts})


def test_rows_have_the_stripped_lines_of_all_files(tmp_path: Path) -> None:
    group = put(tmp_path, en=b"\xef\xbb\xbf one\r\n\ntwo", it=b"uno\nsolo\ndue\n")
    assert list(read_aligned_lines(group, raise_error)) == [("one", "uno"), ("", "solo"), ("two", "due")]


def test_files_may_have_different_encodings(tmp_path: Path) -> None:
    group = put(tmp_path, en="Ċ one\ntwo\n".encode("utf-16"), it="uno\ndue\n".encode("utf-8-sig"))
    assert list(read_aligned_lines(group, raise_error)) == [("Ċ one", "uno"), ("two", "due")]


def test_an_unreadable_line_is_none_and_the_others_keep_their_places(tmp_path: Path) -> None:
    skipped = Skipped()
    rows = list(read_aligned_lines(put(tmp_path, en=b"one\n\xff\nthree\n", it=b"uno\ndue\ntre\n"), skipped.add))
    assert rows == [("one", "uno"), (None, "due"), ("three", "tre")]
    assert skipped.counts == {"invalid UTF-8": 1}


def test_files_of_different_length_are_an_error(tmp_path: Path) -> None:
    group = put(tmp_path, en=b"one\ntwo\n", it=b"uno\n", de=b"eins\nzwei")
    with pytest.raises(CorpusError, match=r"x\.en: 2 lines, but 1 in .*x\.it"):
        list(read_aligned_lines(group, raise_error))
