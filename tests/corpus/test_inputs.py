"""Documents and texts in whatever a user has: all containers give the same documents, and errors name the place."""

from collections import namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from cr5 import CorpusError, Cr5, Cr5Error, Document, Skipped, read_batches, write
from cr5.corpus.documents import SCHEMA, Batch
from cr5.corpus.inputs import in_batches
from cr5.corpus.texts import text_list
from cr5.errors import Cr5TypeError
from cr5.evaluate.paper_data import reader as published

GOOD = [
    Document("Q1", "en", "a dog"),
    Document("Q1", "it", "un cane", "Cane", "https://it.example/cane"),
    Document("7", "en", "two\nlines"),
]
COLUMNS = {name: [getattr(document, name) for document in GOOD] for name in SCHEMA.names}
Row = namedtuple("Row", "Index concept lang text title url extra")


class Dataset:
    """The part of a Hugging Face dataset that matters: rows through an index, Arrow tables in batches."""

    def __init__(self, table: pa.Table, order: list[int], arrow: bool = False) -> None:
        self._table, self._order, self._arrow = table, order, arrow

    @property
    def column_names(self) -> list[str]:
        return list(self._table.column_names)

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        raise AssertionError("row by row")

    def with_format(self, kind: str) -> "Dataset":
        assert kind == "arrow"
        return Dataset(self._table, self._order, arrow=True)

    def iter(self, batch_size: int) -> Iterator[pa.Table]:
        assert self._arrow
        for begin in range(0, len(self), batch_size):
            yield self._table.take(self._order[begin : begin + batch_size])


class Stream:
    """A Hugging Face stream after ``map``: nobody knows its columns before its rows."""

    column_names = None

    def __iter__(self) -> Iterator[dict[str, str]]:
        return iter(pa.table(COLUMNS).to_pylist())

    def with_format(self, kind: str) -> None:
        raise AssertionError("it has no columns to convert")


class OnlyArrow:
    """A table of some other library, which offers nothing but Arrow."""

    columns = SCHEMA.names

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.table(COLUMNS).__arrow_c_stream__(requested_schema)


class ToArrow:
    columns = SCHEMA.names

    def to_arrow(self) -> pa.Table:
        return pa.table(COLUMNS)


def as_batches(documents: Any) -> list[Batch]:
    return list(in_batches(documents, batch_rows=2))


def found(documents: Any) -> list[Document]:
    return [document for batch in as_batches(documents) for document in batch.documents()]


def message(documents: Any, error: type[Cr5Error] = CorpusError) -> str:
    with pytest.raises(error) as caught:
        as_batches(documents)
    return str(caught.value)


