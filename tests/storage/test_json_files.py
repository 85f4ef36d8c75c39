"""JSON files: what is written is read again, and anything but an object is an error."""

from pathlib import Path

import pytest

from cr5.storage.json_files import read_json, write_json


def test_an_object_is_read_as_it_was_written(tmp_path: Path) -> None:
    values = {"name": "Ærø", "sizes": [1, 2], "digest": None}
    write_json(tmp_path / "a.json", values, temporary=tmp_path / "a.part")
    assert read_json(tmp_path / "a.json") == values
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_name_that_is_not_utf_8_is_read_as_it_was_written(tmp_path: Path) -> None:
    values = {"file": "caf\udce9.txt"}
    write_json(tmp_path / "a.json", values, indent=None)
    assert read_json(tmp_path / "a.json") == values
    assert (tmp_path / "a.json").read_bytes() == b'{"file": "caf\\udce9.txt"}\n'


@pytest.mark.parametrize("content", [b"", b"[1]", b'{"a": ', b"\xff", b"[" * 100_000])
def test_anything_but_an_object_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"a\.json: not a JSON object"):
        read_json(tmp_path / "a.json")
