"""Every engine, and each of its partitions."""

import sys

import numpy as np
import pytest
from engine_blocks import ENGINES, MANY, PARTITIONS
from gpu_stand_in import stand_in
from scipy.sparse import csr_array

from cr5.training.engines import Engine, Partition


@pytest.fixture(params=list(ENGINES))
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """Every engine of one machine."""
    monkeypatch.setitem(sys.modules, "cupy", stand_in())
    return ENGINES[request.param]()


@pytest.fixture(params=PARTITIONS)
def partition(request: pytest.FixtureRequest, engine: Engine) -> Partition:
    """A partition with more rows than one chunk, whose array ``count`` numbers the rows of every block."""
    random = np.random.default_rng(0)
    for lang in "ab":
        X = csr_array((np.ones(50), random.integers(0, MANY, (2, 50))), shape=(MANY, MANY))
        engine.put(lang, X, random.permutation(MANY), X[:, ::2])
    partition: Partition = getattr(engine, request.param)
    heights = {
        "words": [MANY, MANY],
        "documents": [block.documents for block in engine.block_info()],
        "concepts": [len(ids) for ids in engine.concepts.get("id")],
    }[request.param]
    partition.set("count", [np.arange(height)[:, None] for height in heights])
    return partition
