"""Texts to sparse rows: tokens, vocabulary, TF-IDF weights."""

from dataclasses import field
from typing import Any


def setting(default: Any, meaning: str) -> Any:
    """A field of a dataclass of settings, with the meaning that the reference shows."""
    return field(default=default, metadata={"meaning": meaning})
