"""What training uses of a corpus on the terminal: documents and concepts read, used, and left out by reason."""

from typing import Any

from cr5.cli.messages import settings_as_options
from cr5.cli.render.console import out
from cr5.features.tfidf import Weighting
from cr5.message_parts import plural
from cr5.training import selection

_COLUMNS = {
    selection.NO_WORD: "no word",
    selection.TOO_SHORT: "short",
    selection.TOO_LONG: "long",
    selection.ONE_LANGUAGE: "alone",
    selection.RARE_WORDS: "rare",
    selection.NO_COUNTERPART: "no pair",
}


def usage_columns(usage: dict[str, Any]) -> list[str]:
    """The columns of a table of languages: one for each reason why documents are left out."""
    return [_COLUMNS[reason] for reason in usage["documents"]["left_out"]]


def usage_figures(usage: dict[str, Any], lang: str) -> list[int]:
    """A language's figures in these columns, and how many of its documents are used."""
    language = usage["languages"][lang]
    return [*(language["left_out"].get(reason, 0) for reason in usage["documents"]["left_out"]), language["used"]]


def usage_lines(usage: dict[str, Any], weighting: Weighting) -> None:
    """Print how many documents and concepts were read, used and left out, and what the columns mean."""
    out.print("; ".join(_counts(usage[noun], noun) for noun in ("documents", "concepts")))
    for reason in usage["documents"]["left_out"]:
        explanation = settings_as_options(selection.explain_reason(reason, weighting))
        out.print(f"{_COLUMNS[reason]}: {explanation}", style="dim")
    if skipped := usage.get("skipped"):
        listed = ", ".join(f"{count:,} {reason}" for reason, count in skipped.items())
        out.print(f"also skipped, because they cannot be used: {listed}")


def _counts(part: dict[str, Any], noun: str) -> str:
    read, used = part["read"], part["used"]
    left_out = f", {read - used:,} left out" if used < read else ""
    return f"{plural(read, noun[:-1])} read, {used:,} used{left_out}"
