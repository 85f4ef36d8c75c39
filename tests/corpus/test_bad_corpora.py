"""Mistakes in corpora: each is named, or skipped and counted."""

import gzip
import io
import json
import lzma
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from corpus_files import FORMATS, GOOD, LINE, SKIP_LINES, message, put, put_parquet, relaxed
from hypothesis import given
from hypothesis import strategies as st

from cr5.corpus.documents import Document
from cr5.corpus.reading import read, read_batches
from cr5.corpus.skipped import Skipped
from cr5.corpus.tables import ReadLimits
from cr5.corpus.writing import write
from cr5.errors import CorpusError, EncodingGuessed


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test runs in a folder of its own, so that messages quote short paths, and waits for no disk."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "fsync", lambda _: None)


# Mistakes, each quoted whole

NEEDS = "every line needs concept, lang and text"
ICONV = "is not UTF-8; convert the file, e.g. with iconv -f windows-1252 -t utf-8"
OBJECT = "write one object on every line"
STRING = "not a string; write it as a string"
ONCE = "in an object; keep one of them"
BAD_LINES = {
    "{": f"broken JSON, expecting property name enclosed in double quotes at column 2; {OBJECT}",
    "x": f"broken JSON, expecting value at column 1; {OBJECT}",
    '{"concept": "Q1"} {}': f"broken JSON, extra data at column 19; {OBJECT}",
    "[" * 100_000: f"broken JSON, nested too deeply; {OBJECT}",
    "[1]": f"a list, not a JSON object; {OBJECT}",
    '"a"': f"a string, not a JSON object; {OBJECT}",
    "null": f"null, not a JSON object; {OBJECT}",
    '{"concept": "Q1", "lang": "en"}': f"no field 'text'; {NEEDS}",
    '{"concept": "Q1", "text": "a"}': f"no field 'lang'; {NEEDS}",
    '{"concept": null, "lang": "en", "text": "a"}': f"field 'concept' is null; {NEEDS}",
    '{"concept": "Q1", "lang": "en", "text": " \\u3000"}': f"field 'text' is empty; {NEEDS}",
    '{"concept": "", "lang": "en", "text": "a"}': f"field 'concept' is empty; {NEEDS}",
    '{"concept": 4.5, "lang": "en", "text": "a"}': f"field 'concept' is a number, {STRING}",
    '{"concept": true, "lang": "en", "text": "a"}': f"field 'concept' is a boolean, {STRING}",
    '{"concept": 99999999999999999999, "lang": "en", "text": "a"}': f"field 'concept' is a number, {STRING}",
    '{"concept": "Q1", "lang": "en", "text": 1}': f"field 'text' is a number, {STRING}",
    '{"concept": "Q1", "lang": "en", "text": ["a"]}': f"field 'text' is a list, {STRING}",
    '{"concept": "Q1", "lang": "en", "text": "a", "url": {}}': f"field 'url' is an object, {STRING}",
    '{"concept": "Q1", "lang": "en", "text": "\\ud800"}': "field 'text' contains a lone surrogate, \\ud800; remove it",
    '{"concept": "Q1", "lang": "en", "text": "a", "text": "b"}': f"key 'text' occurs 2 times {ONCE}",
    '{"lang": "en", "lang": "it", "lang": "en", "concept": "Q1", "text": "a"}': f"key 'lang' occurs 3 times {ONCE}",
    b'{"concept": "Q1", "lang": "en", "text": "caf\x81"}': f"byte 0x81 at position 45 {ICONV}",
}


@pytest.mark.parametrize("line", BAD_LINES)
def test_a_bad_line_of_jsonl_is_named_or_skipped(line: str | bytes) -> None:
    raw = line.encode() if isinstance(line, str) else line
    put("c.jsonl", LINE.encode() * 2 + raw + b"\n" + LINE.encode())
    assert message("c.jsonl") == f"c.jsonl:3: {BAD_LINES[line]}"
    skipped = Skipped()
    (batch,) = read_batches("c.jsonl", on_error="skip", skipped=skipped)
    assert batch.lines.tolist() == [1, 2, 4]
    assert skipped.total == 1
    assert list(skipped.examples.values()) == [f"c.jsonl:3: {BAD_LINES[line]}"]


