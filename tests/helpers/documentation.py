"""The commands and Python sessions that the documentation shows, and whether their output is what they print.

``python tests/helpers/documentation.py docs/tutorial.md`` runs a page's commands and writes their output into the page.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from typer.main import get_command

from cr5.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
_CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.S | re.M)
_NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?")
_SECONDS = re.compile(r"\d+(?:\.\d+)? s\b")
_LAST_NUMBER = re.compile(r"\d+(?:\.\d+)?(?=\D*$)", re.M)


class Command(NamedTuple):
    """A command after ``$`` and the output below it."""

    line: str
    output: str


def commands(page: str) -> Iterator[Command]:
    """The commands of all console blocks of a page, in order."""
    for block in _CONSOLE.findall(page):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            line, _, output = part.partition("\n")
            yield Command(line, output.strip("\n"))


def mentioned(page: str) -> Iterator[str]:
    """Every ``cr5 …`` in the code of a page, in blocks and between words, without what is said about it."""
    blocks = re.sub(r"\\\n\s*", "", page)  # lines that are continued
    for line in re.findall(r"^(?: {4,}|\$ )(cr5 .*)$", blocks, re.M):
        yield re.split(r"\s{2,}|\s[#|>&<]", line)[0]
    for code in re.findall(r"(?<!`)`(cr5\s[^`]*)`(?!`)", page):
        yield " ".join(code.split())


def unknown_parts(line: str) -> list[str]:
    """The subcommand or the options of a line that ``cr5`` does not have."""
    command: Any = get_command(app)
    words = line.split()[1:]
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    if hasattr(command, "commands"):
        return [word for word in words[:1] if re.fullmatch("[a-z-]+", word) and not word.startswith("-")]
    known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)} | {"--help"}
    return [word for word in re.findall(r"(?<!\S)\[?(--[a-z][\w-]*|-[a-z]\b)", " ".join(words)) if word not in known]


def run(line: str, folder: Path) -> str:
    """The output of a command in a terminal of 80 columns."""
    environment = os.environ | {
        "COLUMNS": "80",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    done = subprocess.run(
        line, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, f"{line}: {done.stderr}"
    return "\n".join(text.rstrip() for text in done.stdout.splitlines()).strip("\n")


def same(shown: str, printed: str) -> bool:
    """Whether two outputs agree: the same text, seconds aside, with numbers that differ by at most 3 % or 0.02.

    Numbers depend a little on the processor, and so does the padding of a table beside them.
    """
    a, b = (_without_times(text) for text in (shown, printed))
    if [_plain(part) for part in _NUMBER.split(a)] != [_plain(part) for part in _NUMBER.split(b)]:
        return False
    pairs = zip(_NUMBER.findall(a), _NUMBER.findall(b), strict=True)
    values = [(float(x.replace(",", "")), float(y.replace(",", ""))) for x, y in pairs]
    return all(abs(x - y) <= max(0.02, 0.03 * abs(x)) for x, y in values)


def _without_times(text: str) -> str:
    """Hide durations: "2.3 s", and the last number in each row of a table whose last column is "seconds"."""
    blocks = [
        _LAST_NUMBER.sub("T", block) if re.search(r"seconds *$", block.split("\n")[0]) else block
        for block in _SECONDS.sub("T s", text).split("\n\n")
    ]
    return "\n\n".join(blocks)


def _plain(text: str) -> str:
    return " ".join(text.split())


def update(path: Path) -> None:
    """Write the output of every command into a page."""
    with tempfile.TemporaryDirectory() as folder:

        def renewed(match: re.Match[str]) -> str:
            lines = [line[2:] for line in match[1].splitlines() if line.startswith("$ ")]
            parts = [f"$ {line}\n{run(line, Path(folder))}".rstrip("\n") for line in lines]
            return "```console\n" + "\n".join(parts) + "\n```"

        path.write_text(_CONSOLE.sub(renewed, path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        update(Path(name))
