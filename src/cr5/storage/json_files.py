"""JSON files: one object each, written atomically."""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from cr5.storage.atomic import atomic_write


def write_json(path: Path, values: Mapping[str, Any], *, indent: int | None = 1, temporary: Path | None = None) -> None:
    """Write a JSON object, in one line if ``indent`` is None; ``temporary`` is as for ``atomic_write``."""
    with atomic_write(path, temporary=temporary) as file:
        # File names may contain lone surrogates, which UTF-8 cannot encode; JSON reads them back from the escape.
        file.write(json_text(values, indent).encode(errors="backslashreplace"))


def json_text(values: Mapping[str, Any], indent: int | None = None) -> str:
    """The content of a file with a JSON object, in one line if ``indent`` is None."""
    return json.dumps(values, ensure_ascii=False, indent=indent) + "\n"


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file; a ``ValueError`` if it contains anything else."""
    content = path.read_bytes()
    with suppress(ValueError, RecursionError):
        values = json.loads(content)
        if isinstance(values, dict):
            return values
    raise ValueError(f"{path}: not a JSON object")
