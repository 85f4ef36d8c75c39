"""Whether a server is ready to answer searches."""

import threading
from collections.abc import Callable

from cr5.server.errors import HttpError


class Readiness:
    """Whether a server is ready: every worker has finished its warm-up searches, and the server is not stopping.

    ``others_are_warm`` tells about the other workers, if there are any; ``on_warm`` is called when this one is.
    """

    def __init__(
        self, others_are_warm: Callable[[], bool] = lambda: True, on_warm: Callable[[], None] = lambda: None
    ) -> None:
        self._others_are_warm, self._on_warm = others_are_warm, on_warm
        self.warm = threading.Event()
        self.stopping = threading.Event()

    def set_warm(self) -> None:
        """Note that this worker has finished its warm-up searches."""
        self.warm.set()
        self._on_warm()

    def check(self) -> None:
        """Raise an error unless the server is ready."""
        if self.stopping.is_set():
            raise HttpError(503, "the server is stopping", {"Retry-After": "5"})
        if not (self.warm.is_set() and self._others_are_warm()):
            raise HttpError(503, "the server is loading its index; try again later", {"Retry-After": "1"})
