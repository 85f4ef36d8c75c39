"""Several workers on one socket: they are replaced when they die or on request, and none is left behind."""

import json
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import madeup
import pytest
import running

from cr5.index import Index
from cr5.server.http_server import drop_new_connections
from cr5.server.process import WORKER_START_SECONDS

pytestmark = [pytest.mark.services, pytest.mark.slow]

WORKERS = 2
TIMEOUT_SECONDS = 120  # generous, because the machine may be busy


@pytest.fixture(scope="module")
def folder(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index without documents, which opens quickly."""
    folder = tmp_path_factory.mktemp("workers") / "index"
    Index.create(folder, model_folder).close()
    return folder


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[tuple[int, str]]:
    """The process and the address of a server whose workers all answer; every test leaves it like that."""
    with running.server(folder, "--workers", WORKERS) as (server, address):
        until(lambda: len(answering(address)) == WORKERS)
        yield server.pid, address


def until(holds: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + TIMEOUT_SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


class Response(NamedTuple):
    status: int
    text: str


def get(address: str, path: str) -> Response:
    """The response to a request on a connection of its own."""
    with closing(HTTPConnection(urlsplit(address).netloc, timeout=TIMEOUT_SECONDS)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        return Response(answer.status, answer.read().decode())


def answering(address: str) -> set[float]:
    """The start times of the workers that answer a few requests, each on its own connection."""
    texts = [get(address, "/metrics").text for _ in range(8)]
    return {metric(text, "process_start_time_seconds") for text in texts}


def metric(text: str, name: str) -> float:
    """The value of a sample in the text of metrics; 0 if there is none."""
    return next((float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(f"{name} ")), 0.0)


def test_each_worker_reports_the_metrics_of_all(served: tuple[int, str]) -> None:
    _, address = served
    name = 'cr5_requests_total{method="GET",path="/health",status="200"}'
    before = metric(get(address, "/metrics").text, name)
    for _ in range(20):  # on connections of their own, so that any worker may answer
        assert get(address, "/health").status == 200
    values = set[float]()

    def all_agree() -> bool:
        values.clear()
        values.update(metric(get(address, "/metrics").text, name) for _ in range(8))
        return values == {before + 20}

    until(all_agree)


def test_a_killed_worker_is_replaced_while_others_answer(served: tuple[int, str]) -> None:
    server, address = served
    victim, other = running.workers(server)
    os.kill(victim, signal.SIGKILL)
    until(lambda: not running.is_running(victim))
    assert get(address, "/health").status == 200
    until(lambda: len(running.workers(server)) == WORKERS and victim not in running.workers(server))
    assert other in running.workers(server)
    until(lambda: len(answering(address)) == WORKERS)


def on_one_connection(address: str, over: threading.Event, pause: float) -> set[int]:
    """The statuses of requests until the event, on one connection for as long as the server keeps it."""
    statuses = set()
    with closing(HTTPConnection(urlsplit(address).netloc, timeout=TIMEOUT_SECONDS)) as connection:
        while not over.is_set():
            connection.request("GET", "/health")
            answer = connection.getresponse()
            answer.read()
            statuses.add(answer.status)
            time.sleep(pause)
    return statuses


def on_new_connections(address: str, over: threading.Event) -> set[int]:
    """The statuses of requests until the event, each on a new connection."""
    statuses = set()
    while not over.is_set():
        statuses.add(get(address, "/health").status)
        time.sleep(0.01)
    return statuses


def test_each_sighup_replaces_every_worker_and_no_request_is_dropped(served: tuple[int, str]) -> None:
    server, address = served
    old, over = set(running.workers(server)), threading.Event()
    seen = set(old)
    begun = begin_requests(address, 8)

    def replaced_twice() -> bool:
        seen.update(running.workers(server))
        return len(seen) == 3 * WORKERS and len(running.workers(server)) == WORKERS

    with ThreadPoolExecutor(4) as pool:
        clients = [pool.submit(on_one_connection, address, over, pause) for pause in (0.002, 0.01, 0.1)]
        clients.append(pool.submit(on_new_connections, address, over))
        try:
            os.kill(server, signal.SIGHUP)
            until(lambda: len(running.workers(server)) > WORKERS)  # it is replacing the first
            os.kill(server, signal.SIGHUP)
            for connection, rest in begun:
                connection.send(rest)
                assert connection.getresponse().status == 200
                connection.close()
            until(replaced_twice)
            assert not any(running.is_running(pid) for pid in old)
        finally:
            over.set()
        assert [client.result() for client in clients] == [{200}] * len(clients)
    until(lambda: len(answering(address)) == WORKERS)


def begin_requests(address: str, count: int) -> list[tuple[HTTPConnection, bytes]]:
    """Requests that the server waits for the end of: their connections and what is still to be sent."""
    body = json.dumps({"lang": "aa", "texts": ["x"]}).encode()
    connections = [HTTPConnection(urlsplit(address).netloc, timeout=TIMEOUT_SECONDS) for _ in range(count)]
    for connection in connections:
        connection.putrequest("POST", "/embed")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body[:5])
    until(lambda: metric(get(address, "/metrics").text, "cr5_requests_in_flight") > 1)
    return [(connection, body[5:]) for connection in connections]


def with_pauses(address: str, over: threading.Event, pause: float, name: str) -> set[int]:
    """The statuses of searches or, with a name, of writes until the event, on connections that are kept if possible."""
    statuses = set[int]()
    with closing(HTTPConnection(urlsplit(address).netloc, timeout=TIMEOUT_SECONDS)) as connection:
        while not over.wait(pause):
            if name:
                document = {"concept": name, "lang": "aa", "text": madeup.text("aa", [3, len(statuses)])}
                body = json.dumps({"documents": [document]})
                connection.request("POST", "/documents", body, {"Content-Type": "application/json"})
            else:
                connection.request("GET", "/search?q=a")
            answer = connection.getresponse()
            answer.read()
            statuses.add(answer.status)
    return statuses


@pytest.mark.timeout(600)
def test_no_request_fails_during_rolling_restarts(folder: Path, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    copy, over = tmp_path / "index", threading.Event()
    shutil.copytree(folder, copy)
    with running.server(copy, "--workers", WORKERS) as (server, address):
        until(lambda: is_ready(address))
        end = time.monotonic() + pytestconfig.getoption("restart_seconds")
        asking = [(pause, "") for pause in (0.02, 0.3, 1.2, 1.5, 2.0, 2.5, 3.0)]
        with ThreadPoolExecutor(10) as pool:
            clients = [
                pool.submit(with_pauses, address, over, *given) for given in [*asking, (0.5, "a"), (1.2, "b"), (2, "c")]
            ]
            try:
                restarts = 0
                while time.monotonic() < end or not restarts:
                    old = set(running.workers(server.pid))
                    server.send_signal(signal.SIGHUP)
                    until(partial(replaced_or_failed, server.pid, old, clients))
                    restarts += 1
            finally:
                over.set()
            assert [client.result() for client in clients] == [{200}] * len(clients)


def replaced_or_failed(server: int, old: set[int], clients: list[Future[set[int]]]) -> bool:
    is_replaced = not old & set(running.workers(server))
    return is_replaced or any(client.done() and client.exception() is not None for client in clients)


def test_a_worker_ignores_sighup(served: tuple[int, str]) -> None:
    server, address = served
    before, workers = answering(address), running.workers(server)
    for pid in workers:  # as they do when the terminal is closed
        os.kill(pid, signal.SIGHUP)
    until(lambda: answering(address) == before)
    assert running.workers(server) == workers


def test_a_server_that_is_stopped_while_it_replaces_workers_starts_no_more(folder: Path) -> None:
    with running.server(folder, "--workers", WORKERS) as (server, address):
        until(lambda: len(answering(address)) == WORKERS)
        seen = set(running.workers(server.pid))
        server.send_signal(signal.SIGHUP)
        until(lambda: len(running.workers(server.pid)) > WORKERS)
        server.send_signal(signal.SIGTERM)
        server.send_signal(signal.SIGHUP)
        while server.poll() is None:
            seen.update(running.workers(server.pid))
            time.sleep(0.05)
        assert (server.returncode, said_at_the_end(server)) == (0, "stopped")
        assert len(seen) == WORKERS + 1
        assert not any(running.is_running(pid) for pid in seen)


def test_workers_that_die_during_startup_are_replaced_at_once_and_stop_when_their_supervisor_is_killed(
    folder: Path,
) -> None:
    with running.server(folder, "--workers", WORKERS) as (server, address):
        until(lambda: len(running.workers(server.pid)) == WORKERS)
        time.sleep(1)  # by now they are asked whether they are well, and answer as soon as they can
        began, first = time.monotonic(), running.workers(server.pid)
        for pid in first:
            os.kill(pid, signal.SIGKILL)
        until(lambda: len(set(running.workers(server.pid)) - set(first)) == WORKERS)
        assert time.monotonic() - began < 3 / 4 * WORKER_START_SECONDS
        assert get(address, "/health").status == 200
        workers = running.workers(server.pid)
        server.kill()
        until(lambda: not any(running.is_running(pid) for pid in workers))
        with pytest.raises(ConnectionRefusedError):
            get(address, "/health")


def test_a_server_can_be_stopped_during_startup(folder: Path) -> None:
    server, line = running.start(folder, "--port", 0)
    try:
        assert "serving" in line
        server.send_signal(signal.SIGTERM)
        assert server.wait(TIMEOUT_SECONDS) in (0, -signal.SIGTERM)
    finally:
        server.kill()
        server.communicate()


def test_a_server_that_is_interrupted_leaves_no_worker_behind(folder: Path) -> None:
    with running.server(folder, "--workers", WORKERS) as (server, address):
        assert get(address, "/health").status == 200
        workers = running.workers(server.pid)
        assert len(workers) == WORKERS
        server.send_signal(signal.SIGINT)
        assert server.wait(TIMEOUT_SECONDS) == 0
        assert said_at_the_end(server) == "stopped"
        assert not any(running.is_running(pid) for pid in workers)


def test_all_workers_write_to_the_log_file(folder: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    options = ("--workers", WORKERS, "--log-format", "json", "--log-file", log)
    with running.server(folder, *options) as (_, address):
        until(lambda: is_ready(address))
        assert {get(address, "/info").status for _ in range(20)} == {200}
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert sum(line.get("path") == "/info" for line in lines) == 20
    requests = [line for line in lines if "event" not in line]
    assert [line["event"] for line in lines if "event" in line] == ["start", "stop"]
    assert len({line["request_id"] for line in requests}) == len(requests)


ENDLESS = """
import sys, threading
from pathlib import Path
from cr5.index.snapshot import Snapshot
from cr5.server import process
from cr5.server.settings import ServerSettings

def optimise(self):
    Path(sys.argv[2]).touch()
    threading.Event().wait()

Snapshot.optimise = optimise
listening = process.listen("127.0.0.1", 0)
print(process.url(listening).rstrip("/"), file=sys.stderr, flush=True)
process.serve(listening, Path(sys.argv[1]), ServerSettings(shutdown_seconds=0.2))
"""


def test_a_server_stops_while_files_are_merged_and_loses_no_document(model_folder: Path, tmp_path: Path) -> None:
    folder, merging = tmp_path / "index", tmp_path / "merging"
    Index.create(folder, model_folder).close()
    command = [sys.executable, "-c", ENDLESS, str(folder), str(merging)]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        address = server.stderr.readline().strip()
        body = json.dumps({"documents": [{"concept": "Q1", "lang": "aa", "text": madeup.text("aa", [3, 4, 5])}]})
        with closing(HTTPConnection(urlsplit(address).netloc, timeout=TIMEOUT_SECONDS)) as connection:
            connection.request("POST", "/documents", body, {"Content-Type": "application/json"})
            assert connection.getresponse().status == 200
        until(merging.exists)
        server.send_signal(signal.SIGTERM)
        assert server.wait(TIMEOUT_SECONDS) in (0, -signal.SIGTERM)
    finally:
        server.kill()
        server.communicate()
    with Index.open(folder) as index:
        assert [hit.id for hit in index.search(madeup.text("aa", [3, 4, 5]), "aa").hits] == ["aa:Q1"]
        index.refresh()
        assert len(index) == 1


def said_at_the_end(server: subprocess.Popen[str]) -> str:
    assert server.stderr is not None
    return server.stderr.read().strip()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the setting is glibc's")
@pytest.mark.parametrize("returned", [True, False])
def test_large_freed_blocks_are_returned_to_the_system_even_after_larger_ones(returned: bool) -> None:
    program = f"""
import ctypes
from cr5.server.process import return_freed_memory

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]

