"""The facts of a run as readers see them: single values, and tables where a fact has rows and columns."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from cr5.evaluate.report.formatting import format_count, format_duration, format_value, label
from cr5.features.tfidf import NO_LIMIT
from cr5.settings import PRESETS, without_groups

ACCOUNTING_COLUMNS = {  # of the accounting of documents, by their keys in run.json
    "read": "read",
    "held_out": "held out",
    "trained": "trained on",
    "short": "too few words",
    "long": "too many words",
    "set_aside": "held out elsewhere",
    "single": "no counterpart",
}
LABELS = {
    "variant": "texts",
    "queries": "kind of queries",
    "low-resource": "concepts, low-resource",
    "documents": "frequent words of a document",
    "asked": "frequent words of a query",
}


class FactTable(NamedTuple):
    """A fact with rows and columns, as text."""

    title: str
    columns: list[str]
    rows: dict[str, list[str]]


class Facts(NamedTuple):
    """All facts of a run: single values by name, and tables."""

    single: dict[str, str]
    tables: list[FactTable]


def describe_facts(facts: Mapping[str, Any]) -> Facts:
    """The facts of a run in words; one that is not known here is shown as it is."""
    described = Facts({}, [])
    for name, value in facts.items():
        if name in _DESCRIBED and _REQUIRED.get(name, set()) <= (value.keys() if isinstance(value, dict) else set()):
            _DESCRIBED[name](described, value)
        else:
            _add(described, LABELS.get(name, label(name)), value)
    return described


def describe_accounting(facts: Mapping[str, Any]) -> str:
    """One sentence that says what became of all documents; empty for a run that does not know."""
    languages = _accounted_languages(facts.get("corpus"))
    if not languages:
        return ""
    total = {key: sum(counts.get(key, 0) for counts in languages.values()) for key in ACCOUNTING_COLUMNS}
    length = _document_length(facts)
    reasons = {
        "short": f"with fewer than {length[0]:,} different words" if length else "with too few different words",
        "long": f"with more than {length[1]:,} different words" if length else "with too many different words",
        "set_aside": "as versions of a document held out in another language",
        "single": "without a counterpart of suitable length",
    }
    left_out = {key: total[key] for key in reasons if total[key]}
    sentence = (
        f"Of {total['read']:,} documents, {total['held_out']:,} were held out and {total['trained']:,} could be "
        "trained on"
    )
    if left_out:
        listed = ", ".join(f"{count:,} {reasons[key]}" for key, count in left_out.items())
        sentence += f"; {sum(left_out.values()):,} were left out: {listed}"
    skipped = facts.get("skipped") or {}
    if skipped:
        listed = ", ".join(f"{count:,} × {reason}" for reason, count in skipped.items())
        sentence += f"; besides, {sum(skipped.values()):,} could not be read ({listed})"
    return f"{sentence}."


def _accounted_languages(corpus: Any) -> dict[str, dict[str, int]]:
    """What became of the documents in every language; empty for a run that does not know."""
    languages = corpus.get("languages", {}) if isinstance(corpus, dict) else {}
    return languages if all("read" in counts for counts in languages.values()) else {}


def _document_length(facts: Mapping[str, Any]) -> tuple[int, int] | None:
    split = facts.get("split")
    return (split["smallest"], split["largest"]) if isinstance(split, dict) and "smallest" in split else None


def _describe_corpus(described: Facts, value: Any) -> None:
    languages = _accounted_languages(value)
    if not languages:
        _add(described, "corpus", value)
        return
    described.single["corpus"] = f"digest {value['digest']}"
    always = ("read", "held_out", "trained")
    shown = [key for key in ACCOUNTING_COLUMNS if key in always or any(counts[key] for counts in languages.values())]
    rows = {lang: [format_count(counts[key]) for key in shown] for lang, counts in languages.items()}
    described.tables.append(FactTable("documents", [ACCOUNTING_COLUMNS[key] for key in shown], rows))


def _describe_training(described: Facts, value: Any) -> None:
    """The documents that baselines were trained on, where the model itself is pretrained."""
    keys = list(next(iter(value.values())))
    rows = {lang: [format_count(counts[key]) for key in keys] for lang, counts in value.items()}
    described.tables.append(FactTable("documents for baselines", [ACCOUNTING_COLUMNS[key] for key in keys], rows))


def _describe_split(described: Facts, value: Any) -> None:
    described.single["split"] = f"seed {value['seed']}, digest {value['digest']}"
    if value["largest"] < NO_LIMIT:
        described.single["documents used"] = f"{value['smallest']:,} to {value['largest']:,} different words"
    elif value["smallest"] > 1:
        described.single["documents used"] = f"{value['smallest']:,} different words or more"
    else:
        described.single["documents used"] = "of any length"


def _describe_csls(described: Facts, value: Any) -> None:
    over = {"queries": "the queries", "background": "other held-out texts"}.get(value["over"], value["over"])
    described.single["CSLS"] = f"{value['neighbours']} neighbours among {over}"


def _describe_settings(described: Facts, value: Any) -> None:
    """Every setting, next to that of the default preset."""
    actual, default = without_groups(value), without_groups(PRESETS["default"].to_json())
    rows = {
        name: [_setting(setting), "" if setting == default.get(name) else _setting(default.get(name))]
        for name, setting in actual.items()
    }
    if actual["rank"] == "auto" and "rank" in described.single:
        rows["rank"][0] = f"auto ({described.single['rank']})"
    described.tables.append(FactTable("settings of cr5", ["value", "default, if different"], rows))


def _setting(value: Any) -> str:
    return "no limit" if value == NO_LIMIT else format_value(value)


def _describe_skipped(described: Facts, value: Any) -> None:
    if not value:
        return
    rows = {reason: [format_count(count)] for reason, count in value.items()}
    described.tables.append(FactTable("input that could not be read", ["skipped"], rows))


def _describe_seconds(described: Facts, value: Any) -> None:
    described.single["time"] = format_duration(value)


_REQUIRED = {"split": {"seed", "digest", "smallest", "largest"}, "csls": {"neighbours", "over"}, "settings": {"rank"}}
_DESCRIBED: dict[str, Callable[[Facts, Any], None]] = {
    "corpus": _describe_corpus,
    "training": _describe_training,
    "split": _describe_split,
    "csls": _describe_csls,
    "settings": _describe_settings,
    "skipped": _describe_skipped,
    "seconds": _describe_seconds,
}


def _add(described: Facts, name: str, value: Any) -> None:
    """Add a fact of any form: a table if it has rows, otherwise text."""
    parts = list(value.values()) if isinstance(value, dict) else []
    rows = [row for part in parts if isinstance(part, dict) for row in part.values()]
    if rows and all(isinstance(part, dict) for part in [*parts, *rows]):
        flat = {f"{key}, {row}": cells for key, part in value.items() for row, cells in part.items()}
        described.tables.append(_fact_table(name, flat))
    elif parts and all(isinstance(part, dict) for part in parts):
        described.tables.append(_fact_table(name, value))
    elif any(isinstance(part, dict) for part in parts):
        for key, part in value.items():
            _add(described, f"{name}, {label(key)}", part)
    else:
        described.single[name] = format_value(value)


def _fact_table(title: str, rows: Mapping[str, Mapping[str, Any]]) -> FactTable:
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    cells = {str(name): [format_value(row.get(column)) for column in columns] for name, row in rows.items()}
    return FactTable(title, list(map(label, columns)), cells)
