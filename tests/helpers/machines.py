"""Machines of a Dask cluster, imitated on this one: each is a network namespace with an address and a link of its own.

A client, a scheduler and workers, at 10.77.0.1, 10.77.0.2 and 10.77.0.11 onwards. The addresses exist inside the
namespaces only; nothing that is sent there leaves this machine. Links have a rate and a delay, and can be cut
(``packet_switch``). The machines share processors, memory, clock and files, which real ones do not.
"""

import ctypes
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

CLIENT, SCHEDULER, FIRST_WORKER = "10.77.0.1", "10.77.0.2", 11
SCHEDULER_PORT = 8786
MTU = 9000  # bytes of a packet: with 1,500, the switch would need a processor for itself
CLONE_NEWNET = 0x40000000
START_SECONDS = 200.0  # for the scheduler and the workers to start, on a busy machine
NAME = re.compile(r"cr5-(\d+)-\d+-\d+")

_numbers = itertools.count()


def reason_not_to_run() -> str:
    """Why machines cannot be imitated here, or nothing if they can."""
    missing = [command for command in ("ip", "setpriv") if not shutil.which(command)]
    if missing:
        return f"the command {missing[0]} is missing (packages iproute2 and util-linux)"
    if sys.platform != "linux" or os.geteuid() != 0:
        return "network namespaces need Linux and root"
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "there is no /dev/net/tun"
    name = _name()
    if subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode:
        return "ip netns add fails: network namespaces are not allowed here"
    _ip("netns", "delete", name)
    return ""


def _name() -> str:
    return f"cr5-{os.getpid()}-{next(_numbers)}-0"


def _ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, check=False, text=True)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def namespaces() -> list[str]:
    """The network namespaces of this machine that have a name."""
    return [line.split()[0] for line in _ip("netns", "list").splitlines()]


def delete_left_over_namespaces() -> None:
    """Delete the namespaces of test processes that were killed before they could."""
    for name in namespaces():
        match = NAME.fullmatch(name)
        if match and not Path(f"/proc/{match[1]}").exists():
            with suppress(RuntimeError):  # another test process has just done it
                _ip("netns", "delete", name)


