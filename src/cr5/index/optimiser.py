"""Optimising the stores of an index in a thread, beside additions and searches."""

import threading
from collections.abc import Callable


class Optimiser:
    """Calls a function in a thread whenever it is requested, once at a time."""

    def __init__(self, optimise: Callable[[], None]) -> None:
        self._optimise, self._lock = optimise, threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_requested = False
        self._error: Exception | None = None

    def request(self) -> None:
        """Call the function soon, after a call that is running; raise the error of an earlier call, if one failed."""
        self._raise_error()
        with self._lock:
            self._is_requested = True
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="optimiser", daemon=True)
                self._thread.start()

    def wait(self) -> None:
        """Wait until all requested calls have ended; raise the error of one that failed."""
        thread = self._thread
        if thread is not None:
            thread.join()
        self._raise_error()

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
                self._error = error

    def _raise_error(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error
