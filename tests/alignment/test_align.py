"""Aligned documents: reading, paragraphs, sections, languages, pairs of files, and what is refused."""

import gzip
from pathlib import Path

import madeup
import pytest

from cr5 import Cr5
from cr5.alignment import AlignedTexts, Link, align, align_files, split_text
from cr5.alignment.documents import read_text
from cr5.errors import CorpusError, Cr5Error

SAID = madeup.sentence_meanings(9)
PARAGRAPHS = [SAID[:3], SAID[3:4], SAID[4:7], SAID[7:]]


def sentence_text(lang: str, paragraphs: list[list[list[int]]]) -> str:
    return "\n\n".join(" ".join(madeup.sentences(lang, part)) for part in paragraphs)


def sides(links: list[Link]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    return [link.sides for link in links]


# Paragraphs


def test_wrapped_lines_of_a_paragraph_are_joined_and_headings_are_not() -> None:
    text = (
        "A heading\nfor all\n\n"
        "The first sentence is so long that it is wrapped\nHere it goes on. Next.\nItem one\nItem two"
    )
    found = split_text(text, "en")
    assert found.sentences == [
        "A heading for all",
        "The first sentence is so long that it is wrapped Here it goes on.",
        "Next.",
        "Item one",
        "Item two",
    ]
    assert found.paragraphs == [0, 1, 1, 1, 1]


def test_without_blank_lines_every_line_is_a_paragraph() -> None:
    found = split_text("One. Two.\nThree.\n---\nFour", "en")
    assert (found.sentences, found.paragraphs) == (["One.", "Two.", "Three.", "Four"], [0, 0, 1, 2])


def test_pages_and_compressed_files_are_read_as_plain_text(tmp_path: Path) -> None:
    page = "<html><head><style>p{}</style></head><body><h1>Title</h1><p>One &amp; two.</p></body></html>"
    (tmp_path / "page.html").write_text(page)
    with gzip.open(tmp_path / "text.txt.gz", "wt", encoding="utf-8") as file:
        file.write("Uno.\r\nDue.")
    (tmp_path / "old.txt").write_bytes("Perché no? Così è.".encode("cp1252"))
    assert read_text(tmp_path / "page.html").split("\n") == ["Title", "One & two."]
    assert read_text(tmp_path / "text.txt.gz") == "Uno.\nDue."
    assert read_text(tmp_path / "old.txt", "it") == "Perché no? Così è."


# Alignments


def test_sections_are_paragraphs_whose_sentences_are_linked(model: Cr5) -> None:
    without = [PARAGRAPHS[0], PARAGRAPHS[2] + PARAGRAPHS[3]]  # no second paragraph, and the last two are one
    found = align(model, sentence_text("aa", PARAGRAPHS), sentence_text("bb", without), langs=("aa", "bb"))
    assert sides(found.sections) == [((0,), (0,)), ((1,), ()), ((2, 3), (1,))]
    linked = [link for link in found.sentences if link.a and link.b]
    assert sides(linked) == [((i,), (i if i < 3 else i - 1,)) for i in range(9) if i != 3]
    expected = model.similarity(" ".join(found.a.sentences[4:]), "aa", " ".join(found.b.sentences[3:]), "bb")
    assert found.sections[2].score == pytest.approx(expected, abs=1e-4)


def test_languages_are_guessed(model: Cr5) -> None:
    found = align(model, sentence_text("cc", PARAGRAPHS), sentence_text("bb", PARAGRAPHS))
    assert (found.a.lang, found.b.lang) == ("cc", "bb")


def test_files_of_two_folders_are_paired_by_their_names(model: Cr5, tmp_path: Path) -> None:
    for lang, names in (("aa", ["one.en.txt", "two.txt", "three.txt"]), ("bb", ["one.it.html", "two.txt.gz"])):
        (tmp_path / lang / "inner").mkdir(parents=True)
        for name in names:
            data = sentence_text(lang, PARAGRAPHS).encode()
            (tmp_path / lang / "inner" / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    (tmp_path / "aa" / ".hidden.txt").write_text("x")
    found = align_files(model, tmp_path / "aa", tmp_path / "bb", langs=["aa", "bb"])
    pairs = [(Path(text.a.name).name, Path(text.b.name).name) for text in found.texts]
    assert pairs == [("one.en.txt", "one.it.html"), ("two.txt", "two.txt.gz")]
    assert [path.name for path in found.unpaired] == ["three.txt"]
    assert isinstance(found.texts[1], AlignedTexts)
    assert found.failed == []
    (tmp_path / "bb" / "inner" / "one.it.html").write_text("")
    found = align_files(model, tmp_path / "aa", tmp_path / "bb", langs=["aa", "bb"])
    assert [Path(text.a.name).name for text in found.texts] == ["two.txt"]
    [message] = found.failed
    assert "one.it.html has no sentence" in message
    (tmp_path / "aa" / "inner" / "two.txt").write_text("")
    with pytest.raises(Cr5Error, match=r"none of 2 pairs of files.*no sentence"):
        align_files(model, tmp_path / "aa", tmp_path / "bb", langs=["aa", "bb"])


# What is refused


@pytest.mark.parametrize(
    ("content", "langs", "words"),
    [
        ("", None, "no sentence"),
        (" \n--- \n", ("aa", "bb"), "no sentence"),
        (madeup.text("bb", [1, 2, 3]), ("bb", "bb"), "different languages"),
        (madeup.text("aa", [1, 2, 3]), ("xx", "bb"), "'xx'"),
        ("a\0b", ("aa", "bb"), "not a text file"),
    ],
)
def test_what_cannot_be_aligned_is_one_clear_error(
    model: Cr5, tmp_path: Path, content: str, langs: tuple[str, str] | None, words: str
) -> None:
    (tmp_path / "a.txt").write_text(content, encoding="utf-8")
    (tmp_path / "b.txt").write_text(madeup.text("bb", [1, 2, 3]), encoding="utf-8")
    with pytest.raises(Cr5Error, match=words):
        align_files(model, tmp_path / "a.txt", tmp_path / "b.txt", langs=langs)


def test_a_file_and_a_folder_or_folders_without_common_names_are_refused(model: Cr5, tmp_path: Path) -> None:
    for name in ("a/x.txt", "b/y.txt"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("text")
    with pytest.raises(Cr5Error, match="two files or two folders"):
        align_files(model, tmp_path / "a", tmp_path / "b" / "y.txt")
    with pytest.raises(Cr5Error, match="same name"):
        align_files(model, tmp_path / "a", tmp_path / "b")
    with pytest.raises(Cr5Error, match="two languages"):
        align_files(model, tmp_path / "a" / "x.txt", tmp_path / "b" / "y.txt", langs=["aa"])


@pytest.mark.parametrize("text", ["2 3\ncat 0.1 -0.2 3e-05\ndog 1 2 3\n", "cat" + " 0.25" * 10 + "\n"])
def test_word_vectors_are_not_aligned_as_text(text: str, tmp_path: Path) -> None:
    path = tmp_path / "wiki.en.vec"
    path.write_text(text)
    with pytest.raises(CorpusError, match="has word vectors, not a text"):
        read_text(path)
    path.write_text("12 34\nThe cat has 2 eyes.\n")
    assert read_text(path) == "12 34\nThe cat has 2 eyes.\n"
