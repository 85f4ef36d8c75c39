"""A connection that a server ends when its client expects it, and not while a request may be on its way."""

from uvicorn.protocols.http.h11_impl import H11Protocol

LINGER = 1.0  # seconds that a server which ends still waits for a request of a client that has none
CLOSE = (b"connection", b"close")


class Connection(H11Protocol):
    """A connection of HTTP/1.1. Its last answer says that it is the last, so that a client asks another worker next."""

    def shutdown(self) -> None:
        """End behind the request at hand, or else behind the one that comes; without either, after a while."""
        busy = self.cycle is not None and not self.cycle.response_complete
        for headers in [self.server_state.default_headers, *([self.cycle.default_headers] if busy else [])]:
            if CLOSE not in headers:
                headers.append(CLOSE)
        if busy:
            super().shutdown()
        else:
            self.loop.call_later(LINGER, self._end)

    def _end(self) -> None:
        if not self.transport.is_closing():
            super().shutdown()
