"""The engine of a cluster on several machines, which network namespaces imitate; links that are cut during a fit."""

import itertools
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("distributed")

import madeup
import network
from dask_traffic import StepTraffic
from machines import SCHEDULER, Machines
from network import CLIENT
from problems import Problem, problem
from scipy.linalg import subspace_angles

import cr5.training.pipeline
from cr5 import Document, write
from cr5._typing import Array
from cr5.cli import run
from cr5.errors import Cr5Error
from cr5.training.checkpoint import Checkpoint
from cr5.training.engines.dask import DaskEngine
from cr5.training.solver import Fit, reduced_rank_ridge

pytestmark = [pytest.mark.dask, pytest.mark.slow]

OPTIONS: dict[str, Any] = {"rank": 4, "ridge": 1.0, "tol": 0.02}
SMALL = 3_000  # bytes of a shard: every language of these problems has two
PORT = 9000
SETTINGS = {
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "11s",  # the shortest that Dask allows
    "DASK_DISTRIBUTED__SCHEDULER__WORK_STEALING": "False",
    "DASK_DISTRIBUTED__SCHEDULER__ACTIVE_MEMORY_MANAGER__START": "False",
}


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    """A scheduler and three workers on machines of their own, with links of 1 Gbit/s and 1 ms."""
    if reason := network.reason_not_to_run():
        pytest.skip(reason)
    with Machines(3, tmp_path_factory.mktemp("machines"), settings=SETTINGS) as started:
        names = set(started.namespaces.values())
        yield started
    assert not names & set(network.namespaces())


@pytest.fixture
def machines(started: Machines) -> Iterator[Machines]:
    """The machines with all links, and this test on that of the client."""
    started.repair()
    with started.inside():
        yield started


@pytest.fixture(scope="module")
def data() -> Problem:
    return problem(2, 60, 40, 30)


def maps(fit: Fit) -> Array:
    return np.vstack(list(fit.maps.values())).astype(float)


def cut_in_step(monkeypatch: pytest.MonkeyPatch, cut: Callable[[], None], when: Callable[[int], bool]) -> None:
    """Cut a link between the two products of a step, whose tasks are running; ``when`` gets the number of the call."""
    calls, multiply = itertools.count(1), DaskEngine.multiply_transposed

    def multiply_transposed(engine: DaskEngine, source: str, target: str, **options: bool) -> None:
        if when(next(calls)):
            cut()
        multiply(engine, source, target, **options)

    monkeypatch.setattr(DaskEngine, "multiply_transposed", multiply_transposed)


def test_a_link_takes_at_least_the_time_of_its_delay_and_rate(machines: Machines) -> None:
    data = bytes(2_000_000)
    with machines.inside(SCHEDULER):
        server = socket.create_server((SCHEDULER, PORT))

    def receive() -> None:
        connection, _ = server.accept()
        with connection:
            while connection.recv(1 << 16):
                pass

    thread = threading.Thread(target=receive, daemon=True)
    thread.start()
    before, start = machines.received_bytes(), time.monotonic()
    with socket.create_connection((SCHEDULER, PORT)) as connection:
        assert time.monotonic() - start >= 2 * machines.delay_seconds  # there and back
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        thread.join()
    assert time.monotonic() - start >= len(data) / machines.bytes_per_second
    server.close()
    assert machines.received_bytes()[SCHEDULER] - before[SCHEDULER] > len(data)


def test_addresses_exist_inside_the_namespaces_only(started: Machines) -> None:
    for address in (CLIENT, SCHEDULER, *started.workers):
        with pytest.raises(OSError, match="assign requested address"):
            socket.create_server((address, PORT))


def test_three_machines_give_the_bits_of_three_processes_and_the_answer_of_one_machine(
    machines: Machines, data: Problem
) -> None:
    with DaskEngine(machines.scheduler, shard_bytes=SMALL) as engine:
        fit = reduced_rank_ridge(*data, engine=engine, **OPTIONS)
        hosts = [worker.split("//")[1].split(":")[0] for worker in engine.workers.slots]
        assert hosts == machines.workers
        assert {shard.slot for shard in engine.shards} == {0, 1, 2}
    with DaskEngine(workers=3, shard_bytes=SMALL) as engine:
        loopback = reduced_rank_ridge(*data, engine=engine, **OPTIONS)
    np.testing.assert_array_equal(maps(fit), maps(loopback))
    np.testing.assert_array_equal(fit.eigenvalues, loopback.eigenvalues)
    expected = reduced_rank_ridge(*data, **OPTIONS)
    np.testing.assert_allclose(fit.eigenvalues, expected.eigenvalues, rtol=1e-9)
    assert subspace_angles(maps(fit), maps(expected)).max() < 1e-5


