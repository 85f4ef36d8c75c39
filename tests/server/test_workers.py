"""Several workers at one socket: one may die, all may be replaced, and none is left behind."""

import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest
import running

from cr5.index import Index
from cr5.server.process import WORKER_START_SECONDS

pytestmark = [pytest.mark.services, pytest.mark.slow]

WORKERS = 2
LONG = 120  # seconds after which a test gives up, on a machine however busy


@pytest.fixture(scope="module")
def folder(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index without documents, which is quickly opened."""
    folder = tmp_path_factory.mktemp("workers") / "index"
    Index.create(folder, model_folder).close()
    return folder


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[tuple[int, str]]:
    """A server's process and address, all of whose workers answer. Every test leaves it so."""
    with running.server(folder, "--workers", WORKERS) as (server, address):
        until(lambda: len(answering(address)) == WORKERS)
        yield server.pid, address


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    end = time.monotonic() + LONG
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


def answering(address: str) -> set[float]:
    """When the workers started that answered some requests, each on a connection of its own."""
    told = [httpx2.get(f"{address}/metrics", timeout=LONG).text for _ in range(8)]
    return {figure(text, "process_start_time_seconds") for text in told}


def figure(text: str, name: str) -> float:
    """One sample of the metrics; 0 where there is none."""
    return next((float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(f"{name} ")), 0.0)


def test_the_metrics_of_all_workers_are_told_by_each(served: tuple[int, str]) -> None:
    _, address = served
    name = 'cr5_requests_total{method="GET",path="/health",status="200"}'
    before = figure(httpx2.get(f"{address}/metrics", timeout=LONG).text, name)
    for _ in range(20):  # on connections of their own, so that any worker may answer
        assert httpx2.get(f"{address}/health", timeout=LONG).status_code == 200
    told = set[float]()

    def all_agree() -> bool:  # each writes its counts down every second
        told.clear()
        told.update(figure(httpx2.get(f"{address}/metrics", timeout=LONG).text, name) for _ in range(8))
        return told == {before + 20}

    until(all_agree)


def test_a_worker_that_is_killed_is_replaced_and_requests_go_on(served: tuple[int, str]) -> None:
    server, address = served
    victim, other = running.workers(server)
    os.kill(victim, signal.SIGKILL)
    until(lambda: not running.is_running(victim))
    assert httpx2.get(f"{address}/health", timeout=LONG).status_code == 200
    until(lambda: len(running.workers(server)) == WORKERS and victim not in running.workers(server))
    assert other in running.workers(server)
    until(lambda: len(answering(address)) == WORKERS)


def test_sighup_replaces_every_worker_and_drops_no_request(served: tuple[int, str]) -> None:
    server, address = served
    old, over = set(running.workers(server)), threading.Event()

    def ask(pause: float) -> set[int]:
        """On one connection for as long as the server keeps it."""
        statuses = set()
        with closing(HTTPConnection(urlsplit(address).netloc, timeout=LONG)) as connection:
            while not over.is_set():
                connection.request("GET", "/health")
                answer = connection.getresponse()
                answer.read()
                statuses.add(answer.status)
                time.sleep(pause)
        return statuses

    def ask_anew() -> set[int]:
        """On a new connection every time."""
        statuses = set()
        while not over.is_set():
            statuses.add(httpx2.get(f"{address}/health", timeout=LONG).status_code)
        return statuses

    with ThreadPoolExecutor(4) as pool:
        clients = [*(pool.submit(ask, pause) for pause in (0.0, 0.01, 0.1)), pool.submit(ask_anew)]
        try:
            os.kill(server, signal.SIGHUP)
            until(lambda: not any(running.is_running(pid) for pid in old))
        finally:
            over.set()
        assert [client.result() for client in clients] == [{200}] * len(clients)
    assert len(running.workers(server)) == WORKERS


def test_a_second_sighup_replaces_the_workers_of_the_first(served: tuple[int, str]) -> None:
    server, address = served
    seen = set(running.workers(server))
    os.kill(server, signal.SIGHUP)
    until(lambda: len(running.workers(server)) > WORKERS)  # it is at it
    os.kill(server, signal.SIGHUP)

    def replaced_twice() -> bool:
        assert httpx2.get(f"{address}/health", timeout=LONG).status_code == 200
        seen.update(running.workers(server))
        return len(seen) == 3 * WORKERS and len(running.workers(server)) == WORKERS

    until(replaced_twice)
    until(lambda: len(answering(address)) == WORKERS)
    assert set(running.workers(server)) < seen


def test_sighup_ends_no_worker_that_gets_it_itself(served: tuple[int, str]) -> None:
    server, address = served
    before, workers = answering(address), running.workers(server)
    for pid in workers:  # as they do when the terminal is closed
        os.kill(pid, signal.SIGHUP)
    until(lambda: answering(address) == before)
    assert running.workers(server) == workers


def test_a_worker_that_is_replaced_answers_what_it_has_begun(served: tuple[int, str]) -> None:
    server, address = served
    old, body = set(running.workers(server)), json.dumps({"lang": "aa", "texts": ["x"]}).encode()
    asking = [HTTPConnection(urlsplit(address).netloc, timeout=LONG) for _ in range(8)]
    for connection in asking:
        connection.putrequest("POST", "/embed")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body[:5])
    until(lambda: figure(httpx2.get(f"{address}/metrics", timeout=LONG).text, "cr5_requests_in_flight") > 1)
    os.kill(server, signal.SIGHUP)
    until(lambda: len(running.workers(server)) > WORKERS)
    for connection in asking:
        connection.send(body[5:])
        assert connection.getresponse().status == 200
        connection.close()
    until(lambda: not any(running.is_running(pid) for pid in old))
    until(lambda: len(answering(address)) == WORKERS)


