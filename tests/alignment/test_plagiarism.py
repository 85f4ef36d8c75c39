"""Plagiarism: passages that were translated from a source are found with it, and nothing else is."""

import json
from collections.abc import Iterator
from pathlib import Path

import madeup
import pytest

from cr5 import Cr5, Document, Index, write
from cr5.alignment import find_reused, open_sources
from cr5.alignment.formats import match_json, match_page
from cr5.errors import Cr5Error

SAID = madeup.sentence_meanings(60, seed=9)
SOURCES = {f"S{i}": SAID[8 * i : 8 * i + 8] for i in range(5)}
OWN = SAID[40:50]
TAKEN = SOURCES["S2"][3:6]


def text(lang: str, meanings: list[list[int]]) -> str:
    return " ".join(madeup.sentences(lang, meanings))


SUSPECT = text("aa", [*OWN[:5], *TAKEN, *OWN[5:]])
DOCUMENTS = [Document(name, "bb", text("bb", said), title=name) for name, said in SOURCES.items()]


@pytest.fixture(scope="module")
def index(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    with Index.create(tmp_path_factory.mktemp("sources") / "index", model_folder, passage_words=30) as created:
        created.add([*DOCUMENTS, Document("own", "aa", text("aa", OWN))])
        yield created


def test_a_passage_is_found_with_its_source_and_the_words_that_speak_for_it(index: Index) -> None:
    found = find_reused(index, SUSPECT, lang="aa")
    [match] = found.matches
    assert (match.source.concept, match.suspect.sentences, match.passage.sentences) == ("S2", (5, 6, 7), (3, 4, 5))
    assert match.suspect.text == text("aa", TAKEN)
    assert match.score == pytest.approx(
        index.model.similarity(match.suspect.text, "aa", match.passage.text, "bb"), abs=1e-4
    )
    words = {match.suspect.text[begin:end].lower() for begin, end in match.suspect.words}
    assert words
    assert words <= {madeup.word("aa", meaning) for said in TAKEN for meaning in said}
    assert match.pairs[0].value > 0
    assert found.matched_share == pytest.approx(len(text("aa", TAKEN)) / len(SUSPECT), abs=0.02)


def test_a_heading_above_a_passage_does_not_hide_it(index: Index) -> None:
    heading = " ".join(madeup.word("aa", meaning) for meaning in TAKEN[0][:2])
    found = find_reused(index, f"{heading}\n\n{text('aa', TAKEN)}", lang="aa")
    assert [(match.source.concept, match.passage.sentences) for match in found.matches] == [("S2", (3, 4, 5))]


def test_a_text_that_took_nothing_has_no_match(index: Index) -> None:
    assert find_reused(index, text("aa", OWN), lang="aa").matches == []


def test_the_language_is_guessed_and_sources_in_the_same_language_are_found_only_on_request(index: Index) -> None:
    found = find_reused(index, SUSPECT)
    assert found.text.lang == "aa"
    assert {match.source.lang for match in found.matches} == {"bb"}
    copies = find_reused(index, SUSPECT, langs=["aa"]).matches
    assert {match.source.concept for match in copies} == {"own"}


def test_json_and_page_have_every_match_and_escape_the_text(index: Index, tmp_path: Path) -> None:
    found = find_reused(index, SUSPECT.replace(". ", ". <i>x</i> "), lang="aa", name="<u>.txt")
    values = json.loads(json.dumps(match_json(found)))
    assert [match["source"]["concept"] for match in values["matches"]] == ["S2"]
    assert {"score", "suspect", "source", "pairs", "others"} == set(values["matches"][0])
    page = match_page(found)
    assert "<mark>" in page
    assert "<i>" not in page
    assert "<u>" not in page


def test_sources_are_an_index_a_corpus_or_a_folder_of_texts(
    index: Index, model: Cr5, model_folder: Path, tmp_path: Path
) -> None:
    write(tmp_path / "corpus.jsonl", DOCUMENTS)
    (tmp_path / "texts").mkdir()
    for document in DOCUMENTS:
        (tmp_path / "texts" / f"{document.concept}.txt").write_text(document.text, encoding="utf-8")
    for path in (tmp_path / "corpus.jsonl", tmp_path / "texts"):
        with open_sources(path, model_folder) as opened:
            [match] = find_reused(opened, SUSPECT, lang="aa").matches
            assert match.source.concept.removesuffix(".txt") == "S2"
    with open_sources(index.folder) as opened:
        assert len(opened) == len(index)


def test_what_cannot_be_compared_is_one_clear_error(index: Index, model_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(Cr5Error, match="no sentence"):
        find_reused(index, " … ", lang="aa")
    with pytest.raises(Cr5Error, match="'xx'"):
        find_reused(index, SUSPECT, lang="xx")
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "blank.txt").write_text("\n")
    with pytest.raises(Cr5Error, match="no documents"), open_sources(tmp_path / "texts", model_folder):
        pass
    with pytest.raises(Cr5Error, match="`model`"), open_sources(tmp_path / "texts"):
        pass
    Cr5(**(madeup.SETTINGS | {"rank": 10})).fit(madeup.corpus(concepts=40)).save(tmp_path / "other")
    with pytest.raises(Cr5Error, match="another model"), open_sources(index.folder, tmp_path / "other"):
        pass
