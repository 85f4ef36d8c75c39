"""Near-duplicates: texts of a language that say almost the same about different concepts.

They would leak from the training set into the test set. The similarity of two texts is the Jaccard similarity of their
shingle sets, J = |A ∩ B| / |A ∪ B|. MinHash estimates it: under a random permutation of all shingles, A and B have the
same minimum with probability J. One-permutation hashing gets 128 minima from one hash per shingle: seven of its bits
choose a bin, the others order the shingles within the bin. Densification fills an empty bin from another one, the same
random one for all texts, so that J holds for it as well. The signature keeps 8 bits of each bin's minimum (b-bit
MinHash): two texts agree in a bin with probability p = J + (1 - J) / 256.

Locality-sensitive hashing finds the candidate pairs: the bins form b bands of r, and texts that agree in all bins of a
band, which happens with probability 1 - (1 - p^r)^b, meet in a hash table and are compared by all 128 bins. The
threshold determines r, the largest with which 99 % of the pairs at the threshold become candidates, and then b, the
smallest: r = 6 and b = 16 for 0.8. The share of equal bins, corrected for chance, estimates J with an error of about
sqrt(J (1 - J) / 128), 0.035 at 0.8, and decides.

A shingle is 12 bytes of UTF-8: two words of English, one of Russian, four characters of Chinese. That is about the
same amount of meaning in every language, and needs no spaces. Shingles are taken from the text in lower case, with
every run of digits as one "0" and every run of other characters than letters, marks and digits as one space, so case,
layout and numbers make no difference. A text whose shingles fill fewer than 32 bins (37 different shingles usually
fill them, a text of 48 bytes) is too short for an estimate, and a number may be all it says: it is a duplicate only
if it is equal to another byte for byte.
"""

import unicodedata
from functools import cache
from itertools import count

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cr5._typing import Array, Ints
from cr5.corpus.minhash import BINS, SPACE, ZERO, hash_all, insert_all, mark_repeats, signatures_of
from cr5.errors import Cr5Error

MIN_RECALL = 0.99  # lowest share of the pairs at the threshold that are found
MIN_THRESHOLD = 0.1  # the lowest threshold at which that recall can be reached
_INITIAL_CAPACITY = 64  # texts of a language that a new table has room for


class Duplicates:
    """Marks texts that nearly repeat an earlier one, in a stream of batches.

    An unmarked text takes 264 to 528 bytes at the threshold of 0.8: 128 for its signature, 8 for its concept and 128 in
    the tables, which double in size when they are full. The result depends on the order of the rows and on the seed,
    not on the size of the batches.
    """

    def __init__(self, threshold: float = 0.8, *, seed: int = 0) -> None:
        if not MIN_THRESHOLD <= threshold <= 1:
            raise Cr5Error(f"`threshold={threshold}` is not between {MIN_THRESHOLD} and 1; 0.8 marks near-duplicates")
        self.threshold, self.seed = threshold, seed
        self.bands, self.rows_per_band = bands(threshold)
        self._min_equal_bins = int(np.ceil(BINS * _agreement(threshold) - 1e-9))
        self._languages: dict[str, _Language] = {}

    @property
    def nbytes(self) -> int:
        """The memory of all unmarked texts so far."""
        languages = self._languages.values()
        return sum(array.nbytes for each in languages for array in (each.signatures, each.concepts, each.table))

    def mark(self, rows: pa.RecordBatch) -> NDArray[np.bool_]:
        """Which rows nearly repeat an earlier unmarked one of the same language and another concept."""
        marked = np.zeros(rows.num_rows, np.bool_)
        if not rows.num_rows:
            return marked
        seed = np.uint64(self.seed % 2**64)
        concepts = hash_all(*_bytes(rows["concept"]), seed)
        signatures = signatures_of(*_bytes(rows["text"]), _normalisation_table(), seed)
        langs = rows["lang"].dictionary_encode()
        indices = langs.indices.to_numpy()
        for i, lang in enumerate(langs.dictionary.to_pylist()):
            language = self._languages.setdefault(lang, _Language(self.bands, self.rows_per_band))
            lang_rows = np.flatnonzero(indices == i)
            marked[lang_rows] = language.mark(signatures[lang_rows], concepts[lang_rows], self._min_equal_bins)
        return marked


def bands(threshold: float) -> tuple[int, int]:
    """The number of bands b, and the bins in each, r, so that 1 - (1 - p^r)^b reaches 99 % at the threshold."""
    p = _agreement(threshold)

    def reaches_recall(b: int, r: int) -> bool:
        return 1 - (1 - p**r) ** b >= MIN_RECALL

    r = max(r for r in range(1, BINS + 1) if reaches_recall(BINS // r, r))
    return next(b for b in count(1) if reaches_recall(b, r)), r


def _agreement(similarity: float) -> float:
    """The probability that two texts agree in a bin, by their minima or by chance."""
    return similarity + (1 - similarity) / 256


class _Language:
    """The unmarked texts of a language, numbered in their order, and the hash table of their bands."""

    def __init__(self, bands: int, rows_per_band: int) -> None:
        self.bands, self.rows_per_band, self.size = bands, rows_per_band, 0
        self.signatures = np.empty((0, BINS), np.uint8)
        self.concepts = np.empty(0, np.uint64)
        self.table = np.zeros(0, np.uint32)

    def mark(self, signatures: Array, concepts: Array, min_equal_bins: int) -> NDArray[np.bool_]:
        """Which texts repeat an earlier one; the others are added."""
        marked = np.zeros(len(signatures), np.bool_)
        done = 0
        while done < len(signatures):
            if self.size == len(self.concepts):  # only then, so that the result does not depend on the batches
                self.grow()
            done, self.size = mark_repeats(
                signatures, concepts, min_equal_bins, self.bands, self.rows_per_band,
                self.signatures, self.concepts, self.table, self.size, marked, done,
            )  # fmt: skip
        return marked

    def grow(self) -> None:
        capacity = max(_INITIAL_CAPACITY, 2 * self.size)
        added = capacity - self.size
        self.signatures = np.concatenate([self.signatures, np.empty((added, BINS), np.uint8)])
        self.concepts = np.concatenate([self.concepts, np.empty(added, np.uint64)])
        self.table = np.zeros(1 << (2 * capacity * self.bands - 1).bit_length(), np.uint32)  # at most half full
        insert_all(self.signatures, self.size, self.bands, self.rows_per_band, self.table)


def _bytes(strings: pa.StringArray) -> tuple[Array, Ints]:
    """The UTF-8 bytes of all strings, and the offsets at which each begins and the last one ends."""
    _, offsets, data = strings.buffers()
    content, starts = np.frombuffer(data or b"", np.uint8), np.frombuffer(offsets, np.int32)[strings.offset :]
    for array in (content, starts):
        array.flags.writeable = False  # otherwise the kernels would be compiled for both kinds of arrays
    return content, starts[: len(strings) + 1]


@cache
def _normalisation_table() -> Array:
    """The replacement of each code point of the first two planes: its lower case, "0" or a space.

    A replacement never has more bytes than the character itself.
    """

    def normalised(point: int) -> int:
        character = chr(point)
        category = unicodedata.category(character)[0]
        if category not in "LM":
            return ZERO if category == "N" else SPACE
        lower = character.lower()
        return ord(lower) if len(lower) == 1 and len(lower.encode()) <= len(character.encode()) else point

    return np.array([normalised(point) for point in range(0x20000)], np.uint32)
