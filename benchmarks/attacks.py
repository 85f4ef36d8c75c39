"""Attacks on ``cr5 serve`` and on other servers for the same kind of application. Prints a JSON object for each attack.

python benchmarks/attacks.py SERVER [--index INDEX] [--python PYTHON] [--seconds 15] [--open-files 1024]

SERVER is cr5, with an index, or uvicorn, hypercorn or granian, each with an application of ten lines that answers every
request at once; PYTHON is an interpreter that has the package. The server runs on this machine under a limit on open
files, and is started again for every attack:

- unsent bodies: 260 connections send a GET with a Content-Length, and never the body;
- idle: 1,100 connections send nothing;
- half header: 1,100 connections send half a header;
- slow header: 1,100 connections send one byte of a header after each request for /health.

During the attack, /health is asked on a new connection twice a second, with a timeout of 5 s. At the end, the
connections that the server has closed are counted, and its log, processor time and open files are measured.
"""

import argparse
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path

APPLICATION = """
async def application(scope, receive, send):
    while scope["type"] == "lifespan":
        event = (await receive())["type"]
        await send({"type": event + ".complete"})
        if event == "lifespan.shutdown":
            return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})
"""
SERVE = "import typer; from cr5.cli.serve import serve; typer.run(serve)"
COMMANDS = {
    "cr5": ["-c", SERVE, "{index}", "--port", "{port}"],
    "uvicorn": ["-m", "uvicorn", "attacked:application", "--port", "{port}"],
    "hypercorn": ["-m", "hypercorn", "attacked:application", "--bind", "127.0.0.1:{port}"],
    "granian": ["-m", "granian", "--interface", "asgi", "attacked:application", "--port", "{port}"],
}
ATTACKS = {
    "unsent bodies": (260, b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n"),
    "idle": (1100, b""),
    "half header": (1100, b"GET /health HTTP/1.1\r\nHost: 127.0"),
    "slow header": (1100, b"GET /health HTTP/1.1\r\nX: "),
}
START_SECONDS, HEALTH_SECONDS, PAUSE_SECONDS = 120, 5.0, 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server", choices=COMMANDS)
    parser.add_argument("--index", type=Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--open-files", type=int, default=1024)
    arguments = parser.parse_args()
    if arguments.server == "cr5" and arguments.index is None:
        parser.error("cr5 needs --index")
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    ask = "import sys; from importlib.metadata import version; print(version(sys.argv[1]))"
    release = subprocess.check_output([arguments.python, "-c", ask, arguments.server], text=True).strip()
    for name in ATTACKS:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "attacked.py").write_text(APPLICATION)
            figures = attack(name, arguments, Path(folder))
        about = {"benchmark": "attacks", "server": f"{arguments.server} {release}", "attack": name}
        print(json.dumps(about | figures), flush=True)


def attack(name: str, arguments: argparse.Namespace, folder: Path) -> dict[str, object]:
    """Start a server, attack it, and measure it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    index = arguments.index and arguments.index.resolve()
    command = [arguments.python, *(part.format(index=index, port=port) for part in COMMANDS[arguments.server])]
    limit, log = (arguments.open_files, arguments.open_files), folder / "log"
    with log.open("wb") as written:
        server = subprocess.Popen(
            command, stdout=written, stderr=written, cwd=folder,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limit),
        )  # fmt: skip
    try:
        end = time.monotonic() + START_SECONDS
        while health(port, "/ready") is None:
            assert time.monotonic() < end, log.read_text()
            assert server.poll() is None, log.read_text()
            time.sleep(0.1)
        with ExitStack() as stack:
            return measure(name, arguments.seconds, port, server.pid, log, stack)
    finally:
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def measure(name: str, seconds: float, port: int, pid: int, log: Path, stack: ExitStack) -> dict[str, object]:
    """Attack a server for some time, asking for its health."""
    count, sent = ATTACKS[name]
    log_before, processor_before, connections, refused = log.stat().st_size, processor_seconds(pid), [], 0
    for _ in range(count):
        connection = stack.enter_context(socket.socket())
        connection.settimeout(2)
        try:
            connection.connect(("127.0.0.1", port))
            connection.sendall(sent)
            connections.append(connection)
        except OSError:
            refused += 1
    answers, begun = [], time.monotonic()
    while time.monotonic() - begun < seconds:
        answers.append(health(port))
        for connection in connections if name == "slow header" else ():
            with suppress(OSError):
                connection.send(b"a")
        time.sleep(PAUSE_SECONDS)
    answered = [answer for answer in answers if answer is not None]
    return {
        "connections": len(connections),
        "could_not_connect": refused,
        "health_asked": len(answers),
        "health_answered": len(answered),
        "slowest_answer_ms": round(1000 * max(answered)) if answered else None,
        "closed_by_server": sum(is_closed(connection) for connection in connections),
        "log_bytes": log.stat().st_size - log_before,
        "processor_seconds": round(processor_seconds(pid) - processor_before, 2),
        "open_files": sum(len(list(Path(f"/proc/{process}/fd").iterdir())) for process in processes(pid)),
    }


def health(port: int, path: str = "/health") -> float | None:
    """Seconds until a path has been answered with status 200; None if it was not."""
    begun, connection = time.perf_counter(), HTTPConnection("127.0.0.1", port, timeout=HEALTH_SECONDS)
    try:
        connection.request("GET", path)
        return time.perf_counter() - begun if connection.getresponse().status == 200 else None
    except (OSError, HTTPException):
        return None
    finally:
        connection.close()


def is_closed(connection: socket.socket) -> bool:
    """Whether the server has closed a connection, after whatever it has sent."""
    connection.setblocking(False)
    try:
        while connection.recv(65536):
            pass
    except BlockingIOError:
        return False
    except ConnectionError:
        pass
    return True


def processes(pid: int) -> list[int]:
    """A process and its descendants."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(each for child in children for each in processes(int(child)))]


def processor_seconds(pid: int) -> float:
    """The processor time of a process and its descendants so far."""
    ticks = 0
    for process in processes(pid):
        ticks += sum(map(int, Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
