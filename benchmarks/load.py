"""A server under load: clients send requests without a pause, and one of them may write. Prints one JSON object.

python benchmarks/load.py INDEX [--clients 16] [--seconds 60] [--workers 1] [--write]
    [--restart-interval 60] [--kill-interval 90]

Starts ``cr5 serve`` on a copy of the index, warms it up, and then measures. Every response with a status other than 200
is an error; latencies are measured by the clients. An answer is wrong if its first hit, apart from documents that are
written meanwhile, is not among the first three that the server gave before the load. Memory is that of the server
and its workers without mapped files, read every second: at the beginning, after each quarter, and its slope over the
second half, where a leak shows and caches have filled. Queries are titles of the index. Clients are processes, so that
they do not wait for each other; on few cores they compete with the server.

``--restart-interval`` sends SIGHUP to the server, which replaces all workers one by one. ``--kill-interval`` kills one
worker by SIGKILL: the requests that it was answering are lost with it. A client whose connection is closed without an
answer sends the request once more, as proxies do, and counts it as dropped.
"""

import argparse
import json
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from http.client import HTTPConnection, HTTPException
from itertools import cycle, islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from cr5.index import Index

SERVE = "import typer; from cr5.cli.serve import serve; typer.run(serve)"
WARM_UP_SECONDS = 10
MEMORY_INTERVAL_SECONDS = 1.0
PATHS = 500  # that are requested
WRITTEN = ":load"  # the end of the ids of documents that are written during the load


class Client:
    """A connection that counts what went wrong."""

    def __init__(self, port: int) -> None:
        self.connection = HTTPConnection("127.0.0.1", port, timeout=60)
        self.errors: list[str] = []
        self.seconds: list[float] = []
        self.dropped = 0

    def send(self, method: str, path: str, body: str | None = None) -> Any:
        """The content of the response, None after an error; a request whose connection is closed is sent once more."""
        started = time.perf_counter()
        try:
            try:
                return self._send(method, path, body)
            except (ConnectionError, HTTPException):
                self.dropped += 1
                self.connection.close()
                return self._send(method, path, body)
        except (OSError, HTTPException) as error:
            self.errors.append(f"{error!r} {path}")
            self.connection.close()
            return None
        finally:
            self.seconds.append(time.perf_counter() - started)

    def _send(self, method: str, path: str, body: str | None) -> Any:
        self.connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
        response = self.connection.getresponse()
        content = response.read()
        if response.status != 200:
            self.errors.append(f"{response.status} {path}")
            return None
        return json.loads(content)


def hits_of(answer: Any) -> list[str]:
    """The ids of the hits, apart from documents that are written during the load."""
    return [hit["id"] for hit in answer["hits"] if not hit["id"].endswith(WRITTEN)]


def send_requests(port: int, expected: dict[str, list[str]], span: float, seed: int, results: Any) -> None:
    """Request random paths for ``span`` seconds, and compare the first hit with those that are expected."""
    deadline, paths = time.time() + span, list(expected)
    rng, client, wrong = np.random.default_rng(seed), Client(port), []
    while time.time() < deadline:
        path = paths[rng.integers(len(paths))]
        answer = client.send("GET", path)
        hits = hits_of(answer) if answer else []
        if answer and hits[:1] != expected[path][:1] and not {*hits[:1]} & {*expected[path]}:
            wrong.append(path)
    results.put((client.errors, client.seconds, client.dropped, wrong))


def write(port: int, texts: list[tuple[str, str]], span: float, results: Any) -> None:
    """Add and delete one document after another, with pauses; one that was added must be there, and then be gone."""
    deadline, client, wrong = time.time() + span, Client(port), []
    for lang, text in cycle(texts):
        if time.time() > deadline:
            break
        path = f"/documents/{lang}{WRITTEN}"
        body = json.dumps({"documents": [{"concept": WRITTEN[1:], "lang": lang, "text": text}]})
        if client.send("POST", "/documents", body) and (client.send("GET", path) or {}).get("text") != text:
            wrong.append(f"after POST: {path}")
        deleted = client.send("DELETE", path)
        if not deleted or deleted["deleted"] != 1:
            wrong.append(f"DELETE: {path}: {deleted}")
        time.sleep(0.5)
    results.put((client.errors, client.seconds, client.dropped, wrong))


def disturb(server: int, restart: float | None, kill: float | None, stopped: threading.Event, done: list[str]) -> None:
    """Restart all workers, and kill one, at intervals, until ``stopped`` is set."""
    began, turns = time.monotonic(), {"restart": 1, "kill": 1}
    while not stopped.wait(0.5):
        seconds = time.monotonic() - began
        if restart and seconds >= restart * turns["restart"]:
            turns["restart"] += 1
            os.kill(server, signal.SIGHUP)
            done.append("restart")
        if kill and seconds >= kill * turns["kill"]:
            turns["kill"] += 1
            os.kill(workers_of(server)[0], signal.SIGKILL)
            done.append("kill")


