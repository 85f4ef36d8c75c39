"""Near-duplicates: texts of a language that say almost the same about different concepts.

They would leak from the training set into the test set. The similarity of two texts is the Jaccard similarity of their
shingle sets, J = |A ∩ B| / |A ∪ B|, and MinHash estimates it: under a random order of all shingles, A and B have the
same first shingle with probability J. One hash per shingle serves for 128 such orders: seven of its bits choose a
slot, the others order the shingles within the slot. An empty slot copies another one, chosen at random but alike for
all texts, so that J holds for it as well. A signature keeps one byte of the hash of each slot's first shingle: two
texts agree in a slot with probability p = J + (1 - J) / 256.

To compare a text with all earlier ones, the slots form b bands of r. Texts that agree in all slots of a band, which
happens with probability 1 - (1 - p^r)^b, meet in a hash table and are compared by all 128 slots. The threshold
determines r, the largest that still lets 99 % of the pairs at the threshold meet, and then b, the smallest:
r = 6 and b = 16 for 0.8. The share of equal slots, corrected for chance, estimates J with an error of about
sqrt(J (1 - J) / 128), 0.035 at 0.8, and decides.

A shingle is 12 bytes of UTF-8: two words of English, one of Russian, four characters of Chinese. That is about the
same amount of meaning in every language, and needs no spaces. Shingles are taken from the text in lower case, with
every run of digits as one "0" and every run of other characters than letters, marks and digits as one space, so case,
layout and numbers make no difference. A text whose shingles fill fewer than 32 slots (37 different shingles usually
fill them, a text of 48 bytes) is too short for an estimate, and a number may be all it says: it is a duplicate only
if it is equal to another byte for byte.
"""

import unicodedata
from collections import Counter
from functools import cache
from itertools import count
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cr5._typing import Array, Ints
from cr5.corpus.minhash import SLOTS, SPACE, ZERO, enter_all, hash_all, mark_repeats, signatures_of
from cr5.errors import Cr5Error

MIN_RECALL = 0.99  # of the pairs at the threshold
MIN_THRESHOLD = 0.1  # the lowest threshold at which that recall can be reached
_INITIAL_CAPACITY = 64  # texts of a language


class DuplicateExample(NamedTuple):
    """A near-duplicate and the earlier text that it repeats."""

    concept: str
    title: str
    original_concept: str
    original_title: str


class Duplicates:
    """Marks texts that nearly repeat an earlier one, in a stream of batches.

    ``counts`` is the number of marked texts of each language, ``examples`` the first of them. An unmarked text takes
    264 to 528 bytes at the threshold of 0.8: 128 for its signature, 8 for its concept and 128 in the tables, which
    double in size when they are full. Concepts and titles are kept until their language has its example. The result
    depends on the order of the rows and on the seed, not on the size of the batches.
    """

    def __init__(self, threshold: float = 0.8, *, seed: int = 0) -> None:
        if not MIN_THRESHOLD <= threshold <= 1:
            raise Cr5Error(f"`threshold={threshold}` is not between {MIN_THRESHOLD} and 1; 0.8 marks near-duplicates")
        self.threshold, self.seed = threshold, seed
        self.bands, self.band = bands(threshold)
        self.counts: Counter[str] = Counter()
        self.examples: dict[str, DuplicateExample] = {}
        self._equal = int(np.ceil(SLOTS * _agreement(threshold) - 1e-9))
        self._languages: dict[str, _Language] = {}

    @property
    def nbytes(self) -> int:
        """The memory of all texts so far, without the names for examples."""
        return sum(language.nbytes for language in self._languages.values())

    def mark(self, rows: pa.RecordBatch) -> NDArray[np.bool_]:
        """Which rows nearly repeat an earlier unmarked one of the same language and another concept."""
        marked = np.zeros(rows.num_rows, np.bool_)
        if not rows.num_rows:
            return marked
        seed = np.uint64(self.seed % 2**64)
        concepts = hash_all(*_bytes(rows["concept"]), seed)
        signatures = signatures_of(*_bytes(rows["text"]), _letters(), seed)
        langs = rows["lang"].dictionary_encode()
        indices = langs.indices.to_numpy()
        for i, lang in enumerate(langs.dictionary.to_pylist()):
            language = self._languages.setdefault(lang, _Language(self.bands, self.band))
            places = np.flatnonzero(indices == i)
            originals = language.mark(signatures[places], concepts[places], self._equal)
            marked[places] = originals >= 0
            if lang in self.examples:
                continue
            names = rows.select(["concept", "title"])
            language.names.append(names.take(pa.array(places[originals < 0])))
            for row in np.flatnonzero(originals >= 0)[:1]:
                self.examples[lang] = DuplicateExample(*_pair(names, places[row]), *language.name(originals[row]))
                language.names.clear()
        self.counts.update(rows["lang"].filter(pa.array(marked)).to_pylist())
        return marked


