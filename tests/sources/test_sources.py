"""The interface of sources: what every registered reader has in common, and a corpus made from a new one."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import pytest
import typer

from cr5 import Document, read
from cr5.cli.source_commands import add_source_command
from cr5.errors import CorpusError
from cr5.progress import Progress
from cr5.sources.accounting import Accounting
from cr5.sources.make_corpus import make_corpus
from cr5.sources.registry import SOURCES
from cr5.sources.source import ParameterHelp, Source


def read_notes(
    paths: Annotated[Sequence[Path], ParameterHelp("Files.", metavar="FILE")],
    *,
    times: Annotated[int, ParameterHelp("How often.", metavar="N", minimum=1)] = 1,
    names: Annotated[Mapping[str, str] | None, ParameterHelp("Names of languages.", metavar="CODE=NAME")] = None,
    accounting: Accounting | None = None,
) -> Iterator[Document]:
    accounting = accounting or Accounting()
    for path in paths:
        accounting.count_found(path)
        with accounting.reading(path):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                concept, lang, text = [*line.split(":"), "", ""][:3]
                if lang:
                    lang, text = (names or {}).get(lang, lang), " ".join([text] * times)
                    yield from accounting.document(concept, lang, text, place=f"{path}:{number}")
                else:
                    message = f"{path}:{number}: no language; write concept:lang:text"
                    accounting.unusable_document("no language", "", message)


NOTES = Source("notes", read_notes, help="Notes.", short_documents_advice="repeat more with `times`")


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_every_reader_has_an_input_described_options_and_an_error_handler(source: Source) -> None:
    parameters = inspect.signature(source.read).parameters
    assert parameters["accounting"].default is None
    (first, *options) = source.parameters
    assert next(iter(parameters)) == first
    assert all(parameters[name].kind is inspect.Parameter.KEYWORD_ONLY for name in options)
    assert all(parameters[name].default is not inspect.Parameter.empty for name in options)
    assert f"cr5 corpus {source.name} " in source.help


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_every_reader_names_a_path_that_does_not_exist(source: Source, tmp_path: Path) -> None:
    is_single = next(iter(source.parameters.values()))[0].annotation.__origin__ is Path
    path = tmp_path / "missing"
    with pytest.raises(CorpusError, match="missing"):
        list(source.read(path if is_single else [path]))


@pytest.mark.slow
def test_a_corpus_is_made_with_the_options_of_the_reader(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1:eng:one\n1:it:uno\n2:it:due\nbad\n")
    reports = list[Progress]()
    output = tmp_path / "corpus.jsonl"
    summary = make_corpus(NOTES, [tmp_path / "a.txt"], output, {"times": 2}, on_error="skip", progress=reports.append)
    assert list(read(output)) == [
        Document("1", "en", "one one"),
        Document("1", "it", "uno uno"),
        Document("2", "it", "due due"),
    ]
    assert (summary.documents, summary.concepts, summary.shared) == ({"en": 1, "it": 2}, 2, 1)
    assert summary.accounting.errors.counts == {"no language": 1}
    assert reports[-1] == Progress("documents", 3, None)


def test_an_empty_result_is_an_error_that_says_why_and_no_file_is_written(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1:en:one\n")
    output = tmp_path / "corpus.jsonl"
    with pytest.raises(CorpusError, match="there are no documents in language fr; the source has en; change `langs`"):
        make_corpus(NOTES, [tmp_path / "a.txt"], output, langs=["fr"])
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(CorpusError, match="no text"):
        make_corpus(NOTES, [tmp_path / "a.txt"], output)
    assert not output.exists()


@pytest.mark.slow
def test_the_command_of_a_new_source_needs_no_code_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    app = typer.Typer()
    add_source_command(app, NOTES, "Make a corpus")
    app.command("other")(lambda: None)
    (tmp_path / "a.txt").write_text("1:e:one\n1:i:uno\n")
    output = tmp_path / "corpus.jsonl"
    options = ["--times", "2", "--names", "e=en", "--names", "i=it"]
    app(["notes", str(tmp_path / "a.txt"), "-o", str(output), *options], standalone_mode=False)
    assert [(document.lang, document.text) for document in read(output)] == [("en", "one one"), ("it", "uno uno")]
    assert "to get longer ones, repeat more with --times" in " ".join(capsys.readouterr().out.split())


@pytest.mark.slow
def test_languages_that_are_not_wanted_and_rows_without_one_are_no_languages_of_the_corpus(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    path.write_text("a:en:one\na:it:uno\na:fr:\nb:fr:deux\nbroken\n")
    output = tmp_path / "corpus.jsonl"
    summary = make_corpus(NOTES, [path], output, langs=["en", "it"], on_error="skip")
    assert set(summary.by_language()) == {"en", "it"}
    assert summary.accounting.skipped_documents.counts == {"language not wanted": 2, "no language": 1}
    assert set(make_corpus(NOTES, [path], output, on_error="skip").by_language()) == {"en", "fr", "it"}
