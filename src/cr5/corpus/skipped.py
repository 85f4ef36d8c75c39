"""Skipped input: how many lines, rows and files were left out, and why."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from cr5.errors import one_of

OnError: TypeAlias = Literal["raise", "skip"]
"""What happens at input that cannot be used: an error is raised, or it is skipped and counted."""


def check_on_error(on_error: OnError) -> None:
    """An error unless the value is one of ``OnError``."""
    one_of("on_error", on_error, get_args(OnError))


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

    def add(self, reason: str, message: str, count: int = 1) -> None:
        """Count an occurrence, or several."""
        self.counts[reason] = self.counts.get(reason, 0) + count
        self.examples.setdefault(reason, message)
