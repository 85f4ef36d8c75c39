"""Whole fits on every engine, with any number of threads, and within a memory budget."""

import errno
import gc
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from engine_blocks import (
    DTYPES,
    assert_close,
    assert_same,
    dense,
    get_documents,
    languages,
    many,
    put,
    set_words,
    subwords_of,
    whole_fit,
    words_of,
)
from problems import random_subwords
from scipy.sparse import csr_array

from cr5.errors import Cr5Error
from cr5.training.engines import Engine, cpu
from cr5.training.engines.cpu import SCRATCH_BYTES, CpuEngine
from cr5.training.solver import Fit

"""What the suite runs on: a further engine is a further line."""


def assert_same_fit(one: Fit, other: Fit) -> None:
    assert one.steps == other.steps
    np.testing.assert_array_equal(one.eigenvalues, other.eigenvalues)
    np.testing.assert_array_equal(one.eigenvectors, other.eigenvectors)
    assert_same(one.maps, other.maps)
    assert_same(one.folded_maps, other.folded_maps)
    assert_same(one.means, other.means)


@pytest.mark.slow
@pytest.mark.parametrize("memory", [None, 2 * SCRATCH_BYTES], ids=["memory", "disk"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_any_number_of_threads_gives_the_same_bits(memory: int | None, dtype: type) -> None:
    fits, given = [], many(dtype)
    for count in (1, 2, 3):
        engine = CpuEngine(memory, threads=count)
        put(engine, given, random_subwords(given.blocks))
        fits.append(whole_fit(engine, max_steps=3))
    for other in fits[1:]:
        assert_same_fit(fits[0], other)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("has_subwords", [False, True])
def test_a_whole_fit_gives_the_same_result_on_every_engine(engine: Engine, dtype: type, has_subwords: bool) -> None:
    plain, given = CpuEngine(), languages(dtype)
    subwords = subwords_of(given) if has_subwords else None
    put(plain, given, subwords)
    put(engine, given, subwords)
    one, other = whole_fit(plain), whole_fit(engine)
    assert {k: Z.shape for k, Z in other.folded_maps.items()} == {k: Z.shape for k, Z in one.folded_maps.items()}
    np.testing.assert_allclose(other.eigenvalues, one.eigenvalues, rtol=1e-3 if dtype == np.float32 else 1e-6)
    assert other.maps["none"].shape == (7, 4)
    assert not other.maps["none"].any()


# Within a budget


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("budget", [2**18, 2**21, 2 * SCRATCH_BYTES])
@pytest.mark.parametrize("has_subwords", [False, True])
def test_a_budget_does_not_change_a_bit_of_a_fit(budget: int, dtype: type, has_subwords: bool) -> None:
    given, plain, scarce = many(dtype), CpuEngine(), CpuEngine(memory=2 * SCRATCH_BYTES)
    scarce.memory = scarce.scratch.budget_bytes = budget  # small: several panels, and many chunks
    subwords = random_subwords(given.blocks) if has_subwords else None
    put(plain, given, subwords)
    put(scarce, given, subwords)
    options: dict[str, Any] = {"rank": 20, "max_steps": 3}
    assert_same_fit(whole_fit(plain, **options), whole_fit(scarce, **options))


@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_a_chunk_of_any_height_gives_the_same_rows(rows: int) -> None:
    given, scarce = languages(), CpuEngine(memory=2 * SCRATCH_BYTES, chunk_rows=rows)
    put(scarce, given)
    V = dense(words_of(given), 5)
    set_words(scarce, "V", V)
    scarce.multiply("V", "V")
    assert_close(get_documents(scarce, "V"), {k: X @ V[k] for k, X in given.blocks.items()}, np.float64)
    found = scarce.documents.map(lambda rows: rows["V"].sum(axis=0))
    np.testing.assert_allclose(found, [(X @ V[k]).sum(axis=0) for k, X in given.blocks.items()], atol=1e-12)


def test_the_earlier_name_of_the_height_of_a_chunk_is_accepted() -> None:
    assert CpuEngine(panel_rows=7).chunk_rows == CpuEngine(chunk_rows=7).chunk_rows == 7


@pytest.mark.parametrize("memory", [0, 1, 2 * SCRATCH_BYTES - 1])
def test_a_budget_that_is_too_small_is_refused(memory: int) -> None:
    with pytest.raises(Cr5Error, match=rf"`memory={memory:_}` is too small; use `memory>=512 \* 2\*\*20`"):
        CpuEngine(memory)


def test_a_full_scratch_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = CpuEngine(2 * SCRATCH_BYTES, tmp_path)

    def full(file: int, begin: int, size: int) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(Cr5Error) as caught:
        engine.put("a", csr_array(np.eye(20_000, 1)), np.arange(20_000))
    assert re.fullmatch(
        re.escape(f"{tmp_path} has no space for 8 bytes of scratch files; free some, or use a larger disk"),
        str(caught.value),
    )
    assert list(tmp_path.iterdir()) == []


def test_another_error_of_the_scratch_disk_is_not_called_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(file: int, begin: int, size: int) -> NoReturn:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "posix_fallocate", broken)
    with pytest.raises(OSError, match="Input/output error"):
        CpuEngine(2 * SCRATCH_BYTES, tmp_path).put("a", csr_array(np.eye(2)), np.arange(2))


def test_scratch_files_have_no_name(tmp_path: Path) -> None:
    """So that nothing is left behind, however the process ends."""
    engine = CpuEngine(2 * SCRATCH_BYTES, tmp_path)
    seen: list[int] = []
    put(engine, languages())
    whole_fit(engine, progress=lambda _: seen.append(len(list(tmp_path.iterdir()))))
    assert seen
    assert not any(seen)

    def breaks(_: object) -> NoReturn:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        whole_fit(engine, progress=breaks)
    assert list(tmp_path.iterdir()) == []


def test_arrays_of_a_budget_lie_on_the_disk_and_are_given_back(tmp_path: Path) -> None:
    """Open files are not counted: an array that is forgotten takes its file with it."""

    def mapped() -> int:
        """The least number within half a second: a thread may hold its last arrays for an instant after a fit."""
        gc.collect()
        counts = []
        for _ in range(50):
            lines = Path("/proc/self/maps").read_text().splitlines()
            counts.append(sum(str(tmp_path) in line for line in lines))
            time.sleep(0.01)
        return min(counts)

    engine = CpuEngine(2 * SCRATCH_BYTES, tmp_path)
    put(engine, languages())
    documents = mapped()
    assert documents > 0
    whole_fit(engine)
    after = mapped()
    whole_fit(engine)
    assert mapped() == after > documents
    del engine
    assert mapped() == 0


def resident(scratch: Path) -> int:
    """The bytes of files in a folder that this process has in its memory."""
    total, inside = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            inside = str(scratch) in line
        elif inside and line.startswith("Rss:"):
            total += 1024 * int(line.split()[1])
    return total


VERBS: dict[str, Callable[[Engine], object]] = {
    "set": lambda engine: engine.words.set("V", [np.ones((50_000, 100))]),
    "get": lambda engine: engine.words.get("V"),
    "map": lambda engine: engine.words.map(lambda rows: rows.update(V=rows["V"] + 1)),
    "times": lambda engine: engine.multiply("V", "V"),
    "transposed_times": lambda engine: engine.multiply_transposed("V", "W"),
    "concept_sums": lambda engine: engine.concept_sums("V"),
    "spread": lambda engine: engine.broadcast_concepts("V", "U"),
    "column_sums": lambda engine: engine.column_sums("sums", 2),
    "fold": lambda engine: engine.fold("V", "F"),
    "inverse_diagonal": lambda engine: engine.inverse_diagonal("spread", "sums", 1.0),
    "part": lambda engine: engine.subset(np.arange(50_000) % 2 == 0),
}


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="only Linux tells what of a file is in memory")
@pytest.mark.parametrize("verb", VERBS)
def test_no_operation_leaves_the_pages_of_its_arrays_in_memory(verb: str, tmp_path: Path) -> None:
    engine = CpuEngine(2 * SCRATCH_BYTES, tmp_path)
    X = csr_array((np.ones(50_000), (np.arange(50_000), np.arange(50_000)[::-1])))
    engine.put("a", X, np.arange(50_000), X)
    for partition in (engine.words, engine.documents, engine.concepts):
        partition.set("V", [np.ones((50_000, 100))])
    engine.words.set("spread", [np.ones((50_000, 1))])
    array = 50_000 * 100 * 8
    VERBS[verb](engine)
    assert resident(tmp_path) < array / 20
    assert engine.words.arrays[0]["V"].sum() in (array / 8, array / 4)  # who reads it has it in memory
    assert resident(tmp_path) > array / 2


