"""CirrusSearch dumps: articles have their own items, and no page gets the id of another."""

import bz2
import gzip
import json
import os
import tracemalloc
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from properties import up_to
from search_dumps import DANISH, Page, action, bulk, source, write_classic, write_shards

from cr5.corpus.documents import Document
from cr5.corpus.skipped import Skipped
from cr5.errors import CorpusError
from cr5.sources import files
from cr5.sources.wikipedia import search_index_dump
from cr5.sources.wikipedia.dump_reader import FileRange, FindItem, PageCounts, ReadingContext

PAGES = [
    Page(1, "Århus", "Århus er en by.", "Q25319", ["Infoboks by", "Kilder"]),
    Page(4, "Anna", "Anna kan være: …", "Q11879536", ["Flertydig"]),
    Page(7, "Bruger:Anna", "Hej.", "Q1", namespace=2),
    Page(8, "Ny side", "Endnu uden emne.", None),
    Page(11, "Tom side", None, "Q5"),
    Page(12, "Blank side", " \n", "Q6"),
    Page(13, '𝄞 & co./"nøgle"\\', "Tegnet 𝄞\tog \u2028 漢字 \\n", "Q42"),
]
WANTED = [(1, DANISH.document("Q25319", "Århus", "Århus er en by."))]
WANTED += [(7, DANISH.document("Q42", PAGES[-1].title, PAGES[-1].text or ""))]
COUNTS = {
    "pages": 7, "disambiguations": 1, "other namespaces": 1, "without a Wikidata item": 1, "without text": 2,
}  # fmt: skip
SIX = [Page(n, f"Side {n}", f"Teksten på side {n}.", f"Q{n}") for n in range(1, 7)]

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(lambda text: not text.isspace())
pages = st.builds(
    Page,
    st.integers(0, 10**18 - 1),
    texts,
    texts,
    st.integers(1, 10**10).map(lambda number: f"Q{number}"),
    st.just(()),
    st.just(0),
)
quick = settings(max_examples=up_to(80), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def read(path: Path, find_item: FindItem | None = None, **more: Any) -> list[tuple[int, Document]]:
    [file_range] = search_index_dump.split(path)
    return list(search_index_dump.articles(ReadingContext(file_range, DANISH, find_item, **more)))


def read_with_errors(path: Path, **more: Any) -> tuple[list[int], Skipped]:
    """The pages that are read, by the numbers in their titles, and the errors that were counted."""
    skipped = Skipped()
    found = read(path, handle_error=skipped.add, **more)
    for _, document in found:
        number = document.title.removeprefix("Side ")
        assert (document.concept, document.text) == (f"Q{number}", f"Teksten på side {number}.")
    return [int(document.concept[1:]) for _, document in found], skipped


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    return tmp_path / "x.json"


def rows(*pages: Page) -> list[str]:
    return [line for page in pages for line in (action(page), source(page))]


def put(path: Path, *given: str | bytes) -> Path:
    path.write_bytes(b"".join((line.encode() if isinstance(line, str) else line) + b"\n" for line in given))
    return path


# What is published


def test_the_classic_layout_gives_its_articles_and_counts_other_pages(tmp_path: Path) -> None:
    path = write_classic(tmp_path, PAGES)
    assert path.name == "dawiki-20251229-cirrussearch-content.json.gz"
    page_counts: PageCounts = Counter()
    assert read(path, page_counts=page_counts) == WANTED
    assert page_counts == COUNTS


def test_the_layout_of_2025_gives_the_same_articles_from_many_files(tmp_path: Path) -> None:
    paths = write_shards(tmp_path, PAGES, shards=3)
    assert paths[0].relative_to(tmp_path) == Path("index_name=dawiki_content/dawiki_content-20260816-00000.json.bz2")
    page_counts: PageCounts = Counter()
    found = [read(path, page_counts=page_counts) for path in paths]
    assert found == [[(1, WANTED[0][1]), (3, WANTED[1][1])], [], []]
    assert page_counts == COUNTS


def test_a_file_is_not_split() -> None:
    assert search_index_dump.split(Path("a/b.json.bz2")) == [FileRange("a/b.json.bz2", 0, None)]


@pytest.mark.parametrize("empty", ["x.json.gz", "x.json.bz2", "x.json"])
def test_an_empty_shard_has_no_articles(tmp_path: Path, empty: str) -> None:
    nothing = {".gz": gzip.compress(b""), ".bz2": bz2.compress(b""), ".json": b""}
    (tmp_path / empty).write_bytes(nothing[Path(empty).suffix])
    assert read(tmp_path / empty) == []


@given(st.lists(pages, max_size=5), st.booleans())
@quick
def test_random_articles_are_read_unchanged(plain: Path, given: list[Page], classic: bool) -> None:
    plain.write_bytes(bulk(given, classic=classic))
    wanted = [DANISH.document(page.item or "", page.title, page.text or "") for page in given]
    assert [document for _, document in read(plain)] == wanted


def test_blank_lines_and_any_line_ends_are_accepted(plain: Path) -> None:
    content = bulk(SIX)
    for written in (content, content.rstrip(), content.replace(b"\n", b"\r\n"), content.replace(b"\n", b"\n \n\n")):
        plain.write_bytes(b"\n" + written)
        assert read_with_errors(plain) == ([1, 2, 3, 4, 5, 6], Skipped())


def test_a_delete_action_has_no_second_line(plain: Path) -> None:
    put(plain, *rows(SIX[0]), '{"delete":{"_id":"9"}}', *rows(SIX[1]), '{ "create" : {"_id": 3}}', source(SIX[2]))
    assert [number for number, _ in read(plain)] == [1, 3, 4]


# Items and disambiguations


def test_the_item_of_the_record_takes_precedence_over_the_item_table(plain: Path) -> None:
    looked_up = []

    def find(page: int, title: str) -> tuple[str, bool] | None:
        looked_up.append((page, title))
        return {1: ("Q100", False), 8: ("Q8", False), 13: ("", True)}.get(page)

    plain.write_bytes(bulk(PAGES))
    page_counts: PageCounts = Counter()
    found = [(document.title, document.concept) for _, document in read(plain, find, page_counts=page_counts)]
    # With an item table, templates do not make a page a disambiguation page.
    assert found == [("Århus", "Q25319"), ("Anna", "Q11879536"), ("Ny side", "Q8")]
    assert page_counts["disambiguations"] == 1
    assert looked_up == [(page.id, page.title) for page in PAGES if page.namespace == 0]


@pytest.mark.parametrize("item", [None, "", "q42", "Q0", "P31", "Q42x", 42, ["Q42"]])
def test_an_invalid_item_is_ignored(plain: Path, item: object) -> None:
    put(plain, action(SIX[0]), source(SIX[0], wikibase_item=item))
    page_counts: PageCounts = Counter()
    assert read(plain, page_counts=page_counts) == []
    assert page_counts == {"pages": 1, "without a Wikidata item": 1}


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (["Template:Disambiguation"], 1),
        (["Vorlage:Kasten", "Vorlage:Begriffsklärung"], 1),
        (["Skabelon:Flertydig"], 1),
        (["틀:동음이의"], 1),
        (["Template:Place_name_disambiguation"], 1),
        (["Flertydig"], 1),
        (["Template:About", "Skabelon:Flertydighed"], 0),
        ([], 0),
        (["Template:", "", 7, None], 0),
        (None, 0),
        ("Template:Disambiguation", 0),
    ],
)
def test_without_an_item_table_templates_mark_disambiguation_pages(
    plain: Path, template: object, expected: int
) -> None:
    put(plain, action(SIX[0]), source(SIX[0], template=template))
    page_counts: PageCounts = Counter()
    assert len(read(plain, page_counts=page_counts)) == 1 - expected
    assert page_counts["disambiguations"] == expected


