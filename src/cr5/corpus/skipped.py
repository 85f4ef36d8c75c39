"""Skipped input: how many lines, rows and files were left out, and why."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from cr5.errors import InputSkipped, one_of, warn
from cr5.message_parts import one_line
from cr5.storage.output_paths import check_not_input, check_parent

OnError: TypeAlias = Literal["raise", "skip"]
"""What happens at input that cannot be used: an error is raised, or it is skipped and counted."""


def check_on_error(on_error: OnError) -> None:
    """An error unless the value is one of ``OnError``."""
    one_of("on_error", on_error, get_args(OnError))


SkipCallback: TypeAlias = Callable[[str, str, int], None]
"""Called with a reason, a message that begins with the place, and a count, which is 1 unless only that is known."""

FILE_REASONS = ("file of another format", "empty file", "unreadable file", "missing column", "wrong column type")
"""Reasons for which a whole file of a corpus is skipped, or what follows in it; others are about one document."""


@dataclass
class Skipped:
    """For each reason, how often it occurred, and the message of its first occurrence.

    ``on_skip`` is called with every reason, message and count, as they occur.
    """

    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)
    on_skip: "SkipCallback | None" = field(default=None, compare=False, repr=False)

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
        message = one_line(message)  # file names may have line breaks
        self.counts[reason] = self.counts.get(reason, 0) + count
        self.examples.setdefault(reason, message)
        if self.on_skip is not None:
            self.on_skip(reason, message, count)

    def since(self, counts: Mapping[str, int]) -> dict[str, int]:
        """The counts beyond earlier ones."""
        more = {reason: count - counts.get(reason, 0) for reason, count in self.counts.items()}
        return {reason: count for reason, count in more.items() if count}

    def update(self, other: "Skipped") -> None:
        """Add the counts of another object."""
        for reason, count in other.counts.items():
            self.add(reason, other.examples[reason], count)


@contextmanager
def skipped_list(path: str | Path | None, inputs: Iterable[str | Path] = ()) -> Iterator[SkipCallback | None]:
    """A callback that writes each reason, count and message as a line of a file, separated by tabs; None without one.

    The file must not be one of the ``inputs``. What was skipped before an error is in it, too.
    """
    if path is None:
        yield None
        return
    check_parent(Path(path))
    check_not_input(Path(path), inputs)
    with Path(path).open("w", encoding="utf-8", errors="surrogateescape") as file:

        def write(reason: str, message: str, count: int) -> None:
            file.write(f"{reason}\t{count}\t{message.replace(chr(9), ' ')}\n")

        file.write("reason\tcount\tplace\n")
        yield write


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
