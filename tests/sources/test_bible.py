"""Verse files: verses, chapters and books come back, and files of the wrong length are errors."""

import contextlib
import gzip
import tracemalloc
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from properties import up_to

from cr5.corpus.documents import Document
from cr5.errors import CorpusError, Cr5Error
from cr5.sources.accounting import Accounting
from cr5.sources.bible import BibleUnit, read_bible

REFERENCES = ["GEN 1:1", "GEN 1:2", "GEN 1:3", "GEN 2:1", "EXO 1:1", "EXO 1:2"]
ENGLISH = ["In the beginning.", "It was dark.", "<range>", "", "These are names.", ""]
DANISH = ["I begyndelsen.", "Der var mørkt.", "Lys!", "Og så.", "<range>", "Alle."]

relaxed = settings(max_examples=up_to(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
texts = st.text(st.characters(exclude_categories=["Cs", "Cc"])).map(str.strip).filter(lambda text: text != "<range>")
verses = st.lists(st.tuples(st.sampled_from(["GEN", "1 SA"]), st.integers(1, 3), texts), min_size=1)


def put(path: Path, rows: list[str], end: str = "\n") -> Path:
    path.write_bytes("".join(row + end for row in rows).encode())
    return path


@pytest.fixture
def references(tmp_path: Path) -> Path:
    return put(tmp_path / "vref.txt", REFERENCES)


def message(files: list[Path], references: Path | None, by: BibleUnit = "chapter") -> str:
    with pytest.raises(Cr5Error) as caught:
        list(read_bible(files, references=references, by=by))
    return str(caught.value)


# What a file holds


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        (
            "verse",
            [
                Document("GEN 1:1", "eng", "In the beginning."),
                Document("GEN 1:2", "eng", "It was dark."),
                Document("EXO 1:1", "eng", "These are names."),
            ],
        ),
        (
            "chapter",
            [
                Document("GEN 1", "eng", "In the beginning.\nIt was dark."),
                Document("EXO 1", "eng", "These are names."),
            ],
        ),
        (
            "book",
            [Document("GEN", "eng", "In the beginning.\nIt was dark."), Document("EXO", "eng", "These are names.")],
        ),
    ],
)
def test_verses_are_documents_or_joined_into_chapters_and_books(
    tmp_path: Path, references: Path, by: BibleUnit, expected: list[Document]
) -> None:
    path = put(tmp_path / "eng-engXYZ.txt", ENGLISH)
    assert list(read_bible([path], references=references, by=by)) == expected
    numbered = [f"{reference}\t{text}" for reference, text in zip(REFERENCES, ENGLISH, strict=True)]
    assert list(read_bible([put(tmp_path / "eng.tsv", numbered)], by=by)) == expected


def test_a_folder_stands_for_all_its_files_but_the_references(tmp_path: Path, references: Path) -> None:
    put(tmp_path / "eng-b.txt", ENGLISH)
    put(tmp_path / "eng-a.txt", ENGLISH, end="\r\n")
    put(tmp_path / "README.md", ["no verses"])
    (tmp_path / "da.txt.gz").write_bytes(gzip.compress("\n".join(DANISH).encode()))
    found = list(read_bible([tmp_path], references=tmp_path / "." / "vref.txt", by="book"))
    assert [(document.lang, document.concept) for document in found] == [
        ("da", "GEN"), ("da", "EXO"), ("eng", "GEN"), ("eng", "EXO"), ("eng", "GEN"), ("eng", "EXO")
    ]  # fmt: skip
    assert found[0].text == "I begyndelsen.\nDer var mørkt.\nLys!\nOg så."
    assert found[2:4] == found[4:6]


@pytest.mark.parametrize(
    ("name", "lang"),
    [("eng-engBSB.txt", "eng"), ("it.txt", "it"), ("vi_1934.txt", "vi"), ("genesis.txt", ""), ("dan-x.y.txt", "dan")],
)
def test_the_name_of_a_file_begins_with_its_language(tmp_path: Path, references: Path, name: str, lang: str) -> None:
    path = put(tmp_path / name, ENGLISH)
    assert {document.lang for document in read_bible([path], references=references)} == {lang}


# What is written comes back


@given(verses, st.sampled_from(["\n", "\r\n"]))
@relaxed
def test_random_verses_come_back_equal_in_either_form(
    tmp_path: Path, rows: list[tuple[str, int, str]], end: str
) -> None:
    numbers = [f"{book} {chapter}:{n}" for n, (book, chapter, _) in enumerate(rows, 1)]
    texts = [text for _, _, text in rows]
    listed = put(tmp_path / "it-x.txt", texts, end)
    numbered = put(tmp_path / "it.tsv", [f"{n}\t{text}" for n, text in zip(numbers, texts, strict=True)], end)
    references = put(tmp_path / "vref.txt", numbers, end)
    expected = [Document(n, "it", text) for n, text in zip(numbers, texts, strict=True) if text]
    assert list(read_bible([listed], references=references, by="verse")) == expected
    assert list(read_bible([numbered], by="verse")) == expected
    for by in ("chapter", "book"):
        found = list(read_bible([listed], references=references, by=by))
        assert list(read_bible([numbered], by=by)) == found
        assert "\n".join(document.text for document in found) == "\n".join(filter(None, texts))
        assert all(a.concept != b.concept for a, b in pairwise(found))


