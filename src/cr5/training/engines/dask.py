"""The engine of a cluster: shards of languages on Dask workers, which send each other rows of small blocks.

Every array is a Dask future, computed by a pure task from other futures and from small matrices, and never
written into: what is lost with a worker is computed again, to the same bits, from what the others still have.
A *slot* is a worker number, which another worker takes over when one is lost; a *handle* is a result that
stays on a worker, with its slot. The engine assigns everything to a slot once: shards in order, so that a language
is on few workers; the words of a language where most of its shards are; concepts in ranges, one for each slot.
"""

import copy
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cr5._typing import Array, Ints, Mask, Sparse
from cr5.corpus.documents import Batch, Document
from cr5.corpus.inputs import in_batches
from cr5.corpus.reading import CorpusReader
from cr5.errors import Cr5Error
from cr5.features.tokeniser import Tokeniser
from cr5.progress import ProgressCallback, no_progress
from cr5.training.counted_corpus import CountedCorpus, count_corpus
from cr5.training.distributed_corpus import count_corpus_on_workers
from cr5.training.engines import BlockInfo, dask_tasks
from cr5.training.engines.dask_partition import DaskPartition
from cr5.training.engines.dask_tasks import ArrayType, identity
from cr5.training.engines.dask_workers import Future, Workers

MIN_CUT_FRACTION = 0.1  # smallest part of a language that is cut off, relative to a worker's share of the data
REPLACEMENT_FACTOR = 1.5  # arrays are not written into, so old and new ones exist together during a fit


@dataclass(frozen=True)
class Handle:
    """A result that a worker holds, and the slot that it was assigned to."""

    future: Future
    slot: int


