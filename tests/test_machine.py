"""The machine: what a container limits, and threads that several callers and forked processes use."""

import os
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from cr5.machine import available_cores, available_memory, one_blas_thread, run_on_threads

GB = 2**30
MEMINFO = {"proc/meminfo": f"MemTotal: {64 * GB // 1024} kB\nMemAvailable: {32 * GB // 1024} kB\n"}


def system(root: Path, files: Mapping[str, str]) -> Path:
    """A file system with some files of /proc and /sys."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="ascii")
    return root


# Memory


def test_this_machine_has_memory_free() -> None:
    assert available_memory() > 0
    assert available_cores() >= 1


def version_2(folder: str, limit: str) -> dict[str, str]:
    """A control group that uses 5 GB, 3 GB of them for files that can be dropped."""
    return {
        f"{folder}/memory.max": f"{limit}\n",
        f"{folder}/memory.current": f"{5 * GB}\n",
        f"{folder}/memory.stat": f"anon {2 * GB}\ninactive_file {3 * GB}\n",
    }


def version_1(folder: str, limit: int) -> dict[str, str]:
    return {
        f"{folder}/memory.limit_in_bytes": f"{limit}\n",
        f"{folder}/memory.usage_in_bytes": f"{5 * GB}\n",
        f"{folder}/memory.stat": f"cache 1\ninactive_file 2\ntotal_inactive_file {3 * GB}\n",
    }


TOP = "sys/fs/cgroup"
JOB = {"proc/self/cgroup": "0::/jobs/mine\n"}
JOB_1 = {"proc/self/cgroup": "5:memory:/jobs/mine\n4:cpu,cpuacct:/jobs/mine\n0::/\n"}
MEMORY = {
    "machine": ({}, 32 * GB),
    "unlimited container": (version_2(TOP, "max"), 32 * GB),
    "container": (version_2(TOP, str(8 * GB)), 6 * GB),
    "limited job": (JOB | version_2(TOP, "max") | version_2(f"{TOP}/jobs/mine", str(8 * GB)), 6 * GB),
    "limited user's job": (JOB | version_2(f"{TOP}/jobs", str(8 * GB)) | version_2(f"{TOP}/jobs/mine", "max"), 6 * GB),
    "version 1, container": (JOB_1 | version_1(f"{TOP}/memory", 8 * GB), 6 * GB),
    "version 1, unlimited": (JOB_1 | version_1(f"{TOP}/memory", 2**63 - 4096), 32 * GB),
    "version 1, job": (JOB_1 | version_1(f"{TOP}/memory/jobs/mine", 8 * GB), 6 * GB),
}


@pytest.mark.parametrize(("files", "free"), MEMORY.values(), ids=MEMORY)
def test_free_memory_is_what_the_machine_and_its_containers_all_allow(
    files: Mapping[str, str], free: int, tmp_path: Path
) -> None:
    assert available_memory(system(tmp_path, MEMINFO | dict(files))) == free


def test_a_system_that_does_not_tell_its_free_memory_has_some(tmp_path: Path) -> None:
    assert available_memory(tmp_path) > 0


# Cores

CORES = {
    "a quarter": ({f"{TOP}/cpu.max": "25000 100000\n"}, 1),
    "one and a half": ({f"{TOP}/cpu.max": "150000 100000\n"}, 2),
    "job": (JOB | {f"{TOP}/cpu.max": "max 100000\n", f"{TOP}/jobs/mine/cpu.max": "200000 100000\n"}, 2),
    "version 1": (JOB_1 | {f"{TOP}/cpu/cpu.cfs_quota_us": "150000\n", f"{TOP}/cpu/cpu.cfs_period_us": "100000\n"}, 2),
    "unlimited": ({f"{TOP}/cpu.max": "max 100000\n"}, 64),
    "version 1, unlimited": (
        JOB_1 | {f"{TOP}/cpu/cpu.cfs_quota_us": "-1\n", f"{TOP}/cpu/cpu.cfs_period_us": "100000\n"}, 64
    ),
}  # fmt: skip


@pytest.mark.parametrize(("files", "cores"), CORES.values(), ids=CORES)
def test_a_container_uses_the_cores_that_it_is_given(
    files: Mapping[str, str], cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(64)), raising=False)
    assert available_cores(system(tmp_path, files)) == cores


def test_a_process_that_is_bound_to_some_cores_uses_those(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3, 5, 6}, raising=False)
    assert available_cores(tmp_path) == 3
    assert available_cores(system(tmp_path, {f"{TOP}/cpu.max": "800000 100000\n"})) == 3


# Threads


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_work_that_threads_share_is_done_once(threads: int) -> None:
    tasks, done = iter(range(1000)), list[int]()
    run_on_threads(lambda: done.extend(tasks), threads)
    assert sorted(done) == list(range(1000))


def test_an_error_on_any_thread_is_raised_after_all_have_ended() -> None:
    started = threading.Barrier(2)

    def fail() -> None:
        started.wait(10)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_on_threads(fail, 2)


def test_several_callers_share_the_threads() -> None:
    def add_up(number: int) -> int:
        tasks, done = iter(range(number)), list[int]()
        run_on_threads(lambda: done.extend(tasks), 3)
        return sum(done)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(add_up, [500] * 100)) == [sum(range(500))] * 100


def blas_threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_blas_has_its_threads_again_after_callers_that_overlap() -> None:
    with threadpool_limits(2, "blas"):
        first, second = one_blas_thread(), one_blas_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert blas_threads() == {1}
        second.__exit__(None, None, None)
        assert blas_threads() == {2}
