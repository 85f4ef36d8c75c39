"""The engines by name, with the options of each."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from cr5.errors import Cr5Error
from cr5.training.engines import Engine

EngineName: TypeAlias = Literal["cpu", "gpu", "dask"]


class _Entry(NamedTuple):
    """Where an engine is defined, and the options of ``open_engine`` that it takes."""

    module: str
    name: str
    options: tuple[str, ...] = ()


ENGINES: dict[EngineName, _Entry] = {
    "cpu": _Entry("cr5.training.engines.cpu", "CpuEngine", ("memory", "scratch_folder")),
    "gpu": _Entry("cr5.training.engines.gpu", "GpuEngine"),
    "dask": _Entry("cr5.training.engines.dask", "DaskEngine", ("scheduler", "workers")),
}

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def parse_bytes(text: str) -> int:
    """A number of bytes: "4GB", "800 MB", "1.5g"."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?\s*", text.lower())
    if not match:
        raise Cr5Error(f"{text!r} is not an amount of memory; write it like 4GB or 800MB")
    return int(float(match[1]) * _UNITS[match[2]])


@contextmanager
def open_engine(
    name: EngineName,
    *,
    memory: int | None = None,
    scheduler: str | None = None,
    workers: int | None = None,
    scratch_folder: Path | None = None,
) -> Iterator[Engine]:
    """The engine of a name; what it starts, such as a local cluster, is stopped with the context."""
    options: dict[str, Any] = {"memory": memory, "scheduler": scheduler, "workers": workers}
    given = {option: value for option, value in options.items() if value is not None}
    for option in given:
        if option not in ENGINES[name].options:
            right = next(other for other, entry in ENGINES.items() if option in entry.options)
            raise Cr5Error(f'`{option}` is an option of `engine="{right}"`, not of "{name}"; leave one of them out')
    if {"scheduler", "workers"} <= given.keys():
        raise Cr5Error("`workers` starts a local cluster, `scheduler` names a running one; give one of them")
    if scratch_folder is not None and "scratch_folder" in ENGINES[name].options:
        given["scratch_folder"] = scratch_folder
    with ExitStack() as stack:
        engine: Any = getattr(import_module(ENGINES[name].module), ENGINES[name].name)(**given)
        yield stack.enter_context(engine) if hasattr(engine, "__exit__") else engine