class Figures(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in
                "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]

libc.mallinfo2.restype = Figures
if {returned}:
    assert return_freed_memory()
libc.free(libc.malloc(2**24))
before = libc.mallinfo2().hblkhd
libc.malloc(2**20)
print(libc.mallinfo2().hblkhd - before >= 2**20)
"""
    # Dask sets MALLOC_ variables for all children of a process that has used it.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == [str(returned)]


@pytest.mark.skipif(sys.platform != "linux", reason="filters of sockets are a feature of Linux")
def test_a_socket_that_drops_new_connections_still_has_those_that_wait() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as early:
        early.connect(listening.getsockname())
        drop_new_connections(listening)
        with pytest.raises(TimeoutError):
            socket.create_connection(listening.getsockname(), timeout=0.2)
        with closing(listening.accept()[0]) as accepted:
            accepted.sendall(b"answer")
            assert early.recv(10) == b"answer"


@pytest.mark.parametrize("workers", [1, WORKERS])
def test_no_client_of_a_server_that_stops_sees_a_reset(folder: Path, workers: int) -> None:
    """Clients go on until the port is closed: every request that was accepted is answered."""
    with running.server(folder, "--workers", workers) as (server, address):
        until(lambda: is_ready(address))
        answered = threading.Semaphore(0)

        def ask(keep: bool) -> tuple[set[int], str]:
            statuses = set[int]()
            with closing(HTTPConnection(urlsplit(address).netloc, timeout=TIMEOUT_SECONDS)) as connection:
                while True:
                    try:
                        connection.request("GET", "/search?q=a")
                        answer = connection.getresponse()
                        answer.read()
                    except OSError as error:
                        return statuses, type(error).__name__
                    statuses.add(answer.status)
                    answered.release()
                    if not keep:
                        connection.close()

        with ThreadPoolExecutor(8) as pool:
            clients = [pool.submit(ask, number % 2 == 0) for number in range(8)]
            assert all(answered.acquire(timeout=TIMEOUT_SECONDS) for _ in range(40))
            server.send_signal(signal.SIGTERM)
            assert [client.result() for client in clients] == [({200}, "ConnectionRefusedError")] * 8
        assert server.wait(TIMEOUT_SECONDS) == 0


def is_ready(address: str) -> bool:
    try:
        return get(address, "/ready").status == 200
    except ConnectionError:
        return False
