"""What engines within one process share: a block of documents for every language, and arrays by block and name."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from cr5._typing import Array
from cr5.progress import ProgressCallback, no_progress

if TYPE_CHECKING:
    from cr5.corpus.documents import Batch, Document
    from cr5.features.tokeniser import Tokeniser
    from cr5.storage.scratch import ScratchArrays
    from cr5.training.counted_corpus import CountedCorpus


class LocalPartition(ABC):
    """The number of rows of every block, and its arrays by name."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.arrays: list[dict[str, Any]] = []

    def add(self, rows: int) -> None:
        """Add a block without arrays."""
        self.sizes.append(rows)
        self.arrays.append({})

    @abstractmethod
    def map(self, function: Callable[..., Any], *arguments: Sequence[Any]) -> list[Any]: ...

    @abstractmethod
    def get(self, name: str) -> list[Array]: ...

    @abstractmethod
    def set(self, name: str, arrays: Sequence[Array]) -> None: ...


class LocalEngine:
    """Languages, blocks and partitions; word counts are arrays in memory, or ``scratch`` arrays.

    A subclass adds all other methods of ``Engine``: ``put``, which calls ``_add_language`` and ``_add_block``,
    ``block_info`` with ``_subword_info``, ``subset`` with ``_without_documents``, ``compute``, ``check_memory``,
    ``fetch_documents``, and the products and sums.
    """

    scratch: "ScratchArrays | None" = None

    def __init__(self, make_partition: Callable[[], LocalPartition]) -> None:
        self._make_partition = make_partition
        self.langs: list[str] = []
        self.blocks: list[Any] = []
        self.subword_matrices: list[Any | None] = []  # M of every language, None without one
        self.words, self.documents, self.concepts = (make_partition() for _ in range(3))

    def count_words(
        self,
        documents: "Iterable[Document] | Iterable[Batch]",
        tokeniser: "Tokeniser",
        *,
        threads: int | None = None,
        progress: ProgressCallback = no_progress,
    ) -> "CountedCorpus":
        from cr5.corpus.inputs import in_batches
        from cr5.training.counted_corpus import count_corpus

        batches = in_batches(documents)
        return count_corpus(batches, tokeniser, threads=threads, scratch=self.scratch, progress=progress)

    def round_words(self, name: str) -> None:
        """Nothing: a CPU multiplies numbers of single precision as fast."""

    def _add_language(self, lang: str, words: int, matrix: Any | None) -> None:
        """Add a language without documents.

        ``matrix`` is its M in the engine's own form, with the attributes ``nonzeros`` and ``X``, whose shape is words x
        subwords; None for a language without subwords.
        """
        self.langs.append(lang)
        self.words.add(words)
        self.subword_matrices.append(matrix)

    def _without_documents(self) -> Self:
        """An engine of the same class and options that shares the languages and all partitions but documents."""
        result = copy(self)
        result.blocks, result.documents = [], self._make_partition()
        return result

    def _subword_info(self, block: Any) -> tuple[int, int]:
        """The columns and nonzeros of M of a block's language."""
        M = self.subword_matrices[block.language]
        return (M.X.shape[1], M.nonzeros) if M else (0, 0)

    def _add_block(self, block: Any, documents: int, concepts: int) -> None:
        """Add a block of documents, whose concepts have numbers below ``concepts``.

        ``block`` is in the engine's own form; its attribute ``language`` is the position of its language in ``langs``.
        """
        self.blocks.append(block)
        self.documents.add(documents)
        if not self.concepts.sizes or concepts > self.concepts.sizes[0]:
            self.concepts.sizes, self.concepts.arrays = [], []
            self.concepts.add(concepts)
            self.concepts.set("id", [np.arange(concepts)[:, None]])
