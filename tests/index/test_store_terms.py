"""The full text of a store: the same BM25 in a folder (LanceDB) and on a server (PostgreSQL), updated with the rows."""

import shutil
import signal
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import postgres as private
import psycopg
import pytest
from bm25_oracle import (
    Words,
    assert_best,
    bm25,
    inverse_document_frequencies,
    query_words,
    random_words,
    term_counts,
)
from store_places import LANGS, Place, all_rows, ids, refused, rows

from cr5.index.full_text import FullTextIndex
from cr5.index.stores import postgres_full_text
from cr5.index.stores.base import Location, Store
from cr5.index.stores.lance import LanceStore
from cr5.index.stores.lance_versions import WORDS_FOLDER, LanceLimits
from cr5.index.terms import QueryWord

QUERIES = [{"w0": 1.0, "w1": 0.5, "w7": 0.25}, {"w3": 2.0, "w5": 0.0}, {"w0": 0.3, "unknown": 1.0}, {"unknown": 1.0}]


class Texts:
    """What a store should hold: the words of each document."""

    def __init__(self, store: Store) -> None:
        self.store, self.words = store, dict[str, Words]()

    def write(self, numbers: Iterable[int], seed: int = 0) -> None:
        """Write documents with random words, other ones for another seed."""
        numbers = list(numbers)
        drawn = random_words(max(numbers) + 1, LANGS, seed)
        words = [drawn[i] for i in numbers]
        self.store.upsert(rows(numbers), term_counts(words))
        self.words |= {f"d{i}": own for i, own in zip(numbers, words, strict=True)}

    def delete(self, numbers: Iterable[int]) -> None:
        names = [f"d{i}" for i in numbers]
        self.store.delete(names)
        for name in names:
            self.words.pop(name, None)

    def check(self, store: Store | None = None) -> None:
        """Compare what a store finds with BM25 by dense arithmetic."""
        store = store or self.store
        for lang in (*LANGS, "xx"):
            own = [words.counts for words in self.words.values() if words.lang == lang]
            for query in QUERIES:
                idf = store.inverse_document_frequencies(query, lang)
                assert idf == pytest.approx(inverse_document_frequencies(self.words, query, lang))
                asked = [*query_words(self.words, query, lang), QueryWord(1.5, {"w2": 1.0, "w0": 0.5, "w9": 0.25})]
                oracle = bm25(self.words, asked, lang)
                for k in (3, 1000):
                    found = store.search_terms(asked, lang, k)
                    assert found.column_names == ["id", "lang", "hubness", "bm25"]
                    assert set(found["lang"].to_pylist()) <= {lang}
                    assert_best(ids(found), found["bm25"].to_pylist(), oracle, k)
                want = {term: sum(term in counts for counts in own) for term in query}
                assert store.document_frequencies(list(query), lang) == want
            listed = {word for part in store.term_dictionaries(lang) for word in part.words}
            assert listed >= {word for counts in own for word in counts}
            if own:
                stats = store.full_text_stats()[lang]
                assert stats.documents == len(own)
                assert stats.mean_length == pytest.approx(np.mean([sum(counts.values()) for counts in own]))
            else:
                assert lang not in store.full_text_stats()
        assert store.stats()["full_text"] == len(self.words)


def words(terms: Mapping[str, float]) -> list[QueryWord]:
    """A word of a query for each term, with its weight."""
    return [QueryWord(weight, {term: 1.0}) for term, weight in terms.items()]


@pytest.fixture
def texts(store: Store) -> Texts:
    return Texts(store)


def test_rows_are_ranked_by_bm25_of_their_language_like_dense_arithmetic(texts: Texts) -> None:
    texts.write(range(200))
    texts.check()
    texts.store.optimise()
    texts.check()


@pytest.mark.slow
def test_updates_and_deletions_change_all_statistics(place: Place) -> None:
    texts = Texts(place.create())
    texts.write(range(60))
    texts.write(range(30, 90), seed=1)
    texts.check()
    texts.delete([0, 4, 33, 80, 500])
    texts.check()
    texts.delete(range(5, 90, 2))
    texts.store.optimise()
    texts.check()
    texts.write([5, 0, 91], seed=2)
    texts.check()
    texts.check(place.open())


