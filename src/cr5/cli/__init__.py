"""The command ``cr5``: each command parses its arguments, calls one function of the library and prints the result."""

import io
import os
import sys

import typer
from rich.text import Text

from cr5.cli.app import app
from cr5.cli.messages import in_command_line_terms
from cr5.cli.render.console import err
from cr5.errors import Cr5Error


def main() -> None:
    """Run the command and exit: 0 done, 1 an error that the user can correct, 2 wrong usage, 130 interrupted."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # what a terminal cannot show becomes a question mark
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run the command with these arguments and return its exit code."""
    try:
        code = app(arguments, prog_name="cr5", standalone_mode=False)
        if code == 130:  # newer versions of typer return this for an interrupt
            raise KeyboardInterrupt
    except (typer.Abort, KeyboardInterrupt):
        err.print("stopped", style="yellow")
        return 130
    except SystemExit as end:  # raised by a command, or by typer and rich when standard output is closed
        return int(end.code or 0)
    except (Cr5Error, OSError, MemoryError) as error:
        if os.environ.get("CR5_DEBUG"):
            raise
        err.print(Text.assemble(("error: ", "bold red"), _message(error)), soft_wrap=True)
        return 1
    except Exception as error:
        # Errors of usage, which typer raises, know how to print themselves.
        if not (hasattr(error, "show") and hasattr(error, "exit_code")):
            raise
        error.show()
        return int(error.exit_code)
    return code if isinstance(code, int) else 0


def _message(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror.lower()}" if error.filename else error.strerror.lower()
    return in_command_line_terms(str(error), app) or type(error).__name__
