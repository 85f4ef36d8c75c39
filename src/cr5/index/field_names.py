"""The fields that the documents of an index have, for those who do not know them."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from cr5.corpus.fields import parse_fields
from cr5.index.index import Index

MAX_LISTED = 30


def field_kinds(index: Index) -> dict[str, str]:
    """The fields of all documents and the kinds of their values: {"year": "numbers"}; it reads every document."""
    kinds: dict[str, set[str]] = {}
    texts = (text for batch in index.scan(("fields",)) for text in batch["fields"].unique().to_pylist())
    for fields in map(parse_fields, texts):
        for name, value in _values(fields):
            kinds.setdefault(name, set()).add(_kind(value))
    return {name: " and ".join(sorted(kinds[name])) for name in sorted(kinds)}


def list_fields(kinds: Mapping[str, str]) -> str:
    """The fields with their kinds, as messages name them."""
    listed = ", ".join(
        f"{name if name.isprintable() else repr(name)} ({kind})" for name, kind in islice(kinds.items(), MAX_LISTED)
    )
    return listed + (f" and {len(kinds) - MAX_LISTED:,} more" if len(kinds) > MAX_LISTED else "")


def _values(fields: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every field with each of its values: the items of a list, and the fields of an object as "author.name"."""
    for name, value in fields.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}.{inner}", item) for inner, item in _values(value))
        else:
            items: Iterable[Any] = value if isinstance(value, list) else [value]
            yield from ((name, item) for item in items)


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "true or false"
    return "strings" if isinstance(value, str) else "null" if value is None else "numbers"
