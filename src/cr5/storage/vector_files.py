"""Vector files: NumPy's .npy, or Parquet with the texts."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cr5._typing import Array
from cr5.errors import Cr5Error
from cr5.storage.array_files import write_array
from cr5.storage.atomic import atomic_write
from cr5.storage.output_paths import check_output_file

SUFFIXES = (".npy", ".parquet")


def check_vector_file(path: Path) -> None:
    """Raise an error for a path that vectors cannot be written to, before any work is done."""
    if path.suffix not in SUFFIXES:
        raise Cr5Error(f"{path} has the unknown suffix {path.suffix!r}; name it .npy or .parquet")
    check_output_file(path, example="vectors.npy")


def write(path: Path, vectors: Array, texts: Sequence[str], extra_columns: Mapping[str, Array] | None = None) -> None:
    """Write vectors to a file that appears when it is complete; Parquet has text, vector and ``extra_columns``."""
    check_vector_file(path)
    with atomic_write(path) as file:
        if path.suffix == ".npy":
            write_array(file, vectors)
        else:
            column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
            columns = {"text": pa.array(texts, pa.string()), "vector": column}
            extra = {name: pa.array(values) for name, values in (extra_columns or {}).items()}
            pq.write_table(pa.table(columns | extra), file, compression="zstd")


def read(path: Path) -> Array:
    """Read vectors from .npy, or from the column "vector" of a Parquet file, as float32 rows."""
    try:
        if path.suffix == ".npy":
            vectors = np.load(path, allow_pickle=False)
        else:
            vectors = _rows(pq.read_table(path, columns=["vector"])["vector"].combine_chunks())
    except FileNotFoundError:
        raise Cr5Error(f"{path} does not exist; check the spelling") from None
    except (ValueError, OSError, EOFError, KeyError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise Cr5Error(f"{path} holds no vectors ({reason}); write it as cr5 encode does") from error
    if vectors.ndim != 2 or vectors.dtype.kind not in "fiu":
        shape = f"shape {vectors.shape}, type {vectors.dtype}"
        raise Cr5Error(f"{path} holds an array of {shape}; it must be rows of numbers")
    if not np.isfinite(vectors).all():
        raise Cr5Error(f"{path} holds numbers that are not finite; encode these texts again")
    return np.asarray(vectors, np.float32)


def _rows(column: pa.Array) -> Array:
    lengths = np.unique(column.drop_null().value_lengths())
    if len(lengths) > 1 or column.null_count:
        raise ValueError("its vectors have different lengths, or some are missing")
    return np.asarray(column.flatten()).reshape(len(column), -1)