PANDAS = pd.DataFrame(COLUMNS | {"label": [object(), None, 3]}, index=[5, 5, 9])  # a column that Arrow cannot hold
CONTAINERS: dict[str, Callable[[], Any]] = {
    "documents": lambda: GOOD,
    "generator": lambda: iter(GOOD),
    "tuple of documents": lambda: tuple(GOOD),
    "dicts": lambda: [dict(zip(SCHEMA.names, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)],
    "dicts without what is empty": lambda: [
        {name: getattr(d, name) for name in SCHEMA.names if getattr(d, name)} | {"more": 1} for d in GOOD
    ],
    "an integer concept": lambda: [GOOD[0], GOOD[1], {"concept": np.int64(7), "lang": "en", "text": "two\nlines"}],
    "tuples": lambda: [(d.concept, d.lang, d.text, d.title, d.url) for d in GOOD],
    "an array": lambda: np.array([(d.concept, d.lang, d.text, d.title, d.url) for d in GOOD], object),
    "short tuples": lambda: [GOOD[1] if d.title else (d.concept, d.lang, d.text) for d in GOOD],
    "named tuples": lambda: [Row(i, d.concept, d.lang, d.text, d.title, d.url, None) for i, d in enumerate(GOOD)],
    "pandas rows": lambda: PANDAS.itertuples(),
    "other objects": lambda: [SimpleNamespace(concept=d.concept, lang=d.lang, text=d.text, title=d.title, url=d.url)
                              for d in GOOD],
    "pandas": lambda: PANDAS,
    "pandas with missing titles": lambda: PANDAS.replace({"title": {"": None}, "url": {"": np.nan}}),
    "pandas strings": lambda: pd.DataFrame(COLUMNS).astype("string[pyarrow]").astype({"lang": "category"}),
    "pandas of mixed types": lambda: pd.DataFrame(COLUMNS | {"concept": ["Q1", "Q1", 7]}),
    "pandas after a concatenation": lambda: pd.concat(pd.DataFrame(COLUMNS).astype("string[pyarrow]").iloc[i : i + 1]
                                                      for i in range(3)),
    "pandas in chunks": lambda: (PANDAS.iloc[i : i + 1] for i in range(3)),
    "polars": lambda: pl.DataFrame(COLUMNS).with_columns(pl.col("lang").cast(pl.Categorical), label=1),
    "polars, lazy": lambda: pl.LazyFrame(COLUMNS),
    "an Arrow table": lambda: pa.table(COLUMNS).append_column("more", pa.array([[1], [2], [3]])),
    "Arrow of large strings": lambda: pa.table(COLUMNS).cast(pa.schema([(n, pa.large_string()) for n in SCHEMA.names])),
    "Arrow of views": lambda: pa.table(COLUMNS).cast(pa.schema([(n, pa.string_view()) for n in SCHEMA.names])),
    "a record batch": lambda: pa.RecordBatch.from_pydict(COLUMNS),
    "record batches": lambda: pa.table(COLUMNS).to_batches(max_chunksize=1),
    "a reader of record batches": lambda: pa.table(COLUMNS).to_reader(max_chunksize=3),
    "another library's table": OnlyArrow,
    "an older library's table": ToArrow,
    "a dataset": lambda: Dataset(pa.table(COLUMNS).take([2, 0, 1]), [1, 2, 0]),
    "a stream of a dataset": Stream,
    "batches": lambda: in_batches(GOOD),
    "one batch": lambda: next(in_batches(GOOD)),
}  # fmt: skip


@pytest.mark.parametrize("container", CONTAINERS)
def test_the_same_documents_come_out_of_any_container(container: str) -> None:
    assert found(CONTAINERS[container]()) == GOOD


def test_a_wide_frame_of_pandas_may_be_melted() -> None:
    wide = pd.DataFrame({"id": ["Q1"], "en": ["a dog"], "it": ["un cane"]}).astype("string[pyarrow]")
    frame = wide.melt("id", var_name="lang", value_name="text").rename(columns={"id": "concept"})  # a chunk for each
    assert found(frame) == [Document("Q1", "en", "a dog"), Document("Q1", "it", "un cane")]


@pytest.mark.slow
def test_paths_are_read(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    write(path, pd.DataFrame(COLUMNS))
    for paths in (path, str(path), [path], (str(path),), tmp_path, read_batches(path)):
        assert found(paths) == GOOD
    assert len(found("builtin")) == 1600


@pytest.mark.parametrize("container", ["documents", "dicts", "pandas", "polars", "an Arrow table", "a dataset"])
@pytest.mark.parametrize("langs", [["it"], "it"])
def test_only_some_languages_may_be_taken(container: str, langs: str | list[str]) -> None:
    batches = in_batches(CONTAINERS[container](), langs=langs)
    assert [document for batch in batches for document in batch.documents()] == GOOD[1:2]


def test_what_happens_at_an_error_is_one_of_two(tmp_path: Path) -> None:
    wrong: Any = "ignore"
    for documents in (GOOD, "builtin", read_batches("builtin")):
        with pytest.raises(Cr5Error, match=r"""^`on_error='ignore'` must be "raise" or "skip"$"""):
            in_batches(documents, on_error=wrong)
    with pytest.raises(Cr5Error, match="on_error"):
        Cr5().fit(GOOD, on_error=wrong)
    with pytest.raises(Cr5Error, match="on_error"):
        published.read(tmp_path, on_error=wrong)


def test_batches_are_bounded_and_rows_are_numbered() -> None:
    frame = pd.DataFrame({"concept": [str(i) for i in range(5)], "lang": "en", "text": "a"})
    for table in (frame, pl.from_pandas(frame), pa.Table.from_pandas(frame)):
        assert [(batch.location(0), len(batch.lines)) for batch in as_batches(table)] == [
            ("`documents[0]`", 2), ("`documents[2]`", 2), ("`documents[4]`", 1),
        ]  # fmt: skip
    assert [batch.location(0) for batch in as_batches(list(frame.itertuples()))] == [
        "`documents[0]`", "`documents[2]`", "`documents[4]`",
    ]  # fmt: skip


def test_nothing_at_all_is_no_batch() -> None:
    nothing: Any
    for nothing in ([], iter([]), pa.table({n: pa.array([], pa.string()) for n in SCHEMA.names}), PANDAS.iloc[:0]):
        assert sum(len(batch.lines) for batch in as_batches(nothing)) == 0


def test_a_table_is_not_read_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("row_records", "_pandas_records"):
        monkeypatch.setattr(f"cr5.corpus.inputs.{name}", None)
    for container in (
        "pandas",
        "pandas strings",
        "polars",
        "an Arrow table",
        "a dataset",
        "a reader of record batches",
    ):
        assert found(CONTAINERS[container]()) == GOOD


# What is wrong, and where


NEEDS = "every document needs concept, lang and text"
SKIP = 'or give `on_error="skip"`'
WAYS_OUT = {
    "document": f"; leave such documents out, {SKIP}",
    "row": f"; leave such rows out with dropna or drop_nulls, {SKIP}",
}
EMPTY_ROW = f"; leave such rows out, which dropna and drop_nulls do not do, {SKIP}"


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (None, f"field 'text' is None; {NEEDS}"),
        (float("nan"), f"field 'text' is nan; {NEEDS}"),
        (np.float64("nan"), f"field 'text' is nan; {NEEDS}"),
        (pd.NA, f"field 'text' is <NA>; {NEEDS}"),
        (b"caf\xe9", "field 'text' is b'caf\xe9', not a string; decode it"),
        (5, "field 'text' is 5, not a string; convert it"),
        (["a", "b"], "field 'text' is a list, not a string; convert it"),
        (" \n", f"field 'text' is empty; {NEEDS}"),
        ("\udcff", "field 'text' contains a lone surrogate, \\udcff; remove it"),
    ],
)
def test_a_value_that_is_no_text_is_named_with_its_place(value: Any, complaint: str) -> None:
    bad: dict[str, Any] = {"concept": "Q2", "lang": "en", "text": value}
    document = f"{complaint}{WAYS_OUT['document'] if NEEDS in complaint else ''}"
    rows = [*CONTAINERS["dicts"](), bad]
    assert message(rows) == f"`documents[3]`: {document}"
    assert message([*GOOD, tuple(bad.values())]) == f"`documents[3]`: {document}"
    assert message([*GOOD, Document(**bad)]) == f"`documents[3]`: {document}"
    frame = pd.DataFrame(
        [[row.get(name, "") for name in SCHEMA.names] for row in rows], columns=SCHEMA.names, dtype=object
    )
    way = EMPTY_ROW if isinstance(value, str) else WAYS_OUT["row"]
    assert message(frame) == f"`documents[3]`: {complaint}{way if NEEDS in complaint else ''}"


