"""Sign codes, as in RaBitQ: one bit for each of several hundred projections of a vector, to estimate inner products.

P has orthonormal columns (bits x rank), so that lengths and inner products stay. Of a vector x near a centroid c, the
signs s = sign(P (x - c)), +1 or -1, and one factor are kept. With them, for a query q,

    q'x = q'c + q'(x - c),    q'(x - c) is estimated as f (P q)'s,    f = |x - c|^2 / sum of |P (x - c)|

which is exact for q = x - c; otherwise its error is about 0.76 |q| |x - c| / sqrt(bits), however large the rank. P q is
rounded to ``QUERY_BITS`` bits, step u + least with integers u, so that (P q)'s is computed by counting bits:

    (P q)'s = 2 (step sum of 2^p |s & u_p| + least |s|) - sum of P q

where u_p is the plane of bit p of u, s the bits of positive signs, and |.| counts bits.
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from cr5._typing import Array, Ints, Mask
from cr5.hashing import GOLDEN_RATIO, mix_bits
from cr5.index.stores.rows import Floats

MIN_BITS, WORD_BITS = 256, 64
QUERY_BITS = 4  # the kernel is written for four


class SignCodes(NamedTuple):
    """The signs of rows (rows x words of 64 bits), and the factor f of each."""

    signs: Array
    factors: Floats


class SignQuery(NamedTuple):
    """A query as bit planes (bits x words), and the numbers that turn counts of bits into inner products."""

    planes: Array
    step: float
    least: float
    total: float


@cache
def projections(rank: int) -> Floats:
    """P: columns of a product of two cosine transforms with signs, the same on every machine."""
    bits = -(-max(rank, MIN_BITS) // WORD_BITS) * WORD_BITS
    half = np.arange(bits) + 0.5
    transform = np.sqrt(2 / bits) * np.cos(np.pi / bits * half[:, None] * half)
    numbers = mix_bits(np.arange(1, 2 * bits + 1, dtype=np.uint64) * np.uint64(GOLDEN_RATIO))
    signs = 1.0 - 2.0 * (numbers & np.uint64(1))
    return np.asarray((transform * signs[:bits]) @ (transform * signs[bits:])[:, :rank], np.float32)


def encode(differences: Floats) -> SignCodes:
    """The sign codes of vectors, given as their differences from their centroids (rows x rank)."""
    projected = differences @ projections(differences.shape[1]).T
    signs = np.packbits(projected > 0, axis=1, bitorder="little").view("<u8")
    sums = np.maximum(np.abs(projected).sum(axis=1), np.float32(1e-30))
    return SignCodes(signs, (projected**2).sum(axis=1) / sums)


def encode_query(vector: Floats) -> SignQuery:
    """The bit planes of a query."""
    projected = projections(len(vector)) @ vector
    least = float(projected.min())
    step = max((float(projected.max()) - least) / (2**QUERY_BITS - 1), 1e-30)
    rounded = np.rint((projected - least) / step).astype(np.uint8)
    planes = (rounded >> np.arange(QUERY_BITS, dtype=np.uint8)[:, None]) & 1
    total = step * int(rounded.sum()) + least * len(projected)
    return SignQuery(np.packbits(planes, axis=1, bitorder="little").view("<u8"), step, least, total)


def keep_nearest(
    codes: SignCodes, live: Mask, begins: Ints, ends: Ints, bases: Floats, query: SignQuery, first: int,
    scores: Floats, rows: Ints,
) -> None:  # fmt: skip
    """Push rows of several ranges, whose centroids have the inner products ``bases``, onto the heap of the nearest."""
    from cr5.retrieval.kernels import keep_nearest_signs

    keep_nearest_signs(*codes, live, begins, ends, bases, *query, first, scores, rows)
