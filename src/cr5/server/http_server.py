"""A server process: it accepts connections within the limits, and stops without losing a request."""

import asyncio
import ctypes
import errno
import logging
import socket
import struct
import sys
import time
from contextlib import suppress
from types import FrameType
from typing import cast

import uvicorn

from cr5.server.access import TrustedProxies
from cr5.server.connection import CLOSE, Connection, ConnectionLimits, ConnectionTable
from cr5.server.readiness import Readiness
from cr5.server.settings import ServerSettings

MAX_OPEN_FILES = 65_536
WINDOWS_SOCKETS = 512  # limit of select() on Windows
ACCEPTS_AT_ONCE = 16
SO_ATTACH_FILTER = 26  # socket option of Linux, which the module socket does not have
RETIRE_POLL_SECONDS = 0.1
ACCEPT_PAUSE_SECONDS = 0.1  # pause after the system could not accept a connection
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
log = logging.getLogger("cr5.server")


class HttpServer(uvicorn.Server):
    """uvicorn's server with an accept loop of its own.

    asyncio accepts as many connections as it can before it creates the first transport, and reports each failure for
    want of file descriptors with a traceback, thousands of times a second. Here the limits are checked
    after each one (they may be exceeded by ``ACCEPTS_AT_ONCE``), and a connection over them costs one call of
    ``accept`` and one of ``close``.

    With ``warm_first``, connections are accepted only after the warm-up searches; until then, other workers answer.
    ``shares_socket`` says that other processes listen on the same socket, and may go on when this one stops.

    A server that is told to stop closes its idle connections after a moment. One that is replaced by another process
    (``retire``) keeps them: each ends with the response to its next request, or when it has been idle for too long.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        settings: ServerSettings,
        readiness: Readiness,
        *,
        warm_first: bool = False,
        shares_socket: bool = False,
    ) -> None:
        super().__init__(config)
        self._settings, self._readiness = settings, readiness
        self._warm_first, self._shares_socket = warm_first, shares_socket
        limits = ConnectionLimits.of(settings, raise_open_file_limit())
        self.table = ConnectionTable(limits, TrustedProxies(settings.trusted_proxies))
        # Connections that have been accepted, but have no transport yet.
        self._starting: set[asyncio.Task[None]] = set()
        self._accepted, self._closing, self._retiring = 0, False, False

    def retire(self) -> None:
        """Stop, because another process goes on: clients with idle connections can send one more request."""
        self._retiring, self.should_exit = not self.should_exit, True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop, also if this server is retiring."""
        if self._retiring:  # otherwise this would be a second signal to uvicorn, and SIGINT would end requests
            self._retiring = self.should_exit = False
        super().handle_exit(sig, frame)

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until the server is told to stop."""
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:  # which can wait for a socket everywhere
            runner.run(self.serve(sockets))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application and accept connections."""
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            sys.exit(1)
        while self._warm_first and not self._readiness.warm.is_set() and not self.should_exit:
            await asyncio.sleep(0.05)
        self.servers, loop = [], asyncio.get_running_loop()
        for listening in sockets or []:
            listening.setblocking(False)
            loop.add_reader(listening, self._accept, listening)
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept what has arrived, answer it, and stop."""
        for listening in [] if self._shares_socket else sockets or []:
            drop_new_connections(listening)
        self.server_state.default_headers = [*self.server_state.default_headers, CLOSE]
        if not self._retiring:
            self._shut_down_connections()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.stop_accept_seconds):
                accepted = -1
                while accepted != self._accepted:
                    accepted = self._accepted
                    await asyncio.sleep(self._settings.stop_quiet_seconds)
        self._closing = True
        for listening in sockets or []:
            asyncio.get_running_loop().remove_reader(listening)
            while self._accept_one(listening):
                pass
            listening.close()  # right after no connection was waiting in it
        await asyncio.gather(*self._starting)
        if self._retiring:
            await self._wait_for_idle_clients()
            self._shut_down_connections()
        await super().shutdown(sockets=None)

    def _shut_down_connections(self) -> None:
        self._readiness.stopping.set()
        for connection in list(self.server_state.connections):
            connection.shutdown()

    async def _wait_for_idle_clients(self) -> None:
        """Wait until every client has sent its next request or has been idle for too long, or a signal arrives."""
        for connection in list(self.server_state.connections):
            cast(Connection, connection).close_after_response()
        end = time.monotonic() + self._settings.idle_timeout_seconds + self._settings.header_timeout_seconds
        while self._retiring and self.server_state.connections and time.monotonic() < end:
            await asyncio.sleep(RETIRE_POLL_SECONDS)

    def _accept(self, listening: socket.socket) -> None:
        """Accept some of the connections that wait; then others get their turn.

        Connections are in the table when they have a transport, some turns of the event loop after they were accepted.
        None is accepted until then: otherwise the table would not count them.
        """
        if self._starting:
            return
        for _ in range(ACCEPTS_AT_ONCE):
            if not self._accept_one(listening):
                return

    def _accept_one(self, listening: socket.socket) -> bool:
        """Accept a connection, and close it if it is over the limits; False if none is waiting or can be accepted."""
        try:
            accepted, address = listening.accept()
        except OSError as error:
            if error.errno in _EXHAUSTED:
                log.error("no connection can be accepted: %s", (error.strerror or "").lower())
                self._pause(listening)
            return error.errno == errno.ECONNABORTED  # a client that has given up
        self._accepted += 1
        if not self.table.admits(str(address[0])):
            accepted.close()
            return True
        accepted.setblocking(False)
        task = asyncio.get_running_loop().create_task(self._start(accepted))
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)
        return True

    def _pause(self, listening: socket.socket) -> None:
        """Accept nothing for a moment: otherwise the event loop would try again at once, without end."""
        if not self._closing:
            loop = asyncio.get_running_loop()
            loop.remove_reader(listening)
            loop.call_later(ACCEPT_PAUSE_SECONDS, self._resume, listening)

    def _resume(self, listening: socket.socket) -> None:
        if not self._closing:
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    async def _start(self, accepted: socket.socket) -> None:
        with suppress(OSError):  # the client has gone
            await asyncio.get_running_loop().connect_accepted_socket(self._create_connection, accepted)

    def _create_connection(self) -> Connection:
        loop = asyncio.get_running_loop()
        return Connection(self.config, self.server_state, self.lifespan.state, self.table, self._settings, loop)


def drop_new_connections(listening: socket.socket) -> None:
    """Let the system complete no further connection on a socket, on Linux: then those that wait are the last ones.

    Otherwise a client might connect just after the last one was accepted, and see a reset when the socket is closed.
    Its packets are dropped by a filter of one instruction, "return 0"; it tries again, and is refused or finds another
    server.
    """
    if sys.platform == "linux":
        instruction = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))
        program = struct.pack("HP", 1, ctypes.addressof(instruction))
        with suppress(OSError):  # a system that forbids filters
            listening.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)


def raise_open_file_limit() -> int:
    """Let this process open as many files as the system allows; returns how many."""
    if sys.platform == "win32":
        return WINDOWS_SOCKETS
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return MAX_OPEN_FILES if soft == resource.RLIM_INFINITY else soft
