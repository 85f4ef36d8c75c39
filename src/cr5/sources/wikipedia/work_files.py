"""Files of the work folder, JSON and Parquet: what to do about damaged ones."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cr5.errors import CorpusError, Cr5Error
from cr5.storage.atomic import atomic_write
from cr5.storage.json_files import read_json


def write_table(path: Path, table: pa.Table, metadata: Mapping[bytes, bytes]) -> None:
    """Write a Parquet file with ``metadata`` in its schema."""
    table = table.replace_schema_metadata(dict(metadata))
    with atomic_write(path) as file:
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


def load_json(path: Path, delete: Path | None = None) -> dict[str, Any] | None:
    """The JSON object in a file, or None if there is no file.

    If the file is damaged, the error asks to delete it, or the folder ``delete`` that cannot be used without it.
    """
    try:
        return read_json(path)
    except FileNotFoundError:
        return None
    except ValueError:
        raise Cr5Error(f"{path}: damaged; delete {delete or 'it'} and run the same command again") from None