def test_repeated_keys_of_fields_are_refused_and_those_that_are_not_kept_are_not() -> None:
    put("c.jsonl", b'{"concept": "Q1", "lang": "en", "text": "a", "fields": {"year": 1, "year": 2}}')
    with pytest.raises(CorpusError, match=r"c\.jsonl:1: key 'year' occurs 2 times"):
        list(read("c.jsonl"))
    other = b'{"concept": "Q1", "lang": "en", "text": "a", "note": 1, "note": 2}\n'
    for before in (b"", b"x\n"):  # which is read line by line
        put("d.jsonl", LINE.encode() + before + other)
        skipped = Skipped()
        assert [batch.rows.num_rows for batch in read_batches("d.jsonl", on_error="skip", skipped=skipped)] == [2]
        assert skipped.total == len(before) // 2


@pytest.mark.parametrize("name", ["c.csv", "c.jsonl", "c.parquet"])
def test_at_a_line_that_cannot_be_decoded_the_error_says_how_to_go_on_without_it(name: str) -> None:
    raw = pa.array([b"a", b"caf\xe9"], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 2, raw.buffers())
    put_parquet("c.parquet", concept=["Q1"] * 2, lang=["en"] * 2, text=text)
    put("c.csv", b"concept,lang,text\nQ1,en,a\nQ1,en,caf\x81\n")
    put("c.jsonl", LINE.encode() + b'{"concept": "Q1", "lang": "en", "text": "caf\x81"}\n')
    with pytest.raises(CorpusError) as caught:
        list(read_batches(name))
    assert str(caught.value).endswith(SKIP_LINES)


QUOTE = "double every quote and quote the field around it"
BAD_ROWS = {
    b"Q1,en": "2 fields under a header of 3; quote a field that holds a delimiter or a line break",
    b"Q1,en,a,b": "4 fields under a header of 3; quote a field that holds a delimiter or a line break",
    b'Q1,en,"a" b': f"broken quoting, ',' expected after '\"'; {QUOTE}",
    b"Q1,en, ": "field 'text' is empty; every row needs concept, lang and text",
    b"Q1,en,caf\x81": f"byte 0x81 at position 10 {ICONV}",
}


@pytest.mark.parametrize("row", BAD_ROWS)
def test_a_bad_row_of_csv_is_named_or_skipped(row: bytes) -> None:
    put("c.csv", b'concept,lang,text\nQ1,en,"two\nlines"\n' + row + b"\nQ1,en,b\n")
    assert message("c.csv") == f"c.csv:4: {BAD_ROWS[row]}"
    skipped = Skipped()
    (batch,) = read_batches("c.csv", on_error="skip", skipped=skipped)
    assert batch.lines.tolist() == [2, 5]
    assert skipped.total == 1


def test_a_quote_that_is_never_closed_is_named_where_it_opens() -> None:
    put("c.csv", 'concept,lang,text\nQ1,en,a\nQ1,en,"b\nQ1,en,c\n')
    assert message("c.csv") == f"c.csv:3: broken quoting, a quote is not closed; {QUOTE}"


@pytest.mark.parametrize(
    "bad",
    [
        'Q7,en,"text 7',  # no further quote
        'Q7,en,"text "7"',
        '"Q7,en,text 7',
    ],
)
@pytest.mark.parametrize(
    ("later", "text"),
    [
        ("Q900,en,text 900", "text 900"),
        ('Q900,en,"text ""900"", quoted"', 'text "900", quoted'),
        ('Q900,en,text 900"', 'text 900"'),
        ('Q900,"en",text 900', "text 900"),
    ],
)
def test_a_quote_that_is_never_closed_costs_one_row(bad: str, later: str, text: str) -> None:
    rows = [f"Q{i},en,text {i}" for i in range(2000)]
    rows[7], rows[900] = bad, later
    put("c.csv", "\n".join(["concept,lang,text", *rows]) + "\n")
    assert message("c.csv").startswith("c.csv:9: broken quoting, ")
    skipped = Skipped()
    found = list(read("c.csv", on_error="skip", skipped=skipped))
    assert [document.concept for document in found] == [f"Q{i}" for i in range(2000) if i != 7]
    assert (len(found), skipped.counts) == (1999, {"broken CSV": 1})
    assert found[899].text == text


