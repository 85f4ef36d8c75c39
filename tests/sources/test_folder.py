"""Folder trees: the path gives language and concept, and lines that most pages repeat are dropped."""

import gzip
import os
import re
import tracemalloc
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import up_to

from cr5.corpus.documents import Document
from cr5.corpus.reading import read_batches
from cr5.errors import CorpusError, Cr5Warning
from cr5.sources import folder
from cr5.sources.accounting import Accounting
from cr5.sources.folder import read_folder
from cr5.sources.language_names import LanguageNames

relaxed = settings(max_examples=up_to(40), deadline=None)
names = st.text("abcdefghijkl0123_é", min_size=4, max_size=9)
texts = st.lists(st.text("abcdefghijkæжд漢", min_size=1, max_size=8), min_size=1, max_size=5).map(" ".join)


def tree(root: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def found(root: Path, pattern: str = "{lang}/{concept}") -> list[tuple[str, str]]:
    return [(document.lang, document.concept) for document in read_folder(root, pattern=pattern)]


def message(root: Path, pattern: str = "{lang}/{concept}") -> str:
    with pytest.raises(CorpusError) as caught:
        list(read_folder(root, pattern=pattern))
    return str(caught.value).replace(str(root), "ROOT")


def test_every_page_is_a_document_in_the_language_of_its_folder(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "it/text/a.html": "<title>Uno</title><body><nav>menu</nav><p>Testo uno",
            "it/text/b.txt": "  Testo\tdue \n\nancora\n",
            "en-US/text/a.md": "# One\n\nText one",
            "en-US/text/c.rst": "Three\n=====\n\nText three",
            "en-US/contents.js": "x",
            "en-US/empty.html": "<nav>menu</nav>",
            "media/a.html": "<p>no",
            "css/a.html": "<p>no",
            "index.html": "<p>no",
        },
    )
    assert list(read_folder(tmp_path)) == [
        Document("text/a", "en-US", "One\nText one", "One"),
        Document("text/c", "en-US", "Three\nText three", "Three"),
        Document("text/a", "it", "Testo uno", "Uno"),
        Document("text/b", "it", "Testo due\nancora"),
    ]


@pytest.mark.parametrize(
    ("pattern", "path", "place"),
    [
        ("{lang}/{concept}", "pt_BR/a/b.html", ("pt_BR", "a/b")),
        ("{lang}/{concept}", "EN/a.html", ("EN", "a")),
        ("{lang}/{concept}", "ITA/b/a.html", ("ITA", "b/a")),
        ("{lang}/{concept}", "sr@latin/a.html", ("sr@latin", "a")),
        ("{lang}/{concept}", "ca-valencia/a.v2.MD", ("ca-valencia", "a.v2")),
        ("{lang}/{concept}", "de_DE.UTF-8/a.md", ("de_DE.UTF-8", "a")),
        ("docs/{lang}/{concept}", "docs/zh-Hans/a.md", ("zh-Hans", "a")),
        ("/docs/{lang}/{concept}/", "docs/it/a.md", ("it", "a")),
        ("{concept}.{lang}.md", "guide/page.v2.it.md", ("it", "guide/page.v2")),
        ("{concept}.{lang}.md", "page.pt-br.md", ("pt-br", "page")),
        ("{concept}_{lang}.txt", "my_page_zh_CN.txt", ("zh_CN", "my_page")),
        ("content/{concept}/index.{lang}.md", "content/a/b/index.da.md", ("da", "a/b")),
        ("{lang}/text/{concept}", "vi/text/shared/a.html", ("vi", "shared/a")),
        ("*/usr/share/libreoffice/help/{lang}/{concept}", "x-it/usr/share/libreoffice/help/it/a.html", ("it", "a")),
        ("**/{lang}/{concept}", "src/docs/en/it/a.md", ("en", "it/a")),
        ("**/{lang}/**/{concept}.md", "ab/x/it/a.md", ("ab", "x/it/a")),
        ("{concept}/**/{lang}-*.html", "a/b/c/fil-x.html", ("fil", "a/b/c")),
        ("v*/{lang}.lproj/{concept}", "v1.2/fr.lproj/a.html", ("fr", "a")),
    ],
)
def test_a_pattern_finds_language_and_concept_in_a_path(
    tmp_path: Path, pattern: str, path: str, place: tuple[str, str]
) -> None:
    assert found(tree(tmp_path, {path: "<p>text"}), pattern) == [place]


