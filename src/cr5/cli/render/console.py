"""Output to the terminal: consoles, plain tables, progress bars, warnings, JSON."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import ceil
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars
from rich.table import Table
from rich.text import Text

from cr5.corpus.skipped import Skipped
from cr5.message_parts import without_skip_advice
from cr5.progress import Progress, ProgressCallback


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Let the command end as it does for every closed output."""
        raise BrokenPipeError


out = _Console(highlight=False)
err = _Console(stderr=True, highlight=False)


def plain_table(title: str, *columns: str, left: Sequence[str] = ()) -> Table:
    """A table without a frame; columns hold numbers and align right, except those in ``left``."""
    table = Table(title=title or None, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        table.add_column(Text(name), justify="left" if name in left else "right")
    return table


def figure_table(columns: Sequence[str]) -> Table:
    """A table whose first column is text and whose others are numbers; no line of it is broken."""
    table = plain_table("", *columns, left=columns[:1])
    table.show_edge, table.padding = False, (0, 1, 0, 0)
    for column in table.columns:
        column.no_wrap = True
    return table


def width(table: Table) -> int:
    """The columns of a terminal that a table needs to show every line unbroken."""
    return out.measure(table, options=out.options.update(max_width=1000)).maximum


def print_by_language(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print figures of languages, whose codes are the first column; a table that is too wide in parts below another."""
    for parts in range(1, len(columns)):
        size = ceil((len(columns) - 1) / parts)
        tables: list[Table] = []
        for begin in range(1, len(columns), size):
            chosen = [0, *range(begin, min(begin + size, len(columns)))]
            table = plain_table("" if tables else title, *(columns[i] for i in chosen), left=columns[:1])
            for row in rows:
                table.add_row(*(row[i] for i in chosen))
            tables.append(table)
        if all(width(table) <= out.width for table in tables):
            break
    for table in tables:
        out.print(table)


def print_table(title: str, table: Table) -> None:
    """A table below its title, neither wrapped to the width of the other; a table that is too wide is not cut."""
    if title:
        out.print(Text(title, "bold"))
    needed = width(table)
    table.width = needed if needed > out.width else None
    out.print(table, crop=False)


@contextmanager
def progress_bars(quiet: bool = False) -> Iterator[ProgressCallback]:
    """Draw a bar for the current stage on standard error, if that is a terminal."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(compact=True),
    )
    with Bars(*columns, console=err, transient=True, disable=quiet or not err.is_terminal) as bars:
        tasks: dict[str, Any] = {}
        shown: list[str] = []

        def report(progress: Progress) -> None:
            if progress.stage not in tasks:
                tasks[progress.stage] = bars.add_task(progress.stage, total=progress.total, note="")
            if shown != [progress.stage]:
                shown[:] = [progress.stage]
                for stage, task in tasks.items():
                    bars.update(task, visible=stage == progress.stage)
            bars.update(tasks[progress.stage], completed=progress.done, total=progress.total, note=progress.note)

        yield report


def as_json(values: Any) -> None:
    """Print values as one JSON object on standard output, with escapes unless that is UTF-8."""
    is_utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    json.dump(values, sys.stdout, ensure_ascii=not is_utf8, indent=2)
    sys.stdout.write("\n")


def warn(message: str) -> None:
    """Print a warning on standard error."""
    err.print(Text.assemble(("warning: ", "bold yellow"), message), soft_wrap=True)


def skipped_lines(skipped: Skipped, where: str = "") -> None:
    """Warn about skipped input: how often for each reason, with the first example; ``where`` precedes each line."""
    for reason, count in skipped.counts.items():
        warn(f"{where}skipped {count:,}: {reason} (first: {without_skip_advice(skipped.examples[reason])})")
