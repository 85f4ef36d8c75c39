"""MinHash kernels: the shingles of texts, their signatures, and the search for near-duplicates among them.

They are compiled and run without the global interpreter lock. Hashes are 64-bit unsigned integers, which wrap around,
mixed as in SplitMix64.
"""

from typing import Any

import numpy as np

from cr5._typing import Array, Ints, Mask
from cr5.machine.compiler import compiled

BINS = 128
SHINGLE = 12  # length in bytes; the kernel holds a shingle in two 64-bit integers
MIN_FILLED_BINS = 32  # with fewer filled bins, texts are compared exactly
MAX_BAND_TEXTS = 16  # texts per band in the table: texts made from a template share some bands but not all
SPACE, ZERO = ord(" "), ord("0")
_EMPTY = np.uint32(2**32 - 1)
# The constants of SplitMix64.
_A, _B, _C = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@compiled
def _mix(word: Any) -> Any:
    word = (word ^ (word >> np.uint64(30))) * _B
    word = (word ^ (word >> np.uint64(27))) * _C
    return word ^ (word >> np.uint64(31))


@compiled
def _hash(data: Array, seed: np.uint64) -> Any:
    result = _mix(seed + _A)
    for byte in data:
        result = (result ^ np.uint64(byte)) * _A
    return _mix(result)


@compiled
def hash_all(data: Array, starts: Ints, seed: np.uint64) -> Array:
    """A hash of each string."""
    hashes = np.empty(len(starts) - 1, np.uint64)
    for i in range(len(hashes)):
        hashes[i] = _hash(data[starts[i] : starts[i + 1]], seed)
    return hashes


@compiled
def _normalise(text: Array, normalisation_table: Array, out: Array) -> int:
    """Write a text without case, numbers and layout to ``out``; return its length, at most that of the text."""
    i, size, last = 0, 0, np.uint32(SPACE)
    while i < len(text):
        byte = np.uint32(text[i])
        if byte < 0x80:
            length, point = 1, byte
        elif byte < 0xE0:
            length, point = 2, byte & np.uint32(0x1F)
        elif byte < 0xF0:
            length, point = 3, byte & np.uint32(0x0F)
        else:
            length, point = 4, byte & np.uint32(0x07)
        if i + length > len(text):
            break
        for k in range(i + 1, i + length):
            point = (point << np.uint32(6)) | (np.uint32(text[k]) & np.uint32(0x3F))
        i += length
        if point < len(normalisation_table):
            point = normalisation_table[point]
        if point == last and point in (SPACE, ZERO):
            continue
        last = point
        if point < 0x80:
            out[size] = point
            size += 1
        elif point < 0x800:
            out[size] = np.uint32(0xC0) | (point >> np.uint32(6))
            out[size + 1] = np.uint32(0x80) | (point & np.uint32(0x3F))
            size += 2
        else:
            if point < 0x10000:
                out[size] = np.uint32(0xE0) | (point >> np.uint32(12))
            else:
                out[size] = np.uint32(0xF0) | (point >> np.uint32(18))
                out[size + 1] = np.uint32(0x80) | ((point >> np.uint32(12)) & np.uint32(0x3F))
                size += 1
            out[size + 1] = np.uint32(0x80) | ((point >> np.uint32(6)) & np.uint32(0x3F))
            out[size + 2] = np.uint32(0x80) | (point & np.uint32(0x3F))
            size += 3
    return size - 1 if size and out[size - 1] == SPACE else size


@compiled
def _bin_minima(text: Array, seed: np.uint64, minima: Array) -> int:
    """Put the smallest hash of each bin's shingles into ``minima``; return the number of bins that have one."""
    minima[:] = _EMPTY
    high, low = np.uint64(0), np.uint64(0)  # the last 12 bytes: the first 4 and the other 8
    for i in range(len(text)):
        high = ((high << np.uint64(8)) | (low >> np.uint64(56))) & np.uint64(0xFFFFFFFF)
        low = (low << np.uint64(8)) | np.uint64(text[i])
        if i < SHINGLE - 1:
            continue
        word = (low ^ seed) * _A
        word = _mix((word ^ (word >> np.uint64(32))) + high * _C)
        bin_, rest = word >> np.uint64(57), np.uint32(word)
        minima[bin_] = min(minima[bin_], rest)  # without a branch, which would be mispredicted often for short texts
    filled = 0
    for rest in minima:
        filled += rest != _EMPTY
    return filled


