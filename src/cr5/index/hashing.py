"""Hashes of texts, the same on every machine."""

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def hash_texts(texts: Sequence[str]) -> NDArray[np.uint64]:
    """A 64-bit hash of each text."""
    return np.frombuffer(b"".join(digest(text, 8) for text in texts), np.uint64)


def digest(text: str, size: int) -> bytes:
    """The BLAKE2b digest of a text, of ``size`` bytes."""
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=size).digest()
