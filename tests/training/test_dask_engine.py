"""The engine of a cluster against that of one machine, and what happens when workers die."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from scipy.linalg import subspace_angles

pytest.importorskip("distributed")

import dask
from dask_traffic import StepTraffic
from distributed.diagnostics.plugin import SchedulerPlugin
from problems import Problem, problem, random_subwords

from cr5._typing import Array, Ints, Sparse
from cr5.errors import ClusterError, Cr5Error, MissingPackageError, WorkersLost
from cr5.progress import Progress
from cr5.training.engines import dask_tasks
from cr5.training.engines.cpu import CpuEngine
from cr5.training.engines.dask import DaskEngine
from cr5.training.engines.dask_workers import HEARTBEAT_POLL_SECONDS
from cr5.training.solver import Fit, reduced_rank_ridge

pytestmark = pytest.mark.dask

OPTIONS: dict[str, Any] = {"rank": 4, "ridge": 1.0, "tol": 0.02}
SMALL = 3_000  # bytes of a shard: every language of these problems has two


@pytest.fixture(scope="module")
def started() -> Iterator[Callable[[int], DaskEngine]]:
    """A cluster of so many processes, started on first use. Only to connect to."""
    engines: dict[int, DaskEngine] = {}

    def start(workers: int) -> DaskEngine:
        if workers not in engines:
            engines[workers] = DaskEngine(workers=workers)
        return engines[workers]

    # On a busy machine, Dask would give up a killed worker whose process takes longer than 15 s to start again, and
    # end it in the middle of the next test.
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "300s"}):
        yield start
        for engine in engines.values():
            engine.close()


def wait_for_workers(engine: DaskEngine, number: int) -> None:
    """Wait until the cluster of an engine has so many workers; fail if it does not get them."""
    cluster, end = engine.workers.local_cluster, time.monotonic() + 200
    alive = set[str]()
    while len(alive) != number or alive != {worker.worker_address for worker in cluster.workers.values()}:
        assert time.monotonic() < end
        time.sleep(0.02)
        engine.workers.refresh()
        alive = set(engine.workers.client.nthreads())


@pytest.fixture
def pair(started: Callable[[int], DaskEngine]) -> Iterator[DaskEngine]:
    """An engine on two workers."""
    wait_for_workers(started(2), 2)  # the test before may have killed one
    with DaskEngine(started(2).workers.address, shard_bytes=SMALL) as engine:
        yield engine


@pytest.fixture(scope="module")
def data() -> Problem:
    return problem(2, 60, 40, 30)


def fill(engine: Any, data: Problem, subwords: Any = None) -> Any:
    for lang, X in data.blocks.items():
        engine.put(lang, X, data.concepts[lang], (subwords or {}).get(lang))
    return engine


def both(fit: Fit) -> Array:
    """The maps of words by themselves and with their subwords."""
    return np.vstack([*fit.maps.values(), *fit.folded_maps.values()]).astype(float)


def angle(one: Fit, other: Fit) -> float:
    return float(subspace_angles(both(one), both(other)).max())


def kill(engine: DaskEngine, worker: str) -> None:
    [pid] = engine.workers.client.run(os.getpid, workers=[worker]).values()
    os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("workers", "dtype", "intercept", "has_subwords"),
    [
        (1, np.float64, "shared", True),
        (2, np.float64, "language", False),
        (2, np.float32, "shared", True),
        (3, np.float64, "language", True),
        (3, np.float32, "language", False),
    ],
)
def test_any_number_of_workers_gives_the_answer_of_one_machine(
    workers: int, dtype: Any, intercept: Any, has_subwords: bool, started: Callable[[int], DaskEngine]
) -> None:
    data = problem(2, 60, 40, 30, dtype=dtype)
    subwords = random_subwords(data.blocks) if has_subwords else None
    expected = reduced_rank_ridge(*data, subwords, intercept=intercept, **OPTIONS)
    with DaskEngine(started(workers).workers.address, shard_bytes=SMALL) as engine:
        fit = reduced_rank_ridge(*data, subwords, intercept=intercept, engine=engine, **OPTIONS)
        assert bool(engine.subword_futures) == has_subwords
        languages = [block.language for block in engine.block_info()]
        assert len(languages) >= 2 * len(set(languages)) == 4
        assert len({shard.slot for shard in engine.shards}) == workers
    np.testing.assert_allclose(fit.eigenvalues, expected.eigenvalues, rtol=1e-9 if dtype == np.float64 else 1e-4)
    assert angle(fit, expected) < (1e-5 if dtype == np.float64 else 2e-2)
    for lang, mean in expected.means.items():
        np.testing.assert_allclose(fit.means[lang], mean, rtol=1e-6)


def _change(rows: dict[str, Array], by: Array, factor: float) -> Array:
    rows["double"] = rows["Z"] * factor
    rows["Z"] = rows.pop("old") + by
    for name in {*rows} & {"unread"}:
        del rows[name]
    return np.asarray(rows["double"].sum(axis=0))


def _look(rows: dict[str, Array]) -> Array:
    return np.array([sum(array.sum() for array in rows.values())])


def _nothing(rows: dict[str, Array]) -> None: ...


def _fail(rows: dict[str, Array]) -> Array:
    if len(rows["id"]) > 1:  # not where the function is only tried out
        raise Cr5Error("this number is wrong; take another")
    return np.zeros(1)


def test_a_function_does_to_a_partition_what_it_does_on_one_machine(pair: DaskEngine, data: Problem) -> None:
    found = []
    for engine in (fill(CpuEngine(), data), fill(pair, data)):
        sizes = [X.shape[1] for X in data.blocks.values()]
        random = np.random.default_rng(0)
        for name in ("Z", "old", "unread"):
            engine.words.set(name, [random.standard_normal((size, 5)) for size in sizes])
        sums = engine.words.map(partial(_change, factor=2.0), [np.full(5, float(i)) for i in range(2)])
        assert engine.words.map(_nothing) == [None] * 2
        looked = engine.words.map(_look)
        found.append([*sums, *looked, *engine.words.get("Z"), *engine.words.get("double")])
        numbers = np.concatenate(engine.concepts.get("id"))
        np.testing.assert_array_equal(numbers, np.arange(len(numbers))[:, None])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(KeyError):
        pair.words.get("old")


def test_an_error_in_a_function_comes_through_unchanged(pair: DaskEngine, data: Problem) -> None:
    fill(pair, data)
    with pytest.raises(Cr5Error, match=r"^this number is wrong; take another$"):
        pair.concepts.map(_fail)


@pytest.mark.parametrize("has_subwords", [False, True])
def test_products_lead_from_partition_to_partition_as_on_one_machine(
    pair: DaskEngine, data: Problem, has_subwords: bool
) -> None:
    found = []
    subwords = random_subwords(data.blocks) if has_subwords else {}
    for whole in (fill(CpuEngine(), data, subwords), fill(pair, data, subwords)):
        for engine in (whole, whole.subset(np.arange(30) % 3 > 0)):
            engine.words.set("V", [np.random.default_rng(0).random((X.shape[1], 3)) for X in data.blocks.values()])
            engine.fold("V", "F")
            engine.multiply("F", "V")
            engine.concept_sums("V")
            engine.broadcast_concepts("V", "U")
            documents = engine.documents.get("U")
            languages = [block.language for block in engine.block_info()]
            together = [
                np.vstack([U for U, owner in zip(documents, languages, strict=True) if owner == i]) for i in range(2)
            ]
            engine.multiply_transposed("U", "W")
            engine.column_sums("D", 2)
            of_words = [array for name in ("F", "W", "D") for array in engine.words.get(name)]
            engine.inverse_diagonal("D", "D", 1.0)
            found.append([*together, *of_words, *engine.words.get("D"), np.vstack(engine.concepts.get("V"))])
            with pytest.raises(KeyError):
                engine.documents.get("U")
    for expected, actual in ((found[0], found[2]), (found[1], found[3])):
        for one, other in zip(expected, actual, strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-12)


def test_documents_of_selected_concepts_can_be_fetched(pair: DaskEngine, data: Problem) -> None:
    kept = np.arange(30) % 4 == 0
    (blocks, concepts), (expected, numbers) = (
        fill(engine, data).fetch_documents(kept) for engine in (pair, CpuEngine())
    )
    for lang in data.blocks:
        np.testing.assert_array_equal(concepts[lang], numbers[lang])
        np.testing.assert_array_equal(blocks[lang].toarray(), expected[lang].toarray())


def _load(folder: Path, seed: int, lang: str, begin: int, end: int) -> tuple[Sparse, Ints]:
    """Some documents, made up on a worker, which leaves its name."""
    (folder / f"{lang}-{begin}-{os.getpid()}").touch()
    data = problem(2, 60, 40, 30, seed=seed)
    return data.blocks[lang][begin:end], data.concepts[lang][begin:end]


def _begin_of(folder: Path) -> Path:
    return folder


def test_shards_are_loaded_on_the_workers(pair: DaskEngine, tmp_path: Path) -> None:
    data = problem(2, 60, 40, 30, seed=7)
    subwords = random_subwords(data.blocks)
    for lang, X in data.blocks.items():
        [folder] = pair.map_items(_begin_of, [tmp_path])
        pieces = [(tmp_path, 7, lang, begin, min(begin + 20, X.shape[0])) for begin in range(0, X.shape[0], 20)]
        pair.put_shards(lang, _load, [*pieces[:-1], (folder, *pieces[-1][1:])], subwords.get(lang))
    assert not list(tmp_path.iterdir())
    facts = pair.block_info()
    loaders = {int(path.name.split("-")[-1]) for path in tmp_path.iterdir()}
    assert loaders == set(pair.workers.client.run(os.getpid).values())
    assert os.getpid() not in loaders
    assert sum(block.documents for block in facts) == 60 + 63
    fit = reduced_rank_ridge({}, {}, engine=pair, **OPTIONS)
    expected = reduced_rank_ridge(*data, subwords, **OPTIONS)
    np.testing.assert_allclose(fit.eigenvalues, expected.eigenvalues, rtol=1e-9)


def _square(number: int) -> int:
    return number**2


def _add(number: int, other: int) -> int:
    return number + other


def test_results_of_other_functions_stay_on_the_workers_that_computed_them(pair: DaskEngine) -> None:
    handles = pair.map_items(_square, [1, 2, 3, 4])
    assert [handle.slot for handle in handles] == [0, 0, 1, 1]
    assert pair.call(_add, handles, [10, 20, 30, 40]) == [11, 24, 39, 56]


def test_rows_moved_in_a_step_are_those_of_the_formula(pair: DaskEngine) -> None:
    pair.shard_bytes = 60_000
    data = problem(3, 700, 300, 500, dtype=np.float32)
    traffic = StepTraffic(pair)
    reduced_rank_ridge(*data, engine=pair, rank=30, ridge=1.0, tol=0, max_steps=4, progress=traffic)
    assert len({shard.info.language for shard in pair.shards if shard.slot == 0}) == 2
    steps = traffic.steps(itemsize=4)
    assert steps
    for _, predicted, reported in steps:
        np.testing.assert_allclose(reported, predicted, rtol=0.01)


@pytest.mark.parametrize("has_subwords", [False, True])
def test_a_worker_that_is_killed_in_the_middle_changes_nothing(
    pair: DaskEngine, data: Problem, has_subwords: bool
) -> None:
    subwords = random_subwords(data.blocks) if has_subwords else None
    undisturbed = reduced_rank_ridge(*data, subwords, engine=pair, **OPTIONS)
    with DaskEngine(pair.workers.address, shard_bytes=SMALL) as engine:

        def disturb(progress: Progress) -> None:
            if progress.done == 2:
                kill(engine, engine.workers.slots[1])

        fit = reduced_rank_ridge(*data, subwords, engine=engine, progress=disturb, **OPTIONS)
    np.testing.assert_array_equal(both(fit), both(undisturbed))
    assert fit.steps == undisturbed.steps > 2
    np.testing.assert_array_equal(fit.eigenvalues, undisturbed.eigenvalues)


def test_a_worker_that_dask_has_given_up_is_replaced(pair: DaskEngine, started: Callable[[int], DaskEngine]) -> None:
    cluster = started(2).workers.local_cluster
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "0s"}):
        kill(pair, min(pair.workers.client.nthreads()))
        while len(cluster.workers) == 2:
            time.sleep(0.01)
    wait_for_workers(started(2), 2)


def _at_an_odd_byte(array: Array) -> Array:
    """A copy that begins where an array in a message may begin."""
    memory = bytearray(array.nbytes + 1)
    order: Literal["C", "F"] = "C" if array.flags.c_contiguous else "F"
    result: Array = np.ndarray(array.shape, array.dtype, buffer=memory, offset=1, order=order)
    result[:] = array
    assert not result.flags.aligned
    return result


def _products(before: Array, rows: dict[str, Array], each: Array, after: Array) -> Array:
    rows["W"] = np.hstack([rows["Z"] @ matrix for matrix in (before, each, after)])
    return np.concatenate([rows["Z"].T @ rows["Z"], rows["P"].T @ rows["Z"]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_array_from_another_worker_gives_the_same_bits_as_one_that_was_computed_here(dtype: Any) -> None:
    random = np.random.default_rng(0)
    here = {name: random.standard_normal((400, 20)).astype(dtype) for name in ("Z", "P")}
    small = [random.standard_normal((20, 20)).astype(dtype).T for _ in range(3)]

    def apply(put: Callable[[Array], Array]) -> Any:
        given = {name: put(array) for name, array in here.items()}
        before, each, after = map(put, small)
        return dask_tasks.apply_function((_products, (before,), {"after": after}), 400, given, [each], (["W"], True))

    expected, actual = apply(np.asarray), apply(_at_an_odd_byte)
    for one, other in zip(expected, actual, strict=True):
        np.testing.assert_array_equal(one, other)


class Again(SchedulerPlugin):  # type: ignore[misc]
    """The tasks that finish from now on."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def transition(self, key: Any, start: str, finish: str, *_: Any, **__: Any) -> None:
        if (start, finish) == ("processing", "memory"):
            self.keys.append(key)