@pytest.mark.parametrize("name", ["css", "src", "js", "images", "Images", "SRC", "xx", "en-backup", "jp", "e", "und"])
def test_a_folder_that_is_not_a_language_is_ignored(tmp_path: Path, name: str) -> None:
    assert found(tree(tmp_path, {f"{name}/a.html": "<p>x", "it/a.html": "<p>y"})) == [("it", "a")]


@given(pages=st.dictionaries(st.tuples(st.sampled_from(["it", "pt-BR", "vi"]), names), texts, min_size=1, max_size=8))
@relaxed
def test_random_pages_come_back_equal(
    tmp_path_factory: pytest.TempPathFactory, pages: dict[tuple[str, str], str]
) -> None:
    root = tmp_path_factory.mktemp("pages")
    forms = [("html", "<title>t</title><p>{}"), ("md", "{}\n"), ("txt", "{}")]
    for i, ((lang, concept), text) in enumerate(pages.items()):
        suffix, form = forms[i % 3]
        tree(root, {f"{lang}/sub/{concept}.{suffix}": form.format(text)})
    expected = sorted((lang, f"sub/{concept}", text) for (lang, concept), text in pages.items())
    assert sorted((d.lang, d.concept, d.text) for d in read_folder(root)) == expected


# Lines that all pages have


def test_lines_of_more_than_half_the_pages_are_dropped(tmp_path: Path) -> None:
    half = {f"it/{i:02}.txt": f"Sosteneteci!\npagina {i}" + "\nmeno" * (i < 10) for i in range(20)}
    tree(tmp_path, {**half, "it/only.txt": "Sosteneteci!", "en/few.txt": "Support us!"})
    documents = list(read_folder(tmp_path))
    assert documents[0].text == "Support us!"  # one page repeats nothing
    assert [d.text for d in documents[1:]] == [f"pagina {i}" + "\nmeno" * (i < 10) for i in range(20)]
    assert list(read_folder(tmp_path, keep_repeated=True))[1].text == "Sosteneteci!\npagina 0\nmeno"


def test_repeated_lines_are_found_in_a_sample_of_many_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "SAMPLE_PAGES", 12)
    tree(tmp_path, {f"it/{i:03}.txt": f"menu\npagina {i}" for i in range(100)})
    assert [d.text for d in read_folder(tmp_path)] == [f"pagina {i}" for i in range(100)]


# Names of languages and formats


def test_a_name_may_stand_for_a_language(tmp_path: Path) -> None:
    tree(
        tmp_path, {"english/a.txt": "one", "brazilian-portuguese/a.txt": "um", "it/a.txt": "uno", "french/a.txt": "un"}
    )
    accounting = Accounting()
    names = {"english": "en", "brazilian-portuguese": "pt-BR"}
    found = list(read_folder(tmp_path, lang=names, accounting=accounting))
    assert [(d.lang, d.concept, d.text) for d in found] == [
        ("en", "a", "one"),
        ("it", "a", "uno"),
        ("pt-BR", "a", "um"),
    ]
    assert accounting.skipped_files.examples == {
        folder.NOT_IN_PATTERN: f"{tmp_path / 'french/a.txt'}; folders: french 1"
    }
    with pytest.warns(Cr5Warning, match="no path of a page has 'englsh' of `lang`"):
        assert len(list(read_folder(tmp_path, lang={**names, "englsh": "en"}))) == 3
    with pytest.raises(CorpusError, match="`lang=english=klingonish`: 'klingonish' is not a language code"):
        list(read_folder(tmp_path, lang={"english": "klingonish"}))
    tree(tmp_path / "names", {"guide_english.md": "one", "guide_it.md": "uno"})
    found = list(read_folder(tmp_path / "names", pattern="{concept}_{lang}.md", lang={"english": "en"}))
    assert [(d.lang, d.concept) for d in found] == [("en", "guide"), ("it", "guide")]