class Machines:
    """A client, a scheduler and workers, each in its namespace; Dask's processes end with the context.

    ``settings`` are environment variables of the scheduler and the workers. Each worker has one thread.
    """

    def __init__(
        self,
        workers: int,
        folder: Path,
        *,
        delay_seconds: float = 0.001,
        bits_per_second: float = 1e9,
        settings: dict[str, str] | None = None,
    ) -> None:
        self.workers = [f"10.77.0.{FIRST_WORKER + i}" for i in range(workers)]
        self.scheduler = f"tcp://{SCHEDULER}:{SCHEDULER_PORT}"
        self.folder, self.settings = folder, settings or {}
        self.delay_seconds, self.bytes_per_second = delay_seconds, bits_per_second / 8
        self.namespaces: dict[str, str] = {}  # by address
        self.processes: dict[str, subprocess.Popen[bytes]] = {}  # by address
        self.were_cut: set[str] = set()
        self.stack = ExitStack()

    def __enter__(self) -> "Machines":
        delete_left_over_namespaces()
        with ExitStack() as stack:
            self._connect(stack)
            stack.callback(self._stop)
            self.start(SCHEDULER)
            for address in self.workers:
                self.start(address)
            self.wait_for_workers()
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def _connect(self, stack: ExitStack) -> None:
        number = next(_numbers)
        links = {}
        for i, address in enumerate((CLIENT, SCHEDULER, *self.workers)):
            name = f"cr5-{os.getpid()}-{number}-{i}"
            _ip("netns", "add", name)
            stack.callback(_ip, "netns", "delete", name)
            self.namespaces[address] = name
            links[address] = f"c{os.getpid()}n{number}i{i}"[-15:]
        command = [sys.executable, str(Path(__file__).with_name("packet_switch.py"))]
        options = [str(self.delay_seconds), str(self.bytes_per_second)]
        self.switch = subprocess.Popen(
            [*command, *options, *(f"{link}={address}" for address, link in links.items())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        stack.callback(_end, self.switch)
        if _output(self.switch).readline() != "ready\n":
            raise RuntimeError("the switch does not start")
        for address, name in self.namespaces.items():
            _ip("link", "set", "dev", links[address], "netns", name)
            _ip("-n", name, "link", "set", "dev", "lo", "up")
            _ip("-n", name, "address", "add", f"{address}/24", "dev", links[address])
            _ip("-n", name, "link", "set", "dev", links[address], "mtu", str(MTU), "up")

    def start(self, address: str) -> None:
        """Start the scheduler or a worker."""
        options = ["--host", address, "--no-dashboard"]
        if address == SCHEDULER:
            command = ["distributed.cli.dask_scheduler", "--port", str(SCHEDULER_PORT), *options]
        else:
            command = ["distributed.cli.dask_worker", self.scheduler, "--nthreads", "1", "--no-nanny", *options]
            command += ["--local-directory", str(self.folder)]
        with (self.folder / f"{address}.log").open("ab") as log:
            where = ["setpriv", "--pdeathsig", "KILL", "ip", "netns", "exec", self.namespaces[address]]
            self.processes[address] = subprocess.Popen(
                [*where, sys.executable, "-m", *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(Path(__file__).parent), **self.settings},
                cwd=self.folder,
            )

    def _stop(self) -> None:
        for process in self.processes.values():
            process.kill()  # also where a worker would wait for a scheduler that cannot be reached
        for process in self.processes.values():
            process.wait()

    @contextmanager
    def inside(self, address: str = CLIENT) -> Iterator[None]:
        """This thread, and all threads and processes that it starts meanwhile, are on this machine."""
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        there = os.open(f"/run/netns/{self.namespaces[address]}", os.O_RDONLY)
        try:
            _enter(there)
            yield
        finally:
            _enter(before)
            os.close(there)
            os.close(before)

    def known_workers(self) -> list[str]:
        """The addresses of the workers that the scheduler knows."""
        from distributed import Client

        with self.inside(), Client(self.scheduler, timeout=START_SECONDS, set_as_default=False) as client:
            return sorted(re.sub(r"tcp://(.*):\d+", r"\1", name) for name in client.nthreads())

    def wait_for_workers(self) -> None:
        """Wait until the scheduler knows all workers, and no others."""
        end = time.monotonic() + START_SECONDS
        while self.known_workers() != sorted(self.workers):
            ended = [address for address, process in self.processes.items() if process.poll() is not None]
            if ended or time.monotonic() > end:
                logs = "\n".join(path.read_text() for path in sorted(self.folder.glob("*.log")))
                raise RuntimeError(f"the cluster does not start; ended: {ended}\n{logs}")
            time.sleep(0.2)

    def repair(self) -> None:
        """Restore all links, start workers again that were cut off or have ended, and wait for them."""
        self._command("restore", *self.namespaces)
        for address in self.workers:
            if address in self.were_cut or self.processes[address].poll() is not None:
                self.processes[address].kill()
                self.processes[address].wait()
                self.start(address)
        self.were_cut.clear()
        self.wait_for_workers()

    def cut(self, *addresses: str) -> None:
        """Let every packet to and from these machines disappear."""
        self.were_cut.update(addresses)
        self._command("cut", *addresses)

    def received_bytes(self) -> dict[str, int]:
        """The bytes of the packets that each machine has received, with all headers."""
        return self._command("bytes")

    def _command(self, *words: str) -> dict[str, int]:
        assert self.switch.stdin
        self.switch.stdin.write(" ".join(words) + "\n")
        self.switch.stdin.flush()
        answer: dict[str, int] = json.loads(_output(self.switch).readline())
        return answer


def _enter(namespace: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(namespace, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


def _output(process: "subprocess.Popen[Any]") -> IO[Any]:
    assert process.stdout
    return process.stdout


def _end(process: "subprocess.Popen[Any]") -> None:
    """Close what a process reads, at which it ends."""
    assert process.stdin
    with suppress(OSError):
        process.stdin.close()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    _output(process).close()
