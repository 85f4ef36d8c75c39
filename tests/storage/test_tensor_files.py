"""Tensor files: arrays come back whatever their strides, in a file with the permissions of any new file."""

import os
import stat
from pathlib import Path

import numpy as np
import pytest

from cr5.storage.tensor_files import map_tensors, write_tensors


def test_arrays_of_any_layout_are_read_as_they_were_written(tmp_path: Path) -> None:
    numbers = np.arange(12, dtype=np.float32).reshape(3, 4)
    arrays = {"rows": numbers, "columns": numbers.T, "every second": numbers[:, ::2]}
    write_tensors(arrays, tmp_path / "a.safetensors")
    with (tmp_path / "a.safetensors").open("rb") as file:
        found = map_tensors(file)
        assert found.keys() == arrays.keys()
        for name, array in arrays.items():
            np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize("mask", [0o002, 0o027, 0o077])
def test_permissions_are_those_of_any_new_file(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        write_tensors({"a": np.zeros(1, np.float32)}, tmp_path / "a.safetensors")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.safetensors").stat().st_mode) == 0o666 & ~mask
