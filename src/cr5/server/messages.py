"""Wording: one sentence for what is wrong with a request."""

from collections.abc import Mapping, Sequence
from typing import Any

from cr5.errors import quoted

_WHOLE, _NO_TEXT = "give a whole number", "give a text"


def sentence(errors: Sequence[Mapping[str, Any]]) -> str:
    """The first of the faults that pydantic finds; where a value may have two types, that of the type it has."""
    told = [error for error in errors if error["type"] not in ("string_type", "list_type")] or errors
    error = told[0]
    kind, value, context = error["type"], error.get("input"), error.get("ctx", {})
    parts = [str(part) for part in error["loc"] if not str(part).startswith(("list[", "str", "constrained-str"))]
    name = ".".join(parts[1:]) or "the body"
    if parts[1:2] == ["input"] and kind in ("string_type", "list_type"):
        return f"{name} is no text; send a text or a list of texts, not of tokens"
    match kind:
        case "missing":
            return f"{name} is missing; give it"
        case "extra_forbidden":
            return f"{quoted(name)} is not known here; leave it out, or see /docs"
        case "json_invalid":
            return "the body is no JSON; send an object in UTF-8"
        case "string_too_long":
            return f"{name} has {_size(value)} characters; send at most {context['max_length']:,}"
        case "too_long":
            return f"{name} has {_size(value)} items; send at most {context['max_length']:,}"
        case "string_too_short" | "too_short":
            return f"{name} is empty; give something"
        case "less_than_equal":
            return f"{name} is {value}; give at most {context['le']}"
        case "greater_than_equal":
            return f"{name} is {value}; give at least {context['ge']}"
        case "int_parsing" | "int_type" | "int_from_float" | "int_parsing_size":
            return f"{name} is {_value(value)}; {_WHOLE}"
        case "string_type":
            return f"{name} is {_value(value)}; {_NO_TEXT}"
        case "string_unicode":
            return f"{name} holds half a character; send valid Unicode"
        case "string_pattern_mismatch" if "http" in context["pattern"]:
            return f"{name} is {_value(value)}; give an address that begins with http:// or https://"
        case "string_pattern_mismatch":
            return f"{name} holds a NUL character; remove it"
        case "literal_error":
            return f"{name} is {_value(value)}; choose {context['expected']}"
        case "list_type":
            return f"{name} is {_value(value)}; give a list"
        case _:
            return f"{name} is {_value(value)}; see /docs for its form"


def _size(value: Any) -> str:
    return f"{len(value):,}"


def _value(value: Any) -> str:
    """A value as a message shows it: harmless, and short."""
    if isinstance(value, str):
        return quoted(value).encode(errors="replace").decode()
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return {None: "null", True: "true", False: "false"}.get(value) or quoted(str(value))[1:-1]
