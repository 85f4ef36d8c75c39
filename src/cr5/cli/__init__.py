"""The command ``cr5``: parse, one library call, show."""

import os
import sys

import typer
from rich.console import Console
from rich.text import Text

from cr5.cli.commands import app
from cr5.errors import Cr5Error


def main() -> None:
    """Run the command and exit: 0 done, 1 a mistake that the user can mend, 2 wrong usage, 130 interrupted."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run the command with these arguments; returns the exit code."""
    console = Console(stderr=True, highlight=False)
    try:
        code = app(arguments, prog_name="cr5", standalone_mode=False)
        if code == 130:  # what newer typers make of an interrupt
            raise KeyboardInterrupt
    except (typer.Abort, KeyboardInterrupt):
        console.print("stopped; nothing was written", style="yellow")
        return 130
    except SystemExit as end:  # a command's own word, or typer's and rich's where nobody reads our output any more
        return int(end.code or 0)
    except (Cr5Error, OSError, MemoryError) as error:
        if os.environ.get("CR5_DEBUG"):
            raise
        console.print(Text.assemble(("error: ", "bold red"), _message(error)), soft_wrap=True)
        return 1
    except Exception as error:
        # Wrong usage: typer's own errors know how to show themselves.
        if not (hasattr(error, "show") and hasattr(error, "exit_code")):
            raise
        error.show()
        return int(error.exit_code)
    return code if isinstance(code, int) else 0


def _message(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror.lower()}" if error.filename else error.strerror.lower()
    return str(error) or type(error).__name__
