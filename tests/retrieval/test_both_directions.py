"""Nearest rows in both directions against a dense oracle: exact, by lists, in blocks and on several threads."""

from typing import Any

import numpy as np
import pytest

from cr5._typing import Array
from cr5.retrieval import both_directions
from cr5.retrieval.both_directions import nearest_in_both_directions
from cr5.retrieval.vectors import unit_rows


def vectors(rows: int, seed: int) -> Array:
    return unit_rows(np.random.default_rng(seed).normal(size=(rows, 12))).astype(np.float32)


A, B = vectors(90, 1), vectors(70, 2)
K = 5


def oracle(products: Array, k: int = K) -> Array:
    return np.argsort(-products, axis=1)[:, :k]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("lists", [1, 8])
@pytest.mark.parametrize("block", [7, 1000])
def test_with_all_lists_probed_the_search_is_exact(threads: int, lists: int, block: int) -> None:
    shapes: dict[str, Any] = {"query_rows": block, "block_shape": (block, block)}
    found = nearest_in_both_directions(A, B, K, lists=lists, probes=lists, threads=threads, **shapes)
    np.testing.assert_array_equal(found.left, oracle(A @ B.T))
    np.testing.assert_array_equal(found.right, oracle(B @ A.T))


def test_rows_are_compared_with_those_in_the_lists_of_their_nearest_centroids(monkeypatch: pytest.MonkeyPatch) -> None:
    centroids = vectors(6, 3)
    monkeypatch.setattr(both_directions, "kmeans", lambda rows, number: centroids)
    found = nearest_in_both_directions(A, B, K, lists=6, probes=2)
    probed, own = oracle(A @ centroids.T, 2), oracle(B @ centroids.T, 1)
    compared = (probed[:, None, :] == own[None]).any(axis=2)  # left x right
    products = np.where(compared, A @ B.T, -np.inf)
    for rows, expected in ((found.left, products), (found.right, products.T)):
        for row, scores in zip(rows, expected, strict=True):
            want = [j for j in np.argsort(-scores)[:K].tolist() if scores[j] > -np.inf]
            assert row.tolist() == want + [-1] * (K - len(want))


def test_probing_more_lists_finds_more_of_the_nearest_rows() -> None:
    exact = oracle(A @ B.T)
    shares = []
    for probes in (1, 4, 16):
        found = nearest_in_both_directions(A, B, K, lists=16, probes=probes).left
        shares.append(np.mean([np.isin(own, row).mean() for own, row in zip(exact, found, strict=True)]))
    assert shares[0] < shares[1] < shares[2] == 1


def test_fewer_rows_than_neighbours_are_all_found_and_half_precision_is_accepted() -> None:
    found = nearest_in_both_directions(A[:3].astype(np.float16), B[:2].astype(np.float16), K)
    np.testing.assert_array_equal(found.left, oracle(A[:3] @ B[:2].T))
    np.testing.assert_array_equal(found.right, oracle(B[:2] @ A[:3].T))