class DaskEngine:
    """Shards on the workers of a scheduler, or of a cluster of processes on this machine.

    ``workers`` is the number of processes to start where no scheduler is given. Shards have at most
    ``shard_bytes`` of CSR. When no worker is left, or the scheduler does not answer, the engine warns
    (``WorkersLost``), waits ``timeout_seconds`` and raises a ``ClusterError``.
    """

    def __init__(
        self,
        scheduler: str | None = None,
        workers: int | None = None,
        timeout_seconds: float = 25.0,
        shard_bytes: int = 256_000_000,
    ) -> None:
        self.workers = Workers(scheduler, workers, timeout_seconds)
        self.shard_bytes = shard_bytes
        self.langs: list[str] = []
        self.pending: list[_LocalDocuments | _RemoteDocuments] = []
        self.shards: list[_Shard] = []
        self.bounds: list[int] = []  # where the ranges of concepts begin and end
        self.occurring: list[Future] = []  # for every range, which of its concepts occur in every shard
        self.subword_matrices: list[Sparse | None] = []  # M of every language, until the workers have them
        self.subword_futures: list[Future] = []  # of every language if one has subwords, beside its words
        self.words, self.documents, self.concepts = (DaskPartition(self.workers, self._load_shards) for _ in range(3))

    def __enter__(self) -> "DaskEngine":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release all arrays; a cluster that this engine started is stopped."""
        self.workers.close()

    def count_words(
        self,
        documents: Iterable[Document] | Iterable[Batch],
        tokeniser: Tokeniser,
        *,
        threads: int | None = None,
        progress: ProgressCallback = no_progress,
    ) -> CountedCorpus:
        """Count words on the workers if the corpus is in files, else in this process."""
        if isinstance(documents, CorpusReader):
            return count_corpus_on_workers(self, documents, tokeniser, progress=progress)
        return count_corpus(in_batches(documents), tokeniser, threads=threads, progress=progress)

    # Nothing is loaded before all languages are known, so that each is on few workers.

    def put(self, lang: str, X: Sparse, concepts: Ints, subwords: Sparse | None = None) -> None:
        """Add documents x words that are in this process: their shards are sent inside their tasks."""
        self._add_pending(lang, _LocalDocuments(X, concepts, self.shard_bytes), subwords)

    def put_shards(
        self,
        lang: str,
        load: Callable[..., tuple[Sparse, Ints]],
        shard_inputs: Sequence[Sequence[Any]],
        subwords: Sparse | None = None,
    ) -> None:
        """Add the documents and concept numbers that ``load(*inputs)`` returns on a worker, shard by shard.

        Inputs may contain handles of ``map_items``: a shard is loaded where the first of these is.
        """
        if not shard_inputs:
            raise Cr5Error(f"language {lang} has no documents; leave it out")
        self._add_pending(lang, _RemoteDocuments(load, shard_inputs, self.shard_bytes), subwords)

    def _add_pending(self, lang: str, data: "_LocalDocuments | _RemoteDocuments", subwords: Sparse | None) -> None:
        if lang in self.langs:
            raise Cr5Error(f"language {lang} was added before; add every language once")
        if self.shards:
            raise Cr5Error(f"language {lang} comes after the first use of the others; add all languages first")
        self.langs.append(lang)
        self.pending.append(data)
        self.subword_matrices.append(subwords)

    def _load_shards(self) -> None:
        """Assign every shard to a slot, load it there, and create the blocks of the partitions."""
        if self.shards or not self.pending:
            return
        slots = self.workers.wait_for_workers()
        edges = np.concatenate([[0], np.cumsum([data.size for data in self.pending])])
        bounds = share_bounds(edges, slots)
        futures: list[tuple[int, int, Future]] = []
        for language, (data, begin) in enumerate(zip(self.pending, edges, strict=False)):
            futures += [(language, *each) for each in data.load(self.workers, bounds - begin)]
        described = self.workers.run(dask_tasks.describe_shard, [(slot, future) for _, slot, future in futures])
        self.pending = []
        count = max((last for *_, last in described), default=-1) + 1
        self.bounds = [count * i // slots for i in range(slots + 1)]
        subwords = [(0, 0) if M is None else (M.shape[1], int(M.nnz)) for M in self.subword_matrices]
        self._add([
            _Shard(future, slot, BlockInfo(language, *info[:-1], *subwords[language]))
            for (language, slot, future), info in zip(futures, described, strict=True)
        ])  # fmt: skip
        for language in range(len(self.langs)):
            shards = [shard for shard in self.shards if shard.info.language == language]
            documents = np.bincount([shard.slot for shard in shards], [shard.info.documents for shard in shards])
            self.words.add(shards[0].info.words, int(documents.argmax()))
        if any(shard.info.subwords for shard in self.shards):
            for M, words, slot in zip(self.subword_matrices, self.words.sizes, self.words.slots, strict=True):
                self.subword_futures.append(self.workers.submit_large(dask_tasks.subword_data, M, words, slot=slot))
        self.subword_matrices = []
        numbers = [(slot, *ends) for slot, ends in enumerate(itertools.pairwise(self.bounds))]
        for slot, begin, end in numbers:
            self.concepts.add(end - begin, slot)
        self.concepts.put("id", self.workers.submit_all(dask_tasks.concept_numbers, numbers), (1, np.dtype(np.int64)))

    def _add(self, shards: list["_Shard"]) -> None:
        """Add shards, and find out which concepts occur in them."""
        for slot, (begin, end) in enumerate(itertools.pairwise(self.bounds)):
            parts = self.workers.submit_all(
                dask_tasks.occurring_concepts, [(shard.slot, shard.future, begin, end) for shard in shards]
            )
            self.occurring.append(self.workers.submit(identity, parts, slot=slot))
        counts = self.workers.run(
            dask_tasks.count_occurring, [(shard.slot, shard.future, self.bounds) for shard in shards]
        )
        for shard, sizes in zip(shards, counts, strict=True):
            self.documents.add(shard.info.documents, shard.slot)
            self.shards.append(shard._replace(first=np.concatenate([[0], np.cumsum(sizes)])))

    def block_info(self) -> list[BlockInfo]:
        self._load_shards()
        return [shard.info for shard in self.shards]

    def compute(self, function: Callable[..., Any], *arrays: Array) -> Any:
        return function(*arrays)

    def check_memory(self, needed: int) -> None:
        limit, needed = self.workers.memory(), int(needed * REPLACEMENT_FACTOR)
        if needed > limit:
            raise Cr5Error(
                f"the fit needs {needed / 1e9:.1f} GB of memory, the workers have {limit / 1e9:.1f} GB together; "
                "start more workers, or lower `rank` or `max_words`"
            )

    def subset(self, selected: Mask) -> "DaskEngine":
        self._load_shards()
        mask = self.workers.submit_large(identity, selected)
        futures = self.workers.submit_all(
            dask_tasks.select_shard, [(shard.slot, shard.future, mask) for shard in self.shards]
        )
        tasks = [(shard.slot, future) for shard, future in zip(self.shards, futures, strict=True)]
        described = self.workers.run(dask_tasks.describe_shard, tasks)
        result = copy.copy(self)
        result.documents, result.shards, result.occurring = DaskPartition(self.workers, self._load_shards), [], []
        result._add([
            _Shard(future, shard.slot, shard.info._replace(documents=documents, nonzeros=nonzeros))
            for future, shard, (documents, _, nonzeros, *_) in zip(futures, self.shards, described, strict=True)
        ])  # fmt: skip
        return result

    def fetch_documents(self, selected: Mask) -> tuple[dict[str, Sparse], dict[str, Ints]]:
        from scipy.sparse import csr_array, vstack

        self._load_shards()
        mask = self.workers.submit_large(identity, selected)
        fetched: list[list[tuple[Sparse, Ints]]] = [[] for _ in self.langs]
        for shard in self.shards:
            rows = self.workers.submit(dask_tasks.select_rows, shard.future, mask, slot=shard.slot)
            fetched[shard.info.language] += self.workers.gather([rows])
        named = dict(zip(self.langs, fetched, strict=True))
        return (
            {lang: csr_array(vstack([X for X, _ in parts], format="csr")) for lang, parts in named.items()},
            {lang: np.concatenate([concepts for _, concepts in parts]) for lang, parts in named.items()},
        )

    # Products between the partitions.

    def fold(self, source: str, target: str) -> None:
        V = self._start_product(source)
        if self.subword_futures:
            V = self.workers.submit_all(
                dask_tasks.fold, list(zip(self.words.slots, self.subword_futures, V, strict=True))
            )
        self.words.put(target, V, self.words.types[source])

    def round_words(self, name: str) -> None:
        """Nothing: the workers' CPUs multiply numbers of single precision as fast."""

    def multiply(
        self, source: str, target: str, start: Sequence[Array] | None = None, *, may_round: bool = False
    ) -> None:
        V = self._start_product(source)
        starts: Sequence[Array | None] = start or [None] * len(self.shards)
        tasks = [
            (shard.slot, shard.future, V[shard.info.language], row)
            for shard, row in zip(self.shards, starts, strict=True)
        ]
        self.documents.put(target, self.workers.submit_all(dask_tasks.multiply, tasks), self.words.types[source])

    def _start_product(self, name: str) -> list[Future]:
        """words[name]; if it was multiplied before, its image is being replaced, and it is copied first.

        Everything that follows depends on these arrays alone: what is lost with a worker is then computed again from
        the copy on a second worker, not from the beginning.
        """
        self._load_shards()
        self.workers.refresh()
        V, slots = self.words.arrays[name], len(self.workers.slots)
        if name in self.documents.arrays and slots > 1:
            others = [(slot + 1) % slots for slot in self.words.slots]
            copies = self.workers.submit_all(identity, list(zip(others, V, strict=True)))
            both = list(zip(self.words.slots, copies, strict=True))
            V = self.words.arrays[name] = self.workers.submit_all(identity, both)
            self.workers.replicas = [(U, self.workers.slots[slot]) for U, slot in zip(copies, others, strict=True)]
        return V

    def multiply_transposed(self, source: str, target: str, *, may_round: bool = False) -> None:
        self._load_shards()
        arrays, array_type = self.documents.pop(source)
        self._add_to_words(target, dask_tasks.multiply_transposed, arrays, array_type)

    def column_sums(self, target: str, power: int) -> None:
        self._load_shards()
        self._add_to_words(target, dask_tasks.column_sums, [power] * len(self.shards), (1, np.dtype(float)))

    def inverse_diagonal(self, source: str, target: str, ridge: float) -> None:
        self._load_shards()
        matrices = self.subword_futures or [None] * len(self.langs)
        tasks = [
            (slot, diagonal, M, ridge)
            for slot, diagonal, M in zip(self.words.slots, self.words.arrays[source], matrices, strict=True)
        ]
        self.words.put(
            target, self.workers.submit_all(dask_tasks.inverse_diagonal_of_words, tasks), (2, np.dtype(float))
        )

    def _add_to_words(
        self, target: str, function: Callable[..., Array], arguments: list[Any], array_type: ArrayType
    ) -> None:
        """words[target] = the sum over a language's shards: one after another on each worker, then over the workers."""
        sums: list[dict[int, Future]] = [{} for _ in self.langs]
        for shard, argument in zip(self.shards, arguments, strict=True):
            by_slot, slot = sums[shard.info.language], shard.slot
            by_slot[slot] = self.workers.submit(function, shard.future, argument, by_slot.get(slot), slot=slot)
        parts = zip(self.words.slots, (list(by_slot.values()) for by_slot in sums), strict=True)
        self.words.put(target, self.workers.submit_all(dask_tasks.sum_arrays, list(parts)), array_type)

    def concept_sums(self, name: str) -> None:
        self._load_shards()
        array_type, pairs = self.documents.types[name], self._pairs()
        both = zip(self.shards, self.documents.arrays[name], strict=True)
        sums = self.workers.submit_all(
            dask_tasks.shard_concept_sums, [(shard.slot, shard.future, G) for shard, G in both]
        )
        cuts = [(self.shards[i].slot, sums[i], *self.shards[i].first[slot : slot + 2]) for i, slot in pairs]
        parts = dict(zip(pairs, self.workers.submit_all(dask_tasks.slice_rows, cuts), strict=True))
        tasks = []
        for slot, size in enumerate(self.concepts.sizes):
            shards = [i for i, where in pairs if where == slot]
            tasks.append((slot, (size, *array_type), self.occurring[slot], shards, [parts[i, slot] for i in shards]))
        self.concepts.put(name, self.workers.submit_all(dask_tasks.concept_sums, tasks), array_type)

    def broadcast_concepts(self, source: str, target: str) -> None:
        self._load_shards()
        S, array_type, pairs = self.concepts.arrays[source], self.concepts.types[source], self._pairs()
        taken = self.workers.submit_all(
            dask_tasks.take_concepts, [(slot, S[slot], self.occurring[slot], i) for i, slot in pairs]
        )
        parts: list[list[Future]] = [[] for _ in self.shards]
        for (i, _), rows in zip(pairs, taken, strict=True):
            parts[i].append(rows)
        tasks = [(shard.slot, shard.future, rows, array_type) for shard, rows in zip(self.shards, parts, strict=True)]
        self.documents.put(target, self.workers.submit_all(dask_tasks.document_rows, tasks), array_type)

    def _pairs(self) -> list[tuple[int, int]]:
        """(shard, range of concepts) where some of the range's concepts occur in the shard."""
        slots = range(len(self.bounds) - 1)
        return [(i, slot) for i, shard in enumerate(self.shards) for slot in slots if shard.occurring(slot)]

    # Other work on the workers, such as counting words.

    def map_items(self, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Handle]:
        slots = [i * self.workers.wait_for_workers() // len(items) for i in range(len(items))]
        futures = self.workers.submit_all(function, list(zip(slots, items, strict=True)))
        return [Handle(future, slot) for future, slot in zip(futures, slots, strict=True)]

    def call(self, function: Callable[..., Any], handles: Sequence[Handle], *arguments: Sequence[Any]) -> list[Any]:
        given = zip(handles, *arguments, strict=True)
        return self.workers.run(function, [(each[0].slot, *map(_future_or_value, each)) for each in given])


class _Shard(NamedTuple):
    """Some documents of a language; ``first``: where each range's concepts begin among those that occur."""

    future: Future
    slot: int
    info: BlockInfo
    first: Ints = np.zeros(1, np.int64)

    def occurring(self, slot: int) -> int:
        """The number of a range's concepts that occur."""
        return int(self.first[slot + 1] - self.first[slot])


class _LocalDocuments:
    """A language's documents in this process."""

    def __init__(self, X: Sparse, concepts: Ints, shard_bytes: int) -> None:
        self.X, self.concepts, self.shard_bytes = X, concepts, shard_bytes
        entry = X.data.itemsize + X.indices.itemsize
        self.weight = X.indptr.astype(np.int64) * entry + np.arange(len(X.indptr)) * X.indptr.itemsize
        self.size = int(self.weight[-1])

    def load(self, workers: Workers, bounds: Ints) -> Iterator[tuple[int, Future]]:
        """Slot and future of every shard; ``bounds`` separate the slots' shares of these bytes."""
        inside = [bound for bound in bounds if 0 < bound < self.size]
        for low, high in itertools.pairwise([0, *inside, self.size]):
            parts = max(1, -(-int(high - low) // self.shard_bytes))
            slot = int(np.searchsorted(bounds, (low + high) / 2))
            cuts = np.searchsorted(self.weight, np.linspace(low, high, parts + 1))
            for begin, end in itertools.pairwise(cuts):
                if end > begin or not self.size:
                    rows = slice(begin, end)
                    yield slot, workers.submit_large(dask_tasks.ShardData, self.X[rows], self.concepts[rows], slot=slot)


class _RemoteDocuments:
    """A language's documents that workers will load; each shard is assumed to have ``shard_bytes``."""

    def __init__(self, function: Callable[..., Any], shard_inputs: Sequence[Sequence[Any]], shard_bytes: int) -> None:
        self.function, self.shard_inputs, self.shard_bytes = function, shard_inputs, shard_bytes
        self.size = len(shard_inputs) * shard_bytes

    def load(self, workers: Workers, bounds: Ints) -> Iterator[tuple[int, Future]]:
        """Slot and future of every shard; ``bounds`` separate the slots' shares of these bytes."""
        for i, inputs in enumerate(self.shard_inputs):
            slot = int(np.searchsorted(bounds, (i + 0.5) * self.shard_bytes))
            slot = next((item.slot for item in inputs if isinstance(item, Handle)), slot)
            yield slot, workers.submit(dask_tasks.load_shard, self.function, *map(_future_or_value, inputs), slot=slot)


def _future_or_value(item: Any) -> Any:
    return item.future if isinstance(item, Handle) else item


def share_bounds(edges: Ints, slots: int) -> Ints:
    """The bounds between equal shares of all bytes, moved to a language's edge where that is near."""
    share = edges[-1] / slots
    bounds = share * np.arange(1, slots)
    nearest = edges[np.abs(bounds[:, None] - edges).argmin(axis=1)]
    near = np.abs(nearest - bounds) < MIN_CUT_FRACTION * share
    return np.asarray(np.where(near, nearest, bounds))
