"""Error messages of the library in the words of the command line: parameters become options."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from typer.main import get_command

from cr5.cli.app import app
from cr5.message_parts import without_skip_advice

# Parameters that a command has under other names or advises for another command, and functions that are commands.
_OTHER_NAMES = {
    "pretrain": {"langs": "--wikipedia", "repo": "--push"},
    "documents": {"drop_foreign": "--drop-foreign"},
}
_FUNCTIONS = {"fit": "cr5 train", "mine": "cr5 mine", "subset": "cr5 model subset"}
# A parameter in backticks, alone or with what is done to it: `rank`, `rank=500`, `rank <= 399`, `on_error="skip"`.
_PARAMETER = re.compile(r"`(\w+)(?:(\s*[<>]?=\s*|\s*[<>]\s*)([^`]*))?`")


def in_command_line_terms(message: str, arguments: Sequence[str], app: Any = app) -> str:
    """Replace parameters in backticks: `rank=500` by "--rank 500", `tol` by "--set tol", `repo` by "REPO".

    ``arguments`` of ``app`` begin with the name of the running command, whose options are meant. Names that are
    neither, nor settings that it takes, lose their backticks and stay as they are.
    """
    if "skip" in arguments or "--on-error=skip" in arguments:
        message = without_skip_advice(message)
    return _replace(message, _options(get_command(app), arguments)) if _PARAMETER.search(message) else message


def settings_as_options(message: str) -> str:
    """Replace settings in backticks as commands with --set take them: `min_unique` by "--set min_unique"."""
    return _replace(message, {"setting": "--set"})


def _replace(message: str, options: Mapping[str, str]) -> str:
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
    if "setting" in options and name in _setting_names():
        return f"--set {name}{operator}{value}" if operator == "=" else f"--set {name} {operator} {value}".strip()
    return f"{name}{operator}{value}" if operator else _FUNCTIONS.get(name, name)


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


def _options(command: Any, arguments: Sequence[str]) -> dict[str, str]:
    """What the command that the first arguments name calls its parameters, by the names of these."""
    for argument in arguments:
        below = command.get_command(None, argument) if hasattr(command, "get_command") else None
        if below is None:
            break
        command = below
    return {
        parameter.name: _option(parameter.opts) if parameter.param_type_name == "option" else parameter.metavar
        for parameter in command.params
        if parameter.param_type_name == "option" or parameter.metavar
    } | _OTHER_NAMES.get(command.name, {})


def _option(names: Sequence[str]) -> str:
    """The first long name of an option; names after it are earlier ones."""
    return next((name for name in names if name.startswith("--")), names[0])
