"""How results are written: texts as a whole or not at all, figures as CSV."""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from cr5.storage.atomic import atomic_write


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with atomic_write(path) as file:
        file.write(text.encode(errors="backslashreplace"))  # file names may contain lone surrogates


def csv_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table as CSV; numbers that are not whole have four decimals."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([round(cell, 4) if isinstance(cell, float) else cell for cell in row] for row in rows)
    return text.getvalue()