def test_every_line_with_a_quote_that_is_not_closed_is_counted() -> None:
    rows = [f'Q{i},en,"text {i}' if i % 3 else f'Q{i},en,"text ""{i}"", {i}"' for i in range(30)]
    put("c.csv", "\n".join(["concept,lang,text", *rows]) + "\n")
    skipped = Skipped()
    assert [d.text for d in read("c.csv", on_error="skip", skipped=skipped)] == [
        f'text "{i}", {i}' for i in range(0, 30, 3)
    ]
    assert skipped.total == 20


def test_a_long_quoted_text_with_line_breaks_is_one_document() -> None:
    text = "\n".join(f"line {i}, with a comma" if i % 2 else f"line, {i}, with commas" for i in range(1000))
    put("c.csv", f'concept,lang,text\nQ1,en,"{text}"\nQ2,en,b\n')
    assert [document.text for document in read("c.csv")] == [text, "b"]


def test_lines_that_cannot_be_read_again_within_the_time_are_numbered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cr5.corpus.csv_files._MAX_REREAD", 0)
    put("c.csv", 'concept,lang,text\nQ1,en,a\nQ2,en,"b\nQ3,en,c\nQ4,en,d\n')
    assert message("c.csv") == (
        f"c.csv:3: broken quoting, a quote is not closed; {QUOTE}; the 3 lines from here to line 5 are left out"
    )


def test_a_csv_file_with_carriage_returns_alone_is_explained() -> None:
    put("c.csv", b"concept,lang,text\rQ1,en,a\rQ2,en,b\r")
    assert message("c.csv") == (
        "c.csv:1: a carriage return without a line feed; if it ends the line, as in old files, convert the file with "
        "tr '\\r' '\\n', otherwise quote the field"
    )
    with pytest.raises(CorpusError, match=r"^no document can be used: c\.csv:1: a carriage return"):
        list(read("c.csv", on_error="skip"))


def test_a_bad_byte_inside_a_quoted_field_is_named_by_its_own_line_and_costs_one_row() -> None:
    put("c.csv", b'concept,lang,text\nQ1,en,"b\nc\x81\nd"\nQ1,en,c\n')
    assert message("c.csv") == f"c.csv:3: byte 0x81 at position 2 {ICONV}"
    assert [document.text for document in read("c.csv", on_error="skip")] == ["c"]


def test_bad_rows_of_parquet_are_named_or_skipped() -> None:
    raw = pa.array([b"a", b"caf\xe9", b"", None, b"e"], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 5, raw.buffers())
    put_parquet("c.parquet", concept=["Q1"] * 5, lang=["en"] * 5, text=text)
    needs = "every row needs concept, lang and text"
    explanation = "c.parquet: row 2: field 'text' is not UTF-8 at byte 4; write it again as UTF-8"
    assert message("c.parquet") == explanation
    skipped = Skipped()
    (batch,) = read_batches("c.parquet", on_error="skip", skipped=skipped)
    assert batch.lines.tolist() == [1, 5]
    assert skipped.examples == {
        "invalid UTF-8": explanation,
        "empty field": f"c.parquet: row 3: field 'text' is empty; {needs}",
        "missing field": f"c.parquet: row 4: field 'text' is null; {needs}",
    }


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("name", ["c.csv", "c.tsv"])
def test_the_delimiter_is_the_one_that_divides_the_header(name: str, delimiter: str) -> None:
    header, row = delimiter.join(["concept", "lang", '"text"']), delimiter.join(["Q1", "en", '"a, b; c|\td"'])
    for start in ("", "\ufeff", "\n", f"sep={delimiter}\n"):
        put(name, f"{start}{header}\n{row}\n")
        assert list(read(name)) == [Document("Q1", "en", "a, b; c|\td")]
        (batch,) = read_batches(name)
        assert batch.lines.tolist() == [2 + start.count("\n")]


