"""The store: the same behaviour in a folder (LanceDB) and on a server (PostgreSQL with pgvector)."""

import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import up_to
from store_places import (
    LANGS,
    LANGUAGES,
    RANK,
    Place,
    all_rows,
    by_id,
    clustered,
    ids,
    refused,
    rows,
    set_hubness,
    unit,
)

from cr5.index.stores.base import FORMAT, Location, Store
from cr5.index.stores.lance import LanceStore
from cr5.index.stores.lance_versions import LanceLimits
from cr5.index.stores.postgres import PostgresStore
from cr5.index.stores.rows import to_lists, to_matrix


def test_rows_are_returned_as_they_were_written(store: Store) -> None:
    store.upsert(rows(range(10)))
    assert all_rows(store) == by_id(rows(range(10)))
    assert store.count() == {"da": 3, "en": 3, "it": 2, "vi": 2}


def test_get_returns_rows_in_the_order_of_the_ids_without_missing_ones_and_without_vectors(store: Store) -> None:
    store.upsert(rows(range(10)).to_batches()[0])
    found = store.get(["d7", "missing", "d2", "d7"])
    assert ids(found) == ["d7", "d2", "d7"]
    assert found.column_names == ["id", "concept", "lang", "title", "url", "text", "digest", "hubness", "fields"]
    assert found["text"].to_pylist() == ["text of 7", "text of 2", "text of 7"]
    np.testing.assert_array_equal(to_matrix(store.get(["d3"], ["vector"])["vector"]), unit(10)[3:4])


def test_candidates_are_what_get_returns_as_arrays(place: Place) -> None:
    place.limits = LanceLimits(ann_min_rows=100)
    store = place.create()
    store.upsert(rows(range(150)))
    store.optimise()  # most rows are in the approximate index, which keeps two bytes for each number
    store.upsert(rows(range(140, 160)))
    set_hubness(store, ["d3", "d145"], np.full((2, LANGUAGES), 7, np.float32))
    names = ["d155", "d3", "missing", "d145", "d4", "d4"]
    for wanted in (names, names[:1], ["missing"], []):
        expected, found = store.get(wanted, ("id", "lang", "vector", "hubness")), store.pinned().candidates(wanted)
        assert (found.ids, found.langs) == (ids(expected), expected["lang"].to_pylist())
        np.testing.assert_allclose(found.vectors, to_matrix(expected["vector"]), atol=1e-4)
        np.testing.assert_array_equal(found.hubness, to_matrix(expected["hubness"]))


def test_records_and_nearest_candidates_are_what_get_and_nearest_return(place: Place) -> None:
    place.limits = LanceLimits(ann_min_rows=100)
    store, names = place.create(), ["d155", "d3", "missing", "d145", "d4", "d4"]
    text = [f"straße {i} 가" * (i % 3) for i in range(150)]
    store.upsert(rows(range(150), text=text))
    for _ in range(2):  # in memory, then in the approximate index, with some rows beside it
        for wanted in (names, ["missing"], []):
            columns = ("id", "concept", "lang", "title", "url", "text", "fields")
            assert store.pinned().records(wanted, columns) == store.get(wanted, columns).to_pylist()
            assert store.records(wanted, ("text", "digest")) == store.get(wanted, ("text", "digest")).to_pylist()
        for langs in (None, ["da", "vi"], []):
            [expected] = store.nearest(unit(3)[2:], 12, langs=langs, columns=("id", "lang", "vector", "hubness"))
            found, cosines = store.pinned().nearest_candidates(unit(3)[2], 12, langs=langs)
            assert (found.ids, found.langs) == (ids(expected), expected["lang"].to_pylist())
            np.testing.assert_allclose(cosines, expected["cosine"].to_numpy(), atol=1e-6)
            np.testing.assert_allclose(found.vectors, to_matrix(expected["vector"]), atol=1e-4)
            np.testing.assert_array_equal(found.hubness, to_matrix(expected["hubness"]))
        store.optimise()
        store.upsert(rows(range(140, 160), text=["new"] * 20))
        store.delete(["d4"])