def test_a_number_of_an_array_is_named_with_the_article_of_its_type() -> None:
    assert message([np.zeros(2)]).startswith("`documents[0]`: an ndarray of 2; ")
    assert message([["Q1", "en", np.zeros(2)]]).startswith("`documents[0]`: field 'text' is an ndarray, not a string")


def test_a_null_of_a_typed_table_is_named_with_its_place() -> None:
    columns = {"concept": ["1", "2", "3"], "lang": ["en", "en", None], "text": ["a", "b", "c"]}
    for table in (pa.table(columns), pl.DataFrame(columns), Dataset(pa.table(columns), [0, 1, 2])):
        assert message(table) == f"`documents[2]`: field 'lang' is None; {NEEDS}{WAYS_OUT['row']}"
    numbers = pa.table(columns | {"lang": ["en"] * 3, "text": [1, 2, 3]})
    assert message(numbers) == "`documents[0]`: field 'text' is 1, not a string; convert it"


def test_columns_that_are_missing_are_named_beside_those_that_are_there() -> None:
    frame = pd.DataFrame({"story": ["Q1"], "lang": ["en"], "body": ["a"]})
    complaint = (
        "no column 'concept' or 'text', only story, lang, body; a corpus needs concept, lang and text; "
        "rename columns that have other names, and make rows of columns of languages; "
        "see 'DataFrames, Arrow and scikit-learn' in the documentation"
    )
    assert message(frame) == f"DataFrame: {complaint}"
    assert message(pl.from_pandas(frame)) == f"DataFrame: {complaint}"
    assert message(pa.Table.from_pandas(frame)) == f"Table: {complaint}"
    assert message(Dataset(pa.Table.from_pandas(frame), [0])) == f"Dataset: {complaint}"
    assert message(frame.to_dict("records")) == (
        "`documents[0]`: no field 'concept' or 'text', only story, lang, body; "
        "every document needs concept, lang and text"
    )
    twice = pd.DataFrame([["Q1", "en", "a", "b"]], columns=["concept", "lang", "text", "text"])
    assert message(twice) == "DataFrame: column 'text' occurs 2 times; rename all but one"


