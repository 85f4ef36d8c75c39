"""A server in a process of its own, and the workers that it has."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SERVE = "import typer; from cr5.cli.serve import serve; typer.run(serve)"


def start(*arguments: object) -> tuple[subprocess.Popen[str], str]:
    """A server, and its first line."""
    command = [sys.executable, "-c", SERVE, *map(str, arguments)]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    return server, server.stderr.readline()


@contextmanager
def server(*arguments: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server at a free port, and its address without a slash; it is ended in the end."""
    process, line = start(*arguments, "--port", 0)
    try:
        [address] = re.findall(r"http://[\d.]+:\d+", line)
        yield process, address
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stderr is not None:
            process.stderr.close()  # without reading on: a worker left behind would never end it


def workers(server: int) -> list[int]:
    """The processes that answer; beside them there is one that tracks resources."""
    children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
    return [int(pid) for pid in children if b"spawn_main" in _command(int(pid))]


def is_running(pid: int) -> bool:
    return bool(_command(pid))  # what has ended and is not yet buried has none


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""
