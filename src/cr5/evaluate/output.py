"""How results are written: all files or none, figures as CSV."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from cr5.errors import ResultsNotWrittenError
from cr5.message_parts import reason
from cr5.storage.atomic import atomic_write, created_folder


def write_files(folder: Path, texts: Mapping[str, str]) -> None:
    """Write text files into a folder, which is created: none of them appears before all of them are written."""
    with created_folder(folder), ExitStack() as files:
        for name, text in texts.items():
            file = files.enter_context(atomic_write(folder / name))
            # File names may contain lone surrogates, which UTF-8 cannot encode; JSON reads them back from the escape.
            file.write(text.encode(errors="backslashreplace"))
            file.flush()


@contextmanager
def keeping_run(run: Any, folder: str | Path, call: str) -> Iterator[None]:
    """Within the block, which writes a run to a folder, errors of the operating system have the run with them.

    ``call`` is how the caller writes it later.
    """
    try:
        yield
    except OSError as error:
        problem = f"{folder}: the results cannot be written, {reason(error)}"
        advice = f"free some space, or choose another folder, and write the `run` of this error with {call}"
        raise ResultsNotWrittenError(problem, advice, run) from error


def csv_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table as CSV; numbers that are not whole have four decimals."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([round(cell, 4) if isinstance(cell, float) else cell for cell in row] for row in rows)
    return text.getvalue()
