"""Error messages of the library in the words of the command line: parameters become options."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from typer.main import get_command

# A parameter in backticks, alone or with what is done to it: `rank`, `rank=500`, `rank <= 399`, `on_error="skip"`.
_PARAMETER = re.compile(r"`(\w+)(?:(\s*[<>]?=\s*|\s*[<>]\s*)([^`]*))?`")


def in_command_line_terms(message: str, app: Any = None) -> str:
    """Replace parameters in backticks: `rank=500` by "--rank 500", `min_unique` by "--set min_unique".

    Names that are neither options of ``app`` nor settings lose their backticks and stay as they are. ``app`` is not
    needed for a message that names settings without an option of their own.
    """
    if not _PARAMETER.search(message):
        return message
    options = {} if app is None else dict(_options(get_command(app)))

    def replaced(match: re.Match[str]) -> str:
        name, operator, value = match.groups()
        return _shown(options, name, (operator or "").strip(), (value or "").strip("\"'"))

    return _PARAMETER.sub(replaced, message)


def _shown(options: Mapping[str, str], name: str, operator: str, value: str) -> str:
    if name == "memory":
        value = _memory(value)
    if name in options:
        if operator == "=":
            return f"{options[name]} {value}" if value not in ("True", "None") else options[name]
        return f"{options[name]} {operator} {value}".strip()
    if name in _setting_names():
        return f"--set {name}{operator}{value}" if operator == "=" else f"--set {name} {operator} {value}".strip()
    return f"{name}{operator}{value}"


def _memory(value: str) -> str:
    """A number of bytes as the command takes it: 2_000_000_000 -> 2GB, 512 * 2**20 -> 512MiB."""
    if mebibytes := re.fullmatch(r"(\d+) \* 2\*\*20", value):
        return f"{mebibytes[1]}MiB"
    count = int(value) if value.replace("_", "").isdigit() else 0
    units = (f"{count / size:g}{unit}" for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)) if count >= size)
    return next(units, value)


@cache
def _setting_names() -> frozenset[str]:
    from cr5.settings import setting_rows

    return frozenset(row.name for row in setting_rows())


def _options(command: Any) -> Iterator[tuple[str, str]]:
    """Every option of a command and of those below it, by the name of its parameter."""
    for below in getattr(command, "commands", {}).values():
        yield from _options(below)
    for parameter in command.params:
        if parameter.param_type_name == "option":
            yield parameter.name, max(parameter.opts, key=len)
