"""Fields: what users know of a document besides its text, as JSON, such as its year or kind.

A field has a scalar, a list of scalars, or an object whose values are scalars and lists of scalars.
"""

import json
import math
from collections.abc import Mapping
from datetime import date, time
from typing import Any, TypeAlias

import numpy as np

from cr5.corpus.tables import RecordError, check_text
from cr5.corpus.texts import describe, is_missing
from cr5.message_parts import quoted

Scalar: TypeAlias = str | int | float | bool | None

FIELDS = "fields"  # name of the column
NO_FIELDS = "{}"  # the JSON text of a document without fields
MAX_FIELDS_BYTES = 2**16  # largest JSON text of a document's fields
MAX_FIELDS = 256  # per document, and per object in a field
MAX_NAME_CHARS = 200
_REASON = "invalid fields"


def fields_text(value: object) -> str:
    """The fields of a document as canonical JSON text; ``value`` is a mapping, JSON text, or None for no fields.

    Equal fields have the same text. Fields that are NaN, NaT or NA are left out, and dates become ISO 8601. What JSON
    cannot hold is refused with a ``RecordError``.
    """
    if is_missing(value) or (isinstance(value, str) and value in ("", NO_FIELDS)):
        return NO_FIELDS
    fields = _parse(value) if isinstance(value, str) else value
    if not isinstance(fields, Mapping):
        raise RecordError(_REASON, f"field 'fields' is {describe(fields)}, not an object; write it as {{'year': 2019}}")
    text = _write({name: _check_value(item, name) for name, item in _present(_items(fields, "the document"))})
    if len(text) > MAX_FIELDS_BYTES // 4 and len(text.encode()) > MAX_FIELDS_BYTES:
        size = len(text.encode())
        raise RecordError(_REASON, f"field 'fields' has {size:,} bytes; the most are {MAX_FIELDS_BYTES:,}, shorten it")
    return text


def parse_fields(text: str) -> dict[str, Any]:
    """The fields of a canonical JSON text."""
    return {} if text == NO_FIELDS else json.loads(text)


def canonical_text(text: str) -> str:
    """The canonical text of JSON that a database has rewritten: other spaces and spellings of numbers."""
    return NO_FIELDS if text == NO_FIELDS else fields_text(text)


def value_kind(value: object) -> str:
    """The kind of a scalar, as messages name it."""
    if isinstance(value, bool):
        return "true or false"
    return "strings" if isinstance(value, str) else "null" if value is None else "numbers"


def check_scalar(value: object, name: str) -> Scalar:
    """A value that JSON can hold, with numbers in one spelling; ``name`` is that of the field in messages."""
    if isinstance(value, np.datetime64):
        value = str(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, date | time):
        value = value.isoformat()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        if "\0" in value:
            raise RecordError(_REASON, f"{name} contains a NUL character; remove it")
        return check_text(str(value), name)
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            size = f"an integer of {value.bit_length()} bits"
            raise RecordError(_REASON, f"{name} is {size}, and the most are 64; write it as a string")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise RecordError(_REASON, f"{name} is {value}, which JSON does not have; leave it out")
        # Databases compare decimals: from 2 ** 53 on, Python's shortest spelling of a whole number is not exact.
        return int(value) if 2**53 <= abs(value) < 2**63 else float(value) + 0.0
    raise RecordError(_REASON, f"{name} is {describe(value)}, which JSON does not have; write it as a string")


def _field_label(name: str) -> str:
    """A field as messages name it."""
    return f"field {quoted(name)} of 'fields'"


def _check_value(value: object, name: str, *, nested: bool = False) -> object:
    label = _field_label(name)
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        for item in value:
            if isinstance(item, list | tuple | Mapping | np.ndarray):
                raise RecordError(
                    _REASON, f"{label} is a list that contains {describe(item)}; give a list of strings or numbers"
                )
        return [check_scalar(item, label) for item in value if not _is_left_out(item)]
    if isinstance(value, Mapping):
        if nested:
            raise RecordError(_REASON, f"{label} is an object in an object; one level is possible, flatten it")
        return {key: _check_value(item, f"{name}.{key}", nested=True) for key, item in _present(_items(value, label))}
    return check_scalar(value, label)


def _is_left_out(value: object) -> bool:
    """Whether a value says that there is none; None does not, because it is the null of JSON."""
    is_nan = isinstance(value, np.number | np.datetime64) and bool(value != value)
    return value is not None and (is_nan or is_missing(value))


def _present(items: list[tuple[str, object]]) -> list[tuple[str, object]]:
    return [(name, value) for name, value in items if not _is_left_out(value)]


def _items(fields: Mapping[Any, object], label: str) -> list[tuple[str, object]]:
    """The fields of an object, whose names are checked."""
    if len(fields) > MAX_FIELDS:
        raise RecordError(_REASON, f"{label} has {len(fields):,} fields; the most are {MAX_FIELDS}")
    for name in fields:
        if not isinstance(name, str):
            raise RecordError(_REASON, f"{label} has a field named {describe(name)}; name it by a string")
        if not 0 < len(name) <= MAX_NAME_CHARS or "\0" in name:
            rule = f"names have 1 to {MAX_NAME_CHARS} characters, and no NUL"
            raise RecordError(_REASON, f"{label} has a field named {quoted(name)}; {rule}")
        check_text(name, f"the name of a field of {label}")
    return [(str(name), value) for name, value in fields.items()]


def _parse(text: str) -> object:
    try:
        return json.loads(text, parse_int=_parse_integer)
    except (ValueError, RecursionError):
        raise RecordError(_REASON, f"field 'fields' is {quoted(text)}, which is not JSON; write an object") from None


def _parse_integer(digits: str) -> int | float:
    """An integer; a database writes large floats as integers, which become floats again."""
    return int(digits) if len(digits) <= 20 and -(2**63) <= int(digits) < 2**63 else float(digits)


def _write(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)
