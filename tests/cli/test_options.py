"""Values of options as people write them."""

import pytest

from cr5.cli.options import parse_bytes
from cr5.errors import Cr5Error


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [
        ("4GB", 4 * 10**9),
        ("800 MB", 800 * 10**6),
        ("1.5g", 1_500_000_000),
        ("2TiB", 2 * 10**12),
        ("17", 17),
        ("3k", 3000),
    ],
)
def test_sizes_are_read_as_people_write_them(text: str, bytes_: int) -> None:
    assert parse_bytes(text) == bytes_


@pytest.mark.parametrize("text", ["", "much", "-4GB", "4XB", "4 G B", "GB"])
def test_what_is_not_a_size_is_refused(text: str) -> None:
    with pytest.raises(Cr5Error, match=r"is not an amount of memory; write it like 4GB or 800MB$"):
        parse_bytes(text)
