"""Vectors in files: NumPy's .npy, or Parquet with their texts."""

import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cr5._typing import Array
from cr5.errors import UserError

SUFFIXES = (".npy", ".parquet")


def check_target(path: Path) -> None:
    """Complain, before any work is done, about a name that vectors cannot be written to."""
    if path.suffix not in SUFFIXES:
        raise UserError(f"{path} has the unknown suffix {path.suffix!r}; name it .npy or .parquet")
    if not path.parent.is_dir():
        raise UserError(f"{path} cannot be written: there is no folder {path.parent}; make it first")


def write_stream(stream: BinaryIO, vectors: Array) -> None:
    """Write .npy to an open stream."""
    np.lib.format.write_array(stream, vectors, allow_pickle=False)


def write(path: Path, vectors: Array, texts: Sequence[str], coverage: Array | None = None) -> None:
    """Write rows to a file that appears when it is complete; Parquet has the columns text, vector, coverage."""
    check_target(path)
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with part.open("wb") as file:
            if path.suffix == ".npy":
                write_stream(file, vectors)
            else:
                column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
                columns = {"text": pa.array(texts, pa.string()), "vector": column}
                extra = {} if coverage is None else {"coverage": pa.array(coverage)}
                pq.write_table(pa.table(columns | extra), file, compression="zstd")
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
