"""Tensor files: named arrays in the safetensors format."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np

from cr5._typing import Array
from cr5.storage.output_paths import naming_os_errors

_DTYPES = {"U64": "<u8", "I64": "<i8", "I32": "<i4", "U16": "<u2", "U8": "|u1", "I8": "|i1", "F32": "<f4", "F16": "<f2"}


def write_tensors(arrays: Mapping[str, Array], path: Path, metadata: dict[str, str] | None = None) -> None:
    """Write a safetensors file; what the operating system refuses is an ``OSError``, as of any other file."""
    from safetensors.numpy import save_file

    path.touch()
    mode = path.stat().st_mode  # the library creates files that only the owner may read
    with naming_os_errors(path):  # and it ignores strides
        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, path, metadata)
    path.chmod(mode)


def map_tensors(file: BinaryIO) -> dict[str, Array]:
    """The arrays of a safetensors file, mapped into memory; ``KeyError`` or ``ValueError`` if it is not one.

    The file is 8 bytes with the length of the header, the header in JSON, and the arrays.
    """
    raw = np.asarray(np.memmap(file, np.uint8, "r"))  # plain arrays, because every view of a memmap is slow to make
    start = 8 + int.from_bytes(raw[:8].tobytes(), "little")
    header, arrays = json.loads(raw[8:start].tobytes()), {}
    for name in header.keys() - {"__metadata__"}:
        first, last = header[name]["data_offsets"]
        arrays[name] = raw[start + first : start + last].view(_DTYPES[header[name]["dtype"]])
        arrays[name] = arrays[name].reshape(header[name]["shape"])
    return arrays
