"""Array files: one array in NumPy's format .npy."""

from types import SimpleNamespace
from typing import BinaryIO

import numpy as np

from cr5._typing import Array


def write_array(stream: BinaryIO, array: Array) -> None:
    """Write an array in the .npy format to an open stream; unlike ``np.save``, never a part of it without an error.

    NumPy writes to a file by means of its own, which do not say why they fail, and do not notice at all if the disk is
    full within the last 4,096 bytes. To any other object it writes by its method.
    """
    np.lib.format.write_array(SimpleNamespace(write=stream.write), array, allow_pickle=False)
