"""``cr5 corpus NAME``: one command per registered source, made from the signature of its reader."""

import inspect
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, get_args, get_origin

import typer

from cr5.cli.messages import in_command_line_terms
from cr5.cli.options import Json, Langs, OnError, SkippedList, comma_separated
from cr5.cli.render import console
from cr5.cli.render import corpora as render
from cr5.corpus.formats import FORMAT_NAMES
from cr5.corpus.skipped import skipped_list
from cr5.settings import make_settings
from cr5.sources.make_corpus import make_corpus
from cr5.sources.source import ParameterHelp, Source

Output = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        help=f"File to write ({FORMAT_NAMES}), or - for JSONL on standard output.",
        metavar="FILE",
    ),
]
DropForeign = Annotated[
    bool, typer.Option("--drop-foreign", help="Leave out texts that are evidently not in their declared language.")
]
Dedupe = Annotated[
    bool,
    typer.Option(
        "--dedupe",
        help="Leave out near-duplicates: texts that nearly repeat a text of another concept in the same language.",
    ),
]


def add_source_command(app: typer.Typer, source: Source, panel: str) -> None:
    """Add the command of a source: its input, --output, the options of its reader, and those of every source."""
    (input_name, input_parameter), *options = source.parameters.items()

    def command(**given: Any) -> None:
        inputs = given.pop(input_name)
        values = {name: _parse_option(given.pop(name), name, *parameter) for name, parameter in options}
        _run(app, source, inputs, values, **given)

    common = list(inspect.signature(_run).parameters.values())[4:]
    parameters = [
        _typer_parameter(input_name, *input_parameter),
        common[0],
        *(_typer_parameter(name, *parameter) for name, parameter in options),
        *common[1:],
    ]
    # typer reads the options of a command from its signature.
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    )
    app.command(source.name, help=source.help, rich_help_panel=panel)(command)


def _run(
    app: typer.Typer,
    source: Source,
    inputs: Any,
    options: Mapping[str, Any],
    output: Output,
    langs: Langs = None,
    drop_foreign: DropForeign = False,
    dedupe: Dedupe = False,
    on_error: OnError = "raise",
    skipped_file: SkippedList = None,
    json: Json = False,
) -> None:
    check_json_output(json, output)
    wanted = comma_separated(langs)
    min_unique = make_settings("wsdm19").weighting.min_unique
    start = time.perf_counter()
    given = inputs if isinstance(inputs, list) else [inputs]
    with skipped_list(skipped_file, given) as write_skipped, console.progress_bars(json) as progress:
        on_skip = write_skipped and (
            lambda reason, message, count: write_skipped(
                reason, in_command_line_terms(message, [source.name], app), count
            )
        )
        summary = make_corpus(
            source, inputs, output, options, langs=wanted, drop_foreign=drop_foreign, dedupe=dedupe,
            min_unique=min_unique, on_error=on_error, on_skip=on_skip, progress=progress,
        )  # fmt: skip
    seconds = time.perf_counter() - start
    accounting = summary.accounting
    for skipped in (accounting.skipped_files, accounting.skipped_documents, accounting.skipped_parts):
        for reason, message in skipped.examples.items():
            skipped.examples[reason] = in_command_line_terms(message, [source.name], app)
    warnings = list(render.source_warnings(summary, wanted or []))
    if json:
        console.as_json({"corpus": output, "seconds": seconds, "warnings": warnings} | summary.to_json())
        for warning in warnings:
            console.warn(warning)
        return
    render.source_summary(
        summary, output, seconds, drop_foreign=drop_foreign, dedupe=dedupe, min_unique=min_unique,
        longer=in_command_line_terms(source.short_documents_advice, [source.name], app),
        skipped_advice={
            reason: in_command_line_terms(advice, [source.name], app)
            for reason, advice in source.skipped_advice.items()
        },
        warnings=warnings,
    )  # fmt: skip


def check_json_output(json: bool, output: str) -> None:
    """Raise an error if both the corpus and its counts would go to standard output."""
    if json and output == "-":
        raise typer.BadParameter("standard output is the corpus already; name a file with -o", param_hint="--json")


def _typer_parameter(name: str, parameter: inspect.Parameter, description: ParameterHelp) -> inspect.Parameter:
    """The parameter of a reader as typer declares it: an argument if it is positional, else an option."""
    value_type, default = get_args(parameter.annotation)[0], parameter.default
    if get_origin(value_type) is Sequence:
        value_type = list[get_args(value_type)[0]]  # type: ignore[misc]
        default = [default] if isinstance(default, str) else list(default) if isinstance(default, tuple) else default
    elif _is_mapping(value_type):
        value_type = list[str] | None
    texts: dict[str, Any] = {"help": description.help, "metavar": description.metavar}
    if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
        return parameter.replace(annotation=Annotated[value_type, typer.Argument(**texts, show_default=False)])
    option = typer.Option(
        description.option or f"--{name.replace('_', '-')}",
        **texts,
        min=description.minimum,
        show_default=description.show_default or True,
    )
    return parameter.replace(annotation=Annotated[value_type, option], default=default)


def _parse_option(given: Any, name: str, parameter: inspect.Parameter, description: ParameterHelp) -> Any:
    """The value of an option as the reader takes it: KEY=VALUE, given several times, becomes a mapping."""
    if not _is_mapping(get_args(parameter.annotation)[0]):
        return given
    if not given:
        return None
    values = {}
    for item in given:
        key, _, value = item.partition("=")
        if not (key and value):
            raise typer.BadParameter(
                f"{item!r} is not of the form {description.metavar}", param_hint=f"--{name.replace('_', '-')}"
            )
        values[key] = value
    return values


def _is_mapping(value_type: Any) -> bool:
    return any(get_origin(part) is Mapping for part in (value_type, *get_args(value_type)))