def test_a_row_with_a_known_id_replaces_the_old_one(store: Store) -> None:
    store.upsert(rows(range(6)))
    changed = rows([4, 5, 6], text=["new 4", "new 5", "new 6"], digest=["a", "b", "c"], lang=["vi", "vi", "vi"])
    store.upsert(changed)
    assert all_rows(store) == by_id(rows(range(6))) | by_id(changed)
    assert store.digests(["d0", "d4", "d6", "missing"]) == {"d0": "00000000", "d4": "a", "d6": "c"}
    assert store.count() == {"da": 1, "en": 1, "it": 1, "vi": 4}


def test_of_two_rows_with_the_same_id_in_a_call_the_last_is_kept(store: Store) -> None:
    store.upsert(rows([1, 2, 1], text=["first", "other", "last"]))
    assert store.get(["d1", "d2"])["text"].to_pylist() == ["last", "other"]
    assert sum(store.count().values()) == 2


def test_deleted_documents_are_gone_and_counted(store: Store) -> None:
    store.upsert(rows(range(8)))
    assert store.delete(["d1", "d1", "d3", "never created"]) == 2
    assert store.delete(["d1"]) == 0
    assert store.delete([]) == 0
    assert sorted(all_rows(store)) == ["d0", "d2", "d4", "d5", "d6", "d7"]
    assert "d1" not in ids(store.nearest(unit(8)[1:2], 8)[0])


def test_every_method_works_on_an_empty_store(store: Store) -> None:
    store.upsert(rows([]))
    set_hubness(store, [], np.empty((0, LANGUAGES), np.float32))
    set_hubness(store, ["missing"], np.ones((1, LANGUAGES), np.float32))
    store.optimise()
    assert store.count() == {}
    assert store.digests(["x"]) == {}
    assert store.get(["x"]).num_rows == 0
    assert list(store.scan(["id"])) == []
    for exact in (False, True):
        found = store.nearest(unit(2), 5, exact=exact)
        assert [table.num_rows for table in found] == [0, 0]
        assert found[0].column_names == ["id", "lang", "hubness", "cosine"]
    assert store.nearest(np.empty((0, RANK), np.float32), 5) == []
    stats = store.stats()
    assert (stats["rows"], stats["index"], stats["rank"], stats["extras"]) == (0, "none", RANK, LANGUAGES)


@pytest.mark.parametrize("langs", [None, ["en"], ["vi", "da"], ["xx"], []])
def test_nearest_agrees_with_an_exhaustive_search(store: Store, langs: list[str] | None) -> None:
    X, queries = unit(200), unit(5, seed=7)
    store.upsert(rows(range(200), X))
    allowed = [i for i in range(200) if langs is None or LANGS[i % 4] in langs]
    for k in (1, 10, 1000):
        for exact in (False, True):
            found = store.nearest(queries, k, langs=langs, exact=exact, columns=["id", "title"])
            for query, table in zip(queries, found, strict=True):
                cosines = X[allowed] @ query
                order = np.argsort(-cosines)[:k]
                assert ids(table) == [f"d{allowed[i]}" for i in order]
                assert table.column_names == ["id", "title", "cosine"]
                np.testing.assert_allclose(table["cosine"].to_numpy(), cosines[order], atol=1e-6)


def test_a_scan_returns_every_row_once_in_batches_of_the_requested_size(store: Store) -> None:
    store.upsert(rows(range(100)))
    store.upsert(rows(range(90, 130)))
    batches = list(store.scan(["lang", "id"], batch_rows=16))
    assert max(batch.num_rows for batch in batches) <= 16
    assert batches[0].schema.names == ["lang", "id"]
    assert sorted(i for batch in batches for i in batch["id"].to_pylist()) == sorted(f"d{i}" for i in range(130))
    italian = [i for batch in store.scan(["id"], ["it", "it"]) for i in batch["id"].to_pylist()]
    assert sorted(italian) == sorted(f"d{i}" for i in range(2, 130, 4))
    assert list(store.scan(["id"], [])) == []


