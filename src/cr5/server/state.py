"""An atlas: an index, the plane in which its documents are drawn, and examples of them."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from cr5.errors import IndexBusyError
from cr5.index import Background, Index
from cr5.server.limits import RefusedError
from cr5.server.projection import Plane

Answer = TypeVar("Answer")

PATIENCE = 0.05  # seconds between two attempts to write


class Atlas:
    """An index for many threads. It follows by itself when it is indexed anew, and the plane follows it."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self._drawing = threading.Lock()
        self._drawn: tuple[Background, Plane] | None = None
        self.plane(index.background)

    def plane(self, background: Background) -> Plane:
        """The plane of a background; drawn once for each."""
        drawn = self._drawn
        if drawn is not None and drawn[0] is background:
            return drawn[1]
        with self._drawing:
            if self._drawn is None or self._drawn[0] is not background:
                self._drawn = background, Plane.of(background, background.stacked.shape[1])
            return self._drawn[1]

    def change(self, function: Callable[[Index], Answer], patience: float) -> Answer:
        """What the function returns, which writes; waits up to ``patience`` seconds for others who write."""
        until = time.monotonic() + patience
        while True:
            try:
                return function(self.index)
            except IndexBusyError:
                pass
            if time.monotonic() > until:
                sentence = "somebody else is writing the index; try again when that has ended"
                raise RefusedError(503, sentence, {"Retry-After": "5"})
            time.sleep(PATIENCE)
