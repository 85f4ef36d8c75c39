"""Reindexing, killed writers, and readers meanwhile."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from index_documents import FEW, contents, given, refused

from cr5.errors import Cr5Error
from cr5.index import Index, IngestCounts, IngestSettings, segments, snapshot
from cr5.index.background import Background
from cr5.index.snapshot import Snapshot
from cr5.index.stores.lance import LanceStore
from cr5.index.stores.lance_full_text import LanceFullText
from cr5.index.stores.postgres import PostgresStore

SMALL_BATCHES = IngestSettings(batch_rows=40)


# Reindexing


def tables(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        query = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        return {row[0] for row in connection.execute(query).fetchall()}


def test_reindexing_keeps_ids_and_readers_follow(
    index: Index, model_folder: Path, other_model: Path, address: str | None
) -> None:
    before = tables(address) if address else set()
    some = [*FEW, replace(FEW[0], title="second")]
    index.add(some)
    kept = contents(index)
    reader = Index.open(index.folder, store=address)
    assert reader.search(FEW[0].text, "aa").hits[0].concept == "Q000"
    assert index.built_with(model_folder)
    added = index.reindex(other_model, drop_languages=["cc"])
    assert (added.new, added.unknown) == (61, {"cc": 30})
    assert not index.built_with(model_folder)
    assert contents(index) == {name: fields for name, fields in kept.items() if fields[2] != "cc"}
    for opened in (index, reader):
        assert opened.search(FEW[0].text, "aa").hits[0].concept == "Q000"
        assert opened.langs == ["aa", "bb"]
        assert opened.model.settings.rank == 20
    assert reader.add(FEW[:2]) == IngestCounts(unchanged=2)
    assert sorted(path.name for path in index.folder.iterdir()) == ["generation-2", "index.json", "lock"]
    assert not address or len(tables(address)) == len(before)
    reader.close()


def test_reindexing_deletes_documents_in_languages_that_the_model_lacks_only_on_request(
    index: Index, model_folder: Path, other_model: Path
) -> None:
    index.add(FEW)
    kept, number = contents(index), len([d for d in FEW if d.lang == "cc"])
    problem = (
        rf"would delete {number} documents in languages that the model lacks \(cc {number}\).*`drop_languages=\"cc\"`"
    )
    dropped: str | list[str]
    for dropped in ([], "fr"):
        with pytest.raises(Cr5Error, match=problem):
            index.reindex(other_model, drop_languages=dropped)
    with pytest.raises(Cr5Error, match="`drop_languages` has AA, which the model knows"):
        index.reindex(other_model, drop_languages="AA,cc")
    assert index.built_with(model_folder)
    assert contents(index) == kept
    assert sorted(path.name for path in index.folder.iterdir()) == ["generation-1", "index.json", "lock"]


@pytest.mark.slow
def test_readers_see_no_error_during_reindexing(index: Index, model_folder: Path, other_model: Path) -> None:
    index.add(FEW)
    failed, stop, answers = list[BaseException](), threading.Event(), [0]
    reader = Index.open(index.folder, store=index._address)

    def ask() -> None:
        while not stop.is_set():
            try:
                assert reader.search(FEW[0].text, "aa", k=2, langs=["aa", "bb"]).hits[0].concept == "Q000"
                answers[0] += 1
            except BaseException as error:
                failed.append(error)
                return

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for model in (other_model, model_folder, other_model):
        index.reindex(model, drop_languages="cc" if model is other_model else ())
    stop.set()
    for thread in threads:
        thread.join()
    reader.close()
    assert failed == []
    assert answers[0] > 3


def test_a_read_is_repeated_whenever_the_snapshot_was_replaced(
    index: Index, model_folder: Path, other_model: Path
) -> None:
    index.add(FEW)
    writer, models = Index.open(index.folder, store=index._address), iter([other_model, model_folder])

    def read(active: Snapshot) -> int:
        for model in models:
            writer.reindex(model, drop_languages="cc" if model is other_model else ())
            raise RuntimeError("the snapshot is gone")
        return active.number

    assert index._read(read) == 3
    writer.close()


# Killed writers


class Killed(BaseException):
    """An exception that no code catches."""


class Killer:
    """Ends a run before one of its writing steps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, address: str | None) -> None:
        self.steps, self.at = 0, 10**9
        kind = LanceStore if address is None else PostgresStore
        places: list[tuple[Any, str]] = [
            (kind, name) for name in ("create", "upsert", "delete", "set_all_hubness", "optimise")
        ]
        places += [(snapshot, "write_json"), (Background, "save"), (segments, "write_json"), (LanceFullText, "add")]
        places += [(shutil, "copytree"), (shutil, "rmtree")]
        for place, name in places:
            monkeypatch.setattr(place, name, self._killable(getattr(place, name)))

    def _killable(self, step: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            self.steps += 1
            if self.steps == self.at:
                raise Killed
            return step(*arguments, **options)

        return run

    def kill(self, run: Callable[[], Any], at: int) -> bool:
        """Run until a step; return whether the run was killed."""
        self.steps, self.at = 0, at
        try:
            run()
        except Killed:
            return True
        finally:
            self.at = 10**9
        return False


def stages(run: Callable[[], Any], killer: Killer) -> int:
    assert not killer.kill(run, 10**9)
    return killer.steps


@pytest.mark.slow
def test_a_killed_ingest_can_be_repeated_at_every_step(
    tmp_path: Path, model_folder: Path, address: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    killer, tables_before = Killer(monkeypatch, address), tables(address) if address else set()

    def fill(folder: Path) -> None:
        index = (Index.open if Index.exists(folder) else make)(folder, store=address, settings=SMALL_BATCHES)
        try:
            index.add(FEW)
        finally:
            index.close()

    def make(folder: Path, *, store: str | None, settings: IngestSettings) -> Index:
        return Index.create(folder, model_folder, store=store, settings=settings)

    steps = stages(lambda: fill(tmp_path / "whole"), killer)
    assert steps > 8
    for at in range(1, steps + 1):
        folder = tmp_path / f"killed{at}"
        assert killer.kill(lambda folder=folder: fill(folder), at)  # type: ignore[misc]
        if Index.exists(folder):
            index = Index.open(folder, store=address)
            kept = contents(index)
            assert kept.items() <= given(FEW).items()
            assert len(kept) in (0, 40, 80, 90)  # whole batches
            assert bool(index.search(FEW[0].text, "aa").hits) == bool(kept)
            assert index.about()["full_text"] == len(kept)
            index.close()
        fill(folder)
        index = Index.open(folder, store=address)
        assert contents(index) == given(FEW)
        assert index.search(FEW[0].text, "aa", k=1).hits[0].concept == "Q000"
        assert min(index.about()["background"].values()) >= 20
        assert (index.about()["full_text"], index.about()["outdated"]) == (len(FEW), None)
        index.close()
        assert sorted(path.name for path in folder.iterdir()) == ["generation-1", "index.json", "lock"]
    if address:
        assert len(tables(address) - tables_before) == 10 * (steps + 1)  # none is left over


@pytest.mark.slow
def test_a_killed_reindexing_can_be_repeated_at_every_step(
    tmp_path: Path, model_folder: Path, other_model: Path, address: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, wanted = tmp_path / "index", given([d for d in FEW if d.lang != "cc"])
    index = Index.create(folder, model_folder, store=address, settings=SMALL_BATCHES)
    index.add(FEW)
    before = len(tables(address)) if address else 0
    killer, at, killed = Killer(monkeypatch, address), 0, True
    while killed:
        at += 1
        if not index.built_with(model_folder):
            index.reindex(model_folder)
            index.add(FEW)
        killed = killer.kill(lambda: index.reindex(other_model, drop_languages=["cc"]), at)
        other = Index.open(folder, store=address)
        assert other.search(FEW[0].text, "aa", k=1).hits[0].concept == "Q000"
        assert contents(other) == (given(FEW) if other.built_with(model_folder) else wanted)
        other.close()
        index.reindex(other_model, drop_languages=["cc"])
        assert contents(index) == wanted
        assert index.built_with(other_model)
    index.delete([])
    assert at > 8
    assert len(list(folder.iterdir())) == 3
    assert not address or len(tables(address)) == before
    index.close()


def test_an_interrupted_reindexing_is_resumed_unless_the_index_was_written(
    tmp_path: Path, model_folder: Path, other_model: Path, address: str | None
) -> None:
    index = Index.create(tmp_path / "index", model_folder, store=address, settings=SMALL_BATCHES)
    index.add(FEW)

    def stop(progress: Any) -> None:
        raise Killed

    with pytest.raises(Killed):
        index.reindex(other_model, drop_languages="cc", progress=stop)
    assert index.built_with(model_folder)
    assert index.reindex(other_model, drop_languages=["cc"]).unchanged > 0
    with pytest.raises(Killed):
        index.reindex(model_folder, progress=stop)
    index.delete(["aa:Q000"])  # what was begun does not know of this, and is dropped
    assert index.reindex(model_folder).unchanged == 0
    assert "aa:Q000" not in contents(index)
    index.close()


@pytest.mark.slow
def test_a_killed_process_loses_no_committed_batch(index: Index, tmp_path: Path, address: str | None) -> None:
    code = f"""
import sys
from pathlib import Path
import madeup
from cr5.corpus.inputs import in_batches
from cr5.index import Index, IngestSettings
single = [batch for document in madeup.corpus(concepts=30) for batch in in_batches([document])]
index = Index.open(Path({str(index.folder)!r}), store={address!r}, settings=IngestSettings(batch_rows=5))
print("ready", flush=True)
index.add(single, progress=lambda progress: print(progress.stage, progress.done, flush=True))
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        done = 0
        for line in process.stdout:
            if line.startswith("index "):
                done = int(line.split()[1])
            if done >= 40:
                break
        message = refused(lambda: index.add(FEW))
        process.send_signal(signal.SIGKILL)
    assert message == f"{index.folder}: another process or thread is writing this index; wait until it ends"
    kept = contents(index)
    assert len(kept) >= done
    assert kept.items() <= given(FEW).items()
    assert index.search(FEW[0].text, "aa").hits
    added = index.add(FEW)
    assert added.unchanged == len(kept)
    assert contents(index) == given(FEW)
