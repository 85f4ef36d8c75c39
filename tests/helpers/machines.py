"""Machines of a Dask cluster, imitated on this one by network namespaces (``network``).

A client, a scheduler and workers, at 10.77.0.1, 10.77.0.2 and 10.77.0.11 onwards.
"""

import os
import re
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from network import Network

SCHEDULER, FIRST_WORKER = "10.77.0.2", 11
SCHEDULER_PORT = 8786
START_SECONDS = 200.0  # for the scheduler and the workers to start, on a busy machine


class Machines(Network):
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
        super().__init__([SCHEDULER, *self.workers], delay_seconds=delay_seconds, bits_per_second=bits_per_second)
        self.scheduler = f"tcp://{SCHEDULER}:{SCHEDULER_PORT}"
        self.folder, self.settings = folder, settings or {}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}  # by address
        self.were_cut: set[str] = set()

    def _start(self, stack: ExitStack) -> None:
        stack.callback(self._stop)
        self.start(SCHEDULER)
        for address in self.workers:
            self.start(address)
        self.wait_for_workers()

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
        self.restore()
        for address in self.workers:
            if address in self.were_cut or self.processes[address].poll() is not None:
                self.processes[address].kill()
                self.processes[address].wait()
                self.start(address)
        self.were_cut.clear()
        self.wait_for_workers()

    def cut(self, *addresses: str) -> None:
        self.were_cut.update(addresses)
        super().cut(*addresses)