def bands(threshold: float) -> tuple[int, int]:
    """The number of bands b and of slots in each, r, so that 1 - (1 - p^r)^b reaches 99 % at the threshold."""
    p = _agreement(threshold)

    def reaches_recall(b: int, r: int) -> bool:
        return 1 - (1 - p**r) ** b >= MIN_RECALL

    r = max(r for r in range(1, SLOTS + 1) if reaches_recall(SLOTS // r, r))
    return next(b for b in count(1) if reaches_recall(b, r)), r


def _agreement(similarity: float) -> float:
    """The probability that two texts agree in a slot, by their first shingles or by chance."""
    return similarity + (1 - similarity) / 256


class _Language:
    """The unmarked texts of a language, numbered in their order, and the hash tables of their bands."""

    def __init__(self, bands: int, band: int) -> None:
        self.bands, self.band, self.size = bands, band, 0
        self.signatures = np.empty((0, SLOTS), np.uint8)
        self.concepts = np.empty(0, np.uint64)
        self.table = np.zeros(0, np.uint32)
        self.names: list[pa.RecordBatch] = []

    @property
    def nbytes(self) -> int:
        return self.signatures.nbytes + self.concepts.nbytes + self.table.nbytes

    def mark(self, signatures: Array, concepts: Array, equal: int) -> Ints:
        """For each text the number of the one that it repeats, or -1 if none; then it gets the next number itself."""
        originals = np.full(len(signatures), -1)
        done = 0
        while done < len(signatures):
            if self.size == len(self.concepts):  # only then, so that the result does not depend on the batches
                self.grow()
            done, self.size = mark_repeats(
                signatures, concepts, equal, self.bands, self.band,
                self.signatures, self.concepts, self.table, self.size, originals, done,
            )  # fmt: skip
        return originals

    def grow(self) -> None:
        room = max(_INITIAL_CAPACITY, 2 * self.size)
        self.signatures = np.concatenate([self.signatures, np.empty((room - self.size, SLOTS), np.uint8)])
        self.concepts = np.concatenate([self.concepts, np.empty(room - self.size, np.uint64)])
        self.table = np.zeros(1 << (2 * room * self.bands - 1).bit_length(), np.uint32)  # at most half full
        enter_all(self.signatures, self.size, self.bands, self.band, self.table)

    def name(self, number: int) -> tuple[str, str]:
        """The concept and title of a text."""
        ends = np.cumsum([names.num_rows for names in self.names])
        part = int(np.searchsorted(ends, number, "right"))
        return _pair(self.names[part], number - int(ends[part]))  # counted from the end


def _pair(names: pa.RecordBatch, row: int) -> tuple[str, str]:
    concept, title = (column[int(row)].as_py() for column in names.columns)
    return concept, title


def _bytes(strings: pa.StringArray) -> tuple[Array, Ints]:
    """The UTF-8 bytes of all strings, and the offsets at which each begins and the last one ends."""
    _, offsets, data = strings.buffers()
    found = np.frombuffer(data or b"", np.uint8), np.frombuffer(offsets, np.int32)[strings.offset :]
    for array in found:
        array.flags.writeable = False  # otherwise the kernels would be compiled for both kinds of arrays
    return found[0], found[1][: len(strings) + 1]


@cache
def _letters() -> Array:
    """The replacement of each code point of the first two planes: its lower case, "0" or a space.

    A replacement never has more bytes than the character itself.
    """

    def plain(point: int) -> int:
        character = chr(point)
        category = unicodedata.category(character)[0]
        if category not in "LM":
            return ZERO if category == "N" else SPACE
        lower = character.lower()
        return ord(lower) if len(lower) == 1 and len(lower.encode()) <= len(character.encode()) else point

    return np.array([plain(point) for point in range(0x20000)], np.uint32)
