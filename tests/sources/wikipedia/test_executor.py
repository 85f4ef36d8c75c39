"""A crew: what becomes of it when somebody of it dies."""

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
from cr5.sources.wikipedia.executor import open_crew


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")")[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for_the_end_of(process: int) -> None:
    ends = time.monotonic() + 60
    while is_alive(process):
        assert time.monotonic() < ends, f"process {process} lives on"
        time.sleep(0.02)


def test_a_worker_that_is_killed_is_said() -> None:
    with pytest.raises(Cr5Error) as caught, open_crew(workers=1) as crew:
        crew.submit(os.kill, crew.submit(os.getpid).result(), signal.SIGKILL).result()
    assert str(caught.value) == (
        "a process that worked on this was ended from outside, perhaps for want of memory; run the same command "
        "again, with fewer --workers"
    )


def test_an_error_ends_the_workers_at_once() -> None:
    workers: list[int] = []

    def begin(crew: Executor) -> None:
        workers.append(crew.submit(os.getpid).result())
        crew.submit(time.sleep, 60)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), open_crew(workers=1) as crew:
        begin(crew)
    wait_for_the_end_of(workers[0])


def test_an_interrupt_of_all_is_for_the_one_who_gives_tasks() -> None:
    program = """
import os, signal, time
from cr5.sources.wikipedia.executor import open_crew
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with open_crew(workers=2) as crew:
            futures = [crew.submit(time.sleep, 60) for _ in range(2)]
            print("begun", flush=True)
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
        assert parent.stdout.readline() == "begun\n"
        time.sleep(0.1)  # the workers are on their way
        os.killpg(parent.pid, signal.SIGINT)
        assert parent.communicate(timeout=120) == ("stopped\n", "")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks /proc who lives")
@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
def test_workers_do_not_outlive_the_one_who_gave_them_tasks(sign: signal.Signals) -> None:
    program = """
import os, time
from cr5.sources.wikipedia.executor import open_crew
if __name__ == "__main__":
    with open_crew(workers=1) as crew:
        print(crew.submit(os.getpid).result(), flush=True)
        crew.submit(time.sleep, 60).result()
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        parent.send_signal(sign)
    wait_for_the_end_of(worker)


def test_processes_and_a_cluster_at_once_are_refused() -> None:
    with pytest.raises(Cr5Error) as caught, open_crew(workers=2, scheduler="tcp://127.0.0.1:1"):
        pass
    assert str(caught.value) == (
        "--workers starts processes here, --scheduler names a cluster that runs; give one of them"
    )


# A scheduler, without or with a worker, as processes that can die


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


def lose(scheduler: subprocess.Popen[str], crew: Executor) -> None:
    """Wait for a task whose scheduler dies."""
    assert crew.submit(abs, -1).result() == 1
    left = crew.submit(time.sleep, 60)
    scheduler.kill()
    left.result(timeout=50)


def test_a_cluster_whose_scheduler_dies_is_said(scheduler: tuple[subprocess.Popen[str], str]) -> None:
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
    with pytest.raises(Cr5Error) as caught, open_crew(scheduler=address):
        pass
    assert str(caught.value) == (f"the scheduler at {address} has no workers; start some with dask worker {address}")
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as worker:
        try:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
            with pytest.raises(Cr5Error) as caught, open_crew(scheduler=address) as crew:
                lose(process, crew)
        finally:
            worker.kill()
    assert str(caught.value) == (f"the scheduler at {address} has gone; start it again, and run the same command again")


def test_a_scheduler_that_is_not_there_is_said() -> None:
    pytest.importorskip("distributed")
    with pytest.raises(Cr5Error) as caught, open_crew(scheduler="nonsense://x"):
        pass
    assert str(caught.value) == (
        "no Dask scheduler answers at nonsense://x; start one with dask scheduler, or mend the address"
    )
