"""Tables: columns of any name become documents, and a column that is not there is named."""

import csv
import gzip
import io
import json
import math
import tracemalloc
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import up_to

from cr5.corpus.documents import Document
from cr5.errors import ColumnsNotKept, CorpusError
from cr5.sources.accounting import Accounting
from cr5.sources.table import read_table

relaxed = settings(max_examples=up_to(60), deadline=None)
cells = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), min_size=1).filter(str.strip)
keys = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(str.strip)
codes = st.sampled_from(["en", "deu", "pt_BR", "Italian", "x-own", "中文"])
tables = st.lists(st.fixed_dictionaries({"key": keys, "code": codes, "body": cells, "name": cells}), max_size=6)
RENAMED: dict[str, Any] = {
    "concept_column": "key",
    "lang_column": "code",
    "text_column": "body",
    "title_column": "name",
}


def written(path: Path, rows: list[dict[str, Any]], columns: list[str]) -> Path:
    """A table in the format of the suffix."""
    if path.suffix == ".parquet":
        pq.write_table(
            pa.table({name: [row.get(name) for row in rows] for name in columns}),
            path,
            row_group_size=3 + len(rows) // 10,
        )
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        stream = io.StringIO()
        writer = csv.DictWriter(stream, columns, delimiter="\t" if path.suffix == ".tsv" else ",")
        writer.writeheader()
        writer.writerows(rows)
        path.write_text(stream.getvalue(), newline="")
    return path


def message(path: Path, **options: Any) -> str:
    with pytest.raises(CorpusError) as caught:
        list(read_table([path], **options))
    return str(caught.value).replace(f"{path.parent}/", "")


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet"])
def test_columns_that_are_not_used_are_named_and_can_be_kept_as_fields(tmp_path: Path, suffix: str) -> None:
    rows: list[dict[str, Any]] = [
        {"concept": "Q1", "lang": "en", "text": "a dog", "year": 2019, "code": "007", "fields": '{"kind": "news"}'},
        {"concept": "Q1", "lang": "it", "text": "un cane", "year": None, "code": "", "fields": None},
    ]
    path = written(tmp_path / f"a.{suffix}", rows, list(rows[0]))
    copy = written(tmp_path / f"b.{suffix}", rows, list(rows[0]))
    with pytest.warns(ColumnsNotKept, match="not used: year, code; .*`field_column`") as caught:
        assert [d.fields for d in read_table([path, copy])] == 2 * [{"kind": "news"}, {}]
    assert len(caught) == 1
    kept = list(read_table([path], field_column=["year", "code"]))
    assert [d.fields for d in kept] == [{"kind": "news", "year": 2019, "code": "007"}, {}]
    assert "no column 'month'" in message(path, field_column=["month", "year", "code"])


