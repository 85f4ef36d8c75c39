"""The store: the same behaviour in a folder (LanceDB) and in a server (PostgreSQL with pgvector)."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import postgres as private
import psycopg
import pyarrow as pa
import pytest
import running
from hypothesis import given, settings
from hypothesis import strategies as st

from cr5.errors import Cr5Error
from cr5.index.stores import lance, postgres
from cr5.index.stores.base import FORMAT, Floats, Store, lists, matrix
from cr5.index.view import View

RANK, EXTRAS = 8, 2
LANGS = ["da", "en", "it", "vi"]


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    """The address of a private PostgreSQL."""
    with private.server() as address:
        yield address


class Place:
    """Somewhere a store can be made, opened again and opened by other processes."""

    def __init__(self, kind: str, folder: Path, address: str | None) -> None:
        self.kind, self.folder, self.address = kind, folder, address
        self.name = f"t{uuid.uuid4().hex}"
        self.stores: list[Store] = []

    def create(self, rank: int = RANK) -> Store:
        if self.address is None:
            return self._kept(lance.create(self.folder, rank=rank, extras=EXTRAS))
        return self._kept(postgres.create(self.address, self.name, rank=rank, extras=EXTRAS))

    def open(self, rank: int | None = None) -> Store:
        if self.address is None:
            return self._kept(lance.open(self.folder, rank=rank))
        return self._kept(postgres.open(self.address, self.name, rank=rank))

    def label(self) -> str:
        """How messages name the place."""
        if self.address is None:
            return str(self.folder)
        return f"PostgreSQL at {self.address.partition('host=')[2]}, table {self.name}"

    def run(self, code: str) -> "subprocess.Popen[str]":
        """Another Python, in which ``place`` is this one."""
        arguments = repr((self.kind, str(self.folder), self.address))
        start = f"import pathlib, test_stores\nk, f, a = {arguments}\n"
        start += "place = test_stores.Place(k, pathlib.Path(f), a)\n"
        start += f"place.name = {self.name!r}\n"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        return subprocess.Popen(
            [sys.executable, "-c", start + code], stdout=subprocess.PIPE, text=True, env=environment
        )

    def _kept(self, store: Store) -> Store:
        self.stores.append(store)
        return store


@pytest.fixture(params=["lance", "lance from disk", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    address = request.getfixturevalue("url") if request.param == "postgres" else None
    if request.param == "lance from disk":
        monkeypatch.setattr(lance, "SMALL", -1)  # as if it were too large for memory
    made = Place(request.param.partition(" ")[0], tmp_path / "index", address)
    yield made
    for store in made.stores:
        store.close()


@pytest.fixture
def store(place: Place) -> Store:
    return place.create()


def unit(number: int, rank: int = RANK, seed: int = 0) -> Floats:
    X = np.random.default_rng(seed).standard_normal((number, rank)).astype(np.float32)
    return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True), np.float32)


def clustered(number: int, rank: int, seed: int = 0) -> Floats:
    generator = np.random.default_rng(seed)
    centres = unit(number // 50, rank, seed + 1)
    noise = generator.standard_normal((number, rank)).astype(np.float32) / np.float32(rank**0.5)
    X = centres[generator.integers(len(centres), size=number)] + noise
    return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True), np.float32)


def rows(numbers: Any, vectors: Floats | None = None, **columns: Any) -> pa.Table:
    """Documents d0, d1, … in four languages in turn; ``columns`` replaces columns."""
    numbers = list(numbers)
    vectors = unit(max(numbers, default=0) + 1)[numbers] if vectors is None else vectors
    given = {
        "id": [f"d{i}" for i in numbers],
        "concept": [f"Q{i // 4}" for i in numbers],
        "lang": [LANGS[i % 4] for i in numbers],
        "title": [f"title {i}" for i in numbers],
        "url": [f"https://example.org/{i}" for i in numbers],
        "text": [f"text of {i}" for i in numbers],
        "digest": [f"{i:08x}" for i in numbers],
    }
    hubness = np.stack([np.arange(len(numbers)), np.ones(len(numbers))], axis=1) if numbers else np.empty((0, EXTRAS))
    table = {key: pa.array(value, pa.string()) for key, value in (given | columns).items() if key in given}
    table |= {"vector": columns.get("vector", lists(vectors)), "hubness": columns.get("hubness", lists(hubness))}
    return pa.table(table)


def ids(table: pa.Table) -> list[str]:
    return list(table["id"].to_pylist())


def whole(store: Store) -> dict[str, dict[str, Any]]:
    """Everything in a store, by id."""
    names = store.schema.names
    return {row["id"]: row for batch in store.scan(names) for row in batch.to_pylist()}


def by_id(table: pa.Table) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in table.to_pylist()}


def refused(call: Callable[[], Any]) -> str:
    with pytest.raises(Cr5Error) as caught:
        call()
    return str(caught.value)


def test_what_is_put_comes_back_equal(store: Store) -> None:
    store.put(rows(range(10)))
    assert whole(store) == by_id(rows(range(10)))
    assert store.count() == {"da": 3, "en": 3, "it": 2, "vi": 2}


def test_documents_come_in_the_order_asked_without_the_missing_and_without_vectors(store: Store) -> None:
    store.put(rows(range(10)).to_batches()[0])
    found = store.get(["d7", "missing", "d2", "d7"])
    assert ids(found) == ["d7", "d2", "d7"]
    assert found.column_names == ["id", "concept", "lang", "title", "url", "text", "digest", "hubness"]
    assert found["text"].to_pylist() == ["text of 7", "text of 2", "text of 7"]
    np.testing.assert_array_equal(matrix(store.get(["d3"], ["vector"])["vector"]), unit(10)[3:4])


def test_a_row_with_a_known_id_replaces_the_old_one(store: Store) -> None:
    store.put(rows(range(6)))
    changed = rows([4, 5, 6], text=["new 4", "new 5", "new 6"], digest=["a", "b", "c"], lang=["vi", "vi", "vi"])
    store.put(changed)
    assert whole(store) == by_id(rows(range(6))) | by_id(changed)
    assert store.digests(["d0", "d4", "d6", "nobody"]) == {"d0": "00000000", "d4": "a", "d6": "c"}
    assert store.count() == {"da": 1, "en": 1, "it": 1, "vi": 4}


def test_of_two_rows_with_one_id_in_a_call_the_last_stays(store: Store) -> None:
    store.put(rows([1, 2, 1], text=["first", "other", "last"]))
    assert store.get(["d1", "d2"])["text"].to_pylist() == ["last", "other"]
    assert sum(store.count().values()) == 2


def test_deleted_documents_are_gone_and_counted(store: Store) -> None:
    store.put(rows(range(8)))
    assert store.delete(["d1", "d1", "d3", "never there"]) == 2
    assert store.delete(["d1"]) == 0
    assert store.delete([]) == 0
    assert sorted(whole(store)) == ["d0", "d2", "d4", "d5", "d6", "d7"]
    assert "d1" not in ids(store.nearest(unit(8)[1:2], 8)[0])


def test_an_empty_store_answers_everything(store: Store) -> None:
    store.put(rows([]))
    store.set_hubness([], np.empty((0, EXTRAS), np.float32))
    store.set_hubness(["nobody"], np.ones((1, EXTRAS), np.float32))
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
    about = store.about()
    assert (about["rows"], about["index"], about["rank"], about["extras"]) == (0, "none", RANK, EXTRAS)


@pytest.mark.parametrize("langs", [None, ["en"], ["vi", "da"], ["xx"], []])
def test_the_nearest_are_those_of_a_comparison_with_all(store: Store, langs: list[str] | None) -> None:
    X, queries = unit(200), unit(5, seed=7)
    store.put(rows(range(200), X))
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


def test_a_scan_brings_every_document_once_in_small_batches(store: Store) -> None:
    store.put(rows(range(100)))
    store.put(rows(range(90, 130)))
    batches = list(store.scan(["lang", "id"], batch_rows=16))
    assert max(batch.num_rows for batch in batches) <= 16
    assert batches[0].schema.names == ["lang", "id"]
    assert sorted(i for batch in batches for i in batch["id"].to_pylist()) == sorted(f"d{i}" for i in range(130))
    italian = [i for batch in store.scan(["id"], ["it", "it"]) for i in batch["id"].to_pylist()]
    assert sorted(italian) == sorted(f"d{i}" for i in range(2, 130, 4))
    assert list(store.scan(["id"], [])) == []


def test_a_scan_sees_the_store_as_it_was_when_it_began(store: Store) -> None:
    store.put(rows(range(200)))
    scan = store.scan(["id", "text"], batch_rows=10)
    seen = next(scan).to_pylist()
    store.delete([f"d{i}" for i in range(100)])
    store.put(rows(range(100, 300), text=["changed"] * 200))
    seen += [row for batch in scan for row in batch.to_pylist()]
    assert {row["id"]: row["text"] for row in seen} == {f"d{i}": f"text of {i}" for i in range(200)}
    assert len(seen) == 200


def test_hubness_is_refreshed_and_nothing_else(store: Store) -> None:
    store.put(rows(range(20)))
    store.set_hubness(["d3", "nobody", "d4", "d3"], np.array([[0, 0], [1, 1], [2, 3], [5, 6]], np.float32))
    want = by_id(rows(range(20)))
    want["d3"]["hubness"], want["d4"]["hubness"] = [5, 6], [2, 3]
    assert whole(store) == want
    assert store.get(["d4", "d5"])["hubness"].to_pylist() == [[2, 3], [5, 1]]
    assert store.nearest(unit(20)[3:4], 1)[0]["hubness"].to_pylist() == [[5, 6]]
    store.set_hubness(["d4"], np.array([[8, 9]], np.float32))
    store.optimise()
    assert store.get(["d3", "d4"])["hubness"].to_pylist() == [[5, 6], [8, 9]]


def test_a_row_put_again_has_the_hubness_it_was_put_with(place: Place) -> None:
    store, other = place.create(), place.open()
    store.put(rows(range(5)))
    store.set_hubness(["d3", "d4"], np.full((2, EXTRAS), 7, np.float32))
    store.delete(["d4"])
    other.put(rows([4, 3]))
    store.put(rows([9]))
    assert store.get(["d3", "d4", "d9"])["hubness"].to_pylist() == [[1, 1], [0, 1], [0, 1]]


def test_what_one_has_put_another_sees_at_once(place: Place) -> None:
    writer, reader = place.create(), place.open(rank=RANK)
    for i in range(3):
        writer.put(rows([i]))
        assert ids(reader.nearest(unit(i + 1)[i:], 1)[0]) == [f"d{i}"]
    writer.set_hubness(["d0"], np.full((1, EXTRAS), 3, np.float32))
    assert reader.get(["d0"])["hubness"].to_pylist() == [[3, 3]]
    writer.close()
    again = place.open()
    assert whole(again).keys() == {"d0", "d1", "d2"}
    assert again.schema == reader.schema


HARD = ["", " ", "'; DROP TABLE documents; --", '" OR 1=1 --', "$1 %s %(id)s {documents}", "\\", "a\tb\nc", "𝔘𝔫𝔦",
        "e\u0301 é", "עברית", "\u202e", "\ud7ff\ufffd\U0010ffff", "NULL", "x" * 900, "%", "_"]  # fmt: skip


def test_hostile_and_unusual_texts_are_only_texts(store: Store) -> None:
    n = len(HARD)
    given = rows(range(n), id=HARD, lang=HARD, text=HARD, title=HARD, url=HARD, concept=HARD, digest=HARD)
    store.put(given)
    assert whole(store) == by_id(given)
    assert ids(store.get(HARD)) == HARD
    assert store.digests(HARD) == dict(zip(HARD, HARD, strict=True))
    assert store.count() == dict.fromkeys(sorted(HARD), 1)
    for i, text in enumerate(HARD):
        assert ids(store.nearest(unit(n)[i : i + 1], 5, langs=[text])[0]) == [text]
        assert [batch["id"].to_pylist() for batch in store.scan(["id"], [text])] == [[text]]
    store.set_hubness(HARD, np.full((n, EXTRAS), 4, np.float32))
    assert store.get(HARD)["hubness"].to_pylist() == [[4, 4]] * n
    assert [store.delete([text]) for text in HARD] == [1] * n


def test_a_very_long_text_is_kept(store: Store) -> None:
    text = "ß漢字 " * 500_000
    store.put(rows([1], text=[text]))
    assert store.get(["d1"], ["text"])["text"].to_pylist() == [text]


def test_ids_that_cannot_be_there_are_not_found(store: Store) -> None:
    store.put(rows([1]))
    never = ["d1\0", "\ud800", "x" * 5000]
    assert store.get(never).num_rows == store.delete(never) == len(store.digests(never)) == 0
    assert store.nearest(unit(1), 3, langs=never)[0].num_rows == 0
    store.set_hubness(never, np.ones((3, EXTRAS), np.float32))


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory, url: str) -> Iterator[list[Store]]:
    """A store of each kind, for many examples."""
    folder = lance.create(tmp_path_factory.mktemp("texts"), rank=RANK, extras=EXTRAS)
    server = postgres.create(url, "texts", rank=RANK, extras=EXTRAS)
    yield [folder, server]
    folder.close()
    server.close()


TEXT = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=40)


@settings(max_examples=30)
@given(st.lists(st.tuples(TEXT, TEXT), max_size=8, unique_by=lambda pair: pair[0]))
def test_texts_of_every_script_come_back_equal(both: list[Store], pairs: list[tuple[str, str]]) -> None:
    names, texts = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    table = rows(range(len(names)), id=names, text=texts, title=texts)
    for store in both:
        store.put(table)
        assert by_id(store.get(names, store.schema.names)) == by_id(table)


FAULTS = [
    ({"text": ["a", "b\0c"]}, "document 'd1': text holds a NUL character; remove it"),
    ({"id": ["a", "b\0c"]}, r"document 'b\x00c': id holds a NUL character; remove it"),
    ({"lang": ["en", "x" * 1001]}, "document 'd1': lang exceeds 1000 bytes; shorten it"),
    ({"id": ["é" * 501, "b"]}, f"document '{'é' * 60}…': id exceeds 1000 bytes; shorten it"),
    (
        {"vector": lists(np.zeros((2, RANK), np.float32))},
        "document 'd0': the vector has not length 1; divide it by its norm, leave out what has none",
    ),
    (
        {"vector": lists(np.full((2, RANK), np.nan, np.float32))},
        "document 'd0': the vector has not length 1; divide it by its norm, leave out what has none",
    ),
    ({"hubness": lists(np.array([[0, 0], [0, np.inf]]))}, "document 'd1': hubness is not finite; give numbers"),
    ({"vector": lists(unit(2, 9))}, "the rows have rank 9, the index 8; use the model it was built with"),
    ({"hubness": lists(np.zeros((2, 3)))}, "the rows have extras 3, the index 2; use the model it was built with"),
    (
        {"text": ["a", None]},
        "the rows do not fit the index (Casting field 'text' with null values to non-nullable); "
        "give id, concept, lang, title, url, text, digest, vector, hubness, all filled",
    ),
]


@pytest.mark.parametrize(("columns", "message"), FAULTS)
def test_a_fault_in_one_row_refuses_them_all(store: Store, columns: dict[str, Any], message: str) -> None:
    assert refused(lambda: store.put(rows([0, 1], **columns))) == message
    assert store.count() == {}


def test_questions_that_make_no_sense_are_refused(store: Store) -> None:
    store.put(rows(range(3)))
    names = "id, concept, lang, title, url, text, digest, vector, hubness"
    assert refused(lambda: store.put(rows([1]).drop_columns(["text"]))) == f"the rows have no column text; give {names}"
    assert refused(lambda: store.nearest(unit(1, 9), 3)) == (
        "queries of shape (1, 9) do not fit the index; give rows of 8 numbers"
    )
    assert refused(lambda: store.nearest(unit(1)[0], 3)) == (
        "queries of shape (8,) do not fit the index; give rows of 8 numbers"
    )
    assert refused(lambda: store.nearest(unit(1) * np.nan, 3)) == "a query is not finite; give numbers"
    assert refused(lambda: store.nearest(unit(1), 0)) == "k 0 is not positive; ask for 1 document or more"
    unknown = f"""there is no column 'id"; --'; choose from {names}"""
    assert refused(lambda: store.nearest(unit(1), 1, columns=['id"; --'])) == unknown
    assert refused(lambda: store.get(["d1"], ['id"; --'])) == unknown
    assert refused(lambda: store.scan(['id"; --'])) == unknown
    assert refused(lambda: store.set_hubness(["d1"], np.ones((1, 3), np.float32))) == (
        "hubness of shape (1, 3) for 1 documents; give 1 x 2 numbers"
    )
    assert refused(lambda: store.set_hubness(["d1"], np.full((1, 2), np.nan, np.float32))) == (
        "hubness is not finite; give numbers"
    )


def test_another_rank_or_a_second_creation_is_refused(place: Place) -> None:
    there = place.create()
    assert refused(lambda: place.open(rank=9)) == (
        f"{place.label()}: the index holds vectors of rank 8, not 9; use its model or a new index"
    )
    there.put(rows([1]))
    assert "already; open it" in refused(place.create)
    assert place.open(rank=RANK).count() == {"en": 1}
    assert refused(lambda: place.create(rank=0)) == "rank 0 is not positive; give 1 or more"


def test_another_format_is_refused(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("cr5.index.stores.base.FORMAT", FORMAT + 1)
        place.create()
    assert refused(place.open) == (
        f"{place.label()}: the index has format {FORMAT + 1}, this version reads {FORMAT}; build the index again"
    )


def test_a_place_without_an_index_is_named(place: Place) -> None:
    what = {"lance": "there is no index", "postgres": f"there is no index {place.name}"}[place.kind]
    where = place.label().partition(", table")[0]
    assert refused(place.open) == f"{where}: {what}; build one with cr5 index"


def test_the_approximate_index_misses_few_and_new_rows_are_found_at_once(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    n, rank = 30_000, 16
    X = clustered(n + 300, rank)
    store = place.create(rank)
    for begin in range(0, n, 5000):
        store.put(rows(range(begin, begin + 5000), X[begin : begin + 5000]))
    store.optimise()
    about = store.about()
    assert (about["index"], about["rows"], about["unindexed"]) == (
        {"lance": "cells", "postgres": "HNSW"}[place.kind], n, 0,
    )  # fmt: skip
    assert about["bytes"] > n * rank * 4

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

    # 300 more, in the tail that no index covers yet, and some that replace indexed ones
    store.put(rows(range(n, n + 300), X[n:]))
    assert [ids(table)[0] for table in store.nearest(X[n : n + 50], 3)] == [f"d{i}" for i in range(n, n + 50)]
    store.put(rows(range(10), X[n + 10 : n + 20], lang=["xx"] * 10))
    rare = store.nearest(X[n : n + 50], 20, langs=["xx"])
    assert all(sorted(ids(table)) == sorted(f"d{i}" for i in range(10)) for table in rare)
    store.set_hubness([f"d{i}" for i in range(n)], np.full((n, EXTRAS), 2, np.float32))
    assert store.nearest(X[:1], 1, langs=["xx"])[0]["hubness"].to_pylist() == [[2, 2]]
    before = store.about()["unindexed"]
    store.optimise()
    assert store.about()["unindexed"] == before < 1000  # which is too few to do anything about
    monkeypatch.setattr(lance, "FEW", 100)
    store.optimise()
    assert store.about()["unindexed"] == 0
    assert [ids(table)[0] for table in store.nearest(X[n + 50 : n + 80], 3)] == [f"d{i}" for i in range(n + 50, n + 80)]


PUTTING = """
import itertools
store = place.open()
for turn in itertools.count():
    table = test_stores.rows(range(turn % 5 * 400, turn % 5 * 400 + 400), digest=[f"{turn}"] * 400)
    store.put(table)
    print(turn, flush=True)
