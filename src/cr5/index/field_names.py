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
BATCHES_FOR_ADVICE = 8  # of 4,096 documents, whose fields are listed for an unknown one


def unknown_fields(store: Store, where: Where | None, sort: str | None, hits: Sequence[SearchHit]) -> tuple[str, ...]:
    """A sentence on each field in the filter, and the field to sort by, that no document has or never with that type.

    Fields whose condition a hit meets are not looked up, except for "!=", which documents without the field meet.
    """
    if not where and not sort:
        return ()
    names = [each.name for each in _conditions(where) if each.operator == UNEQUAL or not hits]
    name = (sort or "").removeprefix("-")
    has_value = any(field_value(hit.fields, name) is not None for hit in hits)
    types = _other_types(store, where) if names else ()
    return types + _problems(store, "where", names) + _problems(store, "sort", [name] if name and not has_value else [])


def warn_of_unknown(store: Store, where: Where | None) -> None:
    """Warn of fields in a filter that no document has, and of values of another type than theirs."""
    unknown = _problems(store, "where", [condition.name for condition in _conditions(where)])
    for problem in _other_types(store, where) + unknown:
        warn(problem, UnknownField)


def _conditions(where: Where | None) -> Sequence[Condition]:
    return Filter.parse(where).conditions if where else ()


def _other_types(store: Store, where: Where | None) -> tuple[str, ...]:
    """A sentence on each condition with a value of a type that the field never has: such a condition is never met."""
    conditions = [each for each in _conditions(where) if not _is_met(store, each)]
    kinds = field_kinds(islice(store.scan(("fields",)), BATCHES_FOR_ADVICE)) if conditions else {}
    problems = []
    for name in dict.fromkeys(each.name for each in conditions):
        own, given = kinds.get(name), {value_kind(v) for each in conditions if each.name == name for v in each.values}
        given -= {"null"}
        if own is not None and given and given.isdisjoint(own.split(" and ")):
            listed = " and ".join(sorted(given))
            problems.append(f"`where` compares the field {quoted(name)} with {listed}, but it has {own}")
    return tuple(problems)


def _is_met(store: Store, condition: Condition) -> bool:
    """Whether a document meets a condition; for "!=", whether one has a value that is excluded."""
    wanted = replace(condition, operator=EQUAL) if condition.operator == UNEQUAL else condition
    return any(batch.num_rows for batch in store.scan(("id",), where=Filter((wanted,))))


def _problems(store: Store, parameter: str, names: Sequence[str]) -> tuple[str, ...]:
    """A sentence on each field that no document has; none if there is no document."""
    unknown = [name for name in dict.fromkeys(names) if not store.has_field(name)]
    if not unknown or not any(store.count().values()):
        return ()
    kinds = field_kinds(islice(store.scan(("fields",)), BATCHES_FOR_ADVICE))
    listed = f"the fields are {list_fields(kinds)}" if kinds else "the documents have no fields"
    return tuple(
        f"`{parameter}` names the field {quoted(name)}, which no document of the index has; {listed}"
        for name in unknown
    )


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
