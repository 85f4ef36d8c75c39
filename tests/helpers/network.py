"""Machines in a network, imitated on this one: each is a network namespace with an address and a link of its own.

The addresses, of 10.77.0.0/24, exist inside the namespaces only; nothing that is sent there leaves this machine. Links
have a rate and a delay, and can be cut (``packet_switch``). The machines share processors, memory, clock and files,
which real ones do not.
"""

import ctypes
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Self

CLIENT = "10.77.0.1"
MTU = 9000  # bytes of a packet: with 1,500, the switch would need a processor for itself
CLONE_NEWNET = 0x40000000
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


class Network:
    """A client at ``CLIENT`` and machines at other addresses of 10.77.0.0/24, each in its namespace."""

    def __init__(self, addresses: Sequence[str], *, delay_seconds: float = 0.001, bits_per_second: float = 1e9) -> None:
        self.addresses = (CLIENT, *addresses)
        self.delay_seconds, self.bytes_per_second = delay_seconds, bits_per_second / 8
        self.namespaces: dict[str, str] = {}  # by address
        self.stack = ExitStack()

    def __enter__(self) -> Self:
        delete_left_over_namespaces()
        with ExitStack() as stack:
            self._connect(stack)
            self._start(stack)
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def _start(self, stack: ExitStack) -> None:
        """Start what runs on the machines; ``stack`` ends it."""

    def _connect(self, stack: ExitStack) -> None:
        number = next(_numbers)
        links = {}
        for i, address in enumerate(self.addresses):
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

    def cut(self, *addresses: str) -> None:
        """Let every packet to and from these machines disappear."""
        self._command("cut", *addresses)

    def restore(self, *addresses: str) -> None:
        """Carry packets to and from these machines again, or all if none is named."""
        self._command("restore", *(addresses or self.addresses))

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
