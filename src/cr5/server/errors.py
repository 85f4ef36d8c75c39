"""Error responses: the exception that becomes one, and the messages for requests that fail validation."""

import errno
import os
from collections.abc import Mapping, Sequence
from typing import Any

from cr5.message_parts import json_value, os_error_number, quoted

INVALID_JSON = "the body is not valid JSON; send a JSON object encoded as UTF-8"
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NOT_WRITABLE = (errno.EROFS, errno.EACCES, errno.EPERM)
_EXHAUSTED = {
    errno.EMFILE: "the server has no file descriptor left",
    errno.ENFILE: "the machine has no file descriptor left",
    errno.ENOMEM: "the server has no memory left",
}


class HttpError(Exception):
    """An error response: an HTTP status, a message of one sentence, and additional headers.

    ``code`` and ``param``, the parameter that is wrong, are for clients of OpenAI's API.
    """

    def __init__(
        self,
        status: int,
        message: str,
        headers: Mapping[str, str] | None = None,
        *,
        code: str | None = None,
        param: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, dict(headers or {})
        self.code, self.param = code, param


def system_error(error: BaseException, *, writes_index: bool = False) -> HttpError | None:
    """The response for what the operating system refused: disk full, folder not writable, no file or memory left.

    ``writes_index`` says that the request was to change the index, which it did not. None for any other error.
    """
    number = errno.ENOMEM if isinstance(error, MemoryError) else os_error_number(error)
    if number in _DISK_FULL:
        problem = (
            "the disk of the index is full, and no document was changed"
            if writes_index
            else "a disk that the server writes temporary files to is full; its log has the details"
        )
        return HttpError(507, f"{problem}; free some space, then try again")
    if number == errno.ENOENT and writes_index:
        message = "a file or the folder of the index is missing; restore it, then try again"
        return HttpError(503, message, {"Retry-After": "60"})
    if number in _NOT_WRITABLE:
        reason = os.strerror(number).lower()
        if not writes_index:
            return HttpError(503, f"the server cannot open a file ({reason}); its log has the details")
        return HttpError(
            503,
            f"the index cannot be written ({reason}), and no document was changed; make its folder writable for the "
            "server, then try again",
            {"Retry-After": "60"},
        )
    if number in _EXHAUSTED:
        return HttpError(503, f"{_EXHAUSTED[number]}; try again later", {"Retry-After": "5"})
    return None


def validation_error(errors: Sequence[Mapping[str, Any]]) -> HttpError:
    """The response for the first of pydantic's errors.

    Where a parameter accepts two types, pydantic reports an error for each; that of the type which was sent is used.
    """
    specific = [error for error in errors if error["type"] not in ("string_type", "list_type")]
    items = [error for error in errors if not isinstance(error.get("input"), list)]
    error = (specific or items or errors)[0]
    parts = [str(part) for part in error["loc"] if not str(part).startswith(("list[", "str", "constrained-str"))]
    if error["type"] == "json_invalid":
        return HttpError(400, INVALID_JSON)
    name = ".".join(parts[1:])
    return HttpError(422, _message(error, name or "the body"), param=name or None)


def _message(error: Mapping[str, Any], name: str) -> str:
    kind, value, context = error["type"], error.get("input"), error.get("ctx", {})
    if name.partition(".")[0] == "input" and kind in ("string_type", "list_type"):
        return f"{name} is not a string; send a string or a list of strings (lists of token ids are not supported)"
    match kind:
        case "missing":
            return f"{name} is missing; it is required"
        case "extra_forbidden":
            return f"{quoted(name)} is not a parameter or field of this request; remove it, or see /docs"
        case "string_too_long":
            return f"{name} has {len(value or ''):,} characters; send at most {context['max_length']:,}"
        case "too_long":
            return f"{name} has {len(value or ''):,} items; send at most {context['max_length']:,}"
        case "string_too_short":
            return f"{name} is empty; send at least one character"
        case "too_short":
            return f"{name} is empty; send at least one item"
        case "less_than_equal":
            return f"{name} is {value}; it must be at most {context['le']}"
        case "greater_than_equal":
            return f"{name} is {value}; it must be at least {context['ge']}"
        case "int_parsing" | "int_type" | "int_from_float" | "int_parsing_size":
            return f"{name} is {json_value(value)}; it must be a whole number"
        case "float_parsing" | "float_type" | "finite_number":
            return f"{name} is {json_value(value)}; it must be a number"
        case "string_type":
            return f"{name} is {json_value(value)}; it must be a string"
        case "string_unicode":
            return f"{name} contains an unpaired surrogate; send valid Unicode"
        case "string_pattern_mismatch" if "http" in context["pattern"]:
            return f"{name} is {json_value(value)}; it must begin with http:// or https://, and have no space"
        case "string_pattern_mismatch" if name == "sort":
            return f"{name} is {json_value(value)}; it must name a field, such as year or -year"
        case "string_pattern_mismatch":
            return f"{name} contains a control character; remove it"
        case "literal_error":
            return f"{name} is {json_value(value)}; it must be {context['expected']}"
        case "list_type":
            return f"{name} is {json_value(value)}; it must be a list"
        case "dict_type":
            return f"{name} is {json_value(value)}; it must be an object"
        case _:
            return f"{name} is {json_value(value)}; see /docs for its format"
