"""Files of the work folder: JSON and Parquet, written atomically, with errors that say how to resume."""

import errno
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from cr5.errors import CorpusError, Cr5Error
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
    """Write a JSON object, indented for human readers."""
    with writing(path) as file:
        file.write(f"{json.dumps(values, ensure_ascii=False, indent=1)}\n".encode())


def load_json(path: Path, delete: Path | None = None) -> dict[str, Any] | None:
    """Load what ``write_json`` wrote, or None if there is no file.

    If the file is damaged, the error asks to delete it, or the folder ``delete`` that cannot be used without it.
    """
    try:
        values = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError:
        values = None
    if not isinstance(values, dict):
        raise Cr5Error(f"{path}: damaged; delete {delete or 'it'} and run the same command again")
    return values


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """Open a file that replaces ``path`` atomically when the block ends; if the disk is full, say how to resume."""
    try:
        with atomic_write(path) as file:
            yield file
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise Cr5Error(
                f"{path}: no space left on the disk; free some and run the same command again, it resumes from here"
            ) from error
        raise
