"""Hand-written queries: a JSONL file with the fields query, lang, concept and kind."""

import json
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from cr5.data import BUILTIN
from cr5.errors import Cr5Error

ENCYCLOPEDIA_QUERIES = Path(__file__).parent / "encyclopedia.jsonl"
"""Queries for the built-in encyclopedia, as people would type them."""


QuerySet: TypeAlias = Literal["test", "validation", "all"]
"""Which queries are used: those about one half of the concepts, or all."""


def query_set_of(path: str | Path | None, *, validation: bool) -> QuerySet:
    """The queries that an evaluation uses: a half, or all of a file that is not the built-in one."""
    if validation:
        return "validation"
    return "test" if path is None or str(path) == BUILTIN else "all"


class WrittenQuery(NamedTuple):
    """A query in a language, the concept that it looks for, and what kind of query it is."""

    query: str
    lang: str
    concept: str
    kind: str


def read_queries(path: str | Path) -> list[WrittenQuery]:
    """Read a file of queries, or "builtin" for those of the built-in encyclopedia."""
    file = ENCYCLOPEDIA_QUERIES if str(path) == BUILTIN and not Path(path).exists() else Path(path)
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Cr5Error(f"`query_file={path}` cannot be read ({error}); name a JSONL file in UTF-8") from None
    queries = [_query(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not queries:
        raise Cr5Error(f"`query_file={path}` has no queries; write one JSON object a line")
    return queries


def _query(path: str | Path, number: int, line: str) -> WrittenQuery:
    try:
        values = json.loads(line)
        row = WrittenQuery(values["query"], values["lang"], values["concept"], values.get("kind", "query"))
        if not all(isinstance(value, str) and value.strip() for value in row):
            raise ValueError
    except (ValueError, TypeError, KeyError, AttributeError):
        raise Cr5Error(
            f"{path}, line {number} is not a query; write an object with the texts query, lang and concept"
        ) from None
    return row