def test_with_a_single_column_the_delimiter_is_that_of_the_suffix() -> None:
    put("c.tsv", "concept\nQ1\ten\n")
    assert message("c.tsv").startswith("c.tsv:1: no column 'lang' or 'text', only concept; ")


ITALIAN = "La città è già più libera"


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("c.csv", "concept;lang;text\nQ0;en;city\nQ1;it;{}\n"),
        ("c.tsv.gz", "concept\tlang\ttext\nQ1\tita\t{}\n"),
        ("c.jsonl", '{{"concept": "Q1", "lang": "it", "text": "{}"}}\n'),
    ],
)
def test_a_file_that_is_evidently_windows_1252_is_read_so_with_a_warning(name: str, start: str) -> None:
    data = start.format(ITALIAN).encode("cp1252")
    put(name, gzip.compress(data) if name.endswith(".gz") else data)
    put(f"other-{name}", gzip.compress(data) if name.endswith(".gz") else data)
    with pytest.warns(EncodingGuessed) as warned:
        found = list(read([name, f"other-{name}"]))
    assert [document.text for document in found if document.concept == "Q1"] == [ITALIAN] * 2
    assert [str(warning.message) for warning in warned] == [
        f"{name} is evidently windows-1252, not UTF-8, and is read so, as are other such files"
    ]


def test_utf8_later_in_a_file_that_begins_in_windows_1252_is_not_garbled() -> None:
    ascii_rows = b"Q2,it,una riga senza accenti\n" * 60_000
    begin = f"concept,lang,text\nQ1,it,{ITALIAN}\n".encode("cp1252")
    put("c.csv", begin + ascii_rows + f"Q3,it,{ITALIAN}\n".encode())
    with pytest.warns(EncodingGuessed):
        documents = list(read("c.csv"))
    assert [documents[0].text, documents[-1].text] == [ITALIAN, ITALIAN]
    put("c.csv", begin + ascii_rows + f"Q3,it,{ITALIAN}\n".encode() + f"Q4,it,{ITALIAN}\n".encode("cp1252"))
    with pytest.warns(EncodingGuessed), pytest.raises(CorpusError, match=r"c\.csv:60004: .*is not UTF-8"):
        list(read("c.csv"))


def test_a_quotation_mark_between_letters_does_not_hide_that_a_file_is_windows_1252() -> None:
    texts = [ITALIAN, "il segnaposto var«spazio»var è più corto"]
    put("c.csv", "".join(["concept,lang,text\n", *(f"Q1,it,{text}\n" for text in texts)]).encode("cp1252"))
    with pytest.warns(EncodingGuessed):
        assert [document.text for document in read("c.csv")] == texts


def test_a_cyrillic_file_that_is_not_utf_8_is_refused_and_not_guessed() -> None:
    put("c.csv", "concept,lang,text\nQ1,ru,Привет\n".encode("cp1251"))
    assert message("c.csv") == f"c.csv:2: byte 0xcf at position 7 {ICONV}"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_gives_the_encoding(encoding: str) -> None:
    document = Document("Q1", "da", "æble 漢 🦉")
    put("c.csv", f"concept,lang,text\n{document.concept},{document.lang},{document.text}\n".encode(encoding))
    line = json.dumps({"concept": "Q1", "lang": "da", "text": document.text}, ensure_ascii=False)
    put("c.jsonl", f"{line}\n".encode(encoding))
    assert list(read(["c.csv", "c.jsonl"])) == [document, document]