def _slowly_negative(rows: dict[str, Array]) -> None:
    if len(rows["Z"]) > 1:
        time.sleep(0.3)
    rows["Z"] = -rows["Z"]


@pytest.mark.parametrize("lost", ["the array", "its copy"])
@pytest.mark.parametrize("has_subwords", [False, True])
def test_lost_arrays_are_computed_again_from_the_last_product(
    lost: str, has_subwords: bool, pair: DaskEngine, started: Callable[[int], DaskEngine]
) -> None:
    data = problem(1, 60, 40, 30)
    subwords = random_subwords(data.blocks) if has_subwords else {}
    fill(pair, data, subwords)
    pair.words.set("Z", [np.ones((40, 2))])
    for _ in range(6):
        pair.words.map(_slowly_negative)
    old = pair.words.arrays["Z"][0].key
    for _ in range(2):  # the second time, an array is replaced
        if has_subwords:
            pair.fold("Z", "F")
        pair.multiply("F" if has_subwords else "Z", "Z")
    pair.concept_sums("Z")
    expected = pair.concepts.get("Z")
    pair.words.get("Z")
    [home], places = pair.words.slots, pair.workers.slots
    scheduler, again = started(2).workers.local_cluster.scheduler, Again()
    scheduler.add_plugin(again, name=lost)
    kill(pair, places[home if lost == "the array" else 1 - home])
    while len(pair.workers.client.nthreads()) == 2:
        time.sleep(0.01)
    found = pair.concepts.get("Z")
    time.sleep(0.5)  # what should not be computed has time to be
    scheduler.remove_plugin(lost)
    np.testing.assert_array_equal(np.vstack(found), np.vstack(expected))
    assert any(key.startswith("multiply-") for key in again.keys)
    assert old not in again.keys


