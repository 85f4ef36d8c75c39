"""Fields and filters of a store: the same results in a folder (LanceDB) and on a server (PostgreSQL) as in a list."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import postgres as private
import pytest
from bm25_oracle import assert_best, bm25, query_words, random_words, term_counts
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import up_to
from store_places import LANGS, LANGUAGES, RANK, Place, all_rows, by_id, ids, refused, rows, unit

from cr5.corpus.fields import fields_text
from cr5.index.filters import Filter
from cr5.index.stores.base import Location, Store
from cr5.index.stores.lance import LanceStore
from cr5.index.stores.lance_filters import SlotMasks
from cr5.index.stores.lance_versions import LanceLimits
from cr5.index.stores.postgres import PostgresStore
from cr5.index.terms import QueryWord

KINDS = ["howto", "news", "law"]
FILTERS: list[dict[str, Any]] = [
    {},
    {"kind": "news"},
    {"year": {">=": 2003, "<": 2006}},
    {"kind": ["howto", "law"], "tags": 3},
    {"author.name": {"!=": "A2"}},
    {"nothing": "matches"},
]


def fields(i: int) -> dict[str, Any]:
    """The fields of document i; every seventh has none."""
    if i % 7 == 6:
        return {}
    return {"kind": KINDS[i % 3], "year": 2000 + i % 10, "tags": [i % 5, "all"], "author": {"name": f"A{i % 4}"}}


def with_fields(numbers: Any) -> Any:
    """Rows with these fields."""
    numbers = list(numbers)
    return rows(numbers, fields=[fields_text(fields(i)) for i in numbers])


def matching(where: dict[str, Any], numbers: Any) -> list[int]:
    """The documents that match, by the specification."""
    return [i for i in numbers if Filter.parse(where).matches(fields(i))]


def check(store: Store, numbers: Any, X: Any, *, k: int = 1000) -> None:
    """Compare every method that takes a filter with a list of all documents."""
    numbers, query = list(numbers), unit(1, seed=7)
    for where in FILTERS:
        for langs in (None, ["en", "it"]):
            wanted = [i for i in matching(where, numbers) if langs is None or LANGS[i % 4] in langs]
            scanned = [name for batch in store.scan(["id"], langs, where=where) for name in batch["id"].to_pylist()]
            assert sorted(scanned) == sorted(f"d{i}" for i in wanted)
            order = np.argsort(-(X[wanted] @ query[0]), kind="stable")[:k]
            for exact in (False, True):
                [found] = store.nearest(query, k, langs=langs, exact=exact, where=where, columns=["id", "fields"])
                assert ids(found) == [f"d{wanted[i]}" for i in order]
                assert found["fields"].to_pylist() == [fields_text(fields(wanted[i])) for i in order]
        names = [f"d{i}" for i in range(0, max(numbers) + 9, 3)]
        assert store.matching(names, where) == {f"d{i}" for i in matching(where, numbers)} & {*names}


def test_fields_are_returned_as_they_were_written_and_replaced_with_their_row(store: Store) -> None:
    store.upsert(with_fields(range(10)))
    assert all_rows(store) == by_id(with_fields(range(10)))
    assert store.get(["d3"], ["fields", "id"]).to_pylist() == [{"fields": fields_text(fields(3)), "id": "d3"}]
    store.upsert(rows([3, 4], fields=['{"kind": "law"}', "{}"]))
    assert store.get(["d3", "d4"], ["fields"])["fields"].to_pylist() == ['{"kind":"law"}', "{}"]
    assert "'d5': field 'fields' is 'physics'" in refused(lambda: store.upsert(rows([5], fields=["physics"])))


def test_a_store_knows_the_fields_of_its_rows(store: Store) -> None:
    names = ["kind", "tags", "author", "author.name", "author.", "tags.all", "knd", "author.nam", "name", "all"]
    assert not any(map(store.has_field, names))
    store.upsert(with_fields(range(10)))
    assert [name for name in names if store.has_field(name)] == ["kind", "tags", "author", "author.name"]
    store.upsert(rows([10], fields=['{"knd": null, "tags.all": 1, "all": {"name": []}}']))
    found = [name for name in [*names, "all.name"] if store.has_field(name)]
    assert found == ["kind", "tags", "author", "author.name", "tags.all", "knd", "all", "all.name"]


def test_filters_choose_the_same_rows_as_in_a_list(store: Store) -> None:
    X = unit(120)
    store.upsert(with_fields(range(100)))
    check(store, range(100), X)
    store.delete([f"d{i}" for i in range(0, 100, 9)] + ["d99"])
    store.upsert(with_fields(range(110, 120)))  # filters that were used before see the rows that are new
    check(store, [i for i in (*range(99), *range(110, 120)) if i % 9 or i > 99], X)


def test_a_filter_restricts_the_hits_of_words_and_leaves_their_statistics(store: Store) -> None:
    words = random_words(80, LANGS)
    store.upsert(with_fields(range(80)), term_counts(words))
    store.delete(["d1", "d40"])
    live = {f"d{i}": own for i, own in enumerate(words) if i not in (1, 40)}
    terms = {"w0": 1.0, "w1": 0.5}
    for where in FILTERS:
        allowed = {f"d{i}" for i in matching(where, range(80))}
        for lang in LANGS:
            query = query_words(live, terms, lang)
            oracle = {name: score for name, score in bm25(live, query, lang).items() if name in allowed}
            for k in (2, 100):
                found = store.search_terms(query, lang, k, where=where)
                assert_best(ids(found), found["bm25"].to_pylist(), oracle, k)


@pytest.fixture(params=["lance", pytest.param("postgres", marks=pytest.mark.services)])
def indexed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A store that has an approximate index from 300 rows on."""
    store: Store
    sizes: dict[str, Any] = {"rank": RANK, "language_count": LANGUAGES}
    if request.param == "lance":
        store = LanceStore.create(Location(tmp_path), **sizes, limits=LanceLimits(ann_min_rows=300))
    else:
        place = Place("postgres", tmp_path, request.getfixturevalue("url"))
        store = PostgresStore.create(Location(tmp_path, place.address or "", place.name), **sizes, ann_min_rows=300)
    yield store
    store.close()


