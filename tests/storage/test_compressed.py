from pathlib import Path

import pytest

from cr5.storage.compressed import SUFFIXES, compressed_writer, describe_error, open_decompressed, split_suffix


@pytest.mark.parametrize("suffix", ["", *sorted(SUFFIXES)])
def test_what_was_written_compressed_is_read_back(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"file.txt{suffix}"
    with path.open("wb") as raw, compressed_writer(raw, suffix) as stream:
        stream.write(b"content" * 100)
    assert (path.stat().st_size < 700) == bool(suffix)
    with open_decompressed(path) as stream:
        assert stream.read() == b"content" * 100
    with path.open("rb") as packed, open_decompressed(packed, suffix) as stream:
        assert stream.read() == b"content" * 100


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("en.csv.gz", ("en.csv", ".gz")),
        ("EN.CSV.BZ2", ("EN.CSV", ".bz2")),
        ("folder.xz/en.csv", ("folder.xz/en.csv", "")),
        ("en.csv", ("en.csv", "")),
        (".gz", (".gz", "")),
    ],
)
def test_the_suffix_of_the_compression_is_split_off(name: str, parts: tuple[str, str]) -> None:
    assert split_suffix(name) == parts


@pytest.mark.parametrize(
    ("error", "facts"),
    [
        (EOFError(), ["truncated", "download it again"]),
        (FileNotFoundError(2, "No such file or directory"), ["no such file or directory", "check the name"]),
        (PermissionError(13, "Permission denied"), ["permission denied", "check its permissions"]),
        (OSError("CRC check failed"), ["corrupt, CRC check failed", "download it again"]),
        (OSError("Invalid data stream"), ["corrupt, invalid data stream", "download it again"]),
    ],
)
def test_an_error_is_described_with_what_to_do(error: Exception, facts: list[str]) -> None:
    assert all(fact in describe_error(error) for fact in facts)
