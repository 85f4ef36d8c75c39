"""Files of the work folder: errors say how to resume."""

from pathlib import Path

import pytest

from cr5.errors import Cr5Error
from cr5.sources.wikipedia.work_files import load_json
from cr5.storage.json_files import write_json


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