def test_a_cluster_without_workers_ends_in_an_error(data: Problem, tmp_path: Path) -> None:
    with DaskEngine(workers=1) as scheduler:
        scheduler.workers.local_cluster.scale(0)
        address = scheduler.workers.address
        while scheduler.workers.client.nthreads():
            time.sleep(0.05)
        command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-nanny", "--no-dashboard"]
        worker = subprocess.Popen([*command, "--nthreads", "2"], stderr=subprocess.DEVNULL, cwd=tmp_path)
        saved: list[dict[str, Array]] = []

        def disturb(progress: Progress) -> None:
            if progress.done == 2:
                worker.kill()
                worker.wait()

        with DaskEngine(address, timeout_seconds=120, shard_bytes=SMALL) as engine:
            with pytest.warns(WorkersLost, match=rf"{address} has no worker; the fit ends if that stays so for 120 s"):
                assert engine.workers.wait_for_workers() == 1
            engine.workers.timeout_seconds = 1
            with pytest.warns(WorkersLost), pytest.raises(ClusterError) as caught:
                reduced_rank_ridge(
                    *data,
                    engine=engine,
                    progress=disturb,
                    save_checkpoint=lambda fetch, *_: saved.append(fetch()),
                    **OPTIONS,
                )
        assert f"the cluster at {address} has had no worker for 1 s" in str(caught.value)
        assert "`checkpoint`" in str(caught.value)
        assert len(saved) == 2  # what a checkpoint would have been written from
        with DaskEngine(address) as engine:
            assert engine.workers.timeout_seconds + 2 * HEARTBEAT_POLL_SECONDS < 30  # the longest silence of a command
            engine.workers.timeout_seconds = 0.3
            with pytest.warns(WorkersLost), pytest.raises(ClusterError, match=r"has had no worker for 0\.3 s"):
                engine.map_items(_square, [1])