def test_other_extensions_are_counted_and_read_on_request(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {"en/a.adoc": "*one*", "it/a.adoc": "*uno*", "en/b.HTML": "<p>two", "en/c.page": "<p>three", "en/d": "x"},
    )
    accounting = Accounting()
    assert [d.text for d in read_folder(tmp_path, accounting=accounting)] == ["two"]
    assert accounting.extensions() == {".adoc": 2, ".page": 1, "none": 1}
    found = list(read_folder(tmp_path, read_as=["adoc=markdown"]))
    assert [(d.lang, d.concept, d.text) for d in found] == [("en", "a", "one"), ("en", "b", "two"), ("it", "a", "uno")]
    found = list(read_folder(tmp_path, read_as="html"))
    assert [(d.concept, d.text) for d in found if d.lang == "en"] == [
        ("a", "*one*"), ("b", "two"), ("c", "three"), ("d", "x"),
    ]  # fmt: skip
    with pytest.raises(CorpusError, match=r"`read_as=adoc=word` names no format; choose html, markdown, rst, text"):
        list(read_folder(tmp_path, read_as=["adoc=word"]))


def test_compressed_pages_are_read(tmp_path: Path) -> None:
    tree(tmp_path, {"en/a.html.gz": gzip.compress(b"<p>one"), "it/a.html": "<p>uno"})
    assert [(d.lang, d.concept, d.text) for d in read_folder(tmp_path)] == [("en", "a", "one"), ("it", "a", "uno")]


@pytest.mark.parametrize(
    ("name", "content", "reason", "words"),
    [
        (b"bad\xff.txt", b"testo", "name not UTF-8", r"it/bad\udcff.txt"),
        (b"a\nb.txt", b"testo", "control character", r"it/a\nb.txt"),
        (b"nul.txt", b"te\0sto", "NUL character", "it/nul.txt"),
    ],
)
def test_a_page_that_no_corpus_can_hold_is_named_or_skipped(
    tmp_path: Path, name: bytes, content: bytes, reason: str, words: str
) -> None:
    tree(tmp_path, {"it/good.txt": "testo", "en/good.txt": "text"})
    try:
        (tmp_path / "it" / os.fsdecode(name)).write_bytes(content)
    except OSError:
        pytest.skip("this system has no such names")
    assert words in message(tmp_path)
    accounting = Accounting("skip")
    assert len(list(read_folder(tmp_path, accounting=accounting))) == 2
    assert accounting.skipped_documents.counts == {reason: 1}
    assert words in accounting.skipped_documents.first


def test_utf_16_pages_are_read_with_and_without_a_mark(tmp_path: Path) -> None:
    text = "Un testo più lungo,\nin due righe"
    for encoding in ("utf-16", "utf-16-le", "utf-16-be"):
        tree(tmp_path, {f"it/{encoding}.txt": text.encode(encoding)})
    assert [document.text for document in read_folder(tmp_path)] == [text] * 3


def test_a_page_without_text_is_skipped_with_its_reason(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {f"it/{i:02}.txt": f"menu\npagina {i}" for i in range(20)} | {"it/x.txt": "menu", "it/y.html": "<nav>a"},
    )
    accounting = Accounting()
    assert len(list(read_folder(tmp_path, accounting=accounting))) == 20
    assert accounting.skipped_documents.examples == {
        "only lines that most pages repeat": str(tmp_path / "it/x.txt"),
        "no text": str(tmp_path / "it/y.html"),
    }


# Encodings

FRENCH = "L’été dernier, où «\xa0Noël\xa0» était déjà passé, le garçon naïf a mangé une crêpe à 3 €…"


def test_western_pages_are_read_where_the_encoding_is_evident_and_counted(tmp_path: Path) -> None:
    accounting = Accounting()
    tree(tmp_path, {"fr/a.txt": FRENCH.encode("cp1252"), "fr/b.txt": FRENCH, "fr/c.txt": "Ça va"})
    assert [d.text for d in read_folder(tmp_path, accounting=accounting)] == [
        " ".join(FRENCH.split()),
        " ".join(FRENCH.split()),
        "Ça va",
    ]
    assert accounting.guessed_encodings.examples == {"windows-1252": str(tmp_path / "fr/a.txt")}
    assert accounting.errors.total == 0


