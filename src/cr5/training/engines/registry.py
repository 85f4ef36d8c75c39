"""The engines by name, with the options of each."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeAlias

from cr5.errors import Cr5Error
from cr5.training.engines import Engine

EngineName: TypeAlias = Literal["cpu", "gpu", "dask"]


# The options of ``open_engine`` that each engine takes. Engine "x" is the class XEngine of the module x.
ENGINE_OPTIONS: dict[EngineName, tuple[str, ...]] = {
    "cpu": ("memory", "scratch_folder", "threads"),
    "gpu": (),
    "dask": ("scheduler", "workers", "timeout_seconds"),
}


@contextmanager
def open_engine(
    name: EngineName,
    *,
    memory: int | None = None,
    scheduler: str | None = None,
    workers: int | None = None,
    timeout_seconds: float | None = None,
    scratch_folder: Path | None = None,
    threads: int | None = None,
) -> Iterator[Engine]:
    """The engine with this name; what it starts, such as a local cluster, is stopped with the context.

    An option of another engine is an error, except for ``scratch_folder`` and ``threads``, which the others ignore.
    """
    cluster: dict[str, Any] = {"scheduler": scheduler, "workers": workers, "timeout_seconds": timeout_seconds}
    options: dict[str, Any] = {"memory": memory, **cluster}
    given = {option: value for option, value in options.items() if value is not None}
    for option in given:
        if option not in ENGINE_OPTIONS[name]:
            right = next(other for other, options in ENGINE_OPTIONS.items() if option in options)
            raise Cr5Error(f'`{option}` is an option of `engine="{right}"`, not of "{name}"; leave one of them out')
    if {"scheduler", "workers"} <= given.keys():
        raise Cr5Error("`workers` starts a local cluster, `scheduler` names a running one; give one of them")
    for option, value in {"scratch_folder": scratch_folder, "threads": threads}.items():
        if value is not None and option in ENGINE_OPTIONS[name]:
            given[option] = value
    with ExitStack() as stack:
        module = import_module(f"cr5.training.engines.{name}")
        engine: Any = getattr(module, f"{name.capitalize()}Engine")(**given)
        yield stack.enter_context(engine) if hasattr(engine, "__exit__") else engine
