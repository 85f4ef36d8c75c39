"""Item tables: what the SQL tables say is found again, and a half-written table never is."""

import gzip
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import dumps
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from properties import up_to

from cr5.errors import CorpusError
from cr5.sources.wikipedia import wikidata_items
from cr5.sources.wikipedia.wikidata_items import ItemTable, from_page_props, from_sitelinks

quick = settings(max_examples=up_to(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
PROPS = [
    (1, "wikibase_item", "Q42", None),
    (1, "defaultsort", "Adams, Douglas", None),
    (7, "disambiguation", "", None),
    (7, "wikibase_item", "Q7", None),
    (9, "disambiguation", "", None),
    (12, "page_image_free", "D'or.jpg", None),
]
LINKS = [
    (42, "dawiki", "Douglas Adams"),
    (42, "enwiki", "Douglas Adams (author)"),
    (7, "dawiki", "L'Aquila 𝄞"),
    (8, "dawiki", "iPhone"),
]


def packed(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content, mtime=0))
    return path


@pytest.fixture
def page_props(tmp_path: Path) -> Path:
    return packed(tmp_path / "dawiki-20261101-page_props.sql.gz", dumps.page_props_sql(PROPS))


@pytest.fixture
def sitelinks(tmp_path: Path) -> Path:
    return packed(tmp_path / "wikidatawiki-20261101-wb_items_per_site.sql.gz", dumps.items_per_site_sql(LINKS))


# What was written is found


def test_page_props_give_items_and_disambiguation_pages_by_page_id(page_props: Path, tmp_path: Path) -> None:
    table = from_page_props(page_props, tmp_path / "items")
    assert len(table) == 3
    assert table.find(1, "whatever") == ("Q42", False)
    assert table.find(7, "") == ("Q7", True)
    assert table.find(9, "") == ("", True)
    for page in (0, 2, 8, 12, 10**6, -1, 2**63, 2**70):
        assert table.find(page, "Douglas Adams") is None


def test_sitelinks_give_the_items_of_one_site_by_title(sitelinks: Path, tmp_path: Path) -> None:
    table = from_sitelinks(sitelinks, "dawiki", tmp_path / "items")
    assert len(table) == 3
    assert table.find(99, "Douglas Adams") == table.find(1, "Douglas_Adams") == ("Q42", False)
    assert table.find(0, "L'Aquila 𝄞") == ("Q7", False)
    assert table.find(0, "iPhone") == ("Q8", False)
    for title in ("IPhone", "Douglas Adams (author)", "", "half a character \ud800"):
        assert table.find(42, title) is None


@given(
    st.lists(st.tuples(st.integers(0, 9) | st.integers(0, 2**63 - 1), st.none() | st.integers(1, 10**18 - 1))),
    st.integers(1, 5),
)
@quick
def test_random_tables_have_the_last_item_of_each_page(
    tmp_path: Path, given: list[tuple[int, int | None]], block_rows: int
) -> None:
    path = tmp_path / "x.sql"
    shutil.rmtree(tmp_path / "items", ignore_errors=True)
    path.write_bytes(
        dumps.page_props_sql(
            (page, "disambiguation", "", None) if item is None else (page, "wikibase_item", f"Q{item}", None)
            for page, item in given
        )
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wikidata_items, "MERGE_BLOCK_ROWS", block_rows)
        table = from_page_props(path, tmp_path / "items")
    last = {page: f"Q{item}" for page, item in given if item is not None}
    flagged = {page for page, item in given if item is None}
    assert len(table) == len(last.keys() | flagged)
    for page in last.keys() | flagged:
        assert table.find(page, "") == (last.get(page, ""), page in flagged)


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), st.integers(1, 2**31)))
@quick
def test_random_titles_are_found(tmp_path: Path, titles: dict[str, int]) -> None:
    spaced = {title.replace("_", " "): item for title, item in titles.items()}
    path = tmp_path / "x.sql"
    shutil.rmtree(tmp_path / "items", ignore_errors=True)
    path.write_bytes(dumps.items_per_site_sql((item, "dawiki", title) for title, item in spaced.items()))
    table = from_sitelinks(path, "dawiki", tmp_path / "items")
    assert len(table) == len(spaced)
    assert all(table.find(0, title) == (f"Q{item}", False) for title, item in spaced.items())


def test_many_rows_in_any_order_are_found(tmp_path: Path) -> None:
    pages = np.random.default_rng(0).permutation(20_000).tolist()
    content = dumps.page_props_sql((page, "wikibase_item", f"Q{page + 1}", None) for page in pages)
    table = from_page_props(packed(tmp_path / "x.sql.gz", content), tmp_path / "items")
    assert len(table) == len(pages)
    assert all(table.find(page, "") == (f"Q{page + 1}", False) for page in pages)


# On disk


def test_a_table_can_be_reopened_and_records_what_it_was_made_from(page_props: Path, tmp_path: Path) -> None:
    from_page_props(page_props, tmp_path / "deep" / "items")
    table = ItemTable.open(tmp_path / "deep" / "items")
    assert table.find(7, "") == ("Q7", True)
    assert table.header == {
        "format": 1,
        "kind": "page_props",
        "source": page_props.name,
        "bytes": page_props.stat().st_size,
        "partial": False,
        "rows": 3,
    }
    assert sorted(path.name for path in (tmp_path / "deep").rglob("*")) == ["items", "items.json", *_ARRAYS]


