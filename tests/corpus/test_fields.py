"""Fields of documents: what JSON can hold becomes one canonical text, anything else is refused by name and value."""

import json
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cr5 import ColumnsNotKept, CorpusError, Document, Skipped, read, read_batches, write
from cr5.corpus.documents import SCHEMA
from cr5.corpus.fields import MAX_FIELDS_BYTES, canonical_text, fields_text, parse_fields
from cr5.corpus.inputs import in_batches
from cr5.corpus.tables import RecordError


def test_equal_fields_have_the_same_text_whatever_their_order_and_container() -> None:
    fields = {"tags": ["a", None, True], "year": 2019, "author": {"name": "Søren", "ids": [1, 2.5]}}
    text = fields_text(fields)
    assert parse_fields(text) == fields
    same = {"author": {"ids": (1, 2.5), "name": "Søren"}, "year": np.int64(2019), "tags": ["a", None, True]}
    assert fields_text(same) == fields_text(json.dumps(fields)) == canonical_text(text) == text
    empty: list[object] = [None, {}, "", "{}", float("nan")]
    assert {fields_text(nothing) for nothing in empty} == {"{}"}


def test_values_that_say_that_there_is_none_are_left_out_and_dates_are_in_iso_8601() -> None:
    missing = [float("nan"), np.float32("nan"), pd.NaT, pd.NA, np.datetime64("NaT")]
    fields = {f"n{i}": value for i, value in enumerate(missing)} | {"a": 1, "in": {"b": pd.NA}, "list": [1, *missing]}
    assert parse_fields(fields_text(fields)) == {"a": 1, "in": {}, "list": [1]}
    day, moment = date(2019, 5, 1), datetime(2019, 5, 1, 12, 30)
    for value in (day, np.datetime64("2019-05-01")):
        assert parse_fields(fields_text({"when": value})) == {"when": "2019-05-01"}
    for value in (moment, pd.Timestamp(moment), np.datetime64("2019-05-01T12:30:00")):
        assert parse_fields(fields_text({"when": value})) == {"when": "2019-05-01T12:30:00"}


@pytest.mark.parametrize("number", [0, 2.0, -0.0, 0.1, 1e16, 2.0**60, 1e300, 5e-324, 2**63 - 1, -(2**63)])
def test_numbers_keep_their_value_when_a_database_writes_them_as_plain_decimals(number: float) -> None:
    text = fields_text({"n": number})
    assert parse_fields(text) == {"n": number}
    plain = format(Decimal(text[len('{"n":') : -1]), "f")
    assert canonical_text(f'{{"n": {plain}}}') == text


