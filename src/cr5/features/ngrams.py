"""Character n-grams of words: this module cuts them, and hashes them to columns that are the same for all languages.

The n-grams of a word are strings of some characters in "<word>": those of "go" with 3 and more are "<go", "go>" and
"<go>". They are compared by 64-bit hashes, so that no Python code runs for each of them; that any two of a million
n-grams have the same hash has a probability of 1 in 10^7.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cr5._typing import Array, Ints, Mask, Sparse
from cr5.hashing import GOLDEN_RATIO, mix_bits

_START = _FACTOR = np.uint64(GOLDEN_RATIO)  # initial value and factor of the hash of a string


class Ngrams(NamedTuple):
    """All n-grams of words, with repetitions: their hashes, the words they are in, and where in ``text`` they are."""

    hashes: Ints
    words: Ints
    text: str
    ends: tuple[Ints, Ints]


def cut_ngrams(words: Sequence[str], shortest: int, longest: int) -> Ngrams:
    """The n-grams of "<word>" with ``shortest`` to ``longest`` characters, those of one length after another."""
    text = "".join([f"<{word}>" for word in words])
    codes, size = _code_points(text, longest), len(text)
    lengths = np.fromiter(map(len, words), np.int64, len(words)) + 2
    word = np.repeat(np.arange(len(words), dtype=np.int32), lengths)
    left = np.repeat(np.cumsum(lengths), lengths) - np.arange(size)  # characters to the end of the word
    running = np.full(size, _START)
    hashes, starts, ends = [], [], []
    for i in range(longest):
        _add_character(running, codes[i : i + size])
        if i + 1 >= shortest:
            at = np.flatnonzero(left > i)
            hashes.append(running[at])
            starts.append(at)
            ends.append(at + i + 1)
    start = np.concatenate(starts)
    return Ngrams(np.concatenate(hashes), word[start], text, (start, np.concatenate(ends)))


def hash_strings(strings: Sequence[str]) -> Ints:
    """The hash of each string, the same as ``cut_ngrams`` has for it as an n-gram."""
    codes = _code_points("".join(strings))
    lengths = np.fromiter(map(len, strings), np.int64, len(strings))
    starts = np.cumsum(lengths) - lengths
    hashes = np.full(len(strings), _START)
    for i in range(lengths.max(initial=0)):
        longer = np.flatnonzero(lengths > i)
        hashes[longer] = _add_character(hashes[longer], codes[starts[longer] + i])
    return hashes


def character_ngrams(
    words: Sequence[str], lengths: tuple[int, int], columns: int, *, block_words: int = 2**13
) -> Sparse:
    """words x columns: 1 for each different n-gram of "<word>", with ``lengths[0]`` to ``lengths[1]`` characters.

    An n-gram's column is a hash of its characters. ``columns`` is a power of two. A word that is too short for any
    n-gram has one, "<word>" itself. The words are cut ``block_words`` at a time, to bound the memory that it takes.
    """
    from scipy.sparse import csr_array, vstack

    starts = range(0, max(len(words), 1), block_words)
    blocks = [_ngrams_of_block(words[i : i + block_words], lengths, columns) for i in starts]
    return blocks[0] if len(blocks) == 1 else csr_array(vstack(blocks, "csr"))


def word_columns(words: Sequence[str], columns: int) -> Ints:
    """A column for each word: the hash of "<word>", as of an n-gram. ``columns`` is a power of two."""
    return _columns(hash_strings([f"<{word}>" for word in words]), columns)


def occurrences(word: Ints, ngram: Ints, shape: tuple[int, int]) -> Sparse:
    """words x n-grams: 1 where an n-gram occurs in a word, however often; rows are sorted."""
    from scipy.sparse import csr_array

    keys = np.sort(word.astype(np.int64) * shape[1] + ngram)
    word, ngram = np.divmod(keys[is_first(keys)], max(shape[1], 1))
    offsets = np.searchsorted(word, np.arange(shape[0] + 1)).astype(np.int32)
    return csr_array((np.ones(len(word), np.float32), ngram.astype(np.int32), offsets), shape=shape)


def is_first(keys: Ints) -> Mask:
    """For every element of an ascending array, whether it differs from the one before it."""
    return np.concatenate([np.ones(min(len(keys), 1), bool), keys[1:] != keys[:-1]])


def _ngrams_of_block(words: Sequence[str], lengths: tuple[int, int], columns: int) -> Sparse:
    found = cut_ngrams(words, *lengths)
    word, column = found.words, _columns(found.hashes, columns)
    if min(map(len, words), default=lengths[0]) + 2 < lengths[0]:
        short = [i for i, word in enumerate(words) if len(word) + 2 < lengths[0]]
        word = np.concatenate([word, short])
        column = np.concatenate([column, word_columns([words[i] for i in short], columns)])
    return occurrences(word, column, (len(words), columns))


def _code_points(text: str, further: int = 0) -> Ints:
    """The code points of a text, and zeros after its end for n-grams that begin near it."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
    return np.pad(codes.astype(np.uint64), (0, further))


def _add_character(hashes: Ints, codes: Ints) -> Ints:
    """The hashes of strings with one more character; in place."""
    hashes ^= codes
    hashes *= _FACTOR
    hashes ^= hashes >> np.uint64(32)
    return hashes


def _columns(hashes: Ints, columns: int) -> Array:
    """The last bits of the hashes, once these are mixed."""
    return np.asarray((mix_bits(hashes) & np.uint64(columns - 1)).astype(np.int32))
