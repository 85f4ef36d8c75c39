"""The executor: how it ends when the parent, a worker or the scheduler dies."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Executor
from pathlib import Path

import pytest

from cr5.errors import Cr5Error
from cr5.sources.wikipedia.executor import open_executor


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")")[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for_the_end_of(process: int) -> None:
    ends = time.monotonic() + 60
    while is_alive(process):
        assert time.monotonic() < ends, f"process {process} is still alive"
        time.sleep(0.02)


@pytest.mark.slow
def test_a_killed_worker_process_is_reported() -> None:
    with pytest.raises(Cr5Error) as caught, open_executor(workers=1) as executor:
        executor.submit(os.kill, executor.submit(os.getpid).result(), signal.SIGKILL).result()
    assert str(caught.value) == (
        "a worker process was killed, possibly because memory ran out; run the same command again with fewer `workers`"
    )


@pytest.mark.slow
def test_an_error_terminates_the_workers_at_once() -> None:
    workers: list[int] = []

    def start(executor: Executor) -> None:
        workers.append(executor.submit(os.getpid).result())
        executor.submit(time.sleep, 60)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), open_executor(workers=1) as executor:
        start(executor)
    wait_for_the_end_of(workers[0])


def test_an_interrupt_of_the_process_group_reaches_only_the_parent() -> None:
    program = """
import os, signal, time
from cr5.sources.wikipedia.executor import open_executor
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with open_executor(workers=2) as executor:
            futures = [executor.submit(time.sleep, 60) for _ in range(2)]
            print("started", flush=True)
            futures[0].result()
    except KeyboardInterrupt:
        print("stopped", flush=True)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "started\n"
        time.sleep(0.1)  # the workers are still starting
        os.killpg(parent.pid, signal.SIGINT)
        assert parent.communicate(timeout=120) == ("stopped\n", "")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGTERM])
def test_workers_do_not_outlive_their_parent(signal_number: signal.Signals) -> None:
    program = """
import os, time
from cr5.sources.wikipedia.executor import open_executor
if __name__ == "__main__":
    with open_executor(workers=1) as executor:
        print(executor.submit(os.getpid).result(), flush=True)
        executor.submit(time.sleep, 60).result()
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        parent.send_signal(signal_number)
    wait_for_the_end_of(worker)


def test_workers_and_scheduler_together_are_refused() -> None:
    with (
        pytest.raises(Cr5Error, match=r"`workers=2` .* `scheduler=tcp://127.0.0.1:1`"),
        open_executor(workers=2, scheduler="tcp://127.0.0.1:1"),
    ):
        pass


# A scheduler, with and without a worker, in processes that the tests kill


@pytest.fixture
def scheduler() -> Iterator[tuple[subprocess.Popen[str], str]]:
    pytest.importorskip("distributed")
    program = """
import asyncio
from distributed import Scheduler
async def serve():
    async with Scheduler(host="127.0.0.1", port=0, dashboard_address="127.0.0.1:0") as scheduler:
        print(scheduler.address, flush=True)
        await scheduler.finished()
asyncio.run(serve())
"""
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def kill_scheduler_during_a_task(scheduler: subprocess.Popen[str], executor: Executor) -> None:
    assert executor.submit(abs, -1).result() == 1
    unfinished = executor.submit(time.sleep, 60)
    scheduler.kill()
    unfinished.result(timeout=50)


@pytest.mark.dask
def test_a_scheduler_that_dies_is_reported(scheduler: tuple[subprocess.Popen[str], str]) -> None:
    process, address = scheduler
    program = f"""
import asyncio
from distributed import Worker
async def serve():
    async with Worker("{address}", nthreads=1, dashboard_address="127.0.0.1:0") as worker:
        print("ready", flush=True)
        await worker.finished()
asyncio.run(serve())
"""
    with pytest.raises(Cr5Error, match=f"{address} has no workers"), open_executor(scheduler=address):
        pass
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as worker:
        try:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
            with pytest.raises(Cr5Error, match=f"{address} was lost"), open_executor(scheduler=address) as executor:
                kill_scheduler_during_a_task(process, executor)
        finally:
            worker.kill()


@pytest.mark.dask
def test_an_unreachable_scheduler_is_reported() -> None:
    pytest.importorskip("distributed")
    with (
        pytest.raises(Cr5Error, match="no Dask scheduler answers at nonsense://x"),
        open_executor(scheduler="nonsense://x"),
    ):
        pass
