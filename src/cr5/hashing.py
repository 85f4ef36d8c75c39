"""Hashes that are the same on every machine: of numbers (SplitMix64), of texts (BLAKE2b) and of JSON (SHA-256)."""

import hashlib
import json
from collections.abc import Iterable

import numpy as np

from cr5._typing import Ints

GOLDEN_RATIO = 0x9E3779B97F4A7C15
"""The increment of SplitMix64: multiples of it that are mixed are random numbers."""


def mix_bits(numbers: Ints) -> Ints:
    """Mix each unsigned 64-bit integer of an array, of NumPy or on a GPU: every bit then depends on all of them."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        numbers = (numbers ^ (numbers >> shift)) * factor
    return numbers


def hash_texts(texts: Iterable[str]) -> Ints:
    """A 64-bit hash of each text, uint64."""
    blake2b = hashlib.blake2b  # as in ``digest``, whose calls would take a third of the time
    digests = [blake2b(text.encode("utf-8", "replace"), digest_size=8).digest() for text in texts]
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64, copy=False)


def find_hashes(known: Ints, hashes: Ints) -> Ints:
    """The position of every hash in the sorted array ``known``, -1 if it is not there."""
    if not len(known):
        return np.full(len(hashes), -1)
    positions = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
    return np.where(known[positions] == hashes, positions, -1)


def digest(text: str, size: int) -> bytes:
    """The BLAKE2b digest of a text, of ``size`` bytes."""
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=size).digest()


def json_digest(values: object, digits: int) -> str:
    """The first hex digits of the SHA-256 of values as JSON with sorted keys."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:digits]
