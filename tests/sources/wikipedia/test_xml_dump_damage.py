"""XML dumps: damage affects only the pages that it hits, and is reported."""

import bz2
import gzip
import lzma
import random
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import dumps
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from properties import up_to
from timing import seconds
from xml_pages import DANISH, MINIATURE, as_read, chunks_of, damaged, find, read, read_pages, relaxed

from cr5.corpus.skipped import Skipped
from cr5.errors import CorpusError
from cr5.sources.wikipedia import xml_dump
from cr5.sources.wikipedia.dump_reader import PAGES, FileRange, ReadingContext
from cr5.sources.wikipedia.wikitext import HIDDEN_PREFIXES
from cr5.sources.wikipedia.xml_dump import articles, read_hidden_prefixes, split


def message(path: Path, content: bytes) -> str:
    with pytest.raises(CorpusError) as caught:
        read(path, content)
    return str(caught.value)


@pytest.mark.parametrize("content", [b"<html>404</html>", b"a" * 3_000_000, b"<medi"])
def test_a_file_that_is_not_a_dump_is_an_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.xml"
    shown = f"{path}: not a pages-articles dump, because it contains no <mediawiki>; check the name"
    assert message(path, content) == shown
    packed = tmp_path / "x.xml.bz2"
    assert message(packed, bz2.compress(content)) == shown.replace(str(path), str(packed))
    assert message(packed, content) == f"{packed}: neither a pages-articles dump nor any bz2 file; check the name"


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    for path in (tmp_path / "x.xml", tmp_path / "x.xml.bz2"):
        shown = f"{path}: cannot be read, no such file or directory; check the name"
        for action in (
            lambda path=path: list(read_pages(FileRange(str(path)))),
            lambda path=path: read_hidden_prefixes(path),
        ):
            with pytest.raises(CorpusError) as caught:
                action()
            assert str(caught.value) == shown


def test_the_error_for_a_cut_file_says_where(tmp_path: Path) -> None:
    path = tmp_path / "x.xml"
    xml = dumps.pages_xml(MINIATURE)
    for cut, where in [
        (0, "before the first page"),
        (xml.index(b"<page>") + 3, "before the first page"),
        (xml.index(b"<title>Kbh"), "after the page 'København'"),
        (xml.index(b"<id>2</id>"), "within the page 'Kbh'"),
        (xml.index(b"</mediawiki>"), "after the page 'Gammel'"),
        (len(xml) - 2, "after the page 'Gammel'"),
    ]:
        shown = f"{path}: truncated {where}; download it again"
        assert message(path, xml[:cut]) == shown
        packed = path.with_name("x.xml.gz")
        assert message(packed, gzip.compress(xml[:cut])) == shown.replace(str(path), str(packed))
    content = dumps.multistream(MINIATURE, per_stream=2)
    path = tmp_path / "x.xml.bz2"
    starts = [match.start() for match in xml_dump._STREAM_START.finditer(content)]
    assert message(path, content[: starts[2] + 99]) == f"{path}: truncated after the page 'Kbh'; download it again"
    assert message(path, content[: starts[0] + 99]) == f"{path}: truncated before the first page; download it again"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["xml", "xml.gz", "xml.xz", "xml.bz2", "multistream.bz2"])
def test_a_file_cut_at_any_byte_gives_the_pages_before_and_an_error(tmp_path: Path, kind: str) -> None:
    wiki = [dumps.Page(n, f"Side {n}", "Ord 𝄞 " * n) for n in range(3)]
    xml, path = dumps.pages_xml(wiki, namespaces={6: "Fil"}), tmp_path / kind
    pack: dict[str, Callable[[bytes], bytes]]
    pack = {"xml": bytes, "xml.gz": gzip.compress, "xml.xz": lzma.compress, "xml.bz2": bz2.compress}
    content = pack[kind](xml) if kind in pack else dumps.multistream(wiki, namespaces={6: "Fil"}, per_stream=1)
    expected = list(map(as_read, wiki))
    for cut in range(0, len(content), 3 if kind == "xml" else 1):
        skipped = Skipped()
        try:
            found = read(path, content[:cut], skipped.add)
        except CorpusError:
            continue
        assert found == expected[: len(found)]
        assert skipped.counts == {"truncated": 1} or found == expected
        if kind == "multistream.bz2" and cut % 7 == 0:
            counts = Skipped()
            every = [
                page for file_range in split(path, 300) for page in read_pages(file_range, handle_error=counts.add)
            ]
            assert (every, counts.counts) == (found, skipped.counts)


