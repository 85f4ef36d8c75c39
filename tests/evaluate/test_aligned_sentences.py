"""Aligned sentences: pairs of languages from line-aligned files and Parquet, and errors that name the file."""

import gzip
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cr5.errors import CorpusError
from cr5.evaluate.aligned_sentences import AlignedSentences, read_aligned


def write(path: Path, lines: Sequence[str], encoding: str = "utf-8") -> Path:
    content = "".join(line + "\n" for line in lines).encode(encoding)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def table(path: Path, **columns: list[str] | list[str | None] | list[int]) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def message(*paths: Path, langs: list[str] | None = None) -> str:
    with pytest.raises(CorpusError) as caught:
        read_aligned(paths, langs)
    return str(caught.value)


def test_a_parquet_file_has_a_column_for_each_language(tmp_path: Path) -> None:
    path = table(tmp_path / "x.parquet", id=["1", "2"], eng=["one", "two"], it=["uno", "due"])
    assert read_aligned([path]) == [AlignedSentences(("en", "it"), (["one", "two"], ["uno", "due"]), str(path))]


def test_names_of_languages_are_understood_in_file_names_and_columns(tmp_path: Path) -> None:
    files = [write(tmp_path / "english.txt", ["one"]), write(tmp_path / "italian.txt", ["uno"])]
    for paths in (files, [table(tmp_path / "x.parquet", English=["one"], italiano=["uno"])]):
        (pair,) = read_aligned(paths)
        assert (pair.langs, pair.texts) == (("en", "it"), (["one"], ["uno"]))


def test_three_aligned_languages_make_three_pairs(tmp_path: Path) -> None:
    path = table(tmp_path / "x.parquet", en=["one"], it=["uno"], de=["eins"])
    files = [write(tmp_path / f"x.{lang}", [word]) for lang, word in (("en", "one"), ("it", "uno"), ("de", "eins"))]
    for paths in ([path], files):
        assert [pair.langs for pair in read_aligned(paths)] == [("en", "it"), ("en", "de"), ("it", "de")]
        (pair,) = read_aligned(paths, langs=["de", "en"])
        assert (pair.langs, pair.texts) == (("en", "de"), (["one"], ["eins"]))


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_two_files_of_one_name_are_a_pair_in_the_order_of_the_name(tmp_path: Path, ending: str) -> None:
    # Only a line feed ends a line: the line separator of Unicode and a carriage return do not.
    files = [
        write(tmp_path / f"corpus.en-it.it{ending}", ["\ufeffuno\u2028uno", "due\r", "tre"]),
        write(tmp_path / f"corpus.en-it.en{ending}", ["one", "two", "three"]),
    ]
    (pair,) = read_aligned(files)
    assert pair == AlignedSentences(
        ("en", "it"), (["one", "two", "three"], ["uno\u2028uno", "due", "tre"]), str(tmp_path / "corpus.en-it")
    )


def test_a_zip_has_pairs_too(tmp_path: Path) -> None:
    path = tmp_path / "en-it.txt.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in (("E.en-it.en", "one\n"), ("E.en-it.it", "uno\n"), ("README", "?"), ("E.en-it.ids", "1\n")):
            archive.writestr(name, text)
    assert read_aligned([path]) == [AlignedSentences(("en", "it"), (["one"], ["uno"]), f"{path}: E.en-it")]


def test_a_folder_gives_all_its_pairs_and_other_files_are_ignored(tmp_path: Path) -> None:
    for name in ("ita-eng.ita", "ita-eng.eng", "nob-eng.nob", "nob-eng.eng", "ita-eng.xml", "news.en", "news.da"):
        write(tmp_path / name, [name])
    for name in ("README.md", "README.txt", "LICENSE", ".hidden.en", "notes.fr"):
        write(tmp_path / name, ["no sentence"])
    pairs = read_aligned([tmp_path])
    assert [pair.langs for pair in pairs] == [("it", "en"), ("da", "en"), ("nb", "en")]
    assert pairs[0].texts == (["ita-eng.ita"], ["ita-eng.eng"])
    assert [pair.langs for pair in read_aligned([tmp_path], langs=["en", "no"])] == [("nb", "en")]


@pytest.mark.parametrize(
    ("names", "langs"),
    [
        (["newstest2019-src.eng.txt", "newstest2019-ref.deu.txt"], ("de", "en")),  # NTREX
        (["eng_Latn.devtest", "ita_Latn.devtest"], ("en", "it")),  # FLORES
        (["eng.dev", "zho_simpl.devtest", "ita.dev"], ("en", "it")),
        (["tatoeba.deu-eng.deu", "tatoeba.deu-eng.eng"], ("de", "en")),
        (["en.txt", "it.txt"], ("en", "it")),
    ],
)
def test_names_of_published_test_sets_are_understood(tmp_path: Path, names: list[str], langs: tuple[str, str]) -> None:
    for name in names:
        write(tmp_path / name, ["a sentence"])
    (pair,) = read_aligned([tmp_path])
    assert pair.langs == langs


