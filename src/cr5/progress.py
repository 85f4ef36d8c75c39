"""What a long run tells while it works, and how it is asked to stop."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TypeAlias


@dataclass(frozen=True)
class Progress:
    """One report: ``done`` of ``total`` of a stage, and what there is to say about it."""

    stage: str
    done: float
    total: float | None
    note: str = ""


ProgressCallback: TypeAlias = Callable[[Progress], None]


def silent(progress: Progress) -> None:
    """Say nothing."""


@contextmanager
def stop_on_interrupt() -> Iterator[Callable[[], bool]]:
    """Within this block the first Ctrl-C only makes the yielded question true; the second interrupts."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, before)
