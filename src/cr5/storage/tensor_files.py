"""Tensor files: named arrays in the safetensors format."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.numpy import save_file

from cr5._typing import Array


def write_tensors(arrays: Mapping[str, Array], path: Path, metadata: dict[str, str] | None = None) -> None:
    """Write a safetensors file; what the operating system refuses is an ``OSError``, as of any other file."""
    try:
        save_file(dict(arrays), path, metadata)
    except SafetensorError as error:
        number = re.search(r"\(os error (\d+)\)", str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error
