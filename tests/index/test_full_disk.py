"""An index on a disk that is full: an error that says what was kept; the same call again completes it."""

import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from index_documents import FEW, contents
from limits import fill

from cr5 import Cr5, Cr5Error, DiskFullError, Document, read_batches, write
from cr5.index import Index, IngestSettings
from cr5.index.stores.lance import LanceStore

LONGER = [replace(document, text=f"{document.text} " * 60) for document in FEW[:60]]  # documents with passages
OTHERS = [replace(document, concept=f"other {document.concept}") for document in LONGER]


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def hits(index: Index, documents: list[Document]) -> list[list[tuple[str, float]]]:
    return [[(hit.id, hit.score) for hit in index.search(d.text, d.lang).hits] for d in documents[:9]]


@pytest.mark.slow
@pytest.mark.parametrize("added", [OTHERS, LONGER], ids=["new", "replaced"])
@pytest.mark.parametrize("free_bytes", [0, 300_000, 500_000])  # for nothing, terms of passages, passages
def test_an_addition_that_does_not_fit_changes_no_document_and_is_completed_when_it_is_repeated(
    model_folder: Path, small_disk: Path, tmp_path: Path, free_bytes: int, added: list[Document]
) -> None:
    folder = small_disk / "index"
    for made in (folder, tmp_path / "other"):
        with Index.create(made, model_folder) as index:
            index.add(FEW)
    with Index.open(folder) as index:
        before, found = contents(index), hits(index, FEW)
        filling = fill(small_disk, free_bytes)
        with pytest.raises(DiskFullError) as caught:
            index.add(added)
        assert str(caught.value) == (
            f"{folder}: no space left on device, and no document was added or replaced; free some space, and add the "
            "documents again"
        )
        assert contents(index) == before
        if added is OTHERS or not index.about()["passages"]:  # those are written first
            assert hits(index, FEW) == found
        filling.unlink()
        assert index.add(added).total == len(added)
        with Index.open(tmp_path / "other") as other:
            other.add(added)
            assert contents(index) == contents(other)
            assert index.about()["passages"] == other.about()["passages"] > 0
            assert hits(index, added) == hits(other, added)


def test_batches_that_were_added_before_the_disk_was_full_stay(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upsert, calls = LanceStore._upsert, []

    def refuse_the_second(store: LanceStore, *given: Any) -> None:
        calls.append(given)
        if len(calls) == 2:
            full()
        upsert(store, *given)

    corpus = tmp_path / "corpus.jsonl"
    write(corpus, FEW[:40])
    with Index.create(tmp_path / "index", model_folder, settings=IngestSettings(batch_rows=20)) as index:
        monkeypatch.setattr(LanceStore, "_upsert", refuse_the_second)
        with pytest.raises(DiskFullError, match="no space left on device; 20 documents added before stay in the index"):
            index.add(read_batches(corpus, batch_rows=20))
        assert len(index) == 20
        counts = index.add(corpus)
        assert (counts.new, counts.unchanged) == (20, 20)


def test_every_way_of_writing_an_index_says_that_the_disk_is_full(
    model_folder: Path, model: Cr5, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Index.create(tmp_path / "index", model_folder) as index:
        index.add(FEW)
        monkeypatch.setattr(LanceStore, "_delete", full)
        monkeypatch.setattr(LanceStore, "_set_hubness", full)
        monkeypatch.setattr("cr5.storage.model_files.write_tensors", full)
        for call in (lambda: index.delete("aa:Q000"), index.refresh, lambda: index.reindex(model)):
            with pytest.raises(DiskFullError, match="no space left on device; free some space") as caught:
                call()
            assert str(caught.value).startswith(f"{index.folder}: ")
            assert isinstance(caught.value, Cr5Error)
            assert caught.value.errno == errno.ENOSPC
        assert len(index) == len(FEW)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index"]


def test_a_reindexing_that_does_not_fit_leaves_nothing_and_is_repeated(
    model_folder: Path, model: Cr5, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upsert, failures = (
        LanceStore._upsert,
        [
            OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
            RuntimeError("LanceError(IO): No space left on device (os error 28)"),  # as the library reports it
        ],
    )

    def fill_the_disk(store: LanceStore, *given: Any) -> None:
        upsert(store, *given)
        raise failures.pop()

    with Index.create(tmp_path / "index", model_folder) as index:
        index.add(FEW)
        before = contents(index)
        while failures:
            monkeypatch.setattr(LanceStore, "_upsert", fill_the_disk)
            with pytest.raises(DiskFullError, match="no space left on device; free some space, and repeat this"):
                index.reindex(model)
            assert sorted(path.name for path in index.folder.iterdir()) == ["generation-1", "index.json", "lock"]
            assert contents(index) == before
        monkeypatch.setattr(LanceStore, "_upsert", upsert)
        assert index.reindex(model).new == len(FEW)


def test_other_refusals_of_the_system_stay_errors_of_the_system(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(tmp_path / "index" / "file"))

    with Index.create(tmp_path / "index", model_folder) as index:
        monkeypatch.setattr(LanceStore, "_upsert", refuse)
        with pytest.raises(OSError, match="Read-only") as caught:
            index.add(FEW)
        assert caught.value.filename == str(index.folder)
    shutil.rmtree(tmp_path / "index")
