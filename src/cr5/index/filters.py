"""Filters: which documents a search may return, by conditions on their fields.

``Filter.matches`` is the specification; the stores evaluate filters where their rows are, with the same results.

A value of a field is a scalar, a list or an object. A list meets a condition if one of its values does, an object never
does, and a field that a document does not have meets only "!=". Numbers are compared with numbers and strings with
strings, by code points, which is the order of dates in ISO 8601; true and false are not numbers.
"""

import json
import operator
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from cr5._typing import Mask
from cr5.corpus.fields import MAX_NAME_CHARS, Scalar, check_scalar
from cr5.corpus.tables import RecordError
from cr5.corpus.texts import describe
from cr5.errors import Cr5Error
from cr5.message_parts import quoted

MAX_CONDITIONS = 32  # conditions in a filter
MAX_VALUES = 1000  # values in a list of a condition
EQUAL, UNEQUAL = "==", "!="
EXISTS = "exists"  # not one of the operators of users
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le,
}  # fmt: skip
_OPERATORS = (*COMPARISONS, UNEQUAL)
_MISSING = object()


@dataclass(frozen=True)
class Condition:
    """A condition on one field: it exists, has one of the values or none ("!="), or compares with the only one."""

    name: str
    operator: str
    values: tuple[Scalar, ...]

    @property
    def path(self) -> tuple[str, str] | None:
        """The name of an object and that of a field in it, if the name of the condition can be both: "author.name"."""
        return _path(self.name)

    def matches(self, fields: Mapping[str, Any]) -> bool:
        """Whether a document with these fields meets the condition."""
        value = field_value(fields, self.name, _MISSING)
        if self.operator == EXISTS:
            return value is not _MISSING
        own = value if isinstance(value, list) else [] if value is _MISSING or isinstance(value, Mapping) else [value]
        if self.operator in COMPARISONS:
            return any(_compares(self.operator, item, self.values[0]) for item in own)
        has_value = any(_is_same(item, wanted) for item in own for wanted in self.values)
        return has_value is (self.operator == EQUAL)


@dataclass(frozen=True)
class Filter:
    """Conditions that a document has to meet, all of them."""

    conditions: tuple[Condition, ...]

    @classmethod
    def parse(cls, where: "Where") -> "Filter":
        """The filter of a mapping from names of fields to conditions.

        A condition is a value that the field has to have, a list of which it has to have one, or a mapping from the
        operators >, >=, <, <= and != to values. "author.name" is the field of that name, or the field ``name`` of the
        object ``author``. A wrong condition is refused with its field, operator and value.
        """
        if isinstance(where, Filter):
            return where
        if not isinstance(where, Mapping):
            raise Cr5Error(f"`where` is {describe(where)}; give a mapping from fields to conditions, {{'year': 2019}}")
        _require_few_conditions(len(where))  # each field has at least one
        conditions = []
        for name, condition in where.items():
            if not isinstance(name, str) or not 0 < len(name) <= 2 * MAX_NAME_CHARS + 1:
                raise Cr5Error(f"`where` has a condition on the field {describe(name)}; name a field by a string")
            _scalar(name, "the name of a field in `where`")
            conditions += _parse_condition(name, condition)
        _require_few_conditions(len(conditions))
        return cls(tuple(conditions))

    @classmethod
    def existing(cls, name: str) -> "Filter":
        """The filter of documents that have a field, whatever its value is."""
        return cls((Condition(name, EXISTS, ()),))

    @cached_property
    def key(self) -> str:
        """A text that is unique to the filter: 1 and true are equal in Python, but not in a filter."""
        return json.dumps([[each.name, each.operator, each.values] for each in self.conditions])

    def matches(self, fields: Mapping[str, Any]) -> bool:
        """Whether a document with these fields meets all conditions."""
        return all(condition.matches(fields) for condition in self.conditions)

    def mask(self, texts: Sequence[str]) -> Mask:
        """Whether each of some documents, given the JSON texts of their fields, meets all conditions."""
        different = list(dict.fromkeys(texts))
        parsed = json.loads(f"[{','.join(different)}]")  # one call for all is twice as fast as one call each
        known = dict(zip(different, map(self.matches, parsed), strict=True))
        return np.fromiter((known[text] for text in texts), bool, len(texts))


Where: TypeAlias = Mapping[str, Any] | Filter


def field_value(fields: Mapping[str, Any], name: str, default: object = None) -> Any:
    """The value of a field: "author.name" is the field of that name, or the field ``name`` of the object ``author``."""
    value, path = fields.get(name, _MISSING), _path(name)
    if value is _MISSING and path and isinstance(outer := fields.get(path[0]), Mapping):
        value = outer.get(path[1], _MISSING)
    return default if value is _MISSING else value


def _require_few_conditions(count: int) -> None:
    if count > MAX_CONDITIONS:
        raise Cr5Error(f"`where` has {count:,} conditions; the most are {MAX_CONDITIONS}")


def _path(name: str) -> tuple[str, str] | None:
    outer, dot, inner = name.partition(".")
    return (outer, inner) if outer and dot and inner else None


def _parse_condition(name: str, condition: object) -> list[Condition]:
    label = f"the condition on {quoted(name)} in `where`"
    if not isinstance(condition, Mapping):
        return [Condition(name, EQUAL, _values(condition, label))]
    if not condition:
        raise Cr5Error(f"{label} is empty; give a value, a list of values, or an operator of {', '.join(_OPERATORS)}")
    parsed = []
    for symbol, value in condition.items():
        if symbol not in _OPERATORS:
            raise Cr5Error(f"{label} has the operator {describe(symbol)}; the operators are {', '.join(_OPERATORS)}")
        if symbol == UNEQUAL:
            parsed.append(Condition(name, UNEQUAL, _values(value, f"{label}, {symbol},")))
            continue
        scalar = _scalar(value, f"{label}, {symbol},")
        if scalar is None or isinstance(scalar, bool):
            raise Cr5Error(f"{label} is {symbol} {describe(scalar)}; compare a field with a number or a string")
        parsed.append(Condition(name, symbol, (scalar,)))
    return parsed


def _values(value: object, label: str) -> tuple[Scalar, ...]:
    if not isinstance(value, list | tuple | Set | np.ndarray):
        return (_scalar(value, label),)
    if len(value) > MAX_VALUES:
        raise Cr5Error(f"{label} has {len(value):,} values; the most are {MAX_VALUES:,}")
    return tuple(_scalar(item, label) for item in value)


def _scalar(value: object, label: str) -> Scalar:
    try:
        return check_scalar(value, label)
    except RecordError as error:
        raise Cr5Error(str(error)) from None


def _kind(value: object) -> type:
    """The type of a scalar; all numbers have the same."""
    return float if type(value) is int else type(value)


def _is_same(a: Scalar, b: Scalar) -> bool:
    return _kind(a) is _kind(b) and a == b


def _compares(symbol: str, a: Scalar, b: Scalar) -> bool:
    return _kind(a) is _kind(b) and COMPARISONS[symbol](a, b)
