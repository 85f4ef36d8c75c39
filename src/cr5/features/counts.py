"""Word counts: how often each word occurs in each document of a language."""

from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from itertools import compress
from typing import TYPE_CHECKING

import numpy as np

from cr5._typing import Ints, Sparse
from cr5.corpus.texts import assign_numbers
from cr5.features.tokeniser import Tokeniser, Tokens
from cr5.storage.scratch import ScratchArrays

if TYPE_CHECKING:
    import pyarrow as pa


# A batch of at most FEW_TEXTS texts with at most SHORT_CHARACTERS characters in all is tokenised text by text.
FEW_TEXTS = 8
SHORT_CHARACTERS = 2000


@dataclass(frozen=True)
class WordCounts:
    """A sparse matrix, documents x words; column j counts ``words[j]``, in no particular order."""

    words: list[str]
    matrix: Sparse
    scratch: ScratchArrays = field(default_factory=ScratchArrays)

    @property
    def unique_words(self) -> Ints:
        """The number of different words in each document."""
        return np.asarray(np.diff(self.matrix.indptr))

    def select_rows(self, rows: Ints) -> "WordCounts":
        """The counts of some of the documents; the words stay the same."""
        return WordCounts(self.words, self.scratch.select_rows(self.matrix, rows), self.scratch)

    def drop_unused_words(self) -> "WordCounts":
        """The same counts without the words that no document contains."""
        from scipy.sparse import csr_array

        is_used = np.zeros(len(self.words), bool)
        is_used[self.matrix.indices] = True
        if is_used.all():
            return self
        columns = np.cumsum(is_used, dtype=np.int32) - 1
        words = list(compress(self.words, is_used))
        arrays = self.matrix.data, columns[self.matrix.indices], self.matrix.indptr
        return WordCounts(words, csr_array(arrays, shape=(self.matrix.shape[0], len(words))), self.scratch)


def count_tokens(tokens: Tokens) -> WordCounts:
    """The counts of each word's tokens in tokenised texts."""
    from scipy.sparse import csr_array

    shape = len(tokens.offsets) - 1, len(tokens.words)
    text = np.repeat(np.arange(shape[0]), np.diff(tokens.offsets))
    keys = np.sort(text * shape[1] + tokens.ids)
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    counts = np.diff(first, append=len(keys)).astype(np.int32)
    text, word = np.divmod(keys[first], max(shape[1], 1))
    offsets = np.searchsorted(text, np.arange(shape[0] + 1))
    return WordCounts(tokens.words, csr_array((counts, word.astype(np.int32), offsets.astype(np.int32)), shape=shape))


def count_words(texts: "Sequence[str] | pa.StringArray", lang: str, tokeniser: Tokeniser) -> WordCounts:
    """Tokenise texts in one language, and count the tokens of each word."""
    if are_few_and_short(texts):
        return count_tokens(Tokens.from_lists([tokeniser.words(text, lang) for text in texts]))
    return count_tokens(tokeniser(texts, lang))


def are_few_and_short(texts: "Sequence[str] | pa.StringArray") -> bool:
    """Whether texts are tokenised one by one, because calls for a whole batch take longer than the work."""
    return isinstance(texts, list) and len(texts) <= FEW_TEXTS and sum(map(len, texts)) <= SHORT_CHARACTERS


class WordCounter:
    """Counts the words of a stream of texts in one language, batch by batch, on a pool of threads.

    Arrow and NumPy tokenise and count without holding the global interpreter lock, so threads are as fast as
    processes and no text is copied between them. At most ``max_pending`` batches wait for a thread.
    """

    def __init__(
        self,
        lang: str,
        tokeniser: Tokeniser,
        pool: Executor,
        max_pending: int = 4,
        scratch: ScratchArrays | None = None,
    ) -> None:
        self.lang, self.tokeniser, self.pool, self.max_pending = lang, tokeniser, pool, max_pending
        self.scratch = scratch or ScratchArrays()
        self._pending: deque[Future[WordCounts]] = deque()
        self._columns: dict[str, int] = {}
        self._parts: list[Sparse] = []

    def add(self, texts: "Sequence[str] | pa.StringArray") -> None:
        """Add a batch of texts; blocks while too many are pending."""
        self._pending.append(self.pool.submit(count_words, texts, self.lang, self.tokeniser))
        if len(self._pending) > self.max_pending:
            self._collect_one()

    def finish(self) -> WordCounts:
        """The counts of all texts, in the order in which they were added."""
        while self._pending:
            self._collect_one()
        shape = sum(part.shape[0] for part in self._parts), len(self._columns)
        nonzeros = sum(part.nnz for part in self._parts)
        self._parts.reverse()
        parts = (self._parts.pop() for _ in range(len(self._parts)))  # each is freed before the next is copied
        matrix = self.scratch.stack_rows(parts, shape, nonzeros, np.int32, np.int32)
        return WordCounts(list(self._columns), matrix, self.scratch)

    def _collect_one(self) -> None:
        """Wait for the oldest batch and renumber its words."""
        part = _renumbered(self._pending.popleft().result(), self._columns)
        self._parts.append(self.scratch.store_matrix(part))


def stack_counts(parts: Iterable[WordCounts]) -> WordCounts:
    """The counts of documents that were counted separately, one part after the other."""
    columns: dict[str, int] = {}
    matrices = [_renumbered(part, columns) for part in parts]
    shape = sum(matrix.shape[0] for matrix in matrices), len(columns)
    nonzeros = sum(matrix.nnz for matrix in matrices)
    return WordCounts(list(columns), ScratchArrays().stack_rows(matrices, shape, nonzeros, np.int32, np.int32))


def _renumbered(counts: WordCounts, columns: dict[str, int]) -> Sparse:
    """The matrix of counts with the column of every word in ``columns``, to which new words are added."""
    from scipy.sparse import csr_array

    renumbered = assign_numbers(counts.words, columns, np.int32)
    arrays = counts.matrix.data, renumbered[counts.matrix.indices], counts.matrix.indptr
    return csr_array(arrays, shape=(counts.matrix.shape[0], len(columns)), copy=False)
