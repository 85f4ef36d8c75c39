"""How long one client waits for a search and for /health over HTTP. Prints one JSON object.

python benchmarks/latency.py INDEX [--queries FILE] [--rounds 6] [--workers 1] [--parameters "&group=concept"]
    [--titles 500]

Starts ``cr5 serve`` and searches for some titles of documents. Then, over one connection, each query is sent in turn
with ``/health``, all queries in each round. Because the server remembers what it has computed for recent words and
texts, the first round, in which every query is new, is reported on its own. ``fastest`` has, for each query, the
fastest of its later rounds, which depends less on what else runs on the machine. Requests are prepared bytes and
responses are not parsed while the clock runs, so that the client hardly takes time of its own. ``milliseconds`` is the
time that the response states. The processor time of the server, all threads, is that of the searches of two rounds
without ``/health``, and of as many ``/health`` as there are queries, divided by their number.
"""

import argparse
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from cr5.index import Index

SERVE = "import typer; from cr5.cli.serve import serve; typer.run(serve)"
QUERIES = Path(__file__).with_name("encyclopedia_queries.jsonl")


class Client:
    """A connection to a server on this machine."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def get(self, request: bytes) -> tuple[float, bytes]:
        """The seconds from a request to the end of its response, and the body; any status but 200 is an error."""
        started = time.perf_counter()
        self.socket.sendall(request)
        received = self.socket.recv(2**18)
        end = received.index(b"\r\n\r\n") + 4
        size = int(received[:end].lower().partition(b"content-length: ")[2].partition(b"\r")[0])
        while len(received) < end + size:
            received += self.socket.recv(2**18)
        seconds = time.perf_counter() - started
        if not received.startswith(b"HTTP/1.1 200"):
            raise SystemExit(received.decode())
        return seconds, received[end:]


def request(path: str) -> bytes:
    """The bytes of a GET request."""
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()


def processor_seconds(server: int) -> float:
    """The processor time of all threads of a process and of its children, as the scheduler of Linux measures it."""
    tree = [server, *map(int, Path(f"/proc/{server}/task/{server}/children").read_text().split())]
    threads = [thread for pid in tree for thread in Path(f"/proc/{pid}/task").iterdir()]
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


def percentiles(seconds: Any) -> dict[str, float]:
    """Median and 95th percentile in milliseconds."""
    p50, p95 = np.percentile(1000 * seconds, [50, 95]).round(3).tolist()
    return {"p50": p50, "p95": p95}


def in_turn(client: Client, searches: list[bytes], health: bytes, rounds: int) -> tuple[Any, Any]:
    """Latencies of searches and of ``/health``, in turn: of all requests, and of the fastest round of each query."""
    times = np.empty((3, rounds, len(searches)))
    for turn in range(rounds):
        for i, search in enumerate(searches):
            times[0, turn, i] = client.get(health)[0]
            times[1, turn, i], body = client.get(search)
            times[2, turn, i] = json.loads(body)["milliseconds"] / 1000
    return figures(times.reshape(3, -1)), figures(times.min(axis=1))


def figures(times: Any) -> dict[str, Any]:
    """Percentiles of the times of ``/health``, of searches and of those that responses state, one row each."""
    of_health, of_searches, stated = map(percentiles, times)
    ratio = round(of_searches["p50"] / of_health["p50"], 2)
    return {"search_ms": of_searches, "health_ms": of_health, "ratio": ratio, "milliseconds": stated}


def processor_ms(server: int, client: Client, requests: list[bytes]) -> tuple[float, float]:
    """The mean processor time of a request, in milliseconds: of the server, and of the client."""
    began, own = processor_seconds(server), time.process_time()
    for each in requests:
        client.get(each)
    own = time.process_time() - own
    return tuple(round(1000 * value / len(requests), 3) for value in (processor_seconds(server) - began, own))  # type: ignore[return-value]


def wait_until_ready(client: Client) -> None:
    """Wait for the warm-up searches of the server."""
    while True:
        try:
            client.get(request("/ready"))
            return
        except SystemExit:
            time.sleep(0.2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("index", type=Path)
    parser.add_argument("--queries", type=Path, default=QUERIES)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--titles", type=int, default=500, help="searches before anything is measured")
    parser.add_argument("--parameters", default="", help='of each search, such as "&group=concept"')
    arguments = parser.parse_args()
    queries = [json.loads(line)["query"] for line in arguments.queries.read_text(encoding="utf-8").splitlines()]
    searches = [request(f"/search?q={quote(query)}{arguments.parameters}") for query in queries]
    index = Index.open(arguments.index)
    titles = np.array([row["title"] for rows in index.scan(("title",)) for row in rows.to_pylist() if row["title"]])
    index.close()
    chosen = np.random.default_rng(0).choice(titles, min(arguments.titles, len(titles)), replace=False).tolist()
    health = request("/health")
    command = [sys.executable, "-c", SERVE, str(arguments.index), "--port", "0", "--workers", str(arguments.workers)]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    [port] = map(int, re.findall(r":(\d+)/", server.stderr.readline()))
    client = Client(port)
    wait_until_ready(client)
    for title in chosen:
        client.get(request(f"/search?q={quote(title)}{arguments.parameters}"))
        client.get(health)
    first, _ = in_turn(client, searches, health, 1)
    later, fastest = in_turn(client, searches, health, arguments.rounds - 1)
    of_search, of_client = processor_ms(server.pid, client, searches * 2)
    of_health, _ = processor_ms(server.pid, client, [health] * len(searches))
    client.socket.close()
    server.send_signal(signal.SIGTERM)
    server.wait(60)
    processor = {"search": of_search, "health": of_health, "client": of_client}
    about = {"benchmark": "latency", "queries": len(queries), "rounds": arguments.rounds, "workers": arguments.workers}
    print(
        json.dumps(
            about
            | {"first": first, "later": later, "fastest": fastest, "processor_ms": processor, "cores": os.cpu_count()}
        )
    )


if __name__ == "__main__":
    main()
