"""The commands by name. The code of a command is imported when it runs, so that the others cost it no time."""

from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from cr5.cli.render.console import out


class Target(NamedTuple):
    """Where a command is: a function, or an app of further commands; ``summary`` is what the list of commands shows."""

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
    "similar": Target("cr5.cli.commands", "similar", "Show the nearest words of other languages to a word."),
    "lexicon": Target("cr5.cli.commands", "lexicon", "Show the most probable translations of words."),
    "explain": Target(
        "cr5.cli.commands", "explain",
        "Show the words that make two texts similar, with the contribution of each to the cosine, and of each view.",
    ),
    "info": Target(
        "cr5.cli.commands", "info", "Show the languages and settings of a model, and how its training ended."
    ),
    "index": Target(
        "cr5.cli.search", "index", "Build a search index of documents in any languages of a model, or update it."
    ),
    "search": Target(
        "cr5.cli.search", "search", "Find the documents, in all languages, that are nearest to a text."
    ),
    "pairs": Target(
        "cr5.cli.search", "pairs",
        "List the closest pairs of documents of two languages: translations, duplicates, borrowed texts.",
    ),
    "serve": Target(
        "cr5.cli.serve", "serve",
        "Serve an index over HTTP: a search page for people, and an API for programs, described at /docs.",
    ),
    "reproduce": Target(
        "cr5.cli.reproduction", "reproduce",
        "Repeat the paper's document retrieval on the authors' data, and print its Table 1 beside the new figures.",
    ),
    "corpus": Target("cr5.cli.corpora", "app", "Make a corpus from existing data, or inspect one."),
    "eval": Target(
        "cr5.cli.evaluation", "app",
        "Measure how well texts find their counterparts in other languages, beside baselines.",
    ),
}  # fmt: skip
STYLE: dict[str, Any] = {"rich_markup_mode": "rich", "pretty_exceptions_enable": False}


def load_command(name: str) -> Any:
    """Import a command and make what parses its arguments."""
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
        """All commands, for what lists their options."""
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
    help="Place documents of any language into one vector space, learned from your own corpus.",
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