def test_a_scan_sees_the_store_as_it_was_when_it_began(store: Store) -> None:
    store.upsert(rows(range(200)))
    scan = store.scan(["id", "text"], batch_rows=10)
    seen = next(scan).to_pylist()
    store.delete([f"d{i}" for i in range(100)])
    store.upsert(rows(range(100, 300), text=["changed"] * 200))
    seen += [row for batch in scan for row in batch.to_pylist()]
    assert {row["id"]: row["text"] for row in seen} == {f"d{i}": f"text of {i}" for i in range(200)}
    assert len(seen) == 200


def test_new_hubness_changes_nothing_else(store: Store) -> None:
    store.upsert(rows(range(20)))
    set_hubness(store, ["d3", "missing", "d4", "d3"], np.array([[0, 0], [1, 1], [2, 3], [5, 6]], np.float32))
    want = by_id(rows(range(20)))
    want["d3"]["hubness"], want["d4"]["hubness"] = [5, 6], [2, 3]
    assert all_rows(store) == want
    assert store.get(["d4", "d5"])["hubness"].to_pylist() == [[2, 3], [5, 1]]
    assert store.nearest(unit(20)[3:4], 1)[0]["hubness"].to_pylist() == [[5, 6]]
    set_hubness(store, ["d4"], np.array([[8, 9]], np.float32))
    store.optimise()
    assert store.get(["d3", "d4"])["hubness"].to_pylist() == [[5, 6], [8, 9]]


def test_a_row_that_is_written_again_has_its_new_hubness(place: Place) -> None:
    store, other = place.create(), place.open()
    store.upsert(rows(range(5)))
    set_hubness(store, ["d3", "d4"], np.full((2, LANGUAGES), 7, np.float32))
    store.delete(["d4"])
    other.upsert(rows([4, 3]))
    store.upsert(rows([9]))
    assert store.get(["d3", "d4", "d9"])["hubness"].to_pylist() == [[1, 1], [0, 1], [0, 1]]


def test_other_readers_see_new_rows_at_once(place: Place) -> None:
    writer, reader = place.create(), place.open(rank=RANK)
    for i in range(3):
        writer.upsert(rows([i]))
        assert ids(reader.nearest(unit(i + 1)[i:], 1)[0]) == [f"d{i}"]
    set_hubness(writer, ["d0"], np.full((1, LANGUAGES), 3, np.float32))
    assert reader.get(["d0"])["hubness"].to_pylist() == [[3, 3]]
    writer.close()
    again = place.open()
    assert all_rows(again).keys() == {"d0", "d1", "d2"}
    assert again.schema == reader.schema


HARD = ["", " ", "'; DROP TABLE documents; --", '" OR 1=1 --', "$1 %s %(id)s {documents}", "\\", "a\tb\nc", "𝔘𝔫𝔦",
        "e\u0301 é", "עברית", "\u202e", "\ud7ff\ufffd\U0010ffff", "NULL", "x" * 900, "%", "_"]  # fmt: skip


def test_texts_with_special_characters_are_stored_literally(store: Store) -> None:
    n = len(HARD)
    given = rows(range(n), id=HARD, lang=HARD, text=HARD, title=HARD, url=HARD, concept=HARD, digest=HARD)
    store.upsert(given)
    assert all_rows(store) == by_id(given)
    assert ids(store.get(HARD)) == HARD
    assert store.digests(HARD) == dict(zip(HARD, HARD, strict=True))
    assert store.count() == dict.fromkeys(sorted(HARD), 1)
    for i, text in enumerate(HARD):
        assert ids(store.nearest(unit(n)[i : i + 1], 5, langs=[text])[0]) == [text]
        assert [batch["id"].to_pylist() for batch in store.scan(["id"], [text])] == [[text]]
    set_hubness(store, HARD, np.full((n, LANGUAGES), 4, np.float32))
    assert store.get(HARD)["hubness"].to_pylist() == [[4, 4]] * n
    assert [store.delete([text]) for text in HARD] == [1] * n


