"""Connections to a PostgreSQL database with pgvector: pooled, checked, and never waited for without limit.

``psycopg_pool`` was tried and not used: connecting in its own threads, it hides why a connection fails and makes the
caller wait for its timeout (a stopped server: 10 s and "couldn't get a connection", here 1 ms and the reason), and it
does not notice a server that hangs during a call.
"""

import importlib
import os
import re
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cr5.errors import Cr5Error, needs_package

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.sql import Composed

MIN_PGVECTOR = (0, 8)
CONNECTION_OPTIONS = {  # unless the address sets them: after 20 s, a server that has disappeared is noticed
    "connect_timeout": 10, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 2,
    "tcp_user_timeout": 20_000,
}  # fmt: skip
# The server uses the same for its end of a connection. With its own, a transaction whose client has disappeared would
# hold its locks for two hours, and nobody else could write the same documents.
SERVER_SETTINGS = {
    "tcp_keepalives_idle": "keepalives_idle", "tcp_keepalives_interval": "keepalives_interval",
    "tcp_keepalives_count": "keepalives_count", "tcp_user_timeout": "tcp_user_timeout",
}  # fmt: skip
CONNECT_PAUSE_SECONDS = 1.0  # after an attempt to connect that got no answer
RELATED_NAMES = (
    "hubness", "langs", "graph", "incoming", "words", "word_langs", "postings", "posting_keys", "fields", "terms"
)  # fmt: skip
_TABLE_NAME = re.compile(r"(?!.*__)[a-z][a-z0-9_]{0,39}")  # related tables and indexes are called NAME__something


@dataclass(frozen=True)
class Timeouts:
    """Seconds after which a call is aborted, or the server is probed."""

    read: float = 60  # limit of a reading call; writing calls have none
    probe_read: float = 5  # interval of probing the server during a reading call,
    probe_write: float = 60  # and during a writing call
    check_idle: float = 5  # a connection that was idle for longer is checked before it is used


