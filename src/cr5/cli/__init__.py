"""The command ``cr5``: each command parses its arguments, calls one function of the library and prints the result.

Nothing is imported before ``main`` runs, so that Ctrl-C in the first moments ends it as quietly as later.
"""

import sys


def main() -> None:
    """Run the command and exit.

    0 done, 1 an error that the user can correct, 2 wrong usage; as shells count signals, 130 ended by Ctrl-C, 143 by
    SIGTERM, 129 by SIGHUP, 141 the reader of the output ended.
    """
    try:
        from cr5.cli.running import run_and_flush

        code = run_and_flush(sys.argv[1:])
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
        code = 130
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run the command with these arguments and return its exit code."""
    from cr5.cli.running import run_command

    return run_command(arguments)
