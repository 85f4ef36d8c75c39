"""Folder trees: the path gives language and concept, and lines that most pages repeat are dropped."""

import os
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cr5.corpus.documents import Document
from cr5.corpus.skipped import Skipped
from cr5.errors import CorpusError
from cr5.sources import folder
from cr5.sources.folder import read_folder

relaxed = settings(max_examples=40, deadline=None)
names = st.text("abcdefghijkl0123_é", min_size=4, max_size=9)
texts = st.lists(st.text("abcdefghijkæжд漢", min_size=1, max_size=8), min_size=1, max_size=5).map(" ".join)


def tree(root: Path, files: dict[str, str | bytes]) -> Path:
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


@pytest.mark.parametrize("name", ["css", "src", "js", "images", "EN", "xx", "en-backup", "jp", "e", "und"])
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


# Faults


def test_circular_links_end_and_a_linked_language_is_read_once(tmp_path: Path) -> None:
    tree(tmp_path, {"en-US/sub/a.html": "<p>x"})
    (tmp_path / "en-US" / "sub" / "up").symlink_to(tmp_path)
    (tmp_path / "en").symlink_to(tmp_path / "en-US")
    assert found(tmp_path) == [("en-US", "sub/a")]


def test_entries_that_are_not_regular_files_are_ignored(tmp_path: Path) -> None:
    tree(tmp_path, {"en/a.html": "<p>x", "en/b.html/c.html": "<p>y"})
    os.mkfifo(tmp_path / "en" / "pipe.html")
    assert found(tmp_path) == [("en", "a"), ("en", "b.html/c")]


def test_unreadable_pages_are_reported_and_the_others_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path, {"en/a.html": "<p>x", "en/bad.txt": b"caf\xe9", "en/large.md": "x" * 5000})
    tree(tmp_path, {"en/named.html": b"<meta charset=cp1252>\x81"})
    (tmp_path / "en" / "gone.html").symlink_to("nowhere")
    monkeypatch.setattr(folder, "MAX_PAGE_BYTES", 4096)
    skipped = Skipped()
    assert [d.concept for d in read_folder(tmp_path, handle_error=skipped.add)] == ["a"]
    assert skipped.counts == {"invalid UTF-8": 2, "page too large": 1, "unreadable file": 1}
    examples = {reason: text.replace(str(tmp_path), "ROOT") for reason, text in skipped.examples.items()}
    assert examples == {
        "invalid UTF-8": "ROOT/en/bad.txt: byte 4 is not valid UTF-8; convert it with iconv",
        "page too large": "ROOT/en/large.md: a page of more than 0 MB; split it or remove it",
        "unreadable file": "ROOT/en/gone.html: cannot be read, no such file or directory; check its permissions",
    }
    assert message(tmp_path) == "ROOT/en/bad.txt: byte 4 is not valid UTF-8; convert it with iconv"


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
        "ROOT: no page matches `pattern={lang}/{concept}`, there are docs/a.html, docs/b.html, docs/e.md; show in "
        "`pattern` where a path has the language code and the name of the page, as in docs/{lang}/{concept} or "
        "{concept}.{lang}.md"
    )


def test_a_folder_without_pages_is_an_error(tmp_path: Path) -> None:
    assert message(tree(tmp_path, {"en/x.png": "x"})) == (
        "ROOT: no page matches `pattern={lang}/{concept}`, and no file ends in .html, .htm, .xhtml, .md, .markdown, "
        ".mdx, .rst, .txt; show in `pattern` where a path has the language code and the name of the page, "
        "as in docs/{lang}/{concept} or {concept}.{lang}.md"
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


@given(
    path=st.text("ab-._@/{}é", min_size=1, max_size=30),
    pattern=st.lists(
        st.sampled_from(["{lang}", "{concept}", "*", "**", "**/", "/", ".", "a", "-", "{", "}"]), max_size=8
    ).map("".join),
)
@relaxed
def test_any_pattern_matches_completely_or_is_an_error(path: str, pattern: str) -> None:
    try:
        left, right = folder._compile(pattern)
    except CorpusError:
        return
    match = folder._match(path, left, right)
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
