"""MinHash kernels: the shingles of texts, their signatures, and the search for near-duplicates among them.

They are compiled and run without the global interpreter lock. 64-bit unsigned integers wrap around; hashes are mixed
by multiplications and shifts.
"""

from typing import Any

import numba
import numpy as np

from cr5._typing import Array, Ints

SLOTS = 128
SHINGLE = 12  # bytes, which the kernel holds in two words
MIN_FILLED_SLOTS = 32  # a text whose shingles fill fewer is compared byte for byte
MAX_BAND_TEXTS = 16  # with the same band in a table: texts made from a template share some bands but not all
SPACE, ZERO = ord(" "), ord("0")
_EMPTY = np.uint32(2**32 - 1)
_A, _B, _C = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _scramble(word: Any) -> Any:
    word = (word ^ (word >> np.uint64(30))) * _B
    word = (word ^ (word >> np.uint64(27))) * _C
    return word ^ (word >> np.uint64(31))


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _hash(data: Array, seed: np.uint64) -> Any:
    """A hash of bytes."""
    result = _scramble(seed + _A)
    for byte in data:
        result = (result ^ np.uint64(byte)) * _A
    return _scramble(result)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def hash_all(data: Array, starts: Ints, seed: np.uint64) -> Array:
    """A hash of each string."""
    hashes = np.empty(len(starts) - 1, np.uint64)
    for i in range(len(hashes)):
        hashes[i] = _hash(data[starts[i] : starts[i + 1]], seed)
    return hashes


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _plain(text: Array, letters: Array, out: Array) -> int:
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
        if point < len(letters):
            point = letters[point]
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


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _first_shingles(plain: Array, seed: np.uint64, first: Array) -> int:
    """Put the smallest hash of each slot's shingles into ``first``; return the number of slots that have one."""
    first[:] = _EMPTY
    old, new = np.uint64(0), np.uint64(0)  # the last 12 bytes: 4 and 8
    for i in range(len(plain)):
        old = ((old << np.uint64(8)) | (new >> np.uint64(56))) & np.uint64(0xFFFFFFFF)
        new = (new << np.uint64(8)) | np.uint64(plain[i])
        if i < SHINGLE - 1:
            continue
        word = (new ^ seed) * _A
        word = _scramble((word ^ (word >> np.uint64(32))) + old * _C)
        slot, rest = word >> np.uint64(57), np.uint32(word)
        first[slot] = min(first[slot], rest)  # without a branch, which would be mispredicted often for short texts
    filled = 0
    for rest in first:
        filled += rest != _EMPTY
    return filled


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def signatures_of(data: Array, starts: Ints, letters: Array, seed: np.uint64) -> Array:
    """The signature of each text: texts x slots, a byte each."""
    signatures = np.empty((len(starts) - 1, SLOTS), np.uint8)
    longest = 0
    for i in range(len(signatures)):
        longest = max(longest, starts[i + 1] - starts[i])
    out, first, start = np.empty(longest, np.uint8), np.empty(SLOTS, np.uint32), _scramble(seed + _A)
    for i in range(len(signatures)):
        text = data[starts[i] : starts[i + 1]]
        filled = _first_shingles(out[: _plain(text, letters, out)], start, first)
        if filled < MIN_FILLED_SLOTS:
            word = _hash(text, start)
            for slot in range(SLOTS):
                signatures[i, slot] = _scramble(word + np.uint64(slot) * _A) >> np.uint64(56)
            continue
        for slot in range(SLOTS):
            source, word = np.int64(slot), start + np.uint64(slot)
            while first[source] == _EMPTY:
                word = _scramble(word + _A)
                source = np.int64(word >> np.uint64(57))
            signatures[i, slot] = np.uint8(first[source])  # the low byte, because the high ones of a minimum are small
    return signatures


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _same(one: Array, other: Array, start: int, end: int) -> bool:
    slot = start
    while slot < end and one[slot] == other[slot]:
        slot += 1
    return slot == end


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _enter(signatures: Array, number: int, bands: int, band: int, table: Array) -> None:
    """Enter a text's number, from 1, into the table once per band, unless enough texts have the same band."""
    mask = np.uint64(len(table) - 1)
    for b in range(bands):
        start, end = b * band, (b + 1) * band
        place = _hash(signatures[number, start:end], np.uint64(b)) & mask
        step, met = np.uint64(0), 0
        while table[place] and met < MAX_BAND_TEXTS:
            met += _same(signatures[table[place] - 1], signatures[number], start, end)
            step += np.uint64(1)
            place = (place + step) & mask  # steps of 1, 2, 3, ... visit all places of a power of two
        if met < MAX_BAND_TEXTS:
            table[place] = number + 1


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def enter_all(signatures: Array, size: int, bands: int, band: int, table: Array) -> None:
    for number in range(size):
        _enter(signatures, number, bands, band, table)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _find(
    signature: Array, concept: np.uint64, equal: int, bands: int, band: int,
    signatures: Array, concepts: Array, table: Array,
) -> np.int64:  # fmt: skip
    """The number of a text of another concept that agrees in at least ``equal`` slots, or -1."""
    mask = np.uint64(len(table) - 1)
    for b in range(bands):
        start, end = b * band, (b + 1) * band
        place = _hash(signature[start:end], np.uint64(b)) & mask
        step = np.uint64(0)
        while table[place]:
            number = np.int64(table[place]) - 1
            if concepts[number] != concept and _same(signatures[number], signature, start, end):
                agree = 0
                for slot in range(SLOTS):
                    agree += signatures[number, slot] == signature[slot]
                if agree >= equal:
                    return number
            step += np.uint64(1)
            place = (place + step) & mask
    return np.int64(-1)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def mark_repeats(
    new: Array, new_concepts: Array, equal: int, bands: int, band: int,
    signatures: Array, concepts: Array, table: Array, size: int, originals: Ints, done: int,
) -> tuple[int, int]:  # fmt: skip
    """Fill in ``originals`` from ``done`` on until the arrays are full; return the new ``done`` and size."""
    while done < len(new) and size < len(concepts):
        originals[done] = _find(new[done], new_concepts[done], equal, bands, band, signatures, concepts, table)
        if originals[done] < 0:
            signatures[size], concepts[size] = new[done], new_concepts[done]
            _enter(signatures, size, bands, band, table)
            size += 1
        done += 1
    return done, size
