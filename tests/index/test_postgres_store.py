"""The store in PostgreSQL: its connections, and servers that hang, are stopped, locked or unreachable."""

import socket
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import postgres as private
import psycopg
import pytest
import running
from store_places import LANGUAGES, RANK, ids, refused, rows, unit

from cr5.errors import Cr5Error
from cr5.index.stores import postgres_database
from cr5.index.stores.base import Location
from cr5.index.stores.postgres import PostgresStore
from cr5.index.stores.postgres_database import Database, Timeouts

pytestmark = pytest.mark.services


def create(url: str, name: str, rank: int = RANK, **options: Any) -> PostgresStore:
    """A new store in a database."""
    return PostgresStore.create(Location(Path(), url, name), rank=rank, language_count=LANGUAGES, **options)


@pytest.mark.parametrize(
    "name", ["", "A", "a b", 'a"; DROP TABLE x; --', "a" * 41, "1a", "ä", "a\0", "pg-x", "a\n", "a__graph"]
)
def test_a_table_name_with_other_characters_is_an_error(url: str, name: str) -> None:
    message = f"{name!r} cannot name an index"
    assert refused(lambda: create(url, name)).startswith(message)
    assert refused(lambda: PostgresStore.open(Location(Path(), url, name))).startswith(message)


def test_a_table_that_is_not_an_index_is_an_error(url: str) -> None:
    private.execute(url, "CREATE TABLE foreigner (id text)")
    where = f"PostgreSQL at {url.partition('host=')[2]}"
    assert refused(lambda: PostgresStore.open(Location(Path(), url, "foreigner"))).startswith(
        f"{where}, table foreigner: this is not a cr5 index"
    )
    assert refused(lambda: create(url, "foreigner")).startswith(f"{where}: there is a table foreigner already")


def test_the_largest_rank_that_pgvector_can_index_works_and_a_larger_one_is_an_error(url: str) -> None:
    too_wide = refused(lambda: create(url, "wide", rank=4001))
    assert "`rank=4001` is more than 4000" in too_wide
    store = create(url, "wide", rank=4000)
    store.upsert(rows(range(3), unit(3, 4000)))
    with store._database.connection() as connection:
        store._build_graph(connection, 3)
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
def test_the_error_for_an_unreachable_server_names_it_without_the_password(address: str, message: str) -> None:
    with pytest.raises(Cr5Error) as caught:
        PostgresStore.open(Location(Path(), address.format(SECRET), "documents"))
    assert str(caught.value).startswith(message)
    error: BaseException | None = caught.value
    while error is not None:
        assert SECRET not in repr(error) + str(error)
        error = error.__cause__ or error.__context__


def test_the_representation_of_a_store_shows_no_password(url: str) -> None:
    store = create(url.replace("postgres:@", f"postgres:{SECRET}@"), "shown")
    assert repr(store) == f"PostgresStore('PostgreSQL at {url.partition('host=')[2]}', 'shown')"
    assert SECRET not in repr(store) + repr(store.stats()) + repr(store._database) + str(store._database)
    store.close()


def test_the_error_for_a_missing_extension_names_the_statement_to_run(url: str) -> None:
    private.execute(url, "CREATE DATABASE bare TEMPLATE template0")
    bare = url.replace("/postgres?", "/bare?")
    assert refused(lambda: create(bare, "documents")) == (
        f"PostgreSQL at {url.partition('host=')[2]}: the database lacks pgvector; run CREATE EXTENSION vector in it"
    )


def test_a_lost_connection_is_an_error_only_for_the_call_that_uses_it(url: str) -> None:
    store = create(url, "lost")
    others = "pid <> pg_backend_pid() AND backend_type = 'client backend'"
    end_others = f"SELECT pg_terminate_backend(pid, 10_000) FROM pg_stat_activity WHERE {others}"
    assert store.count() == {}
    private.execute(url, end_others)
    assert store.count() == {}

    def count_with_lost_connection() -> None:
        with store._database.connection() as connection:
            private.execute(url, end_others)
            connection.execute("SELECT 1")

    assert refused(count_with_lost_connection).startswith(f"PostgreSQL at {url.partition('host=')[2]}: ")
    assert store.count() == {}
    store.close()


PATIENCE_SECONDS = 60  # after which a test gives up


def postmaster(url: str) -> int:
    """The process id of the server's main process."""
    [folder] = parse_qs(urlsplit(url).query)["host"]
    return int(Path(folder, "postmaster.pid").read_text().split()[0])


def waiting(url: str) -> int:
    """The number of sessions that wait for a lock."""
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'").fetchone()
    assert found is not None
    return int(found[0])


def test_calls_at_a_server_that_hangs_are_aborted_and_later_calls_succeed(url: str) -> None:
    timeouts = Timeouts(probe_read=0.2, probe_write=0.2)
    address = f"{url}&connect_timeout=2"
    store = create(address, "hangs", timeouts=timeouts)
    message = f"PostgreSQL at {url.partition('host=')[2]}: the server does not answer; check whether it hangs"
    with ThreadPoolExecutor(2) as pool:
        store.upsert(rows(range(1)))
        with store._database.connection(), store._database.connection():
            pass  # two idle connections, one for each of the calls below
        with running.stopped(postmaster(url)):
            calls: list[Future[Any]] = [pool.submit(store.count), pool.submit(store.upsert, rows(range(2)))]
            messages = [str(call.exception(PATIENCE_SECONDS)) for call in calls]
        assert messages == [message] * 2
    assert store.count() == {"da": 1}
    store.close()


