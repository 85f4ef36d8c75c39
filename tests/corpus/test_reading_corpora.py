"""Documents in files: what is written comes back, however it is read."""

import io
import json
import os
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpus_files import FORMATS, GOOD, LINE, message, put, put_parquet, relaxed
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import up_to

from cr5.corpus import formats
from cr5.corpus.documents import SCHEMA, Batch, Document, ReadOptions, batch_records
from cr5.corpus.inputs import in_batches
from cr5.corpus.languages import canonical_code
from cr5.corpus.reading import read, read_batches
from cr5.corpus.skipped import Skipped
from cr5.corpus.tables import ReadLimits, json_records
from cr5.corpus.writing import WRITERS, write, write_parquet
from cr5.errors import ColumnsNotKept, CorpusError, Cr5Error, Cr5TypeError, InputSkipped

NAMES = [
    "c.jsonl",
    "c.jsonl.gz",
    "c.jsonl.bz2",
    "c.jsonl.xz",
    "c.csv",
    "c.csv.gz",
    "c.csv.xz",
    "c.tsv",
    "c.tsv.gz",
    "c.tsv.xz",
    "c.parquet",
]

anything = st.text(st.characters(exclude_categories=["Cs"]))
filled = anything.filter(str.strip)
keys = st.text(st.characters(exclude_categories=["Cs", "Cc"])).filter(str.strip)
some_documents = st.lists(st.builds(Document, keys, keys, filled, anything, anything), min_size=1, max_size=8)


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test runs in a folder of its own, so that messages quote short paths, and waits for no disk."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "fsync", lambda _: None)


def feed(monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content.encode())))


def test_control_characters_in_concepts_and_languages_are_refused_in_every_format() -> None:
    put("c.jsonl", LINE + '{"concept": "Q\\u001f1", "lang": "en", "text": "a"}\n')
    put("c.tsv", "concept\tlang\ttext\nQ1\ten\ta\nQ\x1f1\ten\ta\n")
    put_parquet("c.parquet", concept=["Q1", "Q\x1f1"], lang=["en", "en"], text=["a", "a"])
    for name, place in [("c.jsonl", "c.jsonl:2"), ("c.tsv", "c.tsv:3"), ("c.parquet", "c.parquet: row 2")]:
        expected = rf"{place}: field 'concept' is 'Q\x1f1', which has a control character; remove it"
        assert message(name) == expected
        skipped = Skipped()
        assert sum(batch.rows.num_rows for batch in read_batches([name], on_error="skip", skipped=skipped)) == 1
        assert skipped.counts == {"control character": 1}
    assert "field 'lang' is 'e\\tn'" in message(put_parquet("d.parquet", concept=["Q1"], lang=["e\tn"], text=["a"]))


def test_files_of_other_formats_in_a_folder_are_counted_or_warned_of() -> None:
    Path("corpus/deeper").mkdir(parents=True)
    put("corpus/a.jsonl", LINE)
    for name in ("b.json", "deeper/c.txt", "manifest.json", ".hidden"):
        put(f"corpus/{name}", "{}")
    for read_as in (read, read_batches, in_batches, lambda paths: read_batches(paths).with_fields()):
        with pytest.warns(
            InputSkipped, match=r"2 files of another format not read, e\.g\. corpus/b\.json; the formats"
        ):
            assert len(list(read_as("corpus"))) == 1
    for read_and_count in (read, read_batches, in_batches):
        skipped = Skipped()
        assert len(list(read_and_count("corpus", skipped=skipped))) == 1
        assert skipped.counts == {"file of another format": 2}
    skipped = Skipped()
    shards = read_batches("corpus", skipped=skipped).shards()
    assert (len(shards), skipped.counts) == (1, {"file of another format": 2})


def test_a_reader_counts_what_is_skipped_also_if_its_documents_are_read_with_fields() -> None:
    reader = read_batches(put("a.jsonl", LINE + "{\n"), on_error="skip")
    assert sum(batch.rows.num_rows for batch in reader.with_fields()) == 1
    assert reader.skipped.counts == {"broken JSON": 1}


# What is written comes back


@pytest.mark.parametrize("name", NAMES)
@given(some_documents)
@relaxed
def test_random_documents_come_back_equal_from_every_format(name: str, corpus: list[Document]) -> None:
    assert write(name, corpus) == len(corpus)
    assert list(read([name], batch_rows=3)) == [replace(d, lang=canonical_code(d.lang)) for d in corpus]


