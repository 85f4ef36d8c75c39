"""What the request handlers share: the index, the projection for the map, and whether the server is ready."""

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


class Readiness:
    """Whether a server is ready: every worker has tried its search, and the server is not stopping.

    ``others_are_warm`` tells about the other workers, if there are any; ``on_warm`` is called when this one is.
    """

    def __init__(
        self, others_are_warm: Callable[[], bool] = lambda: True, on_warm: Callable[[], None] = lambda: None
    ) -> None:
        self._others_are_warm, self._on_warm = others_are_warm, on_warm
        self.warm = threading.Event()
        self.stopping = threading.Event()

    def set_warm(self) -> None:
        """Note that this worker has tried its search."""
        self.warm.set()
        self._on_warm()

    def check(self) -> None:
        """Raise an error unless the server is ready."""
        if self.stopping.is_set():
            raise HttpError(503, "the server is stopping", {"Retry-After": "5"})
        if not (self.warm.is_set() and self._others_are_warm()):
            raise HttpError(503, "the server is loading its index; try again later", {"Retry-After": "1"})


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
