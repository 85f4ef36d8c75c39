"""SQL dumps: rows are read as they were written, and errors name the file."""

import gzip
import io
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import up_to
from timing import seconds

from cr5.errors import CorpusError
from cr5.sources.wikipedia.sql_dump import CHUNK_BYTES, Value, read_rows

HEAD = """-- MySQL dump 10.19  Distrib 10.3.38-MariaDB, for debian-linux-gnu (x86_64)
--
-- Host: db1234    Database: dawiki
-- ------------------------------------------------------

/*!40101 SET NAMES utf8mb4 */;
/*!40103 SET TIME_ZONE='+00:00' */;

"""
PAGE_PROPS = """DROP TABLE IF EXISTS `page_props`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
CREATE TABLE `page_props` (
  `pp_page` int(10) unsigned NOT NULL,
  `pp_propname` varbinary(60) NOT NULL,
  `pp_value` blob NOT NULL,
  `pp_sortkey` float DEFAULT NULL,
  PRIMARY KEY (`pp_page`,`pp_propname`),
  UNIQUE KEY `pp_propname_page` (`pp_propname`,`pp_page`),
  UNIQUE KEY `pp_propname_sortkey_page` (`pp_propname`,`pp_sortkey`,`pp_page`)
) ENGINE=InnoDB DEFAULT CHARSET=binary;

/*!40000 ALTER TABLE `page_props` DISABLE KEYS */;
"""
SITELINKS = """CREATE TABLE `wb_items_per_site` (
  `ips_row_id` bigint(20) unsigned NOT NULL AUTO_INCREMENT,
  `ips_item_id` int(10) unsigned NOT NULL,
  `ips_site_id` varbinary(32) NOT NULL,
  `ips_site_page` varbinary(310) NOT NULL,
  PRIMARY KEY (`ips_row_id`)
) ENGINE=InnoDB;
"""
TAIL = "/*!40000 ALTER TABLE `page_props` ENABLE KEYS */;\n\n-- Dump completed on 2026-11-01  1:02:03\n"
COLUMNS = ["pp_page", "pp_propname", "pp_value", "pp_sortkey"]

texts = st.text(st.characters(exclude_categories=["Cs"])) | st.text("'\"\\(),;\n\0\x1a%_` aé𝄞", max_size=12)
values = st.none() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.binary(max_size=9) | texts
noise = st.lists(st.sampled_from([*"()',;\\\n `aN0x._-1", "(1,'a','b',NULL)", "),(", "NULL"]), max_size=40).map("".join)
relaxed = settings(max_examples=up_to(100), deadline=None)


def insert(*literals: str) -> str:
    return f"INSERT INTO `page_props` VALUES {','.join(f'({literal})' for literal in literals)};\n"


def dump(*statements: str) -> bytes:
    return (HEAD + PAGE_PROPS + "".join(statements) + TAIL).encode("utf-8", "surrogateescape")


def read(content: bytes, *columns: str, chunk: int = CHUNK_BYTES, **options: Any) -> list[tuple[Value, ...]]:
    stream = io.BytesIO(content)
    return list(read_rows(stream, "page_props", columns or COLUMNS, "x.sql", chunk_bytes=chunk, **options))


def message(content: bytes, *columns: str, **options: Any) -> str:
    with pytest.raises(CorpusError) as caught:
        read(content, *columns, **options)
    return str(caught.value)


