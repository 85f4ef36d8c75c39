"""Arrays in the partitions of an engine."""

from functools import partial

import numpy as np
import pytest
from engine_blocks import dense, get_documents, languages, names, put, set_words, words_of

from cr5._typing import Array
from cr5.training.engines import Engine, Partition

"""What the suite runs on: a further engine is a further line."""


def fill(rows: dict[str, Array], width: int, dtype: str = "float64") -> None:
    """A = count, count + 1, ...: every number tells its row and column."""
    rows["A"] = (rows["count"] + np.arange(width)).astype(dtype)


def counts(partition: Partition) -> list[Array]:
    return partition.get("count")


@pytest.mark.parametrize(("width", "dtype"), [(3, "float64"), (3, "float32"), (1, "float64"), (9, "int64")])
def test_an_assigned_array_is_stored_with_any_width_and_dtype(partition: Partition, width: int, dtype: str) -> None:
    partition.map(partial(fill, width=3))
    partition.map(partial(fill, width=width, dtype=dtype))
    for count, A in zip(counts(partition), partition.get("A"), strict=True):
        assert A.dtype == dtype
        np.testing.assert_array_equal(A, count + np.arange(width))


def test_a_deleted_array_is_gone_and_its_name_can_be_used_again(partition: Partition) -> None:
    def forget(rows: dict[str, Array]) -> None:
        rows["B"] = rows.pop("A") + 1

    before = names(partition)
    partition.map(partial(fill, width=2))
    assert set(names(partition)) == {*before, "A"}
    partition.map(forget)
    assert set(names(partition)) == {*before, "B"}
    with pytest.raises(KeyError):
        partition.get("A")
    for count, B in zip(counts(partition), partition.get("B"), strict=True):
        np.testing.assert_array_equal(B, count + np.array([1.0, 2.0]))
    partition.map(partial(fill, width=4))
    assert [A.shape[1] for A in partition.get("A")] == [4] * len(partition.get("A"))


def test_an_array_may_replace_another_of_any_width(partition: Partition) -> None:
    def move(rows: dict[str, Array]) -> None:
        rows["A"] = rows.pop("B")

    partition.map(partial(fill, width=2))
    for width in (2, 5):  # as wide as what was there, and not
        partition.set("B", [count * np.ones(width) - 0.5 for count in counts(partition)])
        partition.map(move)
        for count, A in zip(counts(partition), partition.get("A"), strict=True):
            np.testing.assert_array_equal(A, count * np.ones(width) - 0.5)


def test_a_renamed_array_changes_by_itself_if_it_has_two_new_names(partition: Partition) -> None:
    def name_twice(rows: dict[str, Array]) -> None:
        rows["B"] = rows["C"] = rows.pop("A")

    partition.map(partial(fill, width=2))
    partition.map(name_twice)
    partition.map(lambda rows: rows.update(C=-rows["C"]))
    for count, B, C in zip(counts(partition), partition.get("B"), partition.get("C"), strict=True):
        np.testing.assert_array_equal(B, count + np.arange(2.0))
        np.testing.assert_array_equal(C, -B)


def test_two_arrays_may_swap_their_names(partition: Partition) -> None:
    def swap(rows: dict[str, Array]) -> None:
        rows["A"], rows["B"] = rows["B"], rows["A"]

    partition.map(partial(fill, width=2))
    partition.set("B", [-1.5 * count * np.ones(2) for count in counts(partition)])
    partition.map(swap)
    for count, A, B in zip(counts(partition), partition.get("A"), partition.get("B"), strict=True):
        np.testing.assert_array_equal(A, -1.5 * count * np.ones(2))
        np.testing.assert_array_equal(B, count + np.arange(2.0))


def test_an_array_may_be_kept_under_another_name_while_it_changes(partition: Partition) -> None:
    def step(rows: dict[str, Array]) -> None:
        rows["last"], rows["A"] = rows["A"], rows["A"] + 1

    partition.map(partial(fill, width=2))
    for i in range(3):
        partition.map(step)
        for count, A, last in zip(counts(partition), partition.get("A"), partition.get("last"), strict=True):
            np.testing.assert_array_equal(last, count + np.arange(2.0) + i)
            np.testing.assert_array_equal(A, last + 1)