def bad_files() -> dict[str, str]:
    """Write files that cannot be read at all; name -> how the message begins."""
    put("empty.jsonl", "")
    put("empty.parquet", "")
    put("empty.csv.xz", "")
    put("blank.jsonl", "\ufeff\n \n")
    put("header.csv", "concept,lang,text\n")
    put("utf16.jsonl", LINE.encode("utf-16") + b"\0")
    put("wide.csv", "doc id,en,pt_BR\n1,a dog,um cão\n")
    put("columns.csv", "concept;language;text\nQ1;en;a\n")
    put("twice.tsv", "concept\tlang\ttext\ttext\n")
    put("quoted.csv", '"concept"x,lang,text\nQ1,en,a\n')
    put("latin.csv", b"concept,lang,text,caf\x81\nQ1,en,a,b\n")
    put_parquet("columns.parquet", concept=["Q1"], body=["a"])
    put_parquet("types.parquet", concept=["Q1"], lang=["en"], text=[1.5])
    put("short.jsonl.gz", gzip.compress(LINE.encode())[:-9])
    put("short.jsonl.xz", lzma.compress(LINE.encode())[:-9])
    put("wrong.jsonl.gz", LINE)
    put("wrong.csv.xz", LINE)
    put("sum.jsonl.gz", gzip.compress(LINE.encode())[:-8] + b"checksum")
    put("bits.jsonl.gz", gzip.compress(LINE.encode())[:10] + b"\xff" * 99)
    put("wrong.parquet", LINE)
    write("short.parquet", GOOD)
    put("short.parquet", Path("short.parquet").read_bytes()[:-20])
    needs = "a corpus needs concept, lang and text, and cr5 corpus table converts a table with other columns"
    empty = 'contains no documents; remove it or pass `on_error="skip"`'
    again = "copy or download it again"
    return {
        "empty.jsonl": f"empty.jsonl: {empty}",
        "empty.parquet": f"empty.parquet: {empty}",
        "empty.csv.xz": f"empty.csv.xz: {empty}",
        "blank.jsonl": f"blank.jsonl: {empty}",
        "header.csv": f"header.csv: {empty}",
        "utf16.jsonl": f"utf16.jsonl: corrupt, not valid utf-16-le, truncated data; {again}",
        "columns.csv": f"columns.csv:1: no column 'lang', only concept, language, text; {needs}",
        "wide.csv": f"wide.csv:1: no column 'concept' or 'lang' or 'text', only doc id, en, pt_BR; {needs} (cr5 corpus "
        "table FILE --concept-column 'doc id' --wide en=en --wide pt-BR=pt_BR -o CORPUS)",
        "twice.tsv": "twice.tsv:1: column 'text' occurs 2 times; rename all but one",
        "quoted.csv": f"quoted.csv:1: broken quoting, ',' expected after '\"'; {QUOTE}",
        "latin.csv": f"latin.csv:1: byte 0x81 at position 22 {ICONV}",
        "columns.parquet": f"columns.parquet: no column 'lang' or 'text', only concept, body; {needs}",
        "types.parquet": "types.parquet: column 'text' is double, not string; write it as strings",
        "short.jsonl.gz": f"short.jsonl.gz: truncated, the compressed data has no end; {again}",
        "short.jsonl.xz": f"short.jsonl.xz: truncated, the compressed data has no end; {again}",
        "wrong.jsonl.gz": f"wrong.jsonl.gz: corrupt, not a gzipped file (b'{{\"'); {again}",
        "wrong.csv.xz": f"wrong.csv.xz: corrupt, input format not supported by decoder; {again}",
        "sum.jsonl.gz": "sum.jsonl.gz: corrupt, CRC",
        "bits.jsonl.gz": "bits.jsonl.gz: corrupt, error -3",
        "wrong.parquet": f"wrong.parquet: corrupt, or not a Parquet file; {again}",
        "short.parquet": f"short.parquet: corrupt, or not a Parquet file; {again}",
    }


def test_a_bad_file_is_named_or_skipped() -> None:
    expected = bad_files()
    write("good.jsonl", GOOD)
    messages = {name: message(name) for name in expected}
    assert {name: text[: len(expected[name])] for name, text in messages.items()} == expected
    skipped = Skipped()
    assert list(read([*expected, "good.jsonl"], on_error="skip", skipped=skipped)) == GOOD
    assert skipped.total == len(expected)
    assert set(skipped.examples.values()) <= set(messages.values())


def test_corrupt_pages_of_parquet_are_named() -> None:
    write("c.parquet", [Document(str(i), "en", os.urandom(50).hex()) for i in range(1000)])
    content = bytearray(Path("c.parquet").read_bytes())
    content[5000:40000] = b"\xff" * 35000
    put("c.parquet", bytes(content))
    assert message("c.parquet") == "c.parquet: corrupt, or not a Parquet file; copy or download it again"


