"""What to do about a table without the columns concept, lang and text: how the columns of languages become rows."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cr5.corpus.documents import REQUIRED_COLUMNS
from cr5.corpus.language_names import language_code
from cr5.corpus.languages import canonical_code, is_registered, language_columns

_KEY_NAMES = ("concept", "id", "key", "concept_id", "doc_id", "document_id", "uid", "uuid")
_PAIRS = (("source", "target"), ("src", "tgt"), ("src", "trg"), ("source_text", "target_text"))
_SEPARATORS = re.compile(r"[\s_.:/()-]+")
_MOST_LISTED = 8  # columns that advice lists; of more, it shows the first ones
_GUIDE = "see 'DataFrames, Arrow and scikit-learn' in the documentation"


def column_remedy(table: Any, names: Sequence[str]) -> str:
    """What to do about a missing column, as the end of a message; in a wide table, languages have to become rows."""
    in_index = [repr(name) for name in getattr(getattr(table, "index", None), "names", ()) if name in REQUIRED_COLUMNS]
    if in_index:
        columns = "a column" if len(in_index) == 1 else "columns"
        return f"; make {' and '.join(in_index)}, which the index has, {columns} with reset_index()"
    if getattr(getattr(table, "columns", None), "nlevels", 1) == 2:  # pandas, after pivot(values=["text"])
        return _remedy_for_two_levels(table)
    if langs := columns_of_languages(names):
        return f"; of columns of languages, make rows with {_call(table, names, langs)}"
    if "translation" in names:  # a dict of texts by language, as in many datasets of sentence pairs
        rows = "for i, row in enumerate(table) for lang, text in row['translation'].items()"
        return f"; of texts by language, make rows: ((str(i), lang, text) {rows})"
    lowered = {name.lower(): name for name in names}
    for pair in _PAIRS:
        if all(name in lowered for name in pair):
            langs = {lowered[name]: code for name, code in zip(pair, ("en", "it"), strict=True)}
            call = _call(table, names, langs)
            return f"; of columns of languages, make rows, with the codes of your languages for en and it: {call}"
    return f"; rename columns that have other names, and make rows of columns of languages; {_GUIDE}"


def columns_of_languages(names: Sequence[str]) -> dict[str, str]:
    """The columns of a table that have a language each, with its code; at least two, or none.

    Their names are codes (en, pt-BR), names of languages (English), or either after or before the same word (text_en).
    """
    if codes := language_columns(names):
        return {name: name for name in codes}
    named = {name: code for name in names if name != "id" and (code := _code_of(name))}
    if len(named) > 1:
        return named
    groups: dict[str, dict[str, str]] = {}
    for name in names:
        for what, code in _parted(name):
            groups.setdefault(what, {})[name] = code
    groups = {what: found for what, found in groups.items() if len(set(found.values())) > 1}
    for what, found in groups.items():
        others = [name for name in names if name not in found]
        identifier = next((name for name, code in found.items() if code == "id"), None)
        if identifier and not others and len(found) > 2:  # text_id is the identifier of a text, not Indonesian
            groups[what] = {name: code for name, code in found.items() if name != identifier}
    return next((groups[what] for what in ("text", *groups) if what in groups), {})


def _code_of(name: str) -> str | None:
    """The code of a language that is given by a code or by its name; None if it is neither."""
    return name if len(canonical_code(name)) == 2 and is_registered(name) else language_code(name)


def _parted(name: str) -> Iterator[tuple[str, str]]:
    """What a column has, and its language: ("text", "en") for text_en and English text; nothing for other names."""
    words = [word for word in _SEPARATORS.split(name.lower()) if word]
    for word, *rest in (words[::-1], words) if len(words) > 1 else ():
        if code := _code_of(word):
            yield " ".join(sorted(rest)), code


def _remedy_for_two_levels(table: Any) -> str:
    """The remedy for a pandas frame whose columns have two levels, one of which has languages."""
    for level in (0, 1):
        langs = columns_of_languages(list(map(str, dict.fromkeys(table.columns.get_level_values(level)))))
        values = list(dict.fromkeys(table.columns.get_level_values(1 - level)))
        if langs:
            chosen = "text" if "text" in values else values[0]
            part = f"table[{json.dumps(chosen)}]" if level else f"table.xs({json.dumps(chosen)}, axis=1, level=1)"
            wide = table[chosen] if level else table.xs(chosen, axis=1, level=1)
            call = _call(wide, list(map(str, wide.columns)), langs, part)
            return f"; of columns of languages, make rows with {call}"
    return f"; its columns have two levels: choose one with table[{json.dumps(str(table.columns[0][0]))}]; {_GUIDE}"


def _call(table: Any, names: Sequence[str], langs: Mapping[str, str], subject: str = "table") -> str:
    """The call that makes rows of the languages of a table, without those that have no text."""
    key = _key_column(table, [name for name in names if name not in langs])
    new_names = {name: code for name, code in langs.items() if name != code} | ({key: "concept"} if key else {})
    renamed = {name: new for name, new in new_names.items() if name != new}
    codes = _listed(list(langs.values()))
    if hasattr(table, "unpivot"):  # polars
        rename = f".rename({_listed(renamed)})" if renamed else ""
        number = "" if key else '.with_row_index("concept")'
        melt = f'.unpivot({codes}, index="concept", variable_name="lang", value_name="text").drop_nulls("text")'
        return f"{subject}{rename}{number}{melt}"
    if not hasattr(table, "iloc"):
        subject += ".read_pandas()" if hasattr(table, "read_pandas") else ".to_pandas()"
    rename = f".rename(columns={_listed(renamed)})" if renamed else ""
    number = "" if key else _numbering(table)
    melt = f'.melt("concept", {codes}, var_name="lang", value_name="text").dropna(subset=["text"])'
    return f"{subject}{rename}{number}{melt}"


def _numbering(table: Any) -> str:
    """How the rows of a pandas frame get a column concept: from its index, if that has one value for each row."""
    index = getattr(table, "index", None)
    is_usable = index is None or (index.nlevels == 1 and index.is_unique)
    return f'{"" if is_usable else ".reset_index(drop=True)"}.reset_index(names="concept")'


def _listed(values: Any) -> str:
    """Names as Python has them; of many, only the first ones."""
    if len(values) <= _MOST_LISTED:
        return json.dumps(values, ensure_ascii=False)
    if isinstance(values, Mapping):
        first = dict(list(values.items())[:3])
        return f"{json.dumps(first, ensure_ascii=False)[:-1]}, …}}"
    return "[…]"


def usual_key(names: Sequence[str]) -> str | None:
    """The one of some columns that names the concepts, if one has a usual name: concept, id, …"""
    lowered = {re.sub(r"\W+", "_", name.lower()): name for name in reversed(names)}
    return next((lowered[name] for name in _KEY_NAMES if name in lowered), None)


def _key_column(table: Any, others: Sequence[str]) -> str | None:
    """The column that names the concepts: one with a usual name, or one in which no value is repeated."""
    return usual_key(others) or next((name for name in others if _has_unique_values(table, name)), None)


def _has_unique_values(table: Any, name: str) -> bool:
    """Whether a column has a different integer or text in every row; False if it cannot be told."""
    checks: tuple[tuple[str, Callable[[], bool]], ...] = (
        ("iloc", lambda: table[name].is_unique and table[name].notna().all() and table[name].dtype.kind != "f"),
        ("unpivot", lambda: table[name].is_unique().all() and not table[name].has_nulls() and _is_text(table[name])),
        ("column", lambda: _is_unique_in_arrow(table.column(name))),
    )
    try:
        return any(bool(check()) for attribute, check in checks if hasattr(table, attribute))
    except (TypeError, ValueError, KeyError, pa.ArrowException):  # lists cannot be compared; two columns of this name
        return False


def _is_text(column: Any) -> bool:
    return str(column.dtype) in ("String", "Categorical") or column.dtype.is_integer()


def _is_unique_in_arrow(column: Any) -> bool:
    is_name = (
        pa.types.is_integer(column.type) or pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    )
    return bool(is_name and column.null_count == 0 and pc.count_distinct(column).as_py() == len(column))
