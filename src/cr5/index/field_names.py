"""The fields that the documents of an index have, for those who do not know them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import pyarrow as pa

from cr5.corpus.fields import parse_fields, value_kind
from cr5.errors import UnknownField, warn
from cr5.index.filters import EQUAL, UNEQUAL, Condition, Filter, Where, field_value
from cr5.index.results import SearchHit
from cr5.index.stores.base import Store
from cr5.message_parts import quoted

MAX_LISTED = 30
MAX_CHECKED = 8  # conditions of a filter that are looked up, because each may read the fields of all documents
BATCHES_FOR_ADVICE = 8  # of 4,096 documents, whose fields are listed for an unknown one


def unknown_fields(store: Store, where: Where | None, sort: str | None, hits: Sequence[SearchHit]) -> tuple[str, ...]:
    """A sentence on each field in the filter, and the field to sort by, that no document has or never with that type.

    Fields whose condition a hit meets are not looked up, except for "!=", which documents without the field meet.
    """
    if not where and not sort:
        return ()
    conditions = [each for each in _conditions(where) if each.operator == UNEQUAL or not hits]
    name = (sort or "").removeprefix("-")
    is_sorted = bool(name) and any(field_value(hit.fields, name) is not None for hit in hits)
    return _problems(store, conditions, "" if is_sorted else name)


def warn_of_unknown(store: Store, where: Where | None) -> None:
    """Warn of fields in a filter that no document has, and of values of another type than theirs."""
    for problem in _problems(store, _conditions(where)):
        warn(problem, UnknownField)


def _conditions(where: Where | None) -> Sequence[Condition]:
    return Filter.parse(where).conditions if where else ()


def _problems(store: Store, conditions: Sequence[Condition], sort: str = "") -> tuple[str, ...]:
    """A sentence on each condition that is never met because of its field or type, and on a field to sort by."""
    unmet = [each for each in conditions[:MAX_CHECKED] if not _is_met(store, each)]
    if not (unmet or sort) or not any(store.count().values()):
        return ()
    kinds = field_kinds(islice(store.scan(("fields",)), BATCHES_FOR_ADVICE))
    listed = f"the fields are {list_fields(kinds)}" if kinds else "the documents have no fields"
    names = [("where", each.name) for each in unmet] + ([("sort", sort)] if sort else [])
    unknown = [
        f"`{parameter}` names the field {quoted(name)}, which no document of the index has; {listed}"
        for parameter, name in dict.fromkeys(names)
        if name not in kinds and not store.has_field(name)
    ]
    return (*_other_types(unmet, kinds), *unknown)


def _is_met(store: Store, condition: Condition) -> bool:
    """Whether a document meets a condition; for "!=", whether one has a value that is excluded."""
    wanted = replace(condition, operator=EQUAL) if condition.operator == UNEQUAL else condition
    return store.has_match(Filter((wanted,)))


def _other_types(unmet: Sequence[Condition], kinds: Mapping[str, str]) -> Iterator[str]:
    """A sentence on each field that is compared with values of a type that it never has."""
    for name in dict.fromkeys(each.name for each in unmet):
        given = {value_kind(value) for each in unmet if each.name == name for value in each.values} - {"null"}
        if name in kinds and given and given.isdisjoint(kinds[name].split(" and ")):
            listed = " and ".join(sorted(given))
            yield f"`where` compares the field {quoted(name)} with {listed}, but it has {kinds[name]}"


def field_kinds(batches: Iterable[pa.RecordBatch]) -> dict[str, str]:
    """The fields of documents, from the column "fields", and the kinds of their values: {"year": "numbers"}."""
    kinds: dict[str, set[str]] = {}
    texts = (text for batch in batches for text in batch["fields"].unique().to_pylist())
    for fields in map(parse_fields, texts):
        for name, value in _values(fields):
            kinds.setdefault(name, set()).add(value_kind(value))
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