"""


def test_a_killed_writer_leaves_whole_batches(place: Place) -> None:
    place.create()
    for wait in (0.003, 0.029):
        writer = place.run(PUTTING)
        assert writer.stdout is not None
        done = [int(writer.stdout.readline()) for _ in range(7)]
        time.sleep(wait)
        writer.send_signal(signal.SIGKILL)
        done += [int(line) for line in writer.communicate()[0].split()]
        store = place.open()
        documents = whole(store)
        assert len(documents) == 2000 == sum(store.count().values())
        turns = []
        for batch in range(5):
            of_batch = {documents[f"d{i}"]["digest"] for i in range(batch * 400, batch * 400 + 400)}
            assert len(of_batch) == 1
            turns.append(int(of_batch.pop()))
        assert max(turns) - done[-1] in (0, 1)  # what was reported is there; one more may have been on its way
        store.put(rows([5000 + len(done)]))
        store.delete([f"d{5000 + len(done)}"])


WRITING = """
store = place.open()
for turn in range(15):
    own = range(1000 + {me} * 1000 + turn * 20, 1000 + {me} * 1000 + turn * 20 + 20)
    store.put(test_stores.rows(own))
    shared = list(range(30))[::{step}]
    store.put(test_stores.rows(shared, digest=["{me}-%d" % turn] * 30))
    store.set_hubness(["d%d" % i for i in shared], [[{me}, turn]] * 30)
    store.delete(["d%d" % (1000 + {me} * 1000 + turn * 20)])
    if turn % 5 == 4:
        store.optimise()
