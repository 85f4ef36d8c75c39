"""``cr5 corpus``: unusable input and options are errors of one line."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from corpus_sources import OR_SKIP, moses, words

from cr5 import demo, read

FEW_FIELDS = "2 fields under a header of 3; quote a field that holds a delimiter or a line break"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["moses", "none.en"], "none.en: no such file or folder; check the spelling"),
        (
            ["moses", "void"],
            "no aligned files in void; their names must differ only in the language at the end, like train.en and "
            "train.fr, train.en.txt and train.fr.txt, or train_en.txt and train_fr.txt",
        ),
        (["moses", "nil.en", "nil.it"], "no text in nil.en and 1 other file; check the files and the options"),
        (
            ["moses", "bad.en", "bad.it"],
            "bad.en:1: byte 0xff at position 1 is not UTF-8; convert the file, e.g. with iconv -f windows-1252 -t utf-8"
            + OR_SKIP,
        ),
        (["moses", "noise.zip"], "noise.zip: corrupt, file is not a zip file; copy or download it again"),
        (["tmx", "void"], "no TMX file in void; its name must end in .tmx"),
        (["tmx", "nil.en"], "nil.en:1:1: truncated, no element found; correct it there or export it again"),
        (["tmx", "noise.tmx"], "noise.tmx:1:1: not well-formed (invalid token); correct it there or export it again"),
        (
            ["tmx", "noise.tmx", "--on-error", "skip"],
            "no document is left, 1 could not be used; the first: noise.tmx:1:1: not well-formed (invalid token); "
            "correct it there or export it again",
        ),
        (
            ["europarl", "void"],
            "void: no session file; name a folder or a .zip with a folder per language, as in en/ep-00-01-17.xml",
        ),
        (
            ["gettext", "void"],
            "void: no catalogue in this folder; their names end in .po, .mo or .gmo, which .gz, .bz2 or .xz may follow",
        ),
        (
            ["gettext", "noise.mo"],
            "noise.mo: not a compiled catalogue, which starts with 950412de; check the name or compile it again",
        ),
        (["bible", "void"], "void: no verse file in this folder; their names end in .txt or .tsv"),
        (["folder", "none"], "none: no such folder; check the spelling"),
        (["table", "nil.csv"], "nil.csv: empty, without a header; remove it or write one"),
        (
            ["table", "cut.csv", "--lang", "en"],
            "cut.csv: no column 'concept' or 'text', only id, body; name the column that says what a row is about with "
            "--concept-column; name that of the text with --text-column",
        ),
        (
            ["table", "numbers.csv", "--lang-column", "-"],
            "a: its language cannot be guessed; name the language in the source",
        ),
        (
            ["table", "numbers.csv", "--lang", "no code"],
            "a: 'no code' is not a language code; write one such as de, pt-BR or zh-Hant, or x-name for your own",
        ),
    ],
)
def test_unusable_input_is_one_line_on_standard_error(
    arguments: list[str], message: str, tmp_path: Path, corpus_fails: Callable[..., str]
) -> None:
    (tmp_path / "void").mkdir()
    for name in ("nil.en", "nil.it", "nil.csv"):
        (tmp_path / name).touch()
    for name in ("bad.en", "bad.it"):
        (tmp_path / name).write_bytes(b"\xff\n")
    for name in ("noise.zip", "noise.tmx", "noise.mo"):
        (tmp_path / name).write_bytes(struct.pack("<8I", *range(8)))
    (tmp_path / "cut.csv").write_text("id,body\n1,text\n")
    (tmp_path / "numbers.csv").write_text("concept,text\na,12 34\n")
    before = sorted(tmp_path.iterdir())
    assert corpus_fails(*arguments, "-o", "corpus.parquet") == message
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["-o", "corpus.txt"],
            "corpus.txt: unknown suffix '.txt'; the formats are .jsonl, .csv and .tsv, which .gz, .bz2 or .xz "
            "may follow, and .parquet",
        ),
        (["-o", "none/corpus.csv"], "none/corpus.csv cannot be written: there is no folder none; create it first"),
        (
            ["-o", "corpus.csv", "--langs", "fr,de"],
            "there are no documents in languages fr, de; the source has en, it; change --langs",
        ),
        (
            ["-o", "corpus.csv", "--langs", "?"],
            "'?' is not a language code; write one such as de, pt-BR or zh-Hant, or x-name for your own",
        ),
        (
            ["-o", "corpus.csv", "--pivot", "da"],
            "Pets.en-it: has en, it, not --pivot da; leave these files out, or skip such input with --on-error skip",
        ),
    ],
)
def test_unusable_options_are_one_line_on_standard_error(
    options: list[str], message: str, tmp_path: Path, corpus_fails: Callable[..., str]
) -> None:
    assert corpus_fails("moses", *moses(tmp_path), *options) == message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["en-it.txt.zip"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("", "no text in x.csv; check the files and the options"),
        ("a,en\n", f"x.csv:2: {FEW_FIELDS}"),
        ("a,en,dog\na,it\n", f"x.csv:3: {FEW_FIELDS}{OR_SKIP}"),
    ],
)
def test_a_file_without_text_is_named_and_skipping_is_advised_where_something_is_left(
    rows: str, message: str, tmp_path: Path, corpus_fails: Callable[..., str]
) -> None:
    (tmp_path / "x.csv").write_text(f"concept,lang,text\n{rows}")
    assert corpus_fails("table", "x.csv", "-o", "corpus.csv") == message


def test_when_everything_is_dropped_the_options_that_did_it_are_named(
    tmp_path: Path, corpus_fails: Callable[..., str]
) -> None:
    english = next(document for document in demo.encyclopedia() if document.lang == "en")
    (tmp_path / "x.csv").write_text(f'concept,lang,text\na,da,"{english.text.replace(chr(34), chr(39))}"\n')
    assert corpus_fails("table", "x.csv", "--drop-foreign", "-o", "corpus.csv") == (
        "all documents were dropped, as being in another language than declared or as near-duplicates; leave out "
        "--drop-foreign or --dedupe"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["parquet"], "No such command 'parquet'; choose from wikipedia, folder, moses"),
        (["moses", "en-it.txt.zip"], "Missing option '--output' / '-o'."),
        (
            ["moses", "en-it.txt.zip", "-o", "-", "--json"],
            "Invalid value for --json: standard output is the corpus already; name a file with -o",
        ),
        (
            ["table", "x.csv", "--wide", "en", "-o", "corpus.csv"],
            "Invalid value for --wide: 'en' is not of the form CODE=NAME",
        ),
    ],
)
def test_wrong_usage_ends_with_code_2(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    corpus_command: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    moses(tmp_path)
    assert corpus_command(*arguments) == 2
    assert message in words(capsys.readouterr().err)


def test_an_existing_corpus_is_kept_if_writing_a_new_one_fails(
    tmp_path: Path,
    corpus_command: Callable[..., int],
    corpus_fails: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = moses(tmp_path)
    assert corpus_command("moses", *arguments, "-o", "corpus.jsonl") == 0
    capsys.readouterr()
    before = (tmp_path / "corpus.jsonl").read_bytes()
    corpus_fails("moses", *arguments, "-o", "corpus.jsonl", "--langs", "fr")
    assert (tmp_path / "corpus.jsonl").read_bytes() == before
    assert corpus_command("moses", *arguments, "-o", "corpus.jsonl", "--langs", "it") == 0
    assert [document.lang for document in read(tmp_path / "corpus.jsonl")] == ["it"]


@pytest.mark.parametrize("arguments", [["table", "own.csv"], ["convert", "own.csv"], ["moses", "own.csv", "a.it"]])
@pytest.mark.parametrize("output", ["own.csv", "./own.csv", "symbolic.csv", "hard.csv"])
def test_an_input_is_not_overwritten(
    arguments: list[str], output: str, tmp_path: Path, corpus_fails: Callable[..., str]
) -> None:
    own = tmp_path / "own.csv"
    own.write_text("concept,lang,text,price\n1,en,a dog,3\n1,it,un cane,3\n")
    (tmp_path / "a.it").touch()
    (tmp_path / "symbolic.csv").symlink_to(own)
    (tmp_path / "hard.csv").hardlink_to(own)
    before = own.read_bytes()
    message = corpus_fails(*arguments, "-o", output)
    assert "cannot be written: it is also read" in message
    assert message.endswith("; name another file")
    assert own.read_bytes() == before


def test_a_converted_folder_cannot_contain_the_output(tmp_path: Path, corpus_fails: Callable[..., str]) -> None:
    (tmp_path / "corpus").mkdir()
    for name in ("a.csv", "all.csv"):
        (tmp_path / "corpus" / name).write_text("concept,lang,text\n1,en,a dog\n1,it,un cane\n")
    message = corpus_fails("convert", "corpus", "-o", "corpus/all.csv")
    assert message == "corpus/all.csv cannot be written: it is also read; name another file"
