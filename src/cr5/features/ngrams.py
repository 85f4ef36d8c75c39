"""Character n-grams of words, in columns that are the same for all languages and processes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cr5._typing import Array, Ints, Sparse
from cr5.compiler import compiled

# The multipliers of SplitMix64.
_A, _B, _C = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def character_ngrams(words: Sequence[str], lengths: tuple[int, int], columns: int) -> Sparse:
    """words x columns: 1 for each different n-gram of "<word>", with ``lengths[0]`` to ``lengths[1]`` characters.

    An n-gram's column is a hash of its characters. ``columns`` is a power of two. A word that is too short for any
    n-gram has one, "<word>" itself.
    """
    from scipy.sparse import csr_array

    text = "".join(f"<{word}>" for word in words).encode("utf-32-le", "surrogatepass")
    sizes = np.fromiter(map(len, words), np.int64, len(words)) + 2
    starts = np.concatenate([[0], np.cumsum(sizes)])
    offsets, indices = _cut(np.frombuffer(text, np.uint32), starts, *lengths, np.uint64(columns - 1))
    return csr_array((np.ones(len(indices), np.float32), indices, offsets), shape=(len(words), columns))


def word_columns(words: Sequence[str], columns: int) -> Ints:
    """A column for each word: the hash of "<word>", as of an n-gram. ``columns`` is a power of two."""
    longer_than_any = max(map(len, words), default=0) + 3
    return np.asarray(character_ngrams(words, (longer_than_any, longer_than_any), columns).indices)


@compiled
def _hash(points: Array) -> Any:
    result = _A
    for point in points:
        result = (result ^ np.uint64(point)) * _A
        result ^= result >> np.uint64(32)
    result = (result ^ (result >> np.uint64(30))) * _B
    result = (result ^ (result >> np.uint64(27))) * _C
    return result ^ (result >> np.uint64(31))


@compiled
def _cut(points: Array, starts: Ints, shortest: int, longest: int, mask: np.uint64) -> tuple[Ints, Ints]:
    """The different columns of each word in ascending order: offsets of the words, and columns."""
    most = 0
    for i in range(len(starts) - 1):
        size = starts[i + 1] - starts[i]
        for length in range(shortest, longest + 1):
            most += max(size - length + 1, 0)
        most += size < shortest
    offsets, columns, n = np.zeros(len(starts), np.int64), np.empty(most, np.int32), 0
    for i in range(len(starts) - 1):
        first, end = n, starts[i + 1]
        for length in range(min(shortest, end - starts[i]), longest + 1):
            for start in range(starts[i], end - length + 1):
                columns[n] = _hash(points[start : start + length]) & mask
                n += 1
            if end - starts[i] < shortest:
                break
        row = np.sort(columns[first:n])
        n = first
        for j in range(len(row)):
            if j == 0 or row[j] != row[j - 1]:
                columns[n] = row[j]
                n += 1
        offsets[i + 1] = n
    return offsets, columns[:n].copy()
