"""Server processes for tests, and their workers."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

SERVE = "import typer; from cr5.cli.serve import serve; typer.run(serve)"


def start(*arguments: object, env: Mapping[str, str] | None = None) -> tuple[subprocess.Popen[str], str]:
    """Start a server; returns its process and the first line that it prints."""
    command = [sys.executable, "-c", SERVE, *map(str, arguments)]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env)
    assert server.stderr is not None
    return server, server.stderr.readline()


@contextmanager
def server(*arguments: object, env: Mapping[str, str] | None = None) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server on a free port and its address without a slash; it is stopped at the end."""
    process, line = start(*arguments, "--port", 0, env=env)
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
            process.stderr.close()  # not read to its end, which a worker left behind would delay forever


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Suspend a process and its children."""
    processes = [pid, *children(pid)]
    try:
        for process in processes:
            with suppress(ProcessLookupError):  # a child that has ended meanwhile
                os.kill(process, signal.SIGSTOP)
        yield
    finally:
        for process in processes:
            if is_running(process):
                os.kill(process, signal.SIGCONT)


def workers(server: int) -> list[int]:
    """The worker processes of a server, without the resource tracker of multiprocessing."""
    return [pid for pid in children(server) if b"spawn_main" in _command(pid)]


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_running(pid: int) -> bool:
    return bool(_command(pid))  # a zombie process has no command line


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""