def test_a_very_long_text_is_stored(store: Store) -> None:
    text = "ß漢字 " * 500_000
    store.upsert(rows([1], text=[text]))
    assert store.get(["d1"], ["text"])["text"].to_pylist() == [text]


def test_ids_that_no_store_can_hold_are_not_found(store: Store) -> None:
    store.upsert(rows([1]))
    never = ["d1\0", "\ud800", "x" * 5000]
    assert store.get(never).num_rows == store.delete(never) == len(store.digests(never)) == 0
    assert store.nearest(unit(1), 3, langs=never)[0].num_rows == 0
    set_hubness(store, never, np.ones((3, LANGUAGES), np.float32))


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory, url: str) -> Iterator[list[Store]]:
    """One store of each kind, used by many examples."""
    folder = Place("lance", tmp_path_factory.mktemp("texts"), None).create()
    server = Place("postgres", Path(), url).create()
    yield [folder, server]
    folder.close()
    server.close()


TEXT = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=40)


@pytest.mark.services
@settings(max_examples=up_to(30))
@given(st.lists(st.tuples(TEXT, TEXT), max_size=8, unique_by=lambda pair: pair[0]))
def test_texts_in_every_script_are_returned_as_they_were_written(
    both: list[Store], pairs: list[tuple[str, str]]
) -> None:
    names, texts = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    table = rows(range(len(names)), id=names, text=texts, title=texts)
    for store in both:
        store.upsert(table)
        assert by_id(store.get(names, store.schema.names)) == by_id(table)


INVALID_ROWS: list[tuple[dict[str, Any], str]] = [
    ({"text": ["a", "b\0c"]}, "document 'd1': text contains a NUL"),
    ({"id": ["a", "b\0c"]}, r"document 'b\x00c': id contains a NUL"),
    ({"lang": ["en", "x" * 1001]}, "document 'd1': lang has more than 1000 bytes"),
    ({"id": ["é" * 501, "b"]}, f"document '{'é' * 60}…': id has more than 1000 bytes"),
    ({"vector": to_lists(np.zeros((2, RANK), np.float32))}, "document 'd0': the vector does not have length 1"),
    ({"vector": to_lists(np.full((2, RANK), np.nan, np.float32))}, "document 'd0': the vector does not have length 1"),
    ({"hubness": to_lists(np.array([[0, 0], [0, np.inf]]))}, "document 'd1': hubness is not finite"),
    ({"vector": to_lists(unit(2, 9))}, "the rows have rank 9, the index has 8"),
    ({"hubness": to_lists(np.zeros((2, 3)))}, "the rows have languages 3, the index has 2"),
    ({"text": ["a", None]}, "Casting field 'text' with null values"),
]


@pytest.mark.parametrize(("columns", "message"), INVALID_ROWS)
def test_an_invalid_row_is_an_error_and_no_row_is_written(store: Store, columns: dict[str, Any], message: str) -> None:
    assert message in refused(lambda: store.upsert(rows([0, 1], **columns)))
    assert store.count() == {}


def test_invalid_arguments_are_errors(store: Store) -> None:
    store.upsert(rows(range(3)))
    names = "id, concept, lang, title, url, text, digest, vector, hubness, fields"
    missing = refused(lambda: store.upsert(rows([1]).drop_columns(["text"])))
    assert "no column text" in missing
    assert names in missing
    assert "(1, 9)" in refused(lambda: store.nearest(unit(1, 9), 3))
    assert "(8,)" in refused(lambda: store.nearest(unit(1)[0], 3))
    assert "not finite" in refused(lambda: store.nearest(unit(1) * np.nan, 3))
    assert "`k=0`" in refused(lambda: store.nearest(unit(1), 0))
    unknown = f"""there is no column 'id"; --'; choose from {names}"""
    assert refused(lambda: store.nearest(unit(1), 1, columns=['id"; --'])) == unknown
    assert refused(lambda: store.get(["d1"], ['id"; --'])) == unknown
    assert refused(lambda: store.scan(['id"; --'])) == unknown
    assert "(1, 3)" in refused(lambda: set_hubness(store, ["d1"], np.ones((1, 3), np.float32)))
    assert "not finite" in refused(lambda: set_hubness(store, ["d1"], np.full((1, 2), np.nan, np.float32)))