@pytest.mark.parametrize(
    ("lang", "content"),
    [
        ("ru", "Привет, мир".encode("cp1251")),
        ("en", "Привет, мир".encode("cp1251")),
        ("cs", "Příliš žluťoučký kůň".encode("cp1250")),
        ("fr", "Le président a déjà mangé à Nîmes".encode("cp850")),
        ("fr", "Le prêsident est très âgé".encode("mac-roman")),
        ("fr", FRENCH.encode() + b" caf\xe9"),  # UTF-8 but for one byte
        ("fr", FRENCH.encode("cp1252") + b"\0\1"),
        ("en", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\xe9"),
    ],
)
def test_an_encoding_that_is_not_evident_is_an_error_with_the_place(tmp_path: Path, lang: str, content: bytes) -> None:
    tree(tmp_path, {f"{lang}/a.txt": content})
    assert re.fullmatch(
        rf"ROOT/{lang}/a\.txt: byte \d+ \(0x..\) is not valid UTF-8, and no other encoding is evident; convert it .*",
        message(tmp_path),
    )


# Faults

UNKNOWN_ENCODING = (
    "ROOT/en/bad.txt: byte 4 (0x81) is not valid UTF-8, and no other encoding is evident; convert it with iconv"
)


def test_circular_links_end_and_a_linked_language_is_read_once(tmp_path: Path) -> None:
    tree(tmp_path, {"en-US/sub/a.html": "<p>x"})
    (tmp_path / "en-US" / "sub" / "up").symlink_to(tmp_path)
    (tmp_path / "en").symlink_to(tmp_path / "en-US")
    assert found(tmp_path) == [("en-US", "sub/a")]


def test_a_page_has_the_language_of_its_real_folder_and_links_to_it_are_counted(tmp_path: Path) -> None:
    tree(tmp_path, {"en/a.md": "one", "it/a.md": "uno", ".store/fr/a.md": "un"})
    (tmp_path / "en" / "translations").symlink_to("../it")
    (tmp_path / "de").symlink_to("it")
    (tmp_path / "fr").symlink_to(".store/fr")
    accounting = Accounting()
    pages = [(document.lang, document.concept) for document in read_folder(tmp_path, accounting=accounting)]
    assert pages == [("en", "a"), ("fr", "a"), ("it", "a")]
    assert accounting.skipped_files.counts == {"link to a folder that is read already": 2, "hidden": 1}
    assert (accounting.files_found, accounting.files_read) == (6, 3)


def test_entries_that_are_not_regular_files_are_ignored(tmp_path: Path) -> None:
    tree(tmp_path, {"en/a.html": "<p>x", "en/b.html/c.html": "<p>y"})
    os.mkfifo(tmp_path / "en" / "pipe.html")
    assert found(tmp_path) == [("en", "a"), ("en", "b.html/c")]


def test_unreadable_pages_are_reported_and_the_others_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path, {"en/a.html": "<p>x", "en/bad.txt": b"caf\x81", "en/large.md": "x" * 5000})
    tree(tmp_path, {"en/named.html": b"<meta charset=cp1252>\x81"})
    (tmp_path / "en" / "gone.html").symlink_to("nowhere")
    monkeypatch.setattr(folder, "MAX_PAGE_BYTES", 4096)
    accounting = Accounting("skip")
    assert [d.concept for d in read_folder(tmp_path, accounting=accounting)] == ["a"]
    assert accounting.errors.counts == {"unknown encoding": 2, "page too large": 1, "unreadable file": 1}
    examples = {reason: text.replace(str(tmp_path), "ROOT") for reason, text in accounting.errors.examples.items()}
    assert examples == {
        "unknown encoding": UNKNOWN_ENCODING,
        "page too large": "ROOT/en/large.md: a page of more than 0 MB; split it or remove it",
        "unreadable file": "ROOT/en/gone.html: a broken link to nowhere; correct it or remove it",
    }
    assert message(tmp_path) == UNKNOWN_ENCODING


def test_a_folder_that_cannot_be_listed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path, {"en/a.html": "<p>x"})
    listed = os.scandir

    def scandir(path: str) -> object:
        if str(path).endswith("en"):
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert message(tmp_path) == "ROOT/en: cannot be read, permission denied; check its permissions"


