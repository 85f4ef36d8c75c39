"""Arrays in files: complete, or an error that says why."""

import errno
from pathlib import Path

import numpy as np
import pytest
from limits import file_size_limit

from cr5.storage.array_files import write_array
from cr5.storage.atomic import atomic_write


@pytest.mark.parametrize("missing", [1, 8, 4000, 5000, 7990])
def test_an_array_is_written_completely_or_the_error_names_the_file(missing: int, tmp_path: Path) -> None:
    array, path = np.arange(1000.0), tmp_path / "array.npy"
    with atomic_write(path) as file:
        write_array(file, array)
    np.testing.assert_array_equal(np.load(path), array)
    size = path.stat().st_size
    path.unlink()
    too_large = pytest.raises(OSError, match="File too large")
    with file_size_limit(size - missing), too_large as caught, atomic_write(path) as file:
        write_array(file, array)
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(path))
    assert not list(tmp_path.iterdir())
