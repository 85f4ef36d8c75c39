"""The state that all request handlers share: the index, and the projection for the map."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from cr5.errors import IndexBusyError
from cr5.index import Background, Index
from cr5.server.errors import HttpError
from cr5.server.projection import Projection

Result = TypeVar("Result")

WRITE_RETRY_SECONDS = 0.05


class ServerState:
    """An index for many threads, and the projection that belongs to its current background sample."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self._fitting = threading.Lock()
        self._projection: tuple[Background, Projection] | None = None
        self.projection(index.background)

    def projection(self, background: Background) -> Projection:
        """The projection of a background sample, fitted once for each."""
        fitted = self._projection
        if fitted is not None and fitted[0] is background:
            return fitted[1]
        with self._fitting:
            if self._projection is None or self._projection[0] is not background:
                self._projection = background, Projection.fit(background.stacked)
            return self._projection[1]

    def write(self, function: Callable[[Index], Result], lock_timeout_seconds: float) -> Result:
        """The result of a function that writes to the index; retries while another process is writing."""
        deadline = time.monotonic() + lock_timeout_seconds
        while True:
            try:
                return function(self.index)
            except IndexBusyError:
                pass
            if time.monotonic() > deadline:
                raise HttpError(503, "another process is writing the index; try again later", {"Retry-After": "5"})
            time.sleep(WRITE_RETRY_SECONDS)
