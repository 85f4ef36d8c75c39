"""Values of options as people write them."""

import pytest
import typer

from cr5.cli import run
from cr5.cli.options import parse_bytes, parse_rank
from cr5.errors import Cr5Error


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [
        ("4GB", 4 * 10**9),
        ("800 MB", 800 * 10**6),
        ("1.5g", 1_500_000_000),
        ("512MiB", 512 * 2**20),
        ("2 TiB", 2 * 2**40),
        ("17", 17),
        ("3k", 3000),
    ],
)
def test_sizes_are_read_as_people_write_them(text: str, bytes_: int) -> None:
    assert parse_bytes(text) == bytes_


def test_a_rank_is_a_number_or_auto() -> None:
    assert [parse_rank(text) for text in (None, "auto", "300")] == [None, "auto", 300]
    for text in ("x", "0", "-3", "1.5", ""):
        with pytest.raises(typer.BadParameter, match=f"^'{text}' is neither a whole number above 0 nor auto$"):
            parse_rank(text)


@pytest.mark.parametrize("text", ["", "much", "-4GB", "4XB", "4 G B", "GB"])
def test_what_is_not_a_size_is_refused(text: str) -> None:
    with pytest.raises(Cr5Error, match=r"is not an amount of memory; write it like 4GB or 800MB$"):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("command", "way_out"),
    [
        (["search", "index", "fishing", "quotas"], "put a query of several words in quotation marks"),
        (["encode", "model", "lines.txt"], "texts are read from standard input: cr5 encode MODEL < FILE"),
        (["train", "a.csv", "-o", "m", "--langs", "en it"], "'en it' has a blank within a code; separate codes by"),
        (["train", "a.csv", "-o", "m", "--on-error", "x"], "Invalid value for '--on-error': 'x' is not one of"),
    ],
)
def test_wrong_usage_is_explained(command: list[str], way_out: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(command) == 2
    printed = capsys.readouterr().err.replace("│", " ")
    assert way_out in " ".join(printed.split())
