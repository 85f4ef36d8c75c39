"""Where large arrays are kept: in memory, or in scratch files where they would not fit."""

import errno
import mmap
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from cr5._typing import Array, Ints, Sparse
from cr5.errors import Cr5Error

ROWS = 4096  # rows that are copied at a time


class Shelf:
    """Hands out arrays: in memory, or with a ``budget`` of bytes in nameless files that go when the array goes.

    Within a budget, whoever has read or written an array releases it, a few rows at a time.
    """

    def __init__(self, budget: int | None = None, folder: Path | None = None) -> None:
        self.budget, self.folder = budget, folder

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """A new array."""
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        if self.budget is None or not size:
            return np.empty(shape, dtype)
        with tempfile.TemporaryFile(prefix="cr5-", dir=self.folder) as file:
            try:  # now, with an error: a full disk that shows when a page is written kills the process
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(file.fileno(), 0, size)
                else:  # macOS
                    os.ftruncate(file.fileno(), size)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                where = self.folder or tempfile.gettempdir()
                raise Cr5Error(
                    f"{where} has no room for {size / 1e9:.1f} GB of scratch files; free some, or use a larger disk"
                ) from error
            return np.frombuffer(mmap.mmap(file.fileno(), size), dtype).reshape(shape)

    def copy(self, array: Array) -> Array:
        """The same numbers on this shelf; in memory, or there already, the array itself."""
        if self.budget is None or _file(array) is not None:
            return array
        result = self.empty(array.shape, array.dtype)
        step = max(1, 2**24 // max(array[:1].nbytes, 1))
        for begin in range(0, len(array), step):
            result[begin : begin + step] = array[begin : begin + step]
            self.release(result)
        return result

    def keep(self, X: Sparse) -> Sparse:
        """The same matrix on this shelf."""
        arrays = self.copy(X.data), self.copy(X.indices), X.indptr
        return csr_array(arrays, shape=X.shape, copy=False)

    def stack(self, parts: Iterable[Sparse], shape: tuple[int, int], nonzeros: int, dtype: Any, index: Any) -> Sparse:
        """Matrices under each other, taken in one at a time; ``nonzeros`` is no less than theirs together."""
        data, indices = self.empty((nonzeros,), dtype), self.empty((nonzeros,), index)
        indptr = np.zeros(shape[0] + 1, np.int32 if nonzeros < 2**31 else np.int64)
        row, end = 0, 0
        for part in parts:
            data[end : end + part.nnz], indices[end : end + part.nnz] = part.data, part.indices
            indptr[row + 1 : row + part.shape[0] + 1] = part.indptr[1:] + indptr.dtype.type(end)
            row, end = row + part.shape[0], end + part.nnz
            self.release(data, indices)
        return csr_array((data[:end], indices[:end], indptr), shape=shape, copy=False)

    def rows(self, X: Sparse, chosen: Ints) -> Sparse:
        """Some rows of a matrix."""
        if self.budget is None:
            return X[chosen]
        nonzeros = int((X.indptr[chosen + 1] - X.indptr[chosen]).sum())
        parts = (X[chosen[i : i + ROWS]] for i in range(0, len(chosen), ROWS))
        result = self.stack(parts, (len(chosen), X.shape[1]), nonzeros, X.dtype, X.indices.dtype)
        self.release(X.data, X.indices)
        return result

    def release(self, *arrays: Array) -> None:
        """Forget that arrays were read or written: their pages go back to the disk's cache."""
        if self.budget is not None:
            for array in arrays:
                if (file := _file(array)) is not None:
                    file.madvise(mmap.MADV_DONTNEED)


def _file(array: Any) -> mmap.mmap | None:
    """The file that an array lies in."""
    while isinstance(array, np.ndarray) and array.base is not None:
        array = array.base
    owner = array.obj if isinstance(array, memoryview) else array
    return owner if isinstance(owner, mmap.mmap) else None