@pytest.mark.parametrize(
    ("documents", "complaint"),
    [
        ([("Q1", "en")], "`documents[0]`: a tuple of 2; give (concept, lang, text)"),
        ([("Q1", "en", "a"), 5], "`documents[1]`: 5; give Documents, dicts, tuples (concept, lang, text), a DataFrame"),
        (iter(["a text"]), "`documents[0]`: 'a text'; give Documents"),
        (
            ["a b c", "d e f"],
            "a b c: no such file or folder; check the spelling; strings are paths, and documents are Docu",
        ),
        ("a b c", "a b c: no such file or folder; check the spelling"),
        (["word " * 1000], "file name too long; give Documents, dicts"),
    ],
)
def test_what_is_no_document_is_refused(documents: Any, complaint: str) -> None:
    assert complaint in message(documents)


def test_integer_concepts_that_pandas_made_floats_are_explained() -> None:
    frame = pd.DataFrame({"concept": [1, 2, 3, None], "lang": "en", "text": "a"})
    assert message(frame) == (
        "`documents[3]`: field 'concept' is nan, which makes floats of the others; "
        "leave such rows out with dropna, and convert "
        'the column with astype("Int64")'
    )
    assert message(frame.dropna()) == (
        "`documents[0]`: field 'concept' is 1.0, not a string; "
        'convert it to an integer, a pandas column with astype("Int64")'
    )
    assert [d.concept for d in found(frame.dropna().astype({"concept": "Int64"}))] == ["1", "2", "3"]
    missing = f"`documents[3]`: field 'concept' is <NA>; {NEEDS}; leave "
    assert message(frame.astype({"concept": "Int64"})).startswith(missing)


def test_rows_of_a_frame_without_a_concept_can_be_skipped_and_counted() -> None:
    frame = pd.DataFrame({"concept": [1, None, 3], "lang": ["en"] * 3, "text": ["a", "b", "c"]})
    skipped = Skipped()
    batches = list(in_batches(frame, on_error="skip", skipped=skipped))
    assert [d.concept for batch in batches for d in batch.documents()] == ["1", "3"]
    assert skipped.counts == {"missing field": 1}
    assert skipped.first == f"`documents[1]`: field 'concept' is <NA>; {NEEDS}"
    skipped, halves = Skipped(), frame.assign(concept=[1, None, 3.5]).replace({"concept": {1: "Q1"}})
    assert [len(batch.rows) for batch in in_batches(halves, on_error="skip", skipped=skipped)] == [1]
    assert skipped.counts == {"missing field": 1, "wrong type": 1}


