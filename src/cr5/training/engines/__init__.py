"""Engines: where the arrays of a fit are, and where they are multiplied.

An engine holds the documents in every language as a sparse matrix X, documents x words; the weights of its subwords,
such as character n-grams, in its words as a sparse matrix M, words x subwords; and three partitions of named dense
arrays: *words* (a row for every word of a language), *documents* (a row for every document of a language, or of a shard
of one) and *concepts*. It can add a language's documents, apply a plain function to the rows of a partition, NumPy in,
NumPy out, and compute the products that lead from one partition to another. Nothing outside this package names the
device or the worker that holds arrays of a fit.

Three words for parts:

    block  the part of a partition that one array covers, such as one language or one shard
    shard  a range of a language's documents on one worker
    chunk  some neighbouring rows, as many as a function is called on at a time
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from cr5._typing import Array, Ints, Mask, Sparse
from cr5.progress import ProgressCallback, no_progress

if TYPE_CHECKING:  # solver and engines also run where no library that reads corpora is installed
    from cr5.corpus.documents import Batch, Document
    from cr5.features.tokeniser import Tokeniser
    from cr5.training.counted_corpus import CountedCorpus


class BlockInfo(NamedTuple):
    """The size and dtype of one block of documents; ``language`` is its position in ``langs``.

    ``subwords`` and ``subword_nonzeros`` are the columns and nonzeros of its language's M, 0 without one.
    """

    language: int
    documents: int
    words: int
    nonzeros: int
    dtype: str
    subwords: int = 0
    subword_nonzeros: int = 0


class Partition(Protocol):
    """Named arrays that share their rows, block by block: a language, a shard of one, a range of concepts."""

    def map(self, function: Callable[..., Any], *arguments: Sequence[Any]) -> list[Any]:
        """Call ``function(rows, *one of each argument)`` for every block; returns a result for each.

        ``rows`` is a dict of arrays by name. An array that the function assigns to a name is stored, a name that it
        deletes is deleted; it never writes into an array. Each row must depend on its own row alone, and the
        result must be a sum over rows: an engine may call the function on a few rows at a time and add up.
        """
        ...

    def get(self, name: str) -> list[Array]:
        """A copy of an array of every block."""
        ...

    def set(self, name: str, arrays: Sequence[Array]) -> None:
        """Store an array in every block."""
        ...


class Engine(Protocol):
    """Holds the data of a fit and runs functions where the data is.

    An engine that starts what has to be stopped, such as a cluster, is a context manager.
    """

    langs: list[str]

    @property
    def words(self) -> Partition:
        """A block for every language."""
        ...

    @property
    def documents(self) -> Partition:
        """A block for every shard."""
        ...

    @property
    def concepts(self) -> Partition:
        """One block or more; ``id`` exists from the start, the number of every concept, concepts x 1."""
        ...

    def count_words(
        self,
        documents: "Iterable[Document] | Iterable[Batch]",
        tokeniser: "Tokeniser",
        *,
        threads: int | None = None,
        progress: ProgressCallback = no_progress,
    ) -> "CountedCorpus":
        """Read a corpus and count its words, where this engine can hold the counts."""
        ...

    def put(self, lang: str, X: Sparse, concepts: Ints, subwords: Sparse | None = None) -> None:
        """Add documents x words of one language, the concept number of every document, and words x subwords."""
        ...

    def block_info(self) -> list[BlockInfo]:
        """The size and dtype of every block of ``documents``."""
        ...

    def compute(self, function: Callable[..., Any], *arrays: Array) -> Any:
        """Call a function of small arrays on this engine's device; an array comes back, or a tuple of them.

        The function may use only those NumPy functions that also take arrays of other libraries.
        """
        ...

    def check_memory(self, needed: int) -> None:
        """Raise a Cr5Error that says what to do if ``needed`` bytes are more than there are."""
        ...

    def subset(self, selected: Mask) -> "Engine":
        """An engine with the documents of the selected concepts that shares all partitions but documents."""
        ...

    def fetch_documents(self, selected: Mask) -> tuple[dict[str, Sparse], dict[str, Ints]]:
        """The documents of the selected concepts, in this process: rows and concept numbers by language.

        They are in the order in which they were added.
        """
        ...

    def fold(self, source: str, target: str) -> None:
        """words[target] = (I + M M') words[source], a copy for a language without subwords.

        This adds to the row of every word what its subwords contribute; the result is called *folded*.
        """
        ...

    def round_words(self, name: str) -> None:
        """Round words[name] to bfloat16, in place, if this engine does so in products that ``may_round``."""
        ...

    def multiply(
        self, source: str, target: str, start: Sequence[Array] | None = None, *, may_round: bool = False
    ) -> None:
        """documents[target] = X words[source], plus ``start``, a row for each block, in every row.

        With ``may_round``, words[source] may be rounded to bfloat16 for the product, if that is faster.
        """
        ...

    def multiply_transposed(self, source: str, target: str, *, may_round: bool = False) -> None:
        """words[target] = X' documents[source], perhaps rounded as in ``multiply``; documents[source] is deleted."""
        ...

    def concept_sums(self, name: str) -> None:
        """concepts[name] = Y' documents[name]: the sum over each concept's documents."""
        ...

    def broadcast_concepts(self, source: str, target: str) -> None:
        """documents[target] = Y concepts[source]: each document gets its concept's row."""
        ...

    def column_sums(self, target: str, power: int) -> None:
        """words[target] = the sum of every column of X, or of its squares, words x 1, in double precision."""
        ...

    def inverse_diagonal(self, source: str, target: str, ridge: float) -> None:
        """words[target] = the sums of w / (d + ridge) and of w over every word's features: a Jacobi preconditioner.

        The features are the word itself, with w = 1 and d = words[source], words x 1, and its subwords, with w = the
        square of its element of M, and d = the sum of w words[source] over the words that have it. The sums are in
        double precision.
        """
        ...


class DistributedEngine(Engine, Protocol):
    """An engine of several machines, whose workers also read and count: handles stand for results they hold."""

    def map_items(self, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """Call ``function(item)`` for every item on some worker, neighbours together; returns handles of results."""
        ...

    def call(self, function: Callable[..., Any], handles: Sequence[Any], *arguments: Sequence[Any]) -> list[Any]:
        """Call ``function(result, *one of each argument)`` where every handle's result is; the results come here.

        Arguments may be handles themselves.
        """
        ...

    def put_shards(
        self,
        lang: str,
        load: Callable[..., tuple[Sparse, Ints]],
        shard_inputs: Sequence[Sequence[Any]],
        subwords: Sparse | None = None,
    ) -> None:
        """Add one language, shard by shard, each made by ``load(*inputs)`` where the first handle of its inputs is."""
        ...
