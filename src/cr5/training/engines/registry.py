"""The engines by name: "gpu" is the class GpuEngine of the module gpu; its options are those of the constructor."""

import inspect
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any, Literal, TypeAlias, get_args

from cr5.errors import Cr5Error, Cr5TypeError
from cr5.training.engines import Engine

EngineName: TypeAlias = Literal["cpu", "gpu", "dask"]
IGNORED_OPTIONS = ("scratch_folder", "threads")  # an engine without these options ignores them


@contextmanager
def open_engine(name: EngineName, **options: Any) -> Iterator[Engine]:
    """The engine with this name and options; what it starts, such as a local cluster, is stopped with the context.

    An option that is None has its default. An option that only other engines have is an error, except for
    ``scratch_folder`` and ``threads``, which these engines ignore.
    """
    engine_class = _engine_class(name)
    accepted = _options(engine_class)
    given = {option: value for option, value in options.items() if value is not None}
    for option in options:
        if option in accepted or option in IGNORED_OPTIONS:
            continue
        others = [other for other in get_args(EngineName) if option in _options(_engine_class(other))]
        if not others:
            raise Cr5TypeError(
                f'no engine has the option `{option}`; the options of "{name}" are {", ".join(accepted)}'
            )
        if option in given:
            raise Cr5Error(f'`{option}` is an option of `engine="{others[0]}"`, not of "{name}"; leave one of them out')
    if {"scheduler", "workers"} <= given.keys():
        raise Cr5Error("`workers` starts a local cluster, `scheduler` names a running one; give one of them")
    with ExitStack() as stack:
        engine = engine_class(**{option: value for option, value in given.items() if option in accepted})
        yield stack.enter_context(engine) if hasattr(engine, "__exit__") else engine


def class_name(name: EngineName) -> str:
    return f"{name.capitalize()}Engine"


def _engine_class(name: EngineName) -> Any:
    return getattr(import_module(f"cr5.training.engines.{name}"), class_name(name))


def _options(engine_class: Any) -> tuple[str, ...]:
    return tuple(inspect.signature(engine_class).parameters)