def test_a_record_without_namespace_is_an_article_and_one_without_text_is_empty(plain: Path) -> None:
    bare = {"title": "Side 1", "wikibase_item": "Q1"}
    put(plain, action(SIX[0]), json.dumps(bare), action(SIX[0]), json.dumps(bare | {"text": "Teksten på side 1."}))
    assert read_with_errors(plain) == ([1], Skipped())


# Going on


def test_skip_resumes_exactly_after_a_record(plain: Path) -> None:
    broken = [action(SIX[3]), "{", "stray", *rows(SIX[4]), '{"delete":{"_id":"9"}}', action(SIX[4]), *rows(SIX[5])]
    put(plain, *rows(*PAGES, SIX[0]), b"\xff", *broken, "stray", "stray", action(SIX[1]))
    whole: PageCounts = Counter()
    everything = Skipped()
    found = read(plain, page_counts=whole, handle_error=everything.add)
    assert everything.counts == {"invalid UTF-8": 1, "broken JSON": 1, "stray line": 2, "missing line": 2}
    for stop in range(len(found) + 1):
        page_counts: PageCounts = Counter()
        skipped = Skipped()
        first = list(
            islice(
                search_index_dump.articles(
                    ReadingContext(FileRange(str(plain)), DANISH, page_counts=page_counts, handle_error=skipped.add)
                ),
                stop,
            )
        )
        skip = first[-1][0] if first else 0
        rest = read(plain, page_counts=page_counts, handle_error=skipped.add, skip=skip)
        assert first + rest == found
        assert page_counts == whole
        assert skipped.counts == everything.counts