@pytest.mark.slow
def test_many_small_writes_give_the_same_numbers_as_one(texts: Texts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_full_text, "MAX_PARTS", 3)
    for i in range(40):
        texts.write([i])
        if i % 15 == 14:
            texts.store.optimise()
    texts.check()


def test_terms_of_deleted_rows_are_purged(place: Place) -> None:
    texts = Texts(place.create())
    texts.write(range(400))
    texts.store.optimise()
    before = texts.store.stats()["bytes"]
    for seed in range(1, 8):
        texts.write(range(400), seed)
        texts.store.optimise()
    texts.check()
    if isinstance(texts.store, LanceStore):
        assert len(texts.store._full_text._files.get().slots) < 2 * 400  # type: ignore[union-attr]
    else:
        assert texts.store.stats()["bytes"] < 3 * before


def test_terms_are_found_with_any_columns(texts: Texts) -> None:
    texts.write(range(40))
    found = texts.store.search_terms(words({"w0": 1.0}), "en", 3, columns=["title", "id", "text", "vector"])
    assert found.column_names == ["title", "id", "text", "vector", "bm25"]
    assert [f"title {name[1:]}" for name in ids(found)] == found["title"].to_pylist()
    only = texts.store.search_terms(words({"w0": 1.0}), "en", 3, columns=["id"])
    assert ids(only) == ids(found)


def test_a_store_without_terms_finds_nothing(store: Store) -> None:
    for _ in range(2):
        found = store.search_terms(words({"w0": 1.0}), "en", 5)
        assert (found.num_rows, found.column_names) == (0, ["id", "lang", "hubness", "bm25"])
        assert store.search_terms([], "en", 5, columns=["id"]).column_names == ["id", "bm25"]
        assert store.document_frequencies(["w0", "w0", "w1"], "en") == {"w0": 0, "w1": 0}
        assert store.document_frequencies([], "en") == {}
        assert (store.full_text_stats(), store.stats()["full_text"]) == ({}, 0)
        store.optimise()
        store.upsert(rows(range(10)))
        assert sorted(store.ids_without_terms()) == [f"d{i}" for i in range(10)]


def test_languages_and_terms_that_no_store_can_hold_are_not_found(texts: Texts) -> None:
    texts.write(range(8))
    for lang in ("en\0", "\ud800", "x" * 5000, "'; --"):
        assert texts.store.search_terms(words({"w0": 1.0}), lang, 5).num_rows == 0
        assert texts.store.document_frequencies(["w0"], lang) == {"w0": 0}
    for term in ("", "\0", "\ud800", "x" * 10_000, "'; DROP TABLE documents; --"):
        assert texts.store.search_terms(words({term: 1.0}), "en", 5).num_rows == 0


def test_invalid_arguments_are_errors(texts: Texts) -> None:
    texts.write(range(8))
    store, terms = texts.store, term_counts(random_words(3, LANGS))
    assert "`k=0`" in refused(lambda: store.search_terms(words({"w0": 1.0}), "en", 0))
    for weight in (-1.0, np.nan, np.inf):
        assert f"'w0' is {weight}" in refused(lambda weight=weight: store.search_terms(words({"w0": weight}), "en", 1))  # type: ignore[misc]
    assert "no column 'x'" in refused(lambda: store.search_terms(words({"w0": 1.0}), "en", 1, columns=["x"]))
    assert "`terms` has 3 rows, `rows` has 2" in refused(lambda: store.upsert(rows([0, 1]), terms))
    assert "`terms` has 3 rows for 1 ids" in refused(lambda: store.add_terms(["d0"], terms))
    texts.check()


