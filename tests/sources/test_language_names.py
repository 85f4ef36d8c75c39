"""Languages that a source names otherwise than by codes: ``lang`` says what the names mean, in every source."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from cr5.corpus.documents import Document
from cr5.corpus.reading import read as read_corpus
from cr5.errors import CorpusError, Cr5Warning
from cr5.sources.make_corpus import make_corpus
from cr5.sources.registry import SOURCES

VERSE = "GEN 1:1\tAu commencement\n"
TMX = (
    '<tmx version="1.4"><header/><body><tu><tuv xml:lang="anglais"><seg>dog</seg></tuv>'
    '<tuv xml:lang="french"><seg>chien</seg></tuv></tu></body></tmx>'
)
PO = 'msgid ""\nmsgstr "Language: {}\\n"\n\nmsgid "dog"\nmsgstr "chien"\n'
SPEECH = "<CHAPTER ID=1>\n<SPEAKER ID=1>\nBonjour\n"
FILES: dict[str, dict[str, str]] = {
    "folder": {"anglais/a.md": "dog", "fr/a.md": "chien"},
    "moses": {"train.anglais": "dog\n", "train.fr": "chien\n"},
    "tmx": {"memory.tmx": TMX},
    "europarl": {"anglais/ep-00-01-17.txt": SPEECH, "fr/ep-00-01-17.txt": SPEECH},
    "gettext": {"po/anglais.po": PO.format("")},
    "bible": {"anglais-web.txt": VERSE},
}


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Iterator[Document]]:
    """The documents of a source's files, with ``lang``."""

    def read(name: str, lang: Mapping[str, str] | None) -> Iterator[Document]:
        for file, content in FILES[name].items():
            (tmp_path / file).parent.mkdir(exist_ok=True)
            (tmp_path / file).write_text(content)
        given = tmp_path if name in ("folder", "europarl") else [tmp_path]
        return SOURCES[name].read(given, lang=lang)

    return read


def test_all_sources_but_tables_are_tried() -> None:
    assert {*FILES, "table"} == {*SOURCES}


@pytest.mark.parametrize("name", FILES)
def test_a_name_of_a_language_means_the_code_that_the_user_gives(
    read: Callable[..., Iterator[Document]], name: str
) -> None:
    assert "nb" in {document.lang for document in read(name, {"anglais": "nb"})}


@pytest.mark.parametrize("name", FILES)
def test_a_name_that_no_input_has_is_warned_of(read: Callable[..., Iterator[Document]], name: str) -> None:
    with pytest.warns(Cr5Warning, match="'anglaise' of `lang`; check the spelling"):
        list(read(name, {"anglais": "nb", "anglaise": "en"}))


@pytest.mark.parametrize("name", FILES)
def test_a_name_must_mean_a_code(read: Callable[..., Iterator[Document]], name: str) -> None:
    with pytest.raises(CorpusError, match="`lang=anglais=inglish`: 'inglish' is not a language code"):
        list(read(name, {"anglais": "inglish"}))


def test_names_of_languages_in_attributes_and_headers_need_no_explanation(
    read: Callable[..., Iterator[Document]], tmp_path: Path
) -> None:
    assert {document.lang for document in read("tmx", {"anglais": "en"})} == {"en", "french"}  # fr in the corpus
    (tmp_path / "other.po").write_text(PO.format("anglais"))
    assert {document.lang for document in SOURCES["gettext"].read([tmp_path / "other.po"], lang={"anglais": "it"})} == {
        "en",
        "it",
    }


def test_an_unknown_name_is_an_error_that_says_how_to_explain_it(read: Callable[..., Iterator[Document]]) -> None:
    with pytest.raises(CorpusError, match=r"unit 1: 'anglais' is not .*, or say in `lang` which language it is"):
        list(read("tmx", None))


def test_a_table_may_have_names_of_languages_and_so_may_the_selection(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("concept,lang,text\n1,English,dog\n1,Italian,cane\n1,dansk,hund\n")
    make_corpus(SOURCES["table"], [tmp_path / "a.csv"], tmp_path / "out.jsonl", langs=["italian", "da"])
    assert [document.lang for document in read_corpus(tmp_path / "out.jsonl")] == ["it", "da"]