def _die(rows: dict[str, Array]) -> None:
    if len(rows["id"]) > 1:
        os.kill(os.getpid(), signal.SIGKILL)
    rows["id"] = rows["id"] + 1


@pytest.mark.filterwarnings("ignore::cr5.WorkersLost")  # until the worker is back
def test_a_task_that_ends_its_workers_and_a_scheduler_that_goes_end_in_errors(data: Problem) -> None:
    with dask.config.set({"distributed.scheduler.allowed-failures": 0}):
        own = DaskEngine(workers=1)
    engine = fill(DaskEngine(own.workers.address), data)
    engine.concepts.map(_die)
    with pytest.raises(Cr5Error) as caught:
        engine.concepts.get("id")
    assert "a task has lost its worker 1 times in a row" in str(caught.value)
    assert "`checkpoint`" in str(caught.value)
    address = own.workers.address
    own.close()
    with pytest.raises(Cr5Error) as caught:
        engine.words.map(_look)
    assert f"the scheduler at {address} is lost" in str(caught.value)
    engine.close()


def _pause_above(fraction: float, dask_worker: Any) -> None:
    dask_worker.memory_manager.memory_pause_fraction = fraction


def _wait(item: int, end: Path) -> None:
    ends = time.monotonic() + 60
    while not end.exists() and time.monotonic() < ends:
        time.sleep(0.05)


