"""The engine of a cluster: its answers, a killed worker, and the bytes that it moves. Prints JSON lines.

python benchmarks/cluster.py --europarl ../shared/data/europarl-speeches --speeches 5000

Processes on this machine stand for machines. The last line is an estimate, not a measurement: the
formula of bytes_per_step for 28 Wikipedias, whose size and network are options.

python benchmarks/cluster.py --namespaces 3

One fit on so many machines that network namespaces imitate, as root on Linux, beside the same fit on as many processes
that are connected by the loopback device, and nothing else. Each machine has an address and a link of its own, 1 Gbit/s
and 1 ms (--link-gigabits, --link-milliseconds); all share the processors and the memory of this one.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import subspace_angles

from cr5.progress import Progress
from cr5.training.engines import BlockInfo
from cr5.training.engines.dask import REPLACEMENT_FACTOR, DaskEngine
from cr5.training.solver import Fit, memory_needed, reduced_rank_ridge
from data import europarl, say, synthetic

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "helpers"))
from dask_traffic import ReceivedRows, StepTraffic, bytes_per_step
from machines import Machines
from network import reason_not_to_run

FIXED_PLACEMENT = {  # of the scheduler, as in a cluster that the engine starts by itself
    "DASK_DISTRIBUTED__SCHEDULER__WORK_STEALING": "False",
    "DASK_DISTRIBUTED__SCHEDULER__ACTIVE_MEMORY_MANAGER__START": "False",
}


def angle(one: Fit, other: Fit) -> float:
    """The largest angle between the spaces that the maps span."""
    return float(subspace_angles(*(np.vstack(list(fit.maps.values())).astype(float) for fit in (one, other))).max())


def show(part: str, **figures: Any) -> None:
    """One line of results."""
    print(json.dumps({"benchmark": "cluster", "part": part} | figures), flush=True)


def agreement(problem: Any, expected: Fit, workers: int, shard_bytes: int, options: dict[str, Any]) -> Fit:
    """A fit on so many workers, against that of one machine, and what each step has moved."""
    with DaskEngine(workers=workers, shard_bytes=shard_bytes) as engine:
        traffic = StepTraffic(engine)
        fit = reduced_rank_ridge(*problem, engine=engine, progress=traffic, **options)
        steps, shards = traffic.steps(itemsize=4), len(engine.shards)
    show(
        "agreement",
        workers=workers,
        shards=shards,
        eigenvalues_off=float(np.abs(fit.eigenvalues / expected.eigenvalues - 1).max()),
        angle=angle(fit, expected),
        steps=fit.steps,
        seconds=fit.seconds,
        seconds_of_one_machine=expected.seconds,
    )
    for step, (columns, predicted, reported) in enumerate(steps, start=2):
        show("bytes", workers=workers, step=step, **columns, predicted=predicted, reported=reported)
    return fit


def kill(problem: Any, undisturbed: Fit, shard_bytes: int, step: int, options: dict[str, Any]) -> None:
    """A fit on two workers, one of which is killed after a step."""
    with DaskEngine(workers=2, shard_bytes=shard_bytes) as engine:
        times: list[float] = []

        def disturb(progress: Progress) -> None:
            times.append(time.perf_counter())
            if progress.done == step:
                [pid] = engine.workers.client.run(os.getpid, workers=engine.workers.slots[1:]).values()
                os.kill(pid, signal.SIGKILL)

        fit = reduced_rank_ridge(*problem, engine=engine, progress=disturb, **options)
    show(
        "kill",
        at_step=step,
        steps=fit.steps,
        same_bits=bool((fit.eigenvalues == undisturbed.eigenvalues).all()),
        eigenvalues_off=float(np.abs(fit.eigenvalues / undisturbed.eigenvalues - 1).max()),
        seconds=fit.seconds,
        seconds_undisturbed=undisturbed.seconds,
        seconds_of_the_step_before=times[step] - times[step - 1],
        seconds_of_the_step_after=times[step + 1] - times[step],
    )


def on_machines(
    problem: Any, expected: Fit, number: int, gigabits: float, milliseconds: float, shard_bytes: int, options: Any
) -> None:
    """The same fit on machines that network namespaces imitate, and on as many processes on the loopback device."""
    if reason := reason_not_to_run():
        sys.exit(f"machines cannot be imitated here: {reason}")
    link = {"bits_per_second": gigabits * 1e9, "delay_seconds": milliseconds / 1e3, "settings": FIXED_PLACEMENT}
    with DaskEngine(workers=number, shard_bytes=shard_bytes) as engine:
        reduced_rank_ridge(*problem, engine=engine, **options)  # in the first fit, workers load compiled code
        with DaskEngine(engine.workers.address, shard_bytes=shard_bytes) as warm:
            loopback = reduced_rank_ridge(*problem, engine=warm, **options)
    with tempfile.TemporaryDirectory() as folder, Machines(number, Path(folder), **link) as machines, machines.inside():
        with DaskEngine(machines.scheduler, shard_bytes=shard_bytes) as engine:
            traffic = StepTraffic(engine)
            reduced_rank_ridge(*problem, engine=engine, progress=traffic, **options)
            steps = traffic.steps(itemsize=4)
        before = machines.received_bytes()
        with DaskEngine(machines.scheduler, shard_bytes=shard_bytes) as engine:
            fit = reduced_rank_ridge(*problem, engine=engine, **options)
        after = machines.received_bytes()
    show(
        "machines",
        machines=number,
        link_gigabits=gigabits,
        link_milliseconds=milliseconds,
        steps=fit.steps,
        same_bits_as_loopback=all(np.array_equal(fit.maps[lang], loopback.maps[lang]) for lang in fit.maps),
        eigenvalues_off=float(np.abs(fit.eigenvalues / expected.eigenvalues - 1).max()),
        angle=angle(fit, expected),
        seconds=fit.seconds,
        seconds_on_loopback=loopback.seconds,
        seconds_of_one_machine=expected.seconds,
        bytes_on_links={address: after[address] - before[address] for address in after},
        load_average=os.getloadavg()[0],
    )
    for step, (columns, predicted, reported) in enumerate(steps, start=2):
        show("bytes", machines=number, step=step, **columns, predicted=predicted, reported=reported)


def estimate(
    documents: int,
    languages: int,
    words: int,
    concepts: int,
    columns: int,
    machines: int,
    gigabits: float,
    nonzeros: int,
) -> None:
    """What the formula says about a fit that is too large to try here.

    Every language has one document of a concept, so that a shard needs a concept's row for each of its
    documents; where the shares of two machines meet, a language is on both.
    """
    each = documents // machines
    away, cut = each * (machines - 1) // machines, words * (machines - 1) // machines
    rows = ReceivedRows(concepts=away, sums=away, words=cut, products=cut)
    size = bytes_per_step(rows, columns, columns, columns, itemsize=4)
    blocks = [
        BlockInfo(i, documents // languages, words, nonzeros * documents // languages, "float32")
        for i in range(languages)
    ]
    show(
        "estimate",
        assumed={
            "documents": documents,
            "languages": languages,
            "words": words,
            "concepts": concepts,
            "columns": columns,
            "machines": machines,
            "gigabits": gigabits,
            "nonzeros": nonzeros,
        },
        gigabytes_per_step_and_machine=size / 1e9,
        network_seconds_per_step=size * 8 / (gigabits * 1e9),
        gigabytes_per_restart_and_machine=2 * languages * words * columns * 4 / machines / 1e9,
        memory_gigabytes_per_machine=memory_needed(blocks, concepts, columns) * REPLACEMENT_FACTOR / machines / 1e9,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--europarl", type=Path, help="the folder of speeches; a made-up corpus without it")
    parser.add_argument("--speeches", type=int, default=5_000)
    parser.add_argument("--rank", type=int, default=60)
    parser.add_argument("--ridge", type=float, default=1.0)
    parser.add_argument("--tol", type=float, default=0.01)
    parser.add_argument("--shard-megabytes", type=float, default=2.0)
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--kill-at", type=int, default=3)
    parser.add_argument("--namespaces", type=int, help="machines to imitate; nothing else is measured then")
    parser.add_argument("--link-gigabits", type=float, default=1.0, help="a second, of an imitated machine")
    parser.add_argument("--link-milliseconds", type=float, default=1.0, help="from one imitated machine to another")
    parser.add_argument("--documents", type=int, default=25_000_000, help="of the estimate, as all that follow")
    parser.add_argument("--languages", type=int, default=28)
    parser.add_argument("--words", type=int, default=200_000, help="of every language")
    parser.add_argument("--concepts", type=int, default=8_000_000)
    parser.add_argument("--columns", type=int, default=320)
    parser.add_argument("--machines", type=int, default=8)
    parser.add_argument("--gigabits", type=float, default=10.0, help="a second, to and from every machine")
    parser.add_argument("--nonzeros", type=int, default=150, help="of a document")
    given = parser.parse_args()
    if given.europarl:
        data = europarl(given.europarl, most=given.speeches)
        problem = data.blocks, data.concepts
    else:
        problem = synthetic(2 * given.speeches, languages=2, words=20_000)
    options = {"rank": given.rank, "ridge": given.ridge, "tol": given.tol}
    say({lang: X.shape for lang, X in problem[0].items()})
    expected = reduced_rank_ridge(*problem, **options)
    size = int(given.shard_megabytes * 1e6)
    if given.namespaces:
        on_machines(problem, expected, given.namespaces, given.link_gigabits, given.link_milliseconds, size, options)
        return
    fits = {int(n): agreement(problem, expected, int(n), size, options) for n in given.workers.split(",")}
    if 2 in fits:
        kill(problem, fits[2], size, given.kill_at, options)
    estimate(
        given.documents, given.languages, given.words, given.concepts, given.columns, given.machines, given.gigabits,
        given.nonzeros,
    )  # fmt: skip


if __name__ == "__main__":
    main()