@compiled
def signatures_of(data: Array, starts: Ints, normalisation_table: Array, seed: np.uint64) -> Array:
    """The signature of each text: texts x bins, a byte each."""
    signatures = np.empty((len(starts) - 1, BINS), np.uint8)
    max_length = 0
    for i in range(len(signatures)):
        max_length = max(max_length, starts[i + 1] - starts[i])
    out, minima, start = np.empty(max_length, np.uint8), np.empty(BINS, np.uint32), _mix(seed + _A)
    for i in range(len(signatures)):
        text = data[starts[i] : starts[i + 1]]
        filled = _bin_minima(out[: _normalise(text, normalisation_table, out)], start, minima)
        if filled < MIN_FILLED_BINS:
            word = _hash(text, start)
            for bin_ in range(BINS):
                signatures[i, bin_] = _mix(word + np.uint64(bin_) * _A) >> np.uint64(56)
            continue
        for bin_ in range(BINS):
            source, word = np.int64(bin_), start + np.uint64(bin_)
            while minima[source] == _EMPTY:
                word = _mix(word + _A)
                source = np.int64(word >> np.uint64(57))
            signatures[i, bin_] = np.uint8(minima[source])  # the low byte, because the high ones of a minimum are small
    return signatures


@compiled
def _bands_equal(signature: Array, other: Array, start: int, end: int) -> bool:
    bin_ = start
    while bin_ < end and signature[bin_] == other[bin_]:
        bin_ += 1
    return bin_ == end


@compiled
def _insert(signatures: Array, number: int, bands: int, rows_per_band: int, table: Array) -> None:
    """Insert a text's number, from 1, into the table once per band, unless enough texts have the same band."""
    mask = np.uint64(len(table) - 1)
    for b in range(bands):
        start, end = b * rows_per_band, (b + 1) * rows_per_band
        position = _hash(signatures[number, start:end], np.uint64(b)) & mask
        step, equal_bands = np.uint64(0), 0
        while table[position] and equal_bands < MAX_BAND_TEXTS:
            equal_bands += _bands_equal(signatures[table[position] - 1], signatures[number], start, end)
            step += np.uint64(1)
            position = (position + step) & mask  # steps of 1, 2, 3, ... visit all positions of a power of two
        if equal_bands < MAX_BAND_TEXTS:
            table[position] = number + 1


@compiled
def insert_all(signatures: Array, size: int, bands: int, rows_per_band: int, table: Array) -> None:
    """Insert the first ``size`` texts into the table."""
    for number in range(size):
        _insert(signatures, number, bands, rows_per_band, table)


@compiled
def _is_repeat(
    signature: Array, concept: np.uint64, min_equal_bins: int, bands: int, rows_per_band: int,
    signatures: Array, concepts: Array, table: Array,
) -> bool:  # fmt: skip
    """Whether a text of another concept agrees in at least ``min_equal_bins`` bins."""
    mask = np.uint64(len(table) - 1)
    for b in range(bands):
        start, end = b * rows_per_band, (b + 1) * rows_per_band
        position = _hash(signature[start:end], np.uint64(b)) & mask
        step = np.uint64(0)
        while table[position]:
            number = np.int64(table[position]) - 1
            if concepts[number] != concept and _bands_equal(signatures[number], signature, start, end):
                agree = 0
                for bin_ in range(BINS):
                    agree += signatures[number, bin_] == signature[bin_]
                if agree >= min_equal_bins:
                    return True
            step += np.uint64(1)
            position = (position + step) & mask
    return False


@compiled
def mark_repeats(
    new: Array, new_concepts: Array, min_equal_bins: int, bands: int, rows_per_band: int,
    signatures: Array, concepts: Array, table: Array, size: int, marked: Mask, done: int,
) -> tuple[int, int]:  # fmt: skip
    """Fill in ``marked`` from ``done`` on until the arrays are full; return the new ``done`` and size."""
    while done < len(new) and size < len(concepts):
        marked[done] = _is_repeat(
            new[done], new_concepts[done], min_equal_bins, bands, rows_per_band, signatures, concepts, table
        )
        if not marked[done]:
            signatures[size], concepts[size] = new[done], new_concepts[done]
            _insert(signatures, size, bands, rows_per_band, table)
            size += 1
        done += 1
    return done, size
