"""An HTTP/1.1 connection that closes without losing a request when its worker stops."""

from uvicorn.protocols.http.h11_impl import H11Protocol

IDLE_SECONDS = 1.0  # how long an idle connection of a stopping worker still accepts a request
CLOSE = (b"connection", b"close")


class GracefulConnection(H11Protocol):
    """A connection whose last response carries ``Connection: close``, so that the client opens a new one elsewhere.

    Closing an idle connection at once would race with a request that the client may just be sending.
    """

    def shutdown(self) -> None:
        """Close after the current request or, if there is none, after the next one or ``IDLE_SECONDS``."""
        busy = self.cycle is not None and not self.cycle.response_complete
        for headers in [self.server_state.default_headers, *([self.cycle.default_headers] if busy else [])]:
            if CLOSE not in headers:
                headers.append(CLOSE)
        if busy:
            super().shutdown()
        else:
            self.loop.call_later(IDLE_SECONDS, self._close_if_open)

    def _close_if_open(self) -> None:
        if not self.transport.is_closing():
            super().shutdown()
