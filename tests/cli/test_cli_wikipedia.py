"""``cr5 corpus wikipedia``."""

import gzip
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import dumps
import pytest
from corpus_sources import wikipedia, words
from mirror import Mirror, publish_xml

from cr5 import demo, read

WIKI_DATE = "20261101"


# Wikipedia


@pytest.fixture
def wikipedias(tmp_path: Path) -> Iterator[Mirror]:
    """A mirror with 20 articles in each of two languages, the first of each about something of its own."""
    everything = demo.encyclopedia()
    concepts = sorted({document.concept for document in everything})
    with Mirror() as mirror:
        for i, lang in enumerate(("da", "it")):
            numbers = {concept: n for n, concept in enumerate(concepts, 1) if n <= 19 or n == 20 + i}
            chosen = [document for document in everything if document.lang == lang and document.concept in numbers]
            pages = [dumps.Page(10 * n, document.title, document.text) for n, document in enumerate(chosen, 1)]
            props = [
                (10 * n, "wikibase_item", f"Q{numbers[document.concept]}", None) for n, document in enumerate(chosen, 1)
            ]
            files = {"pages-articles-multistream.xml.bz2": dumps.multistream(pages, lang, per_stream=5)}
            publish_xml(
                mirror, f"{lang}wiki", WIKI_DATE, files, gzip.compress(dumps.page_props_sql(props, f"{lang}wiki"))
            )
        yield mirror


@pytest.mark.slow
def test_wikipedia_becomes_a_corpus_with_a_printed_report(
    wikipedias: Mirror, tmp_path: Path, corpus_command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert corpus_command(*wikipedia(wikipedias)) == 0
    found = list(read(tmp_path / "wiki"))
    assert sorted((document.lang, document.concept) for document in found) == sorted(
        (lang, f"Q{n}") for i, lang in enumerate(("da", "it")) for n in [*range(1, 20), 20 + i]
    )
    printed = capsys.readouterr().out
    assert all(len(line) <= 80 for line in printed.splitlines())
    for lang in ("da", "it"):
        assert re.search(rf"^ {lang} +{WIKI_DATE} +20 +20 .* 20 *$", printed, re.MULTILINE)
    assert "40 documents, 19 concepts in two languages or more" in words(printed)
    assert printed.endswith("Next: cr5 corpus inspect wiki; cr5 train wiki -o model\n")


@pytest.mark.slow
def test_wikipedia_prints_its_report_as_json(
    wikipedias: Mirror, corpus_command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert corpus_command(*wikipedia(wikipedias, "--json", "--concepts", "shared")) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["corpus"] == "wiki"
    assert {lang: facts["documents"] for lang, facts in found["languages"].items()} == {"da": 19, "it": 19}


def test_an_interrupted_wikipedia_run_says_how_to_continue(
    wikipedias: Mirror,
    corpus_command: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("cr5.sources.wikipedia.build.build", interrupted)
    assert corpus_command(*wikipedia(wikipedias)) == 130
    assert capsys.readouterr().err == "stopped; run the same command again to continue\n"