# What is wrong


@pytest.mark.parametrize("rows", [[], ENGLISH[:-1], [*ENGLISH, "more"]])
def test_a_file_with_more_or_fewer_lines_than_references_is_an_error_with_both_numbers(
    tmp_path: Path, references: Path, rows: list[str]
) -> None:
    path, good = put(tmp_path / "eng.txt", rows), put(tmp_path / "da.txt", DANISH)
    expected = f"{path}: {len(rows)} lines, but 6 references; pass the list of references it was made with"
    assert message([path], references) == expected
    accounting = Accounting("skip")
    found = list(read_bible([path, good], references=references, accounting=accounting))
    assert {document.lang for document in found} == {"da"}
    assert accounting.errors.examples == {"wrong number of lines": expected}


@pytest.mark.parametrize("line", ["GEN 1", "", "GEN one:1", "1:1"])
def test_a_list_with_a_line_that_is_not_a_verse_is_an_error(tmp_path: Path, line: str) -> None:
    path, references = put(tmp_path / "eng.txt", ENGLISH), put(tmp_path / "vref.txt", ["GEN 1:1", line])
    assert message([path], references) == f"{references}:2: {line!r} is not a verse; write it as GEN 1:1"


@pytest.mark.parametrize(
    "line", ["In the beginning.", "GEN 1\tIn the beginning.", "GEN 1:1 In the beginning.", "x" * 99]
)
def test_a_line_without_its_verse_is_an_error(tmp_path: Path, line: str) -> None:
    path = put(tmp_path / "eng.txt", ["", line, "GEN 1:2\tIt was dark."])
    shown = line if len(line) < 40 else "x" * 60 + "…"
    expected = (
        f"{path}:2: {shown!r} does not start with a verse and a tab; "
        "write GEN 1:1<TAB>text, or pass a list of `references`"
    )
    assert message([path], None) == expected
    accounting = Accounting("skip")
    assert list(read_bible([path], accounting=accounting)) == [Document("GEN 1", "eng", "It was dark.")]
    assert accounting.errors.examples == {"no reference": expected}


def test_an_unreadable_file_is_reported_and_the_others_are_read(tmp_path: Path, references: Path) -> None:
    missing, cut, good = tmp_path / "eng.txt", tmp_path / "it.txt.gz", put(tmp_path / "da.txt", DANISH)
    cut.write_bytes(gzip.compress("\n".join(DANISH).encode())[:-9])
    broken = tmp_path / "sv.txt"
    broken.write_bytes(b"a\n\xff\n" + b"\n" * 4)
    assert message([missing], references) == f"{missing}: cannot be read, no such file or directory; check the name"
    problem = "byte 0xff at position 1 is not UTF-8; convert the file, e.g. with iconv -f windows-1252 -t utf-8"
    assert message([broken], references) == f"{broken}:2: {problem}"
    assert message([good], missing) == f"{missing}: cannot be read, no such file or directory; check the name"
    accounting = Accounting("skip")
    found = list(read_bible([missing, cut, broken, good], references=references, accounting=accounting))
    assert [(document.lang, document.concept) for document in found] == [
        ("sv", "GEN 1"), ("da", "GEN 1"), ("da", "GEN 2"), ("da", "EXO 1")
    ]  # fmt: skip
    assert accounting.errors.counts == {"unreadable file": 2, "invalid UTF-8": 1}


def test_wrong_arguments_are_errors_that_name_them(tmp_path: Path, references: Path) -> None:
    assert message([], None).startswith("no verse file in an empty list; name files")
    assert message([tmp_path], references).startswith(f"no verse file in {tmp_path}; name files")
    (tmp_path / "empty").mkdir()
    assert message([tmp_path / "empty"], None) == (
        f"{tmp_path}/empty: no verse file in this folder; their names end in .txt or .tsv"
    )
    assert message([tmp_path], references, by="page") == (  # type: ignore[arg-type]
        '`by=\'page\'` must be "verse" or "chapter" or "book"'
    )


# Anything else


@given(st.binary(max_size=200) | st.lists(st.sampled_from([b"GEN 1:1", b"\t", b"\n", b"a", b"\xff"])).map(b"".join))
@settings(relaxed, max_examples=up_to(150))
def test_any_bytes_give_verses_or_reported_errors(tmp_path: Path, content: bytes) -> None:
    path, references = tmp_path / "eng.txt", put(tmp_path / "vref.txt", REFERENCES)
    path.write_bytes(content)
    for listed in (references, None):
        for document in read_bible([path], references=listed, accounting=Accounting("skip")):
            assert document.concept.strip()
            assert document.text.strip()
    with contextlib.suppress(CorpusError):
        list(read_bible([references], references=path, accounting=Accounting("skip")))


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    references = put(tmp_path / "vref.txt", [f"GEN {n // 30 + 1}:{n % 30 + 1}" for n in range(3000)])
    path = put(tmp_path / "eng.txt", ["word " * 200] * 3000)
    tracemalloc.start()
    try:
        assert sum(1 for _ in read_bible([path], references=references)) == 100
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < path.stat().st_size / 4
