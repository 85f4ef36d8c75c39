"""``--skipped FILE``: a list of everything that a command has skipped."""

from pathlib import Path
from typing import Any

import pytest

from cr5.cli import run

LINE = '{{"concept": "{}", "lang": "{}", "text": "some words {}"}}\n'
HEADER = "reason\tcount\tplace\n"
NEEDS = "every line needs concept, lang and text"
BAD = '{"concept": "1", "lang": "en", "text": ""}\n'


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two bad lines and a file of another format."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    good = "".join(LINE.format(i, lang, i % 7) for i in range(40) for lang in ("aa", "bb"))
    (tmp_path / "in/a.jsonl").write_text(BAD + good + BAD)
    (tmp_path / "in/b.pdf").touch()
    return tmp_path / "in"


@pytest.mark.parametrize(
    "command",
    [
        ["corpus", "convert", "in", "-o", "out.jsonl"],
        ["corpus", "inspect", "in"],
        ["train", "in", "-o", "out", "--rank", "3", "--ridge", "1"],
    ],
    ids=["convert", "inspect", "train"],
)
@pytest.mark.filterwarnings("ignore::cr5.Cr5Warning")
def test_everything_that_is_skipped_is_listed_with_its_reason_and_place(corpus: Path, command: list[str]) -> None:
    assert run([*command, "--on-error", "skip", "--skipped", "list.tsv"]) == 0
    formats = "the formats are .jsonl, .csv and .tsv, which .gz, .bz2 or .xz may follow, and .parquet"
    assert Path("list.tsv").read_text() == (
        f"{HEADER}file of another format\t1\tin/b.pdf; {formats}\n"
        f"empty field\t1\tin/a.jsonl:1: field 'text' is empty; {NEEDS}\n"
        f"empty field\t1\tin/a.jsonl:82: field 'text' is empty; {NEEDS}\n"
    )


def test_an_index_lists_what_it_skips(corpus: Path, model_folder: Path) -> None:
    given = ["index", str(model_folder), "in/a.jsonl", "-o", "index", "--on-error", "skip", "--skipped", "list.tsv"]
    assert run(given) == 0
    assert Path("list.tsv").read_text().count("empty field\t1\tin/a.jsonl:") == 2


def test_a_source_lists_files_and_documents_with_options_by_their_names(corpus: Path) -> None:
    (corpus / "m.tmx").write_text(
        '<tmx version="1.4"><body><tu><tuv xml:lang="anglais"><seg>a</seg></tuv>'
        '<tuv xml:lang="fr"><seg>b</seg></tuv></tu></body></tmx>'
    )
    assert run(["corpus", "tmx", "in", "-o", "out.jsonl", "--on-error", "skip", "--skipped", "list.tsv"]) == 0
    listed = Path("list.tsv").read_text()
    assert "extension .pdf\t1\tin/b.pdf\n" in listed
    assert "invalid language code\t1\tin/m.tmx: unit 1: 'anglais' is not" in listed
    assert "or say in --lang which" in listed


def test_the_folders_that_match_no_pattern_are_listed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("en/a.txt", "it/a.txt", "french/a.txt", "french/b.txt"):
        (tmp_path / "docs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "docs" / name).write_text("a text")
    assert run(["corpus", "folder", "docs", "-o", "out.jsonl", "--skipped", "list.tsv"]) == 0
    reason = "path does not match the pattern\t1"
    assert Path("list.tsv").read_text() == (
        f"{HEADER}{reason}\tdocs/french/a.txt; folders: french 2\n{reason}\tdocs/french/b.txt\n"
    )


def test_the_list_must_not_replace_a_file_that_is_read(corpus: Path, fails: Any) -> None:
    told = fails("corpus", "convert", "in/a.jsonl", "-o", "out.jsonl", "--skipped", "in/a.jsonl")
    assert "in/a.jsonl cannot be written: it is also read" in told
    assert (corpus / "a.jsonl").stat().st_size > 1000


def test_what_was_skipped_before_an_error_is_listed(corpus: Path, fails: Any) -> None:
    (corpus / "a.jsonl").write_text(BAD)
    told = fails("corpus", "convert", "in", "-o", "out.jsonl", "--on-error", "skip", "--skipped", "list.tsv")
    assert "no document can be used" in told
    assert f"empty field\t1\tin/a.jsonl:1: field 'text' is empty; {NEEDS}\n" in Path("list.tsv").read_text()
