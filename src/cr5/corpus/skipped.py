"""Skipped input: how many lines, rows and files were left out, and why."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from cr5.errors import InputSkipped, one_of, warn
from cr5.message_parts import one_line

OnError: TypeAlias = Literal["raise", "skip"]
"""What happens at input that cannot be used: an error is raised, or it is skipped and counted."""


def check_on_error(on_error: OnError) -> None:
    """An error unless the value is one of ``OnError``."""
    one_of("on_error", on_error, get_args(OnError))


FILE_REASONS = ("file of another format", "empty file", "unreadable file", "missing column", "wrong column type")
"""Reasons for which a whole file of a corpus is skipped, or what follows in it; others are about one document."""


@dataclass
class Skipped:
    """For each reason, how often it occurred, and the message of its first occurrence."""

    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """The number of lines, rows and files that were skipped."""
        return sum(self.counts.values())

    @property
    def first(self) -> str:
        """The message of the first error."""
        return next(iter(self.examples.values()))

    def split(self, reasons: Collection[str]) -> tuple["Skipped", "Skipped"]:
        """The counts of these reasons, and of all others."""
        parts = Skipped(), Skipped()
        for reason, count in self.counts.items():
            parts[reason not in reasons].add(reason, self.examples[reason], count)
        return parts

    def add(self, reason: str, message: str, count: int = 1) -> None:
        """Count an occurrence, or several."""
        self.counts[reason] = self.counts.get(reason, 0) + count
        self.examples.setdefault(reason, one_line(message))  # file names may have line breaks

    def since(self, counts: Mapping[str, int]) -> dict[str, int]:
        """The counts beyond earlier ones."""
        more = {reason: count - counts.get(reason, 0) for reason, count in self.counts.items()}
        return {reason: count for reason, count in more.items() if count}

    def update(self, other: "Skipped") -> None:
        """Add the counts of another object."""
        for reason, count in other.counts.items():
            self.add(reason, other.examples[reason], count)


@contextmanager
def counting_skipped(skipped: Skipped | None) -> Iterator[Skipped]:
    """The counter of a caller; or, if there is none, a new one, whose counts become a warning after the block."""
    counter = Skipped() if skipped is None else skipped
    yield counter
    if skipped is None and counter.counts:
        reasons = "; ".join(
            f"{count:,}: {reason} (first: {counter.examples[reason]})" for reason, count in counter.counts.items()
        )
        warn(f"skipped {reasons}; correct them, or pass `skipped=Skipped()` to count them yourself", InputSkipped)
