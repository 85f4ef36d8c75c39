"""From corpus files to a model on a cluster: the same as on one machine."""

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("distributed")

import madeup

import cr5.training.pipeline
from cr5 import CorpusError, Cr5, Document, read_batches, write
from cr5.cli import run
from cr5.corpus.skipped import Skipped
from cr5.corpus.tables import ReadLimits
from cr5.errors import ClusterError, WorkersLost
from cr5.features.tokeniser import Tokeniser
from cr5.progress import Progress
from cr5.training.checkpoint import Checkpoint
from cr5.training.engines.cpu import CpuEngine
from cr5.training.engines.dask import DaskEngine

pytestmark = pytest.mark.dask

SMALL_SHARDS = ReadLimits(shard_bytes=20_000)


@pytest.fixture(scope="module")
def cluster() -> Iterator[DaskEngine]:
    """Two worker processes. Only to connect to."""
    with DaskEngine(workers=2) as engine:
        yield engine


@pytest.fixture
def engine(cluster: DaskEngine) -> Iterator[DaskEngine]:
    with DaskEngine(cluster.workers.address) as engine:
        yield engine


@pytest.fixture(scope="module")
def folder(documents: list[Document], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The made-up corpus in files of three formats, a language across two of them; counterparts share a name."""
    documents = [replace(d, text=f"{d.text} {madeup.word('aa', int(d.concept[1:]))}") for d in documents]
    path = tmp_path_factory.mktemp("corpus")
    write(path / "aa.jsonl", [d for d in documents if d.lang == "aa"])
    write(path / "bb.parquet", [d for d in documents if d.lang == "bb"])
    others = [d for d in documents if d.lang == "cc"]
    write(path / "cc-1.csv.gz", others[:70])
    write(path / "cc-2.csv.gz", others[70:])
    return path


def test_the_shards_of_a_file_hold_every_document_once(folder: Path) -> None:
    shards = read_batches(folder, batch_rows=20, limits=SMALL_SHARDS).shards()
    assert len(shards) > len(list(folder.iterdir()))
    found = [row for shard in shards for batch in shard.read(Skipped()) for row in batch.rows.to_pylist()]
    everything = [row for batch in read_batches(folder) for row in batch.rows.to_pylist()]
    assert sorted(found, key=str) == sorted(everything, key=str)


@pytest.mark.parametrize("change", [{"ridge": "auto", "subwords": False}, {"ridge": 0.3}], ids=["auto", "subwords"])
def test_a_cluster_learns_the_model_that_one_machine_learns(
    change: dict[str, Any], folder: Path, engine: DaskEngine
) -> None:
    settings = madeup.SETTINGS | change
    here = Cr5(**settings).fit(read_batches(folder))
    seen: list[Progress] = []
    there = Cr5(**settings).fit(
        read_batches(folder, batch_rows=20, limits=SMALL_SHARDS), engine=engine, progress=seen.append
    )
    assert len(engine.block_info()) > 3  # the files were cut
    assert there.report["ridge"] == here.report["ridge"]
    assert there.view_weights == here.view_weights
    curves = [[point["reciprocal_rank"] for point in model.report["strings_weight_path"]] for model in (here, there)]
    np.testing.assert_allclose(curves[1], curves[0], atol=1e-3)
    assert bool(curves[0]) == (change["ridge"] == "auto")
    np.testing.assert_allclose(there.report["eigenvalues"], here.report["eigenvalues"], rtol=1e-4)
    for lang in here.langs:
        assert there.words(lang) == here.words(lang)
        np.testing.assert_array_equal(there._language(lang).idf, here._language(lang).idf)
        assert there.report["languages"][lang] == here.report["languages"][lang]
    notes = [p.note for p in seen if p.stage == "fit"]
    assert all("energy" in note and "columns multiplied" in note for note in notes)
    assert notes


def test_the_words_of_some_documents_are_fetched_from_the_workers(folder: Path, engine: DaskEngine) -> None:
    wanted = {"aa": ["Q149", "Q003", "Q070", "Q071"], "cc": ["Q000", "Q090", "Q040"]}
    found = []
    for place in (engine, CpuEngine()):
        corpus = place.count_words(read_batches(folder, batch_rows=20, limits=SMALL_SHARDS), Tokeniser())
        named = {lang: [corpus.concepts[i] for i in d.concepts] for lang, d in corpus.languages.items()}
        rows = {lang: np.array([named[lang].index(name) for name in names]) for lang, names in wanted.items()}
        found.append({
            lang: [{counts.words[j]: int(row[j]) for j in np.flatnonzero(row)} for row in counts.matrix.toarray()]
            for lang, counts in corpus.fetch_counts(rows).items()
        })  # fmt: skip
    assert found[0] == found[1]
    assert [len(documents) for documents in found[0].values()] == [4, 3]


def test_documents_that_repeat_those_of_other_workers_are_counted(
    documents: list[Document], engine: DaskEngine, tmp_path: Path
) -> None:
    write(tmp_path / "all.jsonl", documents)
    write(tmp_path / "again.jsonl", documents[:9])
    reader = read_batches(tmp_path, batch_rows=20, limits=SMALL_SHARDS)
    assert engine.count_words(reader, Tokeniser()).count_same_words() == {"aa": 3, "bb": 3, "cc": 3}


def test_a_bad_line_on_a_worker_is_named_as_on_one_machine(folder: Path, engine: DaskEngine, tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text((folder / "aa.jsonl").read_text() + '{"concept": "Q1"}\n')
    with pytest.raises(CorpusError) as here:
        Cr5(**madeup.SETTINGS).fit(read_batches([folder / "bb.parquet", bad]))
    with pytest.raises(CorpusError) as there:
        Cr5(**madeup.SETTINGS).fit(read_batches([folder / "bb.parquet", bad]), engine=engine)
    assert str(there.value) == str(here.value)
    counted = []
    for place in (None, engine):
        skipped = Skipped()
        reading = read_batches([folder / "bb.parquet", bad], on_error="skip", skipped=skipped)
        Cr5(**madeup.SETTINGS).fit(reading, engine=place, on_error="skip", skipped=skipped)
        counted.append((skipped.counts, skipped.examples))
    assert counted[0] == counted[1]


def test_standard_input_is_not_for_workers(engine: DaskEngine) -> None:
    with pytest.raises(CorpusError, match="standard input can be read only once"):
        Cr5(**madeup.SETTINGS).fit(read_batches("-"), engine=engine)


def test_a_cluster_that_is_lost_leaves_a_checkpoint_that_any_engine_continues_from(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cr5.training.pipeline, "Checkpoint", lambda path, digest, *_: Checkpoint(path, digest, 0.0))
    checkpoint = tmp_path / "checkpoint"
    settings = madeup.SETTINGS | {"tol": 1e-3}

    with DaskEngine(workers=1) as engine:
        engine.workers.timeout_seconds = 1

        def lose(progress: Progress) -> None:
            if progress.stage == "fit" and progress.done == 2 and engine.workers.local_cluster:
                [pid] = engine.workers.client.run(os.getpid).values()
                engine.workers.local_cluster.scale(0)  # and no other takes its place
                os.kill(pid, signal.SIGKILL)

        with pytest.warns(WorkersLost), pytest.raises(ClusterError, match="has had no worker for 1 s"):
            Cr5(**settings).fit(read_batches(folder), engine=engine, checkpoint=checkpoint, progress=lose)
    assert checkpoint.exists()
    steps: list[Progress] = []
    whole = Cr5(**settings).fit(read_batches(folder))
    resumed = Cr5(**settings).fit(read_batches(folder), checkpoint=checkpoint, progress=steps.append)
    assert resumed.report["steps"] == whole.report["steps"]
    np.testing.assert_allclose(resumed.report["eigenvalues"], whole.report["eigenvalues"], rtol=1e-3)


def test_the_command_trains_on_a_cluster(
    folder: Path, cluster: DaskEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = [f"{name}={value}" for name, value in madeup.SETTINGS.items()]
    options = [part for item in settings for part in ("--set", item)]
    address = cluster.workers.address
    found = []
    for name, engine in (("a", []), ("b", ["--engine", "dask", "--scheduler", address])):
        assert run(["train", str(folder), "-o", str(tmp_path / name), "--json", *options, *engine]) == 0
        found.append(json.loads(capsys.readouterr().out)["report"])
    np.testing.assert_allclose(found[0]["eigenvalues"], found[1]["eigenvalues"], rtol=1e-4)
