"""The commands align, mine and plagiarism: what they print and write, and how they fail."""

import json
from pathlib import Path
from typing import Any

import madeup
import pytest

from cr5 import Document, write
from cr5.cli import run

SAID = madeup.sentence_meanings(14, seed=4)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for lang in ("aa", "bb"):
        (tmp_path / f"{lang}.txt").write_text("\n".join(madeup.sentences(lang, SAID)), encoding="utf-8")
    return tmp_path


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*arguments: object, code: int = 0) -> tuple[str, str]:
        capsys.readouterr()
        assert run(list(map(str, arguments))) == code
        return capsys.readouterr()

    return call


def test_align_prints_a_table_and_writes_files_by_their_suffix(folder: Path, model_folder: Path, printed: Any) -> None:
    arguments = "align", folder / "aa.txt", folder / "bb.txt", "--model", model_folder
    rows = [line.split("\t") for line in printed(*arguments).out.splitlines()]
    assert [row[:2] for row in rows] == [["a", "b"], *([str(i), str(i)] for i in range(1, 15))]
    for name, begins in (("x.tmx", "<?xml"), ("x.html", "<!doctype html>"), ("x.tsv", "a\tb\tscore")):
        out, err = printed(*arguments, "--free", "-o", folder / name)
        assert out == ""
        assert "written to" in err
        assert (folder / name).read_text(encoding="utf-8").startswith(begins)


def test_mine_prints_pairs_best_first(folder: Path, model_folder: Path, printed: Any) -> None:
    out, err = printed("mine", folder / "aa.txt", folder / "bb.txt", "--model", model_folder, "--langs", "aa,bb")
    rows = [line.split("\t") for line in out.splitlines()[1:]]
    assert [row[1] for row in rows] == [row[2] for row in rows]
    scores = [float(row[0]) for row in rows]
    assert scores == sorted(scores, reverse=True)
    assert f"{len(rows)} pairs in 14 aa and 14 bb sentences" in err


def test_plagiarism_prints_matches_as_text_json_and_page(folder: Path, model_folder: Path, printed: Any) -> None:
    write(folder / "sources.jsonl", [Document("S1", "bb", " ".join(madeup.sentences("bb", SAID[:8])), "Title")])
    arguments = "plagiarism", folder / "aa.txt", folder / "sources.jsonl", "--model", model_folder
    text = printed(*arguments).out
    assert "source: Title (bb:S1)" in text
    assert "% of the text in 1 passage with a source; 1 document compared" in text
    values = json.loads(printed(*arguments, "--json").out)
    assert values["matches"][0]["suspect"]["sentences"] == list(range(1, 9))
    printed(*arguments, "-o", folder / "matches.html")
    assert "<mark>" in (folder / "matches.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", ["align", "mine", "plagiarism"])
def test_what_is_not_a_model_or_a_file_is_one_sentence(
    command: str, folder: Path, model_folder: Path, printed: Any
) -> None:
    err = printed(command, folder / "aa.txt", folder / "bb.txt", "--model", folder, code=1).err
    assert err.startswith("error: ")
    assert str(folder) in err
    err = printed(command, folder / "none.txt", folder / "bb.txt", "--model", model_folder, code=1).err
    assert "none.txt" in err
    assert len(err.splitlines()) == 1


def test_a_pair_of_files_that_cannot_be_aligned_is_left_out_with_a_warning(
    folder: Path, model_folder: Path, printed: Any
) -> None:
    for lang in ("aa", "bb"):
        (folder / lang).mkdir()
        (folder / f"{lang}.txt").rename(folder / lang / "good.txt")
        (folder / lang / "empty.txt").touch()
    arguments = "align", folder / "aa", folder / "bb", "--model", model_folder, "--langs", "aa,bb"
    out, err = printed(*arguments)
    assert len(out.splitlines()) == 15
    assert "warning: 1 pair of files left out, e.g. because" in err
    assert "empty.txt has no sentence" in err


def test_an_error_names_options_of_the_command(folder: Path, model_folder: Path, printed: Any) -> None:
    err = printed("align", folder / "aa.txt", folder / "aa.txt", "--model", model_folder, code=1).err
    assert err.replace(f"{folder}/", "") == (
        "error: aa.txt and aa.txt are in aa; give texts in different languages, or name these with --langs\n"
    )
