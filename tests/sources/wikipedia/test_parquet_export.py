"""Parquet exports: articles come back with the items of a table beside them, and damage is named."""

import tracemalloc
from collections import Counter
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from properties import up_to
from search_dumps import DANISH, Page, write_export

from cr5.corpus.documents import Document
from cr5.corpus.skipped import Skipped
from cr5.errors import CorpusError
from cr5.sources.wikipedia import parquet_export
from cr5.sources.wikipedia.dump_reader import FileRange, PageCounts, ReadingContext

PAGES = [
    Page(1, "Århus", "Århus er en by.\n\n== Se også ==", "Q25319"),
    Page(4, "Anna", "Anna kan være: …"),
    Page(8, "Ny side", "Endnu uden emne."),
    Page(11, "Tom side", None, "Q5"),
    Page(12, "Blank side", " \n", "Q6"),
    Page(13, '𝄞 & co./"nøgle"\\', "Tegnet 𝄞\tog \u2028 漢字", "Q42"),
]
MANY = [Page(n, f"Side {n}", f"Teksten på side {n}. " * (n + 1), f"Q{n + 1}") for n in range(40)]
ITEMS = {page.id: page.item for page in PAGES}

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(lambda text: not text.isspace())
quick = settings(max_examples=up_to(50), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def find(page: int, title: str) -> tuple[str, bool] | None:
    if title == "Anna":
        return "Q11879536", True
    item = ITEMS.get(page)
    return item and (item, False)  # type: ignore[return-value]


def every(page: int, title: str) -> tuple[str, bool]:
    return f"Q{page + 1}", False


def read(path: Path | str, **more: Any) -> list[tuple[int, Document]]:
    defaults: dict[str, Any] = {"find_item": every}
    return list(parquet_export.articles(ReadingContext(FileRange(str(path)), DANISH, **(defaults | more))))


def wanted(pages: list[Page]) -> list[Document]:
    return [DANISH.document(page.item or "", page.title, page.text or "") for page in pages]


def error_message(path: Path) -> str:
    with pytest.raises(CorpusError) as caught:
        read(path)
    return str(caught.value)


def write(path: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


# Published exports


def test_an_export_gives_its_articles_and_counts_other_pages(tmp_path: Path) -> None:
    [path] = write_export(tmp_path, PAGES)
    assert path.relative_to(tmp_path) == Path("20231101.da/train-00000-of-00001.parquet")
    page_counts: PageCounts = Counter()
    assert read(path, find_item=find, page_counts=page_counts) == [(1, wanted(PAGES)[0]), (6, wanted(PAGES)[5])]
    assert page_counts == {"pages": 6, "disambiguations": 1, "without a Wikidata item": 1, "without text": 2}


def test_items_are_looked_up_by_id_and_title(tmp_path: Path) -> None:
    looked_up = []

    def spy(page: int, title: str) -> None:
        looked_up.append((page, title))

    [path] = write_export(tmp_path, PAGES)
    assert read(path, find_item=spy) == []
    assert looked_up == [(page.id, page.title) for page in PAGES]


def test_a_disambiguation_page_without_an_item_is_counted_as_one(tmp_path: Path) -> None:
    [path] = write_export(tmp_path, PAGES[:1])
    page_counts: PageCounts = Counter()
    assert read(path, find_item=lambda page, title: ("", True), page_counts=page_counts) == []
    assert page_counts == {"pages": 1, "disambiguations": 1}


def test_the_address_in_the_file_takes_precedence(tmp_path: Path) -> None:
    columns = {"id": ["1", "2"], "title": ["A b", "C d"], "text": ["a", "c"]}
    path = write(tmp_path / "x.parquet", **columns, url=["https://example.org/A", None])
    assert [document.url for _, document in read(path)] == [
        "https://example.org/A",
        "https://da.wikipedia.org/wiki/C_d",
    ]
    path = write(tmp_path / "y.parquet", **columns)
    assert read(path)[0][1].url == "https://da.wikipedia.org/wiki/A_b"


@given(st.lists(st.tuples(texts, texts), max_size=9), st.integers(1, 4), st.integers(0, 9))
@quick
def test_random_articles_are_read_unchanged(
    tmp_path: Path, given: list[tuple[str, str]], group: int, skip: int
) -> None:
    pages = [Page(n, title, text, f"Q{n + 1}") for n, (title, text) in enumerate(given)]
    [path] = write_export(tmp_path, pages, group=group)
    assert read(path) == list(enumerate(wanted(pages), 1))
    assert read(path, skip=skip) == list(enumerate(wanted(pages), 1))[skip:]


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint32(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_ids_and_texts_may_be_of_related_types(tmp_path: Path, kind: pa.DataType) -> None:
    text = pa.string() if pa.types.is_integer(kind) else kind
    columns = {"id": pa.array([7, 8]).cast(pa.int64() if pa.types.is_integer(kind) else pa.string()).cast(kind)}
    columns |= {name: pa.array(["é", "𝄞"]).cast(text) for name in ("title", "text")}
    found = [document for _, document in read(write(tmp_path / "x.parquet", **columns))]
    assert found == [DANISH.document("Q8", "é", "é"), DANISH.document("Q9", "𝄞", "𝄞")]


def test_an_empty_export_has_no_articles(tmp_path: Path) -> None:
    [path] = write_export(tmp_path, [])
    [file_range] = parquet_export.split(path)
    assert list(parquet_export.articles(ReadingContext(file_range, DANISH, find))) == []


# Ranges, and resuming


def test_ranges_share_the_row_groups_of_a_file(tmp_path: Path) -> None:
    [path] = write_export(tmp_path, MANY, group=3)
    assert parquet_export.split(path) == [FileRange(str(path), 0, 14)]
    ranges = parquet_export.split(path, range_bytes=1000)
    assert len(ranges) > 3
    assert [file_range.begin for file_range in ranges] == [0, *(file_range.end for file_range in ranges[:-1])]
    assert ranges[-1].end == 14
    found = [list(parquet_export.articles(ReadingContext(file_range, DANISH, every))) for file_range in ranges]
    assert [document for file_range in found for _, document in file_range] == wanted(MANY)
    for file_range in found:
        assert [number for number, _ in file_range] == list(range(1, len(file_range) + 1))


def test_skip_resumes_exactly_after_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_export, "BATCH_ROWS", 2)
    pages = MANY[:12]
    pages[4] = pages[4]._replace(title="")
    [path] = write_export(tmp_path, pages, group=5)
    file_range = FileRange(str(path), 0, 3)

    def some(
        page_counts: PageCounts, skipped: Skipped, skip: int, count: int | None = None
    ) -> list[tuple[int, Document]]:
        found = parquet_export.articles(
            ReadingContext(file_range, DANISH, every, page_counts=page_counts, skip=skip, handle_error=skipped.add)
        )
        return list(islice(found, count))

    whole, everything = Counter[str](), Skipped()
    found = some(whole, everything, 0)
    assert [number for number, _ in found] == [1, 2, 3, 4, *range(6, 13)]
    for stop in range(len(found) + 1):
        page_counts, skipped = Counter[str](), Skipped()
        first = some(page_counts, skipped, 0, stop)
        assert first + some(page_counts, skipped, first[-1][0] if first else 0) == found
        assert (page_counts, skipped) == (whole, everything)
    assert some(Counter(), Skipped(), 100) == []


# Damage


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (["text", "url"], "no column 'id' or 'title', only text, url; an export of Wikipedia has id, title and text"),
        (["id", "title"], "no column 'text', only id, title; an export of Wikipedia has id, title and text"),
        ([], "no column 'id' or 'title' or 'text', nor any other; an export of Wikipedia has id, title and text"),
        (["id", "title", "text", "text"], "column 'text' occurs 2 times; rename all but one"),
    ],
)
def test_missing_and_repeated_columns_are_errors(tmp_path: Path, columns: list[str], words: str) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array(["1"])] * len(columns), columns), path)
    assert error_message(path) == f"{path}: {words}"
    with pytest.raises(CorpusError):
        parquet_export.split(path)


