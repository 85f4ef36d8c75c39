"""Near-duplicates: texts of a language that say almost the same about different concepts.

They leak from training into test. The likeness of two texts is the Jaccard similarity of their shingle sets,
J = |A ∩ B| / |A ∪ B|, and MinHash estimates it: under a random order of all shingles, A and B have the same
first one with probability J. Here one hash serves for 128 such orders: seven of its bits choose a slot, the
others say which shingle is the first there. A slot without a shingle takes over another, chosen at random but
alike for all texts, so that J holds for it as well. What is kept is a byte of each first shingle's hash: two
texts agree in a slot with probability p = J + (1 - J) / 256.

To compare a text with all before it, the slots form b bands of r. Texts that agree in all slots of a band, which
happens with probability 1 - (1 - p^r)^b, meet in a hash table and are compared by all 128 slots. From the
threshold follow the largest r that still lets 99 % of the pairs at the threshold meet, then the smallest b:
r = 6 and b = 16 for 0.8. The share of equal slots, less what is equal by chance, estimates J with an error of
about sqrt(J (1 - J) / 128), 0.035 at 0.8, and decides.

A shingle is 12 bytes of UTF-8: two words of English, one of Russian, four signs of Chinese. That is about as
much meaning everywhere, and no language needs spaces. It is taken from the text in lower case with every run of
digits as one "0" and every run of what is no letter, mark or digit as one space: case, layout and figures make no
difference. A text whose shingles fill fewer than 32 slots (37 different shingles do, the usual text of 48 bytes)
is too short for shares, and a figure may be all it says: it repeats another if both are equal byte for byte.
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
from cr5.corpus.minhash import SLOTS, SPACE, ZERO, enter_all, hash_all, mark_repeats, sign
from cr5.errors import Cr5Error

CAUGHT = 0.99
LOWEST = 0.1  # a threshold for which 99 % can be caught
_ROOM = 64  # texts that a language has room for at first


class Example(NamedTuple):
    """A marked text and the earlier one that it repeats."""

    concept: str
    title: str
    original_concept: str
    original_title: str


class Duplicates:
    """Marks texts that nearly repeat an earlier one, as the corpus streams by.

    ``counts`` has the marked texts of every language, ``examples`` the first. An unmarked text takes
    264 to 528 bytes at the threshold of 0.8: 128 of its signature, 8 of its concept and 128 in the tables, until
    they are full and twice as large. Concepts and titles are kept as well, until their language has its example.
    The result depends on the order of the rows and on the seed, not on where batches end.
    """

    def __init__(self, threshold: float = 0.8, *, seed: int = 0) -> None:
        if not LOWEST <= threshold <= 1:
            raise Cr5Error(f"threshold {threshold} is not between {LOWEST} and 1; 0.8 marks what is nearly the same")
        self.threshold, self.seed = threshold, seed
        self.bands, self.band = bands(threshold)
        self.counts: Counter[str] = Counter()
        self.examples: dict[str, Example] = {}
        self._equal = int(np.ceil(SLOTS * _agreement(threshold) - 1e-9))
        self._languages: dict[str, _Language] = {}

    @property
    def nbytes(self) -> int:
        """The memory for all texts so far, without names for examples."""
        return sum(language.nbytes for language in self._languages.values())

    def mark(self, rows: pa.RecordBatch) -> NDArray[np.bool_]:
        """Which rows nearly repeat an earlier unmarked one of the same language and another concept."""
        marked = np.zeros(rows.num_rows, np.bool_)
        if not rows.num_rows:
            return marked
        seed = np.uint64(self.seed % 2**64)
        concepts = hash_all(*_bytes(rows["concept"]), seed)
        signatures = sign(*_bytes(rows["text"]), _letters(), seed)
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
                self.examples[lang] = Example(*_pair(names, places[row]), *language.name(originals[row]))
                language.names.clear()
        self.counts.update(rows["lang"].filter(pa.array(marked)).to_pylist())
        return marked


def bands(threshold: float) -> tuple[int, int]:
    """How many bands of how many slots: b and r such that 1 - (1 - p^r)^b reaches 99 % at the threshold."""
    p = _agreement(threshold)

    def catches(b: int, r: int) -> bool:
        return 1 - (1 - p**r) ** b >= CAUGHT

    r = max(r for r in range(1, SLOTS + 1) if catches(SLOTS // r, r))
    return next(b for b in count(1) if catches(b, r)), r


def _agreement(similarity: float) -> float:
    """How likely two texts agree in a slot, by their first shingles or by chance."""
    return similarity + (1 - similarity) / 256


class _Language:
    """The unmarked texts of a language, numbered as they came, and the tables in which they meet."""

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
        """For each text the number of the one that it repeats, or -1: then it gets the next number itself."""
        originals = np.full(len(signatures), -1)
        done = 0
        while done < len(signatures):
            if self.size == len(self.concepts):  # only then, or the tables would know where batches ended
                self.grow()
            done, self.size = mark_repeats(
                signatures, concepts, equal, self.bands, self.band,
                self.signatures, self.concepts, self.table, self.size, originals, done,
            )  # fmt: skip
        return originals

    def grow(self) -> None:
        room = max(_ROOM, 2 * self.size)
        self.signatures = np.concatenate([self.signatures, np.empty((room - self.size, SLOTS), np.uint8)])
        self.concepts = np.concatenate([self.concepts, np.empty(room - self.size, np.uint64)])
        self.table = np.zeros(1 << (2 * room * self.bands - 1).bit_length(), np.uint32)  # at most half full
        enter_all(self.signatures, self.size, self.bands, self.band, self.table)

    def name(self, number: int) -> tuple[str, str]:
        """Concept and title of a text."""
        ends = np.cumsum([names.num_rows for names in self.names])
        part = int(np.searchsorted(ends, number, "right"))
        return _pair(self.names[part], number - int(ends[part]))  # from the end


def _pair(names: pa.RecordBatch, row: int) -> tuple[str, str]:
    concept, title = (column[int(row)].as_py() for column in names.columns)
    return concept, title


def _bytes(strings: pa.StringArray) -> tuple[Array, Ints]:
    """The UTF-8 of all strings, and where each begins and the last ends."""
    _, offsets, data = strings.buffers()
    found = np.frombuffer(data or b"", np.uint8), np.frombuffer(offsets, np.int32)[strings.offset :]
    for array in found:
        array.flags.writeable = False  # some buffers are, and the kernels would be compiled for both
    return found[0], found[1][: len(strings) + 1]


@cache
def _letters() -> Array:
    """What stands for each code point of the planes with alphabets: itself in lower case, "0" or a space.

    Never more bytes than it has itself.
    """

    def plain(point: int) -> int:
        sign = chr(point)
        kind = unicodedata.category(sign)[0]
        if kind not in "LM":
            return ZERO if kind == "N" else SPACE
        low = sign.lower()
        return ord(low) if len(low) == 1 and len(low.encode()) <= len(sign.encode()) else point

    return np.array([plain(point) for point in range(0x20000)], np.uint32)
