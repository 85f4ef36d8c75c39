"""Connections that try to keep others out: unsent bodies, slow headers, idle connections, clients that do not read."""

import errno
import random
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, cast

import pytest
from raw_server import QUICK_STOP, RawServer, raw_server, read_all, statuses, until, was_closed

from cr5.server import handlers
from cr5.server.access import TrustedProxies
from cr5.server.connection import PROBE_CONNECTIONS, Connection, ConnectionLimits, ConnectionTable
from cr5.server.http_server import ACCEPTS_AT_ONCE, HttpServer
from cr5.server.settings import ServerSettings

pytestmark = pytest.mark.slow

UNSENT_POST = (
    b"POST /search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
)


@pytest.fixture(scope="module")
def served(index_folder: Path) -> Iterator[RawServer]:
    """A server with the default settings."""
    with raw_server(index_folder, read_only=True) as server:
        yield server


@pytest.mark.parametrize("body", ["Content-Length: 1000", "Transfer-Encoding: chunked"])
@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("GET /health", 200), ("HEAD /health", 200), ("GET /ready", None), ("GET /static/app.js", 200), ("GET /", 200),
        ("GET /search?q=a", 200), ("DELETE /documents/x", 403), ("POST /health", 405), ("PUT /documents", 405),
        ("POST /static/app.js", 405),
    ],
)  # fmt: skip
def test_no_body_is_read_where_none_belongs(served: RawServer, line: str, status: int | None, body: str) -> None:
    answer = served.send(f"{line} HTTP/1.1\r\nHost: 127.0.0.1\r\n{body}\r\n\r\n".encode())
    assert statuses(answer) == [status or statuses(answer)[0]]
    assert b"\r\nconnection: close\r\n" in answer.lower()


def test_unsent_bodies_keep_no_request_out(index_folder: Path) -> None:
    with raw_server(index_folder, max_concurrent_requests=4) as server, ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(server.connect()).sendall(UNSENT_POST)
        until(lambda: len(server.server.table) >= 40)
        assert server.get("/health")[0] == 200
        assert server.get("/search?q=a")[0] == 200


def test_bodies_take_bounded_memory_together(index_folder: Path) -> None:
    with raw_server(index_folder, max_buffered_bytes=1500) as server, server.connect() as first:
        head = UNSENT_POST.replace(b"Content-Length: 100", b"Content-Length: 2000")
        first.sendall(head + b" " * 1000)
        table = server.server.table
        until(lambda: len(table) == 1 and any(one.cycle is not None for one in table._waiting))
        assert statuses(server.send(head + b" " * 1998)) == [503]
        first.sendall(b" " * 999)
        assert statuses(read_all(first)) == [503]
        assert server.get("/search?q=a")[0] == 200


@pytest.mark.parametrize(("settings", "status"), [({"api_key": "k"}, 401), ({"requests_per_minute": 1}, 429)])
def test_key_and_rate_are_checked_before_the_body(index_folder: Path, settings: dict[str, Any], status: int) -> None:
    with raw_server(index_folder, **settings) as server:
        if status == 429:
            assert server.get("/info")[0] == 200
        answer = server.send(UNSENT_POST.replace(b"\r\n\r\n{", b"\r\nExpect: 100-continue\r\n\r\n"))
        assert statuses(answer) == [status]  # without 100, which would ask for the body
        assert server.get("/health")[0] == 200