def test_an_approximate_index_finds_the_rows_that_match_a_filter(indexed: Store) -> None:
    indexed.upsert(with_fields(range(400)))
    indexed.optimise()
    assert indexed.stats()["index"] != "none"
    indexed.upsert(with_fields(range(390, 410)))  # beside the IVF index
    check(indexed, range(410), unit(410), k=5)


NAMES = st.sampled_from(["a", "b", "a.b", "c"])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, 2, 1.0, 1.5, -1, 2**53, 2.0**60, 2**60, 1e30, 2**63 - 1]),
    st.sampled_from(
        ["", "1", "a", "b", "é", "\U0001f600", "\uffee", "a'b", '"', "%s", "{x}", "2019-01-01", "2019-01-02"]
    ),
)
VALUES = st.one_of(SCALARS, st.lists(SCALARS, max_size=3))
OBJECTS = st.dictionaries(NAMES, st.one_of(VALUES, st.dictionaries(NAMES, VALUES, max_size=2)), max_size=3)
COMPARED = SCALARS.filter(lambda value: value is not None and not isinstance(value, bool))
OPERATORS = st.one_of(
    st.dictionaries(st.sampled_from([">", ">=", "<", "<="]), COMPARED, min_size=1, max_size=2),
    st.fixed_dictionaries({"!=": VALUES}),
)
WHERES = st.dictionaries(NAMES, st.one_of(VALUES, OPERATORS), max_size=2)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory, url: str) -> Iterator[list[Store]]:
    """One store of each kind, used by many examples."""
    stores = [Place("lance", tmp_path_factory.mktemp("fields"), None).create(), Place("postgres", Path(), url).create()]
    yield stores
    for store in stores:
        store.close()