def test_languages_that_are_not_registered_are_read(tmp_path: Path) -> None:
    (pair,) = read_aligned([write(tmp_path / "s.aa", ["a"]), write(tmp_path / "s.xx", ["x"])])
    assert pair.langs == ("aa", "xx")


def test_a_pair_with_an_empty_side_is_left_out_and_counted(tmp_path: Path) -> None:
    files = [
        write(tmp_path / "x.en", ["one", " ", "three", ""]),
        write(tmp_path / "x.it", ["uno", "due", "", "quattro"]),
    ]
    (pair,) = read_aligned(files)
    assert (pair.texts, pair.empty) == ((["one"], ["uno"]), 3)
    path = table(tmp_path / "x.parquet", en=["one", None, "three"], it=["uno", "due", "tre"])
    (pair,) = read_aligned([path])
    assert (pair.texts, pair.empty) == ((["one", "three"], ["uno", "tre"]), 1)


def test_missing_inputs_are_named(tmp_path: Path) -> None:
    assert message().startswith("no sentences given; name two files NAME.en and NAME.it")
    assert message(tmp_path / "x.en") == f"{tmp_path}/x.en: no such file or folder; check the spelling"
    assert message(tmp_path).startswith(f"{tmp_path}: no aligned sentences; name two files")
    english = write(tmp_path / "x.en", ["one", "two"])
    other = tmp_path / "short.it"
    write(other, ["uno"])
    problem = message(english, other)
    assert f"{english}" in problem
    assert f"{other} have different names before the language; name two files NAME.en and NAME.it" in problem
    assert message(english) == f"{english}: the translation file {tmp_path}/x.xx is missing; give it as well"
    half = write(tmp_path / "half" / "ita-eng.ita", ["uno"])
    assert message(half.parent) == f"{half}: the translation file {half.parent}/ita-eng.eng is missing; give it as well"
    assert message(write(tmp_path / "y.txt", ["one"])).startswith(
        f"{tmp_path}/y.txt: the end of its name is not a lang"
    )


@pytest.mark.parametrize(
    ("name", "content", "facts"),
    [
        ("x.eng", b"one\n", "{0}/x.en and {0}/x.eng are of the same language"),
        ("x.it", b"uno\n", "{0}/x.en: 2 lines, but 1 in {0}/x.it"),
        ("x.de", b"", "{0}/x.en: 2 lines, but 0 in {0}/x.de"),
        ("x.fr", b"un\n\xe9t\xe9\n", "{0}/x.fr:2: byte 0xe9 at position 1 is not UTF-8"),
        ("x.it", b"\n\n", "{0}/x: in each of its 2 lines en or it is empty"),
        ("x.it.gz", b"uno", "{0}/x.it.gz: corrupt"),
        ("x.it.gz", gzip.compress(b"uno, due, tre", mtime=0)[:-9], "{0}/x.it.gz: truncated"),
    ],
)
def test_unusable_text_files_are_named(tmp_path: Path, name: str, content: bytes, facts: str) -> None:
    english = write(tmp_path / "x.en", ["one", "two"])
    (tmp_path / name).write_bytes(content)
    assert message(english, tmp_path / name).startswith(facts.format(tmp_path))


def test_two_empty_files_are_named(tmp_path: Path) -> None:
    assert message(write(tmp_path / "x.en", []), write(tmp_path / "x.it", [])) == (
        f"{tmp_path}/x: the file has no sentences; remove it"
    )


def test_languages_without_a_pair_are_answered_with_those_that_have_one(tmp_path: Path) -> None:
    files = [write(tmp_path / "y.en", ["one"]), write(tmp_path / "y.it", ["uno"])]
    assert message(*files, langs=["de", "fr"]) == (
        "these files have no pair of the languages de, fr, only en-it; change `langs`"
    )


def test_unusable_parquet_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    assert "'concept' is not a language" in message(table(path, concept=["a"], lang=["en"], text=["one"]))
    assert "1 language column" in message(table(path, id=["1"], en=["one"]))
    assert "'it' has type int64, not text" in message(table(path, en=["one"], it=[1]))
    assert "'en' and 'eng' are of the same language" in message(table(path, en=["one"], eng=["one"]))
    empty = pa.array([], pa.string())
    pq.write_table(pa.table({"en": empty, "it": empty}), path)
    assert message(path) == f"{path}: the file has no sentences; remove it"
    path.write_bytes(b"PAR2")
    assert message(path).startswith(f"{path}: corrupt, or not a Parquet file")
