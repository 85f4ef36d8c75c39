"""The engine of a cluster: shards of languages on Dask workers, which send each other rows of small blocks.

Every array is a Dask future, made by a pure task from other futures and from small matrices, and never
written into: what a worker takes with it when it dies is computed again, to the same bits, from what the
others still have. Where a thing lives is decided here, once: shards in order, so that a language is
on few workers, the words of a language where most of its shards are, concepts in ranges, one a worker.
"""

import copy
import itertools
import logging
import threading
import time
import uuid
from asyncio import CancelledError as Cancelled
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from concurrent.futures import CancelledError
from concurrent.futures import Future as Outcome
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numba
import numpy as np
from scipy.sparse import csr_array, vstack

from cr5._typing import Array, Ints, Mask, Sparse
from cr5.cluster import connect_to_scheduler
from cr5.errors import Cr5Error
from cr5.machine import available_cores, available_memory
from cr5.training.engines import Facts
from cr5.training.engines.cpu import PANEL
from cr5.training.engines.kernels import Matrix

try:
    import dask
    from dask.sizeof import sizeof
    from distributed import KilledWorker, LocalCluster, get_worker
    from distributed.comm import CommClosedError
except ModuleNotFoundError as error:
    raise Cr5Error("the dask engine needs Dask; install it with pip install 'cr5[dask]'") from error

POLL = 0.1  # seconds between two looks at the cluster while waiting for it
SHARED = 10_000  # bytes of a function's arguments from which on they are sent once and not with every task
SNAP = 0.1  # of a worker's share: what is less than that is not worth cutting a language for
REPLACED = 1.5  # arrays are not written into, so for a moment there are the old and the new

STAY = {  # Dask's own ideas of where things should be: an idle worker draws tasks and arrays over, ...
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.active-memory-manager.start": False,  # ... and of two copies, the one at home may go
}

Future: TypeAlias = Any
GOES_ON = "and run the same command with --resume: it goes on from its checkpoint"
MORE = f"give the workers more, or start more of them, {GOES_ON}"


@dataclass(frozen=True)
class Handle:
    """Something that a worker keeps, and the place it was given."""

    future: Future
    place: int


class Moved(NamedTuple):
    """Rows that one worker receives in a step of the solver, by what they are for."""

    spread: int  # of concepts, for its documents
    sums: int  # of other workers' documents, for its concepts
    words: int  # of languages that live elsewhere, for its shards
    products: int  # partial sums of X'U, for the languages that live here


def bytes_per_step(moved: Moved, columns: int, active: int, older: int, itemsize: int, matrices: bool = True) -> int:
    """What a worker receives in a step: (columns (spread + products) + active (sums + words)) itemsize, and V.

    columns: of Z; active: of W; older: of P. V are the small matrices of the step, columns x (columns +
    older + active + 1), which all workers receive but the one that holds them (``matrices=False``).
    """
    rows = columns * (moved.spread + moved.products) + active * (moved.sums + moved.words)
    return itemsize * (rows + matrices * columns * (columns + older + active + 1))


