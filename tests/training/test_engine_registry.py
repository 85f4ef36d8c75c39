"""Engines by name, with their options."""

from pathlib import Path
from typing import Any

import pytest

from cr5.errors import Cr5Error
from cr5.training.engines.cpu import CpuEngine
from cr5.training.engines.registry import open_engine


def test_the_cpu_engine_takes_a_memory_budget_and_a_scratch_folder(tmp_path: Path) -> None:
    with open_engine("cpu", memory=10**9, scratch_folder=tmp_path) as engine:
        assert isinstance(engine, CpuEngine)
        assert (engine.memory, engine.scratch.folder) == (10**9, tmp_path)
    with open_engine("cpu", threads=3) as engine:
        assert isinstance(engine, CpuEngine)
        assert (engine.memory, engine.threads) == (None, 3)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("gpu", {"memory": 10**9}, '`memory` is an option of `engine="cpu"`, not of "gpu"; leave one of them out'),
        ("cpu", {"scheduler": "tcp://127.0.0.1:1"}, '`scheduler` is an option of `engine="dask"`'),
        ("cpu", {"workers": 2}, '`workers` is an option of `engine="dask"`'),
        (
            "dask",
            {"scheduler": "tcp://127.0.0.1:1", "workers": 2},
            "`workers` starts a local cluster, `scheduler` names",
        ),
    ],
)
def test_options_of_another_engine_are_refused(name: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(Cr5Error) as caught, open_engine(name, **options):
        pass
    assert message in str(caught.value)
