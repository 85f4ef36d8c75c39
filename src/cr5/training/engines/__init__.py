"""Where the data lives and who multiplies with it.

An engine holds the documents of every language as a sparse matrix X, and three rooms of named dense
arrays: *words* (a row for every word of a language), *documents* (a row for every document of a
language, or of a shard of one) and *concepts*. Its verbs: *put* a language's documents once, *map* a
plain function over the rows of a room, NumPy in, NumPy out, and the four products that lead from
room to room. Nothing outside this folder names a device, a worker or a future.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from cr5._typing import Array, Ints, Mask, Sparse


class Facts(NamedTuple):
    """What one block of documents is like; ``language`` is its place in ``langs``."""

    language: int
    documents: int
    words: int
    nonzeros: int
    dtype: str


class Room(Protocol):
    """Named arrays that share their rows, block by block: a language, a shard of one, a range of concepts."""

    def map(self, function: Callable[..., Any], *arguments: Sequence[Any]) -> list[Any]:
        """Call ``function(rows, *one of each argument)`` for every block; returns a result for each.

        ``rows`` maps names to arrays. What the function assigns to a name is kept, what it deletes is
        forgotten; it never writes into an array. Each row must depend on its own row alone, and the
        result be a sum over rows: an engine may call the function on a few rows at a time and add up.
        """
        ...

    def get(self, name: str) -> list[Array]:
        """An array of every block, to be kept."""
        ...

    def set(self, name: str, arrays: Sequence[Array]) -> None:
        """Give every block an array."""
        ...


class Engine(Protocol):
    """Holds the data and runs functions next to it."""

    langs: list[str]

    @property
    def words(self) -> Room:
        """A block for every language."""
        ...

    @property
    def documents(self) -> Room:
        """A block for every shard."""
        ...

    @property
    def concepts(self) -> Room:
        """One block or more; ``id`` is there from the start, the number of every concept, concepts x 1."""
        ...

    def put(self, lang: str, X: Sparse, concepts: Ints) -> None:
        """Take in documents x words of one language and the concept number of every document."""
        ...

    def facts(self) -> list[Facts]:
        """What every block of ``documents`` is like."""
        ...

    def compute(self, function: Callable[..., Any], *arrays: Array) -> Any:
        """Call a function of small arrays where this engine calculates; an array comes back, or a tuple of them.

        The function may use NumPy's functions that know other arrays than NumPy's, and nothing else.
        """
        ...

    def reserve(self, needed: int) -> None:
        """Raise a Cr5Error that says what is needed where ``needed`` bytes are more than there are."""
        ...

    def part(self, kept: Mask) -> "Engine":
        """The documents of some concepts, over the same words and concepts: an engine that shares these rooms."""
        ...

    def take(self, kept: Mask) -> tuple[dict[str, Sparse], dict[str, Ints]]:
        """The documents of some concepts, here: rows and concept numbers by language."""
        ...

    def times(self, name: str) -> None:
        """documents[name] = X words[name]."""
        ...

    def transposed_times(self, source: str, target: str) -> None:
        """words[target] = X' documents[source]; documents[source] is forgotten."""
        ...

    def concept_sums(self, name: str) -> None:
        """concepts[name] = Y' documents[name]: the sum over each concept's documents."""
        ...

    def spread(self, source: str, target: str) -> None:
        """documents[target] = Y concepts[source]: each document gets its concept's row."""
        ...

    def column_sums(self, target: str, power: int) -> None:
        """words[target] = the sum of every column of X, or of its squares, words x 1, in double precision."""
        ...


@runtime_checkable
class Cluster(Engine, Protocol):
    """An engine of several machines, which also reads and counts: handles stand for what workers hold."""

    def spawn(self, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """Call ``function(item)`` for every item, wherever there is a worker; the results stay there."""
        ...

    def ask(self, function: Callable[..., Any], handles: Sequence[Any], *arguments: Sequence[Any]) -> list[Any]:
        """Call ``function(result, *one of each argument)`` next to every handle's result; these results come here."""
        ...

    def put_shards(self, lang: str, load: Callable[..., tuple[Sparse, Ints]], pieces: Sequence[Sequence[Any]]) -> None:
        """Take in one language, shard by shard, each made by ``load(*piece)`` next to the piece's first handle."""
        ...