def test_a_damaged_stream_loses_only_its_own_pages(tmp_path: Path) -> None:
    wiki = [dumps.Page(n, f"Side {n}", f"Ord {n}.") for n in range(40)]
    parts = list(map(bz2.compress, dumps.streams(wiki, per_stream=8)))
    for number in range(len(parts)):
        content = b"".join([*parts[:number], damaged(parts[number]), *parts[number + 1 :]])
        at = sum(map(len, parts[:number]))
        path, skipped = tmp_path / "x.xml.bz2", Skipped()
        assert read(path, content, skipped.add) == [
            as_read(page) for page in wiki if not 0 < number < 6 or page.id // 8 != number - 1
        ]
        assert list(skipped.examples.values()) == [f"{path}: damaged in the bz2 stream at byte {at}; download it again"]
        assert skipped.total == 1


@given(st.data())
@relaxed
def test_a_wrong_byte_loses_at_most_one_stream_and_is_always_reported(tmp_path: Path, data: st.DataObject) -> None:
    wiki = [dumps.Page(n, f"Side {n}", f"Ord {n}.") for n in range(12)]
    parts = list(map(bz2.compress, dumps.streams(wiki, per_stream=3, namespaces={6: "Fil"})))
    content = bytearray(b"".join(parts))
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    hit = next(i for i in range(len(parts)) if sum(map(len, parts[: i + 1])) > place) - 1
    path, skipped = tmp_path / "x.xml.bz2", Skipped()
    path.write_bytes(content)
    size = data.draw(st.integers(20, 2000))
    cut = [FileRange(str(path), begin, begin + size) for begin in range(0, len(content), size)]
    found = [page for file_range in cut for page in read_pages(file_range, handle_error=skipped.add)]
    assert set(map(as_read, wiki)) - set(found) <= {as_read(page) for page in wiki if page.id // 3 == hit}
    assert len(found) == len(set(found))
    assert skipped.total == 1 or (skipped.total == 0 and found == list(map(as_read, wiki)))


def test_a_stream_after_a_damaged_end_is_not_lost(tmp_path: Path) -> None:
    parts = list(map(bz2.compress, dumps.streams([dumps.Page(n, f"Side {n}", "Ord.") for n in range(3)], per_stream=1)))
    parts[1] = parts[1][:-9] + bytes(9)
    path, at = tmp_path / "x.xml.bz2", len(parts[0])
    path.write_bytes(b"".join(parts))
    for cut in range(at + 1, at + len(parts[1]) + 1):
        skipped = Skipped()
        both = [FileRange(str(path), 0, cut), FileRange(str(path), cut)]
        found = [[page.id for page in read_pages(file_range, handle_error=skipped.add)] for file_range in both]
        assert found == [[], [1, 2]]
        assert skipped.counts == {"damaged stream": 1}


def test_bytes_that_only_look_like_a_stream_are_not_one(tmp_path: Path) -> None:
    noise = random.Random(5).randbytes(3000).hex()
    parts = list(map(bz2.compress, dumps.streams([dumps.Page(1, "A", noise), dumps.Page(2, "B", "b")], per_stream=1)))
    parts[1] = parts[1][:1500] + b"BZh91AY&SY" + parts[1][1510:]
    path, at = tmp_path / "x.xml.bz2", len(parts[0])
    path.write_bytes(b"".join(parts))
    skipped = Skipped()
    cut = [FileRange(str(path), 0, at + 1000), FileRange(str(path), at + 1000)]
    assert [[page.title for page in read_pages(file_range, handle_error=skipped.add)] for file_range in cut] == [
        [],
        ["B"],
    ]
    assert skipped.examples == {
        "damaged stream": f"{path}: damaged in the bz2 stream at byte {at}; download it again",
    }


def test_a_damaged_gzip_file_is_an_error(tmp_path: Path) -> None:
    content = gzip.compress(dumps.pages_xml([dumps.Page(1, "A", random.Random(1).randbytes(9000).hex())]))
    path = tmp_path / "x.xml.gz"
    assert message(path, content[:5000] + bytes(900) + content[5900:]).startswith(f"{path}: corrupt, ")
    assert read_hidden_prefixes(path) == HIDDEN_PREFIXES | {"fil", "kategori"}


def test_a_page_that_is_not_utf8_is_reported_and_skipped(tmp_path: Path) -> None:
    path = tmp_path / "x.xml"
    for title, text, shown in [("BAD", "b", "\ufffd"), ("A & B", "b BAD", "A & B")]:
        wiki = [dumps.Page(1, "Før", "a"), dumps.Page(2, title, text), dumps.Page(3, "Efter", "c")]
        content = dumps.pages_xml(wiki).replace(b"BAD", b"\xff")
        skipped = Skipped()
        assert [page.title for page in read(path, content, skipped.add)] == ["Før", "Efter"]
        assert skipped.examples == {
            "invalid UTF-8": f"{path}: byte 0xff in the page '{shown}' is not UTF-8; download it again"
        }
        page_counts: Counter[str] = Counter()
        every = articles(
            ReadingContext(FileRange(str(path)), DANISH, lambda *_: ("Q1", False), page_counts, 0, skipped.add)
        )
        assert [number for number, _ in every] == [1, 3]
        assert page_counts == {PAGES: 3}


@pytest.mark.parametrize(
    ("tag", "shown"),
    [
        ("<title>A</title>", "a page has no title"),
        ("<ns>0</ns>", "the page 'A' has no namespace"),
        ("<id>5</id>", "the page 'A' has no id"),
    ],
)
def test_a_page_without_a_complete_header_is_reported_and_skipped(tmp_path: Path, tag: str, shown: str) -> None:
    path, skipped = tmp_path / "x.xml", Skipped()
    content = dumps.pages_xml([dumps.Page(5, "A", "a"), dumps.Page(6, "B", "b", 10)]).replace(
        f"    {tag}\n".encode(), b""
    )
    assert [page.title for page in read(path, content, skipped.add)] == ["B"]
    assert skipped.examples == {"incomplete page": f"{path}: {shown}; download it again"}


@pytest.mark.parametrize("chunk", [100, 5000, 10**6])
def test_a_page_that_is_too_large_is_reported_and_skipped(
    tmp_path: Path, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(xml_dump, "MAX_PAGE_BYTES", 1 << 20)
    wiki = [dumps.Page(1, "A", "a"), dumps.Page(2, "B & C", "b" * (3 << 19)), dumps.Page(3, "D", "d")]
    path, skipped = tmp_path / "x.xml", Skipped()
    with chunks_of(chunk):
        assert [page.title for page in read(path, dumps.pages_xml(wiki), skipped.add)] == ["A", "D"]
    assert skipped.examples == {
        "page too large": f"{path}: the page 'B & C' has more than 1 MB; download it again",
    }
    cut = dumps.pages_xml(wiki)[: 1 << 20] + b"b" * 5000
    with chunks_of(1 << 18):
        read(path, cut, skipped.add)
    assert skipped.examples["truncated"] == f"{path}: truncated after the page 'B & C'; download it again"


# Arbitrary input


@given(
    st.lists(
        st.sampled_from(
            [
                *(b"<page> </page> <title>A</title> <title> </title> <ns>0</ns> <id>1</id> <revision> </revision> "
                b"<text> <text/> </text> </mediawiki> <mediawiki> <redirect <redirect/> & &# &amp; ; < > \xff").split(),
                b"\n", "é".encode(),
            ]
        )
        | st.binary(max_size=4),
        max_size=40,
    ),
    st.integers(1, 9),
)  # fmt: skip
@settings(max_examples=up_to(200), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_arbitrary_bytes_give_the_same_result_for_any_chunk_size(
    tmp_path: Path, parts: list[bytes], chunk: int
) -> None:
    path, content = tmp_path / "x.xml", b"<mediawiki>" + b"".join(parts)
    outcomes = []
    for size in (chunk, 1 << 20):
        skipped, page_counts = Skipped(), Counter[str]()
        with chunks_of(size):
            found = read(path, content, skipped.add)
            every = articles(
                ReadingContext(FileRange(str(path)), DANISH, find, page_counts=page_counts, handle_error=Skipped().add)
            )
            outcomes.append((found, skipped, list(every), page_counts))
    assert outcomes[0] == outcomes[1]


@given(st.binary(max_size=200))
@relaxed
def test_arbitrary_bytes_instead_of_bz2_are_reported(tmp_path: Path, content: bytes) -> None:
    whole = dumps.multistream(MINIATURE[:2])
    for written in (content, b"BZh91AY&SY" + content, whole + content, whole[:700] + content + whole[700:]):
        skipped = Skipped()
        try:
            read(tmp_path / "x.bz2", written, skipped.add)
        except CorpusError:
            continue
        assert skipped.total or len(content) < 10


@pytest.mark.slow
@pytest.mark.parametrize("unit", [b"<page>", b"</page>", b"<page><title>", b"<page></page>", b"<", b"</mediawiki>"])
def test_the_time_is_linear_for_any_text(tmp_path: Path, unit: bytes) -> None:
    def read_long(length: int) -> None:
        read(tmp_path / "x.xml", b"<mediawiki>" + unit * (length // len(unit)), Skipped().add)

    limit = 10 * seconds(lambda: read_long(1 << 18)) + 0.1  # linear time would be 4 times as long, quadratic time 16
    assert seconds(lambda: read_long(1 << 20), limit) < limit


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.xml.bz2"
    stream = bz2.compress(dumps.page_xml(dumps.Page(1, "A", "ord " * 250_000)))
    path.write_bytes(bz2.compress(dumps.header()) + stream * 40 + bz2.compress(dumps.FOOTER))
    tracemalloc.start()
    try:
        assert sum(1 for _ in read_pages(FileRange(str(path)))) == 40
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 12 << 20
