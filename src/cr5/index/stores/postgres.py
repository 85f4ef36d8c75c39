"""The store in a PostgreSQL database with pgvector: a table of documents, and one of their hubness.

PostgreSQL writes a changed row anew, with an entry in every index, and those in the graph of the vectors are dear. What
is refreshed in bulk therefore has a table of its own. The graph holds half-precision numbers (half the memory, twice
the rank); what it finds is compared again in full.
"""

import importlib
import json
import os
import re
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from cr5.errors import Cr5Error
from cr5.index.stores.base import (
    ENOUGH,
    FOUND,
    PLAIN,
    TEXTS,
    Floats,
    best_first,
    figures,
    fitting,
    in_order,
    known,
    lists,
    matrix,
    queries,
    schema,
    seal,
    storable,
    unseal,
)

if TYPE_CHECKING:
    from psycopg import Connection, Cursor
    from psycopg.sql import Composed

RANK = 4000  # numbers of a half-precision vector that pgvector can index
LINKS, BREADTH = 16, 100  # of the graph: neighbours of a row, candidates while it is built
SEARCHED, MOST = 200, 1000  # candidates while it is searched, at least and (pgvector allows no more) at most
CANDIDATES, REFINED = 200, 3  # that are compared in full: at least, where languages are asked for, and times k
MEMORY = 2**31  # bytes that the server may use to build the graph
IDLE = 5  # seconds after which a connection is tried before it is used
READING = 60  # seconds that a reading call may take
PATIENCE, MORE = 5, 60  # seconds until a server that leaves a call without an answer is tried; of a call without limit
CONNECTION = {  # unless the address says otherwise: who is not there is noticed, even if nobody says so
    "connect_timeout": 10, "keepalives_idle": 60, "keepalives_interval": 10, "keepalives_count": 6,
}  # fmt: skip
_NAME = re.compile(r"(?!.*__)[a-z][a-z0-9_]{0,39}")  # the tables and indexes beside it have a double one
_FIRST = "SELECT to_regclass(quote_ident(%s)) IS NOT NULL, obj_description(to_regclass(quote_ident(%s)), 'pg_class')"


def create(url: str, name: str, *, rank: int, extras: int) -> "PostgresStore":
    """A new, empty store in a database, under a name of its own."""
    columns = schema(rank, extras)
    if rank > RANK:
        raise Cr5Error(f"rank {rank} exceeds {RANK}, the most that pgvector can index; lower it, or index in a folder")
    server = Server(url, name)
    texts = ", ".join(f'{column} text COLLATE "C" NOT NULL' for column in TEXTS[1:])
    statements = [
        f'CREATE TABLE {{documents}} (id text COLLATE "C" PRIMARY KEY, {texts}, vector vector({rank:d}) NOT NULL)',
        "ALTER TABLE {documents} ALTER vector SET STORAGE MAIN",  # long texts go elsewhere, vectors stay in the row
        "CREATE INDEX {langs} ON {documents} (lang)",
        f'CREATE TABLE {{hubness}} (id text COLLATE "C" PRIMARY KEY, hubness vector({extras:d}) NOT NULL)',
        "COMMENT ON TABLE {documents} IS {seal}",
    ]
    with server.connection() as connection, connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"cr5 create {name}"])
        if _one(connection.execute(_FIRST, [name, name]))[0]:
            raise Cr5Error(f"{server}: there is a table {name} already; open it, drop it, or choose another name")
        for statement in statements:
            connection.execute(server.sql(statement, seal=server.literal(seal(rank, extras))))
    return PostgresStore(server, columns)


def open(url: str, name: str, *, rank: int | None = None) -> "PostgresStore":  # noqa: A001
    """The store of that name in a database; with ``rank``, only one of such vectors."""
    server = Server(url, name)
    with server.connection(READING) as connection:  # which is closed where one of these is refused
        there, kept = _one(connection.execute(_FIRST, [name, name]))
        if not there:
            raise Cr5Error(f"{server}: there is no index {name}; build one with cr5 index")
        columns = unseal(kept, f"{server}, table {name}", rank)
    return PostgresStore(server, columns)


