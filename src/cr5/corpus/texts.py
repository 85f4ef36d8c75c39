"""Texts that a user passes, in any container -> a list of strings."""

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import repeat
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np

from cr5._typing import Ints
from cr5.errors import Cr5TypeError
from cr5.message_parts import quoted, with_article

Item = TypeVar("Item")
Texts: TypeAlias = Iterable[str]
"""Texts in any form that ``text_list`` takes."""


def text_list(texts: Texts, name: str = "texts") -> list[str]:
    """Texts as a list: from a sequence or iterator, a NumPy or Arrow array, a pandas or polars column.

    Anything in it that is not a string is refused by its position, from 0, and its value.
    """
    if type(texts) is list and set(map(type, texts)) <= {str}:  # the usual case, which should cost little
        return texts
    if isinstance(texts, bytes):
        raise Cr5TypeError(f"`{name}` is {describe(texts)}, not a string; decode it")
    if isinstance(texts, str | Mapping | Set) or is_table(texts) or not isinstance(texts, Iterable):
        raise Cr5TypeError(f"`{name}` is {describe(texts)}; give a list of strings, or one column of a table")
    if _is_scalar_array(texts):
        raise Cr5TypeError(f"`{name}` is an array without dimensions; give its text, with item()")
    values = texts if type(texts) is list else _to_list(texts)
    if set(map(type, values)) <= {str}:
        return values
    for position, value in enumerate(values):
        if not isinstance(value, str):
            raise Cr5TypeError(f"`{name}[{position}]` is {describe(value)}, not a string; {remedy(value)}")
    return list(map(str, values))  # subclasses of str, such as NumPy's


def code_list(langs: Iterable[str | None], name: str = "lang") -> list[str | None]:
    """Language codes in any container of ``text_list`` as a list, None where one is missing."""
    if isinstance(langs, bytes | Mapping | Set) or not isinstance(langs, Iterable) or _is_scalar_array(langs):
        raise not_a_code(langs, name)
    codes = [None if is_missing(code) else code for code in _to_list(langs)]
    for position, code in enumerate(codes):
        if code is not None and not isinstance(code, str):
            raise not_a_code(code, f"{name}[{position}]")
    return codes


def not_a_code(value: object, name: str = "lang") -> Cr5TypeError:
    """The error for a language that is not a string."""
    advice = "give one such as 'en'" if is_missing(value) else remedy(value)
    return Cr5TypeError(f"`{name}` is {describe(value)}, not a language code; {advice}")


def one_text(text: str, name: str = "text") -> str:
    """A text if it is a string; otherwise an error that names the parameter."""
    if not isinstance(text, str):
        advice = "decode it" if isinstance(text, bytes) else "give one text"
        raise Cr5TypeError(f"`{name}` is {describe(text)}, not a string; {advice}")
    return text


def one_path(path: str | PathLike[str], name: str) -> Path:
    """A path; an error that names the parameter for anything else."""
    if not isinstance(path, str | PathLike):
        raise Cr5TypeError(f"`{name}` is {describe(path)}; give a path")
    return Path(path)


def one_or_several(names: str | Iterable[Item]) -> list[str | Item]:
    """Codes, ids or other names as a list; a single one may be given as a string."""
    return [names] if isinstance(names, str) else list(names)


def id_list(ids: str | Iterable[str]) -> list[str]:
    """Ids of documents as a list; a single one may be given as a string."""
    return [ids] if isinstance(ids, str) else text_list(list(ids) if isinstance(ids, Set) else ids, "ids")


def positions(values: Iterable[Item]) -> dict[Item, Ints]:
    """The positions of each different value."""
    values = list(values)
    if len(set(values)) == 1:  # the usual case, which should cost little
        return {values[0]: np.arange(len(values))}
    found: dict[Item, list[int]] = {}
    for i, value in enumerate(values):
        found.setdefault(value, []).append(i)
    return {value: np.array(rows) for value, rows in found.items()}


def assign_numbers(names: Sequence[str], numbers: dict[str, int], dtype: Any = np.int64) -> Ints:
    """The number of each name in ``numbers``, to which new names are added with the next numbers, from 0."""
    return np.fromiter((numbers.setdefault(name, len(numbers)) for name in names), dtype, len(names))


def find_numbers(names: Sequence[str], numbers: Mapping[str, int], dtype: Any = np.int64) -> Ints:
    """The number of each name, -1 for one without a number."""
    return np.fromiter(map(numbers.get, names, repeat(-1)), dtype, len(names))


def shared_numbers(arrays: Iterable[Ints]) -> Ints:
    """The numbers that two of the arrays or more have, such as the concepts of several languages, sorted."""
    found, arrays_with = np.unique(np.concatenate([np.unique(numbers) for numbers in arrays]), return_counts=True)
    return np.asarray(found[arrays_with > 1])


def _to_list(values: Any) -> list[Any]:
    for method in ("tolist", "to_list", "to_pylist"):  # NumPy and pandas, polars, Arrow
        if hasattr(values, method):
            return list(getattr(values, method)())
    return list(values)


def _is_scalar_array(value: object) -> bool:
    return isinstance(value, np.ndarray) and value.ndim == 0


def is_missing(value: object) -> bool:
    """Whether a value says that there is none: None, NaN, or what pandas has for them."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return value is None or is_nan or type(value).__name__ in ("NAType", "NaTType")


def describe(value: object) -> str:
    """A value as messages show it; one that may be long, by its type."""
    if isinstance(value, bytes):
        return f"b{quoted(value[:61].decode('latin-1'))}"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bool | int | float | np.generic) or is_missing(value):
        return str(value)
    return with_article(type(value).__name__)


def remedy(value: object) -> str:
    """What to do about a value that is not a string."""
    if is_missing(value):
        return "leave it out, or put an empty string there"
    return "decode it" if isinstance(value, bytes) else "convert it"


def is_table(value: object) -> bool:
    """Whether a value is a table with named columns; its attributes are not evaluated, which can take long."""
    attributes = ("columns", "column_names", "read_next_batch")  # the last one: a reader of record batches
    return any(hasattr(type(value), name) for name in attributes)
