"""A server under random requests: bytes on raw sockets, and requests made from the schema. Prints one JSON object.

python benchmarks/fuzz.py INDEX [--minutes 60] [--seed 0] [--workers 1]

Starts ``cr5 serve`` on a copy of the index. One thread sends valid requests that are mutated (bytes changed, parts
inserted, repeated or left out, sent in pieces, pipelined, closed or reset in the middle); at the same time schemathesis
sends valid and invalid requests for every operation, writes included, and compares the responses with the schema. A
response with status 500, or with 502 or more other than 503 and 507, is a finding, and so are a response that does not
match the schema, a stack trace in the log, a worker that ends, /health without 200, and an index that cannot be
searched afterwards. The exit status is 1 if there is a finding.
"""

import argparse
import json
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import hypothesis
import schemathesis
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from cr5.index import Index

SERVE = "import typer; from cr5.cli.serve import serve; typer.run(serve)"
CONNECTIONS, READ_SECONDS = 20, 0.5
TIMEOUT_SECONDS = 600  # on a busy machine
EXAMPLES = 20  # of one operation, before the next has its turn
REFUSED = {"checks": {"negative_data_rejection": {"expected-statuses": [400, 404, 413, 415, 422]}}}
BODY = b'{"q": "dog", "k": 3, "where": {"year": {">=": 2000}}}'
DOCUMENTS = b'{"documents": [{"concept": "fuzz", "lang": "en", "text": "A dog and a cat."}]}'
HOST, JSON = b"Host: 127.0.0.1\r\n", b"Content-Type: application/json\r\n"
VALID = [
    b"GET /health HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /search?q=dog&k=5&group=concept HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /static/app.js HTTP/1.1\r\n" + HOST + b"\r\n",
    b"POST /search HTTP/1.1\r\n" + HOST + JSON + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY,
    b"POST /search HTTP/1.1\r\n" + HOST + JSON + b"Transfer-Encoding: chunked\r\n\r\n"
    + b"%x\r\n" % len(BODY) + BODY + b"\r\n0\r\n\r\n",
    b"POST /documents HTTP/1.1\r\n" + HOST + JSON + b"Content-Length: %d\r\n\r\n" % len(DOCUMENTS) + DOCUMENTS,
    b"DELETE /documents/en:fuzz HTTP/1.1\r\n" + HOST + b"\r\n",
]  # fmt: skip
PARTS = [
    b"GET ", b"POST ", b"HEAD ", b"\x16\x03\x01", b"%00", b"%ff", b"%2e%2e/", b"*", b" HTTP/1.0", b" HTTP/9.9", b"\r\n",
    b"\n", b"\r", b"\r\n\r\n", b"Host:\r\n", b"Content-Length: 5\r\n", b"Content-Length: -1\r\n", b"0\r\n\r\n",
    b"Content-Length: 99999999999999999999\r\n", b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: gzip\r\n",
    b"5\r\nhello\r\n", b"fffffffff\r\n", b"Expect: 100-continue\r\n", b"Connection: upgrade\r\n", b"Upgrade: h2c\r\n",
    b"X: " + b"a" * 5000 + b"\r\n", b" folded\r\n", b"\x00", b"\xff\xfe", b'"', b"{", b"[" * 500, b"\\ud800", b"1e999",
    b"&k=-1", b"&where={", b"&lang=%F0%9F%90%95", b"\xf0\x9f\x90\x95",
]  # fmt: skip


class Findings:
    """Responses by status, and what must not happen, of several threads."""

    def __init__(self) -> None:
        self.statuses, self.found, self._lock = Counter[str](), Counter[str](), threading.Lock()

    def status(self, kind: str, status: int, what: object) -> None:
        """Count a response."""
        with self._lock:
            self.statuses[f"{kind} {status}"] += 1
        if status >= 500 and status not in (501, 503, 507):
            self.add(f"{kind}: status {status}: {what}")

    def add(self, text: str) -> None:
        """Note a finding, and show it when it is new."""
        with self._lock:
            self.found[text[:400]] += 1
            if self.found[text[:400]] == 1:
                print(text[:400], file=sys.stderr, flush=True)


def mutate(request: bytes, chance: random.Random) -> bytes:
    """A request with up to eight random changes."""
    data = bytearray(request)
    for _ in range(chance.randrange(9)):
        place = chance.randrange(len(data) + 1)
        change = chance.randrange(5)
        if change == 0:
            data[place:place] = chance.choice(PARTS)
        elif change == 1:
            data[place : place + 1] = bytes([chance.randrange(256)])
        elif change == 2:
            del data[place : place + chance.randrange(1, 40)]
        elif change == 3:
            data[place:place] = data[place : place + chance.randrange(1, 80)]
        else:
            data += chance.choice(VALID)
    return bytes(data)


