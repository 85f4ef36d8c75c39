"""The built-in articles: complete, similar in length, clean, and free to use."""

import json
import re
import unicodedata
from collections import Counter
from importlib.resources import files
from pathlib import Path

import pytest

from cr5 import Document, read, write
from cr5.data import FOLDER

LANGS = ("da", "en", "it", "vi")
ARTICLES = list(read(str(FOLDER / "*.jsonl")))
BY_LANG = {lang: [d for d in ARTICLES if d.lang == lang] for lang in LANGS}


def sentences(text: str) -> list[str]:
    return [part.strip() for part in re.split(r"(?<=[.!?])\s+", text) if part.strip()]


def name(document: Document) -> str:
    return f"{document.lang} {document.concept}"


def plain_words(text: str) -> list[str]:
    """The words of a text, without case and accents."""
    letters = unicodedata.normalize("NFD", text.casefold())
    return re.findall(r"\w+", "".join(c for c in letters if not unicodedata.combining(c)))


def names_its_subject(document: Document) -> bool:
    """Whether a word of the first sentence begins with the main (longest) word of the title, so that a plain ending
    ("dogs", "hunden") still counts."""
    main = max(plain_words(re.sub(r"\(.*\)", "", document.title)), key=len)
    return any(word.startswith(main) for word in plain_words(sentences(document.text)[0]))


def test_the_corpus_has_the_languages_it_declares() -> None:
    assert sorted({d.lang for d in ARTICLES}) == list(LANGS)


@pytest.mark.parametrize("lang", LANGS)
def test_every_language_has_an_article_on_each_of_400_concepts(lang: str) -> None:
    concepts = [d.concept for d in BY_LANG[lang]]
    assert len(concepts) == len(set(concepts)) == 400
    assert set(concepts) == {d.concept for d in BY_LANG["en"]}


@pytest.mark.parametrize("lang", LANGS)
def test_articles_have_190_to_300_words(lang: str) -> None:
    sizes = {name(d): len(d.text.split()) for d in BY_LANG[lang]}
    assert {name: size for name, size in sizes.items() if not 190 <= size <= 300} == {}


@pytest.mark.parametrize("lang", LANGS)
def test_articles_are_one_clean_paragraph(lang: str) -> None:
    for d in BY_LANG[lang]:
        for text in (d.text, d.title):
            assert text == text.strip(), name(d)
            assert unicodedata.is_normalized("NFC", text), name(d)
            assert text.isprintable(), name(d)  # no line break, tab or odd space
            assert "  " not in text, name(d)


@pytest.mark.parametrize("lang", LANGS)
def test_articles_have_a_title_and_a_plain_concept(lang: str) -> None:
    assert [name(d) for d in BY_LANG[lang] if not d.title.strip()] == []
    assert [d.concept for d in BY_LANG[lang] if not re.fullmatch(r"Q[0-9]+|[a-z0-9]+(-[a-z0-9]+)*", d.concept)] == []


@pytest.mark.parametrize("lang", LANGS)
def test_articles_open_with_the_name_of_their_subject(lang: str) -> None:
    unnamed = [name(d) for d in BY_LANG[lang] if not names_its_subject(d)]
    assert len(unnamed) <= 0.05 * len(BY_LANG[lang]), unnamed  # other inflected forms, abbreviations with a full stop


def test_no_sentence_occurs_twice() -> None:
    # Abbreviations such as "H.C." and Danish dates look like the ends of sentences; no sentence has a single word.
    times = Counter(sentence for d in ARTICLES for sentence in sentences(d.text) if " " in sentence)
    assert {sentence: count for sentence, count in times.items() if count > 1} == {}


def test_no_article_is_a_single_sentence() -> None:
    assert [name(d) for d in ARTICLES if len(sentences(d.text)) < 2] == []


@pytest.mark.parametrize("lang", LANGS)
def test_files_are_plain_json_lines_of_one_language(lang: str) -> None:
    lines = (FOLDER / f"{lang}.jsonl").read_text(encoding="utf-8").splitlines()
    for line in lines:
        assert json.loads(line)["lang"] == lang
        assert (
            {"concept", "lang", "title", "text"} <= set(json.loads(line)) <= {"concept", "lang", "title", "text", "url"}
        )


def test_the_corpus_is_shipped_inside_the_package_with_its_licence() -> None:
    package = files("cr5.data")
    assert {f"{lang}.jsonl" for lang in LANGS} <= {item.name for item in package.iterdir()}
    assert "CC0" in (package / "LICENSE").read_text()
    assert Path(str(files("cr5"))) in FOLDER.parents


def test_nothing_keeps_the_articles_out_of_the_wheel() -> None:
    root = Path(str(files("cr5"))).parent.parent
    if not (root / "pyproject.toml").exists():
        pytest.skip("installed, not a checkout")
    assert 'packages = ["src/cr5"]' in (root / "pyproject.toml").read_text()
    assert "exclude" not in (root / "pyproject.toml").read_text().split("[tool.hatch")[1].split("\n[")[0]
    ignored = (root / ".gitignore").read_text().split()  # what git ignores, the wheel lacks
    assert not [line for line in ignored if "json" in line or "encyclopedia" in line or line in ("*", "src/")]


def test_the_corpus_is_read_by_its_name_unless_a_file_has_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert sum(1 for _ in read("builtin", langs=["en"])) == 400
    (tmp_path / "builtin").mkdir()
    write(tmp_path / "builtin" / "own.jsonl", [Document("a", "en", "own text")])
    assert [document.text for document in read("builtin")] == ["own text"]
