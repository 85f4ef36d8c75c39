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
from cr5.cli.interrupts import signals_as_interrupt
from cr5.cli.messages import in_command_line_terms
from cr5.cli.render.console import err, warn
from cr5.errors import Cr5Error, Cr5Warning

INTERRUPTED = 130  # 128 + SIGINT
BROKEN_PIPE = 141  # 128 + SIGPIPE: what a shell reports of a program whose reader has ended

_MEANT_BY_FURTHER_ARGUMENTS = {
    "search": "put a query of several words in quotation marks",
    "encode": "texts are read from standard input: cr5 encode MODEL < FILE",
}
_MEMORY_ADVICE = "close other programs, or raise the memory limit of the process or container"
_ADVICE = {
    errno.ENOSPC: "free some space, or write to another disk",
    errno.EDQUOT: "free some space, or write to another disk",
    errno.EFBIG: "write to another disk",
    errno.EROFS: "choose another path",
    errno.ENOMEM: _MEMORY_ADVICE,
    errno.EACCES: "change its permissions, or choose another path",
    errno.EPERM: "change its permissions, or choose another path",
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "check the path",
    errno.EISDIR: "name a file in it",
}


def run_and_flush(arguments: list[str]) -> int:
    """Run the command, as the main program, until all of its output is written; return its exit code."""
    _open_standard_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # what a terminal cannot show becomes a question mark
    with signals_as_interrupt() as signals:
        code = run_command(arguments)
    if code == INTERRUPTED and signals:
        code = 128 + signals[0]
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = _end_output()
    except OSError as error:
        _end_output()
        code = code or _show_error(error, arguments)
    return code


class _StandardOutput(io.FileIO):
    """Standard output, whose errors name it."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            error.filename = "standard output"
            raise


def _open_standard_streams() -> None:
    """Replace closed standard streams by empty ones, and the output by one that names itself in errors.

    The new output is always buffered: one that is not, as with python -u, may cut a long write and drops the rest.
    """
    output = getattr(sys.stdout, "buffer", None)
    is_unbuffered = isinstance(output, io.RawIOBase)
    if type(output if is_unbuffered else getattr(output, "raw", None)) is io.FileIO:  # not the console of Windows
        named = io.BufferedWriter(_StandardOutput(sys.stdout.fileno(), "w", closefd=False))
        by_line = is_unbuffered or getattr(sys.stdout, "line_buffering", False)
        sys.stdout = io.TextIOWrapper(named, encoding=sys.stdout.encoding, line_buffering=by_line)
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w", encoding="utf-8"))  # noqa: PTH123, SIM115


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
        return INTERRUPTED
    except BrokenPipeError:
        return _end_output()
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # which typer handles by an exit
            return _end_output()
        return int(end.code or 0)
    except (Cr5Error, OSError, MemoryError, ImportError) as error:
        if os.environ.get("CR5_DEBUG"):
            raise
        return _show_error(error, arguments)
    except Exception as error:
        # Errors of usage, which typer raises, know how to print themselves.
        if not (hasattr(error, "show") and hasattr(error, "exit_code")):
            raise
        _explain_usage(error, arguments)
        error.show()
        return int(error.exit_code)
    return code if isinstance(code, int) else 0


def _explain_usage(error: Any, arguments: Sequence[str]) -> None:
    """Say in an error of usage what is usually meant by a further argument, and which subcommands there are."""
    message = str(getattr(error, "message", ""))
    if "unexpected extra argument" in message and arguments[0] in _MEANT_BY_FURTHER_ARGUMENTS:
        message = f"{message.rstrip('.')}; {_MEANT_BY_FURTHER_ARGUMENTS[arguments[0]]}"
    context = getattr(error, "ctx", None)
    if message.startswith("No such command") and context is not None and context.parent is not None:
        names = context.command.list_commands(context)
        message = f"{message.rstrip('.')}; choose from {', '.join(names)}"
    error.message = message.removeprefix("Value error, ")  # which typer adds for some values


@contextmanager
def _shown_warnings(arguments: Sequence[str]) -> Iterator[None]:
    """Print the warnings of the library as this command prints its own; others as Python does."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", Cr5Warning)
        show = warnings.showwarning

        def shown(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, Cr5Warning):
                warn(in_command_line_terms(str(message), arguments))
            else:
                show(message, category, *place, **more)

        warnings.showwarning = shown
        yield


def _end_output() -> int:
    """Discard what is still to be written to standard output, so that Python does not report it when it exits."""
    with suppress(OSError, ValueError), Path(os.devnull).open("wb") as nothing:
        os.dup2(nothing.fileno(), sys.stdout.fileno())
    return BROKEN_PIPE


def _show_error(error: BaseException, arguments: list[str]) -> int:
    err.print(Text.assemble(("error: ", "bold red"), error_message(error, arguments)), soft_wrap=True)
    return 1


def error_message(error: BaseException, arguments: Sequence[str]) -> str:
    """An error in the words of the command line."""
    if isinstance(error, OSError) and error.strerror:
        reason = "; ".join(filter(None, [error.strerror.lower(), _ADVICE.get(error.errno or 0)]))
        return f"{error.filename}: {reason}" if error.filename else reason
    if isinstance(error, ImportError) and not isinstance(error, Cr5Error):
        return f"{error.name or 'a library'} cannot be loaded ({error}); {_MEMORY_ADVICE}, or install it again"
    if isinstance(error, MemoryError):
        problem = in_command_line_terms(str(error), arguments).rstrip(".")
        return f"{problem or 'there is not enough memory'}; {_MEMORY_ADVICE}"
    return in_command_line_terms(str(error), arguments) or type(error).__name__