@pytest.mark.parametrize(
    ("fields", "facts"),
    [
        ({"year": float("-inf")}, ["'year'", "-inf"]),
        ({"id": 2**63}, ["'id'", "64 bits"]),
        ({"long": np.timedelta64(1, "D")}, ["'long'", "timedelta"]),
        ({"blob": b"x"}, ["'blob'", "b'x'"]),
        ({"name": "a\0b"}, ["'name'", "NUL"]),
        ({"name": "\ud800"}, ["'name'", "surrogate"]),
        ({"a": [["b"]]}, ["'a'", "a list"]),
        ({"a": {"b": {"c": 1}}}, ["'a.b'", "one level"]),
        ({1: "x"}, ["1", "string"]),
        ({"": "x"}, ["''"]),
        ({f"n{i}": i for i in range(300)}, ["300 fields", "256"]),
        ({"text": "é" * (MAX_FIELDS_BYTES // 2)}, ["65,5", "65,536"]),
        ("physics", ["'physics'", "not JSON"]),
        ([1], ["a list", "object"]),
        ("[1]", ["a list", "object"]),
    ],
)
def test_what_json_cannot_hold_is_refused_by_name_and_value(fields: Any, facts: list[str]) -> None:
    with pytest.raises(RecordError) as caught:
        fields_text(fields)
    for fact in facts:
        assert fact in str(caught.value)


FIELDS: list[dict[str, Any]] = [{"year": 2019, "tags": ["a", "b"]}, {}, {"year": None, "author": {"name": "Ada"}}]
WITH_FIELDS = [
    Document("Q1", "en", "a dog", fields=FIELDS[0]),
    Document("Q1", "it", "un cane", "Cane"),
    Document("Q2", "en", "a cat", fields=FIELDS[2]),
]
DICTS = [{"concept": d.concept, "lang": d.lang, "text": d.text, "fields": d.fields} for d in WITH_FIELDS]
TEXTS = [row | {"fields": json.dumps(row["fields"])} for row in DICTS]
FIELDS_TYPE = pa.struct([("year", pa.int64()), ("author", pa.struct([("name", pa.string())]))])


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        (WITH_FIELDS, FIELDS),
        (DICTS, FIELDS),
        ([SimpleNamespace(**row) for row in DICTS], FIELDS),
        (pd.DataFrame(DICTS), FIELDS),
        (pd.DataFrame(TEXTS), FIELDS),
        (pl.DataFrame(TEXTS), FIELDS),
        (pa.Table.from_pylist(TEXTS), FIELDS),
        (pl.DataFrame(DICTS[:1]), FIELDS[:1]),
        (pa.Table.from_pylist(DICTS[:1]), FIELDS[:1]),
        (pd.DataFrame(DICTS).drop(columns="fields"), [{}, {}, {}]),
        ([("Q1", "en", "a dog")], [{}]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_fields_of_every_container_are_read_when_they_are_asked_for(documents: Any, expected: list[Any]) -> None:
    batches = list(in_batches(documents, fields=True))
    assert [document.fields for batch in batches for document in batch.documents()] == expected
    assert [batch.rows.schema for batch in in_batches(documents)] == [SCHEMA]


OTHER = [row | {"year": 2019, "kind": "news"} for row in DICTS]
WITHOUT_FIELDS = [{name: value for name, value in row.items() if name != "fields"} for row in OTHER]


def in_file(path: Path, rows: list[dict[str, Any]]) -> str:
    """The path of a corpus in the format of its suffix, with whatever columns the rows have."""
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        frame = pd.DataFrame(rows)
        frame.to_csv(path) if path.suffix == ".csv" else frame.set_index(frame.index + 5).to_parquet(path)
    return str(path)


@pytest.mark.parametrize("rows", [OTHER, WITHOUT_FIELDS], ids=["fields", "no fields"])
@pytest.mark.parametrize("container", [list, pd.DataFrame, pl.DataFrame, ".jsonl", ".csv", ".parquet"])
def test_columns_that_an_index_would_not_keep_are_named_once(rows: Any, container: Any, tmp_path: Path) -> None:
    rows = [row | {"fields": json.dumps(row["fields"])} if "fields" in row else row for row in rows]
    if isinstance(container, str):
        documents = [in_file(tmp_path / f"{name}{container}", rows) for name in "ab"]
    else:
        documents = container(rows)
    with pytest.warns(ColumnsNotKept) as caught:
        assert sum(batch.rows.num_rows for batch in in_batches(documents, fields=True)) >= 3
    assert len(caught) == 1
    assert caught[0].filename == __file__  # the line of the caller, not one of the library
    for fact in ("not kept: year, kind;", "fields", "--field-column"):
        assert fact in str(caught[0].message)
    assert list(in_batches(documents))  # training needs none of them, and warns of none


def test_a_missing_field_of_an_arrow_struct_is_missing_and_not_null() -> None:
    table = pa.Table.from_pylist([{**row, "fields": {"year": 1}} for row in DICTS[:1]])
    table = table.set_column(
        table.schema.get_field_index("fields"), "fields", pa.array([{"year": 1, "author": None}], FIELDS_TYPE)
    )
    [batch] = in_batches(table, fields=True)
    assert [document.fields for document in batch.documents()] == [{"year": 1}]


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".csv", ".tsv", ".parquet"])
def test_fields_are_written_to_files_and_read_again(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"corpus{suffix}"
    assert write(path, WITH_FIELDS) == 3
    assert list(read(path)) == WITH_FIELDS
    assert [batch.rows.schema for batch in read_batches(path)] == [SCHEMA]
    assert write(path, [replace(document, fields={}) for document in WITH_FIELDS]) == 3
    if suffix == ".parquet":
        assert pq.read_schema(path).names == SCHEMA.names
    elif suffix != ".jsonl.gz":
        assert "fields" not in path.read_text()


def test_a_table_file_whose_first_documents_have_no_fields_is_not_written_without_those_of_others(
    tmp_path: Path,
) -> None:
    batches = list(in_batches(WITH_FIELDS, 1, fields=True))[1:]
    with pytest.raises(CorpusError, match="first documents have no fields"):
        write(tmp_path / "corpus.csv", batches)
    assert not (tmp_path / "corpus.csv").exists()


@pytest.mark.parametrize("content", ['{"year": Infinity}', "physics", '{"a": {"b": {"c": 1}}}'])
def test_wrong_fields_are_named_with_their_place_or_counted(tmp_path: Path, content: str) -> None:
    rows = [TEXTS[0], TEXTS[1] | {"fields": content}]
    path = tmp_path / "corpus.csv"
    pd.DataFrame(rows).to_csv(path, index=False)
    position = "`documents[1]`: "
    for documents, place in [(rows, position), (pd.DataFrame(rows), position), (path, f"{path}:3: ")]:
        with pytest.raises(CorpusError) as caught:
            list(in_batches(documents, fields=True))
        assert str(caught.value).startswith(place)
        skipped = Skipped()
        [batch] = in_batches(documents, fields=True, on_error="skip", skipped=skipped)
        assert (batch.rows.num_rows, skipped.total) == (1, 1)
        assert sum(batch.rows.num_rows for batch in in_batches(documents)) == 2  # training ignores fields


def test_a_reader_that_has_begun_without_fields_cannot_go_on_with_them(tmp_path: Path) -> None:
    write(tmp_path / "corpus.jsonl", WITH_FIELDS)
    reader = read_batches(tmp_path)
    [batch] = in_batches(reader, fields=True)
    assert [document.fields for document in batch.documents()] == FIELDS
    next(reader)
    with pytest.raises(CorpusError, match="already"):
        in_batches(reader, fields=True)