WIDE = {"en": ["a dog", "a cat"], "it": ["un cane", "un gatto"]}


class DatasetDict(dict[str, Any]):
    """The splits of a dataset, as Hugging Face has them: a dict that also has names of columns."""

    @property
    def column_names(self) -> dict[str, list[str]]:
        return {name: list(SCHEMA.names) for name in self}


@pytest.mark.parametrize("further", [{}, {"id": ["Q1", "Q2"]}, {"concept": ["Q1", "Q2"], "key": ["a", "b"]}])
@pytest.mark.parametrize("library", [pd, pl])
@pytest.mark.parametrize("codes", [("en", "it"), ("eng", "ita"), ("en-US", "it_IT")])
def test_the_columns_of_a_wide_table_become_rows_as_the_error_says(
    library: Any, further: dict[str, list[str]], codes: tuple[str, str]
) -> None:
    wide = library.DataFrame(further | dict(zip(codes, WIDE.values(), strict=True)))
    rows = eval(message(wide).partition("make rows with ")[2], {"table": wide})
    documents = [document for batch in in_batches(rows) for document in batch.documents()]
    names = (further.get("concept") or further.get("id") or ["0", "1"]) * 2
    assert [document.concept for document in documents] == names
    assert [document.text for document in documents] == [*WIDE["en"], *WIDE["it"]]


def test_of_many_languages_the_columns_are_not_listed() -> None:
    codes = ["da", "de", "en", "es", "fr", "it", "nl", "pt", "sv"]
    assert 'melt("concept", […], var_name=' in message(pd.DataFrame({code: ["text"] for code in codes}))


def rows_as_the_error_says(table: Any) -> list[tuple[str, str, str]]:
    """The documents of a wide table after the call that the error about its columns gives."""
    advice = message(table)
    call = advice[advice.rindex("table[" if "table[" in advice else "table.") :]
    rows = eval(call, {"table": table})
    return sorted((d.concept, d.lang, d.text) for batch in in_batches(rows) for d in batch.documents())


@pytest.mark.parametrize("convert", [pd.DataFrame, pl.DataFrame, pa.table])
def test_the_concept_is_a_column_with_the_usual_name_or_without_repeated_values(convert: Any) -> None:
    texts = {"en": ["a", "b", "c"], "it": ["d", "e", "f"]}
    expected = [("x", "en", "a"), ("x", "it", "d"), ("y", "en", "b"), ("y", "it", "e"), ("z", "en", "c"),
                ("z", "it", "f")]  # fmt: skip
    repeated = {"speaker": ["Ann", "Ann", "Bob"], "date": ["2020", "2020", "2020"]}
    score = {"score": [0.1, 0.2, 0.3], "words": [["a"], ["b"], ["c"]]}
    for name in ("id", "Key", "doc_id", "title"):
        assert rows_as_the_error_says(convert(repeated | score | texts | {name: ["x", "y", "z"]})) == expected
    numbered = rows_as_the_error_says(convert(repeated | texts))
    assert {concept for concept, _, _ in numbered} == {"0", "1", "2"}


def test_rows_of_a_frame_whose_index_repeats_are_numbered() -> None:
    frame = pd.DataFrame(WIDE | {"speaker": ["Ann", "Ann"]}, index=[0, 0])
    assert {concept for concept, _, _ in rows_as_the_error_says(frame)} == {"0", "1"}


@pytest.mark.parametrize("library", [pd, pl])
def test_gaps_in_a_wide_table_are_left_out_as_the_error_says(library: Any) -> None:
    table = library.DataFrame({"id": ["x", "y"], "en": ["a", None], "it": ["b", "c"]})
    assert rows_as_the_error_says(table) == [("x", "en", "a"), ("x", "it", "b"), ("y", "it", "c")]


