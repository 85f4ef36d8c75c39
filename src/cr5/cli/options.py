"""Arguments and options that several commands share, and how their values are parsed."""

import inspect
import json
import re
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from cr5.cli.render.console import err
from cr5.corpus.formats import FORMAT_NAMES
from cr5.corpus.reading import CorpusReader, read_batches
from cr5.corpus.skipped import Skipped
from cr5.errors import Cr5Error
from cr5.settings import PRESETS, Settings, make_settings
from cr5.training.engines.registry import EngineName

Corpora = Annotated[
    list[str],
    typer.Argument(
        help=f"Files, folders or globs ({FORMAT_NAMES}), - for JSONL on standard input, or builtin for the built-in "
        "encyclopedia.",
        metavar="CORPUS",
        show_default=False,
    ),
]


SkippedList = Annotated[
    Path | None,
    typer.Option(
        "--skipped", help="File for a list of everything that is skipped, with its reason and place.", metavar="FILE"
    ),
]


def _not_empty(langs: str | None) -> str | None:
    if langs is not None and not comma_separated(langs):
        raise typer.BadParameter("no language is named; write them like en,it, or leave the option out")
    if langs is not None and any(len(part.split()) > 1 for part in langs.split(",")):
        raise typer.BadParameter(f"{langs!r} has a blank within a code; separate codes by commas, like en,it")
    return langs


