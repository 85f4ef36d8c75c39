"""Progress reports of long runs, and a clean stop at Ctrl-C."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Literal, TypeAlias


@dataclass(frozen=True)
class Progress:
    """A report: ``done`` of ``total`` units of a stage (None if the total is unknown), and a note for the user."""

    stage: str
    done: float
    total: float | None
    note: str = ""


ProgressCallback: TypeAlias = Callable[[Progress], None]


def no_progress(progress: Progress) -> None:
    """Ignore a report; the default callback."""


@contextmanager
def stop_on_interrupt(progress: ProgressCallback = no_progress) -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C within the block into a request to stop; the second raises ``KeyboardInterrupt``.

    Yields a function that returns whether a stop was requested; the request is reported to ``progress`` immediately.
    Outside the main thread it is always False, since Python delivers signals to the main thread only.
    """
    requested = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield requested.is_set
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if requested.is_set():
            raise KeyboardInterrupt
        requested.set()
        progress(Progress("stopping after this step", 0, None, "press Ctrl-C again to stop at once"))

    previous = signal.signal(signal.SIGINT, handle)
    try:
        yield requested.is_set
    finally:
        signal.signal(signal.SIGINT, previous)


@contextmanager
def stop_fit_on_interrupt(
    on_interrupt: Literal["raise", "return"], checkpoint: Path | None, progress: ProgressCallback = no_progress
) -> Iterator[Callable[[], bool]]:
    """``stop_on_interrupt`` for a fit, which is the block.

    With "raise" and no checkpoint there is nothing to keep, and Ctrl-C raises immediately as elsewhere. With "raise"
    and a checkpoint, the caller raises ``fit_interrupt`` if the fit was stopped before its end.
    """
    if on_interrupt == "raise" and checkpoint is None:
        yield lambda: False
        return
    with stop_on_interrupt(progress) as should_stop:
        yield should_stop


def fit_interrupt(checkpoint: Path | None) -> KeyboardInterrupt:
    """The interrupt of a fit, which says how it is continued."""
    saved = checkpoint is not None and checkpoint.exists()
    return KeyboardInterrupt(*([f"the same fit with checkpoint={str(checkpoint)!r} continues"] if saved else []))
