"""Shards of a miniature dump: each is written once, and extraction resumes after the last one."""

import bz2
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import search_dumps
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from properties import up_to

from cr5.errors import CorpusError
from cr5.sources.wikipedia import shards, work_files
from cr5.sources.wikipedia.dump_reader import PAGES, FileRange
from cr5.sources.wikipedia.shards import ExtractionResult, ExtractionTask, extract, finished_result, shard_path
from cr5.sources.wikipedia.wiki import Wiki

WIKI = Wiki("da", "da")
DUMP_PAGES = [search_dumps.Page(i, f"Side {i}", f"Dette er side {i}. " * 20, f"Q{i}", (), 0) for i in range(1, 21)]


def make_task(folder: Path) -> ExtractionTask:
    path = folder / "dump.json.bz2"
    if not path.exists():
        path.write_bytes(bz2.compress(search_dumps.bulk(DUMP_PAGES, WIKI)))
    return ExtractionTask("cirrus", FileRange(str(path)), WIKI, None, str(folder), "dump")


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ExtractionTask:
    monkeypatch.setattr(shards, "SHARD_TEXT_BYTES", 1000)
    return make_task(tmp_path)


def titles(task: ExtractionTask, result: ExtractionResult) -> list[str]:
    return [title for i in range(result.shards) for title in pq.read_table(shard_path(task, i))["title"].to_pylist()]


ALL_TITLES = [page.title for page in DUMP_PAGES]


def test_a_finished_task_is_not_repeated(task: ExtractionTask) -> None:
    result = extract(task)
    assert titles(task, result) == ALL_TITLES
    Path(task.file_range.path).unlink()
    assert extract(task) == result == finished_result(task)


def test_a_task_that_lost_a_shard_resumes_after_the_one_before(task: ExtractionTask) -> None:
    result = extract(task)
    before = [shard_path(task, i).read_bytes() for i in range(result.shards)]
    shard_path(task, 2).unlink()
    assert finished_result(task) is None
    assert extract(task) == result
    assert [shard_path(task, i).read_bytes() for i in range(result.shards)] == before


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=up_to(25))
@given(size=st.integers(300, 9000), stops=st.lists(st.integers(0, 6), max_size=3))
def test_however_often_a_task_is_stopped_its_result_is_the_same(
    tmp_path_factory: pytest.TempPathFactory, size: int, stops: list[int]
) -> None:
    undisturbed, stopped = (make_task(tmp_path_factory.mktemp("task")) for _ in range(2))
    write, writes_left = work_files.write_table, 0

    def stop(*arguments: object) -> None:
        nonlocal writes_left
        if writes_left == 0:
            raise KeyboardInterrupt
        writes_left -= 1
        write(*arguments)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "SHARD_TEXT_BYTES", size)
        patch.setattr(shards, "write_table", stop)
        for stop_after in stops:
            writes_left = stop_after
            try:
                extract(stopped)
            except KeyboardInterrupt:
                assert finished_result(stopped) is None
        patch.setattr(shards, "write_table", write)
        result = extract(undisturbed)
        assert extract(stopped) == result
    assert titles(stopped, result) == titles(undisturbed, result) == ALL_TITLES
    assert result.page_counts[PAGES] == len(ALL_TITLES)


@pytest.mark.parametrize("size", [0, 4, 100])
def test_a_damaged_shard_is_named(size: int, task: ExtractionTask) -> None:
    extract(task)
    (Path(task.folder) / "dump.json").unlink()
    shard_path(task, 1).write_bytes(shard_path(task, 1).read_bytes()[:size])
    with pytest.raises(CorpusError, match=f"{shard_path(task, 1)}: damaged; delete it"):
        extract(task)
