"""The commands by name. Only the code of the command that runs is imported, so that every command starts quickly."""

from importlib import import_module
from inspect import cleandoc
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from cr5.cli.render.console import out


class CommandEntry(NamedTuple):
    """A command: the module of this package that defines it, and the summary that ``cr5 --help`` shows.

    ``name`` is that of its function, or of its app with subcommands; "" if it is the command's own name.
    """

    module: str
    summary: str
    name: str = ""


COMMANDS_BY_PANEL = {
    "Make a model": {
        "demo": CommandEntry(
            "demo",
            "Train on the built-in encyclopedia, evaluate on held-out concepts, and search across languages.",
            "run_demo",
        ),
        "corpus": CommandEntry("corpora", "Make a corpus from existing data, or inspect one.", "app"),
        "train": CommandEntry("commands", "Learn a model from documents in several languages."),
        "pretrain": CommandEntry(
            "pretraining",
            "Train a model on Wikipedia in one command: download, train, evaluate, write its card, and publish it.",
        ),
        "pull": CommandEntry("exchange", "Download a model from the Hugging Face Hub, or only some of its languages."),
        "convert": CommandEntry("exchange", "Convert word vectors that the paper's authors published into a model."),
    },
    "Use a model": {
        "info": CommandEntry(
            "commands", "Show what a model has learned, and how its training ended; or what an index holds."
        ),
        "encode": CommandEntry("commands", "Encode the lines of standard input as unit vectors, one row per line."),
        "similar": CommandEntry("commands", "Show the words of other languages that are nearest to a word."),
        "lexicon": CommandEntry("commands", "Show the most probable translations of words."),
        "explain": CommandEntry(
            "commands", "Show which words make two texts similar, and how much each word and each view contributes."
        ),
        "align": CommandEntry("alignment", "Align the sentences and sections of two documents in two languages."),
        "mine": CommandEntry("alignment", "Find parallel sentences in two collections that are not aligned."),
        "plagiarism": CommandEntry(
            "alignment", "Find passages of a document that resemble passages of documents in other languages."
        ),
    },
    "Search": {
        "index": CommandEntry("search", "Build a search index of documents in any languages of a model, or update it."),
        "search": CommandEntry("search", "Find documents, in all languages, by the words and the meaning of a text."),
        "pairs": CommandEntry(
            "search", "List the closest pairs of documents in two languages: translations, duplicates, plagiarism."
        ),
        "serve": CommandEntry(
            "serve", "Serve an index over HTTP: a search page for people, and an API for programs, described at /docs."
        ),
    },
    "Measure": {
        "eval": CommandEntry(
            "evaluation",
            "Measure how well texts find their counterparts in other languages, and compare with baselines.",
            "app",
        ),
        "reproduce": CommandEntry(
            "reproduction",
            "Repeat the paper's document retrieval on the authors' data, and print the results next to its Table 1.",
        ),
    },
    "Change or share a model": {
        "model": CommandEntry(
            "models", "Derive a model from trained ones: select, merge or add languages, or quantise.", "app"
        ),
        "export": CommandEntry(
            "exchange", "Write the words of a language and their vectors in a format of other libraries."
        ),
        "push": CommandEntry("exchange", "Upload a model to the Hugging Face Hub, with a model card."),
    },
}
COMMANDS = {name: entry for commands in COMMANDS_BY_PANEL.values() for name, entry in commands.items()}
PANELS = {name: panel for panel, commands in COMMANDS_BY_PANEL.items() for name in commands}
TYPER_OPTIONS: dict[str, Any] = {"rich_markup_mode": "rich", "pretty_exceptions_enable": False}


def load_command(name: str) -> Any:
    """Import a command and build the parser of its arguments."""
    module, _, attribute = COMMANDS[name]
    target, alone = getattr(import_module(f"cr5.cli.{module}"), attribute or name), typer.Typer(**TYPER_OPTIONS)
    if isinstance(target, typer.Typer):
        alone.add_typer(target, name=name)
    else:
        alone.command(name)(target)
        alone.callback()(lambda: None)  # or else the command would become the whole app
    command = get_group(alone).commands[name]
    _format_help(command)
    return command


def _format_help(command: Any) -> None:
    """Make one line of each paragraph of a help text, which the terminal wraps; examples are indented and bold."""
    paragraphs = cleandoc(command.help or "").split("\n\n")
    command.help = "\n\n".join(
        f"[bold]{part}[/bold]" if part.startswith("    ") else " ".join(part.split()) for part in paragraphs
    )
    get_parameters = command.get_params
    command.get_params = lambda context: _without_types_of_flags(get_parameters(context))
    for subcommand in getattr(command, "commands", {}).values():
        _format_help(subcommand)


def _without_types_of_flags(parameters: Any) -> Any:
    """The parameters of a command; the help shows no type for a flag, which takes no value."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return parameters


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
        if not self._shows_help:
            return load_command(cmd_name)
        return TyperCommand(cmd_name, help=COMMANDS[cmd_name].summary, rich_help_panel=PANELS[cmd_name])

    def get_params(self, ctx: Any) -> Any:
        return _without_types_of_flags(super().get_params(ctx))

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
    **TYPER_OPTIONS,
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
