"""Quantities, which are written with a space or without one: 500 ml and 500ml are found by each other.

The tokeniser leaves 500ml as one word, in documents too. A query is taken to have two, and the word of both together
matches each of them.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

_UNITS = re.compile(
    "[mcd]m|k?m|ft|[mcd]?l|[mk]?g|lbs?|oz|[kmgt]i?b|[mg]?bit|[kmg]?hz|[km]?wh?|[mk]?v|mah|px|dpi|fps|rpm|kmh|mph|nm|db",
    re.IGNORECASE,
)
_QUANTITY = re.compile(r"([0-9]+)([a-z]+)", re.IGNORECASE)


def split_quantities(tokens: Iterable[str]) -> list[str]:
    """The tokens of a query, with numbers and units as tokens of their own: ["500ml"] -> ["500", "ml"]."""
    split: list[str] = []
    for token in tokens:
        match = _QUANTITY.fullmatch(token)
        split += match.groups() if match and _UNITS.fullmatch(match[2]) else [token]
    return split


def joined_quantities(tokens: Sequence[str]) -> dict[str, list[str]]:
    """For each number and unit next to it, the words in which both are written together: {"500": ["500ml"], …}."""
    joined: dict[str, list[str]] = {}
    for number, unit in pairwise(tokens):
        if _UNITS.fullmatch(unit) and number.isascii() and number.isdigit():
            for token in (number, unit):
                joined.setdefault(token, []).append(number + unit)
    return joined
