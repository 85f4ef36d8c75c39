"""Sign codes compared with dense arithmetic."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cr5.index.sign_codes import QUERY_BITS, encode, encode_query, keep_nearest, projections


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("rank", [1, 12, 256, 257, 300])
def test_projections_keep_lengths_and_inner_products(rank: int) -> None:
    P = projections(rank)
    assert len(P) % 64 == 0
    np.testing.assert_allclose(P.T @ P, np.eye(rank), atol=1e-5)


@settings(deadline=None)
@given(st.integers(1, 300), st.integers(0, 2**32))
def test_the_nearest_agree_with_the_formula_in_dense_arithmetic(rank: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    differences, query = normal(50, rank, seed=seed), normal(rank, seed=seed + 1)
    live, bases = rng.random(50) < 0.8, normal(4, seed=seed + 2)
    begins, ends = np.array([3, 20, 20, 41]), np.array([10, 20, 33, 50])
    found, estimates = np.full(12, -1), np.full(12, -np.inf, np.float32)
    keep_nearest(encode(differences), live, begins, ends, bases, encode_query(query), 100, estimates, found)

    P = projections(rank)
    projected, Pq = differences @ P.T, P @ query
    step = (Pq.max() - Pq.min()) / (2**QUERY_BITS - 1)
    rounded = Pq.min() + step * np.rint((Pq - Pq.min()) / step)
    factors = (projected**2).sum(axis=1) / np.abs(projected).sum(axis=1)
    right = factors * (np.where(projected > 0, 1, -1) @ rounded)
    rows = np.concatenate([np.arange(a, b) for a, b in zip(begins, ends, strict=True)])
    right[rows] += np.repeat(bases, ends - begins)
    rows = rows[live[rows]]
    found, estimates = found[found >= 0] - 100, estimates[found >= 0]
    assert set(found) <= set(rows)
    np.testing.assert_allclose(estimates, right[found], rtol=1e-3, atol=1e-2)
    np.testing.assert_allclose(np.sort(estimates), np.sort(right[rows])[-12:], rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("rank", [12, 64, 300])
def test_the_error_of_an_estimate_is_about_one_by_the_root_of_the_number_of_bits(rank: int) -> None:
    rows = normal(2000, rank)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    query = rows[0] + normal(rank, seed=1) / rank**0.5
    query /= np.linalg.norm(query)
    found, estimates = np.zeros(2000, np.int64), np.full(2000, -np.inf, np.float32)
    everything, zero = np.ones(2000, bool), np.zeros(1, np.float32)
    keep_nearest(
        encode(rows), everything, np.array([0]), np.array([2000]), zero, encode_query(query), 0, estimates, found
    )
    errors = estimates - (rows @ query)[found]
    assert sorted(found) == list(range(2000))
    assert abs(errors.mean()) < 0.005
    assert errors.std() < 0.9 / len(projections(rank)) ** 0.5


def test_a_vector_that_is_its_centroid_and_a_query_of_zeros_are_possible() -> None:
    codes = encode(np.zeros((3, 5), np.float32))
    found, estimates = np.full(3, -1), np.full(3, -np.inf, np.float32)
    base = np.ones(1, np.float32)
    keep_nearest(
        codes,
        np.ones(3, bool),
        np.array([0]),
        np.array([3]),
        base,
        encode_query(np.zeros(5, np.float32)),
        0,
        estimates,
        found,
    )
    np.testing.assert_allclose(estimates, 1, atol=1e-6)
