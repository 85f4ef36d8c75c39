"""A server in a process of its own, and the workers that it has."""

import os
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


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """A process and its children are there and do nothing, until they go on."""
    chosen = [pid, *children(pid)]
    try:
        for process in chosen:
            os.kill(process, signal.SIGSTOP)
        yield
    finally:
        for process in chosen:
            if is_running(process):
                os.kill(process, signal.SIGCONT)


def workers(server: int) -> list[int]:
    """The processes that answer; beside them there is one that tracks resources."""
    return [pid for pid in children(server) if b"spawn_main" in _command(pid)]


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_running(pid: int) -> bool:
    return bool(_command(pid))  # what has ended and is not yet buried has none


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""