def test_of_two_rows_with_the_same_id_in_a_call_the_terms_of_the_last_are_kept(store: Store) -> None:
    documents = [Words("en", {"first": 1}), Words("en", {"other": 1}), Words("en", {"last": 1})]
    store.upsert(rows([1, 2, 1], lang=["en"] * 3), term_counts(documents))
    assert store.document_frequencies(["first", "other", "last"], "en") == {"first": 0, "other": 1, "last": 1}
    assert ids(store.search_terms(words({"first": 1, "last": 1}), "en", 5)) == ["d1"]


def test_a_row_that_is_written_without_terms_has_none(texts: Texts) -> None:
    texts.write(range(20))
    texts.store.upsert(rows([3, 7]))
    del texts.words["d3"], texts.words["d7"]
    texts.check()
    assert sorted(texts.store.ids_without_terms()) == ["d3", "d7"]


def test_terms_can_be_added_to_rows_that_have_none(place: Place) -> None:
    texts = Texts(place.create())
    texts.write(range(0, 40, 2))
    texts.store.upsert(rows(range(1, 40, 2)))
    lacking = place.open().ids_without_terms()
    assert sorted(lacking) == sorted(f"d{i}" for i in range(1, 40, 2))
    drawn = random_words(40, LANGS, seed=3)
    names = [*lacking, "missing", "d0"]
    texts.store.add_terms(names, term_counts([*(drawn[int(name[1:])] for name in lacking), drawn[2], drawn[1]]))
    texts.words |= {name: drawn[int(name[1:])] for name in lacking}
    texts.check()
    assert texts.store.ids_without_terms() == []
    texts.write([3, 4, 50], seed=4)
    texts.store.add_terms([], term_counts([]))
    texts.check(place.open())


def test_other_readers_see_new_terms_at_once(place: Place) -> None:
    texts, reader = Texts(place.create()), place.open()
    for turn in range(3):
        texts.write(range(turn * 5, turn * 5 + 9), seed=turn)
        texts.check(reader)


def without_tables(place: Place) -> Store:
    """A store as an earlier version wrote it: nothing of full text beside its rows."""
    store = place.create()
    store.upsert(rows(range(20)))
    store.close()
    if place.address is not None:
        private.execute(place.address, f'DROP TABLE "{place.name}__words", "{place.name}__postings"')
    return place.open()


def test_a_store_of_an_earlier_version_gets_terms(place: Place) -> None:
    store = without_tables(place)
    assert store.search_terms(words({"w0": 1.0}), "en", 5).num_rows == 0
    assert store.stats()["full_text"] == 0
    assert store.delete(["d19"]) == 1
    store.optimise()
    assert sorted(store.ids_without_terms()) == sorted(f"d{i}" for i in range(19))
    texts = Texts(store)
    drawn = random_words(19, LANGS)
    store.add_terms([f"d{i}" for i in range(19)], term_counts(drawn))
    texts.words = {f"d{i}": words for i, words in enumerate(drawn)}
    texts.check()
    texts.write(range(10, 30), seed=1)
    texts.check(place.open())


def test_a_write_that_fails_between_terms_and_rows_leaves_the_store_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place("lance", tmp_path / "index", None)
    texts = Texts(place.create())
    texts.write(range(20))
    before = dict(texts.words)
    store, other = texts.store, place.open()
    assert isinstance(store, LanceStore)

    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(type(store._table), "merge_insert", fail)
        with pytest.raises(OSError, match="full"):
            texts.write(range(10, 30), seed=1)
    texts.words = before
    texts.check()
    texts.check(place.open())
    for writer in (store, other):  # the slots of the failed write are not used again
        Texts.write(replaced := Texts(writer), [3, 21], seed=2)
        texts.words |= replaced.words
        texts.check()
    store.limits = LanceLimits(retrain_deleted_share=0)
    store.optimise()
    texts.check()


WRITE_FOREVER = """
import itertools, bm25_oracle
store = place.open()
for turn in itertools.count():
    words = [bm25_oracle.Words("en", {"turn%d" % turn: 1, "batch%d" % (turn % 5): 1})] * 40
    numbers = range(turn % 5 * 40, turn % 5 * 40 + 40)
    store.upsert(store_places.rows(numbers, lang=["en"] * 40, digest=[f"{turn}"] * 40), bm25_oracle.term_counts(words))
    print(turn, flush=True)
"""