class Server:
    """Connections to a database, each used by one call at a time; what it shows of itself has no password."""

    def __init__(self, url: str, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise Cr5Error(f"{name!r} is no name for an index; take up to 40 of a-z, 0-9 and single _, a letter first")
        try:
            self.psycopg = importlib.import_module("psycopg")
        except ImportError:
            raise Cr5Error(
                "the search index in PostgreSQL needs psycopg; install it with pip install 'cr5[postgres]'"
            ) from None
        self.name, self._url = name, url
        self._sql = importlib.import_module("psycopg.sql")
        self._errors = importlib.import_module("psycopg.errors")
        parts = self._parts()
        if parts is None:  # libpq quotes the address, with its password: its complaint must not stay attached to ours
            raise Cr5Error("the address of the PostgreSQL server is wrong; write postgresql://USER@HOST:PORT/DATABASE")
        where = parts.get("host") or parts.get("hostaddr") or "the default address"
        self._label = f"PostgreSQL at {where}" + (f", port {parts['port']}" if parts.get("port") else "")
        self._password = str(parts.get("password") or "")
        self._options = {key: parts.get(key) or value for key, value in CONNECTION.items()}
        self._idle: deque[tuple[Connection[Any], float]] = deque()
        self._watches, self._closed = set[Watch](), False

    def _parts(self) -> dict[str, Any] | None:
        try:
            return dict(importlib.import_module("psycopg.conninfo").conninfo_to_dict(self._url))
        except self.psycopg.Error:
            return None

    def __str__(self) -> str:
        return self._label

    def __repr__(self) -> str:
        return f"Server({self._label!r}, {self.name!r})"

    def literal(self, value: str) -> Any:
        """A quoted value, for the statements that take no parameters."""
        return self._sql.Literal(value)

    def sql(self, statement: str, **parts: Any) -> "Composed":
        """A statement with the names of the tables and indexes filled in."""
        tables = {key: self._sql.Identifier(f"{self.name}__{key}") for key in ("hubness", "langs", "graph", "incoming")}
        tables["documents"] = self._sql.Identifier(self.name)
        composed: Composed = self._sql.SQL(statement).format(**tables, **parts)
        return composed

    @contextmanager
    def connection(self, limit: float | None = None) -> Iterator["Connection[Any]"]:
        """A connection that commits every statement; after an error it is not used again.

        Nobody is left waiting for a server that hangs, nor for longer than ``limit`` seconds.
        """
        connection = self._take()
        try:
            with self._watched(connection, limit) as watch:
                yield connection
        except BaseException as error:
            connection.close()
            mendable = self.psycopg.OperationalError, self._errors.InsufficientPrivilege, self._errors.UndefinedTable
            if isinstance(error, mendable):
                raise Cr5Error(
                    f"{self}: {self._reason(error)}; see whether the server and the index are there"
                ) from None
            raise
        if self._closed or watch.verdict:
            connection.close()
        else:
            self._idle.append((connection, time.monotonic()))

    def close(self) -> None:
        """End all connections; calls that wait for an answer fail."""
        self._closed = True
        for watch in list(self._watches):
            watch.cut("the index was closed meanwhile; open it again")
        while self._idle:
            self._idle.pop()[0].close()

    @contextmanager
    def _watched(self, connection: "Connection[Any]", limit: float | None) -> Iterator["Watch"]:
        """Where the connection had to be cut, the error says why."""
        watch = Watch(self, connection, limit)
        self._watches.add(watch)
        try:
            with watch:
                yield watch
        except self.psycopg.Error:
            if watch.verdict:
                raise Cr5Error(f"{self}: {watch.verdict}") from None
            raise
        finally:
            self._watches.discard(watch)

    def _take(self) -> "Connection[Any]":
        while self._idle:
            try:
                connection, since = self._idle.pop()
            except IndexError:  # another thread was faster
                break
            doubtful = time.monotonic() - since > IDLE or _spoken(connection)
            if doubtful and not self._alive(connection):
                continue
            return connection
        return self._connect()

    def _alive(self, connection: "Connection[Any]") -> bool:
        try:
            self._ask(connection, "SELECT 1")
        except self.psycopg.Error:
            return False
        return True

    def _ask(self, connection: "Connection[Any]", query: str) -> Any:
        """The first row; after an error the connection is closed."""
        try:
            with self._watched(connection, READING):
                return connection.execute(query).fetchone()
        except BaseException:
            connection.close()
            raise

    def _connect(self) -> "Connection[Any]":
        reason = ""
        untold = suppress(self._errors.UndefinedObject, self._errors.InvalidParameterValue)
        try:
            connection: Connection[Any] = self.psycopg.connect(self._url, autocommit=True, **self._options)
            found = self._ask(connection, "SELECT extversion FROM pg_extension WHERE extname = 'vector'")
            # What nobody waits for any longer must not go on, nor stand in line for a lock; not every server can tell.
            with untold, self._watched(connection, READING):
                connection.execute("SET client_connection_check_interval = '5s'")
        except self.psycopg.Error as error:
            reason = self._reason(error)
        if reason:
            raise Cr5Error(f"{self} cannot be reached ({reason}); check address, user and password")
        if found is None:
            connection.close()
            raise Cr5Error(f"{self}: the database lacks pgvector; run CREATE EXTENSION vector in it")
        if tuple(int(part) for part in found[0].split(".")[:2]) < (0, 8):
            connection.close()
            raise Cr5Error(f"{self}: pgvector {found[0]} is too old; install 0.8, run ALTER EXTENSION vector UPDATE")
        return connection

    def answers(self) -> bool:
        """Whether the server lets anybody in, or at least says no."""
        try:
            self.psycopg.connect(self._url, **self._options).close()
        except self._errors.ConnectionTimeout:
            return False
        except self.psycopg.Error:
            return True
        return True

    def _reason(self, error: BaseException) -> str:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        text = lines[0] if lines else type(error).__name__
        return text.replace(self._password, "…") if self._password else text


class Watch:
    """Looks after a call: cuts its connection where the server hangs or the time is over, and says why.

    Whether a server hangs or has much to do cannot be told from its silence, but from whether it lets another in.
    """

    def __init__(self, server: Server, connection: "Connection[Any]", limit: float | None) -> None:
        self.verdict = ""
        self._server, self._connection, self._limit = server, connection, limit
        self._over, self._cutting = threading.Event(), threading.Lock()

    def __enter__(self) -> "Watch":
        threading.Thread(target=self._look, name="cr5-watch", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._cutting:
            self._over.set()

    def cut(self, verdict: str) -> None:
        """End the connection, unless the call has ended; whoever waits at it goes on with an error."""
        with self._cutting:
            if self._over.is_set():
                return
            self.verdict = verdict
            lost = suppress(OSError, self._server.psycopg.Error)
            with lost, socket.socket(fileno=os.dup(self._connection.fileno())) as same:
                same.shutdown(socket.SHUT_RDWR)

    def _look(self) -> None:
        began = time.monotonic()
        while not self._over.wait(MORE if self._limit is None else PATIENCE):
            if self._limit is not None and time.monotonic() - began > self._limit:
                self.cut(f"not done within {self._limit:g} s; see whether somebody has locked the index")
            elif not self._server.answers():
                self.cut("there is no answer any more; see whether the server hangs")


class PostgresStore:
    """Documents in a database. Read ``cr5.index.stores.base.Store`` for the calls."""

    def __init__(self, server: Server, schema: pa.Schema) -> None:
        self._server, self.schema = server, schema
        self._rank = schema.field("vector").type.list_size

    def __repr__(self) -> str:
        return f"PostgresStore({str(self._server)!r}, {self._server.name!r})"

    def put(self, rows: pa.RecordBatch | pa.Table) -> None:
        table = fitting(rows, self.schema)
        texts = [table[name].to_pylist() for name in TEXTS]
        changes = ", ".join(f"{name} = EXCLUDED.{name}" for name in [*TEXTS[1:], "vector"])
        columns = ", ".join([*TEXTS, "vector"])
        with self._server.connection() as connection, connection.transaction():
            self._bring(connection, self.schema.names, [*texts, _packed(table["vector"]), _packed(table["hubness"])])
            # Writers lock rows in the order of the ids, so that none waits for another that waits for it.
            connection.execute(
                self._server.sql(f"""
                INSERT INTO {{documents}} ({columns}) SELECT {columns} FROM {{incoming}} ORDER BY id
                ON CONFLICT (id) DO UPDATE SET {changes}""")
            )
            connection.execute(
                self._server.sql("""
                INSERT INTO {hubness} (id, hubness) SELECT id, hubness FROM {incoming} ORDER BY id
                ON CONFLICT (id) DO UPDATE SET hubness = EXCLUDED.hubness""")
            )

    def delete(self, ids: Sequence[str]) -> int:
        chosen = [storable(ids)]
        with self._server.connection() as connection, connection.transaction():
            number = connection.execute(
                self._server.sql("""
                DELETE FROM {documents}
                WHERE id IN (SELECT id FROM {documents} WHERE id = ANY(%s) ORDER BY id FOR UPDATE)"""),
                chosen,
            ).rowcount
            connection.execute(
                self._server.sql("""
                DELETE FROM {hubness}
                WHERE id IN (SELECT id FROM {hubness} WHERE id = ANY(%s) ORDER BY id FOR UPDATE)"""),
                chosen,
            )
        return number

    def get(self, ids: Sequence[str], columns: Sequence[str] = PLAIN) -> pa.Table:
        columns = known(columns, self.schema)
        names = list(dict.fromkeys([*columns, "id"]))
        with self._server.connection(READING) as connection, connection.cursor(binary=True) as cursor:
            cursor.execute(self._select(names, "WHERE id = ANY(%s)"), [storable(ids)])
            return in_order(self._table(cursor.fetchall(), names), ids).select(columns)

    def digests(self, ids: Sequence[str]) -> dict[str, str]:
        with self._server.connection(READING) as connection:
            query = self._server.sql("SELECT id, digest FROM {documents} WHERE id = ANY(%s)")
            return dict(connection.execute(query, [storable(ids)]).fetchall())

    def count(self) -> dict[str, int]:
        with self._server.connection(READING) as connection:
            query = self._server.sql("SELECT lang, count(*) FROM {documents} GROUP BY lang ORDER BY lang")
            return dict(connection.execute(query).fetchall())

    def scan(
        self, columns: Sequence[str] = PLAIN, langs: Collection[str] | None = None, batch_rows: int = 4096
    ) -> Iterator[pa.RecordBatch]:
        names = known(columns, self.schema)
        chosen = [] if langs is None else [storable(langs)]
        return self._batches(
            self._select(names, "" if langs is None else "WHERE lang = ANY(%s)"), chosen, names, batch_rows
        )

    def set_hubness(self, ids: Sequence[str], values: Floats) -> None:
        ids, values = figures(ids, values, self.schema)
        chosen = set(storable(ids))
        kept = [row for row, identity in enumerate(ids) if identity in chosen]
        columns: list[Sequence[Any]] = [[ids[row] for row in kept], _packed(pa.chunked_array([lists(values[kept])]))]
        with self._server.connection() as connection, connection.transaction():
            self._bring(connection, ["id", "hubness"], columns)
            connection.execute(
                self._server.sql("SELECT FROM {hubness} WHERE id IN (SELECT id FROM {incoming}) ORDER BY id FOR UPDATE")
            )
            connection.execute(
                self._server.sql(
                    "UPDATE {hubness} AS old SET hubness = new.hubness FROM {incoming} AS new WHERE old.id = new.id"
                )
            )

    def nearest(
        self,
        vectors: Floats,
        k: int,
        *,
        langs: Collection[str] | None = None,
        exact: bool = False,
        columns: Sequence[str] = FOUND,
    ) -> list[pa.Table]:
        names = known(columns, self.schema)
        vectors = queries(vectors, k, self.schema)
        results = []
        with self._server.connection(None if exact else READING) as connection, connection.transaction():
            settings: dict[str, Any] = {"langs": None if langs is None else storable(langs), "enough": ENOUGH}
            graph = not exact and self._worth_the_graph(connection, settings)
            for vector in vectors:
                settings["query"] = json.dumps(vector.tolist())
                found = self._nearest(connection, settings, k, names, graph=graph)
                if graph and found.num_rows < k:  # the walk over the graph gave up too early, or there are no more
                    found = self._nearest(connection, settings, k, names, graph=False)
                results.append(found)
        return results

    def optimise(self) -> None:
        key = [f"cr5 optimise {self._server.name}"]
        with self._server.connection() as connection:
            # To wait inside the server would be a transaction that the building of the graph in turn waits for.
            while not _one(connection.execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", key))[0]:
                time.sleep(0.2)
            (rows,) = _one(connection.execute(self._server.sql("SELECT count(*) FROM {documents}")))
            if rows >= ENOUGH and not self._has_graph(connection):
                self._build(connection, rows)
            connection.execute(self._server.sql("VACUUM (ANALYZE) {documents}, {hubness}"))
            connection.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", key)

    def about(self) -> dict[str, Any]:
        sizes = " + ".join(["pg_total_relation_size(quote_ident(%s)::regclass)"] * 2)
        with self._server.connection(READING) as connection:
            query = self._server.sql(f"SELECT count(*), {sizes} FROM {{documents}}")
            name = self._server.name
            rows, size = _one(connection.execute(query, [name, f"{name}__hubness"]))
            graph = self._has_graph(connection)
        return {
            "store": "postgresql",
            "rank": self._rank,
            "extras": self.schema.field("hubness").type.list_size,
            "rows": rows,
            "index": "HNSW" if graph else "none",
            "unindexed": 0 if graph else rows,
            "bytes": int(size),
        }

    def close(self) -> None:
        self._server.close()

    def _bring(self, connection: "Connection[Any]", names: Sequence[str], columns: Sequence[Sequence[Any]]) -> None:
        """Copy rows into a table that lasts as long as the transaction."""
        kinds = {name: "vector" if name in ("vector", "hubness") else 'text COLLATE "C"' for name in names}
        fields = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
        connection.execute(self._server.sql(f"CREATE TEMPORARY TABLE {{incoming}} ({fields}) ON COMMIT DROP"))
        with connection.cursor().copy(self._server.sql("COPY {incoming} FROM STDIN (FORMAT BINARY)")) as copy:
            copy.set_types(["text" if kind != "vector" else "bytea" for kind in kinds.values()])
            for row in zip(*columns, strict=True):
                copy.write_row(row)

    def _select(self, names: Sequence[str], rest: str, source: str = "{documents}") -> "Composed":
        """A query for columns; vectors come as bytes."""
        wanted = ", ".join(f"vector_send({name})" if name in ("vector", "hubness") else name for name in names)
        join = " JOIN {hubness} USING (id)" if "hubness" in names else ""
        return self._server.sql(f"SELECT {wanted} FROM {source}{join} {rest}")

    def _table(self, rows: Sequence[Sequence[Any]], names: Sequence[str]) -> pa.Table:
        columns: Iterable[Any] = zip(*rows, strict=True) if rows else ([] for _ in names)
        arrays = []
        for name, values in zip(names, columns, strict=True):
            kind = self.schema.field(name).type
            arrays.append(
                _unpacked(values, kind.list_size) if name in ("vector", "hubness") else pa.array(values, kind)
            )
        return pa.Table.from_arrays(arrays, schema=pa.schema([self.schema.field(name) for name in names]))

    def _batches(self, query: "Composed", chosen: list[Any], names: list[str], size: int) -> Iterator[pa.RecordBatch]:
        with (
            self._server.connection() as connection,
            connection.transaction(),
            connection.cursor(name="scan", binary=True) as cursor,
        ):
            cursor.execute(query, chosen)
            while rows := cursor.fetchmany(size):
                yield from self._table(rows, names).to_batches()

    def _worth_the_graph(self, connection: "Connection[Any]", settings: dict[str, Any]) -> bool:
        """Whether there is one, and the documents in question are too many to compare with each."""
        if not self._has_graph(connection):
            return False
        query = "SELECT count(*) FROM (SELECT FROM {documents} WHERE lang = ANY(%(langs)s) LIMIT %(enough)s) AS few"
        return settings["langs"] is None or _one(connection.execute(self._server.sql(query), settings))[0] >= ENOUGH

    def _nearest(
        self, connection: "Connection[Any]", settings: dict[str, Any], k: int, names: list[str], *, graph: bool
    ) -> pa.Table:
        """The k nearest of one query, by the graph or one by one."""
        order, number = "(vector <#> %(query)s::vector) + 0", k  # a sum is not what the graph is sorted by
        if graph:
            order = f"vector::halfvec({self._rank:d}) <#> %(query)s::halfvec({self._rank:d})"
            number = REFINED * k if settings["langs"] is None else max(REFINED * k, CANDIDATES)
            wanted = {
                "hnsw.ef_search": min(MOST, max(SEARCHED, number)),
                "hnsw.iterative_scan": "relaxed_order",  # until there are enough in the languages asked for
                "hnsw.max_scan_tuples": 2**31 - 1,
                "hnsw.scan_mem_multiplier": 16,
            }
            for name, value in wanted.items():
                connection.execute("SELECT set_config(%s, %s, true)", [name, str(value)])
        where = "" if settings["langs"] is None else "WHERE lang = ANY(%(langs)s)"
        inner = f"""(
            SELECT * FROM (
                SELECT id, -(vector <#> %(query)s::vector) AS cosine FROM {{documents}} {where}
                ORDER BY {order} LIMIT %(number)s
            ) AS candidates ORDER BY cosine DESC LIMIT %(k)s
        ) AS found"""
        query = self._select([*names, "cosine"], "", f"{inner} JOIN {{documents}} USING (id)")
        with connection.cursor(binary=True) as cursor:
            rows = cursor.execute(query, {**settings, "number": number, "k": k}).fetchall()
        cosines = np.array([row[-1] for row in rows], np.float32)
        return best_first(self._table([row[:-1] for row in rows], names), cosines, k)

    def _has_graph(self, connection: "Connection[Any]") -> bool:
        query = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(quote_ident(%s))"
        found = connection.execute(query, [f"{self._server.name}__graph"]).fetchone()
        return found is not None and bool(found[0])

    def _build(self, connection: "Connection[Any]", rows: int) -> None:
        """Build the graph beside readers and writers."""
        needed = min(MEMORY, 2 * rows * (2 * self._rank + 16 * LINKS))
        connection.execute(
            """SELECT set_config('maintenance_work_mem', greatest(%s,
               pg_size_bytes(current_setting('maintenance_work_mem')) / 1024)::text || 'kB', false)""",
            [needed // 1024],
        )
        build = f"""CREATE INDEX CONCURRENTLY {{graph}} ON {{documents}}
            USING hnsw ((vector::halfvec({self._rank:d})) halfvec_ip_ops)
            WITH (m = {LINKS:d}, ef_construction = {BREADTH:d})"""
        try:
            connection.execute(self._server.sql("DROP INDEX IF EXISTS {graph}"))  # of a build that was cut short
            connection.execute(self._server.sql(build))
        except self._server.psycopg.errors.DiskFull:  # several workers share memory, of which a container has little
            connection.execute("SET max_parallel_maintenance_workers = 0")
            connection.execute(self._server.sql("DROP INDEX IF EXISTS {graph}"))
            connection.execute(self._server.sql(build))
        connection.execute("RESET maintenance_work_mem")
        connection.execute("RESET max_parallel_maintenance_workers")


def _spoken(connection: "Connection[Any]") -> bool:
    """Whether the server has sent something unasked: to an idle connection, that it ends."""
    waiting = select.poll()
    waiting.register(connection.fileno(), select.POLLIN)
    return bool(waiting.poll(0))


def _one(cursor: "Cursor[Any]") -> tuple[Any, ...]:
    row: tuple[Any, ...] | None = cursor.fetchone()
    assert row is not None
    return row


def _packed(column: pa.ChunkedArray) -> list[bytes]:
    """Vectors as pgvector reads them: how many numbers, two empty bytes, the numbers, big end first."""
    values = matrix(column).astype(">f4")
    head = values.shape[1].to_bytes(2, "big") + b"\0\0"
    return [head + row.tobytes() for row in values]


def _unpacked(values: Iterable[bytes], width: int) -> pa.Array:
    numbers = np.frombuffer(b"".join(value[4:] for value in values), ">f4")
    return lists(numbers.reshape(-1, width))
