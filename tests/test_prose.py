"""Lines of prose in the documentation are at most 120 characters long."""

import re
from pathlib import Path

import pytest
from documentation import ROOT

WIDTH = 120
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def long_lines(page: str) -> list[int]:
    """The numbers of the lines that are too long; code, tables and lines of a single word may be."""
    found, fenced = [], False
    for number, line in enumerate(page.splitlines(), start=1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and len(line) > WIDTH and " " in line.strip() and not re.match(r"    |\s*\||\s*<", line):
            found.append(number)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_of_prose_are_short(page: Path) -> None:
    assert long_lines(page.read_text(encoding="utf-8")) == []


def test_code_and_tables_may_be_wide() -> None:
    wide = "word " * 30
    assert long_lines(f"{wide}\n\n    {wide}\n\n| {wide} |\n\n```\n{wide}\n```\n- {wide}\n") == [1, 10]