Langs = Annotated[
    str | None, typer.Option(help="Only these languages, e.g. en,it.", metavar="CODES", callback=_not_empty)
]
OnError = Annotated[
    Literal["raise", "skip"],
    typer.Option(help="What to do with unusable input: stop with an error, or skip and count it."),
]
Preset = Annotated[
    str, typer.Option(help=f"Settings to start from: {', '.join(PRESETS)} (as in the paper).", metavar="NAME")
]
SettingChanges = Annotated[
    list[str] | None,
    typer.Option("--set", help="Any other setting, e.g. min_documents=5; may be repeated.", metavar="NAME=VALUE"),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Model = Annotated[Path, typer.Argument(help="The folder of a model.", metavar="MODEL")]
ModelOutput = Annotated[Path, typer.Option("--output", "-o", help="Folder to write the model to.", metavar="MODEL")]
IndexFolder = Annotated[Path, typer.Argument(help="The folder of an index, made by cr5 index.", metavar="INDEX")]
Store = Annotated[
    str | None,
    typer.Option(
        help="Address of a PostgreSQL server with pgvector that stores the documents, postgresql://USER@HOST/NAME.",
        metavar="URL",
    ),
]
Rank = Annotated[
    str | None,
    typer.Option(
        help="Number of dimensions of the vectors.",
        show_default="300, or fewer for a small corpus",
        metavar="NUMBER|auto",
    ),
]
Ridge = Annotated[
    str | None, typer.Option(help="Strength of the ridge penalty.", show_default="auto", metavar="NUMBER|auto")
]

Threads = Annotated[
    int | None,
    typer.Option(min=1, help="Threads that read the corpus, count words and compute.", show_default="all cores"),
]
Engine = Annotated[
    EngineName, typer.Option(help="Where to compute: all cores of this machine, an NVIDIA GPU, or a Dask cluster.")
]
Memory = Annotated[
    str | None,
    typer.Option(help="How much memory the fit may use, e.g. 4GB; what does not fit is kept on disk.", metavar="SIZE"),
]
Scheduler = Annotated[
    str | None,
    typer.Option(help="With --engine dask: a running scheduler, e.g. tcp://10.0.0.1:8786.", metavar="ADDRESS"),
]
Workers = Annotated[
    int | None,
    typer.Option(min=1, help="With --engine dask: worker processes to start here.", show_default="one per core"),
]
TimeoutSeconds = Annotated[
    float | None,
    typer.Option(
        min=0.1,
        help="With --engine dask: how long to wait if no worker is left or the scheduler does not answer.",
        metavar="SECONDS",
        show_default="25",
    ),
]


def engine_options(
    memory: Memory = None,
    scheduler: Scheduler = None,
    workers: Workers = None,
    timeout_seconds: TimeoutSeconds = None,
) -> dict[str, Any]:
    """The options of an engine as ``open_engine`` takes them; each is an option of every command that fits."""
    return {
        "memory": parse_bytes(memory),
        "scheduler": scheduler,
        "workers": workers,
        "timeout_seconds": timeout_seconds,
    }


def takes_engine_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command with the parameters of ``engine_options``, whose result it gets as its argument ``engine_options``."""
    names, signature = inspect.signature(engine_options).parameters, inspect.signature(command)

    @wraps(command)
    def call(**given: Any) -> None:
        command(
            **{name: value for name, value in given.items() if name not in names},
            engine_options=engine_options(**{name: given[name] for name in names}),
        )

    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        parameters += names.values() if name == "engine_options" else [parameter]
    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return call


def parse_settings(preset: str, setting: list[str] | None, **given: Any) -> Settings:
    """The settings of a preset, changed by --set and by other options."""
    return make_settings(preset, **parse_changes(setting, **given))


def parse_changes(setting: list[str] | None, **given: Any) -> dict[str, Any]:
    """What --set and other options change; an option that was not given changes nothing."""
    changes = dict(_setting(item) for item in setting or [])
    return changes | {name: value for name, value in given.items() if value is not None}


def comma_separated(text: str | None) -> list[str] | None:
    """Split en,it into its parts; None if there are none."""
    parts = [part.strip() for part in text.split(",") if part.strip()] if text else []
    return parts or None


def parse_where(conditions: list[str] | None) -> dict[str, Any] | None:
    """Conditions such as year>=2000 and kind=manual, all of which have to hold, as an index takes them.

    A value is JSON, or else a plain text: 2000, "2000", true, ["a", "b"], manual.
    """
    parsed: dict[str, Any] = {}
    for condition in conditions or []:
        match = re.fullmatch(r"([^<>=!]+)(<=|>=|!=|==?|<|>)(.*)", condition, re.DOTALL)
        if not match or not match[1].strip():
            raise Cr5Error(f"--where {condition!r} is not a condition; write it like 'year>=2000' or 'kind=manual'")
        name, operator, value = match[1].strip(), match[2], _json_or_text(match[3].strip())
        if operator in ("=", "=="):
            repeated = name in parsed
            parsed[name] = value
        else:
            operators = parsed.setdefault(name, {})
            repeated = not isinstance(operators, dict) or operator in operators
            if not repeated:
                operators[operator] = value
        if repeated:
            advice = f"give several values as {name}=[1, 2]"
            raise Cr5Error(f"--where {condition!r} contradicts an earlier condition on {name}; {advice}")
    return parsed or None


def _json_or_text(value: str) -> Any:
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def read_corpora(
    corpora: list[str], langs: str | None, on_error: Literal["raise", "skip"], skipped: Skipped
) -> CorpusReader:
    """Read files, folders and the built-in encyclopedia in batches."""
    chosen = comma_separated(langs)
    return read_batches(corpora, langs=chosen, on_error=on_error, skipped=skipped, require_langs=True)


def parse_rank(text: str | None) -> int | str | None:
    """Parse a whole number or auto."""
    if text is None or text == "auto":
        return text
    if not re.fullmatch("0*[1-9][0-9]*", text):
        raise typer.BadParameter(f"{text!r} is neither a whole number above 0 nor auto", param_hint="--rank")
    return int(text)


def parse_ridge(text: str | None) -> float | str | None:
    """Parse a number or auto."""
    if text is None or text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is neither a number nor auto", param_hint="--ridge") from None


def decode_text(data: bytes, source: str, lang: str | Callable[[str], str]) -> str:
    """Decode a text in UTF-8, or in UTF-16 or, for its language, Windows-1252 if evident; ``source`` names it.

    ``lang`` may guess the language of the text.
    """
    from cr5.corpus.encodings import WESTERN, decode_western
    from cr5.corpus.tables import describe_utf8_error
    from cr5.storage.text_encodings import evident_encoding

    encoding = evident_encoding(data) or "utf-8"
    try:
        decoded = data.decode(encoding)
        if encoding not in ("utf-8", "utf-8-sig"):
            err.print(f"note: {source} is read as {encoding}", soft_wrap=True)
        return decoded
    except UnicodeDecodeError as error:
        if encoding not in ("utf-8", "utf-8-sig"):
            problem = f"not valid {encoding}, {error.reason}"
            raise Cr5Error(f"{source}: {problem}; check that it is complete, or convert it to UTF-8") from error
        code = lang if isinstance(lang, str) else lang(data.decode(WESTERN, "replace"))
        if (text := decode_western(data, code)) is not None:
            err.print(f"note: {source} is not UTF-8; it is read as {WESTERN}", soft_wrap=True)
            return text
        raise Cr5Error(f"{source}: {describe_utf8_error(error)}") from error


def parse_bytes(text: str | None) -> int | None:
    """Parse a number of bytes: 4GB, 800 MB, 1.5g, 512MiB."""
    if text is None:
        return None
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", text.lower())
    if not match:
        raise Cr5Error(f"{text!r} is not an amount of memory; write it like 4GB or 800MB")
    return int(float(match[1]) * (1024 if match[3] else 1000) ** " kmgt".index(match[2] or " "))


def _setting(item: str) -> tuple[str, Any]:
    """Parse NAME=VALUE; the value becomes a number or a Boolean where it looks like one."""
    name, equals, value = item.partition("=")
    if not equals:
        raise typer.BadParameter(f"{item!r} is not of the form NAME=VALUE", param_hint="--set")
    for convert_to in (int, float):
        try:
            return name, convert_to(value)
        except ValueError:
            pass
    return name, {"true": True, "false": False}.get(value, value)
