"""A server under load: clients send requests without a pause, and one of them may write. Prints one JSON object.

python benchmarks/load.py INDEX [--clients 16] [--seconds 60] [--workers 1] [--write]

Starts ``cr5 serve`` on a copy of the index, warms it up, and then measures. Every response with a status other than 200
is an error; latencies are measured by the clients. Memory is that of the server and its workers without mapped files,
read every second: at the beginning, after each quarter, and its slope over the second half, where a leak shows and
caches have filled. Queries are titles of the index. Clients are processes, so that they do not wait for each other; on
few cores they compete with the server.
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
from http.client import HTTPConnection
from itertools import cycle, islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from cr5.index import Index

SERVE = "import typer; from cr5.cli.serve import serve; typer.run(serve)"
WARM_UP_SECONDS = 10
MEMORY_INTERVAL_SECONDS = 1.0


def send_requests(port: int, paths: list[str], span: float, seed: int, results: Any) -> None:
    """Request random paths for ``span`` seconds; puts the errors and the seconds of each request in a queue."""
    deadline = time.time() + span
    rng, errors, seconds = np.random.default_rng(seed), [], []
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    while time.time() < deadline:
        path = paths[rng.integers(len(paths))]
        started = time.perf_counter()
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            response.read()
            if response.status != 200:
                errors.append(f"{response.status} {path}")
        except OSError as error:
            errors.append(f"{error!r} {path}")
            connection.close()
        seconds.append(time.perf_counter() - started)
    results.put((errors, seconds))


def write(port: int, texts: list[tuple[str, str]], span: float, results: Any) -> None:
    """Add and delete one document after another, with pauses."""
    deadline = time.time() + span
    errors, seconds = [], []
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    for lang, text in cycle(texts):
        if time.time() > deadline:
            break
        body = json.dumps({"documents": [{"concept": "load", "lang": lang, "text": text}]})
        for method, path in [("POST", "/documents"), ("DELETE", f"/documents/{lang}:load")]:
            started = time.perf_counter()
            connection.request(method, path, body if method == "POST" else None, {"Content-Type": "application/json"})
            response = connection.getresponse()
            response.read()
            seconds.append(time.perf_counter() - started)
            if response.status != 200:
                errors.append(f"{response.status} {path}")
        time.sleep(0.5)
    results.put((errors, seconds))


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


def load(port: int, paths: list[str], texts: list[tuple[str, str]], clients: int, seconds: float) -> dict[str, Any]:
    """Latencies in milliseconds and errors of some clients; with ``texts``, one more client writes."""
    context = multiprocessing.get_context("forkserver")  # LanceDB does not support forking
    results: Any = context.Queue()
    processes = [context.Process(target=send_requests, args=(port, paths, seconds, i, results)) for i in range(clients)]
    if texts:
        processes.append(context.Process(target=write, args=(port, texts, seconds, results)))
    for process in processes:
        process.start()
    measured = [results.get() for _ in processes]
    for process in processes:
        process.join()
    errors = [error for client_errors, _ in measured for error in client_errors]
    times = 1000 * np.concatenate([client_seconds for _, client_seconds in measured])
    p50, p95, p99 = np.percentile(times, [50, 95, 99])
    return {
        "requests": len(times),
        "requests_per_second": len(times) / seconds,
        "errors": len(errors),
        "first_error": errors[0] if errors else None,
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
        warm = load(port, paths, texts, arguments.clients, WARM_UP_SECONDS)
        stopped, samples = threading.Event(), [(time.monotonic(), memory(server.pid))]
        recorder = threading.Thread(target=record_memory, args=(server.pid, stopped, samples))
        recorder.start()
        figures = load(port, paths, texts, arguments.clients, arguments.seconds)
        stopped.set()
        recorder.join()
        alone = load(port, paths, [], 1, 10)
        server.send_signal(signal.SIGTERM)
        code = server.wait(60)
    about = {
        "benchmark": "load",
        "documents": documents,
        "clients": arguments.clients,
        "seconds": arguments.seconds,
        "workers": arguments.workers,
        "writing": arguments.write,
        "cores": os.cpu_count(),
    }
    after = {
        "warm_up_errors": warm["errors"],
        "one_client_p50_ms": alone["p50_ms"],
        "one_client_p95_ms": alone["p95_ms"],
        "exit": code,
    }
    print(json.dumps(about | figures | growth(samples) | after))


if __name__ == "__main__":
    main()