def test_dates_become_texts_and_wide_tables_give_their_fields_to_every_language(tmp_path: Path) -> None:
    day = date(2019, 5, 1)
    path = written(tmp_path / "a.parquet", [{"en": "a dog", "it": "un cane", "day": day}], ["en", "it", "day"])
    documents = list(read_table([path], wide={"en": "en", "it": "it"}, field_column=["day"]))
    assert [(d.lang, d.fields) for d in documents] == [("en", {"day": "2019-05-01"}), ("it", {"day": "2019-05-01"})]


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet"])
@given(rows=tables)
@relaxed
def test_random_rows_come_back_equal(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, rows: list[dict[str, str]]
) -> None:
    path = written(tmp_path_factory.mktemp("tables") / f"x.{suffix}", rows, ["key", "code", "body", "name"])
    if suffix == "parquet" and not rows:
        pq.write_table(pa.table({name: pa.array([], pa.string()) for name in ("key", "code", "body", "name")}), path)
    expected = [Document(row["key"], row["code"], row["body"], row["name"]) for row in rows]
    assert list(read_table([path], **RENAMED)) == expected


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet"])
def test_a_wide_table_has_a_column_for_each_language(tmp_path: Path, suffix: str) -> None:
    rows: list[dict[str, Any]] = [
        {"english": "one", "testo": "uno"},
        {"english": "two", "testo": ""},
        {"english": None, "testo": "tre"},
    ]
    path = written(tmp_path / f"x.{suffix}", rows, ["english", "testo"])
    wide = {"en": "english", "it": "testo"}
    first = 2 if suffix in ("csv", "tsv") else 1  # lines of a file, rows of Parquet
    expected = [(0, "en", "one"), (0, "it", "uno"), (1, "en", "two"), (2, "it", "tre")]
    assert list(read_table([path], wide=wide)) == [
        Document(f"x.{suffix}:{first + i}", lang, text) for i, lang, text in expected
    ]
    for column in ("concept", "id"):
        named = [row | {column: str(number)} for number, row in enumerate(rows)]
        written(path, named, ["english", "testo", column])
        found = [(d.concept, d.lang, d.text) for d in read_table([path], wide=wide, concept_column=column)]
        assert found == [(str(i), lang, text) for i, lang, text in expected]


def test_rows_of_files_with_the_same_name_stay_apart(tmp_path: Path) -> None:
    paths = [tmp_path / "a" / "x.csv", tmp_path / "b" / "x.csv"]
    for path in paths:
        path.parent.mkdir()
        path.write_text("en\none\n")
    assert [d.concept for d in read_table(paths, wide={"en": "en"})] == [f"{path}:2" for path in paths]


