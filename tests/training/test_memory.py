"""A fit keeps to its memory budget: measured in processes of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cr5.storage.scratch import ScratchArrays
from cr5.training import solver
from cr5.training.engines import BlockInfo

STATUS = Path("/proc/self/status")
BUDGET = 540_000_000  # about the least that is allowed
LANGUAGES, DOCUMENTS, WORDS, LENGTH, RANK = 2, 80_000, 120_000, 15, 120

FIT = """
import json, re, sys
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from cr5.training.engines.cpu import CpuEngine
from cr5.training.solver import solve


def peak():
    # Not ru_maxrss: a child process begins with its parent's.
    return 1024 * int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text()).group(1))


def fit(languages, documents, words, length, rank, budget, scratch):
    engine = CpuEngine(budget, Path(scratch))
    for i in range(languages):
        random = np.random.default_rng(i)
        first = random.integers(0, words, documents, np.int32)[:, None]
        indices = np.sort((first + np.arange(length, dtype=np.int32) * (words // length - 1)) % words).ravel()
        indptr = np.arange(0, documents * length + 1, length, dtype=np.int32)
        weights = random.random(documents * length, np.float32)
        X = csr_array((weights, indices, indptr), (documents, words))
        # Subwords: twice as many as words, and six of them in every word.
        ngrams = np.sort(random.integers(0, 2 * words, (words, 6), np.int32)).ravel()
        M = csr_array((np.full(6 * words, 0.3, np.float32), ngrams, np.arange(0, 6 * words + 1, 6)), (words, 2 * words))
        engine.put(f"l{i}", X, random.permutation(documents), M)
        del first, indices, indptr, weights, X, ngrams, M
    return solve(engine, rank=rank, ridge=1.0, tol=0, max_steps=1)


*sizes, budget, scratch = json.loads(sys.argv[1])
fit(2, 2000, 500, 20, 30, budget, scratch)  # all kernels are there
baseline = peak()
found = fit(*sizes, budget, scratch)
print(json.dumps({"needed": peak() - baseline, "eigenvalues": [value.hex() for value in found.eigenvalues.tolist()]}))
"""


def fitted(budget: int | None, scratch: Path) -> Any:
    """What the same fit needs beyond an interpreter that has done a small one, in bytes; and its eigenvalues."""
    given = json.dumps([LANGUAGES, DOCUMENTS, WORDS, LENGTH, RANK, budget, str(scratch)])
    done = subprocess.run([sys.executable, "-c", FIT, given], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(not STATUS.exists(), reason="only Linux tells a process how much memory it has used")
def test_a_fit_stays_within_its_budget_and_finds_the_same(tmp_path: Path) -> None:
    subwords = 2 * WORDS, 6 * WORDS
    facts = [BlockInfo(i, DOCUMENTS, WORDS, DOCUMENTS * LENGTH, "float32", *subwords) for i in range(LANGUAGES)]
    assert solver.memory_needed(facts, DOCUMENTS, RANK) > 2 * BUDGET
    scarce, plain = fitted(BUDGET, tmp_path), fitted(None, tmp_path)
    assert scarce["needed"] <= BUDGET < 0.75 * plain["needed"]
    assert scarce["eigenvalues"] == plain["eigenvalues"]
    assert list(tmp_path.iterdir()) == []


def test_scratch_arrays_work_on_a_system_that_cannot_reserve_disk_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "posix_fallocate")
    array = ScratchArrays(10**6, tmp_path).empty((100, 3), np.float32)
    array[:] = 7
    assert (array == 7).all()
    assert list(tmp_path.iterdir()) == []
