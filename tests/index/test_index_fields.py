"""Fields in an index: documents keep them, a change of them is a change of the document, and the text is as before."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import madeup
import pandas as pd
import pyarrow as pa
import pytest

from cr5 import ColumnsNotKept, CorpusError, Cr5Error, Document, UnknownField
from cr5._typing import Mask
from cr5.corpus.fields import fields_text
from cr5.hashing import digest
from cr5.index import Index
from cr5.index.field_names import MAX_CHECKED
from cr5.index.filters import Filter
from cr5.index.stores.lance import LanceStore
from cr5.index.stores.lance_filters import SlotMasks

DOCUMENTS = [
    replace(document, fields={"year": 2000 + i, "tags": ["made up", i % 3]}) if i % 4 else document
    for i, document in enumerate(madeup.corpus(concepts=10))
]


@pytest.fixture
def index(tmp_path: Path, model_folder: Path) -> Iterator[Index]:
    with Index.create(tmp_path / "index", model_folder) as index:
        yield index


def test_documents_and_hits_have_the_fields_that_were_added(index: Index, model_folder: Path) -> None:
    assert index.add(DOCUMENTS).new == len(DOCUMENTS)
    expected = {f"{document.lang}:{document.concept}": document.fields for document in DOCUMENTS}
    for _ in range(2):
        assert {document.id: document.fields for document in index.get(list(expected))} == expected
        hits = index.search(DOCUMENTS[5].text, DOCUMENTS[5].lang, k=9).hits
        words = index.search_words(DOCUMENTS[5].text, DOCUMENTS[5].lang, k=9)
        assert all(hit.fields == expected[hit.id] for hit in [*hits, *words])
        assert index.add(pd.DataFrame(map(vars_of, DOCUMENTS))).unchanged == len(DOCUMENTS)
        index.reindex(model_folder)


def vars_of(document: Document) -> dict[str, object]:
    """A document as a row of a table."""
    names = ("concept", "lang", "text", "title", "url", "fields")
    return {name: getattr(document, name) for name in names}


def test_a_document_whose_fields_have_changed_is_written_again(index: Index) -> None:
    index.add(DOCUMENTS)
    changed = [replace(document, fields={"year": 1}) for document in DOCUMENTS[:2]]
    counts = index.add([*changed, *DOCUMENTS[2:]])
    assert (counts.renewed, counts.unchanged) == (2, len(DOCUMENTS) - 2)
    name = f"{changed[1].lang}:{changed[1].concept}"
    assert index.get(name)[0].fields == {"year": 1}
    index.add([replace(changed[1], fields={})])
    assert index.get(name)[0].fields == {}


def test_a_document_without_fields_has_the_digest_of_earlier_versions(index: Index) -> None:
    [document] = madeup.corpus(concepts=1)[:1]
    index.add([document])
    content = "\0".join([document.concept, document.lang, document.title, document.url, document.text])
    [rows] = index.scan(["digest"])
    assert rows["digest"].to_pylist() == [digest(content, 12).hex()]


def test_wrong_fields_are_refused_by_place_name_and_value(index: Index) -> None:
    with pytest.raises(CorpusError, match=r"`documents\[1\]`: .*'year'.* inf"):
        index.add([DOCUMENTS[0], replace(DOCUMENTS[1], fields={"year": float("inf")})])
    skipped = [replace(DOCUMENTS[1], fields={"year": float("nan"), "kind": "a"})]
    index.add(skipped, on_error="skip")
    assert [each.fields for each in index.get(f"{DOCUMENTS[1].lang}:{DOCUMENTS[1].concept}")] == [{"kind": "a"}]


def test_documents_can_be_counted_and_scanned_by_their_fields(index: Index) -> None:
    index.add(DOCUMENTS)
    chosen = [document for document in DOCUMENTS if document.fields.get("year", 0) >= 2007]
    where = {"year": {">=": 2007}, "tags": "made up"}
    assert index.count(where) == Counter(document.lang for document in chosen)
    assert sum(index.count().values()) == len(DOCUMENTS)
    ids = {name for rows in index.scan(["id"], where=where) for name in rows["id"].to_pylist()}
    assert ids == {f"{document.lang}:{document.concept}" for document in chosen}
    with pytest.raises(Cr5Error, match=r"'year'.*'gte'"):
        index.count({"year": {"gte": 2007}})


def test_fields_that_no_document_has_are_named_with_those_that_there_are(index: Index) -> None:
    query, lang = DOCUMENTS[5].text, DOCUMENTS[5].lang
    assert index.search(query, lang, where={"yaer": 1}, sort="yaer").warnings == ()  # there is no document
    index.add(DOCUMENTS)
    listed = r"the fields are tags \(numbers and strings\), year \(numbers\)$"
    with pytest.warns(UnknownField, match=rf"^`where` names the field 'yaer', which no document.*; {listed}") as caught:
        result = index.search(query, lang, where={"yaer": 1})
    assert result.warnings == tuple(str(each.message) for each in caught)
    assert not result.hits
    with pytest.warns(UnknownField, match=r"`where` names the field 'yaer'"):
        assert index.search(query, lang, where={"year": {">": 0}, "yaer": {"!=": 1}}, mode="dense").hits
    with pytest.warns(UnknownField, match=r"`sort` names the field 'yaer'"):
        assert index.search(query, lang, sort="-yaer").hits
    with pytest.warns(UnknownField, match=r"'yaer'"):
        assert index.count({"yaer": {"!=": 1}}) == index.count()
    with pytest.warns(UnknownField, match=r"'yaer'"):
        assert list(index.scan(["id"], where={"yaer": 1})) == []
    known = index.search(query, lang, where={"year": {"<": 0}}, sort="-year")
    assert (known.hits, known.warnings, index.count({"year": {"<": 0}})) == ([], (), {})


def test_a_condition_of_another_type_than_the_field_is_warned_of(index: Index) -> None:
    query, lang = DOCUMENTS[5].text, DOCUMENTS[5].lang
    index.add(DOCUMENTS)
    problem = "`where` compares the field 'year' with strings, but it has numbers"
    for where in ({"year": {"<": "20"}}, {"year": "5"}, {"year": ["1", "2"]}):
        with pytest.warns(UnknownField, match=f"^{problem}$"):
            assert not index.search(query, lang, where=where).hits
        with pytest.warns(UnknownField, match=f"^{problem}$"):
            assert index.count(where) == {}
    with pytest.warns(UnknownField, match=f"^{problem}$"):
        assert index.search(query, lang, where={"year": {"!=": "5"}}).hits
    for fitting in ({"year": {"<": 0}}, {"year": ["1", 0]}, {"tags": "no such"}, {"year": None}):
        assert index.search(query, lang, where=fitting).warnings == ()


def test_a_search_that_finds_nothing_reads_the_fields_of_all_documents_once(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.add(DOCUMENTS)
    query, lang, reads = DOCUMENTS[5].text, DOCUMENTS[5].lang, list[str]()

    def extend(masks: SlotMasks, mask: Mask, where: Filter, version: int) -> Mask:
        reads.append(where.key)
        return original(masks, mask, where, version)

    def scan(*arguments: Any, where: Filter | None = None, **options: Any) -> Any:
        assert where is None
        return original_scan(*arguments, **options)

    original, original_scan = SlotMasks._extend, LanceStore.scan
    monkeypatch.setattr(SlotMasks, "_extend", extend)
    monkeypatch.setattr(LanceStore, "scan", scan)
    for _ in range(2):
        assert index.search(query, lang, where={"year": 1}).hits == []
        assert len(reads) == 1
    with pytest.warns(UnknownField) as caught:
        index.search(query, lang, where={f"field{i}": 1 for i in range(20)})
    assert len(caught) == MAX_CHECKED
    assert len(reads) == 2 + 2 * MAX_CHECKED  # the filter; each condition, and whether any document has the field


def test_an_index_whose_documents_have_no_fields_says_so(index: Index) -> None:
    index.add(madeup.corpus(concepts=2))
    with pytest.warns(UnknownField, match=r"'year', which no document of the index has; the documents have no fields$"):
        assert index.count({"year": 2000}) == {}


def test_passages_have_the_fields_of_their_document(index: Index) -> None:
    long = replace(DOCUMENTS[1], text=" ".join(document.text for document in DOCUMENTS[1::3]))
    index.add([long])
    passages = index._active.passages
    assert passages is not None
    found = [row["fields"] for rows in passages.scan(["fields"]) for row in rows.to_pylist()]
    assert len(found) > 1
    assert {*found} == {fields_text(long.fields)}


@pytest.mark.parametrize("convert", [pd.DataFrame, lambda rows: pa.Table.from_pylist(rows), list])
def test_columns_that_the_fields_also_have_are_kept(convert: Any, index: Index) -> None:
    rows = [vars_of(document) | {"price": i, "fields": {"price": i}} for i, document in enumerate(DOCUMENTS)]
    index.add(convert(rows))
    assert index.get("aa:Q000")[0].fields == {"price": 0}
    with pytest.warns(ColumnsNotKept, match="not kept: size;"):
        index.add(convert([row | {"size": 1} for row in rows]))