def test_a_server_that_is_told_to_end_while_it_replaces_workers_begins_no_other(folder: Path) -> None:
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
        assert server.returncode == 0
        assert len(seen) == WORKERS + 1
        assert not any(running.is_running(pid) for pid in seen)


def test_workers_that_die_while_they_start_are_replaced_at_once(folder: Path) -> None:
    with running.server(folder, "--workers", WORKERS) as (server, address):
        until(lambda: len(running.workers(server.pid)) == WORKERS)
        time.sleep(1)  # by now they are asked whether they are well, and answer as soon as they can
        began, first = time.monotonic(), running.workers(server.pid)
        for pid in first:
            os.kill(pid, signal.SIGKILL)
        until(lambda: len(set(running.workers(server.pid)) - set(first)) == WORKERS)
        assert time.monotonic() - began < 3 / 4 * WORKER_START_SECONDS
        assert httpx2.get(f"{address}/health", timeout=LONG).status_code == 200


def test_a_server_that_is_told_to_end_while_it_starts_ends(folder: Path) -> None:
    server, line = running.start(folder, "--port", 0)
    try:
        assert "serving" in line
        server.send_signal(signal.SIGTERM)
        assert server.wait(LONG) in (0, -signal.SIGTERM)
    finally:
        server.kill()
        server.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_is_told_to_end_leaves_no_worker_behind(folder: Path, number: signal.Signals) -> None:
    with running.server(folder, "--workers", WORKERS) as (server, address):
        assert httpx2.get(f"{address}/health", timeout=LONG).status_code == 200
        workers = running.workers(server.pid)
        assert len(workers) == WORKERS
        server.send_signal(number)
        _, said = server.communicate(timeout=LONG)
        assert (server.returncode, said.split()) == (0, ["stopped"])
        assert not any(running.is_running(pid) for pid in workers)


def test_workers_end_when_the_process_that_looks_after_them_is_killed(folder: Path) -> None:
    with running.server(folder, "--workers", WORKERS) as (server, address):
        assert httpx2.get(f"{address}/health", timeout=LONG).status_code == 200
        workers = running.workers(server.pid)
        server.kill()
        until(lambda: not any(running.is_running(pid) for pid in workers))
        with pytest.raises(httpx2.ConnectError):
            httpx2.get(f"{address}/health", timeout=LONG)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the setting is glibc's")
@pytest.mark.parametrize("returned", [True, False])
def test_large_pieces_of_memory_go_back_to_the_system_even_after_larger_ones(returned: bool) -> None:
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
    # Dask, where a test has used it before, tells all children its own wishes.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == [str(returned)]
