"""Which engine: by name, with what each of them can be told."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeAlias

from cr5.errors import Cr5Error
from cr5.training.engines import Engine
from cr5.training.engines.cpu import CpuEngine

Name: TypeAlias = Literal["cpu", "gpu", "dask"]

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def size(text: str) -> int:
    """A number of bytes: "4GB", "800 MB", "1.5g"."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?\s*", text.lower())
    if not found:
        raise Cr5Error(f"{text!r} is no amount of memory; write it like 4GB or 800MB")
    return int(float(found[1]) * _UNITS[found[2]])


@contextmanager
def open_engine(
    name: Name,
    *,
    memory: int | None = None,
    scheduler: str | None = None,
    workers: int | None = None,
    scratch: Path | None = None,
) -> Iterator[Engine]:
    """The engine of a name; whatever it started is ended with the context."""
    if memory is not None and name != "cpu":
        raise Cr5Error(f"--memory is for the cpu engine; leave it out with --engine {name}")
    if (scheduler is not None or workers is not None) and name != "dask":
        raise Cr5Error("--scheduler and --workers are for a cluster; add --engine dask")
    if scheduler is not None and workers is not None:
        raise Cr5Error("--workers starts a local cluster, --scheduler names one that runs; give one of them")
    if name == "cpu":
        yield CpuEngine(memory, scratch)
    elif name == "gpu":
        from cr5.training.engines.gpu import GpuEngine

        yield GpuEngine()
    else:
        from cr5.training.engines.dask import DaskEngine

        with DaskEngine(scheduler, workers) as engine:
            yield engine
