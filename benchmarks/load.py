"""A server under load: clients that ask without a pause, one of which writes. Prints one JSON object.

python benchmarks/load.py INDEX [--clients 16] [--seconds 60] [--workers 1] [--write]

Starts ``cr5 serve`` on a copy of the index, asks for a while to warm up, and then measures: every answer that is not
200 is an error, latencies are those of the clients. Memory is that of the server with its workers, without files that
are mapped, read every second: at the beginning, after each quarter, and the slope of the line through the second half,
in which a leak would show and what only fills up has ended. Queries are titles of the index. Clients are processes, so
that they do not wait for each other; on few cores they take time from the server.
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
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from cr5.index import Index

SERVE = "import typer; from cr5.cli.serve import serve; typer.run(serve)"
WARM_UP = 10  # seconds
EVERY = 1.0  # seconds between two readings of the memory


def ask(port: int, paths: list[str], span: float, seed: int, sink: Any) -> None:
    """Ask one path after another for ``span`` seconds; puts errors, and the seconds of each, into the sink."""
    until = time.time() + span
    rng, errors, seconds = np.random.default_rng(seed), [], []
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    while time.time() < until:
        path = paths[rng.integers(len(paths))]
        began = time.perf_counter()
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
            if answer.status != 200:
                errors.append(f"{answer.status} {path}")
        except OSError as error:
            errors.append(f"{error!r} {path}")
            connection.close()
        seconds.append(time.perf_counter() - began)
    sink.put((errors, seconds))


def write(port: int, texts: list[tuple[str, str]], span: float, sink: Any) -> None:
    """Add and delete one document after another, with pauses."""
    until = time.time() + span
    errors, seconds = [], []
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    for number in range(10**9):
        if time.time() > until:
            break
        lang, text = texts[number % len(texts)]
        body = json.dumps({"documents": [{"concept": "load", "lang": lang, "text": text}]})
        for method, path in [("POST", "/documents"), ("DELETE", f"/documents/{lang}:load")]:
            began = time.perf_counter()
            connection.request(method, path, body if method == "POST" else None, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            seconds.append(time.perf_counter() - began)
            if answer.status != 200:
                errors.append(f"{answer.status} {path}")
        time.sleep(0.5)
    sink.put((errors, seconds))


def memory(server: int) -> float:
    """Megabytes of a process and those it started that no file backs: pages of files come and go as others map them."""
    children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
    return sum(memory_of(int(pid)) for pid in [server, *children])


def memory_of(pid: int) -> float:
    """Megabytes of one process; 0 when it has just ended."""
    try:
        [kilobytes] = re.findall(r"^Pss_Anon:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return int(kilobytes) / 1024


def watch(server: int, over: threading.Event, samples: list[tuple[float, float]]) -> None:
    """Note the time and the memory of a server every second until it is over."""
    while not over.wait(EVERY):
        samples.append((time.monotonic(), memory(server)))


def growth(samples: list[tuple[float, float]]) -> dict[str, Any]:
    """Megabytes at the beginning and after each quarter, and their growth in a minute over the second half."""
    times, sizes = np.array(samples).T
    quarters = np.linspace(times[0], times[-1], 5)
    late = times >= quarters[2]
    slope = np.polyfit(times[late], sizes[late], 1)[0]
    return {
        "memory_mb": np.interp(quarters, times, sizes).round(1).tolist(),
        "memory_growth_mb_per_minute": round(60 * float(slope), 2),
    }


def load(port: int, asked: list[str], texts: list[tuple[str, str]], clients: int, seconds: float) -> dict[str, Any]:
    """Latencies in milliseconds and errors of some clients over some seconds."""
    context = multiprocessing.get_context("forkserver")  # LanceDB does not like to be forked
    sink: Any = context.Queue()
    crew = [context.Process(target=ask, args=(port, asked, seconds, seed, sink)) for seed in range(clients)]
    if texts:
        crew.append(context.Process(target=write, args=(port, texts, seconds, sink)))
    for process in crew:
        process.start()
    results = [sink.get() for _ in crew]
    for process in crew:
        process.join()
    errors = [error for some, _ in results for error in some]
    times = 1000 * np.concatenate([taken for _, taken in results])
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
    parser.add_argument("--write", action="store_true", help="one more client adds and deletes documents")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "index"
        shutil.copytree(given.index, place)
        index = Index.open(place)
        rows = next(iter(index.scan(("id", "lang", "title", "text"), batch_rows=2000))).to_pylist()
        documents = sum(index.about()["documents"].values())
        index.close()
        queries = [row["title"] or row["text"][:60] for row in rows]
        asked = [f"/search?q={quote(query)}" for query in queries]
        asked += [f"/search?q={quote(query)}&lang={row['lang']}" for query, row in zip(queries, rows, strict=True)]
        asked += [f"/similar?id={quote(row['id'])}" for row in rows[:500]]
        texts = [(row["lang"], row["text"]) for row in rows[:100]] if given.write else []
        command = [sys.executable, "-c", SERVE, str(place), "--port", "0", "--workers", str(given.workers)]
        server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert server.stderr is not None
        [port] = map(int, re.findall(r":(\d+)/", server.stderr.readline()))
        threading.Thread(target=sys.stderr.writelines, args=(server.stderr,)).start()  # its log
        warm = load(port, asked, texts, given.clients, WARM_UP)
        over, samples = threading.Event(), [(time.monotonic(), memory(server.pid))]
        watching = threading.Thread(target=watch, args=(server.pid, over, samples))
        watching.start()
        figures = load(port, asked, texts, given.clients, given.seconds)
        over.set()
        watching.join()
        alone = load(port, asked, [], 1, 10)
        server.send_signal(signal.SIGTERM)
        code = server.wait(60)
    about = {
        "benchmark": "load",
        "documents": documents,
        "clients": given.clients,
        "seconds": given.seconds,
        "workers": given.workers,
        "writing": given.write,
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