ALTERNATIVES = ", or lower `rank` or `max_words`"
NO_BUDGET = "close other programs, or allow more: with a budget, a fit needs 0.5 GB at least"


@pytest.mark.parametrize(
    ("free", "advice"),
    [
        (10**8, NO_BUDGET),
        (5 * 10**8, NO_BUDGET),
        (6 * 10**8, f"set a budget with `memory=512 * 2**20`{ALTERNATIVES}"),
        (14 * 10**8, f"set a budget with `memory=700_000_000`{ALTERNATIVES}"),
        (3 * 10**9, f"set a budget with `memory=1_000_000_000`{ALTERNATIVES}"),
        (9 * 10**9, f"set a budget with `memory=4_000_000_000`{ALTERNATIVES}"),
    ],
)
def test_what_memory_cannot_hold_is_refused_with_a_budget_to_try(
    free: int, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu, "available_memory", lambda: free)
    CpuEngine().check_memory(free)
    with pytest.raises(Cr5Error) as caught:
        CpuEngine().check_memory(12_340_000_000)
    assert str(caught.value) == f"the fit needs 12.3 GB of memory, {free / 1e9:.1f} GB are free; {advice}"
    with pytest.raises(Cr5Error, match=r"`memory=10_000_000_000` is more than that; ") as caught:
        CpuEngine(memory=10**10).check_memory(12_340_000_000)
    assert str(caught.value).endswith(advice)
    CpuEngine(memory=10**10).check_memory(free)
    if free >= 2 * SCRATCH_BYTES:
        CpuEngine(memory=2 * SCRATCH_BYTES).check_memory(12_340_000_000)  # what is on the disk needs no memory