@pytest.mark.slow
def test_the_terms_after_a_killed_writer_are_those_of_the_rows(place: Place) -> None:
    place.create()
    for wait in (0.003, 0.019, 0.041):
        writer = place.run(WRITE_FOREVER)
        assert writer.stdout is not None
        for _ in range(7):
            writer.stdout.readline()
        time.sleep(wait)
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
        store = place.open()
        documents = all_rows(store)
        for batch in range(5):
            turn = documents[f"d{batch * 40}"]["digest"]
            found = store.search_terms(words({f"turn{turn}": 1.0}), "en", 1000, columns=["id", "digest"])
            assert sorted(ids(found)) == sorted(f"d{i}" for i in range(batch * 40, batch * 40 + 40))
            assert set(found["digest"].to_pylist()) == {turn}
            assert store.document_frequencies([f"batch{batch}"], "en") == {f"batch{batch}": 40}
        assert store.full_text_stats()["en"].documents == 200
        assert store.ids_without_terms() == []


@pytest.mark.slow
def test_a_reader_during_writes_sees_every_document_once(place: Place) -> None:
    writer, reader = place.create(), place.open()
    stop, failed, answers = threading.Event(), list[Any](), [0]

    def write(turn: int) -> None:
        words = [Words("en", {"always": 1, f"turn{turn}": 2})] * 30
        writer.upsert(rows(range(30), lang=["en"] * 30), term_counts(words))

    def ask() -> None:
        while not stop.is_set():
            found = reader.search_terms(words({"always": 1.0}), "en", 100)
            answers[0] += 1
            if sorted(ids(found)) != sorted(f"d{i}" for i in range(30)):
                failed.append(ids(found))

    write(0)
    thread = threading.Thread(target=ask)
    thread.start()
    for turn in range(1, 25):
        write(turn)
        if turn % 6 == 5:
            writer.optimise()
    stop.set()
    thread.join()
    assert (failed, answers[0] > 0) == ([], True)


def test_damaged_full_text_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    place = Place("lance", tmp_path / "index", None)
    Texts(place.create()).write(range(20))
    folder = tmp_path / "index" / WORDS_FOLDER
    (folder / FullTextIndex.manifest_name).write_text("{}")
    assert refused(lambda: place.open().search_terms(words({"w0": 1.0}), "en", 1)).startswith(
        f"{folder}: the full text is"
    )


@pytest.mark.parametrize("name", ["words/words.json", "cells/cells.json"])
def test_files_of_a_newer_version_are_not_called_damaged(tmp_path: Path, name: str) -> None:
    place = Place("lance", tmp_path / "index", None)
    Texts(place.create()).write(range(20))
    path = tmp_path / "index" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text('{"format": 7}')
    message = refused(
        lambda: place.open().nearest(np.ones((1, place.open().rank), np.float32), 1) and place.open().full_text_stats()
    )
    assert message.startswith(f"{path.parent} was written by a newer cr5 (format 7")


def test_full_text_that_was_deleted_can_be_added_again(tmp_path: Path) -> None:
    place = Place("lance", tmp_path / "index", None)
    texts = Texts(place.create())
    texts.write(range(20))
    shutil.rmtree(tmp_path / "index" / WORDS_FOLDER)
    store = place.open()
    lacking = store.ids_without_terms()
    assert len(lacking) == 20
    store.add_terms(lacking, term_counts([texts.words[name] for name in lacking]))
    texts.check(store)


@pytest.mark.services
def test_dropping_a_store_drops_all_its_tables(url: str) -> None:
    place = Place("postgres", Path(), url)
    store = place.create()
    Texts(store).write(range(8))
    store.close()
    store.drop(Location(Path(), url, place.name))
    with psycopg.connect(url) as connection:
        left = connection.execute("SELECT tablename FROM pg_tables WHERE tablename LIKE %s", [f"{place.name}%"])
        assert left.fetchall() == []
