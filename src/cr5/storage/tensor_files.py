"""Tensor files: named arrays in the safetensors format."""

from collections.abc import Mapping
from pathlib import Path

from safetensors.numpy import save_file

from cr5._typing import Array
from cr5.storage.targets import naming_os_errors


def write_tensors(arrays: Mapping[str, Array], path: Path, metadata: dict[str, str] | None = None) -> None:
    """Write a safetensors file; what the operating system refuses is an ``OSError``, as of any other file."""
    with naming_os_errors(path):
        save_file(dict(arrays), path, metadata)
