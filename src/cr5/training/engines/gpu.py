"""The engine of one NVIDIA GPU: every array is in its memory, and the products are kernels of our own."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Self

import numpy as np

from cr5._typing import Array, Ints, Mask, Sparse
from cr5.errors import Cr5Error
from cr5.training.engines import BlockInfo
from cr5.training.engines.gpu_device import Device, GpuSizes
from cr5.training.engines.gpu_matrix import Block, GpuCsr, MatrixAndTranspose
from cr5.training.engines.local import LocalEngine, LocalPartition


class GpuEngine(LocalEngine):
    """All blocks on one GPU, one after another."""

    blocks: list[Block]

    def __init__(self, *, sizes: GpuSizes | None = None, device: Device | None = None) -> None:
        self.device = device or Device(sizes)
        super().__init__(partial(GpuPartition, self.device))

    def put(self, lang: str, X: Any, concepts: Any, subwords: Any = None) -> None:
        """Add documents x words: SciPy's CSR, or anything with its arrays, on the host or on the GPU already."""
        with self.device.memory_errors():
            has_any = subwords is not None and subwords.shape[1]
            M = MatrixAndTranspose(self.device, self._send(subwords)) if has_any else None
            self._add_language(lang, X.shape[1], M)
            numbers = self.device.cupy.asarray(concepts, dtype=np.int64)
            self._add(Block(self.device, len(self.langs) - 1, self._send(X), numbers))

    def _send(self, X: Any) -> GpuCsr:
        cupy = self.device.cupy
        indptr, indices = cupy.asarray(X.indptr, dtype=np.int64), cupy.asarray(X.indices, dtype=np.int32)
        return GpuCsr(indptr, indices, cupy.asarray(X.data), X.shape)

    def _add(self, block: Block) -> None:
        self._add_block(block, documents=block.X.shape[0], concepts=block.sums.shape[0])

    def block_info(self) -> list[BlockInfo]:
        return [
            BlockInfo(
                block.language, *block.X.shape, block.nonzeros, str(block.X.rows.data.dtype), *self._subword_info(block)
            )
            for block in self.blocks
        ]

    def compute(self, function: Callable[..., Any], *arrays: Array) -> Any:
        """Call a function of small arrays on the GPU, NumPy in, NumPy out."""
        with self.device.memory_errors():
            return self.device.fetch(function(*map(self.device.send, arrays)))

    def check_memory(self, needed: int) -> None:
        held = [*self.blocks, *filter(None, self.subword_matrices)]
        free = self.device.free() + sum(matrix.nbytes for matrix in held)  # these are included in ``needed``
        if needed > free:
            raise Cr5Error(
                f"the fit needs {needed / 1e9:.1f} GB of memory, the {self.device.name} has {free / 1e9:.1f} GB free; "
                'use `engine="cpu"`, or lower `rank`'
            )

    def subset(self, selected: Mask) -> Self:
        result = self._without_documents()
        with self.device.memory_errors():
            for block in self.blocks:
                rows, concepts = block.select(selected)
                result._add(Block(self.device, block.language, rows, concepts))
        return result

    def fetch_documents(self, selected: Mask) -> tuple[dict[str, Sparse], dict[str, Ints]]:
        from scipy.sparse import csr_array

        blocks, numbers, fetch = {}, {}, self.device.cupy.asnumpy
        for lang, block in zip(self.langs, self.blocks, strict=True):
            rows, concepts = block.select(selected)
            small = np.int32 if len(rows.data) < 2**31 else np.int64  # SciPy wants one type for both
            indices, indptr = fetch(rows.indices).astype(small, copy=False), fetch(rows.indptr).astype(small)
            blocks[lang] = csr_array((fetch(rows.data), indices, indptr), shape=rows.shape)
            numbers[lang] = fetch(concepts)
        return blocks, numbers

    def fold(self, source: str, target: str) -> None:
        with self.device.memory_errors():
            for M, named in zip(self.subword_matrices, self.words.arrays, strict=True):
                named.pop(target, None)
                named[target] = self.device.cupy.array(named[source], order="C")
                if M:
                    M.X.add_product(M.transposed.multiply(named[source]), named[target])

    def round_words(self, name: str) -> None:
        with self.device.memory_errors():
            for named in self.words.arrays:
                self.device.round(named[name])

    def multiply(
        self, source: str, target: str, start: Sequence[Array] | None = None, *, may_round: bool = False
    ) -> None:
        starts: Sequence[Array | None] = start or [None] * len(self.blocks)
        with self.device.memory_errors():
            for block, V, named, row in zip(self.blocks, self.words.arrays, self.documents.arrays, starts, strict=True):
                named.pop(target, None)
                named[target] = block.X.multiply(V[source], start=row, may_round=may_round)

    def multiply_transposed(self, source: str, target: str, *, may_round: bool = False) -> None:
        with self.device.memory_errors():
            for block, U, named in zip(self.blocks, self.documents.arrays, self.words.arrays, strict=True):
                named.pop(target, None)
                named[target] = block.transposed.multiply(U.pop(source), may_round=may_round)

    def concept_sums(self, name: str) -> None:
        with self.device.memory_errors():
            first = self.documents.arrays[0][name]
            shape = self.concepts.sizes[0], first.shape[1]
            self.concepts.arrays[0].pop(name, None)
            sums = self.concepts.arrays[0][name] = self.device.cupy.zeros(shape, first.dtype)
            for block, G in zip(self.blocks, self.documents.arrays, strict=True):
                block.sums.add_product(G[name], sums)

    def broadcast_concepts(self, source: str, target: str) -> None:
        with self.device.memory_errors():
            S = self.concepts.arrays[0][source]
            for block, named in zip(self.blocks, self.documents.arrays, strict=True):
                named.pop(target, None)
                named[target] = block.take_concepts(S)

    def column_sums(self, target: str, power: int) -> None:
        with self.device.memory_errors():
            for block, named in zip(self.blocks, self.words.arrays, strict=True):
                ones = self.device.cupy.ones((block.X.shape[0], 1))
                named[target] = block.transposed.multiply(ones, power)

    def inverse_diagonal(self, source: str, target: str, ridge: float) -> None:
        cupy = self.device.cupy
        with self.device.memory_errors():
            for M, named in zip(self.subword_matrices, self.words.arrays, strict=True):
                diagonal = named[source]
                result = cupy.concatenate([1 / (diagonal + ridge), cupy.ones_like(diagonal)], axis=1)
                if M:
                    subword_diagonal = M.transposed.multiply(diagonal, 2)
                    both = cupy.concatenate([1 / (subword_diagonal + ridge), cupy.ones_like(subword_diagonal)], axis=1)
                    result += M.X.multiply(both, 2)
                named[target] = result