@pytest.mark.parametrize("convert", [pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.parametrize("names", [("English", "Italian"), ("italiano", "english"), ("text_en", "text_it"),
                                   ("en_text", "it_text"), ("Text (EN)", "Text (IT)"), ("en", "Italian"),
                                   ("english_body", "italian_body"), ("body.en", "body.it")])  # fmt: skip
def test_languages_in_the_usual_names_of_columns_are_recognised(names: tuple[str, str], convert: Any) -> None:
    order = ("it", "en") if names[0] == "italiano" else ("en", "it")
    table = convert({"id": ["x"], names[0]: [order[0]], names[1]: [order[1]], "title_length": [3]})
    assert rows_as_the_error_says(table) == [("x", "en", "en"), ("x", "it", "it")]


def test_a_text_id_is_no_indonesian_text_but_for_a_table_with_another_identifier() -> None:
    table = pd.DataFrame({"text_id": ["x"], "text_en": ["a"], "text_it": ["b"]})
    assert rows_as_the_error_says(table) == [("x", "en", "a"), ("x", "it", "b")]
    table = pd.DataFrame({"id": ["x"], "text_id": ["a"], "text_en": ["b"]})
    assert rows_as_the_error_says(table) == [("x", "en", "b"), ("x", "id", "a")]


def test_of_source_and_target_the_languages_have_to_be_named() -> None:
    table = pd.DataFrame({"id": ["x"], "source": ["a"], "target": ["b"]})
    assert "with the codes of your languages for en and it: " in message(table)
    assert rows_as_the_error_says(table) == [("x", "en", "a"), ("x", "it", "b")]


def test_a_pivoted_frame_with_columns_of_two_levels_becomes_rows_as_the_error_says() -> None:
    long = pd.DataFrame({"id": ["x", "x", "y"], "lang": ["en", "it", "en"], "text": ["a", "b", "c"]})
    expected = [("x", "en", "a"), ("x", "it", "b"), ("y", "en", "c")]
    pivoted = long.assign(title="t").pivot(index="id", columns="lang", values=["text", "title"])
    assert rows_as_the_error_says(pivoted) == expected
    assert rows_as_the_error_says(pivoted.swaplevel(axis=1)) == expected
    assert rows_as_the_error_says(long.pivot(index="id", columns="lang", values="text")) == expected


def test_of_other_columns_the_guide_is_named() -> None:
    assert "see 'DataFrames, Arrow and scikit-learn' in the documentation" in message(pd.DataFrame({"a": ["text"]}))


def test_a_column_of_texts_by_language_becomes_rows_as_the_error_says() -> None:
    table = pd.DataFrame({"translation": [{"en": "a dog", "it": "un cane"}]})
    advice = message(table).partition("make rows: ")[2]
    assert advice.endswith("for i, row in enumerate(table) for lang, text in row['translation'].items())")
    rows = eval(advice, {"table": table.to_dict("records")})
    assert [(d.concept, d.lang, d.text) for batch in in_batches(rows) for d in batch.documents()] == [
        ("0", "en", "a dog"), ("0", "it", "un cane"),
    ]  # fmt: skip


def test_a_column_that_is_the_index_of_a_frame_is_to_become_a_column() -> None:
    indexed = pd.DataFrame(COLUMNS).set_index("concept")
    assert message(indexed).endswith("; make 'concept', which the index has, a column with reset_index()")
    both = message(pd.DataFrame(COLUMNS).set_index(["concept", "lang"]))
    assert both.endswith("; make 'concept' and 'lang', which the index has, columns with reset_index()")
    assert len(list(in_batches(indexed.reset_index()))) == 1


@pytest.mark.parametrize(
    ("documents", "complaint"),
    [
        (5, "`documents` is 5; give Documents, dicts, tuples"),
        (None, "`documents` is None; give Documents"),
        ({"concept": "Q1", "lang": "en", "text": "a"}, "`documents` is a dict; put it into a list"),
        (COLUMNS, "`documents` is a dict; make a DataFrame of its columns, or give Documents"),
        ({"en": ["a dog"], "it": ["un cane"]}, "`documents` is a dict; make a DataFrame of its columns"),
        ({"train": pa.table(COLUMNS), "test": pa.table(COLUMNS)}, "give `documents['train']` or `documents['test']`"),
        ({"train": [{"concept": "Q1", "lang": "en", "text": "a"}]}, "give `documents['train']`"),
        (DatasetDict(train=Dataset(pa.table(COLUMNS), [0])), "`documents` is a DatasetDict; give `documents['train']`"),
    ],
)
def test_what_are_no_documents_is_a_type_error(documents: Any, complaint: str) -> None:
    assert complaint in message(documents, Cr5TypeError)
    assert issubclass(Cr5TypeError, TypeError)


@pytest.mark.parametrize("container", ["dicts", "pandas", "polars", "arrow"])
def test_what_cannot_be_used_may_be_skipped_and_is_counted(container: str) -> None:
    rows = [{"concept": "1", "lang": "en", "text": text} for text in ("a", None, "", "b")]
    frame = pd.DataFrame(rows)
    documents = {"dicts": rows, "pandas": frame, "polars": pl.DataFrame(rows), "arrow": pa.Table.from_pandas(frame)}
    skipped = Skipped()
    batches = list(in_batches(documents[container], on_error="skip", skipped=skipped))
    assert [d.text for batch in batches for d in batch.documents()] == ["a", "b"]
    assert [line for batch in batches for line in batch.lines.tolist()] == [1, 4]
    assert skipped.counts == {"missing field": 1, "empty field": 1}
    with pytest.raises(CorpusError, match=r"^no document can be used: all 2 have errors; the first: "):
        list(in_batches(rows[1:3], on_error="skip"))


# Texts


@pytest.mark.parametrize(
    "texts",
    [
        ["a", "b"],
        ("a", "b"),
        iter(["a", "b"]),
        np.array(["a", "b"]),
        np.array(["a", "b"], object),
        [np.str_("a"), "b"],
        pd.Series(["a", "b"]),
        pd.Series(["a", "b"], dtype="string"),
        pd.Series(["a", "b"], dtype="category"),
        pd.Index(["a", "b"]),
        pl.Series(["a", "b"]),
        pa.array(["a", "b"]),
        pa.chunked_array([["a"], ["b"]]),
    ],
    ids=lambda texts: type(texts).__module__ + type(texts).__name__,
)
def test_texts_come_out_of_any_sequence(texts: Any) -> None:
    listed = text_list(texts)
    assert listed == ["a", "b"]
    assert {type(text) for text in listed} == {str}


@pytest.mark.parametrize(
    ("texts", "complaint"),
    [
        (["a", None], "`texts[1]` is None, not a string; leave it out, or put an empty string there"),
        (np.array(["a", None], object), "`texts[1]` is None, not a string"),
        (pd.Series(["a", np.nan], dtype=object), "`texts[1]` is nan, not a string"),
        (pd.Series(["a", None], dtype="string"), "`texts[1]` is <NA>, not a string"),
        (pl.Series(["a", None]), "`texts[1]` is None, not a string"),
        (pa.chunked_array([["a"], [None]]), "`texts[1]` is None, not a string"),
        (["a", b"b"], "`texts[1]` is b'b', not a string; decode it"),
        ([3], "`texts[0]` is 3, not a string; convert it"),
        ([["a"]], "`texts[0]` is a list, not a string"),
        (np.array([["a", "b"]]), "`texts[0]` is a list, not a string"),
        (b"bytes", "`texts` is b'bytes', not a string; decode it"),
        (None, "`texts` is None; give a list of strings"),
        (PANDAS, "`texts` is a DataFrame; give a list of strings, or one column of a table"),
        (pl.DataFrame(COLUMNS), "`texts` is a DataFrame"),
        (pa.table(COLUMNS), "`texts` is a Table"),
        ({"a": "b"}, "`texts` is a dict"),
        ({"a", "b"}, "`texts` is a set"),
    ],
)
def test_what_is_no_text_is_refused_by_position_and_value(texts: Any, complaint: str) -> None:
    with pytest.raises(Cr5TypeError) as caught:
        text_list(texts)
    assert str(caught.value).startswith(complaint)
