"""The commands by name. Only the code of the command that runs is imported, so that every command starts quickly."""

from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from cr5.cli.render.console import out


class Target(NamedTuple):
    """Where a command is defined: as a function, or as an app with subcommands; ``cr5 --help`` shows ``summary``."""

    module: str
    name: str
    summary: str


COMMANDS = {
    "demo": Target(
        "cr5.cli.demo", "run_demo",
        "Train on the built-in encyclopedia, evaluate on held-out concepts, and search across languages.",
    ),
    "train": Target("cr5.cli.commands", "train", "Learn a model from documents in several languages."),
    "encode": Target(
        "cr5.cli.commands", "encode", "Encode the lines of standard input as unit vectors, one row per line."
    ),
    "similar": Target("cr5.cli.commands", "similar", "Show the words of other languages that are nearest to a word."),
    "lexicon": Target("cr5.cli.commands", "lexicon", "Show the most probable translations of words."),
    "explain": Target(
        "cr5.cli.commands", "explain",
        "Show which words make two texts similar, and how much each word and each view contributes.",
    ),
    "info": Target(
        "cr5.cli.commands", "info", "Show the languages and settings of a model, and how its training ended."
    ),
    "model": Target("cr5.cli.models", "app", "Change a trained model: add a language."),
    "index": Target(
        "cr5.cli.search", "index", "Build a search index of documents in any languages of a model, or update it."
    ),
    "search": Target(
        "cr5.cli.search", "search", "Find documents, in all languages, by the words and the meaning of a text."
    ),
    "pairs": Target(
        "cr5.cli.search", "pairs",
        "List the closest pairs of documents in two languages: translations, duplicates, borrowed texts.",
    ),
    "serve": Target(
        "cr5.cli.serve", "serve",
        "Serve an index over HTTP: a search page for people, and an API for programs, described at /docs.",
    ),
    "reproduce": Target(
        "cr5.cli.reproduction", "reproduce",
        "Repeat the paper's document retrieval on the authors' data, and print the results next to its Table 1.",
    ),
    "corpus": Target("cr5.cli.corpora", "app", "Make a corpus from existing data, or inspect one."),
    "eval": Target(
        "cr5.cli.evaluation", "app",
        "Measure how well texts find their counterparts in other languages, and compare with baselines.",
    ),
}  # fmt: skip
STYLE: dict[str, Any] = {"rich_markup_mode": "rich", "pretty_exceptions_enable": False}


def load_command(name: str) -> Any:
    """Import a command and build the parser of its arguments."""
    module, attribute, _ = COMMANDS[name]
    target, alone = getattr(import_module(module), attribute), typer.Typer(**STYLE)
    if isinstance(target, typer.Typer):
        alone.add_typer(target, name=name)
    else:
        alone.command(name)(target)
        alone.callback()(lambda: None)  # or else the command would become the whole app
    return get_group(alone).commands[name]


class CommandGroup(TyperGroup):
    """Imports a command when it is asked for; the help of the group itself needs only the summaries."""

    _shows_help = False

    @property
    def commands(self) -> Any:
        """All commands, for code that lists their options."""
        return {name: load_command(name) for name in COMMANDS}

    @commands.setter
    def commands(self, commands: Any) -> None:
        pass

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        return TyperCommand(cmd_name, help=COMMANDS[cmd_name].summary) if self._shows_help else load_command(cmd_name)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self._shows_help = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._shows_help = False


app = typer.Typer(
    name="cr5",
    cls=CommandGroup,
    help="Embed documents in any language in one vector space, learned from your own corpus.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    **STYLE,
)


def _version(wanted: bool) -> None:
    if wanted:
        from cr5 import __version__

        out.print(f"cr5 {__version__}")
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")]


@app.callback()
def _root(version: Version = False) -> None:
    pass
