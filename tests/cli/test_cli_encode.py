"""The commands that use a model: encode, similar, lexicon, explain, info."""

import io
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from command_line import COMMAND, fits
from madeup import text, word

from cr5 import Cr5, Document
from cr5.cli import run
from cr5.cli.render import models
from cr5.message_parts import format_bytes
from cr5.retrieval.explanations import CosineFall, Explanation, ViewContribution

# Encode


LINES = [text("aa", range(20)), "", "zzz", text("aa", range(30, 40))]


def test_encoding_writes_an_array_to_standard_output(
    model: Cr5, model_folder: Path, stdin: Any, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    stdin("\n".join(LINES).encode())
    assert run(["encode", str(model_folder), "--lang", "aa"]) == 0
    caught = capsysbinary.readouterr()
    np.testing.assert_array_equal(np.load(io.BytesIO(caught.out)), model.encode(LINES, "aa"), strict=True)
    warning = b"warning: 2 of 4 texts contain no aa word or n-gram that the model knows; their vectors are zero\n"
    assert caught.err == warning


def test_encoding_guesses_the_language_of_every_line(
    model: Cr5, model_folder: Path, stdin: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [text("aa", range(20)), text("bb", range(20)), text("aa", range(30, 40)), "zzz", "", "🙂"]
    stdin("\n".join(lines).encode())
    assert run(["encode", str(model_folder), "-o", str(tmp_path / "rows.parquet"), "--coverage"]) == 0
    table = pq.read_table(tmp_path / "rows.parquet")
    np.testing.assert_array_equal(np.array(table["vector"].to_pylist(), np.float32), model.encode(lines))
    assert table["known"].to_pylist() == model.coverage(lines).tolist() == [1, 1, 1, 0, 0, 0]
    guessed, warning = capsys.readouterr().err.splitlines()
    assert guessed.startswith("languages guessed: aa 2, bb 1;")  # not for lines that the model cannot encode
    assert warning == "warning: 3 of 6 texts contain no word or n-gram that the model knows; their vectors are zero"


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False], ids=["ended", "open"])
def test_a_row_is_a_line(model: Cr5, model_folder: Path, stdin: Any, tmp_path: Path, ending: str, last: bool) -> None:
    lines = [*LINES, f"{word('aa', 1)}\x0c{word('aa', 2)}", f"{word('aa', 3)}\u2028\x85{word('aa', 4)}"]
    stdin((ending.join(lines) + (ending if last else "")).encode())
    assert run(["encode", str(model_folder), "--lang", "aa", "-o", str(tmp_path / "rows.npy")]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "rows.npy"), model.encode(lines, "aa"), strict=True)


@pytest.mark.parametrize("coverage", [True, False])
def test_encoding_writes_a_table(
    model: Cr5, model_folder: Path, stdin: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], coverage: bool
) -> None:
    stdin("\n".join(LINES).encode())
    path = tmp_path / "rows.parquet"
    extra = ["--coverage"] if coverage else []
    assert run(["encode", str(model_folder), "--lang", "aa", "-o", str(path), *extra]) == 0
    table = pq.read_table(path)
    assert table["text"].to_pylist() == LINES
    found = np.array(table["vector"].to_pylist(), np.float32)
    np.testing.assert_array_equal(found, model.encode(LINES, "aa"))
    shares = model.coverage_parts(LINES, "aa")._asdict() if coverage else {}
    assert table.column_names == ["text", "vector", *shares]
    for name, expected in shares.items():
        assert table[name].to_pylist() == expected.tolist()
    assert capsys.readouterr().out == ""
    assert [p.name for p in tmp_path.iterdir()] == ["rows.parquet"]


@pytest.mark.parametrize("lang", [["--lang", "it"], []], ids=["given", "guessed"])
def test_lines_that_are_evidently_in_windows_1252_are_read_so(
    tmp_path: Path, stdin: Any, capsys: pytest.CaptureFixture[str], lang: list[str]
) -> None:
    texts = {"en": "the city and the university {}", "it": "la città e l'università {}"}
    documents = [Document(f"Q{i}", lang, text.format(f"x{i}")) for i in range(20) for lang, text in texts.items()]
    own = Cr5(rank=5, ridge=1.0, min_documents=1).fit(documents)
    own.save(tmp_path / "model")
    stdin("la città\nl'università\n".encode("cp1252"))
    given = ["encode", str(tmp_path / "model"), *lang, "-o", str(tmp_path / "rows.npy")]
    assert run(given) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "rows.npy"), own.encode(["la città", "l'università"], "it"))
    assert "note: standard input is not UTF-8; it is read as windows-1252" in capsys.readouterr().err


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig"])
def test_texts_in_utf_16_are_recognised(
    model_folder: Path, stdin: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], encoding: str
) -> None:
    texts = [word("aa", 3), f"{word('aa', 4)} caffè"]
    given = ["encode", str(model_folder), "--lang", "aa", "-o", str(tmp_path / "rows.npy")]
    stdin("\r\n".join(texts).encode(encoding))
    assert run(given) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "rows.npy"), Cr5.load(model_folder).encode(texts, "aa"))
    told = "" if encoding == "utf-8-sig" else f"note: standard input is read as {encoding}\n"
    assert capsys.readouterr().err == told