def test_another_rank_and_a_second_creation_are_errors(place: Place) -> None:
    created = place.create()
    assert refused(lambda: place.open(rank=9)).startswith(f"{place.label()}: the vectors have rank 8, not 9")
    created.upsert(rows([1]))
    assert "already; open it" in refused(place.create)
    assert place.open(rank=RANK).count() == {"en": 1}
    assert "`rank=0`" in refused(lambda: place.create(rank=0))


def test_another_format_version_is_an_error(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("cr5.index.stores.base.FORMAT", FORMAT + 1)
        place.create()
    message = f"{place.label()}: the index has format {FORMAT + 1}, this version reads {FORMAT}"
    assert refused(place.open).startswith(message)


def test_opening_a_place_without_an_index_is_an_error_that_names_it(place: Place) -> None:
    where = place.label().partition(", table")[0]
    assert refused(place.open).startswith(f"{where}: {place.without_index()}; ")


@pytest.mark.slow
def test_the_approximate_index_has_high_recall_and_new_rows_are_found_at_once(place: Place) -> None:
    n, rank = 30_000, 16
    X = clustered(n + 300, rank)
    store = place.create(rank)
    for begin in range(0, n, 5000):
        store.upsert(rows(range(begin, begin + 5000), X[begin : begin + 5000]))
    store.optimise()
    stats = store.stats()
    assert (stats["index"], stats["rows"], stats["unindexed"]) == (place.approximate_index(), n, 0)
    assert stats["bytes"] > n * rank * 4

    def recall(k: int, langs: list[str] | None = None, number: int = n) -> float:
        allowed = np.array([i for i in range(number) if langs is None or LANGS[i % 4] in langs])
        truth = allowed[np.argsort(-(X[n : n + 50] @ X[allowed].T), axis=1)[:, :k]]
        found = store.nearest(X[n : n + 50], k, langs=langs, columns=["id"])
        assert {table.num_rows for table in found} == {k}
        return float(
            np.mean([len(set(ids(t)) & {f"d{i}" for i in best}) / k for t, best in zip(found, truth, strict=True)])
        )

    assert recall(10) >= 0.97
    assert recall(100) >= 0.97
    assert recall(10, ["en"]) >= 0.97
    assert recall(10, ["en", "it", "vi"]) >= 0.97

    # 300 rows that are not in the approximate index yet, and some that replace indexed ones
    store.upsert(rows(range(n, n + 300), X[n:]))
    assert [ids(table)[0] for table in store.nearest(X[n : n + 50], 3)] == [f"d{i}" for i in range(n, n + 50)]
    store.upsert(rows(range(10), X[n + 10 : n + 20], lang=["xx"] * 10))
    rare = store.nearest(X[n : n + 50], 20, langs=["xx"])
    assert all(sorted(ids(table)) == sorted(f"d{i}" for i in range(10)) for table in rare)
    set_hubness(store, [f"d{i}" for i in range(n)], np.full((n, LANGUAGES), 2, np.float32))
    assert store.nearest(X[:1], 1, langs=["xx"])[0]["hubness"].to_pylist() == [[2, 2]]
    before = store.stats()["unindexed"]
    store.optimise()
    assert store.stats()["unindexed"] == before < 1000  # too few to be added to the index
    if isinstance(store, LanceStore):
        store.limits = LanceLimits(max_unindexed_rows=100)
    store.optimise()
    assert store.stats()["unindexed"] == 0
    assert [ids(table)[0] for table in store.nearest(X[n + 50 : n + 80], 3)] == [f"d{i}" for i in range(n + 50, n + 80)]


WRITE_FOREVER = """
import itertools
store = place.open()
for turn in itertools.count():
    table = store_places.rows(range(turn % 5 * 400, turn % 5 * 400 + 400), digest=[f"{turn}"] * 400)
    store.upsert(table)
    print(turn, flush=True)
"""


@pytest.mark.slow
def test_a_killed_writer_leaves_complete_batches(place: Place) -> None:
    place.create()
    for wait in (0.003, 0.029):
        writer = place.run(WRITE_FOREVER)
        assert writer.stdout is not None
        done = [int(writer.stdout.readline()) for _ in range(7)]
        time.sleep(wait)
        writer.send_signal(signal.SIGKILL)
        done += [int(line) for line in writer.communicate()[0].split()]
        store = place.open()
        documents = all_rows(store)
        assert len(documents) == 2000 == sum(store.count().values())
        turns = []
        for batch in range(5):
            of_batch = {documents[f"d{i}"]["digest"] for i in range(batch * 400, batch * 400 + 400)}
            assert len(of_batch) == 1
            turns.append(int(of_batch.pop()))
        assert max(turns) - done[-1] in (0, 1)  # reported batches are stored; one more may have been committed
        store.upsert(rows([5000 + len(done)]))
        store.delete([f"d{5000 + len(done)}"])


WRITE_AND_DELETE = """
store = place.open()
for turn in range(10):
    unshared = range(1000 + {me} * 1000 + turn * 20, 1000 + {me} * 1000 + turn * 20 + 20)
    store.upsert(store_places.rows(unshared))
    shared = list(range(30))[::{step}]
    store.upsert(store_places.rows(shared, digest=["{me}-%d" % turn] * 30))
    store.set_all_hubness([(["d%d" % i for i in shared], [[{me}, turn]] * 30)])
    store.delete(["d%d" % (1000 + {me} * 1000 + turn * 20)])
    if turn % 5 == 4:
        store.optimise()
"""


@pytest.mark.slow
def test_two_concurrent_writers_lose_nothing(place: Place) -> None:
    place.create()
    writers = [place.run(WRITE_AND_DELETE.format(me=me, step=step)) for me, step in [(1, 1), (2, -1)]]
    assert [writer.wait(300) for writer in writers] == [0, 0]
    for writer in writers:
        assert writer.stdout is not None
        writer.stdout.close()
    store = place.open()
    unshared = [f"d{1000 + me * 1000 + i}" for me in (1, 2) for i in range(200) if i % 20]
    assert sorted(all_rows(store)) == sorted([*unshared, *(f"d{i}" for i in range(30))])
    assert sum(store.count().values()) == len(unshared) + 30
    assert len({row["digest"] for row in all_rows(store).values() if row["id"] in {f"d{i}" for i in range(30)}}) == 1


@pytest.mark.slow
def test_threads_can_share_a_store(store: Store) -> None:
    store.upsert(rows(range(40)))
    answers: list[list[str]] = []

    def ask(number: int) -> None:
        for i in range(number, 40, 8):
            answers.append(ids(store.nearest(unit(40)[i : i + 1], 1)[0]))
            store.upsert(rows([200 + i], lang=["xx"]))

    threads = [threading.Thread(target=ask, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == sorted([f"d{i}"] for i in range(40))
    assert store.count()["xx"] == 40


def test_a_missing_library_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lancedb", None)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    folder = "the search index needs LanceDB; install it with pip install 'cr5[search]'"
    server = "the search index in PostgreSQL needs psycopg; install it with pip install 'cr5[postgres]'"
    assert refused(lambda: LanceStore.create(Location(tmp_path), rank=RANK, language_count=LANGUAGES)) == folder
    assert refused(lambda: LanceStore.open(Location(tmp_path))) == folder
    assert refused(lambda: PostgresStore.open(Location(tmp_path, "postgresql://localhost/", "documents"))) == server