def test_a_server_that_accepts_connections_and_sends_nothing_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        location = Location(Path(), f"postgresql://me@127.0.0.1:{port}/db?connect_timeout=2", "x")
        assert refused(lambda: PostgresStore.open(location)) == (
            f"PostgreSQL at 127.0.0.1, port {port} cannot be reached (connection timeout expired); "
            "check address, user and password"
        )


def test_while_a_server_is_silent_one_thread_tries_to_connect_and_the_others_fail_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    database, attempts, go_on = Database("postgresql://me@127.0.0.1/db", "x"), list[str](), threading.Event()
    monkeypatch.setattr(postgres_database, "CONNECT_PAUSE_SECONDS", 0.0)

    def connect(*_: object, **__: object) -> None:
        attempts.append(threading.current_thread().name)
        if len(attempts) > 1:
            go_on.wait(PATIENCE_SECONDS)
        raise psycopg.errors.ConnectionTimeout("connection timeout expired")

    def use() -> None:
        with database.connection():
            pass

    monkeypatch.setattr(database.psycopg, "connect", connect)
    message = "PostgreSQL at 127.0.0.1 cannot be reached (connection timeout expired); check address, user and password"
    assert refused(use) == message
    with ThreadPoolExecutor(1) as pool:
        waiting_call = pool.submit(use)
        while len(attempts) < 2:
            time.sleep(0.01)
        assert [refused(use) for _ in range(5)] == [message] * 5
        assert len(attempts) == 2
        go_on.set()
        assert str(waiting_call.exception(PATIENCE_SECONDS)) == message
    assert refused(use) == message
    assert len(attempts) == 3


def test_one_idle_connection_that_is_lost_is_enough_to_replace_all(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = create(url, "replaced", timeouts=Timeouts(check_idle=-1))
    database, checked = store._database, list[Any]()
    with database.connection(), database.connection(), database.connection():
        pass

    def is_usable(connection: Any) -> bool:
        connection.close()
        checked.append(connection)
        return False

    monkeypatch.setattr(database, "_is_usable", is_usable)
    with database.connection() as connection:
        assert connection not in checked
    assert len(checked) == len(database._idle) == 1
    store.close()


def test_a_busy_server_is_waited_for(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = create(url, "busy", timeouts=Timeouts(probe_write=0.05))
    probes, answers = list[bool](), store._database.answers

    def answering() -> bool:
        probes.append(answers())
        return probes[-1]

    monkeypatch.setattr(store._database, "answers", answering)
    with store._database.connection() as connection:
        while len(probes) < 3:
            connection.execute("SELECT pg_sleep(0.3)")
    assert all(probes)
    assert store.count() == {}
    store.close()


def test_a_reader_of_a_locked_index_gives_up_after_the_read_timeout(url: str) -> None:
    timeouts = Timeouts(read=1, probe_read=0.2)
    store = create(url, "locked", timeouts=timeouts)
    with ThreadPoolExecutor(1) as pool, psycopg.connect(url) as other:
        other.execute("LOCK TABLE locked IN ACCESS EXCLUSIVE MODE")
        error = pool.submit(store.count).exception(PATIENCE_SECONDS)
        other.execute("SELECT 1")
        end = time.monotonic() + PATIENCE_SECONDS
        while waiting(url):  # a reader that has gone does not wait for the lock any more
            assert time.monotonic() < end
            time.sleep(0.2)
        other.rollback()
    assert str(error) == (
        f"PostgreSQL at {url.partition('host=')[2]}: no result within 1 s; check whether the index is locked"
    )
    assert store.count() == {}
    store.close()


def test_closing_a_store_aborts_waiting_calls(url: str) -> None:
    store = create(url, "closing")
    with ThreadPoolExecutor(1) as pool, psycopg.connect(url) as other:
        other.execute("LOCK TABLE closing IN ACCESS EXCLUSIVE MODE")
        call = pool.submit(store.upsert, rows(range(1)))
        end = time.monotonic() + PATIENCE_SECONDS
        while not waiting(url):
            assert time.monotonic() < end
            time.sleep(0.1)
        store.close()
        assert str(call.exception(PATIENCE_SECONDS)).endswith(": the index was closed during the call; open it again")
        other.rollback()


def test_a_dropped_table_is_an_error(url: str) -> None:
    store = create(url, "dropped")
    private.execute(url, "DROP TABLE dropped")
    assert refused(store.count) == (
        f'PostgreSQL at {url.partition("host=")[2]}: relation "dropped" does not exist; '
        "check that the server is running and the index exists"
    )
    store.close()


def test_concurrent_optimise_calls_build_one_graph(url: str) -> None:
    store = create(url, "graph", ann_min_rows=100)
    store.upsert(rows(range(500)))
    threads = [threading.Thread(target=store.optimise) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.stats()["index"] == "HNSW"
    assert ids(store.nearest(unit(500)[7:8], 1)[0]) == ["d7"]
    store.close()
