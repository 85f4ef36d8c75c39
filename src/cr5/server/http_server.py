"""A server process: it accepts connections within the limits, and stops without losing a request."""

import asyncio
import errno
import logging
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress

import uvicorn

from cr5.server.access import ProxyTrust
from cr5.server.connection import CLOSE, Connection, ConnectionLimits, ConnectionTable
from cr5.server.settings import ServerSettings
from cr5.server.state import Readiness

MAX_OPEN_FILES = 65_536
ACCEPT_PAUSE_SECONDS = 0.1  # after the system could not accept a connection
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
log = logging.getLogger("cr5.server")


class HttpServer(uvicorn.Server):
    """uvicorn's server with an accept loop of its own.

    asyncio accepts as many connections as it can before it creates the first transport, and reports each failure for
    want of file descriptors with a traceback, thousands of times a second. This loop accepts them one by one, and a
    connection over the limits costs one call of ``accept`` and one of ``close``.

    With ``warm_first`` connections are accepted when the search has been tried: other workers answer meanwhile.
    """

    def __init__(
        self, config: uvicorn.Config, settings: ServerSettings, readiness: Readiness, *, warm_first: bool = False
    ) -> None:
        super().__init__(config)
        self._settings, self._readiness, self._warm_first = settings, readiness, warm_first
        trust = ProxyTrust(settings.trusted_proxies)
        self.table = ConnectionTable(ConnectionLimits.of(settings, raise_open_files()), trust)
        self._accepting: list[asyncio.Task[None]] = []
        self._accepted = 0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application and accept connections."""
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            sys.exit(1)
        while self._warm_first and not self._readiness.warm.is_set() and not self.should_exit:
            await asyncio.sleep(0.05)
        self.servers = []
        for listening in sockets or []:
            listening.setblocking(False)
            self._accepting.append(asyncio.create_task(self._accept_all(listening)))
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept what has arrived, answer it, and stop."""
        self._readiness.stopping.set()
        self.server_state.default_headers = [*self.server_state.default_headers, CLOSE]
        for connection in list(self.server_state.connections):
            connection.shutdown()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.stop_accept_seconds):
                accepted = -1
                while accepted != self._accepted:
                    accepted = self._accepted
                    await asyncio.sleep(self._settings.stop_quiet_seconds)
        for task in self._accepting:
            task.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        for listening in sockets or []:
            await self._close(listening)
        await super().shutdown(sockets=None)

    async def _accept_all(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listening)
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    log.error("no connection can be accepted: %s", (error.strerror or "").lower())
                    await asyncio.sleep(ACCEPT_PAUSE_SECONDS)
                else:  # such as a client that has given up
                    await asyncio.sleep(0)
                continue
            await self._take(accepted, address)
            await asyncio.sleep(0)  # even if the next connection is there already, others get their turn

    async def _take(self, accepted: socket.socket, address: Sequence[object]) -> None:
        """Serve a connection, or close it if it is over the limits."""
        self._accepted += 1
        if not self.table.admits(str(address[0])):
            accepted.close()
            return
        loop = asyncio.get_running_loop()
        accepted.setblocking(False)
        with suppress(OSError):  # the client has gone
            await loop.connect_accepted_socket(self._create_connection, accepted)

    def _create_connection(self) -> Connection:
        loop = asyncio.get_running_loop()
        return Connection(self.config, self.server_state, self.lifespan.state, self.table, self._settings, loop)

    async def _close(self, listening: socket.socket) -> None:
        """Close a listening socket right after no connection was waiting in it."""
        waiting = []
        with suppress(OSError):  # BlockingIOError: none is left
            while True:
                waiting.append(listening.accept())
        listening.close()
        for accepted, address in waiting:
            await self._take(accepted, address)


def raise_open_files() -> int | None:
    """Let this process open as many files as the system allows; returns how many, or None if that is not known."""
    if sys.platform == "win32":
        return None
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return MAX_OPEN_FILES if soft == resource.RLIM_INFINITY else soft
