"""Optimising the stores of an index in a thread, while others add and search."""

import logging
import threading
from collections.abc import Callable

log = logging.getLogger("cr5.index")


class Optimiser:
    """Calls a function in a thread on request, one call at a time.

    An error is logged, not raised: the next caller that adds documents did not cause it. The files in use stay as they
    were, and the next request tries again.
    """

    def __init__(self, optimise: Callable[[], None]) -> None:
        self._optimise, self._lock = optimise, threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_requested = False

    def request(self) -> None:
        """Call the function soon, after a call that is running."""
        with self._lock:
            self._is_requested = True
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="optimiser", daemon=True)
                self._thread.start()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until all requested calls have ended, or for some seconds; whether they have ended."""
        thread = self._thread
        if thread is not None:
            thread.join(seconds)
        return thread is None or not thread.is_alive()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._is_requested:
                    self._thread = None
                    return
                self._is_requested = False
            try:
                self._optimise()
            except Exception as error:
                log.error("the files of the index could not be optimised: %s", error)
