"""How a command runs and ends: warnings and errors in the words of the command line, a closed pipe, exit codes."""

import errno
import io
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import typer
from rich.text import Text

from cr5.cli.app import app
from cr5.cli.messages import in_command_line_terms
from cr5.cli.render.console import err, warn
from cr5.errors import Cr5Error, Cr5Warning

BROKEN_PIPE = 141  # 128 + SIGPIPE: what a shell reports of a program whose reader has ended

_ADVICE = {
    errno.ENOSPC: "free some space, or write to another disk",
    errno.EDQUOT: "free some space, or write to another disk",
    errno.EFBIG: "write to another disk",
    errno.EROFS: "choose another path",
    errno.EACCES: "change its permissions, or choose another path",
    errno.EPERM: "change its permissions, or choose another path",
}


def run_and_flush(arguments: list[str]) -> int:
    """Run the command, as the main program, until all of its output is written; return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # what a terminal cannot show becomes a question mark
    code = run_command(arguments)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = _end_output()
    return code


def run_command(arguments: list[str]) -> int:
    """Run the command with these arguments and return its exit code."""
    with _shown_warnings(arguments):
        return _run(arguments)


def _run(arguments: list[str]) -> int:
    try:
        code = app(arguments, prog_name="cr5", standalone_mode=False)
        if code == 130:  # newer versions of typer return this for an interrupt
            raise KeyboardInterrupt
    except (typer.Abort, KeyboardInterrupt):
        err.print("stopped", style="yellow")
        return 130
    except BrokenPipeError:
        return _end_output()
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # which typer handles by an exit
            return _end_output()
        return int(end.code or 0)
    except (Cr5Error, OSError, MemoryError) as error:
        if os.environ.get("CR5_DEBUG"):
            raise
        err.print(Text.assemble(("error: ", "bold red"), _message(error, arguments)), soft_wrap=True)
        return 1
    except Exception as error:
        # Errors of usage, which typer raises, know how to print themselves.
        if not (hasattr(error, "show") and hasattr(error, "exit_code")):
            raise
        error.show()
        return int(error.exit_code)
    return code if isinstance(code, int) else 0


@contextmanager
def _shown_warnings(arguments: Sequence[str]) -> Iterator[None]:
    """Print the warnings of the library as this command prints its own; others as Python does."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", Cr5Warning)
        show = warnings.showwarning

        def shown(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, Cr5Warning):
                warn(in_command_line_terms(str(message), app, arguments))
            else:
                show(message, category, *place, **more)

        warnings.showwarning = shown
        yield


def _end_output() -> int:
    """Discard what is still to be written to standard output, so that Python does not report it when it exits."""
    with suppress(OSError, ValueError), Path(os.devnull).open("wb") as nothing:
        os.dup2(nothing.fileno(), sys.stdout.fileno())
    return BROKEN_PIPE


def _message(error: BaseException, arguments: Sequence[str]) -> str:
    if isinstance(error, OSError) and error.strerror:
        reason = "; ".join(filter(None, [error.strerror.lower(), _ADVICE.get(error.errno or 0)]))
        return f"{error.filename}: {reason}" if error.filename else reason
    return in_command_line_terms(str(error), app, arguments) or type(error).__name__
