"""``cr5 model`` and ``cr5 export``: what the commands write and print, and how they end with wrong input."""

import json
import os
import shutil
from pathlib import Path
from typing import Any, get_args

import madeup
import numpy as np
import pytest

from cr5 import Cr5, Document
from cr5.cli import run
from cr5.exchange.export import ExportFormat


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a command and return what it printed; ``code`` is how it must end."""

    def call(*arguments: object, code: int = 0) -> str:
        assert run([str(argument) for argument in arguments]) == code
        caught = capsys.readouterr()
        return caught.err if code else caught.out

    return call


def test_a_model_is_divided_and_merged_and_quantised(
    model: Cr5, model_folder: Path, tmp_path: Path, printed: Any
) -> None:
    one, two, both, small = (tmp_path / name for name in ("one", "two", "both", "small"))
    printed("model", "subset", model_folder, "--langs", "AA,bb", "-o", one)
    printed("model", "subset", model_folder, "--langs", "cc", "-o", two)
    shown = printed("model", "merge", one, two, "-o", both)
    assert shown.startswith(f"Model {both}")
    assert [line.split()[0] for line in shown.splitlines()[4:7]] == list(madeup.LANGS)
    sizes = json.loads(printed("model", "quantise", both, "-o", small, "--bits", "8", "--json"))["sizes"]
    assert sizes == {lang: size._asdict() for lang, size in Cr5.load(small).sizes().items()}
    assert json.loads(printed("model", "sizes", small, "--json")) == {"model": str(small), "sizes": sizes}
    text = madeup.text("cc", range(9))
    np.testing.assert_array_equal(Cr5.load(both).encode(text, "cc"), model.encode(text, "cc"))
    np.testing.assert_array_equal(Cr5.load(small).encode(text, "cc"), model.quantise(8).encode(text, "cc"))


def test_a_model_is_not_replaced_by_one_that_is_derived_from_it(
    model_folder: Path, tmp_path: Path, printed: Any
) -> None:
    folder, link, other = tmp_path / "model", tmp_path / "link", tmp_path / "other"
    shutil.copytree(model_folder, folder)
    shutil.copytree(model_folder, other)
    link.symlink_to(folder)
    before = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
    for arguments in (
        ["subset", folder, "--langs", "aa", "-o", folder],
        ["subset", link, "--langs", "aa", "-o", folder],
        ["quantise", folder, "--bits", "8", "-o", link],
        ["merge", folder, other, "-o", folder],
        ["merge", other, folder, "-o", folder],
    ):
        error = printed("model", *arguments, code=1)
        assert f"{arguments[-1]} is the folder of a model that the new one is derived from" in error
        assert "name another folder with -o" in error
    assert {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()} == before


def test_sizes_are_shown_for_each_language_and_in_all(model_folder: Path, printed: Any) -> None:
    lines = printed("model", "sizes", model_folder).splitlines()
    sizes = Cr5.load(model_folder).sizes()
    assert lines[2].split() == ["lang", "words", "n-grams", "bits", "size"]
    assert lines[4].split()[:4] == ["aa", f"{sizes['aa'].words:,}", f"{sizes['aa'].ngrams:,}", "32"]
    assert lines[-2].split()[:2] == ["all", f"{sum(size.words for size in sizes.values()):,}"]


def test_info_tells_what_a_model_was_made_of(model_folder: Path, tmp_path: Path, printed: Any) -> None:
    printed("model", "subset", model_folder, "--langs", "aa", "-o", tmp_path / "one")
    printed("model", "quantise", tmp_path / "one", "--bits", "16", "-o", tmp_path / "small")
    shown = printed("info", tmp_path / "small")
    assert "trained together with bb, cc, which this model does not have" in shown
    assert "quantised, bits of each number: aa 16" in shown
    assert not any(line.startswith(" bb") for line in shown.splitlines())


def test_a_damaged_language_is_named_and_the_others_can_be_kept(
    model_folder: Path, model: Cr5, tmp_path: Path, printed: Any
) -> None:
    damaged, whole = tmp_path / "damaged", tmp_path / "whole"
    shutil.copytree(model_folder, damaged)
    [file] = damaged.glob("bb-*.safetensors")
    os.truncate(file, 100)
    error = printed("info", damaged, code=1)
    assert error.startswith(f"error: the language bb is damaged: {file} has 100 bytes")
    assert error.endswith(f"; or do without bb: cr5 model subset {damaged} --langs aa,cc -o NEW\n")
    printed("model", "subset", damaged, "--langs", "aa,cc", "-o", whole)
    text = madeup.text("cc", range(9))
    np.testing.assert_array_equal(Cr5.load(whole).encode(text, "cc"), model.encode(text, "cc"))


def test_wrong_input_is_one_line_and_nothing_is_written(
    model_folder: Path, documents: list[Document], tmp_path: Path, printed: Any
) -> None:
    Cr5(**madeup.SETTINGS | {"seed": 5}).fit(documents).save(tmp_path / "separate")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "todo.txt").touch()
    out = tmp_path / "out"
    for arguments, message in [
        (("subset", model_folder, "--langs", "xx", "-o", out), "no language 'xx'; it has aa, bb, cc"),
        (("subset", model_folder, "--langs", ",", "-o", out), "--langs is empty; name some of aa, bb, cc"),
        (("quantise", model_folder, "--bits", "4", "-o", out), "--bits 4 must be 16 or 8"),
        (("merge", model_folder, tmp_path / "separate", "-o", out), "OTHER (aa, bb, cc) has another vector space"),
        (("merge", model_folder, tmp_path / "none", "-o", out), "none does not exist"),
        (("subset", model_folder, "--langs", "aa", "-o", tmp_path / "notes"), "holds other files, such as todo.txt"),
    ]:
        error = printed("model", *arguments, code=1)
        assert error.startswith("error: ")
        assert message in error
        assert error.count("\n") == 1
        assert not out.exists()


@pytest.mark.parametrize("command", ["model subset", "model merge", "model quantise", "model sizes", "export"])
def test_help_has_an_example(command: str, printed: Any) -> None:
    shown = printed(*command.split(), "--help")
    assert f"cr5 {command} " in shown.split("Example")[1]
    assert all(len(line) <= 80 for line in shown.splitlines())


def test_a_language_is_exported(model: Cr5, model_folder: Path, tmp_path: Path, printed: Any) -> None:
    target = tmp_path / "aa.npz"
    shown = printed("export", model_folder, "--format", "npz", "--lang", "AA", "-o", target)
    words = len(model.words("aa"))
    assert shown == f"written to {target}: {words:,} words of aa, vectors of {model.rank} dimensions\n"
    np.testing.assert_array_equal(np.load(target)["vectors"], model.word_vectors("aa"))


def test_wrong_exports_are_one_line_and_nothing_is_written(model_folder: Path, tmp_path: Path, printed: Any) -> None:
    arguments = ["--lang", "aa", "-o", tmp_path / "x"]
    usage = printed("export", model_folder, "--format", "glove", *arguments, code=2)
    assert all(name in usage for name in get_args(ExportFormat))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    for options, message in [
        (["npz", "--lang", "xx", "-o", tmp_path / "x"], "has no language 'xx'; it has aa, bb, cc"),
        (["npz", "--lang", "aa", "-o", tmp_path / "none" / "x"], "there is no folder"),
        (["npz", "--lang", "aa", "-o", tmp_path / "full"], "it is a folder; name a file in it"),
        (["model2vec", "--lang", "aa", "-o", tmp_path / "full"], "exists already"),
    ]:
        error = printed("export", model_folder, "--format", *options, code=1)
        assert error.startswith("error: ")
        assert message in error
        assert error.count("\n") == 1
    assert {path.name for path in tmp_path.iterdir()} == {"full"}