def test_the_language_may_be_said_or_unknown(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("concept,text\n1,uno\n")
    assert list(read_table([path], lang="it")) == [Document("1", "it", "uno")]
    assert list(read_table([path], lang_column="-")) == [Document("1", "", "uno")]
    path.write_text("concept,text,lang\n1,uno,\n2,due,it\n")
    assert [d.lang for d in read_table([path])] == ["", "it"]
    assert [d.lang for d in read_table([path], lang="la")] == ["la", "la"]


def test_several_columns_of_text_are_joined(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"concept": 1, "head": "a", "body": "b"}\n{"concept": 2, "body": "c"}\n')
    assert [d.text for d in read_table([path], lang_column="-", text_column=["head", "body"])] == ["a\nb", "c"]


@pytest.mark.parametrize(
    ("value", "concept"), [(7, "7"), (7.0, "7"), (0.5, "0.5"), (10**25, "1" + 25 * "0"), ("x", "x")]
)
def test_numbers_become_strings(tmp_path: Path, value: object, concept: str) -> None:
    path = written(tmp_path / "x.jsonl", [{"concept": value, "text": "a"}], [])
    assert [d.concept for d in read_table([path], lang_column="-")] == [concept]


def test_parquet_may_hold_numbers_bytes_and_words_by_number(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    columns = {
        "concept": pa.array([1.0, 2.0, math.nan]),
        "lang": pa.array(["it", "it", "en"]).dictionary_encode(),
        "text": pa.array([b"uno", b"caf\xe9", b"x"]),
        "url": pa.array(["a", None, "c"]),
    }
    pq.write_table(pa.table(columns), path)
    accounting = Accounting("skip")
    assert list(read_table([path], accounting=accounting)) == [Document("1", "it", "uno", url="a")]
    assert {key: text.replace(f"{tmp_path}/", "") for key, text in accounting.errors.examples.items()} == {
        "invalid UTF-8": "x.parquet: row 2: column 'text' is not UTF-8 at byte 4; write it again as UTF-8",
        "empty field": "x.parquet: row 3: column 'concept' is empty; every row needs a concept",
    }


def test_parquet_that_only_claims_to_be_text_is_named_by_the_row(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    bad = pa.array([b"uno", b"caf\xe9"]).cast(pa.binary()).view(pa.string())
    pq.write_table(pa.table({"concept": ["1", "2"], "text": bad}), path)
    accounting = Accounting("skip")
    assert [d.text for d in read_table([path], lang_column="-", accounting=accounting)] == ["uno"]
    assert accounting.errors.counts == {"invalid UTF-8": 1}


def test_compressed_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "x.CSV.gz"
    path.write_bytes(gzip.compress(b'\xef\xbb\xbfconcept,lang,text\r\n1,it,"uno,\r\ndue"\r\n'))
    assert list(read_table([path])) == [Document("1", "it", "uno,\r\ndue")]


# Faults


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet"])
def test_a_missing_column_is_named_with_those_there_are(tmp_path: Path, suffix: str) -> None:
    path = written(tmp_path / f"x.{suffix}", [{"id": "1", "lang": "it", "text": "a"}], ["id", "lang", "text"])
    about = f"x.{suffix}: no column '{{}}', only id, lang, text; name {{}}"
    concept = "the column that says what a row is about with `concept_column`"
    lang = "the column of the language with `lang_column`, or the language of all rows with `lang`"
    assert message(path) == about.format("concept", concept)
    assert message(path, concept_column="id", text_column="body") == about.format(
        "body", "that of the text with `text_column`"
    )
    assert message(path, concept_column="id", lang_column="language") == about.format("language", lang)
    title = "the right one with `title_column` or `url_column`"
    assert message(path, concept_column="id", title_column="name") == about.format("name", title)
    assert message(path, concept_column="key", wide={"it": "text"}) == about.format("key", concept)
    several = f"{about.format('concept', concept)}; name that of the text with `text_column`"
    several = several.replace("'concept'", "'concept' or 'body'")
    assert message(path, text_column="body") == several
    wide = "the column of it with `wide=it=NAME`"
    assert message(path, wide={"it": "testo"}) == about.format("testo", wide)


def test_a_table_without_a_header_is_told_from_one_with_other_names(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"1,en,{'one sentence ' * 20}\n")
    found = message(path)
    assert found.startswith("x.csv: no column 'concept' or 'lang' or 'text', only 1, en, one sentence")
    assert found.endswith("…; the first line does not seem to be a header; write one that names the columns")


@pytest.mark.parametrize(
    ("header", "told"),
    [
        ("concept^lang^text", "only concept^lang^text; separate the columns by commas, semicolons, tabs or bars"),
        (
            " concept, lang,text",
            "no column 'concept' or 'lang', only ' concept', ' lang', text; names must match exactly",
        ),
        ("Concept,lang,text", "no column 'concept', only Concept, lang, text; names must match exactly"),
        ("about,lang,text", "no column 'concept', only about, lang, text; name the column that"),
    ],
)
def test_a_header_that_is_nearly_right_is_said_to_be_so(tmp_path: Path, header: str, told: str) -> None:
    (tmp_path / "x.csv").write_text(f"{header}\nQ1,en,a dog\n")
    assert told in message(tmp_path / "x.csv")


def test_a_wide_table_without_concepts_says_how_to_name_their_column(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("id,english\nQ1,a dog\n")
    with pytest.warns(ColumnsNotKept, match=r"id; .*`field_column`; .*with `concept_column`"):
        list(read_table([tmp_path / "x.csv"], wide={"en": "english"}))
    with pytest.warns(ColumnsNotKept, match=r"english; .*`field_column`$"):
        list(read_table([tmp_path / "x.csv"], concept_column="id", wide={"en": "id"}))


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_not_a_number_is_no_field(tmp_path: Path, suffix: str) -> None:
    row = {"concept": "Q1", "lang": "en", "text": "a dog", "year": math.nan}
    path = written(tmp_path / f"x.{suffix}", [row], list(row))
    assert [d.fields for d in read_table([path], field_column="year")] == [{}]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_the_one_that_divides_the_header(tmp_path: Path, delimiter: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text(delimiter.join(["key", "it", "en"]) + "\n" + delimiter.join(["1", '"uno; due, tre"', "one"]) + "\n")
    found = read_table([path], concept_column="key", wide={"it": "it", "en": "en"})
    assert [d.text for d in found] == ["uno; due, tre", "one"]


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("x.csv", "concept,lang,text,text\n", "x.csv: column 'text' occurs 2 times; rename all but one"),
        ("x.csv", "", "x.csv: empty, without a header; remove it or write one"),
        (
            "x.csv",
            "concept,lang,text\n1,it\n",
            "x.csv:2: 2 fields under a header of 3; quote a field that holds a delimiter or a line break",
        ),
        (
            "x.csv",
            'concept,lang,text\n1,it,"a"b\n',
            "x.csv:2: broken quoting, ',' expected after '\"'; double every quote and quote the field around it",
        ),
        ("x.csv", "concept,lang,text\n1,it, \n", "x.csv:2: no text in 'text'; every row needs some"),
        ("x.csv", "concept,lang,text\n,it,a\n", "x.csv:2: column 'concept' is empty; every row needs a concept"),
        ("x.jsonl", "[1]\n", "x.jsonl:1: a list, not a JSON object; write one object on every line"),
        (
            "x.jsonl",
            '\n{"concept": }\n',
            "x.jsonl:2: broken JSON, expecting value at column 13; write one object on every line",
        ),
        (
            "x.jsonl",
            "[" * 100_000 + "\n",
            "x.jsonl:1: broken JSON, nested too deeply; write one object on every line",
        ),
        (
            "x.jsonl",
            '{"concept": "1", "lang": "it", "text": ["a"]}',
            "x.jsonl:1: column 'text' is a list, not a string; write it as a string",
        ),
        (
            "x.jsonl",
            '{"concept": true, "lang": "it", "text": "a"}',
            "x.jsonl:1: column 'concept' is a boolean, not a string; write it as a string",
        ),
        (
            "x.jsonl",
            '{"concept": "1", "lang": "it", "text": "\\ud800"}',
            "x.jsonl:1: column 'text' contains a lone surrogate, \\ud800; remove it",
        ),
        ("x.parquet", "PAR1", "x.parquet: corrupt, or not a Parquet file; copy or download it again"),
        (
            "x.xlsx",
            "",
            "x.xlsx: unknown suffix '.xlsx'; the formats are .csv, .tsv, .jsonl and .ndjson, which .gz, .bz2 or .xz "
            "may follow, and .parquet",
        ),
    ],
)
def test_a_fault_is_named_with_its_place(tmp_path: Path, name: str, content: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    assert message(path) == text


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    for suffix in ("csv", "jsonl", "parquet"):
        expected = f"x.{suffix}: cannot be read, no such file or directory; check the name"
        assert message(tmp_path / f"x.{suffix}") == expected


def test_a_wide_table_says_how_its_columns_are_named(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("id,en,it\n1,a dog,un cane\n")
    expected = (
        "no column 'concept' or 'lang' or 'text', only id, en, it; "
        "name the column of every language with `wide=en=en` `wide=it=it`"
    )
    assert message(tmp_path / "x.csv") == f"x.csv: {expected}"


def test_columns_with_names_of_languages_are_taken_with_wide(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("english,italian\na dog,un cane\n")
    assert message(tmp_path / "x.csv").endswith(
        "with `text_column`; or name a column for each language with `wide`, as in `wide=en=english`"
    )
    assert "`wide`" not in message(tmp_path / "x.csv", lang="en")


def test_no_column_of_text_is_refused(tmp_path: Path) -> None:
    expected = "no text column; name one in `text_column`, or one for each language in `wide`"
    assert message(tmp_path / "x.csv", text_column=[]) == message(tmp_path / "x.csv", wide={}) == expected


def test_bad_rows_are_counted_and_the_others_read(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(
        b'concept,lang,text\n1,it,uno\n2,it\n3,it,caf\x81\n4,it,"a\n\xff"\n5,it,\n\n6,it,"sei"x\n7,it,sette\n'
    )
    accounting = Accounting("skip")
    assert [d.text for d in read_table([path], accounting=accounting)] == ["uno", "sette"]
    assert accounting.errors.counts == {"broken CSV": 2, "invalid UTF-8": 2, "empty field": 1}


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet", "csv.gz"])
@given(content=st.binary(max_size=80) | st.text('concept,lang"\n{}:[]0\\u', max_size=60).map(str.encode))
@relaxed
def test_garbage_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, suffix: str, content: bytes) -> None:
    path = tmp_path_factory.mktemp("garbage") / f"x.{suffix}"
    for start in (b"", b"concept,lang,text\n", b"PAR1"):
        path.write_bytes(start + content)
        try:
            found = list(read_table([path], accounting=Accounting("skip")))
        except CorpusError:
            continue
        assert all(d.concept.strip() and d.text.strip() for d in found)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_memory_does_not_grow_with_the_table(tmp_path: Path, suffix: str) -> None:
    rows = [{"concept": str(i), "text": "parola " * 300} for i in range(4000)]
    path = written(tmp_path / f"x.{suffix}", rows, ["concept", "text"])
    del rows
    tracemalloc.start()
    assert sum(1 for _ in read_table([path], lang_column="-")) == 4000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20


def test_a_folder_gives_its_tables_in_order(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "b.csv").write_text("concept,lang,text\n2,en,two\n")
    (tmp_path / "deep" / "c.tsv").write_text("concept\tlang\ttext\n3\ten\tthree\n")
    (tmp_path / "a.jsonl").write_text('{"concept": 1, "lang": "en", "text": "one"}\n')
    (tmp_path / "readme.txt").write_text("no table")
    assert [document.text for document in read_table([tmp_path])] == ["one", "two", "three"]


def test_a_folder_without_tables_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError) as caught:
        list(read_table([tmp_path]))
    assert str(caught.value).startswith(f"{tmp_path}: no table in this folder; the formats are .csv, .tsv, ")


# Quotes in TSV


def tsv_texts(path: Path, rows: str, header: str = "concept\tlang\ttext\n") -> list[str]:
    path.write_text(header + rows, newline="")
    return [document.text for document in read_table([path], accounting=Accounting("skip"))]


@pytest.mark.parametrize("last", ['"Hello', '"Hello" he said', 'say "hi"', '"', '""" x'])
def test_a_quote_in_a_tsv_without_quoting_is_text(tmp_path: Path, last: str) -> None:
    rows = f'1\ten\t{last}\n1\tit\tciao\n2\ten\tI am fine"\n2\tit\tbene\n'
    assert tsv_texts(tmp_path / "x.tsv", rows) == [last, "ciao", 'I am fine"', "bene"]
    assert tsv_texts(tmp_path / "x.tsv", rows.replace("\n", "\r\n")) == [last, "ciao", 'I am fine"', "bene"]


def test_a_quote_that_closes_in_another_column_of_a_tsv_is_text(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text('a\tb\n"one\tuno"\n')
    documents = read_table([tmp_path / "x.tsv"], wide={"en": "a", "it": "b"})
    assert [document.text for document in documents] == ['"one', 'uno"']


def test_quoted_fields_of_a_tsv_may_have_quotes_tabs_and_line_breaks(tmp_path: Path) -> None:
    rows = '1\ten\t"He said ""yes""\n\nthen\tleft"\n2\ten\t"a\tb"\n3\ten\t"c"\n'
    assert tsv_texts(tmp_path / "x.tsv", rows) == ['He said "yes"\n\nthen\tleft', "a\tb", "c"]
    evident = '"1"\t"en"\t"a\nb\tc\td"\n'
    assert tsv_texts(tmp_path / "x.tsv", evident, '"concept"\t"lang"\t"text"\n') == ["a\nb\tc\td"]


def test_a_line_that_is_read_ahead_keeps_its_own_error(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_bytes(b'concept\tlang\ttext\n1\ten\t"Hello\n2\ten\tcaf\x81\n3\ten\tok\n')
    accounting = Accounting("skip")
    assert [document.concept for document in read_table([path], accounting=accounting)] == ["1", "3"]
    assert accounting.errors.first.startswith(f"{path}:3: byte 0x81")
    assert "iconv -f windows-1252 -t utf-8" in accounting.errors.first


ITALIAN = "La città è già più «libera»"


@pytest.mark.parametrize(
    ("name", "rows", "options"),
    [
        ("a.csv", "concept;lang;text\nx;en;the city\n1;it;{}\n", {}),
        ("a.csv", 'concept,lang,text\n1,it,"{}\n"\n', {}),
        ("a.csv", "concept,text\n1,{}\n", {"lang": "it"}),
        ("a.tsv", "concept\ten\tit\n1\tthe city\t{}\n", {"wide": {"en": "en", "it": "it"}}),
        ("a.jsonl", '{{"concept": "1", "lang": "it", "text": "{}"}}\n', {}),
        ("a.csv.gz", "concept,code,text\n" + "1,en,the city\n" * 50_000 + "1,it,{}\n", {"lang_column": "code"}),
    ],
)
def test_a_table_in_windows_1252_is_read_where_that_is_evident_and_counted(
    tmp_path: Path, name: str, rows: str, options: dict[str, Any]
) -> None:
    data = rows.format(ITALIAN).encode("cp1252")
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    accounting = Accounting()
    found = list(read_table([tmp_path / name], accounting=accounting, **options))
    assert (found[-1].lang, found[-1].text.strip()) == ("it", ITALIAN)
    assert accounting.guessed_encodings.examples == {"windows-1252": str(tmp_path / name)}
    (tmp_path / name).write_bytes(gzip.compress(rows.format(ITALIAN).encode()) if name.endswith(".gz") else data)
    if name.endswith(".gz"):
        assert [*read_table([tmp_path / name], accounting=Accounting(), **options)] == found


@pytest.mark.parametrize("rows", ["concept,lang,text\n1,ru,{}\n2,it,a\n", "concept,lang,text\n1,it,città\n2,it,{}\n"])
def test_the_encoding_of_a_table_is_not_guessed_if_it_is_not_evident(tmp_path: Path, rows: str) -> None:
    before, _, after = rows.partition("{}")
    data = before.encode() + ITALIAN.encode("cp1252") * (0 if "città" in rows else 1) + b"caf\xe9" + after.encode()
    (tmp_path / "a.csv").write_bytes(data)
    accounting = Accounting("skip")
    assert len([*read_table([tmp_path / "a.csv"], accounting=accounting)]) == 1
    assert accounting.guessed_encodings.total == 0
    assert "is not UTF-8" in accounting.errors.first


def test_a_row_whose_language_is_no_code_is_named_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("concept,lang,text\n1,german,a\n1,klingon,b\n1,,c\n1,x-klingon,d\n")
    accounting = Accounting("skip")
    assert [document.text for document in read_table([path], accounting=accounting)] == ["a", "c", "d"]
    assert accounting.errors.examples == {
        "invalid language code": f"{path}:3: 'klingon' is not a language code; "
        "write one such as de, pt-BR or zh-Hant, or x-name for your own"
    }
    with pytest.raises(CorpusError, match=r"a\.csv:3: 'klingon' is not a language code"):
        list(read_table([path]))


def test_broken_quoting_between_tabs_is_named_without_a_tab(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text('"concept"\t"lang"\t"text"\n1\ten\t"a" b\n')
    assert "broken quoting, tab expected after '\"'; " in message(path)