def test_skipped_records_are_not_parsed(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain.write_bytes(bulk(SIX))
    parsed = []
    loads = json.loads

    def counted(text: str) -> object:
        parsed.append(text)
        return loads(text)

    monkeypatch.setattr(json, "loads", counted)
    assert [number for number, _ in read(plain, skip=4)] == [5, 6]
    assert len(parsed) == 4
    assert read(plain, skip=100) == []
    assert len(parsed) == 4


# Damaged records


def broken_lines() -> list[tuple[str | bytes, str | bytes, str, str]]:
    first, line = action(SIX[1]), source(SIX[1])
    again = "; download it again"
    return [
        (first, line[:20], "broken JSON", "4: broken JSON, unterminated string starting at column 16" + again),
        (first, "nothing", "broken JSON", "4: broken JSON, expecting value at column 1" + again),
        (first, "[1]", "broken JSON", "4: a list is not a JSON object" + again),
        (first, '"' + "x" * 50 + '"', "broken JSON", f"4: '{'x' * 50}' is not a JSON object" + again),
        (first, "[" * 10**5, "broken JSON", "4: broken JSON, nested too deeply or a number too long" + again),
        (first, '{"a":' + "9" * 5000, "broken JSON", "4: broken JSON, nested too deeply or a number too long" + again),
        (first, "{}", "missing title", "4: the page has no title" + again),
        (first, source(SIX[1], title=""), "missing title", "4: the page has no title" + again),
        (first, source(SIX[1], title=7), "wrong type", "4: the title is not a string but 7" + again),
        (first, source(SIX[1], text=["x"]), "wrong type", "4: the text is not a string but a list" + again),
        (
            first,
            source(SIX[1], text="x\ud800"),
            "lone surrogate",
            "4: the text contains a lone surrogate, \\ud800; remove it",
        ),
        (
            first,
            b"\xff" + line.encode(),
            "invalid UTF-8",
            "4: byte 0xff at position 1 is not UTF-8; convert the file, e.g. with iconv -f windows-1252 -t utf-8",
        ),
        (
            b"\xff" + first.encode(),
            line,
            "invalid UTF-8",
            "3: byte 0xff at position 1 is not UTF-8; convert the file, e.g. with iconv -f windows-1252 -t utf-8",
        ),
        ('{"index":{"_id":"2"}', line, "broken JSON", "3: broken JSON, expecting ',' delimiter at column 21" + again),
        ('{"index":{}}', line, "no page id", "3: null is not a page id" + again),
        ('{"index":{"_id":"x"}}', line, "no page id", "3: 'x' is not a page id" + again),
        ('{"index":{"_id":-2}}', line, "no page id", "3: -2 is not a page id" + again),
        ('{"index":{},"index":[]}', line, "no page id", "3: null is not a page id" + again),
        ('{"update":{"_id":"2"}}', '{"doc":{}}', "missing title", "4: the page has no title" + again),
        ('{"indx":{"_id":"2"}}', line, "stray line", "3: neither an action nor the page after one" + again),
        (first, "", "missing line", "3: the line with the page is missing" + again),
        ("", line, "stray line", "4: neither an action nor the page after one" + again),
        (first + line, "", "missing line", "3: the line with the page is missing" + again),
    ]


@pytest.mark.parametrize(("first", "second", "reason", "words"), broken_lines())
def test_a_damaged_record_is_reported_and_the_next_one_read(
    plain: Path, first: str | bytes, second: str | bytes, reason: str, words: str
) -> None:
    put(plain, *rows(SIX[0]), first, second, *rows(*SIX[2:]))
    found, skipped = read_with_errors(plain)
    assert found == [1, 3, 4, 5, 6]
    assert (skipped.counts, skipped.examples) == ({reason: 1}, {reason: f"{plain}:{words}"})
    with pytest.raises(CorpusError) as caught:
        read(plain)
    assert str(caught.value) == f"{plain}:{words}"


def test_a_line_that_is_too_long_is_reported_and_the_next_one_read(
    plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_LINE_BYTES", 1 << 20)
    for long in (1, 2, 3):
        given = rows(*SIX[:3])
        given[long] = given[long][:-1] + " " * (1 << 21) + "}"
        put(plain, *given)
        found, skipped = read_with_errors(plain)
        assert found == [n for n in (1, 2, 3) if n != long // 2 + 1]
        assert skipped.examples == {"line too long": f"{plain}:{long + 1}: a line of more than 1 MB; break it up"}


@given(st.sets(st.integers(0, 11)), st.sets(st.integers(0, 11)))
@quick
def test_no_page_gets_the_id_of_another_whatever_happens_to_one_line(
    plain: Path, lost: set[int], broken: set[int]
) -> None:
    # Of two neighbours, an action of the one and a page of the other may be lost, but not both without a trace.
    given = rows(*SIX)
    gone = {n for n in lost if not {n - 1, n + 1} & lost}
    kept = [line[:-2] if n in broken else line for n, line in enumerate(given) if n not in gone]
    put(plain, *kept)
    seen = {}

    def find(page: int, title: str) -> tuple[str, bool]:
        seen[page] = title
        return f"Q{page}", False

    read(plain, find, handle_error=Skipped().add)
    assert seen == {page: f"Side {page}" for page in seen}
    assert set(seen) == {n + 1 for n in range(6) if not {2 * n, 2 * n + 1} & (gone | broken)}


@given(st.lists(st.sampled_from(["{", "}", '"index"', ":", "\n", '{"_id":"1"}', "[", '"title"', "\0", "é", "1", ","])))
@quick
def test_arbitrary_text_gives_pages_or_errors(plain: Path, signs: list[str]) -> None:
    plain.write_text("".join(signs), encoding="utf-8")
    read(plain, handle_error=Skipped().add)


@given(st.binary(max_size=200), st.integers(0, 400))
@quick
def test_arbitrary_bytes_give_pages_or_errors(plain: Path, noise: bytes, place: int) -> None:
    content = bulk(SIX[:2])
    plain.write_bytes(content[:place] + noise + content[place:])
    read(plain, handle_error=Skipped().add)


# What is cut


@pytest.mark.parametrize("kind", ["gz", "bz2"])
def test_a_file_cut_at_any_byte_gives_the_pages_before_and_an_error(tmp_path: Path, kind: str) -> None:
    path = write_classic(tmp_path, SIX) if kind == "gz" else write_shards(tmp_path, SIX, shards=1)[0]
    counts = []
    for cut in [*range(path.stat().st_size - 1, 1, -1), 0]:  # one byte is no longer gzip
        os.truncate(path, cut)
        found, skipped = read_with_errors(path)
        assert found == [1, 2, 3, 4, 5, 6][: len(found)]
        assert skipped.examples == {
            "unreadable file": f"{path}: truncated, the compressed data has no end; copy or download it again"
        }
        counts.append(len(found))
    assert counts == sorted(counts, reverse=True)
    assert (counts[0], counts[-1]) == (6, 0)
    with pytest.raises(CorpusError) as caught:
        read(path)
    assert str(caught.value) == f"{path}: truncated, the compressed data has no end; copy or download it again"


def test_a_plain_file_cut_at_any_byte_gives_no_wrong_page(plain: Path) -> None:
    first, both = (len(bulk(SIX[:n])) for n in (1, 2))
    plain.write_bytes(bulk(SIX[:2]))
    for cut in range(both, -1, -1):
        os.truncate(plain, cut)
        found, skipped = read_with_errors(plain)
        assert found == [1, 2][: len(found)]
        assert skipped.total == (0 if cut in (0, first - 1, first, both - 1, both) else 1)


def test_damage_within_a_file_is_reported(tmp_path: Path) -> None:
    path = write_classic(tmp_path, SIX)
    path.write_bytes(path.read_bytes()[:40] + b"\xff" * 40)
    found, skipped = read_with_errors(path)
    assert found == []
    assert list(skipped.counts) == ["unreadable file"]
    assert skipped.examples["unreadable file"].startswith(f"{path}: corrupt, ")


def test_a_missing_file_is_always_an_error(tmp_path: Path) -> None:
    with pytest.raises(CorpusError) as caught:
        read_with_errors(tmp_path / "no.json.gz")
    assert str(caught.value) == f"{tmp_path / 'no.json.gz'}: cannot be read, no such file or directory; check the name"


@pytest.mark.slow
def test_memory_does_not_grow_with_garbage(plain: Path) -> None:
    plain.write_bytes(b"\xff\n" * 50_000)
    skipped = Skipped()
    tracemalloc.start()
    try:
        assert read(plain, handle_error=skipped.add) == []
        assert tracemalloc.get_traced_memory()[1] < 10**6
    finally:
        tracemalloc.stop()
    assert skipped.counts == {"invalid UTF-8": 50_000}


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    def peak(count: int) -> int:
        path = tmp_path / f"{count}.json"
        path.write_bytes(bulk([Page(1, "Side", "lang tekst " * 5000, "Q1")]) * count)
        tracemalloc.start()
        try:
            assert sum(1 for _ in search_index_dump.articles(ReadingContext(FileRange(str(path)), DANISH))) == count
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(200) < 1.5 * peak(10)
