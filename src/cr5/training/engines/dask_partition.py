"""A partition of a Dask engine: named arrays as futures, one for every block."""

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from typing import Any

import numpy as np

from cr5._typing import Array
from cr5.training.engines import dask_tasks
from cr5.training.engines.dask_tasks import ArrayType
from cr5.training.engines.dask_workers import Future, Workers


class DaskPartition:
    """A future for every block of every name.

    ``map`` first calls each function in this process, on a single row of ones, to find out which names it reads,
    assigns and deletes: a new array then depends on the arrays that it was made from, and on nothing else.
    """

    def __init__(self, workers: Workers, prepare: Callable[[], None]) -> None:
        self.workers, self.prepare = workers, prepare
        self.sizes: list[int] = []
        self.slots: list[int] = []
        self.arrays: dict[str, list[Future]] = {}
        self.types: dict[str, ArrayType] = {}

    def add(self, rows: int, slot: int) -> None:
        self.sizes.append(rows)
        self.slots.append(slot)

    def put(self, name: str, arrays: list[Future], array_type: ArrayType) -> None:
        self.arrays[name], self.types[name] = arrays, array_type

    def pop(self, name: str) -> tuple[list[Future], ArrayType]:
        return self.arrays.pop(name), self.types.pop(name)

    def map(self, function: Callable[..., Any], *arguments: Sequence[Any]) -> list[Any]:
        self.prepare()
        rows = _AccessRecorder(self.types)
        with np.errstate(all="ignore"):
            returns = function(rows, *(each[0] for each in arguments)) is not None
        read, written = sorted(rows.read), rows.written
        call, outcome = self.workers.share_function(function), (list(written), returns)
        tasks = [
            (slot, call, size, {name: self.arrays[name][i] for name in read}, list(each), outcome)
            for i, (slot, size, *each) in enumerate(zip(self.slots, self.sizes, *arguments, strict=True))
        ]
        for name in rows.deleted:
            self.pop(name)
        count = len(written) + returns
        results = self.workers.submit_all(dask_tasks.apply_function, tasks) if count else []
        parts = [results]
        if count > 1:
            parts = [
                self.workers.submit_all(
                    dask_tasks.item, [(slot, each, i) for slot, each in zip(self.slots, results, strict=True)]
                )
                for i in range(count)
            ]
        for (name, array_type), part in zip(written.items(), parts, strict=False):
            self.put(name, part, array_type)
        return self.workers.gather(parts[-1]) if returns else [None] * len(self.sizes)

    def get(self, name: str) -> list[Array]:
        self.prepare()
        # One after another: together they might not fit into the scheduler's memory.
        return [array for future in self.arrays[name] for array in self.workers.gather([future])]

    def set(self, name: str, arrays: Sequence[Array]) -> None:
        self.prepare()
        both = zip(arrays, self.slots, strict=True)
        futures = [self.workers.submit_large(dask_tasks.identity, array, slot=slot) for array, slot in both]
        self.put(name, futures, (arrays[0].shape[1], arrays[0].dtype))


class _AccessRecorder(MutableMapping[str, Array]):
    """Arrays of one row that record what a function reads, assigns and deletes."""

    def __init__(self, types: dict[str, ArrayType]) -> None:
        self.arrays = {name: np.ones((1, columns), dtype) for name, (columns, dtype) in types.items()}
        self.before = dict(self.arrays)
        self.read: set[str] = set()

    @property
    def written(self) -> dict[str, ArrayType]:
        """The names that were assigned, with the columns and dtype of their new arrays."""
        new = {name: array for name, array in self.arrays.items() if array is not self.before.get(name)}
        return {name: (array.shape[1], array.dtype) for name, array in new.items()}

    @property
    def deleted(self) -> list[str]:
        """The names that were deleted."""
        return [name for name in self.before if name not in self.arrays]

    def __getitem__(self, name: str) -> Array:
        array = self.arrays[name]
        if array is self.before.get(name):
            self.read.add(name)
        return array

    def __setitem__(self, name: str, array: Array) -> None:
        self.arrays[name] = array

    def __delitem__(self, name: str) -> None:
        del self.arrays[name]

    def __contains__(self, name: object) -> bool:
        return name in self.arrays

    def __iter__(self) -> Iterator[str]:
        return iter(list(self.arrays))

    def __len__(self) -> int:
        return len(self.arrays)
