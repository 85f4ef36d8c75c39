"""An HTTP/1.1 connection with timeouts, and the limits on how many connections there may be."""

import asyncio
import json
import logging
import secrets
from dataclasses import dataclass
from typing import Any, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState as UvicornState

from cr5.server.access import TrustedProxies, client_of
from cr5.server.disconnects import CLIENT_IS_GONE
from cr5.server.headers import SECURITY_HEADERS
from cr5.server.settings import ServerSettings

MAX_CONNECTIONS = 4096  # limit of one process, however many files it may open
MIN_CONNECTIONS = 16
PROBE_CONNECTIONS = 8  # connections beyond the limits, on which only /health and /ready are answered
PROBES_ONLY = "probes_only"  # key in the state of a request
RESERVED_FILES = 256  # file descriptors that the index, the log and the event loop may need
CLOSE = (b"connection", b"close")
INVALID_REQUEST = "the request is not valid HTTP/1.1, or its header is too large; see /docs"
log = logging.getLogger("cr5.server")


@dataclass(frozen=True)
class ConnectionLimits:
    """How many connections a process accepts, in all and from one client address, and how many more for probes."""

    total: int
    per_address: int
    probes: int = PROBE_CONNECTIONS

    @classmethod
    def of(cls, settings: ServerSettings, open_files: int) -> "ConnectionLimits":
        """The limits of the settings; by default, what the limit on open files leaves, and half of it per address."""
        total = settings.max_connections
        if total is None:
            spare = open_files - max(RESERVED_FILES, open_files // 4)
            total = max(MIN_CONNECTIONS, min(MAX_CONNECTIONS, spare))
        return cls(total, settings.max_connections_per_address or max(1, total // 2))


class ConnectionTable:
    """The open connections of a process.

    A connection that is over a limit replaces the one that has been waiting longest for its client: for a request, the
    rest of a body, or the end of the connection. Connections whose request is being answered are never closed. Hence
    idle connections cannot keep others out. If all connections are being answered, a few more are accepted for the
    probes of whoever watches the server.
    """

    def __init__(self, limits: ConnectionLimits, trusted_proxies: TrustedProxies) -> None:
        self.limits, self._trusted_proxies = limits, trusted_proxies
        self._clients: dict[Connection, str | None] = {}  # None: a trusted proxy, which has no limit of its own
        self._counts: dict[str, int] = {}
        self._waiting: dict[Connection, None] = {}  # longest first

    def __len__(self) -> int:
        return len(self._clients)

    def admits(self, address: str) -> bool:
        """Whether another connection from an address is accepted; if necessary, a waiting one is closed for it."""
        client, over_total = self._client(address), len(self._clients) - self.limits.total
        over_client = -1 if client is None else self._counts.get(client, 0) - self.limits.per_address
        over = max(over_client, over_total)
        if over < 0 or self._evict(client if over_client >= 0 else None) or over < self.limits.probes:
            return True
        log.warning("refused a connection, because all that are open are being answered")
        return False

    def answers_only_probes(self, connection: "Connection") -> bool:
        """Whether a connection is one of those beyond the limits: all others are being answered."""
        if len(self._clients) - len(self._waiting) >= self.limits.total:
            return True
        client = self._clients.get(connection)
        count = 0 if client is None else self._counts[client]
        if count <= self.limits.per_address:
            return False
        return count - sum(self._clients[other] == client for other in self._waiting) >= self.limits.per_address

    def add(self, connection: "Connection", address: str) -> None:
        """Add a connection."""
        client = self._client(address)
        self._clients[connection] = client
        if client is not None:
            self._counts[client] = self._counts.get(client, 0) + 1
        self._waiting[connection] = None

    def remove(self, connection: "Connection") -> None:
        """Forget a connection; one that is not there is ignored."""
        self._waiting.pop(connection, None)
        client = self._clients.pop(connection, None)
        if client is not None:
            self._counts[client] -= 1
            if not self._counts[client]:
                del self._counts[client]

    def set_waiting(self, connection: "Connection", waiting: bool) -> None:
        """Note whether the server waits for the client of a connection."""
        if not waiting:
            self._waiting.pop(connection, None)
        elif connection in self._clients:
            self._waiting.setdefault(connection)

    def _client(self, address: str) -> str | None:
        return None if self._trusted_proxies.includes(address) else client_of(address)

    def _evict(self, client: str | None) -> bool:
        chosen = (found for found in self._waiting if client is None or self._clients[found] == client)
        connection = next(chosen, None)
        if connection is None:
            return False
        log.warning("closed a connection that was waiting for its client, because there are too many")
        self.remove(connection)
        connection.abort()
        return True


class Connection(H11Protocol):
    """A connection that never waits for its client without limit, and that closes without losing a response.

    - The header of a request, the next request, and the client's reading of a response have timeouts. (The timeout of a
      body is the application's, which can answer.)
    - A body is read only when the application asks for it.
    - A connection that is closed before the request has been read is closed for writing first: what the client still
      sends is discarded for a while. Otherwise the system would reset the connection, and the response could be lost.
    - In a server that is stopping, the last response has ``Connection: close``, so that the client opens a new
      connection elsewhere. Closing an idle connection at once would race with a request that is just being sent, and
      one whose header has begun has the time that every header has.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: UvicornState,
        app_state: dict[str, Any],
        table: ConnectionTable,
        settings: ServerSettings,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(config, server_state, app_state, loop)
        app_state = app_state | {CLIENT_IS_GONE: self._is_closing}
        self._states = app_state, app_state | {PROBES_ONLY: True}
        self.timeout_keep_alive = cast(int, settings.idle_timeout_seconds)
        self._table, self._settings = table, settings
        self._timer: asyncio.TimerHandle | None = None  # for the header of a request, or for the end of the connection
        self._write_timer: asyncio.TimerHandle | None = None
        self._socket: asyncio.Transport
        self.closing = self._discarding = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        self._socket = transport
        super().connection_made(cast(asyncio.Transport, _Transport(transport, self)))
        self._table.add(self, self.client[0] if self.client else "")
        self._set_timer(self._settings.header_timeout_seconds, self.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self.closing = True
        self._table.remove(self)
        for timer in (self._timer, self._write_timer):
            if timer:
                timer.cancel()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def data_received(self, data: bytes) -> None:
        """Handle what the client has sent."""
        if self._discarding:
            return
        if not self._is_busy():
            self.app_state = self._states[self._table.answers_only_probes(self)]
        super().data_received(data)
        if not self.closing:
            self._update()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        if self.closing:
            return
        if self.conn.trailing_data[0]:  # the next header has begun
            self._unset_keepalive_if_required()
        self._update()

    def pause_writing(self) -> None:
        """Give a client that does not read its response some time."""
        super().pause_writing()
        self._write_timer = self.loop.call_later(self._settings.write_timeout_seconds, self.abort)

    def resume_writing(self) -> None:
        """Go on writing."""
        super().resume_writing()
        if self._write_timer:
            self._write_timer.cancel()

    def shutdown(self) -> None:
        """Close after the current request or, if there is none, after the next one or a moment."""
        self.close_after_response()
        if not self._is_busy():
            self.loop.call_later(self._settings.stop_idle_seconds, self._close_if_idle)

    def close_after_response(self) -> None:
        """Close after the response to the current request or, if there is none, to the next one."""
        busy = self._is_busy()
        for headers in [self.server_state.default_headers, *([self.cycle.default_headers] if busy else [])]:
            if CLOSE not in headers:
                headers.append(CLOSE)
        if busy:
            self.cycle.keep_alive = False

    def close(self) -> None:
        """Close the connection when what has been written is sent; give the client some time to read it."""
        if self.closing:
            return
        self.closing = True
        self._table.set_waiting(self, True)
        if self.conn.their_state in (h11.SEND_BODY, h11.ERROR) and self._socket.can_write_eof():
            self._discarding = True
            self._socket.write_eof()
            self._socket.resume_reading()
            self._set_timer(self._settings.discard_seconds, self.abort)
        else:
            self._socket.close()
            self._set_timer(self._settings.write_timeout_seconds, self.abort)

    def abort(self) -> None:
        """Close the connection at once."""
        self.closing = True
        self._socket.abort()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP/1.1, unless it follows a request whose response has begun."""
        if self._is_busy():  # the body is not valid: the application gets no more of it
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            content = json.dumps({"error": INVALID_REQUEST}).encode()
            headers = {
                "content-type": "application/json", "content-length": str(len(content)), "connection": "close",
                "cache-control": "no-store", "x-request-id": secrets.token_hex(8), **SECURITY_HEADERS,
            }  # fmt: skip
            raw = [(name.encode(), value.encode()) for name, value in headers.items()]
            for event in (h11.Response(status_code=400, headers=raw), h11.Data(data=content), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.close()

    def _unsupported_upgrade_warning(self) -> None:
        """Answer a request for another protocol as if it had not asked: uvicorn would log advice to install one."""

    def _is_closing(self) -> bool:
        return self.closing

    def _is_busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _update(self) -> None:
        """Set the timer and the state in the table after an event."""
        if not self._is_busy():
            self._table.set_waiting(self, True)
            if self.timeout_keep_alive_task is None and self._timer is None:  # a header has begun
                self._set_timer(self._settings.header_timeout_seconds, self.close)
            return
        if self._timer:
            self._timer.cancel()
            self._timer = None
        reading_body = self.conn.their_state is h11.SEND_BODY
        self._table.set_waiting(self, reading_body)
        if reading_body:
            self.flow.pause_reading()  # the application's next call of receive resumes it

    def _set_timer(self, seconds: float, action: Any) -> None:
        if self._timer:
            self._timer.cancel()
        self._timer = self.loop.call_later(seconds, action)

    def _close_if_idle(self) -> None:
        if self._is_busy():
            self.cycle.keep_alive = False
        elif not self.conn.trailing_data[0]:  # otherwise a header has begun, and has its own timeout
            self.close()


class _Transport:
    """The transport that uvicorn sees: it closes as the connection says."""

    def __init__(self, transport: asyncio.Transport, connection: Connection) -> None:
        self._transport, self._connection = transport, connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def close(self) -> None:
        self._connection.close()

    def is_closing(self) -> bool:
        return self._connection.closing