def test_a_cut_text_in_utf_16_is_named(model_folder: Path, stdin: Any, fails: Any, tmp_path: Path) -> None:
    stdin("one two".encode("utf-16")[:-1])
    told = "standard input: not valid utf-16, truncated data; check that it is complete, or convert it to UTF-8"
    assert fails("encode", model_folder, "--lang", "aa", "-o", tmp_path / "rows.npy") == told


@pytest.mark.parametrize("suffix", ["npy", "parquet"])
def test_no_lines_are_no_rows(model_folder: Path, stdin: Any, tmp_path: Path, suffix: str) -> None:
    stdin(b"")
    path = tmp_path / f"rows.{suffix}"
    assert run(["encode", str(model_folder), "--lang", "aa", "-o", str(path)]) == 0
    if suffix == "npy":
        assert np.load(path).shape == (0, 60)
    else:
        assert pq.read_table(path).shape == (0, 2)


def test_encoding_refuses_what_it_cannot_do(
    model_folder: Path, stdin: Any, tmp_path: Path, fails: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin("niño\n".encode("latin-1"))
    given = ["encode", model_folder, "--lang", "aa"]
    assert "'.csv'" in fails(*given, "-o", tmp_path / "rows.csv")
    convert = "convert the file, e.g. with iconv -f windows-1252 -t utf-8"
    expected = f"standard input: byte 0xf1 at position 3 is not UTF-8; {convert}"
    assert fails(*given, "-o", tmp_path / "rows.npy") == expected
    stdin(b"text")
    assert fails(*given, "-o", tmp_path / "no" / "rows.npy").endswith(
        f"there is no folder {tmp_path}/no; create it first"
    )
    assert "--coverage" in fails(*given, "--coverage")
    message = fails("encode", model_folder, "--lang", "xx", "-o", tmp_path / "rows.npy")
    assert "'xx'" in message
    assert "aa, bb, cc" in message
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert "standard output is a terminal" in fails(*given)
    assert list(tmp_path.iterdir()) == []


# Similar, explain, info


def test_similar_words_of_many_languages_stand_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    langs = [f"l{i}" for i in range(27)]
    models.similar_words(
        "birra", "it", {lang: [(f"{lang}word{j}", 0.9 - j / 100) for j in range(10)] for lang in langs}
    )
    printed = capsys.readouterr().out
    assert fits(printed)
    assert all(f"{lang}word{j}" in printed for lang in langs for j in range(10))
    assert len(printed.splitlines()) < 27 * 10 / 2


def test_similar_words_are_shown(
    model: Cr5, model_folder: Path, run_json: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["similar", str(model_folder), word("aa", 5), "--lang", "aa"]
    assert run(given) == 0
    printed = capsys.readouterr().out
    assert fits(printed)
    assert all(found in printed for to in ("bb", "cc") for found, _ in model.similar_words(word("aa", 5), "aa", to))
    found = run_json(*given, "--json", "--to", "cc,aa", "-k", "3")
    assert (found["word"], found["lang"], list(found["similar"])) == (word("aa", 5), "aa", ["cc", "aa"])
    expected = [list(pair) for pair in model.similar_words(word("aa", 5), "aa", "cc", 3)]
    assert found["similar"]["cc"] == expected


def test_translations_are_shown(
    model: Cr5, model_folder: Path, run_json: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["lexicon", str(model_folder), "aa", "bb", word("aa", 5), "zzz"]
    assert run(given) == 0
    printed = capsys.readouterr().out
    [expected, _] = model.translate_words([word("aa", 5), "zzz"], "aa", "bb")
    assert fits(printed)
    assert all((translation in printed) == (share >= 0.0005) for translation, share in expected)
    assert "0.000" not in printed
    assert "zzz (aa): not a word that the model knows" in printed
    found = run_json(*given, "--json", "-k", "2")
    assert found["translations"] == {word("aa", 5): [list(pair) for pair in expected[:2]], "zzz": []}
    assert (found["source"], found["target"]) == ("aa", "bb")


def test_translations_of_unknown_words_alone_fail(model_folder: Path, fails: Any) -> None:
    expected = "the model knows no aa word among 'zzz', 'yyy'; try more frequent words, or other forms of them"
    for more in ([], ["--json"]):
        assert fails("lexicon", model_folder, "aa", "bb", "zzz", "yyy", *more) == expected


@pytest.mark.slow
def test_the_package_runs_as_the_command(model_folder: Path) -> None:
    given = ["similar", str(model_folder), word("aa", 5), "--lang", "aa"]
    ends = [
        subprocess.run([*start, *given], capture_output=True) for start in ([COMMAND], [sys.executable, "-m", "cr5"])
    ]
    assert [end.returncode for end in ends] == [0, 0]
    assert ends[0].stdout == ends[1].stdout != b""
    wrong = subprocess.run([sys.executable, "-m", "cr5", "similar"], capture_output=True)
    assert wrong.returncode == 2
    assert b"Usage: cr5 similar" in wrong.stderr


def test_a_lexicon_of_one_language_is_refused(model_folder: Path, fails: Any) -> None:
    expected = "the source and the target language are both aa; a lexicon needs two languages"
    assert fails("lexicon", model_folder, "aa", "aa", word("aa", 5)) == expected


def test_a_similarity_is_explained(
    model: Cr5, model_folder: Path, tmp_path: Path, run_json: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = text("aa", range(12)), text("bb", range(12))
    (tmp_path / "b.txt").write_text(b)
    expected = model.explain(a, "aa", b, "bb")
    given = ["explain", str(model_folder), a, f"@{tmp_path}/b.txt", "-a", "aa", "-b", "bb"]
    assert run(given) == 0
    printed = capsys.readouterr().out
    assert f"cosine {expected.similarity:.3f}" in printed
    assert fits(printed)
    found = run_json(*given, "--json")
    assert found["similarity"] == expected.similarity
    assert list(found["views"][0]) == ["view", "share", "cosine", "words_a", "words_b"]
    assert found["similarity_by_views"] == sum(view["share"] * view["cosine"] for view in found["views"])
    assert f"Similarity by all views {found['similarity_by_views']:.3f}" in printed
    assert [tuple(pair) for pair in found["pairs"]] == [tuple(pair) for pair in expected.pairs]
    for words, rest in (("words_a", "rest_a"), ("words_b", "rest_b")):
        assert sum(value for _, value in found[words]) + found[rest] == pytest.approx(found["similarity"], abs=1e-6)


def test_texts_that_have_nothing_in_common_with_the_model_are_explained_too(
    model_folder: Path, run_json: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["explain", str(model_folder), "zzz", "", "-a", "aa", "-b", "bb"]
    assert run(given) == 0
    assert "cosine 0.000" in capsys.readouterr().out
    assert run_json(*given, "--json")["pairs"] == []


def test_a_model_is_shown(model: Cr5, model_folder: Path, run_json: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["info", str(model_folder)]) == 0
    printed = capsys.readouterr().out
    assert "rank 60, ridge 0.3, 110 concepts" in printed
    assert fits("\n".join(printed.splitlines()[1:]))  # the first line is the path
    found = run_json("info", model_folder, "--json")
    sizes = {lang: size._asdict() for lang, size in Cr5.load(model_folder).sizes().items()}
    settings = model.settings.to_json()
    assert found == {"langs": model.langs, "sizes": sizes, "settings": settings, "report": model.report}
    for size in sizes.values():
        assert re.search(rf"{size['words']:,} +{size['ngrams']:,} +{re.escape(format_bytes(size['bytes']))}", printed)


def test_a_mistake_is_one_line(model_folder: Path, tmp_path: Path, fails: Any) -> None:
    nowhere = tmp_path / "nope"
    assert fails("info", nowhere) == f"{nowhere} does not exist; check the path, or save a model there first"
    expected = f"'zzz' is not one of the {len(Cr5.load(model_folder).words('aa'))} words known in language aa; "
    found = fails("similar", model_folder, "zzz", "--lang", "aa")
    assert found == expected + "try a more frequent word or another form of it"
    message = fails("similar", model_folder, word("aa", 5), "--lang", "aa", "--to", "xx")
    assert "'xx'" in message
    assert "aa, bb, cc" in message
    (tmp_path / "latin").write_bytes("é".encode("latin-1"))
    convert = "convert the file, e.g. with iconv -f windows-1252 -t utf-8"
    expected = f"{tmp_path}/latin: byte 0xe9 at position 1 is not UTF-8; {convert}"
    assert fails("explain", model_folder, f"@{tmp_path}/latin", "b", "-a", "aa", "-b", "bb") == expected
    expected = f"{nowhere}: no such file or directory; check the path"
    assert fails("explain", model_folder, f"@{nowhere}", "b", "-a", "aa", "-b", "bb") == expected
    assert fails("train", nowhere, "-o", nowhere) == f"{nowhere}: no such file or folder; check the spelling"


def test_words_that_hardly_change_a_view_are_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    words = [CosineFall("strong", 0.5), CosineFall("weak", 0.006), CosineFall("weakest", 1e-5)]
    views = [ViewContribution("dense", 0.5, 0.7, words, words[2:]), ViewContribution("strings", 0.5, 0.2, words, [])]
    models.explanation(Explanation(0.7, [], [], [], 0, 0, views), "aa", "bb")
    printed = capsys.readouterr().out
    shown = [line.split()[3:] for line in printed.splitlines() if line.startswith((" dense", " strings"))]
    assert shown == [["strong"], ["strong,", "weak"]]
    legend = " ".join(printed.split())
    assert "contribution: a word's part of the cosine of the vectors, which is the sum of all parts" in legend
    assert "largest drop when removed: the words whose removal lowers the cosine of a view most" in legend
