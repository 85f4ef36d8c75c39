"""XML dumps: each page is read once however the file is split."""

import bz2
import gzip
import lzma
from collections import Counter
from itertools import pairwise
from pathlib import Path

import dumps
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xml_pages import DANISH, MINIATURE, Page, as_read, chunks_of, damaged, find, read, read_pages, relaxed

from cr5.corpus.documents import Document
from cr5.corpus.skipped import Skipped
from cr5.sources.wikipedia.dump_reader import (
    DISAMBIGUATION,
    EMPTY,
    NAMESPACE,
    NO_ITEM,
    PAGES,
    REDIRECT,
    FileRange,
    ReadingContext,
)
from cr5.sources.wikipedia.wikitext import HIDDEN_PREFIXES
from cr5.sources.wikipedia.xml_dump import articles, read_hidden_prefixes, split

names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r")) | st.text("<>&;\"'#xlt=/ é𝄞\n")
wikis = st.lists(
    st.builds(
        dumps.Page,
        st.integers(0, 10**9),
        names,
        texts,
        st.sampled_from([0, 0, 1, 10, 828]),
        st.just("") | names,
        st.sampled_from(["wikitext", "json"]),
        st.lists(texts, max_size=2).map(tuple),
    ),
    max_size=9,
)


def extract(file_range: FileRange, skip: int = 0) -> tuple[list[tuple[int, Document]], Counter[str]]:
    page_counts: Counter[str] = Counter()
    return list(articles(ReadingContext(file_range, DANISH, find, page_counts=page_counts, skip=skip))), page_counts


# Articles


