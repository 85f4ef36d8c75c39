"""How results are written: files as a whole or not at all, JSON in one line, figures as CSV."""

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cr5.storage.atomic import atomic_write


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with atomic_write(path) as file:
        # File names may contain lone surrogates, which UTF-8 cannot encode; JSON reads them back from the escape.
        file.write(text.encode(errors="backslashreplace"))


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write a JSON object in one line, atomically."""
    write_text(path, json.dumps(values, ensure_ascii=False) + "\n")


def csv_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table as CSV; numbers that are not whole have four decimals."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([round(cell, 4) if isinstance(cell, float) else cell for cell in row] for row in rows)
    return text.getvalue()