@pytest.mark.parametrize("sent", [b"", b"G", b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: b\r\n"])
def test_a_connection_without_a_complete_header_is_closed(index_folder: Path, sent: bytes) -> None:
    with raw_server(index_folder, header_timeout_seconds=0.2) as server, server.connect() as connection:
        connection.sendall(sent)
        assert was_closed(connection)
        until(lambda: len(server.server.table) == 0)


def test_a_header_that_arrives_byte_by_byte_does_not_extend_its_timeout(index_folder: Path) -> None:
    with raw_server(index_folder, header_timeout_seconds=0.3) as server, server.connect() as connection:
        connection.settimeout(0.02)
        closed = False
        while not closed:  # the test's own timeout ends it otherwise
            try:
                connection.sendall(b"G")
                closed = connection.recv(10) == b""
            except TimeoutError:
                pass
            except ConnectionError:
                closed = True


def test_the_second_header_of_a_connection_has_a_timeout_too(index_folder: Path) -> None:
    with raw_server(index_folder, header_timeout_seconds=0.2) as server, server.connect() as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET /hea")
        assert statuses(read_all(connection)) == [200]


def test_an_idle_connection_is_closed(index_folder: Path) -> None:
    with raw_server(index_folder, idle_timeout_seconds=0.2) as server, server.connect() as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        answer = read_all(connection)
        assert statuses(answer) == [200]
        assert b"connection: close" not in answer.lower()


def test_an_idle_connection_of_a_replaced_worker_can_send_one_more_request(index_folder: Path) -> None:
    request = b"GET /ready HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with raw_server(index_folder) as server, server.connect() as connection, server.connect() as idle:
        until(lambda: server.get("/ready")[0] == 200)
        for opened in (connection, idle):
            opened.sendall(request)
            assert statuses(opened.recv(65536)) == [200]
        server.server.retire()
        until(lambda: server.server._closing)
        time.sleep(20 * QUICK_STOP["stop_idle_seconds"])
        connection.sendall(request)
        answer = read_all(connection)
        assert statuses(answer) == [200]  # the service is ready, and only this process ends
        assert b"\r\nconnection: close\r\n" in answer.lower()
        server.server.handle_exit(signal.SIGTERM, None)
        assert b"HTTP" not in read_all(idle)  # closed without another response


def test_ctrl_c_does_not_interrupt_what_a_replaced_worker_is_answering(index_folder: Path) -> None:
    with raw_server(index_folder) as server, server.connect() as connection:
        until(lambda: server.get("/ready")[0] == 200)
        connection.sendall(b"GET /hea")
        until(lambda: any(one._timer is not None for one in server.server.table._waiting))
        server.server.retire()
        until(lambda: server.server._closing)
        server.server.handle_exit(signal.SIGINT, None)
        time.sleep(20 * QUICK_STOP["stop_idle_seconds"])
        connection.sendall(b"lth HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert statuses(read_all(connection)) == [200]


def test_a_header_that_has_begun_when_the_server_stops_is_answered(index_folder: Path) -> None:
    with raw_server(index_folder) as server, server.connect() as first, server.connect() as second:
        second.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert statuses(second.recv(65536)) == [200]
        for connection in (first, second):
            connection.sendall(b"GET /hea")
        until(lambda: sum(one._timer is not None for one in server.server.table._waiting) == 2)
        server.server.should_exit = True
        until(lambda: server.server._closing)
        time.sleep(20 * QUICK_STOP["stop_idle_seconds"])
        for connection in (first, second):
            connection.sendall(b"lth HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert statuses(read_all(connection)) == [200]


def test_a_body_that_arrives_too_slowly_is_refused(index_folder: Path) -> None:
    with raw_server(index_folder, body_timeout_seconds=0.2) as server:
        answer = server.send(UNSENT_POST)
        assert statuses(answer) == [408]
        assert b"the body did not arrive within 0.2 s" in answer


def test_a_body_that_arrives_byte_by_byte_does_not_extend_its_timeout(index_folder: Path) -> None:
    chunked = UNSENT_POST.replace(b"Content-Length: 100", b"Transfer-Encoding: chunked").removesuffix(b"{")
    settings = {"body_timeout_seconds": 0.4, "idle_timeout_seconds": 0.4, "header_timeout_seconds": 0.4}
    with raw_server(index_folder, **settings) as server:
        for head, part in ((UNSENT_POST.replace(b"100", b"1000000"), b" "), (chunked, b"1\r\n \r\n")):
            with server.connect() as connection:
                connection.sendall(head)
                connection.settimeout(0.02)
                answer = b""
                while not answer:  # the test's own timeout ends it otherwise
                    connection.sendall(part)
                    with suppress(TimeoutError):
                        answer = connection.recv(65536)
                assert statuses(answer) == [408]


def test_a_client_that_does_not_read_is_disconnected(index_folder: Path) -> None:
    with raw_server(index_folder, write_timeout_seconds=0.2) as server, server.connect(receive_buffer=4096) as slow:
        slow.settimeout(0.2)
        request = b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        with suppress(OSError):
            slow.sendall(request * 2000)
        until(lambda: len(server.server.table) == 0)
        assert server.get("/health")[0] == 200


def test_idle_connections_over_the_limit_keep_no_request_out(
    index_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept, add, arrived, counts = HttpServer._accept, ConnectionTable.add, threading.Event(), []

    def accept_when_all_have_arrived(server: HttpServer, listening: socket.socket) -> None:
        assert arrived.wait(60)
        accept(server, listening)

    def add_and_count(table: ConnectionTable, connection: Connection, address: str) -> None:
        add(table, connection, address)
        counts.append(len(table))

    monkeypatch.setattr(HttpServer, "_accept", accept_when_all_have_arrived)
    monkeypatch.setattr(ConnectionTable, "add", add_and_count)
    with raw_server(index_folder, max_connections=8) as server, ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(server.connect())
        arrived.set()
        assert server.get("/health")[0] == 200
        assert server.get("/search?q=a")[0] == 200
    assert 8 <= max(counts) <= 8 + ACCEPTS_AT_ONCE
    assert len(counts) >= 100


def test_requests_that_are_being_answered_are_never_closed_and_probes_get_in(
    index_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, arrived, release = handlers.document, threading.Semaphore(0), threading.Event()

    def held(*given: Any, **more: Any) -> Any:
        arrived.release()
        assert release.wait(60)
        return plain(*given, **more)

    monkeypatch.setattr(handlers, "document", held)
    request = b"GET /documents/aa:Q001 HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    limits = {"max_connections": 2, "max_connections_per_address": 2}
    with raw_server(index_folder, **limits) as server, server.connect() as one, server.connect() as two:
        for connection in (one, two):
            connection.sendall(request)
            assert arrived.acquire(timeout=60)
        assert server.get("/health")[0] == 200
        assert server.get("/search?q=a")[0] == 503
        with ExitStack() as stack:  # of clients that send nothing
            probes = [stack.enter_context(server.connect()) for _ in range(2 * PROBE_CONNECTIONS)]
            assert was_closed(probes[0])
            assert server.get("/health")[0] == 200
        release.set()
        assert [statuses(read_all(connection)) for connection in (one, two)] == [[200], [200]]
        assert server.get("/health")[0] == 200


def test_a_lack_of_file_descriptors_is_survived(index_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    accept, failures = socket.socket.accept, [errno.EMFILE, errno.ECONNABORTED, errno.ENFILE]

    def failing(listening: socket.socket) -> Any:
        if failures:
            raise OSError(failures.pop(), "refused")
        return accept(listening)

    monkeypatch.setattr(socket.socket, "accept", failing)
    with raw_server(index_folder) as server:
        assert server.get("/health")[0] == 200
        assert not failures


@pytest.mark.parametrize(
    ("open_files", "total"),
    [(65_536, 4096), (1024, 768), (400, 144), (256, 16), (16, 16)],
)
def test_connections_are_limited_below_the_number_of_open_files(open_files: int, total: int) -> None:
    limits = ConnectionLimits.of(ServerSettings(), open_files)
    assert (limits.total, limits.per_address) == (total, total // 2)
    assert ConnectionLimits.of(ServerSettings(max_connections=5, max_connections_per_address=4), 9).per_address == 4


class FakeConnection:
    """Remembers whether it was closed."""

    def __init__(self) -> None:
        self.aborted = False

    def abort(self) -> None:
        self.aborted = True


def test_an_address_over_its_limit_loses_its_own_connections_and_proxies_have_no_limit() -> None:
    table = ConnectionTable(ConnectionLimits(10, 2), TrustedProxies(["10.0.0.0/8"]))
    connections = [FakeConnection() for _ in range(6)]
    addresses = ["1.1.1.1", "2.2.2.2", "2.2.2.2", "10.0.0.1", "10.0.0.1", "10.0.0.1"]
    for connection, address in zip(connections, addresses, strict=True):
        assert table.admits(address)
        table.add(cast(Connection, connection), address)
    table.set_waiting(cast(Connection, connections[1]), False)  # is being answered
    assert table.admits("2.2.2.2")
    assert [connection.aborted for connection in connections] == [False, False, True, False, False, False]
    table.add(cast(Connection, FakeConnection()), "2.2.2.2")
    assert len(table) == 6


def test_connections_beyond_the_limit_of_an_address_answer_only_probes() -> None:
    table = ConnectionTable(ConnectionLimits(10, 2, probes=1), TrustedProxies())
    connections = [cast(Connection, FakeConnection()) for _ in range(4)]
    for connection, address in zip(connections, ["1.1.1.1", "1.1.1.1", "2.2.2.2", "1.1.1.1"], strict=True):
        assert table.admits(address)
        table.add(connection, address)
        if connection is not connections[3]:
            table.set_waiting(connection, False)  # is being answered
    assert [table.answers_only_probes(connection) for connection in connections[2:]] == [False, True]
    table.set_waiting(connections[3], False)
    assert not table.admits("1.1.1.1")
    assert table.admits("2.2.2.2")
    for connection in (connections[0], connections[3]):
        table.set_waiting(connection, True)
    assert not table.answers_only_probes(connections[3])


FUZZED_PARTS = [
    b"GET ", b"POST ", b"HEAD ", b"\x16\x03\x01", b"/health", b"/search?q=", b"/documents", b"%00", b"%ff", b"*",
    b" HTTP/1.1", b" HTTP/1.0", b" HTTP/9.9", b"\r\n", b"\n", b"\r", b"\r\n\r\n", b"Host: 127.0.0.1\r\n", b"Host:\r\n",
    b"Content-Length: 5\r\n", b"Content-Length: -1\r\n", b"Content-Length: 99999999999999999999\r\n", b"0\r\n\r\n",
    b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: chunked, chunked\r\n", b"5\r\nhello\r\n", b"fffffffff\r\n",
    b"Content-Type: application/json\r\n", b'{"q": "a"}', b"Expect: 100-continue\r\n", b"Connection: upgrade\r\n",
    b"Upgrade: websocket\r\n", b"Upgrade: h2c\r\n", b"X: " + b"a" * 5000 + b"\r\n", b" folded\r\n", b"\x00",
    b"\xff\xfe",
]  # fmt: skip


@pytest.mark.parametrize("protocol", ["websocket", "h2c"])
def test_a_request_for_another_protocol_is_answered_in_http_and_not_logged(
    served: RawServer, caplog: pytest.LogCaptureFixture, protocol: str
) -> None:
    caplog.clear()
    headers = "Connection: close, Upgrade", f"Upgrade: {protocol}", "Sec-WebSocket-Version: 13"
    lines = ["GET /health HTTP/1.1", "Host: 127.0.0.1", *headers, "", ""]
    assert statuses(served.send("\r\n".join(lines).encode())) == [200]
    assert "pgrade" not in caplog.text


def test_no_sequence_of_bytes_stops_the_server(index_folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    chance = random.Random(0)
    limits = {"header_timeout_seconds": 0.2, "body_timeout_seconds": 0.2, "idle_timeout_seconds": 0.2}
    with raw_server(index_folder, read_only=True, **limits) as server:
        for _ in range(15):
            with ExitStack() as stack:
                connections = [stack.enter_context(server.connect()) for _ in range(20)]
                for connection in connections:
                    count = chance.randrange(1, 20)
                    start = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n" if chance.random() < 0.5 else b""
                    with suppress(ConnectionError):
                        connection.sendall(start + b"".join(chance.choices(FUZZED_PARTS, k=count)))
                for connection in connections:
                    with suppress(ConnectionError):
                        answer = read_all(connection)
                        assert not [
                            status for status in statuses(answer) if status == 500 or status not in range(100, 600)
                        ]
        assert server.get("/health")[0] == 200
        until(lambda: len(server.server.table) == 0)
    assert "Traceback" not in caplog.text
