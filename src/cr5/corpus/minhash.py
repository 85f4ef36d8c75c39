"""The kernels of near-duplicates: shingles of texts, their signatures, and which of them repeat each other.

Unsigned words of 64 bits wrap around; hashes are scrambled by multiplying and shifting. They run without the
interpreter's lock.
"""

from typing import Any

import numba
import numpy as np

from cr5._typing import Array, Ints

SLOTS = 128
SHINGLE = 12  # bytes; the kernel holds them in two words
FEWEST = 32  # slots that the shingles of a text fill, or it is compared byte for byte
CROWD = 16  # texts that are entered for one band: of a template all would meet all, and other bands tell them apart
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
    """Write a text without case, figures and layout; return its length, at most the text's."""
    i, size, last = 0, 0, np.uint32(SPACE)
    while i < len(text):
        byte = np.uint32(text[i])
        if byte < 0x80:
            length, sign = 1, byte
        elif byte < 0xE0:
            length, sign = 2, byte & np.uint32(0x1F)
        elif byte < 0xF0:
            length, sign = 3, byte & np.uint32(0x0F)
        else:
            length, sign = 4, byte & np.uint32(0x07)
        if i + length > len(text):
            break
        for k in range(i + 1, i + length):
            sign = (sign << np.uint32(6)) | (np.uint32(text[k]) & np.uint32(0x3F))
        i += length
        if sign < len(letters):
            sign = letters[sign]
        if sign == last and sign in (SPACE, ZERO):
            continue
        last = sign
        if sign < 0x80:
            out[size] = sign
            size += 1
        elif sign < 0x800:
            out[size] = np.uint32(0xC0) | (sign >> np.uint32(6))
            out[size + 1] = np.uint32(0x80) | (sign & np.uint32(0x3F))
            size += 2
        else:
            if sign < 0x10000:
                out[size] = np.uint32(0xE0) | (sign >> np.uint32(12))
            else:
                out[size] = np.uint32(0xF0) | (sign >> np.uint32(18))
                out[size + 1] = np.uint32(0x80) | ((sign >> np.uint32(12)) & np.uint32(0x3F))
                size += 1
            out[size + 1] = np.uint32(0x80) | ((sign >> np.uint32(6)) & np.uint32(0x3F))
            out[size + 2] = np.uint32(0x80) | (sign & np.uint32(0x3F))
            size += 3
    return size - 1 if size and out[size - 1] == SPACE else size


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _first_shingles(plain: Array, seed: np.uint64, first: Array) -> int:
    """Put the smallest hash of the shingles of each slot into ``first``; return how many slots have one."""
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
        first[slot] = min(first[slot], rest)  # without a branch, which short texts would often take
    filled = 0
    for rest in first:
        filled += rest != _EMPTY
    return filled


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def sign(data: Array, starts: Ints, letters: Array, seed: np.uint64) -> Array:
    """The signature of each text: texts x slots, a byte each."""
    signatures = np.empty((len(starts) - 1, SLOTS), np.uint8)
    longest = 0
    for i in range(len(signatures)):
        longest = max(longest, starts[i + 1] - starts[i])
    out, first, start = np.empty(longest, np.uint8), np.empty(SLOTS, np.uint32), _scramble(seed + _A)
    for i in range(len(signatures)):
        text = data[starts[i] : starts[i + 1]]
        filled = _first_shingles(out[: _plain(text, letters, out)], start, first)
        if filled < FEWEST:
            word = _hash(text, start)
            for slot in range(SLOTS):
                signatures[i, slot] = _scramble(word + np.uint64(slot) * _A) >> np.uint64(56)
            continue
        for slot in range(SLOTS):
            source, word = np.int64(slot), start + np.uint64(slot)
            while first[source] == _EMPTY:
                word = _scramble(word + _A)
                source = np.int64(word >> np.uint64(57))
            signatures[i, slot] = np.uint8(first[source])  # the low byte: the high ones are small, being the first
    return signatures


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _same(one: Array, other: Array, start: int, end: int) -> bool:
    slot = start
    while slot < end and one[slot] == other[slot]:
        slot += 1
    return slot == end


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _enter(signatures: Array, number: int, bands: int, band: int, table: Array) -> None:
    """Put a text's number, from 1 on, into the table once a band, unless the band is crowded."""
    mask = np.uint64(len(table) - 1)
    for b in range(bands):
        start, end = b * band, (b + 1) * band
        place = _hash(signatures[number, start:end], np.uint64(b)) & mask
        step, met = np.uint64(0), 0
        while table[place] and met < CROWD:
            met += _same(signatures[table[place] - 1], signatures[number], start, end)
            step += np.uint64(1)
            place = (place + step) & mask  # steps of 1, 2, 3, ... visit all places of a power of two
        if met < CROWD:
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
    """The number of a text of another concept that agrees in so many slots, or -1."""
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
    """Fill in ``originals`` from ``done`` on while there is room; return how far it came and the new size."""
    while done < len(new) and size < len(concepts):
        originals[done] = _find(new[done], new_concepts[done], equal, bands, band, signatures, concepts, table)
        if originals[done] < 0:
            signatures[size], concepts[size] = new[done], new_concepts[done]
            _enter(signatures, size, bands, band, table)
            size += 1
        done += 1
    return done, size