class GpuPartition(LocalPartition):
    """A dictionary of arrays on the GPU for every block."""

    def __init__(self, device: Device) -> None:
        super().__init__()
        self.device = device

    def map(self, function: Callable[..., Any], *arguments: Sequence[Any]) -> list[Any]:
        with self.device.memory_errors():
            function = self.device.send(function)
            blocks = zip(self.sizes, self.arrays, *arguments, strict=True)
            results = [
                self._map_one(function, size, named, map(self.device.send, each)) for size, named, *each in blocks
            ]
            return [self.device.fetch(result) for result in results]  # after all have been started

    def _map_one(self, function: Callable[..., Any], size: int, named: dict[str, Any], given: Iterable[Any]) -> Any:
        arguments = list(given)
        chunk = self.device.sizes.chunk_rows
        if size <= chunk:
            return function(named, *arguments)
        total = None
        fresh: dict[str, Any] = {}
        for begin in range(0, size, chunk):
            rows = slice(begin, begin + chunk)
            before = {name: array[rows] for name, array in named.items()}
            seen = dict(before)
            result = function(seen, *arguments)
            total = result if total is None else total + result
            changed = {name: value for name, value in seen.items() if value is not before.get(name)}
            for name, value in changed.items():  # a part of another array, which may be written into first, is copied
                if any(self.device.cupy.may_share_memory(value, other) for other in before.values()):
                    changed[name] = value.copy()
            for name, value in changed.items():
                if name not in fresh:
                    fits = name in named and (named[name].shape[1], named[name].dtype) == (value.shape[1], value.dtype)
                    shape = size, value.shape[1]
                    fresh[name] = named[name] if fits else self.device.cupy.empty(shape, value.dtype)
                fresh[name][rows] = value
        named |= fresh
        for name in before.keys() - seen.keys():
            del named[name]
        return total

    def get(self, name: str) -> list[Array]:
        return [self.device.copy(named[name]) for named in self.arrays]

    def set(self, name: str, arrays: Sequence[Array]) -> None:
        with self.device.memory_errors():
            for named, array in zip(self.arrays, arrays, strict=True):
                named[name] = self.device.cupy.array(array, order="C")