class Database:
    """Connections to a database, and the names of the tables of one index in it; no text shows the password."""

    def __init__(self, address: str, table: str, timeouts: Timeouts | None = None) -> None:
        if not _TABLE_NAME.fullmatch(table):
            raise Cr5Error(
                f"{table!r} cannot name an index; use up to 40 characters of a-z, 0-9 and single _, a letter first"
            )
        self.psycopg = import_psycopg()
        self.table, self.timeouts = table, timeouts or Timeouts()
        self._address = address
        self._sql = importlib.import_module("psycopg.sql")
        self._errors = importlib.import_module("psycopg.errors")
        parts = parse_address(address)
        host = parts.get("host") or parts.get("hostaddr") or "the default address"
        self._label = f"PostgreSQL at {host}" + (f", port {parts['port']}" if parts.get("port") else "")
        self._password = str(parts.get("password") or "")
        self._options = {key: parts.get(key) or value for key, value in CONNECTION_OPTIONS.items()}
        self._idle: deque[tuple[Connection[Any], float]] = deque()
        self._connecting, self._silent_until = threading.Lock(), 0.0  # monotonic time; 0: the server answers
        self._watchdogs, self._closed = set[Watchdog](), False

    def __str__(self) -> str:
        return self._label

    def __repr__(self) -> str:
        return f"Database({self._label!r}, {self.table!r})"

    def literal(self, value: str) -> Any:
        """A quoted value, for statements that take no parameters."""
        return self._sql.Literal(value)

    def sql(self, statement: str, **parts: Any) -> "Composed":
        """A statement with the names of tables and indexes filled in: {documents}, {hubness}, {graph}, ..."""
        names = {key: self._sql.Identifier(f"{self.table}__{key}") for key in RELATED_NAMES}
        names["documents"] = self._sql.Identifier(self.table)
        composed: Composed = self._sql.SQL(statement).format(**names, **parts)
        return composed

    def reading(self) -> Any:
        """A connection for a call that may take ``timeouts.read`` seconds."""
        return self.connection(self.timeouts.read)

    @contextmanager
    def connection(self, limit: float | None = None) -> Iterator["Connection[Any]"]:
        """A connection in autocommit mode, for a call that may take ``limit`` seconds; closed after an error.

        A call at a server that hangs is aborted whatever the limit.
        """
        connection = self._take()
        try:
            with self._watched(connection, limit) as watchdog:
                yield connection
        except BaseException as error:
            connection.close()
            errors = self._errors
            if isinstance(error, self.psycopg.OperationalError | errors.InsufficientPrivilege | errors.UndefinedTable):
                reason = self._reason(error)
                raise Cr5Error(f"{self}: {reason}; check that the server is running and the index exists") from None
            raise
        if self._closed or watchdog.abort_reason:
            connection.close()
        else:
            self._idle.append((connection, time.monotonic()))

    def close(self) -> None:
        """Close all connections; calls that are waiting for an answer fail."""
        self._closed = True
        for watchdog in list(self._watchdogs):
            watchdog.abort("the index was closed during the call; open it again")
        self._close_idle()

    @contextmanager
    def _watched(self, connection: "Connection[Any]", limit: float | None) -> Iterator["Watchdog"]:
        """Abort the call inside when necessary; the error then says why."""
        watchdog = Watchdog(self, connection, limit)
        self._watchdogs.add(watchdog)
        try:
            with watchdog:
                yield watchdog
        except self.psycopg.Error:
            if watchdog.abort_reason:
                raise Cr5Error(f"{self}: {watchdog.abort_reason}") from None
            raise
        finally:
            self._watchdogs.discard(watchdog)

    def _take(self) -> "Connection[Any]":
        """An idle connection that is still usable, or a new one."""
        while self._idle:
            try:
                connection, since = self._idle.pop()
            except IndexError:  # another thread took the last one
                break
            suspect = time.monotonic() - since > self.timeouts.check_idle or _has_input(connection)
            try:
                if not suspect or self._is_usable(connection):
                    return connection
            except Cr5Error:
                self._close_idle()
                raise
            self._close_idle()  # the others are most likely lost, too, and each would have to be waited for
        return self._connect()

    def _close_idle(self) -> None:
        with suppress(IndexError):  # no connection is left; other threads take them as well
            while True:
                self._idle.pop()[0].close()

    def _is_usable(self, connection: "Connection[Any]") -> bool:
        try:
            self._fetch_first(connection, "SELECT 1")
        except self.psycopg.Error:
            return False
        return True

    def _fetch_first(self, connection: "Connection[Any]", query: str) -> Any:
        """The first row of a query; after an error the connection is closed."""
        try:
            with self._watched(connection, self.timeouts.read):
                return connection.execute(query).fetchone()
        except BaseException:
            connection.close()
            raise

    def _connect(self) -> "Connection[Any]":
        reason = ""
        try:
            with self._one_attempt_if_silent():
                connection: Connection[Any] = self.psycopg.connect(self._address, autocommit=True, **self._options)
            settings = ", ".join(
                f"set_config('{name}', '{int(self._options[option])}', false)"
                for name, option in SERVER_SETTINGS.items()
            )
            version = "(SELECT extversion FROM pg_extension WHERE extname = 'vector')"
            row = self._fetch_first(connection, f"SELECT {version}, {settings}")
            # The server then ends a call whose client has gone, even one that waits for a lock.
            unsupported = suppress(self._errors.UndefinedObject, self._errors.InvalidParameterValue)
            with unsupported, self._watched(connection, self.timeouts.read):
                connection.execute("SET client_connection_check_interval = '5s'")
        except self.psycopg.Error as error:
            reason = self._reason(error)
        if reason:
            raise Cr5Error(f"{self} cannot be reached ({reason}); check address, user and password")
        if row[0] is None:
            connection.close()
            raise Cr5Error(f"{self}: the database lacks pgvector; run CREATE EXTENSION vector in it")
        if tuple(int(part) for part in row[0].split(".")[:2]) < MIN_PGVECTOR:
            connection.close()
            raise Cr5Error(f"{self}: pgvector {row[0]} is too old; install 0.8, run ALTER EXTENSION vector UPDATE")
        return connection

    @contextmanager
    def _one_attempt_if_silent(self) -> Iterator[None]:
        """After an attempt to connect that got no answer, others fail at once until one that is made alone succeeds.

        Otherwise every thread of a server would wait for its own attempt, and requests for a thread.
        """
        is_alone = self._connecting.acquire(blocking=False)
        try:
            if self._silent_until and (not is_alone or time.monotonic() < self._silent_until):
                raise self._errors.ConnectionTimeout("connection timeout expired")
            try:
                yield
            except BaseException as error:
                is_silent = isinstance(error, self._errors.ConnectionTimeout)
                self._silent_until = time.monotonic() + CONNECT_PAUSE_SECONDS if is_silent else 0.0
                raise
            self._silent_until = 0.0
        finally:
            if is_alone:
                self._connecting.release()

    def answers(self) -> bool:
        """Whether the server accepts a connection, or at least refuses it, within its connection timeout."""
        try:
            self.psycopg.connect(self._address, **self._options).close()
        except self._errors.ConnectionTimeout:
            return False
        except self.psycopg.Error:
            return True
        return True

    def _reason(self, error: BaseException) -> str:
        """The first line of an error, without the password."""
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        text = lines[0] if lines else type(error).__name__
        return text.replace(self._password, "…") if self._password else text


