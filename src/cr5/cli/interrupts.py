"""How commands that can be continued are stopped: by Ctrl-C, or by the SIGTERM that containers and clusters send."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from cr5.cli.render.console import err


@contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Within the block, SIGTERM does what Ctrl-C does."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        signal.raise_signal(signal.SIGINT)

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


@contextmanager
def saying_how_to_resume(advice: str = "run the same command again to continue") -> Iterator[None]:
    """Within the block, Ctrl-C ends the command with a message that says how it is continued."""
    try:
        yield
    except KeyboardInterrupt:
        err.print(f"stopped; {advice}", style="yellow", soft_wrap=True)
        sys.exit(130)