def test_documents_in_place_of_the_path_are_named() -> None:
    with pytest.raises(Cr5TypeError, match="`path` is a list; give a path"):
        write(GOOD, "corpus.jsonl")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
def test_batches_copy_from_one_format_to_another(name: str) -> None:
    write("first.jsonl", GOOD)
    assert write(name, read_batches(["first.jsonl"])) == 2
    assert list(read(name)) == GOOD


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_corpus_is_written_without_a_row(name: str) -> None:
    assert write(name, []) == 0
    assert message(name) == f'{name}: contains no documents; remove it or pass `on_error="skip"`'


def test_rows_have_the_schema_and_no_nulls() -> None:
    put("c.jsonl", LINE)
    put("c.csv", "lang,text,concept\nen,a,Q1\n")
    put_parquet("c.parquet", text=["a"], concept=["Q1"], lang=["en"], title=pa.array([None], pa.string()))
    for batch in read_batches(["c.jsonl", "c.csv", "c.parquet"]):
        assert batch.rows.schema == SCHEMA
        assert [column.null_count for column in batch.rows.columns] == [0] * 5
        assert list(batch.documents()) == [Document("Q1", "en", "a")]


def test_written_jsonl_is_readable_text_without_empty_fields() -> None:
    write("c.jsonl", [Document("Q1", "el", "σύμπαν", "", "u")])
    assert Path("c.jsonl").read_text() == '{"concept": "Q1", "lang": "el", "text": "σύμπαν", "url": "u"}\n'


def test_written_gzip_has_the_same_bytes_every_time() -> None:
    write("a.jsonl.gz", GOOD)
    write("b.jsonl.gz", GOOD)
    assert Path("a.jsonl.gz").read_bytes() == Path("b.jsonl.gz").read_bytes()


def test_parquet_is_written_in_several_row_groups() -> None:
    with Path("c.parquet").open("wb") as stream:
        rows = (batch.rows for _ in range(3) for batch in in_batches(GOOD))
        assert write_parquet(stream, rows, row_group_bytes=1) == 3 * len(GOOD)
    assert pq.ParquetFile("c.parquet").num_row_groups == 3
    assert list(read("c.parquet")) == GOOD * 3


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\n\n \n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_ends_blank_lines_and_byte_order_marks_do_not_matter(ending: str, mark: str) -> None:
    put("c.jsonl", mark + ending.join([LINE.strip()] * 2))
    put("c.csv", mark + ending.replace(" ", "").join(["concept,lang,text", 'Q1,en,"a"', "Q1,en,a"]))
    for name in ("c.jsonl", "c.csv"):
        lines = [line for batch in read_batches(name) for line in batch.lines]
        assert lines[1] - lines[0] == ending.count("\n")
        assert list(read(name)) == [Document("Q1", "en", "a")] * 2


def test_extra_columns_are_left_out_and_named() -> None:
    put("c.jsonl", '{"n": [1, {"text": 2}], "concept": "Q1", "lang": "en", "text": "a", "title": null}\n')
    put("c.tsv", "n\tlang\tconcept\ttext\n1\ten\tQ1\ta\n")
    put_parquet("c.parquet", n=[1], concept=["Q1"], lang=["en"], text=["a"])
    with pytest.warns(ColumnsNotKept, match="not kept: n;"):
        assert list(read(["c.jsonl", "c.tsv", "c.parquet"])) == [Document("Q1", "en", "a")] * 3


def test_integers_name_concepts() -> None:
    lines = [LINE.replace('"Q1"', value) for value in ("42", "-7", '"x"')]
    put("whole.jsonl", "".join(lines[:2]))
    put("mixed.jsonl", "".join(lines))
    put_parquet("c.parquet", concept=[42, -7], lang=["en", "en"], text=["a", "a"])
    found = [document.concept for document in read(["whole.jsonl", "mixed.jsonl", "c.parquet"])]
    assert found == ["42", "-7", "42", "-7", "x", "42", "-7"]


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())])
def test_parquet_strings_of_any_kind_are_read(kind: pa.DataType) -> None:
    text = pa.array(["a", "b", "a"]).cast(kind)
    put_parquet("c.parquet", concept=text, lang=text, text=text, title=pa.nulls(3))
    assert [document.text for document in read("c.parquet")] == ["a", "b", "a"]


# Both ways through JSONL


