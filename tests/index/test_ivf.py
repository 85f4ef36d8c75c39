"""The IVF index compared with an exhaustive search."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cr5._typing import Array, Ints
from cr5.index.ivf import SIGN_COLUMNS, IvfIndex, VectorSegment, build, extend, quantise
from cr5.index.stores.rows import Floats, to_lists

LANGS = ("da", "it", "vi")


def unit(n: int, rank: int = 12, seed: int = 0) -> Floats:
    """Random vectors of length 1 in 40 clusters."""
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
            "row": slots.astype(np.uint64) + 7, "hubness": to_lists(np.stack([slots, -slots], axis=1)),
            "vector": to_lists(some),
        })  # fmt: skip


def built(folder: Path, vectors: Floats) -> IvfIndex:
    build(folder, lambda _: tables(vectors), len(vectors), len(vectors))
    return IvfIndex(folder)


def all_live(index: IvfIndex) -> Array:
    return np.ones(len(index), bool)


def slots(index: IvfIndex, rows: Ints) -> list[int]:
    return [int(slot) for slot in index.slots[rows]]


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(1, 70), st.integers(0, 2**32))
def test_quantised_vectors_differ_by_a_few_millionths(n: int, rank: int, seed: int) -> None:
    vectors = np.random.default_rng(seed).normal(size=(n, rank)).astype(np.float32)
    codes = quantise(vectors)
    bound = np.abs(vectors).max(axis=1) / 127 / 254 * 0.51 + 1e-6
    assert (np.abs(codes.decode(np.arange(n)) - vectors).max(axis=1) <= bound).all()


def test_products_with_quantised_vectors_are_those_of_the_decoded_vectors() -> None:
    rng = np.random.default_rng(0)
    codes, rows = quantise(rng.standard_normal((50, 30)).astype(np.float32)), np.array([7, 0, 49, 7])
    vector = rng.standard_normal(30).astype(np.float32)
    np.testing.assert_allclose(codes.products(rows, vector), codes.decode(rows) @ vector, rtol=0, atol=1e-5)
    assert codes.products(rows[:0], vector).shape == (0,)


def test_a_vector_of_zeros_can_be_quantised() -> None:
    np.testing.assert_array_equal(quantise(np.zeros((2, 3), np.float32)).decode(np.array([0, 1])), np.zeros((2, 3)))


def test_a_search_that_scans_all_lists_agrees_with_an_exhaustive_search(tmp_path: Path) -> None:
    vectors, queries = unit(3000), unit(50, seed=1)
    index = built(tmp_path, vectors)
    for vector in queries:
        rows, products = index.nearest(vector, 20, None, all_live(index))
        exact = vectors @ vector
        np.testing.assert_allclose(products, np.sort(exact)[::-1][:20], atol=5e-5)
        np.testing.assert_allclose(exact[slots(index, rows)], products, atol=5e-5)


def test_segments_of_an_earlier_version_are_searched_and_get_sign_codes_when_rows_are_added(tmp_path: Path) -> None:
    vectors, queries = unit(3200), unit(20, seed=1)
    index = built(tmp_path, vectors[:3000])
    expected = [index.nearest(vector, 10, None, all_live(index)) for vector in queries]
    [(name, segment)] = index.named_segments
    IvfIndex.write(VectorSegment(segment.table.drop_columns(list(SIGN_COLUMNS))), tmp_path / name)
    old = IvfIndex(tmp_path)
    assert not old.segments[0].has_signs
    for vector, (rows, products) in zip(queries, expected, strict=True):
        found = old.nearest(vector, 10, None, all_live(old))
        np.testing.assert_array_equal(found[0], rows)
        np.testing.assert_array_equal(found[1], products)
    extend(tmp_path, tables(vectors[3000:], 3000), 3200)
    new = IvfIndex(tmp_path)
    assert all(segment.has_signs for segment in new.segments)
    for vector in queries:
        rows, _ = new.nearest(vector, 10, None, all_live(new))
        assert slots(new, rows) == np.argsort(-(vectors @ vector))[:10].tolist()


def test_a_segment_whose_groups_an_earlier_version_wrote_as_int64_is_merged_with_a_new_one(tmp_path: Path) -> None:
    index = built(tmp_path, unit(300))
    [segment] = index.segments
    column = segment.table.column_names.index("group")
    old = VectorSegment(segment.table.set_column(column, "group", segment.table["group"].cast(pa.int64())))
    for pair in ([old, segment], [segment, old]):
        groups = IvfIndex.merge(pair).table["group"].to_numpy()
        np.testing.assert_array_equal(groups, np.repeat(segment.table["group"].to_numpy(), 2))


def test_neighbouring_languages_are_scanned_at_once_and_others_left_out(tmp_path: Path) -> None:
    vectors, langs = unit(500), ("aa", "bb", "cc", "dd", "ee")
    build(tmp_path, lambda _: tables(vectors, langs=langs), 500, 500)
    index = IvfIndex(tmp_path)
    for chosen in (["aa", "bb", "dd"], ["bb", "ee"], ["cc"], list(langs)):
        own = [i for i in range(500) if langs[i % 5] in chosen]
        rows, _ = index.nearest(vectors[3], 10, chosen, all_live(index))
        assert slots(index, rows) == [own[i] for i in np.argsort(-(vectors[own] @ vectors[3]))[:10]]


def test_a_search_that_scans_a_tenth_of_the_rows_finds_nearly_all_neighbours(tmp_path: Path) -> None:
    vectors, queries = unit(8000), unit(100, seed=1)
    index = built(tmp_path, vectors)
    shares = []
    for vector in queries:
        rows, _ = index.nearest(vector, 10, None, all_live(index), min_scanned_rows=800)
        shares.append(len({*slots(index, rows)} & {*np.argsort(-(vectors @ vector))[:10].tolist()}) / 10)
    assert np.mean(shares) > 0.9


def test_all_rows_of_a_rare_language_are_scanned(tmp_path: Path) -> None:
    vectors = unit(3000)
    langs = tuple("vi" if i % 100 == 0 else "da" for i in range(3000))
    build(tmp_path, lambda _: tables(vectors, 0, langs), 3000, 3000)
    index = IvfIndex(tmp_path)
    rare = np.arange(0, 3000, 100)
    for vector in unit(20, seed=2):
        rows, _ = index.nearest(vector, 10, ["vi", "unknown"], all_live(index), min_scanned_rows=100)
        assert slots(index, rows) == rare[np.argsort(-(vectors[rare] @ vector))[:10]].tolist()
        assert set(index.take(rows)["lang"].to_pylist()) == {"vi"}
    assert len(index.nearest(vectors[0], 10, ["unknown"], all_live(index), min_scanned_rows=100)[0]) == 0
    assert len(index.nearest(vectors[0], 10, [], all_live(index), min_scanned_rows=100)[0]) == 0


def test_more_rows_are_scanned_for_a_larger_k(tmp_path: Path) -> None:
    index = built(tmp_path, unit(3000))
    for k in (150, 3000):
        assert len(index.nearest(unit(1)[0], k, None, all_live(index), min_scanned_rows=100)[0]) == k


def test_rows_that_are_not_live_are_not_found(tmp_path: Path) -> None:
    vectors = unit(1000)
    index = built(tmp_path, vectors)
    living = index.slots % 2 == 0
    rows, _ = index.nearest(vectors[1], 1000, None, living)
    assert sorted(slots(index, rows)) == list(range(0, 1000, 2))


def test_rows_are_found_by_id_with_all_their_columns(tmp_path: Path) -> None:
    vectors = unit(1000)
    index = built(tmp_path, vectors)
    extend(tmp_path, tables(vectors[:10], 1000), 1010)
    index = IvfIndex(tmp_path)
    rows = index.find(["d3", "missing", "d1005", "d999", "d3"])
    found = index.take(rows)
    assert sorted(found["id"].to_pylist()) == ["d1005", "d3", "d999"]
    for row, vector in zip(found.to_pylist(), index.vectors(rows), strict=True):
        slot = row["slot"]
        assert row["id"] == f"d{slot}"
        assert (row["lang"], row["row"], row["hubness"]) == (LANGS[slot % 3], slot + 7, [slot, -slot])
        np.testing.assert_allclose(vector, vectors[slot % 1000], atol=5e-5)
    assert index.find([]).tolist() == []
    assert index.take(index.find([])).num_rows == 0


def test_segments_that_are_added_are_merged_and_searched(tmp_path: Path) -> None:
    vectors = unit(4000)
    build(tmp_path, lambda _: tables(vectors[:2000]), 2000, 2000, max_segment_rows=1500)
    sizes = []
    for begin in range(2000, 4000, 100):
        extend(
            tmp_path,
            tables(vectors[begin : begin + 100], begin, (*LANGS, f"x{begin}")),
            begin + 100,
            max_segment_rows=1500,
        )
        index = IvfIndex(tmp_path)
        sizes.append([segment.size for segment in index.segments])
        assert sorted(index.slots.tolist()) == list(range(begin + 100))
        assert index.next_slot == begin + 100
        assert {path.name for path in tmp_path.iterdir()} == {
            "cells.json",
            index.manifest["centres"],
            *index.manifest["pieces"],
        }
    assert max(map(len, sizes)) <= 8
    assert max(map(max, sizes)) <= 1500
    for vector in unit(20, seed=3):
        rows, _ = index.nearest(vector, 10, None, all_live(index))
        assert slots(index, rows) == np.argsort(-(vectors @ vector))[:10].tolist()
    rows, _ = index.nearest(vectors[0], 4000, ["x2100"], all_live(index))
    assert sorted(slots(index, rows)) == [slot for slot in range(2100, 2200) if slot % 4 == 3]


def test_an_open_index_stays_readable_after_its_files_are_replaced(tmp_path: Path) -> None:
    vectors = unit(1000)
    index = built(tmp_path, vectors)
    built(tmp_path, unit(500, seed=5))
    rows, _ = index.nearest(vectors[7], 1, None, all_live(index))
    assert index.take(rows)["id"].to_pylist() == ["d7"]
    assert index.take(index.find(["d9"]))["slot"].to_pylist() == [9]


def test_a_failed_run_leaves_the_old_index(tmp_path: Path) -> None:
    vectors = unit(1000)
    index = built(tmp_path, vectors)

    def broken() -> Iterator[pa.Table]:
        yield from tables(vectors[:600], 1000)
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        extend(tmp_path, broken(), 2000)
    with pytest.raises(OSError, match="full"):
        build(tmp_path, lambda _: broken(), 1000, 2000)
    assert IvfIndex(tmp_path).manifest == index.manifest
    extend(tmp_path, tables(vectors[:10], 1000), 1010)
    assert len(IvfIndex(tmp_path)) == 1010


def test_equal_vectors_can_be_indexed(tmp_path: Path) -> None:
    same = np.repeat(unit(1), 70, axis=0)
    index = built(tmp_path, same)
    rows, products = index.nearest(same[0], 10, None, all_live(index))
    assert len(rows) == 10
    np.testing.assert_allclose(products, 1, atol=5e-5)


def test_all_allowed_rows_are_found_however_few_and_far_from_the_query(tmp_path: Path) -> None:
    vectors = unit(2000)
    index = built(tmp_path, vectors)
    allowed = np.zeros(1990, bool)  # shorter than there are slots
    allowed[[3, 700, 1500, 1501]] = True
    live = all_live(index)
    live[index.slots == 700] = False
    query = -vectors[3]
    rows, products = index.nearest(query, 10, None, live, allowed=allowed, min_scanned_rows=4)
    wanted = np.array([3, 1500, 1501])
    cosines = vectors[wanted] @ query
    assert slots(index, rows) == wanted[np.argsort(-cosines)].tolist()
    np.testing.assert_allclose(products, np.sort(cosines)[::-1], atol=1e-4)
    danish = [slot for slot in wanted.tolist() if slot % 3 == 0]
    rows, _ = index.nearest(query, 10, ["da"], live, allowed=allowed, min_scanned_rows=4)
    assert sorted(slots(index, rows)) == danish