class DaskEngine:
    """Shards on the workers of a scheduler, or of a cluster of processes on this machine.

    ``workers`` is how many processes to start where no scheduler is given. Shards have at most
    ``shard_bytes`` of CSR. When no worker is left, one has ``patience`` seconds to come back.
    """

    def __init__(
        self,
        scheduler: str | None = None,
        workers: int | None = None,
        patience: float = 60.0,
        shard_bytes: int = 256_000_000,
    ) -> None:
        self.cluster = Cluster(scheduler, workers, patience)
        self.shard_bytes = shard_bytes
        self.langs: list[str] = []
        self.waiting: list[_Given | _Loaded] = []
        self.shards: list[_Shard] = []
        self.bounds: list[int] = []  # where the ranges of concepts begin and end
        self.members: list[Future] = []  # for every range, which of its concepts occur in every shard
        self.words, self.documents, self.concepts = (DaskRoom(self.cluster, self._settle) for _ in range(3))

    def __enter__(self) -> "DaskEngine":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of everything; stops the cluster that this engine started."""
        self.cluster.close()

    # Data come in. Nothing is loaded before all languages are known, so that each is on few workers.

    def put(self, lang: str, X: Sparse, concepts: Ints) -> None:
        """Take in documents x words that are here already: their shards travel inside their tasks."""
        self._wait(lang, _Given(X, concepts, self.shard_bytes))

    def put_shards(self, lang: str, load: Callable[..., tuple[Sparse, Ints]], pieces: Sequence[Sequence[Any]]) -> None:
        """Take in the documents and concept numbers that ``load(*piece)`` returns on a worker, shard by shard.

        Pieces may contain handles of ``spawn``: they are loaded where the first of these is.
        """
        if not pieces:
            raise Cr5Error(f"language {lang} has no documents; leave it out")
        self._wait(lang, _Loaded(load, pieces, self.shard_bytes))

    def _wait(self, lang: str, data: "_Given | _Loaded") -> None:
        if lang in self.langs:
            raise Cr5Error(f"language {lang} was put before; put every language once")
        if self.shards:
            raise Cr5Error(f"language {lang} comes after the first use of the others; put all languages first")
        self.langs.append(lang)
        self.waiting.append(data)

    def _settle(self) -> None:
        """Give every shard a place, load it there, and furnish the rooms."""
        if self.shards or not self.waiting:
            return
        places = self.cluster.settle()
        edges = np.concatenate([[0], np.cumsum([data.size for data in self.waiting])])
        bounds = _shares(edges, places)
        futures: list[tuple[int, int, Future]] = []
        for language, (data, begin) in enumerate(zip(self.waiting, edges, strict=False)):
            futures += [(language, *each) for each in data.load(self.cluster, bounds - begin)]
        described = self.cluster.ask(_describe, [(place, future) for _, place, future in futures])
        self.waiting = []
        count = max((last for *_, last in described), default=-1) + 1
        self.bounds = [count * i // places for i in range(places + 1)]
        self._add([
            _Shard(future, place, Facts(language, *facts[:-1]))
            for (language, place, future), facts in zip(futures, described, strict=True)
        ])  # fmt: skip
        for language in range(len(self.langs)):
            own = [shard for shard in self.shards if shard.facts.language == language]
            held = np.bincount([shard.place for shard in own], [shard.facts.documents for shard in own])
            self.words.add(own[0].facts.words, int(held.argmax()))
        numbers = [(place, *ends) for place, ends in enumerate(itertools.pairwise(self.bounds))]
        for place, begin, end in numbers:
            self.concepts.add(end - begin, place)
        self.concepts.put("id", self.cluster.each(_numbers, numbers), (1, np.dtype(np.int64)))

    def _add(self, shards: list["_Shard"]) -> None:
        """Keep shards and find out which concepts are in them."""
        for place, (begin, end) in enumerate(itertools.pairwise(self.bounds)):
            parts = self.cluster.each(_members, [(shard.place, shard.future, begin, end) for shard in shards])
            self.members.append(self.cluster.submit(_together, parts, place=place))
        counts = self.cluster.ask(_count_members, [(shard.place, shard.future, self.bounds) for shard in shards])
        for shard, sizes in zip(shards, counts, strict=True):
            self.documents.add(shard.facts.documents, shard.place)
            self.shards.append(shard._replace(first=np.concatenate([[0], np.cumsum(sizes)])))

    def facts(self) -> list[Facts]:
        self._settle()
        return [shard.facts for shard in self.shards]

    def compute(self, function: Callable[..., Any], *arrays: Array) -> Any:
        return function(*arrays)

    def reserve(self, needed: int) -> None:
        limit, needed = self.cluster.memory(), int(needed * REPLACED)
        if needed > limit:
            raise Cr5Error(
                f"the fit needs {needed / 1e9:.1f} GB of memory, the workers have {limit / 1e9:.1f} GB together; "
                "start more workers, or lower --rank or max_words"
            )

    def part(self, kept: Mask) -> "DaskEngine":
        self._settle()
        mask = self.cluster.embed(_same, kept)
        futures = self.cluster.each(_select, [(shard.place, shard.future, mask) for shard in self.shards])
        tasks = [(shard.place, future) for shard, future in zip(self.shards, futures, strict=True)]
        described = self.cluster.ask(_describe, tasks)
        result = copy.copy(self)
        result.documents, result.shards, result.members = DaskRoom(self.cluster, self._settle), [], []
        result._add([
            _Shard(future, shard.place, Facts(shard.facts.language, *facts[:-1]))
            for future, shard, facts in zip(futures, self.shards, described, strict=True)
        ])  # fmt: skip
        return result

    def take(self, kept: Mask) -> tuple[dict[str, Sparse], dict[str, Ints]]:
        self._settle()
        mask = self.cluster.embed(_same, kept)
        found: list[list[tuple[Sparse, Ints]]] = [[] for _ in self.langs]
        for shard in self.shards:
            rows = self.cluster.submit(_rows_of, shard.future, mask, place=shard.place)
            found[shard.facts.language] += self.cluster.gather([rows])
        named = dict(zip(self.langs, found, strict=True))
        return (
            {lang: csr_array(vstack([X for X, _ in parts], format="csr")) for lang, parts in named.items()},
            {lang: np.concatenate([concepts for _, concepts in parts]) for lang, parts in named.items()},
        )

    # From room to room.

    def times(self, name: str) -> None:
        self._settle()
        self.cluster.look()
        if name in self.documents.arrays:
            self._anchor(name)
        V = self.words.arrays[name]
        tasks = [(shard.place, shard.future, V[shard.facts.language]) for shard in self.shards]
        self.documents.put(name, self.cluster.each(_times, tasks), self.words.kinds[name])

    def _anchor(self, name: str) -> None:
        """Keep words[name] on a second worker.

        When a product replaces an array, all that follows comes from the words' array alone. With this at
        hand, what dies with a worker is computed again from here and not from the beginning.
        """
        places = len(self.cluster.places)
        if places < 2:
            return
        V, homes = self.words.arrays[name], self.words.places
        others = [(place + 1) % places for place in homes]
        spares = self.cluster.each(_same, list(zip(others, V, strict=True)))
        self.words.arrays[name] = self.cluster.each(_same, list(zip(homes, spares, strict=True)))
        self.cluster.spares = [(V, self.cluster.places[place]) for V, place in zip(spares, others, strict=True)]

    def transposed_times(self, source: str, target: str) -> None:
        self._settle()
        arrays, kind = self.documents.pop(source)
        self._add_to_words(target, _transposed_times, arrays, kind)

    def column_sums(self, target: str, power: int) -> None:
        self._settle()
        self._add_to_words(target, _column_sums, [power] * len(self.shards), (1, np.dtype(float)))

    def _add_to_words(self, target: str, function: Callable[..., Array], arguments: list[Any], kind: "Kind") -> None:
        """words[target] = the sum over a language's shards: one after another on each worker, then over the workers."""
        sums: list[dict[int, Future]] = [{} for _ in self.langs]
        for shard, argument in zip(self.shards, arguments, strict=True):
            own, place = sums[shard.facts.language], shard.place
            own[place] = self.cluster.submit(function, shard.future, argument, own.get(place), place=place)
        parts = zip(self.words.places, (list(own.values()) for own in sums), strict=True)
        self.words.put(target, self.cluster.each(_sum, list(parts)), kind)

    def concept_sums(self, name: str) -> None:
        self._settle()
        kind, pairs = self.documents.kinds[name], self._pairs()
        both = zip(self.shards, self.documents.arrays[name], strict=True)
        sums = self.cluster.each(_member_sums, [(shard.place, shard.future, G) for shard, G in both])
        cuts = [(self.shards[i].place, sums[i], *self.shards[i].first[place : place + 2]) for i, place in pairs]
        parts = dict(zip(pairs, self.cluster.each(_slice, cuts), strict=True))
        tasks = []
        for place, size in enumerate(self.concepts.sizes):
            shards = [i for i, where in pairs if where == place]
            tasks.append((place, (size, *kind), self.members[place], shards, [parts[i, place] for i in shards]))
        self.concepts.put(name, self.cluster.each(_add_up, tasks), kind)

    def spread(self, source: str, target: str) -> None:
        self._settle()
        S, kind, pairs = self.concepts.arrays[source], self.concepts.kinds[source], self._pairs()
        taken = self.cluster.each(_take, [(place, S[place], self.members[place], i) for i, place in pairs])
        parts: list[list[Future]] = [[] for _ in self.shards]
        for (i, _), rows in zip(pairs, taken, strict=True):
            parts[i].append(rows)
        tasks = [(shard.place, shard.future, own, kind) for shard, own in zip(self.shards, parts, strict=True)]
        self.documents.put(target, self.cluster.each(_assemble, tasks), kind)

    def _pairs(self) -> list[tuple[int, int]]:
        """The shards and the ranges whose concepts occur in them."""
        places = range(len(self.bounds) - 1)
        return [(i, place) for i, shard in enumerate(self.shards) for place in places if shard.occurring(place)]

    def moved(self) -> list[Moved]:
        """The rows that every worker receives in a step of the solver."""
        self._settle()
        result = []
        for here in range(len(self.cluster.places)):
            own = [shard for shard in self.shards if shard.place == here]
            others = [shard for shard in self.shards if shard.place != here]
            pairs = {(shard.facts.language, shard.place) for shard in self.shards}
            homes = list(zip(self.words.places, self.words.sizes, strict=True))
            result.append(
                Moved(
                    spread=sum(int(shard.first[-1]) - shard.occurring(here) for shard in own),
                    sums=sum(shard.occurring(here) for shard in others),
                    words=sum(homes[lang][1] for lang, place in pairs if place == here != homes[lang][0]),
                    products=sum(homes[lang][1] for lang, place in pairs if place != here == homes[lang][0]),
                )
            )
        return result

    # Other work on the cluster: building features, say.

    def spawn(self, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Handle]:
        """Run ``function(item)`` for every item on some worker, neighbours together, and keep the results there."""
        places = [i * self.cluster.settle() // len(items) for i in range(len(items))]
        futures = self.cluster.each(function, list(zip(places, items, strict=True)))
        return [Handle(future, place) for future, place in zip(futures, places, strict=True)]

    def ask(self, function: Callable[..., Any], handles: Sequence[Handle], *arguments: Sequence[Any]) -> list[Any]:
        """Run ``function(result, *one of each argument)`` next to every handle's result; returns what it returns."""
        given = zip(handles, *arguments, strict=True)
        return self.cluster.ask(function, [(handle.place, handle.future, *each) for handle, *each in given])


Kind: TypeAlias = tuple[int, Any]  # columns and dtype


class _Shard(NamedTuple):
    """Where some documents are; ``first``: where the concepts of every range begin among those that occur."""

    future: Future
    place: int
    facts: Facts
    first: Ints = np.zeros(1, np.int64)

    def occurring(self, place: int) -> int:
        """How many concepts of a range occur."""
        return int(self.first[place + 1] - self.first[place])


class _Given:
    """A language's documents that are here."""

    def __init__(self, X: Sparse, concepts: Ints, shard_bytes: int) -> None:
        self.X, self.concepts, self.shard_bytes = X, concepts, shard_bytes
        entry = X.data.itemsize + X.indices.itemsize
        self.weight = X.indptr.astype(np.int64) * entry + np.arange(len(X.indptr)) * X.indptr.itemsize
        self.size = int(self.weight[-1])

    def load(self, cluster: "Cluster", bounds: Ints) -> Iterator[tuple[int, Future]]:
        """Place and future of every shard; ``bounds`` are those between the workers' shares of these bytes."""
        inside = [bound for bound in bounds if 0 < bound < self.size]
        for low, high in itertools.pairwise([0, *inside, self.size]):
            parts = max(1, -(-int(high - low) // self.shard_bytes))
            place = int(np.searchsorted(bounds, (low + high) / 2))
            cuts = np.searchsorted(self.weight, np.linspace(low, high, parts + 1))
            for begin, end in itertools.pairwise(cuts):
                if end > begin or not self.size:
                    rows = slice(begin, end)
                    yield place, cluster.embed(_Documents, self.X[rows], self.concepts[rows], place=place)


class _Loaded:
    """A language's documents that workers will read; each shard is taken to be full."""

    def __init__(self, function: Callable[..., Any], pieces: Sequence[Sequence[Any]], shard_bytes: int) -> None:
        self.function, self.pieces, self.shard_bytes = function, pieces, shard_bytes
        self.size = len(pieces) * shard_bytes

    def load(self, cluster: "Cluster", bounds: Ints) -> Iterator[tuple[int, Future]]:
        """Place and future of every shard; ``bounds`` are those between the workers' shares of these bytes."""
        for i, piece in enumerate(self.pieces):
            place = int(np.searchsorted(bounds, (i + 0.5) * self.shard_bytes))
            place = next((item.place for item in piece if isinstance(item, Handle)), place)
            given = [item.future if isinstance(item, Handle) else item for item in piece]
            yield place, cluster.submit(_load, self.function, *given, place=place)


def _shares(edges: Ints, places: int) -> Ints:
    """The bounds between equal shares of all bytes, moved to a language's edge where that is near."""
    share = edges[-1] / places
    bounds = share * np.arange(1, places)
    nearest = edges[np.abs(bounds[:, None] - edges).argmin(axis=1)]
    near = np.abs(nearest - bounds) < SNAP * share
    return np.asarray(np.where(near, nearest, bounds))


class DaskRoom:
    """A future for every block of every name.

    Each function is first called here, on a single row of ones: that tells which names it reads, and what
    it writes and forgets, so that a new array depends on what it was made from and on nothing else.
    """

    def __init__(self, cluster: "Cluster", settle: Callable[[], None]) -> None:
        self.cluster, self.settle = cluster, settle
        self.sizes: list[int] = []
        self.places: list[int] = []
        self.arrays: dict[str, list[Future]] = {}
        self.kinds: dict[str, Kind] = {}

    def add(self, rows: int, place: int) -> None:
        self.sizes.append(rows)
        self.places.append(place)

    def put(self, name: str, arrays: list[Future], kind: Kind) -> None:
        self.arrays[name], self.kinds[name] = arrays, kind

    def pop(self, name: str) -> tuple[list[Future], Kind]:
        return self.arrays.pop(name), self.kinds.pop(name)

    def map(self, function: Callable[..., Any], *arguments: Sequence[Any]) -> list[Any]:
        self.settle()
        rows = _Watched(self.kinds)
        with np.errstate(all="ignore"):
            returns = function(rows, *(each[0] for each in arguments)) is not None
        read, written = sorted(rows.read), rows.written
        call, outcome = self.cluster.share(function), (list(written), returns)
        tasks = [
            (place, call, size, {name: self.arrays[name][i] for name in read}, list(each), outcome)
            for i, (place, size, *each) in enumerate(zip(self.places, self.sizes, *arguments, strict=True))
        ]
        for name in rows.forgotten:
            self.pop(name)
        count = len(written) + returns
        results = self.cluster.each(_apply, tasks) if count else []
        parts = [results]
        if count > 1:
            parts = [
                self.cluster.each(_item, [(place, each, i) for place, each in zip(self.places, results, strict=True)])
                for i in range(count)
            ]
        for (name, kind), part in zip(written.items(), parts, strict=False):
            self.put(name, part, kind)
        return self.cluster.gather(parts[-1]) if returns else [None] * len(self.sizes)

    def get(self, name: str) -> list[Array]:
        self.settle()
        # One after another: all of them at once would meet in the scheduler's memory.
        return [array for future in self.arrays[name] for array in self.cluster.gather([future])]

    def set(self, name: str, arrays: Sequence[Array]) -> None:
        self.settle()
        both = zip(arrays, self.places, strict=True)
        futures = [self.cluster.embed(_same, array, place=place) for array, place in both]
        self.put(name, futures, (arrays[0].shape[1], arrays[0].dtype))


class _Watched(MutableMapping[str, Array]):
    """Arrays of one row, and what a function does with them."""

    def __init__(self, kinds: dict[str, Kind]) -> None:
        self.arrays = {name: np.ones((1, columns), dtype) for name, (columns, dtype) in kinds.items()}
        self.before = dict(self.arrays)
        self.read: set[str] = set()

    @property
    def written(self) -> dict[str, Kind]:
        """The names that were assigned, with what they are like now."""
        new = {name: array for name, array in self.arrays.items() if array is not self.before.get(name)}
        return {name: (array.shape[1], array.dtype) for name, array in new.items()}

    @property
    def forgotten(self) -> list[str]:
        """The names that are no more."""
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


class Cluster:
    """The workers: submits tasks to places, and waits for results with an eye on who is still there.

    A place is a number; ``places`` says which worker it is at the moment. It is a wish: a task whose
    worker is gone runs on another.
    """

    def __init__(self, scheduler: str | None, workers: int | None, patience: float) -> None:
        self.patience = patience
        self.own: Any = None
        if scheduler is None:
            with dask.config.set(STAY):
                self.own = LocalCluster(
                    n_workers=workers or available_cores(),
                    threads_per_worker=1,
                    host="127.0.0.1",
                    dashboard_address="127.0.0.1:0",
                    worker_dashboard_address="127.0.0.1:0",
                    silence_logs=logging.CRITICAL,  # a worker that died is dealt with here
                )
        self.address = self.own.scheduler_address if self.own else str(scheduler)
        self.client = connect_to_scheduler(self.address, timeout_seconds=min(patience, 10))
        self.places: list[str] = []
        self.spares: list[tuple[Future, str]] = []  # copies against a loss, and the workers that keep them
        self.alone: float | None = None  # since when there has been no worker
        self.paused: dict[str, float] = {}  # since when workers have taken no tasks, for lack of memory
        self.checked = 0.0
        self.name, self.tasks = uuid.uuid4().hex, itertools.count()
        self.shared: tuple[Any, Any] = None, None

    def close(self) -> None:
        """Leave the cluster, or end it where it was started here."""
        self.spares, self.shared = [], (None, None)
        self.client.close()
        if self.own:
            self.own.close()

    def settle(self) -> int:
        """Make a place of every worker; returns how many they are."""
        while not self.places:
            self.look()
            if not self.places:
                time.sleep(POLL)
        return len(self.places)

    def submit(self, function: Callable[..., Any], *arguments: Any, place: int = 0) -> Future:
        """A future of ``function(*arguments)``; futures among the arguments stand for their results."""
        return self.client.submit(function, *arguments, key=self._key(function), **self._wish(place))

    def each(self, function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]) -> list[Future]:
        """A future for every task, which is a place and arguments: few messages, however many tasks."""
        found: list[Future] = [None] * len(tasks)
        for place in sorted({task[0] for task in tasks}):
            here = [i for i, task in enumerate(tasks) if task[0] == place]
            columns = [list(column) for column in zip(*(tasks[i][1:] for i in here), strict=True)]
            keys = [self._key(function) for _ in here]
            for i, future in zip(here, self.client.map(function, *columns, key=keys, **self._wish(place)), strict=True):
                found[i] = future
        return found

    def _key(self, function: Callable[..., Any]) -> str:
        return f"{getattr(function, '__name__', 'task').strip('_<>')}-{self.name}-{next(self.tasks)}"

    def _wish(self, place: int) -> dict[str, Any]:
        return {"workers": self.places[place : place + 1] or None, "allow_other_workers": bool(self.places)}

    def embed(self, function: Callable[..., Any], *arguments: Any, place: int = 0) -> Future:
        """The same with large arguments, without Dask's advice against them: the task has to carry its data."""
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": 2**60}):
            return self.submit(function, *arguments, place=place)

    def share(self, function: Callable[..., Any]) -> Any:
        """A function as its parts, whose size Dask can see; a future of them where they are large."""
        if function is self.shared[0]:  # the same matrices for one room after the other
            return self.shared[1]
        call: Any = (function, (), {})
        if isinstance(function, partial):
            call = (function.func, function.args, function.keywords)
        if sizeof(call) > SHARED:
            call = self.embed(_same, call)
        self.shared = function, call
        return call

    def gather(self, futures: Sequence[Future]) -> list[Any]:
        """The results, here."""
        return list(self.wait(self.client.gather, list(futures)))

    def ask(self, function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]) -> list[Any]:
        """The results of ``each``, here."""
        return self.gather(self.each(function, tasks))

    def memory(self) -> int:
        """The bytes that all workers together may use."""
        self.settle()
        return sum(self.wait(partial(self.client.run, _memory_limit, on_error="ignore")).values())

    def wait(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What the client's function returns, or a Cr5Error where the cluster will never answer."""
        outcome = _begin(function, *arguments)
        while True:
            try:
                return outcome.result(POLL)
            except KilledWorker as error:
                times = error.allowed_failures + 1
                raise Cr5Error(
                    f"a task has lost its worker {times} times in a row, probably for lack of memory; {MORE}"
                ) from error
            except (Cancelled, CancelledError, CommClosedError) as error:
                raise self._gone() from error
            except TimeoutError:
                if outcome.done() and isinstance(outcome.exception(), TimeoutError):
                    raise
            self.look()
            self._check_memory()

    def look(self) -> None:
        """See which workers are there, and give the places of those that are gone to others."""
        try:
            there = sorted(_begin(self.client.nthreads).result(max(self.patience, 5)))
        except (OSError, TimeoutError, Cancelled, CancelledError) as error:
            raise self._gone() from error
        if not there:
            self.alone = self.alone or time.monotonic()
            if time.monotonic() - self.alone > self.patience:
                raise Cr5Error(
                    f"the cluster at {self.address} has had no worker for {self.patience:g} s; start workers {GOES_ON}"
                )
            return
        self.alone = None
        self.places = _moved_in(self.places or there, there)
        # A copy that is lost is not worth computing again; its original is still there.
        self.spares = [(spare, worker) for spare, worker in self.spares if worker in there]

    def _check_memory(self) -> None:
        """Dask pauses a worker that is nearly full; one that stays so will never do its tasks."""
        now = time.monotonic()
        if now - self.checked < self.patience / 4:
            return
        self.checked = now
        try:
            states = _begin(partial(self.client.run, _status, on_error="ignore")).result(self.patience)
        except (OSError, TimeoutError, Cancelled, CancelledError):
            return  # busy, or gone: ``look`` will tell
        self.paused = {w: self.paused.get(w, now) for w, state in states.items() if state == "paused"}
        for worker, since in self.paused.items():
            if now - since >= self.patience:
                raise Cr5Error(f"worker {worker} has been out of memory for {self.patience:g} s; {MORE}")

    def _gone(self) -> Cr5Error:
        return Cr5Error(f"the scheduler at {self.address} is gone; start it and its workers {GOES_ON}")


def _moved_in(places: list[str], there: list[str]) -> list[str]:
    """The same places, shared out evenly among the workers that are there, with as few moves as can be."""
    most = -(-len(places) // len(there))
    kept = [worker if worker in there and places[:i].count(worker) < most else "" for i, worker in enumerate(places)]
    for i, worker in enumerate(kept):
        kept[i] = worker or min(there, key=kept.count)
    return kept


def _begin(function: Callable[..., Any], *arguments: Any) -> "Outcome[Any]":
    """Run a function in a thread that nobody has to wait for."""
    outcome: Outcome[Any] = Outcome()

    def run() -> None:
        try:
            outcome.set_result(function(*arguments))
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return outcome


# What runs on the workers. Nothing is written into what is given: it may be needed again.

_TURN = threading.Lock()  # parallel kernels take turns: not every threading layer of Numba allows two at once


def _multiply(matrix: Matrix, V: Array) -> Array:
    """X V on as many cores as the worker has threads."""
    with _TURN:
        numba.set_num_threads(min(get_worker().state.nthreads, numba.config.NUMBA_NUM_THREADS))
        return matrix @ V


class _Documents:
    """A shard: its documents by rows and by columns, and the concepts that occur, in order.

    members: occurring concepts x documents, one-hot; place: the row of every document's concept there.
    """

    def __init__(self, X: Sparse, concepts: Ints) -> None:
        self.concepts = np.asarray(concepts)
        self.rows, self.columns = Matrix(X), Matrix(X.T.tocsr())
        self.occurring, self.place = np.unique(self.concepts, return_inverse=True)
        count, index = len(self.concepts), X.indices.dtype
        indptr = np.searchsorted(self.concepts, self.occurring, sorter=(order := np.argsort(self.place, kind="stable")))
        arrays = np.ones(count, X.dtype), order.astype(index), np.append(indptr, count).astype(index)
        self.members = Matrix(csr_array(arrays, shape=(len(self.occurring), count)))

    def __sizeof__(self) -> int:
        matrices = [matrix.X for matrix in (self.rows, self.columns, self.members)]
        arrays = [array for X in matrices for array in (X.data, X.indices, X.indptr)]
        return sum(array.nbytes for array in [*arrays, self.concepts, self.occurring, self.place])


def _load(load: Callable[..., tuple[Sparse, Ints]], *piece: Any) -> _Documents:
    return _Documents(*load(*piece))


def _select(documents: _Documents, kept: Mask) -> _Documents:
    return _Documents(*_rows_of(documents, kept))


def _rows_of(documents: _Documents, kept: Mask) -> tuple[Sparse, Ints]:
    rows = np.flatnonzero(kept[documents.concepts])
    return documents.rows.X[rows], documents.concepts[rows]


def _describe(documents: _Documents) -> tuple[int, int, int, str, int]:
    """Documents, words, nonzeros, dtype, and the last concept."""
    X = documents.rows.X
    return *X.shape, int(X.nnz), str(X.dtype), int(documents.concepts.max(initial=-1))


def _count_members(documents: _Documents, bounds: list[int]) -> Ints:
    """How many concepts of every range occur."""
    return np.diff(np.searchsorted(documents.occurring, bounds))


def _members(documents: _Documents, begin: int, end: int) -> Ints:
    """The concepts of a range that occur, counted from its beginning."""
    first, last = np.searchsorted(documents.occurring, [begin, end])
    return documents.occurring[first:last] - begin


def _together(parts: list[Ints]) -> list[Ints]:
    return parts


def _numbers(begin: int, end: int) -> Ints:
    return np.arange(begin, end)[:, None]


def _same(thing: Any) -> Any:
    return thing


def _item(parts: Sequence[Any], i: int) -> Any:
    return parts[i]


def _slice(rows: Array, begin: int, end: int) -> Array:
    return rows[begin:end]


def _times(documents: _Documents, V: Array) -> Array:
    return _multiply(documents.rows, V)


def _transposed_times(documents: _Documents, U: Array, before: Array | None) -> Array:
    product = _multiply(documents.columns, U)
    return product if before is None else np.add(product, before, out=product)


def _column_sums(documents: _Documents, power: int, before: Array | None) -> Array:
    X = documents.rows.X
    total = np.zeros(X.shape[1]) if before is None else before[:, 0].copy()
    for begin in range(0, X.nnz, 2**22):
        part = slice(begin, begin + 2**22)
        total += np.bincount(X.indices[part], X.data[part].astype(np.float64) ** power, minlength=X.shape[1])
    return total[:, None]


def _sum(parts: list[Array]) -> Array:
    if len(parts) == 1:
        return parts[0]
    total = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total


def _member_sums(documents: _Documents, G: Array) -> Array:
    """The sum of G over the documents of every concept that occurs."""
    return _multiply(documents.members, G)


def _add_up(shape: tuple[int, int, Any], members: list[Ints], shards: list[int], parts: list[Array]) -> Array:
    """The sums of a range of concepts, from those of its shards."""
    total = np.zeros(shape[:2], shape[2])
    for shard, part in zip(shards, parts, strict=True):
        total[members[shard]] += part
    return total


def _take(S: Array, members: list[Ints], shard: int) -> Array:
    """The rows of the concepts that occur in a shard."""
    return S[members[shard]]


def _assemble(documents: _Documents, parts: list[Array], kind: Kind) -> Array:
    """A row for every document, from those of the concepts that occur, range by range."""
    if not parts:
        return np.empty((0, kind[0]), kind[1])
    return np.concatenate(parts)[documents.place]


def _apply(
    call: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]],
    size: int,
    given: dict[str, Array],
    each: list[Any],
    outcome: tuple[list[str], bool],
) -> Any:
    """Call a function on a few rows at a time: what it writes, and the sum of what it returns, in this order."""
    (function, first, named), (written, returns) = call, outcome
    fresh: dict[str, Array] = {}
    total = None
    for begin in range(0, max(size, 1), PANEL):
        rows = slice(begin, begin + PANEL)
        seen = {name: array[rows] for name, array in given.items()}
        result = function(*first, seen, *each, **named)
        total = result if total is None else total + result
        for name in written:
            if name not in fresh:
                fresh[name] = np.empty((size, seen[name].shape[1]), seen[name].dtype)
            fresh[name][rows] = seen[name]
    parts = [fresh[name] for name in written] + [total] * returns
    return parts[0] if len(parts) == 1 else parts


def _memory_limit(dask_worker: Any) -> int:
    return int(dask_worker.memory_manager.memory_limit or available_memory())


def _status(dask_worker: Any) -> str:
    return str(dask_worker.status.name)
