"""The folder of a corpus: files that we did not write are neither used nor removed."""

import json
from pathlib import Path

import pytest

from cr5.errors import Cr5Error
from cr5.sources.wikipedia.corpus_folder import check_folder, remove_temporary_files


@pytest.mark.parametrize("content", ['{"name": "mine"}', "[]", "{"])
def test_a_manifest_of_another_source_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(content)
    path = tmp_path / "manifest.json"
    with pytest.raises(Cr5Error, match=f"{path}: belongs to a corpus from another source"):
        check_folder(tmp_path, ["da"])
    (tmp_path / ".work").mkdir()
    check_folder(tmp_path, ["da"])  # with a work folder the manifest is ours, and damaged
    (tmp_path / ".work").rmdir()
    path.write_text(json.dumps({"source": "wikipedia"}))
    check_folder(tmp_path, ["da"])


def test_a_file_of_other_origin_in_the_place_of_ours_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "da-00007.parquet"
    path.write_bytes(b"mine")
    with pytest.raises(Cr5Error, match=f"{path}: damaged, or not written by cr5"):
        check_folder(tmp_path, ["da"])
    check_folder(tmp_path, ["en"])


def test_a_new_or_empty_folder_is_accepted(tmp_path: Path) -> None:
    check_folder(tmp_path, ["da"])
    check_folder(tmp_path / "new", ["da"])


@pytest.mark.parametrize(
    ("name", "is_ours"),
    [
        (".da-00001.parquet.0123abcd.tmp", True),
        (".zh-Hant-00001.parquet.0123abcd.tmp", True),
        (".manifest.json.0123abcd.tmp", True),
        (".da-00001.parquet.0123abcg.tmp", False),
        (".mine.parquet.0123abcd.tmp", False),
        ("da-00001.parquet.0123abcd.tmp", False),
        (".0123abcd.tmp", False),
    ],
)
def test_only_temporary_files_of_ours_are_removed(name: str, is_ours: bool, tmp_path: Path) -> None:
    (tmp_path / name).touch()
    remove_temporary_files(tmp_path)
    assert (tmp_path / name).exists() is not is_ours