def line_by_line(name: str, langs: frozenset[str] | None) -> tuple[list[Document], list[str]]:
    """What a file holds when each of its lines is parsed by Python alone."""
    wrong: list[str] = []

    def report(line: int | None, reason: str, explanation: str) -> None:
        wrong.append(f"{line} {reason} {explanation}")

    records = json_records(Path(name).read_bytes(), 1, report, formats._parse_line)
    options = ReadOptions(langs, batch_rows=2000)
    found = [Batch(rows, "", numbers) for rows, numbers in batch_records(records, report, "line", options)]
    return [document for batch in found for document in batch.documents()], sorted(wrong)


def block_by_block(name: str, langs: frozenset[str] | None) -> tuple[list[Document], list[str]]:
    wrong: list[str] = []

    def report(line: int | None, reason: str, explanation: str) -> None:
        wrong.append(f"{line} {reason} {explanation}")

    with Path(name).open("rb") as stream:
        options = ReadOptions(langs, batch_rows=2)
        found = [Batch(rows, "", numbers) for rows, numbers in formats.read_jsonl(stream, report, options)]
    return [document for batch in found for document in batch.documents()], sorted(wrong)


values = st.one_of(
    anything.map(json.dumps),
    anything.map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.sampled_from(
        ["null", "42", "-0", "4.5", "1e3", "9" * 19, "9" * 5000, "true", "[]", '{"text": "a"}', "NaN", "Inf"]
    ),
    st.sampled_from(
        [r'"\ud800"', r'"\udc00x"', r'"\ud83d\ude00"', '" "', '"\x00"', r'"\u0000"', '"\t"', '"', "", "[" * 2000]
    ),
)
json_keys = st.sampled_from(["concept", "lang", "text", "title", "url", "n", r"\u0074ext", r"text\u0000"])
good_lines = st.builds(
    lambda d: json.dumps({"concept": d[0], "lang": d[1], "text": d[2]}), st.tuples(filled, filled, filled)
)
objects = st.lists(st.tuples(json_keys, values), max_size=6).map(
    lambda pairs: "{" + ", ".join(f'"{key}": {value}' for key, value in pairs) + "}"
)
odd_lines = st.one_of(
    objects,
    st.builds(lambda a, value: f'{a[:-1]}, "n": {value}}}', good_lines, values),
    st.builds(lambda a, b: a + " " + b, good_lines, good_lines),
    st.sampled_from(["", "{}", "[1]", '"a"', "{", "}", " {} ", "\ufeff{}", "x"]),
)
files = st.lists(st.one_of(good_lines, good_lines, odd_lines), min_size=1, max_size=6)


@pytest.mark.slow
@given(
    files,
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([None, frozenset({"en", "0"})]),
    st.integers(0, 250),
    st.integers(128, 255),
)
@settings(relaxed, max_examples=up_to(150))
def test_blocks_and_single_lines_give_the_same_documents_and_complaints(
    lines: list[str], ending: str, langs: frozenset[str] | None, place: int, byte: int
) -> None:
    content = bytearray(ending.join([LINE.strip(), *lines]).encode())
    if place < len(content) and byte % 4 == 0:
        content[place] = byte  # most often no UTF-8
    put("c.jsonl", bytes(content))
    assert block_by_block("c.jsonl", langs) == line_by_line("c.jsonl", langs)


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_spelling_that_only_arrow_knows_is_read_beside_a_bad_line_too(ending: str) -> None:
    odd = LINE.replace("}\n", ', "n": Inf}' + ending)
    put("alone.jsonl", odd)
    put("beside.jsonl", odd + "x\n")
    assert list(read(["alone.jsonl", "beside.jsonl"], on_error="skip")) == [Document("Q1", "en", "a")] * 2


def test_ordinary_lines_are_parsed_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "json_records", None)
    put("c.jsonl", LINE * 10)
    put("numbers.jsonl", LINE.replace('"Q1"', "1").replace("\n", "\r\n") * 10)
    assert len(list(read(["c.jsonl", "numbers.jsonl"]))) == 20


# Where documents come from


def test_a_folder_gives_all_files_of_a_known_suffix_sorted(tmp_path: Path) -> None:
    Path("in/a").mkdir(parents=True)
    for name in ("in/b.jsonl", "in/a/z.JSONL", "in/c.csv.gz"):
        write(name, GOOD)
    put("in/README.md", "no corpus")
    Path("in/a/up").symlink_to(tmp_path / "in")
    sources = [batch.source for batch in read_batches([Path("in")], skipped=Skipped())]
    assert sources == ["in/a/z.JSONL", "in/b.jsonl", "in/c.csv.gz"]


