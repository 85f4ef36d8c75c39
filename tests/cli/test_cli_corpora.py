"""``cr5 corpus``: every source becomes a corpus that can be read back, with a summary."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from corpus_sources import ENGLISH, ITALIAN, OR_SKIP, bible, europarl, gettext, moses, pages, table, tmx, words

from cr5 import Document, demo, read, write
from cr5.cli import corpora, run
from cr5.cli.render.console import out
from cr5.sources.registry import SOURCES as REGISTRY

Source = Callable[[Path], list[object]]  # writes a source into a folder, and says how to name it to the command
FIELDS = {
    "corpus", "seconds", "files", "documents", "parts", "guessed_encodings", "concepts", "shared", "example_concepts",
    "languages", "renamed", "warnings",
}  # fmt: skip
FIGURES = {"documents", "skipped", "guessed", "confidence", "foreign", "duplicates", "short"}


SOURCES: dict[str, tuple[Source, list[Document]]] = {
    "moses": (
        moses,
        [
            Document("Pets.en-it:1", "en", f"{ENGLISH}\nIt sleeps."),
            Document("Pets.en-it:1", "it", f"{ITALIAN}\nDorme."),
        ],
    ),
    "tmx": (
        tmx,
        [Document("pets:1", "en-US", f"{ENGLISH}\nIt sleeps."), Document("pets:1", "it", f"{ITALIAN}\nDorme.")],
    ),
    "europarl": (
        europarl,
        [Document("ep-00-01-17/1/7", "en", ENGLISH, "Rossi"), Document("ep-00-01-17/1/7", "it", ITALIAN, "Rossi")],
    ),
    "gettext": (gettext, [Document("po:pets.c", "en", ENGLISH), Document("po:pets.c", "it", ITALIAN)]),
    "bible": (
        bible,
        [Document("GEN 1", "en", f"{ENGLISH}\nIt sleeps."), Document("GEN 1", "it", f"{ITALIAN}\nDorme.")],
    ),
    "folder": (pages, [Document("pets", "en", ENGLISH, "Pets"), Document("pets", "it", ITALIAN, "Pets")]),
    "table": (table, [Document("1", "en", ENGLISH), Document("1", "it", ITALIAN)]),
}


# Every source


@pytest.mark.slow
@pytest.mark.parametrize("name", SOURCES)
def test_a_source_becomes_a_corpus_with_a_printed_summary(
    name: str, tmp_path: Path, corpus_command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    source, expected = SOURCES[name]
    assert corpus_command(name, *source(tmp_path), "-o", "corpus.parquet") == 0
    assert list(read(tmp_path / "corpus.parquet")) == expected
    printed = capsys.readouterr()
    assert printed.err == ""
    assert all(len(line) <= 80 for line in printed.out.splitlines() if str(tmp_path) not in line)
    assert printed.out.splitlines()[0] == "Corpus corpus.parquet"
    for document in expected:
        assert re.search(rf"^ {document.lang} +1 +(1 +)?100% *$", printed.out, re.MULTILINE)
    assert re.search(r"^files: \d found, [12] read", printed.out, re.MULTILINE)
    assert re.search(r"^documents: [24] read, 2 written", printed.out, re.MULTILINE)
    assert re.search(
        r"2 documents written to corpus.parquet in \d+\.\d s; 1 concept, 1 in two languages or more",
        words(printed.out),
    )
    assert printed.out.endswith("Next: cr5 corpus inspect corpus.parquet; cr5 train corpus.parquet -o model\n")


@pytest.mark.slow
@pytest.mark.parametrize("name", SOURCES)
def test_json_prints_the_summary_and_nothing_else(
    name: str, tmp_path: Path, corpus_command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    source, expected = SOURCES[name]
    assert corpus_command(name, *source(tmp_path), "-o", "corpus.jsonl", "--json") == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    found = json.loads(printed.out)
    assert set(found) == FIELDS
    assert (found["documents"]["written"], found["concepts"], found["shared"]) == (2, 1, 1)
    assert found["files"]["found"] == found["files"]["read"] + sum(found["files"]["skipped"].values())
    assert found["documents"]["read"] == 2 + sum(found["documents"]["skipped"].values())
    assert set(found["languages"]) == {document.lang for document in expected}
    for figures in found["languages"].values():
        assert set(figures) == FIGURES
        assert figures["short"] == 1.0


@pytest.mark.parametrize("name", SOURCES)
def test_the_corpus_alone_goes_to_standard_output(
    name: str, tmp_path: Path, corpus_command: Callable[..., int], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    source, expected = SOURCES[name]
    assert corpus_command(name, *source(tmp_path), "-o", "-") == 0
    printed = capfdbinary.readouterr()
    (tmp_path / "piped.jsonl").write_bytes(printed.out)
    assert list(read(tmp_path / "piped.jsonl")) == expected
    assert b"2 documents in " in printed.err
    assert b"Next:" not in printed.err


@pytest.mark.parametrize("name", SOURCES)
def test_a_language_may_be_selected_in_any_spelling(
    name: str, tmp_path: Path, corpus_command: Callable[..., int]
) -> None:
    make, expected = SOURCES[name]
    assert corpus_command(name, *make(tmp_path), "--langs", "ITA", "-o", "corpus.jsonl") == 0
    kept = [document for document in expected if document.lang == "it"]
    assert kept
    assert list(read(tmp_path / "corpus.jsonl")) == kept


@pytest.mark.parametrize("name", SOURCES)
def test_an_interrupt_leaves_nothing_behind(
    name: str,
    tmp_path: Path,
    corpus_command: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(documents: Iterator[Document], *arguments: object, **options: object) -> Iterator[Any]:
        assert next(documents)
        assert any(path.suffix == ".tmp" for path in tmp_path.iterdir())
        raise KeyboardInterrupt
        yield

    arguments = SOURCES[name][0](tmp_path)
    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr("cr5.sources.make_corpus.clean", interrupted)
    assert corpus_command(name, *arguments, "-o", "corpus.parquet") == 130
    assert capsys.readouterr().err == "stopped\n"
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("name", [*SOURCES, "wikipedia"])
def test_help_shows_examples_on_unbroken_lines(
    name: str, corpus_command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert corpus_command(name, "--help") == 0
    printed = capsys.readouterr().out
    examples = re.findall(rf"^     (cr5 corpus {name} .*?) *$", printed, re.MULTILINE)
    assert examples
    assert all(re.search(r" -o \S+", example) for example in examples)
    assert all(len(line) <= 80 for line in printed.splitlines())
    assert "…" not in printed
    help_text = REGISTRY[name].help if name in REGISTRY else corpora.wikipedia.__doc__
    assert words(help_text or "") in words(printed)


def test_help_lists_sources_before_commands_for_existing_corpora(
    corpus_command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert corpus_command("--help") == 0
    printed = capsys.readouterr().out
    panels = re.findall(r"^╭─ (.*?) ─+╮", printed, re.MULTILINE)
    assert panels == ["Options", "Make a corpus", "Use an existing corpus"]
    assert all(re.search(rf"^│ {name} ", printed, re.MULTILINE) for name in (*SOURCES, "wikipedia"))


# What the account tells


@pytest.mark.slow
def test_untranslated_and_repeated_texts_are_counted_and_left_out_on_request(
    tmp_path: Path, corpus_command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    articles = [document for document in demo.encyclopedia() if document.lang in ("da", "en")]
    english = [document for document in articles if document.lang == "en"]
    forgotten = Document("forgotten", "da", english[0].text)
    copied = Document("copied", "en", english[1].text)
    corpus = tmp_path / "given.jsonl"
    lines = [json.dumps({"concept": d.concept, "lang": d.lang, "text": d.text}) for d in (*articles, forgotten, copied)]
    corpus.write_text("\n".join(lines))
    assert corpus_command("table", corpus, "-o", "all.csv.gz") == 0
    printed = capsys.readouterr().out
    told = words(printed)
    assert re.search(r"^ lang +docs +foreign +near-dup", printed, re.MULTILINE)
    assert (
        "foreign: evidently in another language (da: 1 in en, such as forgotten); leave them out with --drop-foreign"
        in told
    )
    assert "near-dup: near-duplicates of a text of another concept; leave them out with --dedupe" in told
    assert len(list(read(tmp_path / "all.csv.gz"))) == len(articles) + 2

    assert corpus_command("table", corpus, "-o", "clean.csv.gz", "--drop-foreign", "--dedupe") == 0
    told = words(capsys.readouterr().out)
    assert "(da: 1 in en, such as forgotten); left out" in told
    assert "near-dup: near-duplicates of a text of another concept; left out" in told
    assert not {"forgotten", "copied"} & {document.concept for document in read(tmp_path / "clean.csv.gz")}


def test_languages_that_the_source_does_not_name_are_guessed_with_their_confidence(
    tmp_path: Path, corpus_command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    articles = [document for document in demo.encyclopedia() if document.lang in ("da", "en")][:60]
    given = tmp_path / "given.jsonl"
    given.write_text("\n".join(json.dumps({"concept": d.concept, "text": d.text}) for d in articles))
    assert corpus_command("table", given, "--lang-column", "-", "-o", "corpus.jsonl") == 0
    assert [d.lang for d in read(tmp_path / "corpus.jsonl")] == [d.lang for d in articles]
    printed = capsys.readouterr().out
    for lang in {d.lang for d in articles}:
        count = sum(d.lang == lang for d in articles)
        assert re.search(rf"^ {lang} +{count} +{count} +\d+%", printed, re.MULTILINE)
    assert "guessed: the source names no language; confidence: of the guesses, on average" in words(printed)


def test_languages_that_were_guessed_with_little_confidence_are_warned_of(
    tmp_path: Path, corpus_command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"1,en,{ENGLISH}", f"1,it,{ITALIAN}", "2,,Lo ra me", "3,,La biblioteca del paese apre tutte le mattine."]
    (tmp_path / "t.csv").write_text("\n".join(["concept,lang,text", *(row.replace("'", "") for row in rows)]))
    corpus_command("table", "t.csv", "-o", "corpus.jsonl", "--json")
    found = json.loads(capsys.readouterr().out)
    low = {lang: facts["confidence"] for lang, facts in found["languages"].items() if facts["confidence"]}
    [warning] = [warning for warning in found["warnings"] if "little confidence" in warning]
    assert min(low.values()) < 0.3 < max(low.values())
    for lang, confidence in low.items():
        assert (f"{lang} {confidence:.0%}" in warning) == (confidence < 0.3)


ADVICE = {
    "moses": "join more lines with --join, without a pivot",
    "tmx": "join more units with --join",
    "gettext": "join messages with --by reference or --by catalogue",
    "bible": "join verses with --by chapter or --by book",
    "table": "",
}


@pytest.mark.parametrize("name", ADVICE)
def test_documents_too_short_to_train_on_come_with_advice(
    name: str, tmp_path: Path, corpus_command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert corpus_command(name, *SOURCES[name][0](tmp_path), "-o", "corpus.tsv") == 0
    told = words(capsys.readouterr().out)
    assert (
        "short: fewer than 50 different words, estimated from a sample; by default cr5 trains on these, too, and only "
        "the preset wsdm19 does not" + (f"; to get longer ones, {ADVICE[name]}" if ADVICE[name] else "") in told
    )


def test_normalised_language_codes_are_printed(
    tmp_path: Path, corpus_command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    for code in ("eng", "ita", "dan", "deu", "fra", "vie"):
        (tmp_path / f"x.{code}").write_text("x\n")
    assert corpus_command("moses", tmp_path, "-o", "corpus.jsonl") == 0
    told = words(capsys.readouterr().out)
    assert "codes: dan is da, deu is de, eng is en, fra is fr, ita is it and 1 more" in told


def test_the_pivot_may_be_spelled_differently_in_every_pair(
    tmp_path: Path, corpus_command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in {"a.en": ENGLISH, "a.it": ITALIAN, "b.eng": ENGLISH, "b.dan": "Hunden gør."}.items():
        (tmp_path / name).write_text(f"{text}\n")
    assert corpus_command("moses", tmp_path, "--pivot", "en", "-o", "corpus.jsonl") == 0
    found = list(read(tmp_path / "corpus.jsonl"))
    assert {document.lang for document in found} == {"da", "en", "it"}
    assert len({document.concept for document in found}) == 1


def test_skipped_problems_are_counted_with_an_example(
    tmp_path: Path, corpus_command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.en").write_bytes(b"good\n\xff\n")
    (tmp_path / "x.it").write_bytes(b"bene\nmale\n")
    assert corpus_command("moses", "x.en", "x.it", "-o", "corpus.jsonl", "--on-error", "skip") == 0
    line = "parts of documents skipped, 1: invalid UTF-8 (first: x.en:2: byte 0xff at position 1 is not UTF-8; "
    assert line in capsys.readouterr().out
    assert [d.text for d in read(tmp_path / "corpus.jsonl")] == ["good", "bene\nmale"]


def test_an_empty_bible_does_not_vanish_silently(
    tmp_path: Path, corpus_command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    bible(tmp_path)
    (tmp_path / "dan-one.txt").write_text("Hunden gør.\nDen sover.\n")
    (tmp_path / "eng-one.txt").write_text("\n\n")
    arguments = ["bible", tmp_path, "--references", tmp_path / "vref.txt", "--by", "verse"]
    assert corpus_command(*arguments, "-o", "corpus.jsonl") == 0
    printed = capsys.readouterr()
    assert re.search(r"^ en +0 +2 ", printed.out, re.MULTILINE)
    told = f"documents: 6 read, 4 written, 2 skipped\n  2: no text (first: {tmp_path}/eng-one.txt: GEN 1:1)\n"
    assert told in printed.out
    assert f"files: 4 found, 3 read, 1 skipped\n  1: list of references (first: {tmp_path}/vref.txt)\n" in printed.out
    assert printed.err == "warning: no documents are left in language en; see above what was skipped\n"
    assert corpus_command(*arguments, "-o", "corpus.jsonl", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    examples = {"no text": f"{tmp_path}/eng-one.txt: GEN 1:1"}
    assert found["documents"] == {"read": 6, "written": 4, "skipped": {"no text": 2}, "examples": examples}
    assert found["files"]["examples"] == {"list of references": f"{tmp_path}/vref.txt"}
    assert found["warnings"] == ["no documents are left in language en; see above what was skipped"]
    assert found["languages"]["en"]["skipped"] == {"no text": 2}


def test_where_a_language_is_empty_names_that_do_not_match_are_not_suspected(
    tmp_path: Path, corpus_command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    bible(tmp_path)
    (tmp_path / "eng-one.txt").write_text("\n\n")
    arguments = ["bible", tmp_path, "--references", tmp_path / "vref.txt"]
    assert corpus_command(*arguments, "-o", "corpus.jsonl") == 0
    assert capsys.readouterr().err == "warning: no documents are left in language en; see above what was skipped\n"


def test_files_of_other_extensions_are_named_with_the_option_that_reads_them(
    tmp_path: Path, corpus_command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = pages(tmp_path)
    (tmp_path / "docs/french").mkdir()
    for name in ("en/a.adoc", "it/a.adoc", "en/LICENSE", "french/a.txt"):
        (tmp_path / "docs" / name).write_text(ENGLISH)
    assert corpus_command("folder", *arguments, "-o", "corpus.jsonl") == 0
    assert (
        "files: 6 found, 2 read, 4 skipped 1: path does not match the pattern (first: "
        f"{tmp_path}/docs/french/a.txt; folders: french 1); say with --pattern where paths have their language, "
        "or with --lang english=en which language a folder such as english is in 3: other extensions, .adoc 2, "
        "no extension 1; "
        "name the format of those that are pages with --as, as in --as adoc=text" in words(capsys.readouterr().out)
    )
    assert corpus_command("folder", *arguments, "--as", "adoc=text", "--lang", "french=fr", "-o", "c.jsonl") == 0
    assert "files: 6 found, 5 read, 1 skipped" in capsys.readouterr().out


def test_a_guessed_encoding_is_reported(
    tmp_path: Path, corpus_command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = pages(tmp_path)
    (tmp_path / "docs/it/latin.txt").write_bytes("Il perché è già così.".encode("latin-1"))
    assert corpus_command("folder", *arguments, "-o", "corpus.jsonl") == 0
    told = f"encoding guessed, 1 file: windows-1252 (first: {tmp_path}/docs/it/latin.txt)\n"
    assert told in capsys.readouterr().out
    assert corpus_command("folder", *arguments, "-o", "corpus.jsonl", "--json") == 0
    assert json.loads(capsys.readouterr().out)["guessed_encodings"] == {"windows-1252": 1}


def test_a_latin_1_page_that_cannot_be_guessed_is_named_with_the_way_to_skip_it(
    tmp_path: Path, corpus_fails: Callable[..., str]
) -> None:
    arguments = pages(tmp_path)
    (tmp_path / "docs/en/cyrillic.txt").write_bytes("Привет".encode("cp1251"))
    assert corpus_fails("folder", *arguments, "-o", "corpus.jsonl") == (
        f"{tmp_path}/docs/en/cyrillic.txt: byte 1 (0xcf) is not valid UTF-8, and no other encoding is evident; "
        f"convert it with iconv{OR_SKIP}"
    )


def test_concepts_that_hardly_any_two_languages_share_are_shown(
    tmp_path: Path, corpus_command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    for lang in ("en", "it"):
        (tmp_path / "docs" / lang).mkdir(parents=True)
        for i in range(150):
            (tmp_path / "docs" / lang / f"{lang}-page-{i:03}.txt").write_text(f"{lang} {i}")
    (tmp_path / "docs/en/both.txt").write_text(ENGLISH)
    (tmp_path / "docs/it/both.txt").write_text(ITALIAN)
    assert corpus_command("folder", "docs", "-o", "corpus.jsonl") == 0
    assert capsys.readouterr().err == (
        "warning: 1 of the 301 concepts is in two languages, probably because their names do not match (en: both, "
        "en-page-000, en-page-001; it: both, it-page-000, it-page-001); check the options that say where a path or row "
        "has its concept and its language\n"
    )


@pytest.mark.parametrize(("second", "is_warned"), [("pt-BR", True), ("it", False)])
def test_one_language_under_two_codes_is_pointed_out(
    second: str, is_warned: bool, tmp_path: Path, corpus_command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "t.csv"
    table.write_text(f"concept,lang,text\n1,pt,um cão\n1,en,a dog\n2,{second},um gato\n2,en,a cat\n", encoding="utf-8")
    assert corpus_command("table", str(table), "-o", "c.jsonl") == 0
    captured = capsys.readouterr()
    warned = words(captured.out + captured.err)
    assert ("pt and pt-BR will be learned as different languages; give them one code" in warned) == is_warned


def test_one_document_is_not_called_documents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "one.jsonl").write_text('{"concept": "Q1", "lang": "en", "text": "dog"}\n')
    assert run(["corpus", "convert", str(tmp_path / "one.jsonl"), "-o", str(tmp_path / "two.csv")]) == 0
    assert run(["corpus", "inspect", str(tmp_path / "two.csv")]) == 0
    printed = "".join(capsys.readouterr())
    assert "1 document written" in printed
    assert "1 concept, 0 of them in two languages" in printed
    assert "1 documents" not in printed


def test_the_title_of_a_narrow_table_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "one.jsonl").write_text('{"concept": "Q1", "lang": "en", "text": "dog"}\n')
    assert run(["corpus", "inspect", str(tmp_path / "one.jsonl")]) == 0
    assert "Shared concepts" in capsys.readouterr().out


LANGUAGES = re.findall(r"\w+", "bg cs da de el en es et fi fr ga hr hu is it lt lv mt nl no pl pt ro sk sl sv tr uk")


def corpus_in_many_languages(path: Path) -> Path:
    """28 languages, each with one document fewer than the one before."""
    documents = [
        Document(f"Q{i:04d}", lang, f"{lang}{i % 97} {lang}{i % 89} {lang}{i % 83} {lang}{i % 7}")
        for number, lang in enumerate(LANGUAGES)
        for i in range(1100 - number)
    ]
    write(path, documents)
    return path


def test_figures_of_28_languages_fit_into_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus, settings = corpus_in_many_languages(tmp_path / "corpus.jsonl"), ["--set", "min_unique=4"]
    assert run(["corpus", "inspect", str(corpus), *settings]) == 0
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert max(map(len, printed)) <= 80
    shared = printed[printed.index("Shared concepts") :]
    assert [line.split() for line in shared[2:3]] == [["lang", "least", "mean", "most"]]
    assert " bg     1,073 uk   1,086   1,099 cs" in shared
    train = ["--rank", "5", "--ridge", "1", "--set", "max_steps=1", "--set", "min_documents=2"]
    monkeypatch.setattr(out, "width", 60)  # too narrow for these columns
    assert run(["train", str(corpus), "-o", str(tmp_path / "model"), *train, *settings]) == 0
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    table = printed[: printed.index(next(line for line in printed if "documents read" in line))]
    assert max(map(len, table)) <= 60
    for lang in LANGUAGES:  # on one line of each part
        assert len([line for line in table if line.startswith(f" {lang} ")]) == 2
    assert not any("…" in line for line in table)


def test_all_pairs_of_a_few_languages_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = tmp_path / "few.jsonl"
    write(corpus, [Document("Q1", "en", "dog"), Document("Q1", "it", "cane"), Document("Q2", "it", "gatto")])
    assert run(["corpus", "inspect", str(corpus)]) == 0
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert " en         1" in printed


def test_files_that_are_no_corpus_are_named_when_a_folder_is_read(
    tmp_path: Path, corpus_command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus/a.jsonl").write_text('{"concept": "a", "lang": "en", "text": "one"}\n')
    for name in ("b.json", "manifest.json", ".hidden"):
        (tmp_path / "corpus" / name).write_text("{}")
    assert corpus_command("convert", "corpus", "-o", "b.csv") == 0
    assert capsys.readouterr().err.startswith(
        "warning: skipped 1: file of another format (first: corpus/b.json; the formats are .jsonl, "
    )


def test_a_conversion_accounts_for_every_document(
    tmp_path: Path, corpus_command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    good = '{"concept": "a", "lang": "en", "text": "one"}\n'
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus/a.jsonl").write_text(good * 3 + "broken\n" + good.replace("one", " ") * 2)
    (tmp_path / "corpus/b.txt").touch()
    (tmp_path / "corpus/c.jsonl").touch()
    assert corpus_command("convert", "corpus", "-o", "b.csv", "--on-error", "skip") == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "3 documents written to b.csv\ndocuments: 6 read, 3 written, 3 skipped\n  2: empty field (" in printed.err
    assert "  1: broken JSON (first: corpus/a.jsonl:4: " in printed.err
    assert corpus_command("convert", "corpus", "-o", "b.csv", "--on-error", "skip", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["files"]["skipped"] == {"file of another format": 1, "empty file": 1}
    assert facts["documents"]["examples"].keys() == facts["documents"]["skipped"].keys()
    counts = {name: facts["documents"][name] for name in ("read", "written", "skipped")}
    assert counts == {"read": 6, "written": 3, "skipped": {"broken JSON": 1, "empty field": 2}}


def test_a_selected_language_that_is_missing_gives_a_warning(
    tmp_path: Path, corpus_command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert corpus_command("moses", *moses(tmp_path), "--langs", "eng,fr", "-o", "corpus.jsonl") == 0
    printed = capsys.readouterr()
    assert printed.err == (
        "warning: no concept is in two languages, so nothing can be learned from this alone; check --langs and the "
        "names\nwarning: there are no documents in language fr; the source has en, it\n"
    )
    assert "Next:" not in printed.out
    assert [document.lang for document in read(tmp_path / "corpus.jsonl")] == ["en"]


def test_the_types_of_fields_are_printed_and_decimal_commas_are_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = ["concept;lang;text;price;year", 'Q1;en;a dog;"128,48";2019', "Q1;it;un cane;7;2020", "Q2;en;a cat;;2021"]
    (tmp_path / "shop.csv").write_text("\n".join(rows))
    columns = ("--field-column", "price", "--field-column", "year")
    assert run(["corpus", "table", str(tmp_path / "shop.csv"), *columns, "-o", str(tmp_path / "shop.jsonl")]) == 0
    out, err = capsys.readouterr()
    assert "fields: price (numbers and strings), year (numbers)\n" in out
    assert "warning: price: 1 value with a comma, such as 128,48, stored as a string; write numbers as 1234.5" in err


def test_examples_of_skipped_files_name_options(
    tmp_path: Path, corpus_command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "po").mkdir()
    (tmp_path / "po" / "it.po").write_text('#: a.c\nmsgid "dog"\nmsgstr "cane"\n')
    (tmp_path / "po" / "de.po").write_text('msgid "dog"\nmsgstr "Hund"\n')
    arguments = ["gettext", tmp_path / "po", "--by", "reference", "--on-error", "skip", "-o", "corpus.jsonl"]
    assert corpus_command(*arguments) == 0
    assert "or choose --by message or --by catalogue" in words(capsys.readouterr().out)
    assert corpus_command(*arguments, "--json") == 0
    assert "--by message" in json.loads(capsys.readouterr().out)["files"]["examples"]["no references"]