@pytest.mark.services
@settings(max_examples=up_to(40), deadline=None)
@given(st.lists(OBJECTS, min_size=1, max_size=6), st.lists(WHERES, min_size=1, max_size=4))
def test_any_filter_matches_any_fields_as_specified(
    both: list[Store], documents: list[dict[str, Any]], wheres: list[dict[str, Any]]
) -> None:
    texts = [fields_text(each) for each in documents]
    for store in both:
        store.delete([f"d{i}" for i in range(6)])
        store.upsert(rows(range(len(texts)), fields=texts))
        assert store.get([f"d{i}" for i in range(len(texts))], ["fields"])["fields"].to_pylist() == texts
        for where in wheres:
            wanted = {f"d{i}" for i, each in enumerate(documents) if Filter.parse(where).matches(each)}
            assert {*ids(store.nearest(unit(1), 10, where=where)[0])} == wanted
            assert {name for batch in store.scan(["id"], where=where) for name in batch["id"].to_pylist()} == wanted
            assert store.matching(["d0", "d1", "d9"], where) == wanted & {"d0", "d1"}


def without_fields(place: Place) -> Store:
    """A store as an earlier version wrote it, with ten rows that have terms."""
    store = place.create()
    store.upsert(rows(range(10)), term_counts(random_words(10, LANGS)))
    if place.address is None:
        store._table.drop_columns(["fields"])  # type: ignore[attr-defined]
    else:
        private.execute(place.address, f'ALTER TABLE "{place.name}" DROP COLUMN fields')
    return place.open()


def test_a_store_of_an_earlier_version_answers_and_gets_the_column_when_it_is_asked_for(place: Place) -> None:
    store = without_fields(place)
    assert not store.has_fields()
    assert all_rows(store) == by_id(rows(range(10)))
    assert store.get(["d1"], ["fields", "id"]).to_pylist() == [{"fields": "{}", "id": "d1"}]
    query, terms = unit(10)[3:4], [QueryWord(1.0, {"w0": 1.0})]
    filters: list[tuple[dict[str, Any], int]] = [({"a": 1}, 0), ({"a": {"!=": 1}}, 10), ({}, 10)]
    for where, number in filters:
        assert store.nearest(query, 20, where=where, columns=["fields", "id"])[0].num_rows == number
        assert sum(batch.num_rows for batch in store.scan(["id"], where=where)) == number
        assert bool(store.search_terms(terms, "da", 20, where=where, columns=["id", "fields"]).num_rows) == bool(number)
        assert len(store.matching(["d0", "d1"], where)) == min(number, 2)
    store.upsert(rows([10]))
    assert "'d11': this index cannot store fields" in refused(lambda: store.upsert(with_fields([10, 11])[1:]))
    other = place.open()
    store.add_fields()
    store.add_fields()
    assert store.has_fields()
    assert store.stats()["fields"]
    store.upsert(with_fields([11, 12]))
    for each in (store, other):
        assert all_rows(each) == by_id(rows(range(10))) | by_id(rows([10])) | by_id(with_fields([11, 12]))
        assert ids(each.nearest(query, 20, where={"kind": "law"})[0]) == ["d11"]


def test_a_mask_of_a_filter_is_extended_by_the_rows_that_were_written_since(tmp_path: Path) -> None:
    store = LanceStore.create(Location(tmp_path), rank=RANK, language_count=LANGUAGES)
    where, query, read = {"kind": "law"}, unit(1), []
    extend = SlotMasks._extend

    def spy(masks: SlotMasks, mask: Any, *rest: Any) -> Any:
        read.append(len(mask))
        return extend(masks, mask, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SlotMasks, "_extend", spy)
        for numbers in (range(10), range(10, 15)):
            store.upsert(with_fields(numbers))
            store.nearest(query, 3, where=where)
            store.nearest(query, 3, where=where)
    assert len(read) == 2
    assert read[0] == 0
    assert 0 < read[1] <= 10
    store.close()
