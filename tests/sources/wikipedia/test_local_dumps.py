"""Dumps that are on disk already, found by their names."""

from pathlib import Path

import pytest

from cr5.errors import Cr5Error
from cr5.sources.wikipedia.local_dumps import find_local, find_local_sitelinks
from cr5.sources.wikipedia.wiki import Kind, Wiki

DANISH, MIN_NAN = Wiki("da", "da"), Wiki("zh-min-nan", "nan")


def names(folder: Path, kind: Kind, wiki: Wiki = DANISH) -> tuple[str, list[str], str | None]:
    (dump,) = find_local([wiki], kind, folder)
    assert all(not file.url for file in dump.files)
    props = dump.props
    return dump.date, [Path(file.name).name for file in dump.files], Path(props.name).name if props else None


def put(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x")


def test_the_newest_date_is_taken_whole_and_in_order(tmp_path: Path) -> None:
    parts = [f"enwiki-20261101-pages-articles-multistream{i}.xml-p{i}p{i}9.bz2" for i in (1, 2, 10, 11)]
    old = [name.replace("20261101", "20261001") for name in parts]
    put(tmp_path, *parts, *old, "enwiki-20261101-page_props.sql.gz", "enwiki-20261101-page_props.sql.gz.part")
    found = names(tmp_path, "xml", Wiki("en", "en"))
    assert found == ("20261101", parts, "enwiki-20261101-page_props.sql.gz")


def test_both_layouts_of_the_search_index_are_found(tmp_path: Path) -> None:
    put(tmp_path, "a/dawiki-20251229-cirrussearch-content.json.gz")
    assert names(tmp_path, "cirrus") == ("20251229", ["dawiki-20251229-cirrussearch-content.json.gz"], None)
    put(tmp_path, *(f"b/index_name=dawiki_content/dawiki_content-20260816-0000{i}.json.bz2" for i in range(3)))
    date, files, _ = names(tmp_path, "cirrus")
    assert (date, len(files)) == ("20260816", 3)


def test_a_wiki_is_not_taken_for_another(tmp_path: Path) -> None:
    put(tmp_path, "zh_min_nanwiki-20261101-pages-articles.xml.bz2", "zhwiki-20261101-pages-articles.xml.bz2")
    assert names(tmp_path, "xml", MIN_NAN)[1] == ["zh_min_nanwiki-20261101-pages-articles.xml.bz2"]
    put(tmp_path, "20231101.zh-min-nan/train-00000-of-00001.parquet", "20231101.zh/train-00000-of-00001.parquet")
    assert len(names(tmp_path, "parquet", MIN_NAN)[1]) == 1


def test_a_dump_that_is_not_there_is_named_with_an_example(tmp_path: Path) -> None:
    with pytest.raises(Cr5Error) as caught:
        find_local([DANISH], "xml", tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}: no xml dump of dawiki in it; keep the name under which it is published, such as "
        "dawiki-20261101-pages-articles-multistream.xml.bz2"
    )
    with pytest.raises(Cr5Error) as caught:
        find_local([DANISH], "xml", tmp_path / "none")
    assert str(caught.value) == f"{tmp_path}/none: no such folder; name the one that holds the dumps"


def test_sitelinks_are_found_or_asked_for(tmp_path: Path) -> None:
    with pytest.raises(Cr5Error) as caught:
        find_local_sitelinks(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}: no wikidatawiki-DATE-wb_items_per_site.sql.gz in it; add it, or pass --ids props"
    )
    put(tmp_path, "wikidatawiki-20261101-wb_items_per_site.sql.gz")
    assert Path(find_local_sitelinks(tmp_path).name).name == "wikidatawiki-20261101-wb_items_per_site.sql.gz"
