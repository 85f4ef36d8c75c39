"""Shards of a miniature dump: written once, whole, and gone on behind."""

import bz2
import errno
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import search_dumps
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cr5.errors import CorpusError, Cr5Error
from cr5.sources.wikipedia import shards
from cr5.sources.wikipedia.shards import Done, Job, extract, finished, load_json, shard, write_json, writing
from cr5.sources.wikipedia.wiki import PAGES, Piece, Wiki

WIKI = Wiki("da", "da")
PAGES_OF_DUMP = [search_dumps.Page(i, f"Side {i}", f"Dette er side {i}. " * 20, f"Q{i}", (), 0) for i in range(1, 21)]


def make_job(folder: Path, size: int = 1000) -> Job:
    path = folder / "dump.json.bz2"
    if not path.exists():
        path.write_bytes(bz2.compress(search_dumps.bulk(PAGES_OF_DUMP, WIKI)))
    return Job("cirrus", Piece(str(path)), WIKI, None, None, str(folder), "dump", size)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return make_job(tmp_path)


def titles(job: Job, done: Done) -> list[str]:
    return [title for i in range(done.shards) for title in pq.read_table(shard(job, i))["title"].to_pylist()]


EVERYTHING = [page.title for page in PAGES_OF_DUMP]


def test_a_job_is_done_once(job: Job) -> None:
    done = extract(job)
    assert titles(job, done) == EVERYTHING
    Path(job.piece.path).unlink()
    assert extract(job) == done == finished(job)


def test_a_job_that_lost_a_shard_is_not_finished_and_goes_on_behind_the_one_before(job: Job) -> None:
    done = extract(job)
    before = [shard(job, i).read_bytes() for i in range(done.shards)]
    shard(job, 2).unlink()
    assert finished(job) is None
    assert extract(job) == done
    assert [shard(job, i).read_bytes() for i in range(done.shards)] == before


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
@given(size=st.integers(300, 9000), stops=st.lists(st.integers(0, 6), max_size=3))
def test_however_often_it_is_stopped_a_job_gives_the_same(
    tmp_path_factory: pytest.TempPathFactory, size: int, stops: list[int]
) -> None:
    undisturbed, stopped = (make_job(tmp_path_factory.mktemp("job"), size) for _ in range(2))
    write, left = shards.write_table, 0

    def stop(*arguments: object) -> None:
        nonlocal left
        if left == 0:
            raise KeyboardInterrupt
        left -= 1
        write(*arguments)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "write_table", stop)
        for stop_after in stops:
            left = stop_after
            try:
                extract(stopped)
            except KeyboardInterrupt:
                assert finished(stopped) is None
    done = extract(undisturbed)
    assert extract(stopped) == done
    assert titles(stopped, done) == titles(undisturbed, done) == EVERYTHING
    assert done.tally[PAGES] == len(EVERYTHING)


@pytest.mark.parametrize("size", [0, 4, 100])
def test_a_damaged_shard_is_named(size: int, job: Job) -> None:
    extract(job)
    (Path(job.folder) / "dump.json").unlink()
    shard(job, 1).write_bytes(shard(job, 1).read_bytes()[:size])
    with pytest.raises(CorpusError) as caught:
        extract(job)
    assert str(caught.value) == f"{shard(job, 1)}: damaged; delete it and run the same command again"


# Records


def test_a_record_comes_back(tmp_path: Path) -> None:
    write_json(tmp_path / "x.json", {"a": [1, "ø"]})
    assert load_json(tmp_path / "x.json") == {"a": [1, "ø"]}
    assert load_json(tmp_path / "y.json") is None


@pytest.mark.parametrize("content", [b"", b"{", b'{"a": 1', b"[]", b"\xff\xfe", b"null"])
def test_a_damaged_record_is_named(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(Cr5Error) as caught:
        load_json(path)
    assert str(caught.value) == f"{path}: damaged; delete it and run the same command again"
    with pytest.raises(Cr5Error) as caught:
        load_json(path, tmp_path)
    assert str(caught.value) == f"{path}: damaged; delete {tmp_path} and run the same command again"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_leaves_the_old_file_and_says_how_to_go_on(number: int, tmp_path: Path) -> None:
    def write() -> None:
        with writing(path) as file:
            file.write(b"ne")
            raise OSError(number, os.strerror(number))

    path = tmp_path / "x"
    path.write_text("old")
    with pytest.raises(Cr5Error) as caught:
        write()
    assert str(caught.value) == (
        f"{path}: no space left on the disk; free some and run the same command again, it goes on from here"
    )
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("x", "old")]