class Watchdog:
    """Watches a call, and shuts down its connection when the server hangs or the timeout has passed.

    A server that is silent may hang or be busy; it hangs if it does not accept another connection either.
    """

    def __init__(self, database: Database, connection: "Connection[Any]", limit: float | None) -> None:
        self.abort_reason = ""
        self._database, self._connection, self._limit = database, connection, limit
        self._done, self._aborting = threading.Event(), threading.Lock()

    def __enter__(self) -> "Watchdog":
        threading.Thread(target=self._watch, name="cr5-watch", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._aborting:
            self._done.set()

    def abort(self, reason: str) -> None:
        """Shut down the connection unless the call has ended; the thread that waits for it gets an error."""
        with self._aborting:
            if self._done.is_set():
                return
            self.abort_reason = reason
            lost = suppress(OSError, self._database.psycopg.Error)
            with lost, socket.socket(fileno=os.dup(self._connection.fileno())) as duplicate:
                duplicate.shutdown(socket.SHUT_RDWR)

    def _watch(self) -> None:
        began, timeouts = time.monotonic(), self._database.timeouts
        while not self._done.wait(timeouts.probe_write if self._limit is None else timeouts.probe_read):
            if self._limit is not None and time.monotonic() - began > self._limit:
                self.abort(f"no result within {self._limit:g} s; check whether the index is locked")
            elif not self._database.answers():
                self.abort("the server does not answer; check whether it hangs")


def import_psycopg() -> Any:
    """The package psycopg, which is optional."""
    with needs_package("the search index in PostgreSQL", "psycopg", "postgres"):
        return importlib.import_module("psycopg")


def parse_address(address: str) -> dict[str, Any]:
    """The parts of a connection address: host, port, user, password, ..."""
    psycopg, parts = import_psycopg(), None
    with suppress(psycopg.Error):  # the error of libpq quotes the password, so it must not be chained to ours
        parts = importlib.import_module("psycopg.conninfo").conninfo_to_dict(address)
    if parts is None:
        raise Cr5Error("the address of the PostgreSQL server is wrong; write postgresql://USER@HOST:PORT/DATABASE")
    return dict(parts)


def without_password(address: str) -> str:
    """An address as a connection string without passwords."""
    parts = {key: value for key, value in parse_address(address).items() if "password" not in key}
    return str(importlib.import_module("psycopg.conninfo").make_conninfo(**parts))


def _has_input(connection: "Connection[Any]") -> bool:
    """Whether the server has sent something to an idle connection: that it is being closed."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))