def test_a_worker_that_stays_out_of_memory_ends_in_an_error(pair: DaskEngine, tmp_path: Path) -> None:
    pair.workers.wait_for_workers()
    full = pair.workers.slots[:1]
    pair.workers.client.run(_pause_above, 1e-6, workers=full)
    pair.workers.timeout_seconds = 0.5
    try:
        with pytest.raises(ClusterError) as caught:
            pair.call(_add, pair.map_items(partial(_wait, end=tmp_path / "end"), [1]), [2])
    finally:
        (tmp_path / "end").touch()
        pair.workers.client.run(_pause_above, 0.8, workers=full)
    assert f"worker {full[0]} has been out of memory for 0.5 s" in str(caught.value)


def test_a_fit_that_the_workers_cannot_hold_is_refused(pair: DaskEngine) -> None:
    limit = pair.workers.memory()
    pair.check_memory(int(limit / 2))
    with pytest.raises(Cr5Error) as caught:
        pair.check_memory(10**15)
    for fact in ("1500000.0 GB", f"{limit / 1e9:.1f} GB", "`rank`"):
        assert fact in str(caught.value)


def test_languages_are_put_once_and_before_the_first_use(pair: DaskEngine, data: Problem) -> None:
    fill(pair, data)
    X, concepts = data.blocks["l0"], data.concepts["l0"]
    with pytest.raises(Cr5Error, match="language l0 was added before"):
        pair.put("l0", X, concepts)
    with pytest.raises(Cr5Error, match="language new has no documents"):
        pair.put_shards("new", _load, [])
    pair.block_info()
    with pytest.raises(Cr5Error, match="language new comes after the first use"):
        pair.put("new", X, concepts)


def test_a_scheduler_that_does_not_answer_is_named() -> None:
    with pytest.raises(Cr5Error) as caught:
        DaskEngine("tcp://127.0.0.1:9", timeout_seconds=0.5)
    assert "no Dask scheduler answers at tcp://127.0.0.1:9" in str(caught.value)


def test_a_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingPackageError) as caught:
        DaskEngine()
    assert str(caught.value) == "the dask engine needs Dask; install it with pip install 'cr5[dask]'"
