"""Parts of messages: quoted texts, counts with their nouns, sizes, and what the operating system says."""

import re
from collections.abc import Iterable


def quoted(text: str) -> str:
    """A text as messages show it: in quotes, shortened to 60 characters, with control characters escaped."""
    return repr(text if len(text) <= 60 else text[:60] + "…")


def json_value(value: object) -> str:
    """A value of JSON as messages show it: short, and without control characters."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return quoted(value).encode(errors="replace").decode() if isinstance(value, str) else quoted(str(value))[1:-1]


def one_line(text: str) -> str:
    """A text as messages can show it: control characters, and what UTF-8 cannot encode, are escaped as Python does."""
    return re.sub(r"[\0-\x1f\x7f-\x9f\ud800-\udfff]", lambda match: repr(match[0])[1:-1], text)


_SKIP_ADVICE = re.compile(r',? or [^;,`]*`on_error="skip"`')


def without_skip_advice(message: str) -> str:
    """A message without its advice to skip such input, for those who do: "remove it or pass `on_error="skip"`"."""
    return _SKIP_ADVICE.sub("", message)


def plural(count: int, noun: str) -> str:
    """A count with its noun: 1 step, 2 steps."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def in_languages(codes: Iterable[str]) -> str:
    """Codes after "documents", as some of them are also words: "in language it", "in languages en, it"."""
    listed = list(codes)
    return f"in {'language' if len(listed) == 1 else 'languages'} {', '.join(listed)}"


def with_article(noun: str) -> str:
    """The name of a type with its article: an int, an ndarray, a list."""
    return f"{'an' if noun[0] in 'AEIOUaeiou' or noun == 'ndarray' else 'a'} {noun}"


def format_bytes(count: float | None) -> str:
    """12300000 -> 12.3 MB."""
    count = count or 0
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} bytes"


def reason(error: OSError) -> str:
    """What the operating system says about a failure, as messages show it: "permission denied"."""
    return (error.strerror or str(error)).lower()


def os_error_number(error: BaseException) -> int | None:
    """The error number of the operating system that an error has, or that its message quotes; None without any.

    Libraries in Rust report what the system says as a text that ends with "(os error 28)".
    """
    found = re.search(r"\(os error (\d+)\)", str(error))
    return int(found[1]) if found else error.errno if isinstance(error, OSError) else None
