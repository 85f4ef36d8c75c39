"""The text of the documentation: short lines, and commands and options that exist."""

import re
from pathlib import Path

import pytest
from documentation import ROOT, mentioned, unknown_parts

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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_options_that_a_page_mentions_exist(page: Path) -> None:
    lines = list(mentioned(page.read_text(encoding="utf-8")))
    assert {line: unknown for line in lines if (unknown := unknown_parts(line))} == {}


def test_commands_are_found_in_blocks_and_between_words() -> None:
    page = "Use `cr5\ntrain docs/ --rank 3` or\n\n    cr5 eval words model     two words --like these\n    cr5 learn\n"
    assert list(mentioned(page)) == ["cr5 eval words model", "cr5 learn", "cr5 train docs/ --rank 3"]
    lines = ["cr5 learn docs/", "cr5 train docs/ --ranks 3 -o model", "cr5 model subset model --langs en -o part"]
    assert [unknown_parts(line) for line in lines] == [["learn"], ["--ranks"], []]
