"""Filters in PostgreSQL: conditions on the column fields (jsonb) with bound parameters; no value is pasted into SQL."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from cr5.corpus.fields import Scalar
from cr5.index.filters import COMPARISONS, EQUAL, EXISTS, Condition, Filter

CREATE_FIELDS = (
    "ALTER TABLE {documents} ADD COLUMN IF NOT EXISTS fields jsonb NOT NULL DEFAULT '{{}}'",
    "CREATE INDEX IF NOT EXISTS {fields} ON {documents} USING gin (fields jsonb_path_ops)",
)


class Conditions(NamedTuple):
    """A WHERE clause, empty for all rows, and its parameters."""

    clause: str
    parameters: dict[str, Any]


def conditions_for(langs: Sequence[str] | None, where: Filter | None) -> Conditions:
    """The condition that rows are in one of some languages and match a filter."""
    clauses: list[str] = []
    parameters: dict[str, Any] = {}
    if langs is not None:
        clauses.append("lang = ANY(%(langs)s)")
        parameters["langs"] = list(langs)
    for number, condition in enumerate(where.conditions if where else ()):
        add = {EXISTS: _add_existence}.get(condition.operator, _add_equality)
        if condition.operator in COMPARISONS:
            add = _add_comparison
        clauses.append(add(condition, f"where{number}", parameters))
    return Conditions(f"WHERE {' AND '.join(clauses)}" if clauses else "", parameters)


def _add_existence(condition: Condition, key: str, parameters: dict[str, Any]) -> str:
    """There is a field of this name, or one of an object."""
    parameters[f"{key}_name"] = condition.name
    clause = f"fields ? %({key}_name)s::text"
    if condition.path:
        parameters |= {f"{key}_outer": condition.path[0], f"{key}_inner": condition.path[1]}
        nested = f"fields -> %({key}_outer)s::text"
        is_object = f"jsonb_typeof({nested}) = 'object'"  # a list has its strings as keys
        clause = f"({clause} OR ({is_object} AND {nested} ? %({key}_inner)s::text))"
    return clause


def _add_equality(condition: Condition, key: str, parameters: dict[str, Any]) -> str:
    """A field has one of the values, or a list with one of them; the index of the column finds such rows."""
    parameters[key] = [json.dumps({condition.name: value}) for value in _alternatives(condition.values)]
    clause = f"fields @> ANY(%({key})s::jsonb[])"
    if condition.path:
        outer, inner = condition.path
        nested = [json.dumps({outer: {inner: value}}) for value in _alternatives(condition.values)]
        parameters |= {f"{key}_name": condition.name, f"{key}_nested": nested}
        nested_clause = f"fields @> ANY(%({key}_nested)s::jsonb[])"
        clause = f"CASE WHEN fields ? %({key}_name)s::text THEN {clause} ELSE {nested_clause} END"
    return clause if condition.operator == EQUAL else f"NOT ({clause})"


def _alternatives(values: Sequence[Scalar]) -> list[Scalar | list[Scalar]]:
    """Each value, alone and in a list."""
    return [form for value in values for form in (value, [value])]


def _add_comparison(condition: Condition, key: str, parameters: dict[str, Any]) -> str:
    """A field, or one of the values of its list, satisfies the comparison with a value of the same type."""
    parameters |= {f"{key}_name": condition.name, key: json.dumps({"value": condition.values[0]})}
    value = f"fields -> %({key}_name)s::text"
    if condition.path:
        parameters |= {f"{key}_outer": condition.path[0], f"{key}_inner": condition.path[1]}
        nested = f"fields -> %({key}_outer)s::text -> %({key}_inner)s::text"
        value = f"CASE WHEN fields ? %({key}_name)s::text THEN {value} ELSE {nested} END"
    # The operator is one of the four in COMPARISONS.
    return f"jsonb_path_exists({value}, '$ ? (@ {condition.operator} $value)', %({key})s::jsonb)"