def test_links_carry_the_bytes_of_the_formula(machines: Machines) -> None:
    data = problem(3, 700, 300, 500, dtype=np.float32)
    with DaskEngine(machines.scheduler, shard_bytes=60_000) as engine:
        traffic = StepTraffic(engine)
        links: list[dict[str, int]] = []

        def count(progress: Any) -> None:
            traffic(progress)
            links.append(machines.received_bytes())

        reduced_rank_ridge(*data, engine=engine, rank=30, ridge=1.0, tol=0, max_steps=4, progress=count)
        steps = traffic.steps(itemsize=4)
    assert steps
    for _, predicted, reported in steps:
        np.testing.assert_allclose(reported, predicted, rtol=0.01)
    for slot, address in enumerate(machines.workers):
        carried = links[len(traffic.totals) - 1][address] - links[0][address]
        assert carried > traffic.totals[-1][slot] - traffic.totals[0][slot]  # headers and messages come on top


@pytest.mark.filterwarnings("ignore::cr5.WorkersLost")
def test_a_link_that_is_cut_in_a_step_changes_nothing(
    machines: Machines, data: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DaskEngine(machines.scheduler, shard_bytes=SMALL) as engine:
        undisturbed = reduced_rank_ridge(*data, engine=engine, **OPTIONS)
    cut_in_step(monkeypatch, lambda: machines.cut(machines.workers[1]), lambda call: call == 4)
    with DaskEngine(machines.scheduler, shard_bytes=SMALL, timeout_seconds=200) as engine:
        fit = reduced_rank_ridge(*data, engine=engine, **OPTIONS)
    assert machines.were_cut
    assert machines.known_workers() == [machines.workers[0], machines.workers[2]]
    np.testing.assert_array_equal(maps(fit), maps(undisturbed))
    np.testing.assert_array_equal(fit.eigenvalues, undisturbed.eigenvalues)


@pytest.mark.parametrize(
    ("side", "warning", "error"),
    [
        ("workers", "has sent a heartbeat for 2 s", "no worker of the cluster at ADDRESS has sent a heartbeat for 6 s"),
        ("client", "ADDRESS has not answered for 2 s", "the scheduler at ADDRESS has not answered for 6 s"),
    ],
    ids=["workers", "client"],
)
def test_the_command_says_that_links_are_cut_and_continues_from_its_checkpoint(
    side: str,
    warning: str,
    error: str,
    machines: Machines,
    documents: list[Document],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write(tmp_path / "corpus.jsonl", documents)
    settings = madeup.SETTINGS | {"ridge": 0.3, "tol": 1e-3}
    options = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    command = ["train", str(tmp_path / "corpus.jsonl"), "--json", *options]
    assert run([*command, "-o", str(tmp_path / "expected")]) == 0
    expected = json.loads(capsys.readouterr().out)["report"]

    monkeypatch.setattr(cr5.training.pipeline, "Checkpoint", lambda path, digest, *_: Checkpoint(path, digest, 0.0))
    checkpoint = tmp_path / "model.checkpoint"
    addresses = [CLIENT] if side == "client" else machines.workers
    cut_in_step(monkeypatch, lambda: machines.cut(*addresses), lambda _: checkpoint.exists() and not machines.were_cut)
    cluster = ["--engine", "dask", "--scheduler", machines.scheduler, "--timeout-seconds", "6"]
    command += ["-o", str(tmp_path / "model")]
    assert run([*command, *cluster]) == 1
    printed = capsys.readouterr().err
    lines = [line for line in printed.splitlines() if line.startswith(("warning: ", "error: "))]
    assert any(warning.replace("ADDRESS", machines.scheduler) in line for line in lines[:-1])
    assert "--timeout-seconds" in lines[-2]
    assert lines[-1].startswith("error: " + error.replace("ADDRESS", machines.scheduler))
    assert lines[-1].endswith("then continue with --resume")
    assert checkpoint.exists()

    assert run([*command, "--resume"]) == 0
    resumed = json.loads(capsys.readouterr().out)["report"]
    np.testing.assert_allclose(resumed["eigenvalues"], expected["eigenvalues"], rtol=1e-3)
    assert not checkpoint.exists()


def test_a_scheduler_that_no_packet_reaches_is_named(machines: Machines) -> None:
    machines.cut(SCHEDULER)
    with pytest.raises(Cr5Error, match=f"no Dask scheduler answers at {machines.scheduler}"):
        DaskEngine(machines.scheduler, timeout_seconds=1)