def test_results_are_added_up_over_the_rows_of_a_block(partition: Partition) -> None:
    found = partition.map(lambda rows: rows["count"].sum(axis=0))
    assert [total.tolist() for total in found] == [[n * (n - 1) // 2] for n in map(len, counts(partition))]
    assert partition.map(lambda rows: None) == [None] * len(found)


def test_arguments_are_handed_out_block_by_block(partition: Partition) -> None:
    def scaled(rows: dict[str, Array], factor: float, shift: Array) -> float:
        rows["A"] = factor * rows["count"] + shift
        return factor * len(rows["count"])

    blocks = len(counts(partition))
    factors, shifts = [2.0 + i for i in range(blocks)], [np.array([i, -i]) for i in range(blocks)]
    found = partition.map(scaled, factors, shifts)
    assert found == [factor * n for factor, n in zip(factors, map(len, counts(partition)), strict=True)]
    for count, A, factor, shift in zip(counts(partition), partition.get("A"), factors, shifts, strict=True):
        np.testing.assert_array_equal(A, factor * count + shift)


def test_a_row_sees_its_own_row_of_every_array(partition: Partition) -> None:
    def add(rows: dict[str, Array]) -> float:
        rows["C"] = rows["A"] - rows["B"]
        return float(np.abs(rows["C"]).sum())

    partition.map(partial(fill, width=2))
    partition.set("B", [count + np.arange(2.0) for count in counts(partition)])
    assert partition.map(add) == [0.0] * len(counts(partition))


def test_an_error_in_a_mapped_function_is_raised_to_the_caller(partition: Partition) -> None:
    def fails(rows: dict[str, Array]) -> None:
        if (rows["count"] == len(rows["count"]) // 2).any():
            raise ZeroDivisionError("in the middle of the rows")

    with pytest.raises(ZeroDivisionError, match="in the middle of the rows"):
        partition.map(fails)


def test_arrays_from_get_are_copies(partition: Partition) -> None:
    partition.map(partial(fill, width=3))
    got, copies = partition.get("A"), [A.copy() for A in partition.get("A")]
    partition.map(lambda rows: rows.update(A=-rows["A"]))
    for A, copy in zip(got, copies, strict=True):
        np.testing.assert_array_equal(A, copy)
    for A, copy in zip(partition.get("A"), copies, strict=True):
        np.testing.assert_array_equal(A, -copy)


def test_an_array_that_was_set_keeps_its_dtype(partition: Partition) -> None:
    arrays = [
        np.random.default_rng(0).standard_normal((len(count), 3)).astype("float32") for count in counts(partition)
    ]
    partition.set("A", arrays)
    partition.set("A", [A[:, :2] for A in arrays])  # columns of wider arrays are fine
    for A, array in zip(partition.get("A"), arrays, strict=True):
        assert A.dtype == np.float32
        np.testing.assert_array_equal(A, array[:, :2])


def test_set_does_not_change_its_arguments(partition: Partition) -> None:
    given = [np.ones((len(count), 3)) for count in counts(partition)]
    partition.set("A", given)
    partition.map(lambda rows: rows.update(A=rows["A"] * 7))
    assert all((A == 1).all() for A in given)
    assert all((A == 7).all() for A in partition.get("A"))


def test_a_language_without_documents_is_a_block_without_rows(engine: Engine) -> None:
    put(engine, languages())
    set_words(engine, "V", dense(words_of(languages()), 3))
    engine.multiply("V", "V")
    found = engine.documents.map(lambda rows: rows["V"].sum(axis=0))
    empty = [total for total, block in zip(found, engine.block_info(), strict=True) if block.documents == 0]
    assert [total.tolist() for total in empty] == [[0.0, 0.0, 0.0]]
    engine.documents.map(lambda rows: rows.update(V=rows["V"][:, :2]))
    assert get_documents(engine, "V")["none"].shape == (0, 2)
