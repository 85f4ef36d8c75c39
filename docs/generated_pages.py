"""Pages of the documentation that are generated from the code: the commands and the settings."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from typer.main import get_command

from cr5.cli.app import app
from cr5.retrieval.scorer import DEFAULT_WEIGHTS
from cr5.settings import setting_rows


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages; mkdocs calls this when it has listed the files of the site."""
    files.append(File.generated(config, "reference/commands.md", content="\n".join(command_page())))
    files.append(File.generated(config, "reference/settings.md", content="\n".join(settings_page())))
    return files


def command_page() -> Iterator[str]:
    """Every command: its help text, arguments and options."""
    yield "# Commands\n\nGenerated from `cr5 --help`. Every command also has `--help`.\n"
    yield from _command("cr5", get_command(app), level=2)


def _command(name: str, command: Any, level: int) -> Iterator[str]:
    below = getattr(command, "commands", {})
    if name != "cr5":
        yield f"\n{'#' * level} `{name}`\n"
        yield _help(command.help or "")
        yield from _parameters(command)
    for child, inner in below.items():
        if not getattr(inner, "hidden", False):
            yield from _command(f"{name} {child}", inner, level + (name != "cr5"))


def _help(text: str) -> str:
    """A help text as Markdown; the indented examples, which are bold in a terminal, become one code block."""
    lines: list[str] = []
    for line in re.sub(r"\[/?bold\]", "", inspect.cleandoc(text)).split("\n"):
        if line.startswith("    ") and lines and not lines[-1] and len(lines) > 1 and lines[-2].startswith("    "):
            lines.pop()  # the empty line between two examples
        lines.append(line)
    return "\n".join(lines)


def _parameters(command: Any) -> Iterator[str]:
    rows = [row for parameter in command.params if (row := _parameter(parameter))]
    if rows:
        yield "\n| | meaning | default |\n|---|---|---|"
        yield from rows


def _parameter(parameter: Any) -> str:
    if parameter.name == "help":
        return ""
    option = parameter.param_type_name == "option"
    name = ", ".join(parameter.opts) if option else parameter.metavar or parameter.name.upper()
    shown = parameter.show_default if isinstance(getattr(parameter, "show_default", None), str) else None
    plain = "" if parameter.default in (None, False, ()) or callable(parameter.default) else parameter.default
    cells = (
        f"<code>{name} {_value(parameter) if option else ''}</code>",
        getattr(parameter, "help", "") or "",
        "required" if parameter.required else f"{shown or plain}",
    )
    return "| " + " | ".join(cell.replace("|", "&#124;") for cell in cells) + " |"


def _value(option: Any) -> str:
    """What stands for the value of an option: nothing for a flag, the choices, or a word in capitals."""
    if option.is_flag:
        return ""
    choices = map(str, option.type_descriptor.choices or [])
    return str(option.metavar or "|".join(choices) or option.name.upper())


def settings_page() -> Iterator[str]:
    """Every setting of a model: its meaning, its default and when to change it."""
    yield "# Settings\n"
    yield (
        "Every setting of a model is a keyword of `Cr5(...)`, where None stands for the value of the preset. On the "
        "command line, settings are `--rank`, `--ridge`, `--seed` or `--set NAME=VALUE`. A preset has defaults for all "
        "of them: `default`, or `wsdm19`, the settings of the paper. The settings are stored in the model and in the "
        "signature of every score.\n"
    )
    yield "| setting | meaning, and when to change it | default |\n|---|---|---|"
    for row in setting_rows():
        paper = "" if row.paper == row.default else f" (`wsdm19`: {row.paper})"
        default = f"{row.default}{paper}".replace("'", '"')
        yield f"| `{row.name}` | {row.meaning} | {default} |".replace("\n", " ")
    yield "\n## Weights of the views\n"
    yield (
        "The weights of the vectors and the lexicon are the same for every model, and are not settings: "
        + ", ".join(
            f"{weight:g} for the view `{view}`" for view, weight in DEFAULT_WEIGHTS.items() if view != "strings"
        )
        + ". The weight of the strings is the setting `strings_weight`; `Cr5.view_weights` and `cr5 info` show that of "
        "a model. [All views together](../explanation/method.md#all-views-together) says what the weights mean. "
        "`cr5 explain` shows what each view adds to the similarity of two texts; "
        "`--systems cr5-dense,lexicon,chars` evaluates the views one by one."
    )