def test_a_file_without_permission_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    write("c.jsonl", GOOD)

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)  # root may read everything, so no mode would do
    assert message("c.jsonl") == "c.jsonl: cannot be read, permission denied; check its permissions"


def test_a_folder_without_permission_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "in/a")

    Path("in").mkdir()
    monkeypatch.setattr(os, "scandir", refuse)
    assert message("in") == "in/a: cannot be read, permission denied; check its permissions"


@pytest.mark.parametrize("chunk", [1 << 16, 1 << 18, 2 << 20, 8 << 20])
def test_a_line_that_is_too_long_is_named_and_those_after_it_are_read(chunk: int) -> None:
    limits = ReadLimits(chunk_bytes=chunk, line_bytes=1 << 20)
    put("c.jsonl", LINE + "[" * (10 << 20) + "\n" + LINE * 2 + "[" * (10 << 20))
    with pytest.raises(CorpusError, match=r"c\.jsonl:2: a line of more than 1 MB"):
        list(read_batches("c.jsonl", limits=limits))
    skipped = Skipped()
    batches = list(read_batches("c.jsonl", on_error="skip", skipped=skipped, limits=limits))
    assert [line for batch in batches for line in batch.lines] == [1, 3, 4]
    assert skipped.counts == {"line too long": 2}


@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        ("no.jsonl", "no.jsonl: no such file or folder; check the spelling"),
        ("no/*.jsonl", "no/*.jsonl: no file matches; put a pattern in quotes and check its folder"),
        ("bare", f"bare: no corpus file in this folder; the formats are {FORMATS}"),
        ("model", "model: this folder is a model, and not a corpus; check the order of the arguments"),
        ("index", "index: this folder is an index, and not a corpus; check the order of the arguments"),
        ("c.txt", f"c.txt: unknown suffix '.txt'; the formats are {FORMATS}; cr5 corpus makes a corpus of other files"),
        (
            "c.json.gz",
            f"c.json.gz: unknown suffix '.json.gz'; the formats are {FORMATS}; write one JSON object",
        ),
    ],
)
def test_a_path_that_names_no_corpus_is_an_error_at_once(path: str, complaint: str, on_error: str) -> None:
    for folder in ("bare", "model", "index"):
        Path(folder).mkdir()
    put("model/model.json", "{}")
    put("index/index.json", "{}")
    put("c.txt", "a")
    put("c.json.gz", "a")
    with pytest.raises(CorpusError) as caught:
        read_batches([path], on_error=on_error)  # type: ignore[arg-type]
    assert str(caught.value).startswith(complaint)


def test_an_unfinished_string_is_said_in_plain_words() -> None:
    put("a.jsonl", '{"concept": "x')
    assert message("a.jsonl").startswith("a.jsonl:1: broken JSON, unterminated string starting at column 13; ")


def test_empty_standard_input_is_not_to_be_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"")))
    assert message("-") == "standard input: contains no documents; check the command before the pipe"


def test_no_path_at_all_is_an_error() -> None:
    assert message() == "no corpus given; name a file, a folder, a glob, or - for standard input"


def test_nothing_left_to_read_is_an_error_even_when_skipping() -> None:
    put("a.jsonl", "")
    put("b.jsonl", "x\n{}\n")
    skipped = Skipped()
    with pytest.raises(CorpusError) as caught:
        list(read(["a.jsonl", "b.jsonl"], on_error="skip", skipped=skipped))
    empty = 'a.jsonl: contains no documents; remove it or pass `on_error="skip"`'
    assert str(caught.value) == f"no document can be used: all 3 lines or files have errors; the first: {empty}"
    assert skipped.counts == {"empty file": 1, "broken JSON": 1, "missing field": 1}


@given(st.lists(st.booleans(), min_size=1, max_size=30))
@relaxed
def test_as_many_lines_are_skipped_as_would_raise_alone(good: list[bool]) -> None:
    put("c.jsonl", LINE + "".join(LINE if fine else LINE[:-2] + "\n" for fine in good))
    skipped = Skipped()
    assert len(list(read("c.jsonl", on_error="skip", skipped=skipped))) == 1 + sum(good)
    assert skipped.total == good.count(False)
    if not all(good):
        assert message("c.jsonl") == skipped.examples["broken JSON"]