def send_bytes(port: int, end: float, seed: int, findings: Findings, counts: Counter[str]) -> None:
    """Send mutated requests until ``end``, many connections at a time."""
    chance = random.Random(seed)
    while time.monotonic() < end:
        with ExitStack() as stack:
            sent = []
            for _ in range(CONNECTIONS):
                connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
                request = mutate(chance.choice(VALID), chance)
                pieces = sorted(chance.randrange(len(request) + 1) for _ in range(chance.randrange(3)))
                with suppress(ConnectionError):
                    for begin, stop in zip([0, *pieces], [*pieces, len(request)], strict=True):
                        connection.sendall(request[begin:stop])
                if chance.random() < 0.1:  # a reset
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    connection.close()
                else:
                    sent.append((connection, request))
                counts["raw"] += 1
            for connection, request in sent:
                for status in re.findall(rb"HTTP/1\.1 (\d{3})", read(connection)):
                    findings.status("raw", int(status), request)
        check_health(port, findings)


def read(connection: socket.socket) -> bytes:
    """What arrives until the end of a connection, or until nothing arrives for a moment."""
    connection.settimeout(READ_SECONDS)
    parts = [b""]
    with suppress(OSError):
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


def check_health(port: int, findings: Findings) -> None:
    """Note whether the server does not answer."""
    connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
    try:
        connection.request("GET", "/health")
        if (status := connection.getresponse().status) != 200:
            findings.add(f"/health: {status}")
    except OSError as error:
        findings.add(f"/health: {error!r}")
    finally:
        connection.close()


def is_ready(port: int) -> bool:
    """Whether all workers answer."""
    connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
    connection.request("GET", "/ready")
    return connection.getresponse().status == 200


def send_schema(port: int, end: float, seed: int, findings: Findings, counts: Counter[str]) -> None:
    """Send requests that schemathesis makes until ``end``, and compare the responses with the schema."""
    config = schemathesis.Config.from_dict(REFUSED)
    address = f"http://127.0.0.1:{port}/openapi.json"
    schema = schemathesis.openapi.from_url(address, config=config, timeout=TIMEOUT_SECONDS)
    operations: list[Any] = [result.ok() for result in schema.get_all_operations()]  # type: ignore[union-attr]

    def try_case(case: Any) -> None:
        if time.monotonic() > end:
            return
        counts["schema"] += 1
        try:
            response = case.call(timeout=TIMEOUT_SECONDS)
        except Exception as error:
            findings.add(f"schema: {case.method} {case.path}: {error!r}")
            return
        findings.status("schema", response.status_code, f"{case.method} {case.path}")
        try:
            case.validate_response(response, excluded_checks=[positive_data_acceptance, not_a_server_error])
        except (Exception, BaseExceptionGroup) as error:  # a group of schemathesis' failures is no Exception
            findings.add(f"schema: {case.method} {case.path}: {error}")

    while time.monotonic() < end:
        for operation in operations:
            for mode in GenerationMode:
                run = hypothesis.given(case=operation.as_strategy(generation_mode=mode))(try_case)
                settings = hypothesis.settings(
                    max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=[*hypothesis.HealthCheck]
                )
                seed += 1
                with suppress(Unsatisfiable):  # an operation without anything to do wrong
                    hypothesis.seed(seed)(settings(run))()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("index", type=Path)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # which stops the server, too
    findings, counts = Findings(), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        copy, log = Path(folder) / "index", Path(folder) / "log"
        shutil.copytree(arguments.index, copy)
        command = [sys.executable, "-c", SERVE, str(copy), "--port", "0", "--workers", str(arguments.workers)]
        with log.open("w") as written:
            server = subprocess.Popen(command, stderr=written)
        while not (ports := re.findall(r":(\d+)/ ", log.read_text())):
            time.sleep(0.1)
        [port] = map(int, ports)
        try:
            while not is_ready(port):
                time.sleep(0.1)
            end = time.monotonic() + 60 * arguments.minutes
            raw = threading.Thread(target=send_bytes, args=(port, end, arguments.seed, findings, counts))
            raw.start()
            send_schema(port, end, arguments.seed, findings, counts)
            raw.join()
            check_health(port, findings)
        finally:
            server.send_signal(signal.SIGTERM)
            code = server.wait(TIMEOUT_SECONDS)
        lines = log.read_text().splitlines()
        for line in lines:
            if re.search(r"^  |has ended|error:", line):
                findings.add(f"log: {line}")
        with Index.open(copy) as index:
            documents = len(index)
            assert index.search("dog", "en").hits
    about = {"benchmark": "fuzz", "minutes": arguments.minutes, "workers": arguments.workers, "requests": dict(counts)}
    after = {"findings": dict(findings.found.most_common(50)), "log_lines": len(lines), "exit": code}
    print(json.dumps(about | {"statuses": dict(sorted(findings.statuses.items())), "documents": documents} | after))
    sys.exit(bool(findings.found) or code not in (0, -signal.SIGTERM))


if __name__ == "__main__":
    main()
