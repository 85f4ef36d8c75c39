"""What searches in PostgreSQL remember, and that they forget it as soon as anything is written."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import postgres as private
import psycopg
import pytest
from bm25_oracle import Words, bm25, inverse_document_frequencies, query_words, random_words, term_counts
from store_places import LANGS, LANGUAGES, RANK, ids, rows, unit

from cr5.index.stores import postgres_state
from cr5.index.stores.base import Location
from cr5.index.stores.postgres import PostgresStore
from cr5.index.stores.postgres_database import Database

pytestmark = pytest.mark.services

NAME, TERMS = "remembering", ["w0", "w1", "w7", "unknown"]


@pytest.fixture
def stores(url: str) -> Iterator[tuple[PostgresStore, PostgresStore]]:
    """Two stores of the same rows, as two processes have them; no other process writes to the server."""
    private.execute(url, "ALTER SYSTEM SET autovacuum = off")
    private.execute(url, "SELECT pg_reload_conf()")
    location = Location(Path(), url, NAME)
    one = PostgresStore.create(location, rank=RANK, language_count=LANGUAGES, ann_min_rows=8)
    other = PostgresStore.open(location, ann_min_rows=8)
    yield one, other
    one.close()
    other.close()
    PostgresStore.drop(location)
    private.execute(url, "ALTER SYSTEM RESET autovacuum")
    private.execute(url, "SELECT pg_reload_conf()")


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that are executed from now on."""
    executed, execute = list[str](), psycopg.Cursor.execute

    def executing(cursor: Any, query: Any, *arguments: Any, **options: Any) -> Any:
        executed.append(query if isinstance(query, str) else query.as_string(cursor))
        return execute(cursor, query, *arguments, **options)

    monkeypatch.setattr(psycopg.Cursor, "execute", executing)
    return executed


def write(store: PostgresStore, number: int, seed: int) -> dict[str, Words]:
    """Write documents with random words; return the words of each."""
    words = random_words(number, LANGS, seed)
    store.upsert(rows(range(number)), term_counts(words))
    return {f"d{i}": own for i, own in enumerate(words)}


def test_a_search_sees_everything_that_other_processes_wrote_before_it(
    stores: tuple[PostgresStore, PostgresStore],
) -> None:
    writer, reader = stores
    for number, seed in ((12, 0), (40, 1), (40, 2)):
        words = write(writer, number, seed)
        for store in (reader.pinned(), reader.pinned()):
            for lang in LANGS:
                query = dict.fromkeys(TERMS, 1.0)
                expected = inverse_document_frequencies(words, query, lang)
                assert store.inverse_document_frequencies(TERMS, lang) == pytest.approx(expected)
                asked = query_words(words, query, lang)
                found = store.search_terms(asked, lang, 1000)
                scores = dict(zip(ids(found), found["bm25"].to_pylist(), strict=True))
                assert scores == pytest.approx(
                    {key: score for key, score in bm25(words, asked, lang).items() if score}, rel=1e-5
                )
                assert store.full_text_stats()[lang].documents == sum(own.lang == lang for own in words.values())
                dictionary = {word for part in store.word_forms(lang).dictionaries for word in part.words}
                assert {word for own in words.values() if own.lang == lang for word in own.counts} <= dictionary
    writer.delete([f"d{i}" for i in range(40)])
    assert reader.pinned().full_text_stats() == {}
    assert reader.pinned().search_term_ids(query_words(words, {"w0": 1.0}, "da"), "da", 3) == {}


def test_a_search_asks_only_for_what_no_search_has_read_since_the_last_write(
    stores: tuple[PostgresStore, PostgresStore], statements: list[str]
) -> None:
    writer, reader = stores
    write(writer, 40, 0)
    for expected in (1, 0, 0):  # the statistics, because the frequencies are expected
        store = reader.pinned()
        store.expect_terms(TERMS, LANGS)
        statements.clear()
        assert store.full_text_stats().keys() == set(LANGS)
        frequencies = {lang: store.document_frequencies(TERMS, lang) for lang in LANGS}
        assert len(statements) == expected
    statements.clear()
    assert {lang: reader.document_frequencies(TERMS, lang) for lang in LANGS} == frequencies
    assert len(statements) == len(LANGS)  # a store that is not pinned always asks
    write(writer, 40, 1)
    store = reader.pinned()
    statements.clear()
    store.expect_terms(TERMS, LANGS)
    assert len(statements) == 2  # whether something was written, and the frequencies in all languages


def test_the_approximate_index_is_used_once_it_exists(stores: tuple[PostgresStore, PostgresStore]) -> None:
    writer, reader = stores
    write(writer, 40, 0)
    queries = unit(40)[:1]
    for uses in (False, True):
        store = reader.pinned()
        assert len(store.nearest(queries, 3)[0]) == 3
        assert store._state is not None
        assert store._state.values["graph"] is uses
        assert ids(store.nearest(queries, 3, langs=["da"])[0]) == ids(
            store.nearest(queries, 3, langs=["da"], exact=True)[0]
        )
        writer.optimise()


def test_not_every_choice_of_languages_is_remembered(stores: tuple[PostgresStore, PostgresStore]) -> None:
    writer, reader = stores
    write(writer, 40, 0)
    writer.optimise()
    store, queries = reader.pinned(), unit(40)[:1]
    assert store._state is not None
    for langs in (["da"], ["da", "en"], ["en", "da"], ["da", "it"]):
        found = ids(store.nearest(queries, 3, langs=langs)[0])
        assert set(found) <= set(ids(store.nearest(queries, 40, langs=langs, exact=True)[0]))
    assert [key for key in store._state.values if key[0] == "many rows"] == [("many rows", "da")]


def test_frequencies_that_are_remembered_take_bounded_memory(
    stores: tuple[PostgresStore, PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, reader = stores
    words = write(writer, 40, 0)
    monkeypatch.setattr(postgres_state, "MAX_REMEMBERED_TERMS", 3)
    store = reader.pinned()
    for term in [f"w{i}" for i in range(9)]:
        count = sum(term in own.counts for own in words.values() if own.lang == "da")
        assert store.document_frequencies([term], "da") == {term: count}
        assert store._state is not None
        assert len(store._state.values["frequencies", "da"]) <= 3


def test_nothing_is_remembered_of_a_standby(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database(url, NAME)
    shared = postgres_state.SharedState(database)
    assert shared.values() is shared.values()
    monkeypatch.setattr(postgres_state, "_VERSION", "SELECT NULL")  # as it is there
    assert shared.values() is not shared.values()
    database.close()
