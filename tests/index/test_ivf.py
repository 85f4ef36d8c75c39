"""Cells beside a search that compares everything."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cr5._typing import Array, Ints
from cr5.index import ivf
from cr5.index.ivf import Cells, build, encode, extend
from cr5.index.stores.base import Floats, lists
from cr5.retrieval.kernels import multiply_codes

LANGS = ("da", "it", "vi")


def unit(n: int, rank: int = 12, seed: int = 0) -> Floats:
    """Vectors in some clusters, as texts are about some topics."""
    rng = np.random.default_rng(seed)
    topics = np.random.default_rng(99).normal(size=(40, rank))
    vectors = topics[rng.integers(0, 40, n)] + 0.4 * rng.normal(size=(n, rank))
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def tables(vectors: Floats, first: int = 0, langs: tuple[str, ...] = LANGS) -> Iterator[pa.Table]:
    """Rows with slots from ``first`` on, 500 at a time."""
    for begin in range(0, len(vectors), 500):
        some = vectors[begin : begin + 500]
        slots = first + begin + np.arange(len(some))
        yield pa.table({
            "id": [f"d{slot}" for slot in slots], "concept": [f"Q{slot}" for slot in slots],
            "title": [f"title {slot}" for slot in slots], "url": ["" for _ in slots],
            "lang": [langs[slot % len(langs)] for slot in slots], "slot": slots,
            "row": slots.astype(np.uint64) + 7, "hubness": lists(np.stack([slots, -slots], axis=1)),
            "vector": lists(some),
        })  # fmt: skip


def built(folder: Path, vectors: Floats) -> Cells:
    build(folder, lambda: tables(vectors), len(vectors), len(vectors))
    return Cells(folder)


def alive(index: Cells) -> Array:
    return np.ones(len(index), bool)


def slots(index: Cells, rows: Ints) -> list[int]:
    return [int(slot) for slot in index.slots[rows]]


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(1, 70), st.integers(0, 2**32))
def test_codes_are_off_by_a_few_millionths(n: int, rank: int, seed: int) -> None:
    vectors = np.random.default_rng(seed).normal(size=(n, rank)).astype(np.float32)
    codes = encode(vectors)
    bound = np.abs(vectors).max(axis=1) / 127 / 254 * 0.51 + 1e-6
    assert (np.abs(codes.take(np.arange(n)) - vectors).max(axis=1) <= bound).all()


def test_a_vector_of_zeros_has_codes_too() -> None:
    np.testing.assert_array_equal(encode(np.zeros((2, 3), np.float32)).take(np.array([0, 1])), np.zeros((2, 3)))


@settings(deadline=None)
@given(st.integers(1, 70), st.integers(0, 2**32))
def test_products_with_codes_are_those_of_the_dense_oracle(rank: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    codes, scales = rng.integers(-127, 128, (50, rank)).astype(np.int8), rng.random(50).astype(np.float32)
    query, living = rng.normal(size=rank).astype(np.float32), rng.random(50) < 0.8
    begins, ends = np.array([3, 20, 20, 41]), np.array([10, 20, 33, 50])
    rows = np.concatenate([np.arange(a, b) for a, b in zip(begins, ends, strict=True)])
    products = np.empty(len(rows), np.float32)
    multiply_codes(codes, scales, living, begins, ends, query, products)
    right = np.where(living, codes.astype(np.float64) @ query * scales, -np.inf)[rows]
    np.testing.assert_allclose(products, right, rtol=1e-4, atol=1e-3)


def test_who_meets_everything_finds_what_an_exact_search_finds(tmp_path: Path) -> None:
    vectors, asked = unit(3000), unit(50, seed=1)
    index = built(tmp_path, vectors)
    for vector in asked:
        rows, products = index.nearest(vector, 20, None, alive(index))
        exact = vectors @ vector
        np.testing.assert_allclose(products, np.sort(exact)[::-1][:20], atol=5e-5)  # in 12 numbers each is large
        np.testing.assert_allclose(exact[slots(index, rows)], products, atol=5e-5)


def test_who_meets_a_tenth_finds_nearly_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, asked = unit(8000), unit(100, seed=1)
    index = built(tmp_path, vectors)
    monkeypatch.setattr(ivf, "MET", 800)
    shares = []
    for vector in asked:
        rows, _ = index.nearest(vector, 10, None, alive(index))
        shares.append(len({*slots(index, rows)} & {*np.argsort(-(vectors @ vector))[:10].tolist()}) / 10)
    assert np.mean(shares) > 0.9


def test_a_rare_language_is_met_as_a_whole_wherever_its_rows_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = unit(3000)
    langs = tuple("vi" if i % 100 == 0 else "da" for i in range(3000))
    build(tmp_path, lambda: tables(vectors, 0, langs), 3000, 3000)
    index = Cells(tmp_path)
    monkeypatch.setattr(ivf, "MET", 100)
    rare = np.arange(0, 3000, 100)
    for vector in unit(20, seed=2):
        rows, _ = index.nearest(vector, 10, ["vi", "nobody's"], alive(index))
        assert slots(index, rows) == rare[np.argsort(-(vectors[rare] @ vector))[:10]].tolist()
        assert set(index.take(rows)["lang"].to_pylist()) == {"vi"}
    assert len(index.nearest(vectors[0], 10, ["nobody's"], alive(index))[0]) == 0
    assert len(index.nearest(vectors[0], 10, [], alive(index))[0]) == 0


def test_who_wants_many_meets_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = built(tmp_path, unit(3000))
    monkeypatch.setattr(ivf, "MET", 100)
    for k in (150, 3000):
        assert len(index.nearest(unit(1)[0], k, None, alive(index))[0]) == k


def test_the_dead_are_not_found(tmp_path: Path) -> None:
    vectors = unit(1000)
    index = built(tmp_path, vectors)
    living = index.slots % 2 == 0
    rows, _ = index.nearest(vectors[1], 1000, None, living)
    assert sorted(slots(index, rows)) == list(range(0, 1000, 2))


def test_rows_are_found_by_their_ids_with_all_that_was_given(tmp_path: Path) -> None:
    vectors = unit(1000)
    index = built(tmp_path, vectors)
    extend(tmp_path, tables(vectors[:10], 1000), 1010)
    index = Cells(tmp_path)
    rows = index.find(["d3", "nobody", "d1005", "d999", "d3"])
    found = index.take(rows)
    assert sorted(found["id"].to_pylist()) == ["d1005", "d3", "d999"]
    for row, vector in zip(found.to_pylist(), index.vectors(rows), strict=True):
        slot = row["slot"]
        assert row["id"] == f"d{slot}"
        assert (row["lang"], row["row"], row["hubness"]) == (LANGS[slot % 3], slot + 7, [slot, -slot])
        np.testing.assert_allclose(vector, vectors[slot % 1000], atol=5e-5)
    assert index.find([]).tolist() == []
    assert index.take(index.find([])).num_rows == 0


def test_pieces_that_come_later_are_joined_and_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ivf, "LARGEST", 1500)
    vectors = unit(4000)
    build(tmp_path, lambda: tables(vectors[:2000]), 2000, 2000)
    sizes = []
    for begin in range(2000, 4000, 100):
        extend(tmp_path, tables(vectors[begin : begin + 100], begin, (*LANGS, f"x{begin}")), begin + 100)
        index = Cells(tmp_path)
        sizes.append([len(piece) for piece in index.pieces])
        assert sorted(index.slots.tolist()) == list(range(begin + 100))
        assert index.until == begin + 100
        assert {path.name for path in tmp_path.iterdir()} == {
            "cells.json",
            index.about["centres"],
            *index.about["pieces"],
        }
    assert max(map(len, sizes)) <= 8
    assert max(map(max, sizes)) <= 1500
    for vector in unit(20, seed=3):
        rows, _ = index.nearest(vector, 10, None, alive(index))
        assert slots(index, rows) == np.argsort(-(vectors @ vector))[:10].tolist()
    rows, _ = index.nearest(vectors[0], 4000, ["x2100"], alive(index))
    assert sorted(slots(index, rows)) == [slot for slot in range(2100, 2200) if slot % 4 == 3]


def test_what_is_open_stays_though_its_files_are_gone(tmp_path: Path) -> None:
    vectors = unit(1000)
    index = built(tmp_path, vectors)
    built(tmp_path, unit(500, seed=5))
    rows, _ = index.nearest(vectors[7], 1, None, alive(index))
    assert index.take(rows)["id"].to_pylist() == ["d7"]
    assert index.take(index.find(["d9"]))["slot"].to_pylist() == [9]


def test_a_run_that_fails_leaves_the_old_cells(tmp_path: Path) -> None:
    vectors = unit(1000)
    index = built(tmp_path, vectors)

    def broken() -> Iterator[pa.Table]:
        yield from tables(vectors[:600], 1000)
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        extend(tmp_path, broken(), 2000)
    with pytest.raises(OSError, match="full"):
        build(tmp_path, broken, 1000, 2000)
    assert Cells(tmp_path).about == index.about
    extend(tmp_path, tables(vectors[:10], 1000), 1010)
    assert len(Cells(tmp_path)) == 1010


def test_equal_vectors_and_fewer_than_cells_are_no_trouble(tmp_path: Path) -> None:
    same = np.repeat(unit(1), 70, axis=0)
    index = built(tmp_path, same)
    rows, products = index.nearest(same[0], 10, None, alive(index))
    assert len(rows) == 10
    np.testing.assert_allclose(products, 1, atol=5e-5)