def test_a_glob_gives_its_matches_sorted_and_folders_whole() -> None:
    for name in ("in/a/1.jsonl", "in/b.jsonl", "in/[b].jsonl", "other.jsonl"):
        put(name, LINE)
    assert [batch.source for batch in read_batches(["in/*"])] == ["in/[b].jsonl", "in/a/1.jsonl", "in/b.jsonl"]
    assert [batch.source for batch in read_batches(["in/**/?.jsonl"])] == ["in/a/1.jsonl", "in/b.jsonl"]
    assert [batch.source for batch in read_batches(["in/[b].jsonl"])] == ["in/[b].jsonl"]


def test_a_dash_is_standard_input_and_standard_output(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    feed(monkeypatch, LINE * 2)
    assert write("-", read_batches("-")) == 2
    assert capfdbinary.readouterr().out == LINE.encode() * 2


def test_every_row_knows_its_file_and_line(monkeypatch: pytest.MonkeyPatch) -> None:
    feed(monkeypatch, "\n" + LINE)
    put("c.csv", 'concept,lang,text\nQ1,en,"two\nlines"\n\nQ1,en,b\n')
    write("c.parquet", GOOD)
    places = [batch.location(i) for batch in read_batches(["-", "c.csv", "c.parquet"]) for i in range(len(batch.lines))]
    assert places == ["standard input:2", "c.csv:2", "c.csv:5", "c.parquet: row 1", "c.parquet: row 2"]
    assert [batch.location(0) for batch in in_batches(GOOD, batch_rows=1)] == ["`documents[0]`", "`documents[1]`"]
    assert next(in_batches(GOOD)).source == "documents"


@pytest.mark.parametrize("name", ["c.jsonl", "c.csv", "c.parquet"])
def test_languages_are_chosen_before_anything_else_is_asked_of_a_row(name: str) -> None:
    rows = {"concept": ["Q1", "", "Q3"], "lang": ["en", "fr", "de"], "text": ["a", "", "c"]}
    if name == "c.parquet":
        pq.write_table(pa.table(rows), name, row_group_size=1)
    elif name == "c.csv":
        put(name, "concept,lang,text\nQ1,en,a\n,fr,\nQ3,de,c\n")
    else:
        put(
            name,
            "".join(json.dumps(dict(zip(rows, row, strict=True))) + "\n" for row in zip(*rows.values(), strict=True)),
        )
    found = list(read_batches(name, langs={"de", "en"}, batch_rows=5))
    assert [document.concept for batch in found for document in batch.documents()] == ["Q1", "Q3"]
    assert [line for batch in found for line in batch.lines] == ([2, 4] if name == "c.csv" else [1, 3])
    assert list(read(name, langs="it")) == []


# Streaming


def test_the_first_document_of_an_endless_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(io.RawIOBase):
        taken = 0

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
            filled = (LINE.encode() * (len(buffer) // len(LINE) + 1))[: len(buffer) // len(LINE) * len(LINE)]
            buffer[: len(filled)] = filled
            self.taken += len(filled)
            return len(filled)

    endless = Endless()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(endless, 1 << 16)))
    assert next(read("-")) == Document("Q1", "en", "a")
    assert endless.taken <= 2 * ReadLimits().chunk_bytes


@pytest.mark.parametrize("name", ["c.jsonl", "c.csv", "c.parquet", "c.jsonl.gz"])
def test_memory_is_bounded_by_a_batch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(WRITERS, ".parquet", partial(write_parquet, row_group_bytes=1 << 18))
    batches = in_batches((Document(str(i), "en", f"{i} " * 500) for i in range(2500)), batch_rows=25)
    write(name, batches)  # 6 MB
    limits = ReadLimits(chunk_bytes=1 << 16, batch_bytes=1 << 16)
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    for batch in read_batches(name, limits=limits):
        assert batch.rows.nbytes < 1 << 18
        assert pa.total_allocated_bytes() - before < 4 << 20
    assert tracemalloc.get_traced_memory()[1] < 2 << 20
    tracemalloc.stop()


def test_batches_hold_at_most_the_rows_asked_for_and_no_line_is_lost() -> None:
    corpus = [Document(str(i), "en", "x" * (i % 50) + "y") for i in range(100)]
    for chunk in (7, 100, 1 << 20):
        for name in ("c.jsonl", "c.csv", "c.parquet"):
            write(name, corpus)
            found = list(read_batches(name, batch_rows=16, limits=ReadLimits(chunk_bytes=chunk)))
            assert max(batch.rows.num_rows for batch in found) <= 16
            assert [document for batch in found for document in batch.documents()] == corpus
            header = name == "c.csv"
            np.testing.assert_array_equal(np.concatenate([b.lines for b in found]), np.arange(100) + 1 + header)


def test_a_long_parquet_row_is_a_batch_of_its_own() -> None:
    write("c.parquet", [Document(str(i), "en", "z" * (1 if i % 8 else 5000)) for i in range(64)])
    found = list(read_batches("c.parquet", limits=ReadLimits(batch_bytes=4000)))
    assert sum(batch.rows.num_rows for batch in found) == 64
    assert all(batch.rows.nbytes <= 4000 or batch.rows.num_rows == 1 for batch in found)


def test_fields_longer_than_the_csv_module_likes_are_read() -> None:
    write("c.csv", [Document("Q1", "en", "long " * 100_000)])
    assert len(next(read("c.csv")).text) == 500_000


# Writing is all or nothing


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("stop", [RuntimeError, KeyboardInterrupt])
def test_a_broken_write_leaves_the_old_file_and_nothing_else(name: str, stop: type[BaseException]) -> None:
    def interrupted() -> Iterator[Document]:
        yield from GOOD * 2000
        raise stop

    write(name, GOOD)
    with pytest.raises(stop):
        write(name, interrupted())
    assert os.listdir() == [name]  # noqa: PTH208
    assert list(read(name)) == GOOD


def test_a_file_is_on_disk_before_it_has_its_name_and_the_name_after(monkeypatch: pytest.MonkeyPatch) -> None:
    present: list[bool] = []
    monkeypatch.setattr(os, "fsync", lambda _: present.append(Path("c.jsonl").exists()))
    write("c.jsonl", GOOD)
    assert present == [False, True]


def test_writing_through_a_link_keeps_the_link() -> None:
    Path("store").mkdir()
    Path("c.jsonl").symlink_to("store/real.jsonl")
    write("c.jsonl", GOOD)
    assert Path("c.jsonl").is_symlink()
    assert list(read("store/real.jsonl")) == GOOD


def test_a_file_can_be_rewritten_while_it_is_read() -> None:
    write("c.jsonl", GOOD)
    write("c.jsonl", read("c.jsonl", langs={"de"}))
    assert list(read("c.jsonl")) == GOOD[1:]


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        ("c", f"c: the name has no suffix; the formats are {FORMATS}"),
        ("c.txt", f"c.txt: unknown suffix '.txt'; the formats are {FORMATS}"),
        ("c.parquet.gz", f"c.parquet.gz: unknown suffix '.parquet.gz'; the formats are {FORMATS}"),
        ("no/c.csv", "no/c.csv cannot be written: there is no folder no; create it first"),
        ("folder.csv", "folder.csv cannot be written: it is a folder; name a file in it, such as corpus.parquet"),
    ],
)
def test_a_place_that_cannot_be_written_is_named(path: str, complaint: str) -> None:
    Path("folder.csv").mkdir()
    with pytest.raises(Cr5Error) as caught:
        write(path, GOOD)
    assert str(caught.value) == complaint


def test_documents_are_checked_like_lines() -> None:
    wrong = {
        Document("Q1", "en", " \n"): "field 'text' is empty; every document needs concept, lang and text",
        Document("Q1", "", "a"): "field 'lang' is empty; every document needs concept, lang and text",
        Document("Q1", "en", None): "field 'text' is None; every document needs concept, lang and text",  # type: ignore[arg-type]
        Document("Q1", "en", b"a"): "field 'text' is b'a', not a string; decode it",  # type: ignore[arg-type]
        Document("Q1", "en", "a", "\udcff"): "field 'title' contains a lone surrogate, \\udcff; remove it",
    }
    for document, complaint in wrong.items():
        with pytest.raises(CorpusError) as caught:
            list(in_batches([GOOD[0], document]))
        assert str(caught.value).removesuffix('; leave such documents out, or give `on_error="skip"`') == (
            f"`documents[1]`: {complaint}"
        )