def test_a_column_of_another_type_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", id=[1], title=["a"], text=[["a"]])
    assert error_message(path).startswith(f"{path}: column 'text' is list<")
    assert error_message(path).endswith(">, not string; write it as strings")
    path = write(tmp_path / "x.parquet", id=[1.5], title=["a"], text=["a"])
    assert error_message(path) == f"{path}: column 'id' is double, not string; write it as strings"


@pytest.mark.parametrize(
    ("row", "reason", "words"),
    [
        (["x" * 99, b"b"], "no page id or title", f"'{'x' * 60}…' is not a page id"),
        ([None, b"b"], "no page id or title", "'' is not a page id"),
        (["-1", b"b"], "no page id or title", "'-1' is not a page id"),
        (["2", b""], "no page id or title", "the page has no title"),
        (["2", None], "no page id or title", "the page has no title"),
        (["2", b"caf\xe9"], "invalid UTF-8", "the text is not UTF-8"),
    ],
)
def test_an_invalid_row_is_an_error_or_counted(tmp_path: Path, row: list[Any], reason: str, words: str) -> None:
    raw = pa.array([b"a", row[1], b"c"], pa.binary())
    title = pa.Array.from_buffers(pa.string(), 3, raw.buffers(), raw.null_count)
    path = tmp_path / "x.parquet"
    table = pa.table({"id": ["0", row[0], "2"], "title": title, "text": ["A", "B", "C"]})
    pq.write_table(table, path, row_group_size=1)
    skipped = Skipped()
    assert [document.text for _, document in read(path, handle_error=skipped.add)] == ["A", "C"]
    assert skipped.examples == {reason: f"{path}: row 2: {words}; download it again"}
    assert skipped.total == 1
    with pytest.raises(CorpusError) as caught:
        list(parquet_export.articles(ReadingContext(FileRange(str(path), 1, 2), DANISH, every)))
    assert str(caught.value) == f"{path}: row 2: {words}; download it again"


