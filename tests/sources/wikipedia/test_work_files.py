"""Files of the work folder: complete or absent, with errors that say how to resume."""

import errno
import os
from pathlib import Path

import pytest

from cr5.errors import Cr5Error
from cr5.sources.wikipedia.work_files import load_json, write_json, writing


def test_json_is_loaded_as_written(tmp_path: Path) -> None:
    write_json(tmp_path / "x.json", {"a": [1, "ø"]})
    assert load_json(tmp_path / "x.json") == {"a": [1, "ø"]}
    assert load_json(tmp_path / "y.json") is None


@pytest.mark.parametrize("content", [b"", b"{", b'{"a": 1', b"[]", b"\xff\xfe", b"null"])
def test_damaged_json_is_named_with_what_to_delete(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(Cr5Error, match=f"{path}: damaged; delete it and"):
        load_json(path)
    with pytest.raises(Cr5Error, match=f"{path}: damaged; delete {tmp_path} and"):
        load_json(path, tmp_path)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_leaves_the_old_file_and_raises_a_clear_error(number: int, tmp_path: Path) -> None:
    def write() -> None:
        with writing(path) as file:
            file.write(b"ne")
            raise OSError(number, os.strerror(number))

    path = tmp_path / "x"
    path.write_text("old")
    with pytest.raises(Cr5Error, match=f"{path}: no space left on the disk"):
        write()
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("x", "old")]
