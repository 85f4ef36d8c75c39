"""Formats: TSV, TMX that our own reader reads back, and pages that escape everything."""

import csv
import io
from html.parser import HTMLParser
from pathlib import Path

import pytest

from cr5.alignment import AlignedTexts, Link, SplitText, alignment_text, write_text
from cr5.alignment.formats import output_format
from cr5.errors import Cr5Error
from cr5.sources.tmx import read_tmx

HOSTILE = "<script>alert('x')</script>\t& \"more\"\x01 ]]>"
TEXTS = AlignedTexts(
    SplitText("<b>a</b>.txt", "aa", ["One.", HOSTILE, "Three."], [0, 0, 1]),
    SplitText("b.txt", "bb", ["Eins.", HOSTILE, "Vier."], [0, 1, 1]),
    [Link((0,), (0,), 0.5), Link((1,), (1,), 0.25), Link((2,), (), 0.0), Link((), (2,), 0.0)],
    [Link((0, 1), (0, 1), 0.4)],
)


def test_a_table_has_a_row_for_each_link() -> None:
    rows = list(
        csv.reader(io.StringIO("".join(alignment_text([TEXTS], "tsv"))), delimiter="\t", quoting=csv.QUOTE_NONE)
    )
    assert rows[0] == ["a", "b", "score", "text_a", "text_b"]
    assert [row[:3] for row in rows[1:]] == [["1", "1", "0.500"], ["2", "2", "0.250"], ["3", "", ""], ["", "3", ""]]
    assert rows[2][3] == HOSTILE.replace("\t", " ")
    assert {len(row) for row in rows} == {5}


def test_sections_and_several_documents_have_rows_of_their_own() -> None:
    lines = "".join(alignment_text([TEXTS, TEXTS], "tsv", level="section")).splitlines()
    assert lines[0].split("\t")[0] == "document"
    assert len(lines) == 3
    assert lines[1].split("\t")[:4] == ["<b>a</b>.txt", "1,2", "1,2", "0.400"]


def test_a_translation_memory_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    write_text(tmp_path / "memory.tmx", alignment_text([TEXTS], "tmx"))
    documents = list(read_tmx([tmp_path / "memory.tmx"], join=1))
    assert [(document.lang, document.text) for document in documents] == [
        ("aa", "One."), ("bb", "Eins."), ("aa", " ".join(HOSTILE.replace("\x01", " ").split())),
        ("bb", " ".join(HOSTILE.replace("\x01", " ").split())),
    ]  # fmt: skip


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not [value for name, value in attrs if name in ("src", "href") or name.startswith("on")]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_page_shows_hostile_text_as_text_and_needs_no_other_file() -> None:
    parser = _Tags()
    parser.feed("".join(alignment_text([TEXTS], "html")))
    assert not {"script", "b>a", "link", "img"} & set(parser.tags)
    assert parser.text.count("<script>alert('x')</script>") == 2
    assert "<b>a</b>.txt" in parser.text


@pytest.mark.parametrize(
    ("name", "chosen", "expected"),
    [
        (None, None, "tsv"),
        ("x.TMX", None, "tmx"),
        ("x.htm", None, "html"),
        ("x.dat", "html", "html"),
        (None, "tmx", "tmx"),
    ],
)
def test_the_format_is_that_of_the_suffix_unless_one_is_chosen(
    tmp_path: Path, name: str | None, chosen: str | None, expected: str
) -> None:
    assert output_format(name and tmp_path / name, chosen, ("tsv", "tmx", "html")) == expected  # type: ignore[arg-type]


def test_a_file_that_cannot_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(Cr5Error, match="suffixes"):
        output_format(tmp_path / "x.docx", None, ("tsv", "tmx"))
    with pytest.raises(Cr5Error, match="no folder"):
        output_format(tmp_path / "none" / "x.tsv", None, ("tsv",))
    with pytest.raises(Cr5Error, match="`form="):
        output_format(None, "pdf", ("tsv",))
    (tmp_path / "x.html").touch()
    with pytest.raises(Cr5Error, match=r"x\.html cannot be written: it is also read; name"):
        output_format(tmp_path / "x.html", None, ("tsv", "html"), (tmp_path / "y.html", tmp_path / "x.html"))
