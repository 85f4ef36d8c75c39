"""The built-in corpus: a small encyclopedia in English, Italian, Danish and Vietnamese."""

from pathlib import Path

BUILTIN = "builtin"
"""The name of the corpus where a path is expected."""

FOLDER = Path(__file__).parent
"""A corpus folder with one JSONL file per language."""
