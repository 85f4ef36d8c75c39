"""Commands of the tests: their corpora and options, and how they end."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import madeup
import numpy as np
from madeup import texts

from cr5 import Cr5

COMMAND = Path(sys.executable).with_name("cr5")
SMALL = ["--rank", "10", "--ridge", "1", "--set", "min_documents=2", "--set", "min_unique=5"]


def fits(printed: str) -> bool:
    """Whether no line is longer than 80 columns, and no cell was cut to make it so."""
    return all(len(line) <= 80 for line in printed.splitlines()) and "…" not in printed


def assert_same(one: Cr5, other: Cr5) -> None:
    assert one.langs == other.langs
    for lang in one.langs:
        some = texts(madeup.corpus(), lang)[:20]
        np.testing.assert_array_equal(one.encode(some, lang), other.encode(some, lang))


# The real thing


def command(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    given = [str(COMMAND), *map(str, arguments)]
    return subprocess.run(given, capture_output=True, text=True, timeout=300, check=False, **options)