def written(value: Value, doubled: bool = False) -> str:
    """A value as mysqldump writes it, or with quotes doubled as others do."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return "0x" + value.hex().upper()
    if not isinstance(value, str):
        return repr(value)
    for sign, letter in [("\\", "\\"), ("\0", "0"), ("\n", "n"), ("\r", "r"), ("\x1a", "Z"), ('"', '"')]:
        value = value.replace(sign, "\\" + letter)
    return "'" + value.replace("'", "''" if doubled else "\\'") + "'"


# What is written comes back


@given(st.lists(st.tuples(values, values, values, values), min_size=1, max_size=6), st.booleans(), st.integers(1, 90))
@relaxed
def test_random_rows_are_read_unchanged_for_any_chunk_size(
    table: list[tuple[Value, ...]], doubled: bool, chunk: int
) -> None:
    lines = [",".join(written(value, doubled) for value in row) for row in table]
    content = dump(insert(*lines), insert(*lines))
    found = read(content, chunk=chunk)
    assert found == table * 2
    assert [list(map(type, row)) for row in found] == [list(map(type, row)) for row in table * 2]


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        (r"'it\'s'", "it's"),
        ("'it''s'", "it's"),
        ("''", ""),
        ("''''", "'"),
        (r"'\\'", "\\"),
        (r"'\\\''", "\\'"),
        (r"'say \"hi\"'", 'say "hi"'),
        (r"'a\nb\tc\0d\Ze\rf\bg'", "a\nb\tc\0d\x1ae\rf\bg"),
        (r"'100\%\_\q'", r"100\%\_q"),
        ("'a),(b;'", "a),(b;"),
        ("'𝄞 漢字 ‮'", "𝄞 漢字 ‮"),
        ("_binary 'Århus'", "Århus"),
        (r"_utf8mb4'it\'s'", "it's"),
        ("0x4Aff", b"J\xff"),
        ("NULL", None),
        ("null", None),
        ("-12", -12),
        ("18446744073709551615", 2**64 - 1),
        ("-0.25", -0.25),
        ("1.5e-7", 1.5e-7),
        ("2e+20", 2e20),
        ("'NULL'", "NULL"),
        ("'0x41'", "0x41"),
        ("'12'", "12"),
        ("'caf\udce9'", b"caf\xe9"),
        ("'\\'\udcff'", b"'\xff"),
    ],
)
def test_each_literal_has_its_value(literal: str, value: Value) -> None:
    content = dump(insert(f"1,'a',{literal},NULL", f"2,'b',{literal},{literal}"))
    assert read(content) == [(1, "a", value, None), (2, "b", value, value)]
    assert read(content, chunk=1) == read(content)


def test_a_column_may_mix_types() -> None:
    content = dump(insert("1,'a','x',NULL", "2,'a',7,0.5", r"3,'a','\'',3", "4,'a','\udcff',NULL"))
    assert read(content, "pp_value", "pp_sortkey") == [("x", None), (7, 0.5), ("'", 3), (b"\xff", None)]


def test_columns_are_in_the_requested_order_and_may_repeat() -> None:
    content = dump(insert("1,'a','b',0.5"))
    assert read(content, "pp_value", "pp_page", "pp_value") == [("b", 1, "b")]


def test_rows_may_be_on_separate_lines() -> None:
    content = dump("INSERT INTO `page_props` VALUES\n(1,'a','b',NULL),\n(2,'c','d',NULL)\n,(3,'e','f',NULL)\n;\n")
    for chunk in (1, 2, 3, 2**15):
        assert read(content, "pp_page", "pp_value", chunk=chunk) == [(1, "b"), (2, "d"), (3, "f")]


def test_an_insert_may_name_its_columns() -> None:
    content = b"INSERT IGNORE INTO `dawiki`.`page_props` (`pp_value`, `pp_page`) VALUES ('b', 1), ('c', 2);"
    assert read(content, "pp_page", "pp_value") == [(1, "b"), (2, "c")]


def test_other_tables_are_skipped_even_if_they_mention_this_one() -> None:
    other = "CREATE TABLE `page` (\n  `page_id` int,\n  KEY `x` (`page_id`)\n) ENGINE=InnoDB;\n"
    other += "INSERT INTO `page` VALUES (1,'\\nINSERT INTO `page_props` VALUES (9,9,9,9);');\n"
    content = dump(insert("1,'a','b',NULL"), other, insert("2,'a','b',NULL"), other)
    assert read(content, "pp_page", chunk=1) == read(content, "pp_page") == [(1,), (2,)]


def test_an_empty_table_has_no_rows() -> None:
    assert read(dump()) == []


def test_windows_line_ends_are_accepted() -> None:
    assert read(dump(insert("1,'a','b',NULL")).replace(b"\n", b"\r\n"), "pp_page") == [(1,)]


def test_where_keeps_only_rows_with_these_values() -> None:
    content = dump(insert("1,'a','x',NULL", "2,'b','a',NULL", "3,_binary 'a','',NULL", "4,'ab','',NULL", "5,'a','',1"))
    a_or_z = {"pp_propname": ["a", "z"]}
    for chunk in (1, 7, 2**15):
        found = read(content, "pp_page", "pp_value", where=a_or_z, chunk=chunk)
        assert found == [(1, "x"), (3, ""), (5, "")]
    both = {"pp_propname": ["a"], "pp_value": ["x", ""]}
    assert list(read_rows(io.BytesIO(content), "page_props", ["pp_page"], where=both)) == [(1,), (3,), (5,)]
    assert list(read_rows(io.BytesIO(content), "page_props", ["pp_page"], where={"pp_value": ["no"]})) == []


# Wikimedia's tables


def test_page_props_are_selected_by_name() -> None:
    content = dump(
        insert("1,'wikibase_item','Q42',NULL", "1,'defaultsort','wikibase_item',NULL", "7,'disambiguation','',NULL"),
        insert("7,'wikibase_item','Q7',NULL", "8,'page_image_free','D\\'or.jpg',NULL", "9,'notoc','',NULL"),
    )
    names = {"pp_propname": ["wikibase_item", "disambiguation"]}
    found = read_rows(io.BytesIO(content), "page_props", COLUMNS[:3], where=names)
    assert list(found) == [(1, "wikibase_item", "Q42"), (7, "disambiguation", ""), (7, "wikibase_item", "Q7")]


def test_sitelinks_are_selected_by_site() -> None:
    lines = "(1,42,'dawiki','Douglas_Adams'),(2,42,'enwiki','Douglas Adams'),(3,7,'dawiki','L\\'Aquila 𝄞')"
    content = f"{SITELINKS}INSERT INTO `wb_items_per_site` VALUES {lines};\n".encode()
    for site, expected in {"dawiki": [(42, "Douglas_Adams"), (7, "L'Aquila 𝄞")], "wiki": []}.items():
        columns, where = ["ips_item_id", "ips_site_page"], {"ips_site_id": [site]}
        assert list(read_rows(io.BytesIO(content), "wb_items_per_site", columns, where=where)) == expected


# Files that are not a dump of the table


def test_a_dump_of_another_table_is_an_error() -> None:
    assert message(SITELINKS.encode()).startswith(
        "x.sql: no table `page_props` in this file, it contains `wb_items_per_site`"
    )


@pytest.mark.parametrize("content", [b"", b"<html>404</html>", bytes(range(256)), b"INSERT", b"CREATE TABLE `a` ("])
def test_a_file_that_is_not_a_dump_is_an_error(content: bytes) -> None:
    assert message(content).startswith("x.sql: no table `page_props` in this file")


@pytest.mark.parametrize("content", [dump(), dump(insert("1,2,3,4"))])
def test_an_unknown_column_is_an_error(content: bytes) -> None:
    assert message(content, "pp_page", "pp_title").startswith(
        "x.sql: table `page_props` has no column pp_title, only pp_page, pp_propname, pp_value, pp_sortkey"
    )


def test_rows_without_their_create_table_are_an_error() -> None:
    assert message(insert("1,2,3,4").encode()).startswith(
        "x.sql: the rows of `page_props` come without their CREATE TABLE"
    )


def test_a_dump_that_is_cut_within_rows_gives_those_before_and_an_error() -> None:
    whole = dump(insert("1,'a','b',NULL", r"22,_binary 'it\'s''ok',0x4A4B,-0.5", "3,'c','d',NULL"))
    start, end = whole.index(b"VALUES (1") + 8, whole.index(b";\n", whole.index(b"VALUES (1"))
    for cut in range(start, end):
        got: list[tuple[Value, ...]] = []
        with pytest.raises(CorpusError) as caught:
            got.extend(read_rows(io.BytesIO(whole[:cut]), "page_props", COLUMNS, "x.sql"))
        assert str(caught.value) == "x.sql: truncated within the rows of `page_props`; download it again"
        assert got == read(whole)[: len(got)]


@pytest.mark.parametrize(
    "literals",
    [
        "1,'a','b'),(2,'c','d',NULL",
        "1,'a','b',NULL,5",
        "1,'a','b' 'c',NULL",
        "1,'a','b',NULL)(2",
        "1,'a',b(2),NULL",
        "",
    ],
)
def test_a_malformed_row_is_shown(literals: str) -> None:
    near = f"({literals});\n{TAIL}"[:40]
    assert message(dump(insert(literals))) == (
        f"x.sql: cannot be read as rows of `page_props` near {near!r}; download it again"
    )


@pytest.mark.parametrize("literal", ["CURRENT", "0x123", "1.2.3", "-", "--1", "1e", "12a"])
def test_an_unknown_kind_of_literal_is_shown(literal: str) -> None:
    assert message(dump(insert("1,'a','b',NULL", f"1,'a','b',{literal}"))) == (
        f"x.sql: cannot be read as rows of `page_props` near '{literal}'; download it again"
    )


def test_a_row_that_is_too_long_is_an_error() -> None:
    content = dump("INSERT INTO `page_props` VALUES (1,'" + "a" * 10**6)
    shown = message(content, max_row_characters=10**5)
    assert shown == f'x.sql: cannot be read as rows of `page_props` near "(1,\'{"a" * 36}"; download it again'


def test_a_row_longer_than_a_chunk_is_read() -> None:
    assert read(dump(insert(f"1,'a','{'b' * 10**6}',NULL")), "pp_value") == [("b" * 10**6,)]


def test_cut_and_damaged_gzip_files_are_named_after_their_stream(tmp_path: Path) -> None:
    path = tmp_path / "x.sql.gz"
    whole = gzip.compress(dump(insert(*(f"{n},'a','{n * n}',NULL" for n in range(5000)))))
    for content, words in [
        (whole[:-400], "truncated, the compressed data has no end"),
        (whole[:2000] + b"\0" * 200 + whole[2200:], "corrupt, error -3"),
        (b"not gzip", "corrupt, not a gzipped file"),
    ]:
        path.write_bytes(content)
        with gzip.open(path) as stream, pytest.raises(CorpusError) as caught:
            list(read_rows(cast(BinaryIO, stream), "page_props", COLUMNS))
        assert str(caught.value).startswith(f"{path}: {words}")
        assert str(caught.value).endswith("; copy or download it again")


def test_a_read_error_of_the_system_is_reported() -> None:
    class Broken(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            raise OSError(5, "Input/output error")

    with pytest.raises(CorpusError) as caught:
        list(read_rows(cast(BinaryIO, Broken()), "page_props", COLUMNS))
    assert str(caught.value) == "the dump: cannot be read, input/output error; check its permissions"


# Arbitrary input


@pytest.mark.slow
@given(noise, st.integers(1, 20))
@settings(max_examples=up_to(400), deadline=None)
def test_arbitrary_text_gives_rows_or_an_error_for_any_chunk_size(text: str, chunk: int) -> None:
    def outcome(size: int) -> object:
        try:
            return read(dump("INSERT INTO `page_props` VALUES (1,'a','b',NULL)", text, ";\n"), chunk=size)
        except CorpusError as error:
            return str(error).partition(" near ")[0]

    assert outcome(chunk) == outcome(2**15)


@given(st.binary(max_size=300))
@relaxed
def test_arbitrary_bytes_give_rows_or_an_error(data: bytes) -> None:
    start = f"{HEAD}{PAGE_PROPS}INSERT INTO `page_props` VALUES (1,".encode()
    for content in (data, start + data):
        try:
            read(content)
        except CorpusError:
            continue


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    [
        "\nCREATE",
        "\nCREATE TABLE `a` (\n  x",
        "\nINSERT INTO `",
        "\nINSERT INTO a (b,",
        "\nINSERT INTO `page_props` (`a",
    ],
)
def test_the_time_is_linear_between_statements(unit: str) -> None:
    def read_repeated(repeats: int) -> None:
        with pytest.raises(CorpusError):
            read((unit * repeats).encode())

    limit = 10 * seconds(lambda: read_repeated(10_000)) + 0.1  # linear time would be 4 times as long, quadratic time 16
    assert seconds(lambda: read_repeated(40_000), limit) < limit


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file() -> None:
    line = insert(*(f"{n},'wikibase_item','Q{n}',NULL" for n in range(2000))).encode()

    class Endless(io.RawIOBase):
        """A dump of 100 statements that is never in memory."""

        parts: Iterator[bytes] = iter([dump(), *[line] * 100])

        def read(self, size: int = -1) -> bytes:
            return next(self.parts, b"")

    tracemalloc.start()
    try:
        stream = cast(BinaryIO, Endless())
        count = sum(1 for _ in read_rows(stream, "page_props", ["pp_page", "pp_value"]))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 200_000
    assert peak < 12 * len(line)
