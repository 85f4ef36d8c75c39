"""How commands are stopped: by Ctrl-C, by SIGTERM, which containers and clusters send, or by closing the terminal."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from cr5.cli.render.console import err

_STOPPING = ("SIGTERM", "SIGHUP")  # Windows has no SIGHUP


@contextmanager
def signals_as_interrupt() -> Iterator[list[int]]:
    """Within the block, SIGTERM and SIGHUP do what Ctrl-C does, so that nothing half-written stays.

    A signal that is ignored, as SIGHUP with nohup, or that has a handler keeps that. Ctrl-C may be ignored, as of a
    command that a script has started in the background; the other signals still interrupt it. The list gets the
    numbers of the signals.
    """
    process, received = os.getpid(), list[int]()

    def interrupt(number: int, frame: FrameType | None) -> None:
        if os.getpid() != process:  # a fork, which is stopped by whoever started it
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        received.append(number)
        handle = signal.getsignal(signal.SIGINT)
        if not callable(handle):
            raise KeyboardInterrupt
        handle(signal.SIGINT, frame)

    numbers = [getattr(signal, name) for name in _STOPPING if hasattr(signal, name)]
    numbers = [number for number in numbers if signal.getsignal(number) == signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, interrupt)
    try:
        yield received
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def saying_how_to_resume(advice: str = "run the same command again to continue") -> Iterator[None]:
    """Within the block, Ctrl-C ends the command with a message that says how it is continued."""
    try:
        yield
    except KeyboardInterrupt:
        err.print(f"stopped; {advice}", style="yellow", soft_wrap=True)
        sys.exit(130)