@pytest.mark.parametrize("kind", ["xml", "xml.bz2", "multistream.xml.bz2"])
def test_articles_with_an_item_become_documents_and_other_pages_are_counted(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"dawiki-20261101-pages-articles-{kind}"
    content = dumps.multistream(MINIATURE, per_stream=3) if "multi" in kind else dumps.pages_xml(MINIATURE)
    path.write_bytes(bz2.compress(content) if kind == "xml.bz2" else content)
    found, page_counts = extract(FileRange(str(path)))
    assert found == [
        (1, Document("Q64", "da", "København er Danmarks hovedstad.", "København", DANISH.url("København"))),
        (3, Document("Q144", "da", 'Tegnet 𝄞 og 𠜎 < er "her".', 'Hund & "kat" <3', DANISH.url('Hund & "kat" <3'))),
        (9, Document("Q11", "da", "En skabelon uden slut og et link uden slut og fed", "Brudt", DANISH.url("Brudt"))),
    ]
    assert page_counts == {PAGES: 13, NAMESPACE: 2, REDIRECT: 2, DISAMBIGUATION: 2, NO_ITEM: 1, EMPTY: 3}


@pytest.mark.parametrize("skip", range(15))
def test_skip_resumes_exactly_where_an_earlier_run_stopped(tmp_path: Path, skip: int) -> None:
    path = tmp_path / "x.xml.bz2"
    path.write_bytes(dumps.multistream(MINIATURE, per_stream=4))
    everything, whole = extract(FileRange(str(path)))
    found, page_counts = extract(FileRange(str(path)), skip)
    assert found == [(number, document) for number, document in everything if number > skip]
    path.write_bytes(dumps.multistream(MINIATURE[:skip]))
    assert page_counts + extract(FileRange(str(path)))[1] == whole


def test_an_error_is_reported_once_by_runs_that_stop_and_resume(tmp_path: Path) -> None:
    parts = dumps.streams([dumps.Page(n, f"Side {n}", "Ord.") for n in range(20)], per_stream=4)
    packed = list(map(bz2.compress, parts))
    packed[2] = damaged(packed[2])
    path = tmp_path / "x.xml.bz2"
    path.write_bytes(b"".join(packed))

    def reported(skip: int, until: int) -> Counter[str]:
        skipped, page_counts = Skipped(), Counter[str]()
        every = articles(
            ReadingContext(FileRange(str(path)), DANISH, lambda *_: ("Q1", False), page_counts, skip, skipped.add)
        )
        for number, _ in every:
            if number == until:
                break
        return Counter(skipped.counts) + page_counts

    for stop in range(1, 17):
        assert reported(0, stop) + reported(stop, 99) == {"damaged stream": 1, PAGES: 16}


def test_the_wikis_own_names_of_the_file_and_category_namespaces_are_hidden(tmp_path: Path) -> None:
    path = tmp_path / "x.xml.bz2"
    text = "[[Restr dielfennañ:Ki|ki]][[Rummad dielfennañ:Chas|chas]]Ar c'hi."
    namespaces = {0: "", 6: "Restr dielfennañ", 14: "Rummad dielfennañ", 15: "Kaozeadenn"}
    path.write_bytes(dumps.multistream([dumps.Page(1, "Ki", text)], "br", namespaces))
    assert read_hidden_prefixes(path) == HIDDEN_PREFIXES | {"restr dielfennañ", "rummad dielfennañ"}
    begin = path.read_bytes().index(b"BZh", 1)
    for file_range in (FileRange(str(path)), FileRange(str(path), begin)):
        [(number, document)], _ = extract(file_range)
        assert (number, document.text) == (1, "Ar c'hi.")


def test_an_item_can_be_looked_up_by_title(tmp_path: Path) -> None:
    path = tmp_path / "x.xml"
    path.write_bytes(dumps.pages_xml([dumps.Page(1, "Hund & kat", "Ord."), dumps.Page(2, "Ko", "Ord.")]))
    sitelinks = {"Hund & kat": ("Q1", False)}
    found = articles(ReadingContext(FileRange(str(path)), DANISH, lambda _, title: sitelinks.get(title)))
    assert [document.concept for _, document in found] == ["Q1"]


# Pages, however the file is written


@pytest.mark.slow
@given(wikis, st.integers(1, 4), st.integers(1, 400), st.integers(1, 300))
@relaxed
def test_random_pages_are_read_once_and_unchanged_for_any_compression_and_split(
    tmp_path: Path, wiki: list[dumps.Page], per_stream: int, size: int, chunk: int
) -> None:
    expected = list(map(as_read, wiki))
    xml = dumps.pages_xml(wiki)
    contents = {
        "x.xml": xml,
        "x.xml.bz2": bz2.compress(xml),
        "x.xml.gz": gzip.compress(xml, 1),
        "x.xml.xz": lzma.compress(xml, preset=0),
        "x.bz2": dumps.multistream(wiki, per_stream=per_stream),
    }
    with chunks_of(max(chunk, 11), chunk):
        for name, content in contents.items():
            assert read(tmp_path / name, content) == expected
        ranges = split(tmp_path / "x.bz2", size)
        assert [page for file_range in ranges for page in read_pages(file_range)] == expected


@pytest.mark.parametrize("per_stream", [1, 2, 5])
def test_ranges_of_any_size_give_every_page_once(tmp_path: Path, per_stream: int) -> None:
    path = tmp_path / "x.xml.bz2"
    path.write_bytes(dumps.multistream(MINIATURE, per_stream=per_stream))
    total = path.stat().st_size
    for size in [1, *range(2, total, 71), total, total + 1]:
        cut = split(path, size)
        assert cut[0].begin == 0
        assert all(before.end == after.begin for before, after in pairwise(cut))
        assert cut[-1].end is None
        assert [page for file_range in cut for page in read_pages(file_range)] == list(map(as_read, MINIATURE))


def test_a_chunk_may_end_anywhere(tmp_path: Path) -> None:
    xml = dumps.pages_xml(MINIATURE)
    for chunk in range(1, 40):
        with chunks_of(chunk):
            assert read(tmp_path / "x.xml", xml) == list(map(as_read, MINIATURE))


def test_only_multistream_files_are_split(tmp_path: Path) -> None:
    xml = dumps.pages_xml(MINIATURE)
    path = tmp_path / "x.xml.bz2"
    path.write_bytes(bz2.compress(xml))
    assert split(path, 100) == [FileRange(str(path))]
    elsewhere = [
        bz2.compress(xml[i : i + 700]) for i in range(0, len(xml), 700)
    ]  # cut within pages, as parallel compressors do
    path.write_bytes(b"".join(elsewhere))
    assert split(path, 100) == [FileRange(str(path))]
    assert list(read_pages(FileRange(str(path)))) == list(map(as_read, MINIATURE))
    for content in (b"", b"BZh9", b"no bz2", bz2.compress(b""), bz2.compress(xml)[:50]):
        path.write_bytes(content)
        assert split(path, 100) == [FileRange(str(path))]
    plain = tmp_path / "x.xml"
    plain.write_bytes(xml)
    assert split(plain, 100) == [FileRange(str(plain))]


def test_concatenated_dumps_are_read_as_one(tmp_path: Path) -> None:
    content = dumps.multistream(MINIATURE[:5]) + bz2.compress(b"") + dumps.multistream(MINIATURE[5:])
    assert read(tmp_path / "x.bz2", content) == list(map(as_read, MINIATURE))


def test_an_empty_dump_has_no_pages(tmp_path: Path) -> None:
    assert read(tmp_path / "x.xml", dumps.pages_xml([])) == []
    assert read(tmp_path / "x.xml.bz2", dumps.multistream([])) == []
    assert extract(FileRange(str(tmp_path / "x.xml.bz2"))) == ([], {})


@pytest.mark.parametrize(
    ("element", "text"),
    [
        ('<text xml:space="preserve" sha1="x" bytes="1">a&#10;b</text>', "a\nb"),
        ("<text>&lt;ref&gt; &amp;lt; &amp;amp; &quot;&apos;</text>", "<ref> &lt; &amp; \"'"),
        ("<text>&#38;lt; &amp;#10; &#x1D11E;&#120;</text>", "&lt; &#10; 𝄞x"),
        ("<text>&#xD800; &#0; &#1114112; &#99999999999;</text>", "\ufffd \ufffd \ufffd &#99999999999;"),
        ("<text>&nbsp; & AT&T;</text>", "&nbsp; & AT&T;"),
        ('<text bytes="9" sha1="x" deleted="deleted" />', ""),
        ('<text bytes="0"/>', ""),
        ("<text/>", ""),
        ("<text></text>", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_every_form_of_the_text_element_is_read(tmp_path: Path, element: str, text: str) -> None:
    page = "<page><ns> 0 </ns><id>7</id><title>A&amp;B</title><revision><id>1</id><contributor><username>x</username>"
    page += f"<id>3</id></contributor><comment>&lt;text&gt;no&lt;/text&gt;</comment>{element}</revision></page>"
    content = b'<?xml version="1.0"?>\n' + dumps.header() + page.encode() + dumps.FOOTER
    assert read(tmp_path / "x.xml", content) == [Page(7, 0, "A&B", False, "wikitext", text)]


def test_the_last_revision_is_used_even_if_it_is_empty(tmp_path: Path) -> None:
    wiki = [dumps.Page(1, "A", "now", earlier=("then", "later")), dumps.Page(2, "B", "", earlier=("then",))]
    assert [page.text for page in read(tmp_path / "x.xml", dumps.pages_xml(wiki))] == ["now", ""]
