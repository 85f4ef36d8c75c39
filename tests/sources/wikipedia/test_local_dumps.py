"""Local dumps are found by their names."""

from pathlib import Path

import pytest

from cr5.errors import Cr5Error
from cr5.sources.wikipedia.dump_reader import DumpFormat
from cr5.sources.wikipedia.local_dumps import find_local_dumps, find_local_sitelinks
from cr5.sources.wikipedia.wiki import Wiki

DANISH, MIN_NAN = Wiki("da", "da"), Wiki("zh-min-nan", "nan")


def names(folder: Path, dump_format: DumpFormat, wiki: Wiki = DANISH) -> tuple[str, list[str], str | None]:
    (dump,) = find_local_dumps([wiki], dump_format, folder)
    assert all(not file.url for file in dump.files)
    props = dump.props
    return dump.date, [Path(file.name).name for file in dump.files], Path(props.name).name if props else None


def touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x")


def test_all_parts_of_the_newest_date_are_found_in_order(tmp_path: Path) -> None:
    parts = [f"enwiki-20261101-pages-articles-multistream{i}.xml-p{i}p{i}9.bz2" for i in (1, 2, 10, 11)]
    old = [name.replace("20261101", "20261001") for name in parts]
    touch(tmp_path, *parts, *old, "enwiki-20261101-page_props.sql.gz", "enwiki-20261101-page_props.sql.gz.part")
    result = names(tmp_path, "xml", Wiki("en", "en"))
    assert result == ("20261101", parts, "enwiki-20261101-page_props.sql.gz")


def test_both_layouts_of_the_search_index_are_found(tmp_path: Path) -> None:
    touch(tmp_path, "a/dawiki-20251229-cirrussearch-content.json.gz")
    assert names(tmp_path, "cirrus") == ("20251229", ["dawiki-20251229-cirrussearch-content.json.gz"], None)
    touch(tmp_path, *(f"b/index_name=dawiki_content/dawiki_content-20260816-0000{i}.json.bz2" for i in range(3)))
    date, files, _ = names(tmp_path, "cirrus")
    assert (date, len(files)) == ("20260816", 3)


def test_wikis_with_similar_names_are_not_confused(tmp_path: Path) -> None:
    touch(tmp_path, "zh_min_nanwiki-20261101-pages-articles.xml.bz2", "zhwiki-20261101-pages-articles.xml.bz2")
    assert names(tmp_path, "xml", MIN_NAN)[1] == ["zh_min_nanwiki-20261101-pages-articles.xml.bz2"]
    touch(tmp_path, "20231101.zh-min-nan/train-00000-of-00001.parquet", "20231101.zh/train-00000-of-00001.parquet")
    assert len(names(tmp_path, "parquet", MIN_NAN)[1]) == 1


def test_a_missing_dump_is_reported_with_an_example_of_its_name(tmp_path: Path) -> None:
    with pytest.raises(Cr5Error, match=r"no xml dump of dawiki; .* dawiki-20261101-pages-articles-multistream"):
        find_local_dumps([DANISH], "xml", tmp_path)
    with pytest.raises(Cr5Error, match=r"/none: no such folder; .*`dumps`"):
        find_local_dumps([DANISH], "xml", tmp_path / "none")


def test_sitelinks_are_found_or_reported_as_missing(tmp_path: Path) -> None:
    with pytest.raises(Cr5Error, match=r'no wikidatawiki-DATE-wb_items_per_site\.sql\.gz; .*`ids="props"`'):
        find_local_sitelinks(tmp_path)
    touch(tmp_path, "wikidatawiki-20261101-wb_items_per_site.sql.gz")
    assert Path(find_local_sitelinks(tmp_path).name).name == "wikidatawiki-20261101-wb_items_per_site.sql.gz"
