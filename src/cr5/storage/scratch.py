"""Scratch arrays: large arrays in memory, or in scratch files if a memory budget is set."""

import mmap
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from cr5._typing import Array, Ints, Sparse
from cr5.errors import DiskFullError
from cr5.message_parts import format_bytes
from cr5.storage.atomic import FULL_DISK_ERRNOS

CHUNK_ROWS = 4096  # rows of a sparse matrix that are processed at a time
_COPY_BYTES = 2**24


class ScratchArrays:
    """Allocates arrays in memory, or, with a memory budget, in unnamed files that are deleted when the array is freed.

    With a budget, code that reads or writes an array does so a few rows at a time and calls ``release`` after each
    step, so that only those rows occupy memory. Without a budget, the methods return their arguments uncopied.
    """

    def __init__(self, budget_bytes: int | None = None, folder: Path | None = None) -> None:
        self.budget_bytes, self.folder = budget_bytes, folder

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """A new, uninitialised array."""
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        if self.budget_bytes is None or not size:
            return np.empty(shape, dtype)
        try:
            with tempfile.TemporaryFile(prefix="cr5-", dir=self.folder) as file:
                # Reserve the space now: a disk that is full when a page is written kills the process.
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(file.fileno(), 0, size)
                else:  # macOS, Windows
                    os.ftruncate(file.fileno(), size)
                return np.frombuffer(mmap.mmap(file.fileno(), size), dtype).reshape(shape)
        except OSError as error:
            if error.errno not in FULL_DISK_ERRNOS:
                raise
            folder = self.folder or tempfile.gettempdir()
            raise DiskFullError(
                f"{folder} has no space for {format_bytes(size)} of scratch files; free some, or use a larger disk"
            ) from error

    def store(self, array: Array) -> Array:
        """A copy of an array in a scratch file; the array itself if it is in one already."""
        if self.budget_bytes is None or _mapped_file(array) is not None:
            return array
        result = self.empty(array.shape, array.dtype)
        step = max(1, _COPY_BYTES // max(array[:1].nbytes, 1))
        for begin in range(0, len(array), step):
            result[begin : begin + step] = array[begin : begin + step]
            self.release(result)
        return result

    def store_matrix(self, X: Sparse) -> Sparse:
        """A copy of a sparse matrix in scratch files; its row offsets stay in memory."""
        from scipy.sparse import csr_array

        arrays = self.store(X.data), self.store(X.indices), X.indptr
        return csr_array(arrays, shape=X.shape, copy=False)

    def stack_rows(
        self, parts: Iterable[Sparse], shape: tuple[int, int], max_nonzeros: int, dtype: Any, index_dtype: Any
    ) -> Sparse:
        """Sparse matrices stacked vertically, one at a time; together they have at most ``max_nonzeros`` nonzeros."""
        from scipy.sparse import csr_array

        data, indices = self.empty((max_nonzeros,), dtype), self.empty((max_nonzeros,), index_dtype)
        indptr = np.zeros(shape[0] + 1, np.int32 if max_nonzeros < 2**31 else np.int64)
        row, end = 0, 0
        for part in parts:
            data[end : end + part.nnz], indices[end : end + part.nnz] = part.data, part.indices
            indptr[row + 1 : row + part.shape[0] + 1] = part.indptr[1:] + indptr.dtype.type(end)
            row, end = row + part.shape[0], end + part.nnz
            self.release(data, indices)
        return csr_array((data[:end], indices[:end], indptr), shape=shape, copy=False)

    def select_rows(self, X: Sparse, rows: Ints) -> Sparse:
        """Some rows of a matrix, in the given order."""
        if self.budget_bytes is None:
            return X[rows]
        nonzeros = int((X.indptr[rows + 1] - X.indptr[rows]).sum())
        parts = (X[rows[i : i + CHUNK_ROWS]] for i in range(0, len(rows), CHUNK_ROWS))
        result = self.stack_rows(parts, (len(rows), X.shape[1]), nonzeros, X.dtype, X.indices.dtype)
        self.release(X.data, X.indices)
        return result

    def release(self, *arrays: Array) -> None:
        """Return the pages of arrays to the operating system's file cache; their values stay."""
        if self.budget_bytes is not None and hasattr(mmap, "MADV_DONTNEED"):
            for array in arrays:
                if (file := _mapped_file(array)) is not None:
                    file.madvise(mmap.MADV_DONTNEED)


def _mapped_file(array: Any) -> mmap.mmap | None:
    """The memory-mapped file that holds an array, None for an array in memory."""
    while isinstance(array, np.ndarray) and array.base is not None:
        array = array.base
    owner = array.obj if isinstance(array, memoryview) else array
    return owner if isinstance(owner, mmap.mmap) else None