"""


def test_two_writers_at_the_same_time_lose_nothing(place: Place) -> None:
    place.create()
    writers = [place.run(WRITING.format(me=me, step=step)) for me, step in [(1, 1), (2, -1)]]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    for writer in writers:
        assert writer.stdout is not None
        writer.stdout.close()
    store = place.open()
    own = [f"d{1000 + me * 1000 + i}" for me in (1, 2) for i in range(300) if i % 20]
    assert sorted(whole(store)) == sorted([*own, *(f"d{i}" for i in range(30))])
    assert sum(store.count().values()) == len(own) + 30
    assert len({row["digest"] for row in whole(store).values() if row["id"] in {f"d{i}" for i in range(30)}}) == 1


def test_threads_share_a_store(store: Store) -> None:
    store.put(rows(range(100)))
    answers: list[list[str]] = []

    def ask(number: int) -> None:
        for i in range(number, 100, 8):
            answers.append(ids(store.nearest(unit(100)[i : i + 1], 1)[0]))
            store.put(rows([200 + i], lang=["xx"]))

    threads = [threading.Thread(target=ask, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == sorted([f"d{i}"] for i in range(100))
    assert store.count()["xx"] == 100


def test_readers_do_not_wait_for_a_writer(tmp_path: Path) -> None:
    store = lance.create(tmp_path, rank=RANK, extras=EXTRAS)
    store.put(rows([1]))
    with lance.writing(tmp_path):
        waiting = threading.Thread(target=store.put, args=[rows([2])])
        waiting.start()
        assert whole(store).keys() == {"d1"}
        assert ids(store.nearest(unit(2)[1:], 5)[0]) == ["d1"]
        assert waiting.is_alive()
    waiting.join()
    assert store.count() == {"en": 1, "it": 1}


def test_a_folder_does_not_grow_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lance, "KEPT", timedelta(milliseconds=1))
    monkeypatch.setattr(lance, "FILES", 4)
    store = lance.create(tmp_path, rank=RANK, extras=EXTRAS)
    sizes = []
    for _ in range(6):
        for _ in range(5):
            store.put(rows(range(500)))
        time.sleep(0.01)
        store.optimise()
        sizes.append(store.about()["bytes"])
    assert max(sizes[1:]) < 1.5 * sizes[0]


def test_single_documents_are_joined_when_they_lie_in_many_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lance, "FILES", 4)
    store = lance.create(tmp_path, rank=RANK, extras=EXTRAS)
    files = []
    for number in range(10):
        store.put(rows(range(number, number + 1)))
        store.optimise()
        files.append(store._table.stats()["fragment_stats"]["num_fragments"])
    assert files[:4] == [1, 2, 3, 4]
    assert max(files) == 4


def test_cells_grow_with_the_table_and_are_built_anew_when_it_has_doubled_or_much_is_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lance, "ENOUGH", 300)
    monkeypatch.setattr(lance, "FEW", 9)
    store = lance.create(tmp_path, rank=RANK, extras=EXTRAS)

    def state() -> tuple[int, int, int]:
        about, cells = store.about(), store._cells()
        assert cells is not None
        return cells.built, about["rows"], about["unindexed"]

    store.put(rows(range(400)))
    store.optimise()
    assert state() == (400, 400, 0)
    for begin in (400, 410, 420):
        store.put(rows(range(begin, begin + 10)))
    assert state() == (400, 430, 0)
    store.put(rows(range(430, 432)))
    assert state() == (400, 432, 2)
    store.delete([f"d{i}" for i in range(100)])
    store.optimise()
    assert state() == (400, 332, 2)
    store.put(rows(range(80, 140)))  # 40 of them are there already
    assert state() == (400, 352, 0)
    store.optimise()
    assert state() == (352, 352, 0)  # a quarter was dead
    store.put(rows(range(800)))
    store.optimise()
    assert state() == (800, 800, 0)
    assert [ids(table) for table in store.nearest(unit(800), 1)] == [[f"d{i}"] for i in range(800)]
    assert len(list((tmp_path / "cells").iterdir())) == 3  # the list, the centres and one piece


def test_what_is_in_cells_is_as_it_was_put_and_follows_what_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lance, "ENOUGH", 300)
    monkeypatch.setattr(lance, "SMALL", 0)
    writer = lance.create(tmp_path, rank=RANK, extras=EXTRAS)
    everything = rows(range(400))
    writer.put(everything)
    writer.optimise()
    reader = lance.open(tmp_path)
    asked = [f"d{i}" for i in (7, 399, 0, 7)]
    found = reader.get([*asked, "nobody"], everything.schema.names)
    expected = everything.take([7, 399, 0, 7])
    for name in everything.schema.names:
        if name != "vector":
            assert found[name].to_pylist() == expected[name].to_pylist()
    np.testing.assert_allclose(found["vector"].to_pylist(), expected["vector"].to_pylist(), atol=5e-5)
    writer.delete(["d7"])
    writer.put(rows(range(0, 1), unit(400)[7:8]))  # another document takes its place
    assert ids(reader.get(asked)) == ["d399", "d0"]
    [nearest] = reader.nearest(unit(400)[7:8], 400, columns=("id", "title", "hubness"))
    assert (ids(nearest)[0], nearest.num_rows, len(set(ids(nearest)))) == ("d0", 399, 399)
    writer.set_hubness(["d0", "d5"], np.full((2, EXTRAS), 7, np.float32))
    assert reader.get(["d5", "d0"])["hubness"].to_pylist() == [[7, 7], [7, 7]]
    [nearest] = reader.nearest(unit(400)[5:6], 1, columns=("id", "hubness"))
    assert nearest.to_pylist() == [{"id": "d5", "hubness": [7, 7], "cosine": pytest.approx(1, abs=5e-5)}]


def test_what_takes_the_place_of_deleted_rows_is_found_though_they_were_the_last_in_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lance, "ENOUGH", 300)
    store = lance.create(tmp_path, rank=RANK, extras=EXTRAS)
    store.put(rows(range(400)))
    store.optimise()
    store.delete([f"d{i}" for i in range(390, 400)])
    store = lance.open(tmp_path)  # which does not remember what there was
    store.put(rows(range(500, 510)))
    assert ids(store.get(["d505", "d395"])) == ["d505"]
    assert [ids(table) for table in store.nearest(unit(510)[500:], 1)] == [[f"d{i}"] for i in range(500, 510)]


@pytest.mark.parametrize("kind", ["piece-*.arrow", "centres-*.npy", "cells.json"])
@pytest.mark.parametrize("damage", [b"", b"no such thing", None])
def test_damaged_cells_are_named_and_can_be_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, damage: bytes | None
) -> None:
    monkeypatch.setattr(lance, "ENOUGH", 300)
    store = lance.create(tmp_path, rank=RANK, extras=EXTRAS)
    store.put(rows(range(400)))
    store.optimise()
    [path] = (tmp_path / "cells").glob(kind)
    path.unlink()
    if damage is not None:
        path.write_bytes(damage)
    store = lance.open(tmp_path)
    if kind != "cells.json" or damage is not None:
        assert refused(lambda: store.nearest(unit(1), 1)) == (
            f"{tmp_path / 'cells'}: the cells are damaged; delete this folder, the next cr5 index makes it again"
        )
    shutil.rmtree(tmp_path / "cells")
    assert ids(store.nearest(unit(400)[7:8], 1)[0]) == ["d7"]
    store.optimise()
    assert store.about()["index"] == "cells"
    assert ids(store.nearest(unit(400)[7:8], 1)[0]) == ["d7"]


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_written_cells_find_what_a_dictionary_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(lance, "ENOUGH", 100)
    monkeypatch.setattr(lance, "FEW", 5)
    monkeypatch.setattr(lance, "FILES", 3)
    monkeypatch.setattr(lance, "SMALL", 0)
    rng, there = np.random.default_rng(seed), dict[str, tuple[Floats, list[float]]]()
    stores = [lance.create(tmp_path, rank=RANK, extras=EXTRAS), lance.open(tmp_path)]
    for _ in range(40):
        store, reader = rng.permutation(np.array(stores, object))
        some = rng.choice(300, rng.integers(1, 60), replace=False).tolist()
        match rng.integers(6):
            case 0 | 1 | 2:
                vectors = unit(len(some), seed=int(rng.integers(2**31)))
                new = rows(some, vectors)
                store.put(new)
                there |= dict(zip(ids(new), zip(vectors, new["hubness"].to_pylist(), strict=True), strict=True))
            case 3:
                store.delete([f"d{i}" for i in some[:20]])
                there = {name: row for name, row in there.items() if name not in {f"d{i}" for i in some[:20]}}
            case 4:
                values = rng.random((len(some), EXTRAS)).astype(np.float32)
                store.set_hubness([f"d{i}" for i in some], values)
                news = {f"d{i}": value.tolist() for i, value in zip(some, values, strict=True)}
                there = {name: (row[0], news.get(name, row[1])) for name, row in there.items()}
            case 5:
                store.optimise()
        stores = [store, lance.open(tmp_path) if rng.random() < 0.2 else reader]
        asked, langs = unit(1, seed=int(rng.integers(2**31)))[0], set(rng.choice(LANGS, 3).tolist())
        allowed = [name for name in there if LANGS[int(name[1:]) % 4] in langs]
        best = sorted(allowed, key=lambda name: -float(there[name][0] @ asked))[:7]
        for handle in stores:
            [found] = handle.nearest(asked[None], 7, langs=langs, columns=("id", "title", "hubness"))
            assert ids(found) == best
            assert found["title"].to_pylist() == [f"title {name[1:]}" for name in best]
            assert found["hubness"].to_pylist() == [pytest.approx(there[name][1]) for name in best]
            names = [f"d{i}" for i in some]
            assert ids(handle.get(names)) == [name for name in names if name in there]


@pytest.mark.parametrize(
    "name", ["", "A", "a b", 'a"; DROP TABLE x; --', "a" * 41, "1a", "ä", "a\0", "pg-x", "a\n", "a__graph"]
)
def test_a_name_that_could_be_more_than_a_name_is_refused(url: str, name: str) -> None:
    message = f"{name!r} is no name for an index; take up to 40 of a-z, 0-9 and single _, a letter first"
    assert refused(lambda: postgres.create(url, name, rank=RANK, extras=EXTRAS)) == message
    assert refused(lambda: postgres.open(url, name)) == message


def test_a_foreign_table_is_no_index(url: str) -> None:
    private.execute(url, "CREATE TABLE foreigner (id text)")
    where = f"PostgreSQL at {url.partition('host=')[2]}"
    assert refused(lambda: postgres.open(url, "foreigner")) == (
        f"{where}, table foreigner: this is no index of cr5; name another place"
    )
    assert refused(lambda: postgres.create(url, "foreigner", rank=RANK, extras=EXTRAS)) == (
        f"{where}: there is a table foreigner already; open it, drop it, or choose another name"
    )


def test_a_rank_that_pgvector_cannot_index_is_refused_and_a_large_one_is_not(url: str) -> None:
    assert refused(lambda: postgres.create(url, "wide", rank=4001, extras=EXTRAS)) == (
        "rank 4001 exceeds 4000, the most that pgvector can index; lower it, or index in a folder"
    )
    store = postgres.create(url, "wide", rank=4000, extras=EXTRAS)
    store.put(rows(range(3), unit(3, 4000)))
    with store._server.connection() as connection:
        store._build(connection, 3)
    assert ids(store.nearest(unit(3, 4000)[1:2], 1)[0]) == ["d1"]
    store.close()


SECRET = "s3cr3t&word"


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("postgresql://me:{}@localhost:1/db", "PostgreSQL at localhost, port 1 cannot be reached ("),
        ("postgresql://me:{}@/db?host=/nowhere", "PostgreSQL at /nowhere cannot be reached ("),
        ("postgresql://me:{}@localhost:port/db", "PostgreSQL at localhost, port port cannot be reached ("),
        ("postgresql://me:{}@[localhost/db", "the address of the PostgreSQL server is wrong; write "),
        ("postgresql://me:{}@localhost/db?x=y", "the address of the PostgreSQL server is wrong; write "),
        ("host=localhost port=1 password={} user=me", "PostgreSQL at localhost, port 1 cannot be reached ("),
    ],
)
def test_a_server_that_is_not_there_is_named_and_the_password_is_not(address: str, message: str) -> None:
    with pytest.raises(Cr5Error) as caught:
        postgres.open(address.format(SECRET), "documents")
    assert str(caught.value).startswith(message)
    error: BaseException | None = caught.value
    while error is not None:
        assert SECRET not in repr(error) + str(error)
        error = error.__cause__ or error.__context__


def test_a_store_shows_no_password(url: str) -> None:
    store = postgres.create(url.replace("postgres:@", f"postgres:{SECRET}@"), "shown", rank=RANK, extras=EXTRAS)
    assert repr(store) == f"PostgresStore('PostgreSQL at {url.partition('host=')[2]}', 'shown')"
    assert SECRET not in repr(store) + repr(store.about()) + repr(store._server) + str(store._server)
    store.close()


def test_a_database_without_pgvector_is_told_what_to_run(url: str) -> None:
    private.execute(url, "CREATE DATABASE bare TEMPLATE template0")
    bare = url.replace("/postgres?", "/bare?")
    assert refused(lambda: postgres.create(bare, "documents", rank=RANK, extras=EXTRAS)) == (
        f"PostgreSQL at {url.partition('host=')[2]}: the database lacks pgvector; run CREATE EXTENSION vector in it"
    )


def test_a_connection_that_is_lost_is_an_error_once_and_none_where_nobody_used_it(url: str) -> None:
    store = postgres.create(url, "lost", rank=RANK, extras=EXTRAS)
    others = "pid <> pg_backend_pid() AND backend_type = 'client backend'"
    end_others = f"SELECT pg_terminate_backend(pid, 10_000) FROM pg_stat_activity WHERE {others}"
    assert store.count() == {}
    private.execute(url, end_others)
    assert store.count() == {}

    def count_without_luck() -> None:
        with store._server.connection() as connection:
            private.execute(url, end_others)
            connection.execute("SELECT 1")

    assert refused(count_without_luck).startswith(f"PostgreSQL at {url.partition('host=')[2]}: ")
    assert store.count() == {}
    store.close()


LONG = 60  # seconds after which a test gives up on what should long have ended


def postmaster(url: str) -> int:
    """The process of the server, whose children answer."""
    [folder] = parse_qs(urlsplit(url).query)["host"]
    return int(Path(folder, "postmaster.pid").read_text().split()[0])


def waiting(url: str) -> int:
    """How many stand in line for a lock."""
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'").fetchone()
    assert found is not None
    return int(found[0])


def test_a_server_that_hangs_is_given_up_and_used_again_when_it_goes_on(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "PATIENCE", 0.2)
    monkeypatch.setattr(postgres, "MORE", 0.2)
    store = postgres.create(f"{url}&connect_timeout=2", "hangs", rank=RANK, extras=EXTRAS)
    sentence = f"PostgreSQL at {url.partition('host=')[2]}: there is no answer any more; see whether the server hangs"
    with ThreadPoolExecutor(2) as pool:
        store.put(rows(range(1)))
        with store._server.connection(), store._server.connection():
            pass  # there is one for each of the calls
        with running.stopped(postmaster(url)):
            calls: list[Future[Any]] = [pool.submit(store.count), pool.submit(store.put, rows(range(2)))]
            told = [str(call.exception(LONG)) for call in calls]
        assert told == [sentence] * 2
    assert store.count() == {"da": 1}
    store.close()


def test_a_server_that_lets_one_in_and_says_nothing_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        assert refused(lambda: postgres.open(f"postgresql://me@127.0.0.1:{port}/db?connect_timeout=2", "x")) == (
            f"PostgreSQL at 127.0.0.1, port {port} cannot be reached (connection timeout expired); "
            "check address, user and password"
        )


def test_a_server_with_much_to_do_is_waited_for(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "MORE", 0.05)
    store = postgres.create(url, "busy", rank=RANK, extras=EXTRAS)
    tried, answers = list[bool](), store._server.answers

    def answering() -> bool:
        tried.append(answers())
        return tried[-1]

    monkeypatch.setattr(store._server, "answers", answering)
    with store._server.connection() as connection:
        while len(tried) < 3:
            connection.execute("SELECT pg_sleep(0.3)")
    assert all(tried)
    assert store.count() == {}
    store.close()


def test_a_locked_index_is_not_waited_for_any_longer_than_a_reader_may_take(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "PATIENCE", 0.2)
    monkeypatch.setattr(postgres, "READING", 1)
    store = postgres.create(url, "locked", rank=RANK, extras=EXTRAS)
    with ThreadPoolExecutor(1) as pool, psycopg.connect(url) as other:
        other.execute("LOCK TABLE locked IN ACCESS EXCLUSIVE MODE")
        error = pool.submit(store.count).exception(LONG)
        other.execute("SELECT 1")
        end = time.monotonic() + LONG
        while waiting(url):  # a reader that has gone leaves no place in the line taken
            assert time.monotonic() < end
            time.sleep(0.2)
        other.rollback()
    assert str(error) == (
        f"PostgreSQL at {url.partition('host=')[2]}: not done within 1 s; see whether somebody has locked the index"
    )
    assert store.count() == {}
    store.close()


def test_to_close_a_store_ends_what_waits_for_the_server(url: str) -> None:
    store = postgres.create(url, "closing", rank=RANK, extras=EXTRAS)
    with ThreadPoolExecutor(1) as pool, psycopg.connect(url) as other:
        other.execute("LOCK TABLE closing IN ACCESS EXCLUSIVE MODE")
        call = pool.submit(store.put, rows(range(1)))
        end = time.monotonic() + LONG
        while not waiting(url):
            assert time.monotonic() < end
            time.sleep(0.1)
        store.close()
        assert str(call.exception(LONG)).endswith(": the index was closed meanwhile; open it again")
        other.rollback()


def test_an_index_that_was_dropped_is_missed(url: str) -> None:
    store = postgres.create(url, "dropped", rank=RANK, extras=EXTRAS)
    private.execute(url, "DROP TABLE dropped")
    assert refused(store.count) == (
        f'PostgreSQL at {url.partition("host=")[2]}: relation "dropped" does not exist; '
        "see whether the server and the index are there"
    )
    store.close()


def test_two_who_optimise_at_once_build_one_graph(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "ENOUGH", 100)
    store = postgres.create(url, "graph", rank=RANK, extras=EXTRAS)
    store.put(rows(range(500)))
    threads = [threading.Thread(target=store.optimise) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.about()["index"] == "HNSW"
    assert ids(store.nearest(unit(500)[7:8], 1)[0]) == ["d7"]
    store.close()


def test_a_missing_library_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lancedb", None)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    folder = "the search index needs LanceDB; install it with pip install 'cr5[search]'"
    server = "the search index in PostgreSQL needs psycopg; install it with pip install 'cr5[postgres]'"
    assert refused(lambda: lance.create(tmp_path, rank=RANK, extras=EXTRAS)) == folder
    assert refused(lambda: lance.open(tmp_path)) == folder
    assert refused(lambda: postgres.open("postgresql://localhost/", "documents")) == server


def test_a_small_table_is_read_once_for_each_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = lance.create(tmp_path, rank=RANK, extras=EXTRAS)
    writer.put(rows(range(5)))
    reader, read, plain = lance.open(tmp_path), list[None](), lance.LanceStore._look

    def counted(self: lance.LanceStore, version: int) -> View | None:
        read.append(None)
        return plain(self, version)

    monkeypatch.setattr(lance.LanceStore, "_look", counted)
    for _ in range(3):
        assert ids(reader.get(["d1"])) == ids(reader.nearest(unit(5)[1:2], 1)[0]) == ["d1"]
    assert len(read) == 1
    writer.delete(["d1"])
    assert reader.get(["d1"]).num_rows == 0
    assert len(read) == 2
    writer.set_hubness(["d2"], np.full((1, EXTRAS), 7, np.float32))
    assert reader.get(["d2"])["hubness"].to_pylist() == [[7, 7]]
    assert len(read) == 3
    writer.put(rows(range(5, 6)))
    assert ids(reader.get(["d5"])) == ["d5"]