def workers_of(server: int) -> list[int]:
    """The worker processes of a server, oldest first; multiprocessing has one more child, which tracks resources."""
    children = map(int, Path(f"/proc/{server}/task/{server}/children").read_text().split())
    return [pid for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def memory(server: int) -> float:
    """Megabytes of anonymous memory of a process and its children; pages of mapped files depend on other processes."""
    children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
    return sum(memory_of(int(pid)) for pid in [server, *children])


def memory_of(pid: int) -> float:
    """Megabytes of anonymous memory of one process; 0 if it has just ended."""
    try:
        [kilobytes] = re.findall(r"^Pss_Anon:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return int(kilobytes) / 1024


def record_memory(server: int, stopped: threading.Event, samples: list[tuple[float, float]]) -> None:
    """Append the time and the memory of a server every second until ``stopped`` is set."""
    while not stopped.wait(MEMORY_INTERVAL_SECONDS):
        samples.append((time.monotonic(), memory(server)))


def growth(samples: list[tuple[float, float]]) -> dict[str, Any]:
    """Megabytes at the beginning and after each quarter, and their growth per minute in the second half."""
    times, sizes = np.array(samples).T
    quarters = np.linspace(times[0], times[-1], 5)
    second_half = times >= quarters[2]
    slope = np.polyfit(times[second_half], sizes[second_half], 1)[0]
    return {
        "memory_mb": np.interp(quarters, times, sizes).round(1).tolist(),
        "memory_growth_mb_per_minute": round(60 * float(slope), 2),
    }


def load(
    port: int, expected: dict[str, list[str]], texts: list[tuple[str, str]], clients: int, seconds: float
) -> dict[str, Any]:
    """Latencies in milliseconds and errors of some clients; with ``texts``, one more client writes."""
    context = multiprocessing.get_context("forkserver")  # LanceDB does not support forking
    results: Any = context.Queue()
    arguments = [(port, expected, seconds, i, results) for i in range(clients)]
    processes = [context.Process(target=send_requests, args=each) for each in arguments]
    if texts:
        processes.append(context.Process(target=write, args=(port, texts, seconds, results)))
    for process in processes:
        process.start()
    measured = [results.get() for _ in processes]
    for process in processes:
        process.join()
    errors, wrong = ([text for client in measured for text in client[i]] for i in (0, 3))
    times = 1000 * np.concatenate([client[1] for client in measured])
    p50, p95, p99 = np.percentile(times, [50, 95, 99])
    return {
        "requests": len(times),
        "requests_per_second": len(times) / seconds,
        "errors": len(errors),
        "wrong_answers": len(wrong),
        "dropped_connections": sum(client[2] for client in measured),
        "first_errors": errors[:3] + wrong[:3],
        "p50_ms": p50,
        "p95_ms": p95,
        "p99_ms": p99,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("index", type=Path)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="let one more client add and delete documents")
    parser.add_argument("--restart-interval", type=float, help="seconds; needs several workers")
    parser.add_argument("--kill-interval", type=float, help="seconds; needs several workers")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "index"
        shutil.copytree(arguments.index, copy)
        index = Index.open(copy)
        batches = index.scan(("id", "lang", "title", "text"))
        rows = list(islice((row for batch in batches for row in batch.to_pylist()), 2000))
        documents = sum(index.count().values())
        index.close()
        queries = [row["title"] or row["text"][:60] for row in rows]
        paths = [f"/search?q={quote(query)}" for query in queries]
        paths += [f"/search?q={quote(query)}&lang={row['lang']}" for query, row in zip(queries, rows, strict=True)]
        paths += [f"/similar?id={quote(row['id'])}" for row in rows[:500]]
        texts = [(row["lang"], row["text"]) for row in rows[:100]] if arguments.write else []
        command = [sys.executable, "-c", SERVE, str(copy), "--port", "0", "--workers", str(arguments.workers)]
        server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert server.stderr is not None
        [port] = map(int, re.findall(r":(\d+)/", server.stderr.readline()))
        threading.Thread(target=sys.stderr.writelines, args=(server.stderr,)).start()  # its log
        client, rng = Client(port), np.random.default_rng(0)
        expected = {}
        for path in rng.choice(paths, min(PATHS, len(paths)), replace=False).tolist():
            expected[path] = hits_of(client.send("GET", path))[:3]
        assert not client.errors, client.errors
        warm = load(port, expected, texts, arguments.clients, WARM_UP_SECONDS)
        stopped, samples = threading.Event(), [(time.monotonic(), memory(server.pid))]
        recorder = threading.Thread(target=record_memory, args=(server.pid, stopped, samples))
        recorder.start()
        disturbances: list[str] = []
        intervals = (arguments.restart_interval, arguments.kill_interval)
        disturber = threading.Thread(target=disturb, args=(server.pid, *intervals, stopped, disturbances))
        disturber.start()
        figures = load(port, expected, texts, arguments.clients, arguments.seconds)
        stopped.set()
        recorder.join()
        disturber.join()
        alone = load(port, expected, [], 1, 10)
        server.send_signal(signal.SIGTERM)
        code = server.wait(60)
    about = {
        "benchmark": "load",
        "documents": documents,
        "clients": arguments.clients,
        "seconds": arguments.seconds,
        "workers": arguments.workers,
        "writing": arguments.write,
        "restarts": disturbances.count("restart"),
        "killed_workers": disturbances.count("kill"),
        "cores": os.cpu_count(),
    }
    after = {
        "warm_up_errors": warm["errors"],
        "one_client_requests_per_second": alone["requests_per_second"],
        "one_client_p50_ms": alone["p50_ms"],
        "one_client_p95_ms": alone["p95_ms"],
        "exit": code,
    }
    print(json.dumps(about | figures | growth(samples) | after))


if __name__ == "__main__":
    main()