_ARRAYS = ["keys.i64", "values.i64"]


def test_an_empty_table_finds_nothing(tmp_path: Path) -> None:
    table = from_page_props(packed(tmp_path / "x.sql.gz", dumps.page_props_sql([])), tmp_path / "items")
    assert len(table) == 0
    assert table.find(1, "a") is None


def test_a_failed_build_leaves_nothing(page_props: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    before = sorted(tmp_path.rglob("*"))
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(OSError, match="No space left on device") as caught:
            from_page_props(page_props, tmp_path / "items")
    assert caught.value.filename == str(tmp_path / "items")
    assert sorted(tmp_path.rglob("*")) == before
    assert len(from_page_props(page_props, tmp_path / "items")) == 3


@pytest.mark.parametrize("damage", ["missing", "cut", "header", "format", "list", "nothing"])
def test_a_damaged_table_is_an_error(page_props: Path, tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "items"
    header = from_page_props(page_props, folder).header
    match damage:
        case "missing":
            (folder / "values.i64").unlink()
        case "cut":
            (folder / "keys.i64").write_bytes((folder / "keys.i64").read_bytes()[:-1])
        case "header":
            (folder / "items.json").write_text("{")
        case "format":
            (folder / "items.json").write_text(json.dumps(header | {"format": 2}))
        case "list":
            (folder / "items.json").write_text("[]")
        case "nothing":
            folder = tmp_path / "elsewhere"
    with pytest.raises(CorpusError, match=f"{folder}: not an item table"):
        ItemTable.open(folder)


def test_a_folder_that_exists_is_not_overwritten(page_props: Path, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=f"{tmp_path}: exists already"):
        from_page_props(page_props, tmp_path)
    assert page_props.exists()


# Damaged files


@pytest.mark.parametrize("lost", [1, 9, 200])
def test_a_file_that_is_cut_short_is_an_error_unless_partial_is_true(tmp_path: Path, lost: int) -> None:
    content = dumps.page_props_sql((page, "wikibase_item", f"Q{page + 1}", None) for page in range(3000))
    whole = gzip.compress(content)
    path = tmp_path / "x.sql.gz"
    path.write_bytes(whole[:-lost])
    with pytest.raises(CorpusError) as caught:
        from_page_props(path, tmp_path / "items")
    assert str(caught.value) == f"{path}: truncated, the compressed data has no end; copy or download it again"
    assert not (tmp_path / "items").exists()
    table = from_page_props(path, tmp_path / "items", partial=True)
    assert table.header["partial"]
    assert 2000 < len(table) <= 3000
    assert all(table.find(page, "") == (f"Q{page + 1}", False) for page in range(len(table)))


def test_a_partial_file_without_a_row_is_an_error(page_props: Path, tmp_path: Path) -> None:
    page_props.write_bytes(page_props.read_bytes()[:60])
    with pytest.raises(CorpusError) as caught:
        from_page_props(page_props, tmp_path / "items", partial=True)
    assert str(caught.value) == f"{page_props}: truncated, the compressed data has no end; copy or download it again"


def test_a_dump_of_another_table_is_an_error(sitelinks: Path, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=f"{sitelinks}: no table `page_props` .* `wb_items_per_site`"):
        from_page_props(sitelinks, tmp_path / "items")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError) as caught:
        from_sitelinks(tmp_path / "no.sql.gz", "dawiki", tmp_path / "items")
    assert str(caught.value) == f"{tmp_path / 'no.sql.gz'}: cannot be read, no such file or directory; check the name"


def faulty() -> Iterator[tuple[bytes, str]]:
    props, links = dumps.page_props_sql(PROPS), dumps.items_per_site_sql(LINKS)
    yield props.replace(b"'Q42'", b"'Lexeme'"), "'Lexeme' of page 1 is not a Wikidata item"
    yield props.replace(b"'Q42'", b"'Q1234567890123456789'"), "'Q1234567890123456789' of page 1 is not a Wikidata item"
    yield props.replace(b"'Q42'", b"NULL"), "None of page 1 is not a Wikidata item"
    yield props.replace(b"(1,'wiki", b"(-1,'wiki"), "-1 is not a page id"
    yield links.replace(b",42,'dawiki'", b",'x','dawiki'"), "'x' is not the number of a Wikidata item"
    yield links.replace(b",42,'dawiki'", b",0,'dawiki'"), "0 is not the number of a Wikidata item"


@pytest.mark.parametrize(("content", "words"), list(faulty()))
def test_an_invalid_row_is_an_error(tmp_path: Path, content: bytes, words: str) -> None:
    path = packed(tmp_path / "x.sql.gz", content)
    is_props = b"page_props" in content
    with pytest.raises(CorpusError) as caught:
        from_page_props(path, tmp_path / "x") if is_props else from_sitelinks(path, "dawiki", tmp_path / "x")
    assert str(caught.value) == f"{path}: {words}; download it again"


def test_a_title_that_was_cut_within_a_character_is_skipped(tmp_path: Path) -> None:
    content = dumps.items_per_site_sql(LINKS).replace("𝄞".encode(), "𝄞".encode()[:-1])
    assert len(from_sitelinks(packed(tmp_path / "x.sql.gz", content), "dawiki", tmp_path / "items")) == 2