def test_a_cut_file_and_one_that_is_not_parquet_are_errors(tmp_path: Path) -> None:
    [path] = write_export(tmp_path, PAGES)
    whole = path.read_bytes()
    for content in [*(whole[:cut] for cut in range(0, len(whole), 7)), whole[:-1], b"<html>404</html>", b"PAR1" * 3]:
        path.write_bytes(content)
        assert error_message(path) == f"{path}: corrupt, or not a Parquet file; copy or download it again"
    with pytest.raises(CorpusError):
        parquet_export.split(path)


def test_damage_within_a_file_gives_articles_or_an_error(tmp_path: Path) -> None:
    [path] = write_export(tmp_path, MANY)
    whole = path.read_bytes()
    random = np.random.default_rng(0)
    for place in random.integers(4, len(whole), 150).tolist():
        path.write_bytes(whole[:place] + random.bytes(1) + whole[place + 1 :])
        with suppress(CorpusError):
            read(path, handle_error=Skipped().add)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "no.parquet"
    assert error_message(path) == f"{path}: cannot be read, no such file or directory; check the name"


@pytest.mark.slow
def test_memory_does_not_grow_with_a_row_group(tmp_path: Path) -> None:
    def peak(count: int) -> int:
        page = Page(1, "Side", "lang tekst " * 5000, "Q1")
        [path] = write_export(tmp_path, [page] * count, group=count)
        tracemalloc.start()
        try:
            assert sum(1 for _ in parquet_export.articles(ReadingContext(FileRange(str(path)), DANISH, every))) == count
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(2000) < 1.3 * peak(600)