def test_a_pattern_without_a_match_is_an_error_with_some_paths(tmp_path: Path) -> None:
    tree(tmp_path, {"docs/a.html": "x", "docs/b.html": "x", "docs/c/d.md": "x", "docs/e.md": "x", "x.png": "x"})
    assert message(tmp_path) == (
        "ROOT: no page matches `pattern={lang}/{concept}`, there are docs/a.html, docs/b.html, docs/c/d.md; show in "
        "`pattern` where a path has the language code and the name of the page, as in docs/{lang}/{concept} or "
        "{concept}.{lang}.md, and give names that are not codes in `lang`, as in `lang=english=en`"
    )


def test_a_folder_without_pages_is_an_error(tmp_path: Path) -> None:
    assert message(tree(tmp_path, {"en/x.adoc": "x", "it/x.adoc": "x", "LICENSE": "x"})) == (
        "ROOT: no file ends in .html, .htm, .xhtml, .md, .markdown, .mdx, .rst, .txt; there are .adoc (2), "
        "none (1); name the format of others, as in `read_as=adoc=text`"
    )


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("docs/{concept}", "`pattern=docs/{concept}` has no {lang}; it needs one, as in {lang}/{concept}"),
        ("{lang}/x", "`pattern={lang}/x` has no {concept}; it needs one, as in {lang}/{concept}"),
        (
            "{lang}/{lang}/{concept}",
            "`pattern={lang}/{lang}/{concept}` has 2 {lang}; it needs one, as in {lang}/{concept}",
        ),
        (
            "{lang}/{page}/{concept}",
            "`pattern={lang}/{page}/{concept}` has {page}; only {lang}, {concept}, * and ** are placeholders",
        ),
    ],
)
def test_an_invalid_pattern_is_an_error(tmp_path: Path, pattern: str, text: str) -> None:
    assert message(tmp_path, pattern) == text


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    assert message(tmp_path / "x") == "ROOT: no such folder; check the spelling"
    (tmp_path / "x").write_text("a page")
    assert message(tmp_path / "x") == "ROOT: a file, not a folder; name the folder above it"


@given(
    path=st.text("ab-._@/{}é", min_size=1, max_size=30),
    pattern=st.lists(
        st.sampled_from(["{lang}", "{concept}", "*", "**", "**/", "/", ".", "a", "-", "{", "}"]), max_size=8
    ).map("".join),
)
@relaxed
def test_any_pattern_matches_completely_or_is_an_error(path: str, pattern: str) -> None:
    try:
        layout = folder._Layout(pattern, LanguageNames({"aa": "en"}), {})
    except CorpusError:
        return
    match = layout.match(path)
    assert match is None or all(match)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_pages(tmp_path: Path) -> None:
    page = "<p>" + "parola " * 20_000
    tree(tmp_path, {f"it/{i}.html": f"{page}{i}" for i in range(40)})
    tracemalloc.start()
    assert sum(1 for _ in read_folder(tmp_path)) == 40
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * len(page) < 40 * len(page)


def test_only_the_wanted_languages_are_read(tmp_path: Path) -> None:
    tree(tmp_path, {"en/a.txt": "one", "pt_BR/a.txt": "um", "it/a.txt": "uno"})
    assert [d.text for d in read_folder(tmp_path, langs=["pt-BR", "eng"])] == ["one", "um"]
    with pytest.raises(CorpusError) as caught:
        list(read_folder(tmp_path, langs=["da"]))
    assert str(caught.value) == f"{tmp_path}: no page in da, only in en, it, pt_BR; change `langs`"


def test_a_broken_link_is_named_as_one(tmp_path: Path) -> None:
    (tmp_path / "en").mkdir()
    (tmp_path / "en" / "gone.html").symlink_to("nowhere")
    with pytest.raises(CorpusError, match=r"gone\.html: a broken link to nowhere; correct it or remove it"):
        list(read_folder(tmp_path))
    with pytest.raises(CorpusError, match=r"gone\.html: a broken link to nowhere"):
        read_batches(tmp_path / "en" / "gone.html")
