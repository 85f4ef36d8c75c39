"""Vectors in files: what is written comes back, and what is no vectors is refused."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cr5.errors import Cr5Error
from cr5.storage.vector_files import read, write


@pytest.mark.parametrize("suffix", [".npy", ".parquet"])
def test_written_vectors_come_back(suffix: str, tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(7, 5)).astype(np.float32)
    path = tmp_path / f"en{suffix}"
    write(path, rows, [f"text {i}" for i in range(7)])
    np.testing.assert_array_equal(read(path), rows)


def test_lists_of_any_width_and_numbers_of_any_kind_are_read(tmp_path: Path) -> None:
    pq.write_table(pa.table({"vector": [[1.0, 2.0], [3.0, 4.0]], "concept": ["a", "b"]}), tmp_path / "en.parquet")
    np.testing.assert_array_equal(read(tmp_path / "en.parquet"), np.array([[1, 2], [3, 4]], np.float32))
    np.save(tmp_path / "it.npy", np.array([[1, 2], [3, 4]]))
    assert read(tmp_path / "it.npy").dtype == np.float32


def message(path: Path) -> str:
    with pytest.raises(Cr5Error) as caught:
        read(path)
    return str(caught.value)


def test_what_holds_no_vectors_is_refused_with_the_way_out(tmp_path: Path) -> None:
    assert message(tmp_path / "no.npy") == f"{tmp_path / 'no.npy'} does not exist; check the spelling"
    text = tmp_path / "text.npy"
    text.write_text("hello")
    assert message(text).startswith(f"{text} holds no vectors (")
    assert message(text).endswith("); write it as cr5 encode does")
    table = tmp_path / "table.parquet"
    pq.write_table(pa.table({"text": ["a"]}), table)
    assert message(table).startswith(f"{table} holds no vectors (")
    pq.write_table(pa.table({"vector": [[1.0], [1.0, 2.0]]}), table)
    reason = "its vectors have different lengths, or some are missing"
    expected = f"{table} holds no vectors ({reason}); write it as cr5 encode does"
    assert message(table) == expected
    pq.write_table(pa.table({"vector": [[1.0], None]}), table)
    assert message(table) == expected
    flat = tmp_path / "flat.npy"
    np.save(flat, np.ones(3))
    assert message(flat) == f"{flat} holds an array of shape (3,), type float64; it must be rows of numbers"
    np.save(flat, np.array([[1.0, np.nan]]))
    assert message(flat) == f"{flat} holds numbers that are not finite; encode these texts again"
    np.save(flat, np.array([[{}]], dtype=object), allow_pickle=True)
    assert message(flat).startswith(f"{flat} holds no vectors (")
