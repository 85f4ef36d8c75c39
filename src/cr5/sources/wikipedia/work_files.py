"""Files of the work folder: JSON and Parquet, written atomically, with errors that say how to resume."""

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from cr5.errors import CorpusError, Cr5Error
from cr5.storage import json_files
from cr5.storage.atomic import atomic_write


def write_table(path: Path, table: pa.Table, metadata: Mapping[bytes, bytes]) -> None:
    """Write a Parquet file with ``metadata`` in its schema."""
    table = table.replace_schema_metadata(dict(metadata))
    with writing(path) as file:
        pq.write_table(table, file, compression="zstd")


@contextmanager
def reading_table(path: Path) -> Iterator[None]:
    """Within this block, a Parquet file of ours that cannot be read raises a ``CorpusError`` with the remedy."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, OSError) and error.strerror:
            raise
        raise CorpusError(f"{path}: damaged; delete it and run the same command again") from error


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write a JSON object; if the disk is full, say how to resume."""
    with _disk_errors(path):
        json_files.write_json(path, values)


def load_json(path: Path, delete: Path | None = None) -> dict[str, Any] | None:
    """Load what ``write_json`` wrote, or None if there is no file.

    If the file is damaged, the error asks to delete it, or the folder ``delete`` that cannot be used without it.
    """
    try:
        return json_files.read_json(path)
    except FileNotFoundError:
        return None
    except ValueError:
        raise Cr5Error(f"{path}: damaged; delete {delete or 'it'} and run the same command again") from None


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """Open a file that replaces ``path`` atomically when the block ends; if the disk is full, say how to resume."""
    with _disk_errors(path), atomic_write(path) as file:
        yield file


@contextmanager
def _disk_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise Cr5Error(
                f"{path}: no space left on the disk; free some and run the same command again, it resumes from here"
            ) from error
        raise
