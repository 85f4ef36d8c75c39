"""What the functions that an engine applies to the rows of a partition have in common.

They use operators only, row by row, and write into no array.
"""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from cr5._typing import Array
from cr5.hashing import GOLDEN_RATIO, mix_bits
from cr5.training.engines.dense import inner_products

NamedArrays: TypeAlias = dict[str, Array]


def sums(V: Array) -> Array:
    """1'V, as a product, which is the fastest way to sum columns on every device."""
    return (np.ones_like(V, shape=len(V)) @ V).astype("float64")


def column_products(rows: NamedArrays, pairs: Sequence[tuple[str, str]]) -> Array:
    """pairs x columns: the inner products of the columns of two arrays."""
    return np.stack([sums(rows[a] * rows[b]) for a, b in pairs])


def total(parts: Sequence[Array]) -> Array:
    """The sum over the blocks of a partition."""
    return np.asarray(sum(parts[1:], start=parts[0]))


def means_and_diagonal(rows: NamedArrays, documents: Array) -> None:
    """The mean document, and diag(X'C X)."""
    mean, squares = rows["mean"] / documents, rows["diagonal"]
    rows["mean"] = mean
    diagonal = squares - documents * mean**2
    rows["diagonal"] = diagonal * (diagonal > 0)


def random_signs(rows: NamedArrays, columns: Array, bits: Array, width: int, dtype: str) -> None:
    """Z = random signs: the bits of a hash of a concept's number, independent of its position and the engine."""
    hashed = mix_bits(rows["id"].astype("uint64") * GOLDEN_RATIO + columns * 0xA0761D6478BD642F)
    signs = (hashed[:, :, None] >> bits) & 1
    rows["Z"] = signs.reshape(len(hashed), -1)[:, :width].astype(dtype) * 2 - 1


def cross(rows: NamedArrays, name: str, others: tuple[str, ...]) -> Array:
    """[others]'V."""
    return np.concatenate([inner_products(rows[other], rows[name]) for other in others], dtype="float64")
