"""The store in a folder: compaction, and the IVF index beside the table."""

import gc
import os
import shutil
import threading
import time
import weakref
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from bm25_oracle import Words, term_counts
from limits import file_size_limit
from store_places import LANGS, LANGUAGES, RANK, all_rows, ids, refused, rows, set_hubness, unit

from cr5.index import ivf
from cr5.index.stores.base import Location
from cr5.index.stores.lance import COMMIT_CONFLICT, LanceStore
from cr5.index.stores.lance_reader import TableReader
from cr5.index.stores.lance_table import NewestVersion, import_lancedb, read_slots
from cr5.index.stores.lance_versions import LOCK_FILE, LanceLimits
from cr5.index.stores.rows import Floats
from cr5.index.terms import QueryWord
from cr5.storage.locks import locked, try_lock


def create(folder: Path, limits: LanceLimits | None = None) -> LanceStore:
    """A new store in a folder."""
    return LanceStore.create(Location(folder), rank=RANK, language_count=LANGUAGES, limits=limits)


def test_readers_do_not_wait_for_a_writer(tmp_path: Path) -> None:
    store = create(tmp_path)
    store.upsert(rows([1]))
    with locked(tmp_path / LOCK_FILE):
        waiting = threading.Thread(target=store.upsert, args=[rows([2])])
        waiting.start()
        assert all_rows(store).keys() == {"d1"}
        assert ids(store.nearest(unit(2)[1:], 5)[0]) == ["d1"]
        assert waiting.is_alive()
    waiting.join()
    assert store.count() == {"en": 1, "it": 1}


@pytest.mark.slow
def test_old_versions_of_the_table_are_removed(tmp_path: Path) -> None:
    limits = LanceLimits(version_lifetime=timedelta(milliseconds=1), max_small_files=4)
    store = create(tmp_path, limits)
    sizes = []
    for _ in range(6):
        for _ in range(5):
            store.upsert(rows(range(500)))
        time.sleep(0.01)
        store.optimise()
        sizes.append(store.stats()["bytes"])
    assert max(sizes[1:]) < 1.5 * sizes[0]


def test_many_small_files_are_compacted(tmp_path: Path) -> None:
    limits = LanceLimits(max_small_files=4)
    store = create(tmp_path, limits)
    files = []
    for number in range(10):
        store.upsert(rows(range(number, number + 1)))
        store.optimise()
        files.append(store._table.stats()["fragment_stats"]["num_fragments"])
    assert files[:4] == [1, 2, 3, 4]
    assert max(files) == 4


def test_compactions_of_a_growing_table_rewrite_each_row_a_few_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = create(tmp_path, LanceLimits(max_small_files=4, small_files_per_row=1 / 20, max_unindexed_rows=10))
    optimize, rewritten = type(store._table).optimize, list[int]()

    def counted(table: Any, **options: Any) -> Any:
        rewritten.append(table.count_rows())
        return optimize(table, **options)

    monkeypatch.setattr(type(store._table), "optimize", counted)
    for first in range(0, 400, 10):
        store.upsert(rows(range(first, first + 10)))
        store.optimise()
    assert 1 < len(rewritten) <= 5
    assert sum(rewritten) <= 3 * 400
    assert store._count_unindexed_ids() <= 400 / 4
    assert sum(store.count().values()) == 400


def test_rows_can_be_written_while_a_table_is_compacted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = LanceLimits(max_small_files=4)
    store, other = create(tmp_path, limits), LanceStore.open(Location(tmp_path), limits=limits)
    for number in range(6):
        store.upsert(rows([number]))
    optimize = type(store._table).optimize

    def optimize_slowly(table: Any, **options: Any) -> Any:
        other.upsert(rows([6, 7]))  # waits for ever if the other store holds the lock of writers
        return optimize(table, **options)

    monkeypatch.setattr(type(store._table), "optimize", optimize_slowly)
    store.optimise()
    other.upsert(rows([8]))
    assert store._table.stats()["fragment_stats"]["num_fragments"] <= 3
    assert sum(store.count().values()) == 9
    assert sorted(np.concatenate([*read_slots(other._table)]).tolist()) == list(range(9))


def test_a_compaction_that_a_replaced_row_prevents_is_repeated_while_writers_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = create(tmp_path, LanceLimits(max_small_files=4))
    for number in range(6):
        store.upsert(rows([number]))
    optimize, locked = type(store._table).optimize, list[bool]()

    def prevented(table: Any, **options: Any) -> Any:
        with (tmp_path / LOCK_FILE).open("ab") as file:
            locked.append(not try_lock(file))
        if len(locked) == 1:
            raise RuntimeError("lance error: Retryable commit conflict for version 7")
        return optimize(table, **options)

    monkeypatch.setattr(type(store._table), "optimize", prevented)
    store.optimise()
    assert locked == [False, True]
    assert store._table.stats()["fragment_stats"]["num_fragments"] == 1

    def broken(table: Any, **options: Any) -> Any:
        raise RuntimeError("another error")

    monkeypatch.setattr(type(store._table), "optimize", broken)
    for number in range(6):
        store.upsert(rows([number]))
    with pytest.raises(RuntimeError, match="another error"):
        store.optimise()


def test_lancedb_names_the_conflict_of_a_compaction_and_writes_nothing_to_standard_error(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    stable, lancedb = {"new_table_enable_stable_row_ids": "true"}, import_lancedb()
    table = lancedb.connect(tmp_path).create_table("rows", pa.table({"id": ["0"]}), storage_options=stable)
    for number in range(1, 6):
        table.add(pa.table({"id": [str(number)]}))
    other = lancedb.connect(tmp_path).open_table("rows")
    other.delete("id = '1'")
    with pytest.raises(RuntimeError, match=COMMIT_CONFLICT):
        table.optimize()
    assert capfd.readouterr().err == ""


def test_segments_of_the_ivf_index_are_merged_by_optimise(tmp_path: Path) -> None:
    limits = LanceLimits(ann_min_rows=300, max_unindexed_rows=9, max_merged_rows=30, retrain_growth=100)
    store = create(tmp_path, limits)
    store.upsert(rows(range(300)))
    store.optimise()
    for first in range(300, 600, 30):
        store.upsert(rows(range(first, first + 30)))
    before = store._ivf.get()
    store.optimise()
    after = store._ivf.get()
    assert before is not None
    assert after is not None
    assert (len(before.segments), len(after.segments)) == (11, 1)
    assert len(after) == 600
    assert [ids(table) for table in store.nearest(unit(600), 1)] == [[f"d{i}"] for i in range(600)]


def test_rows_can_be_written_while_the_ivf_index_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = LanceLimits(ann_min_rows=300, max_unindexed_rows=20)
    store, other = create(tmp_path, limits), LanceStore.open(Location(tmp_path), limits=limits)
    store.upsert(rows(range(400)))
    build = ivf.build

    def build_slowly(folder: Path, *arguments: Any) -> None:
        build(folder, *arguments)
        other.upsert(rows(range(390, 460)))  # waits for ever if the other store holds the lock of writers
        other.delete(["d7"])

    monkeypatch.setattr(ivf, "build", build_slowly)
    store.optimise()
    index = store._ivf.get()
    assert index is not None
    assert (index.rows_at_training, index.next_slot, store.stats()["unindexed"]) == (400, 470, 0)
    assert not (tmp_path / "cells.new").exists()
    found = [ids(table) for table in store.nearest(unit(460), 1)]
    assert [name for i, name in enumerate(found) if i != 7] == [[f"d{i}"] for i in range(460) if i != 7]
    assert store.count() == {"da": 115, "en": 115, "it": 115, "vi": 114}


@pytest.mark.slow
def test_the_ivf_index_is_extended_and_trained_again_after_doubling_or_many_deletions(tmp_path: Path) -> None:
    limits = LanceLimits(ann_min_rows=300, max_unindexed_rows=9)
    store = create(tmp_path, limits)

    def state() -> tuple[int, int, int]:
        stats, index = store.stats(), store._ivf.get()
        assert index is not None
        return index.rows_at_training, stats["rows"], stats["unindexed"]

    store.upsert(rows(range(400)))
    store.optimise()
    assert state() == (400, 400, 0)
    for begin in (400, 410, 420):
        store.upsert(rows(range(begin, begin + 10)))
    assert state() == (400, 430, 0)
    store.upsert(rows(range(430, 432)))
    assert state() == (400, 432, 2)
    store.delete([f"d{i}" for i in range(100)])
    store.optimise()
    assert state() == (400, 332, 2)
    store.upsert(rows(range(80, 140)))  # 40 of them exist already
    assert state() == (400, 352, 0)
    store.optimise()
    assert state() == (352, 352, 0)  # more than a quarter of the indexed rows had been deleted
    store.upsert(rows(range(800)))
    store.optimise()
    assert state() == (800, 800, 0)
    assert [ids(table) for table in store.nearest(unit(800), 1)] == [[f"d{i}"] for i in range(800)]
    assert len(list((tmp_path / "cells").iterdir())) == 3  # the manifest, the centroids and one segment


def test_indexed_rows_are_returned_as_written_and_follow_later_writes(tmp_path: Path) -> None:
    limits = LanceLimits(ann_min_rows=300, in_memory_bytes=0)
    writer = create(tmp_path, limits)
    everything = rows(range(400))
    writer.upsert(everything)
    writer.optimise()
    reader = LanceStore.open(Location(tmp_path), limits=limits)
    requested = [f"d{i}" for i in (7, 399, 0, 7)]
    result = reader.get([*requested, "missing"], everything.schema.names)
    expected = everything.take([7, 399, 0, 7])
    for name in everything.schema.names:
        if name != "vector":
            assert result[name].to_pylist() == expected[name].to_pylist()
    np.testing.assert_allclose(result["vector"].to_pylist(), expected["vector"].to_pylist(), atol=5e-5)
    writer.delete(["d7"])
    writer.upsert(rows(range(0, 1), unit(400)[7:8]))  # another document with the same vector
    assert ids(reader.get(requested)) == ["d399", "d0"]
    [nearest] = reader.nearest(unit(400)[7:8], 400, columns=("id", "title", "hubness"))
    assert (ids(nearest)[0], nearest.num_rows, len(set(ids(nearest)))) == ("d0", 399, 399)
    set_hubness(writer, ["d0", "d5"], np.full((2, LANGUAGES), 7, np.float32))
    assert reader.get(["d5", "d0"])["hubness"].to_pylist() == [[7, 7], [7, 7]]
    [nearest] = reader.nearest(unit(400)[5:6], 1, columns=("id", "hubness"))
    assert nearest.to_pylist() == [{"id": "d5", "hubness": [7, 7], "cosine": pytest.approx(1, abs=5e-5)}]


def search_always(store: LanceStore) -> pa.Table:
    return store.search_terms([QueryWord(1.0, {"always": 1.0})], "en", 100)


def search_by_vector(store: LanceStore) -> pa.Table:
    return store.nearest(unit(1), 100)[0]


@pytest.mark.parametrize("search", [search_always, search_by_vector])
def test_a_reader_that_opens_while_all_rows_are_replaced_and_indexed_again_finds_them_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, search: Callable[[LanceStore], pa.Table]
) -> None:
    limits = LanceLimits(ann_min_rows=30, max_unindexed_rows=9)
    writer = create(tmp_path, limits)

    def write(number: int) -> None:
        table = rows(range(number), lang=["en"] * number)
        writer.upsert(table, term_counts([Words("en", {"always": 1})] * number))
        writer.optimise()

    write(40)
    reader, interruptions = LanceStore.open(Location(tmp_path), limits=limits), [60]
    newest_version = reader._version.get

    def soon_outdated_version() -> int:
        version = newest_version()
        if interruptions:
            write(interruptions.pop())
        return version

    monkeypatch.setattr(reader._version, "get", soon_outdated_version)
    assert sorted(ids(search(reader))) == sorted(f"d{i}" for i in range(60))
    assert not interruptions


def test_old_versions_are_a_reason_to_compact_a_table_only_once_in_their_lifetime(tmp_path: Path) -> None:
    limits = LanceLimits(max_small_files=4, small_files_per_row=1)  # one row for each of many small files
    store, lifetime = create(tmp_path, limits), limits.version_lifetime.total_seconds()
    folder = tmp_path / "documents.lance" / "_versions"

    def add(numbers: range) -> None:
        for i in numbers:
            store.upsert(rows(range(i, i + 1)))

    def age(oldest: float) -> None:
        """Let the versions have ages up to this many lifetimes."""
        paths = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime)
        for i, path in enumerate(paths):
            written = time.time() - oldest * lifetime * (1 - i / len(paths))
            os.utime(path, (written, written))

    add(range(10))
    for oldest, compacts in ((1.5, False), (2.5, True)):
        age(oldest)
        before = int(store._table.version)
        store.optimise()
        assert (int(store._table.version) > before) == compacts
    assert ids(store.get([f"d{i}" for i in range(10)])) == [f"d{i}" for i in range(10)]


def test_rows_written_after_the_last_indexed_rows_were_deleted_are_found(tmp_path: Path) -> None:
    limits = LanceLimits(ann_min_rows=300)
    store = create(tmp_path, limits)
    store.upsert(rows(range(400)))
    store.optimise()
    store.delete([f"d{i}" for i in range(390, 400)])
    store = LanceStore.open(Location(tmp_path), limits=limits)  # without what the other store has cached
    store.upsert(rows(range(500, 510)))
    assert ids(store.get(["d505", "d395"])) == ["d505"]
    assert [ids(table) for table in store.nearest(unit(510)[500:], 1)] == [[f"d{i}"] for i in range(500, 510)]


@pytest.mark.parametrize("kind", ["piece-*.arrow", "centres-*.npy", "cells.json"])
@pytest.mark.parametrize("damage", [b"", b"no such thing", None])
def test_a_damaged_ivf_index_is_named_and_can_be_rebuilt(tmp_path: Path, kind: str, damage: bytes | None) -> None:
    limits = LanceLimits(ann_min_rows=300)
    store = create(tmp_path, limits)
    store.upsert(rows(range(400)))
    store.optimise()
    [path] = (tmp_path / "cells").glob(kind)
    path.unlink()
    if damage is not None:
        path.write_bytes(damage)
    store = LanceStore.open(Location(tmp_path), limits=limits)
    if kind != "cells.json" or damage is not None:
        message = refused(lambda: store.nearest(unit(1), 1))
        assert message.startswith(f"{tmp_path / 'cells'}: the approximate index is damaged; delete this folder")
    shutil.rmtree(tmp_path / "cells")
    assert ids(store.nearest(unit(400)[7:8], 1)[0]) == ["d7"]
    store.optimise()
    assert store.stats()["index"] == "cells"
    assert ids(store.nearest(unit(400)[7:8], 1)[0]) == ["d7"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_after_random_writes_the_ivf_index_agrees_with_a_dictionary(tmp_path: Path, seed: int) -> None:
    limits = LanceLimits(ann_min_rows=100, max_unindexed_rows=5, max_small_files=3, in_memory_bytes=0)
    rng, expected = np.random.default_rng(seed), dict[str, tuple[Floats, list[float]]]()
    stores = [create(tmp_path, limits), LanceStore.open(Location(tmp_path), limits=limits)]
    for _ in range(40):
        store, reader = rng.permutation(np.array(stores, object))
        chosen = rng.choice(300, rng.integers(1, 60), replace=False).tolist()
        match rng.integers(6):
            case 0 | 1 | 2:
                vectors = unit(len(chosen), seed=int(rng.integers(2**31)))
                new = rows(chosen, vectors)
                store.upsert(new)
                expected |= dict(zip(ids(new), zip(vectors, new["hubness"].to_pylist(), strict=True), strict=True))
            case 3:
                store.delete([f"d{i}" for i in chosen[:20]])
                expected = {name: row for name, row in expected.items() if name not in {f"d{i}" for i in chosen[:20]}}
            case 4:
                values = rng.random((len(chosen), LANGUAGES)).astype(np.float32)
                set_hubness(store, [f"d{i}" for i in chosen], values)
                updates = {f"d{i}": value.tolist() for i, value in zip(chosen, values, strict=True)}
                expected = {name: (row[0], updates.get(name, row[1])) for name, row in expected.items()}
            case 5:
                store.optimise()
        stores = [store, LanceStore.open(Location(tmp_path), limits=limits) if rng.random() < 0.2 else reader]
        query, langs = unit(1, seed=int(rng.integers(2**31)))[0], set(rng.choice(LANGS, 3).tolist())
        allowed = [name for name in expected if LANGS[int(name[1:]) % 4] in langs]
        best = sorted(allowed, key=lambda name: -float(expected[name][0] @ query))[:7]
        for handle in stores:
            [result] = handle.nearest(query[None], 7, langs=langs, columns=("id", "title", "hubness"))
            assert ids(result) == best
            assert result["title"].to_pylist() == [f"title {name[1:]}" for name in best]
            assert result["hubness"].to_pylist() == [pytest.approx(expected[name][1]) for name in best]
            names = [f"d{i}" for i in chosen]
            assert ids(handle.get(names)) == [name for name in names if name in expected]


def test_a_small_table_is_read_once_for_each_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = create(tmp_path)
    writer.upsert(rows(range(5)))
    read, plain = list[None](), LanceStore._make_reader

    def counted(self: LanceStore, version: int) -> TableReader | None:
        read.append(None)
        return plain(self, version)

    monkeypatch.setattr(LanceStore, "_make_reader", counted)
    reader = LanceStore.open(Location(tmp_path))
    for _ in range(3):
        assert ids(reader.get(["d1"])) == ids(reader.nearest(unit(5)[1:2], 1)[0]) == ["d1"]
    assert len(read) == 1
    writer.delete(["d1"])
    assert reader.get(["d1"]).num_rows == 0
    assert len(read) == 2
    set_hubness(writer, ["d2"], np.full((1, LANGUAGES), 7, np.float32))
    assert reader.get(["d2"])["hubness"].to_pylist() == [[7, 7]]
    assert len(read) == 3
    writer.upsert(rows(range(5, 6)))
    assert ids(reader.get(["d5"])) == ["d5"]


def test_a_pinned_store_sees_one_version_and_asks_for_no_newer_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = create(tmp_path)
    writer.upsert(rows(range(5)))
    reader = LanceStore.open(Location(tmp_path))
    pinned = reader.pinned()
    assert reader.pinned() is pinned
    writer.delete(["d1"])
    writer.upsert(rows(range(5, 6)))
    later = reader.pinned()
    with monkeypatch.context() as patched:
        patched.setattr(NewestVersion, "get", lambda _: pytest.fail("asked for a newer version"))
        for store, existing in ((pinned, ["d1", "d2"]), (later, ["d2", "d5"])):
            assert ids(store.get(["d1", "d2", "d5"])) == store.candidates(["d1", "d2", "d5"]).ids == existing
            assert len(ids(store.nearest(unit(6)[:1], 9)[0])) == 5
    assert reader.pinned() is later


def test_a_pinned_store_does_not_keep_earlier_ones(tmp_path: Path) -> None:
    writer, reader = create(tmp_path), LanceStore.open(Location(tmp_path))
    pinned = []
    for number in range(4):
        writer.upsert(rows([number]))
        pinned.append(weakref.ref(reader.pinned()))
    gc.collect()
    assert [each() is None for each in pinned] == [True, True, True, False]


def test_hubness_that_the_disk_has_no_space_for_leaves_the_earlier_values(tmp_path: Path) -> None:
    store = create(tmp_path)
    store.upsert(rows(range(100)))
    ids = [f"d{i}" for i in range(100)]
    set_hubness(store, ids, np.zeros((100, LANGUAGES), np.float32))
    size = (store.folder / "hubness.npy").stat().st_size
    for missing in (1, size - 200):  # NumPy itself does not notice that the last bytes are missing
        with file_size_limit(size - missing), pytest.raises(OSError, match="File too large"):
            set_hubness(store, ids, np.ones((100, LANGUAGES), np.float32))
        found = [pair for batch in store.scan(("hubness",), batch_rows=50) for pair in batch["hubness"].to_pylist()]
        assert found == [[0.0] * LANGUAGES] * 100


def test_rows_with_and_without_refreshed_hubness_can_be_scanned_together(tmp_path: Path) -> None:
    store = create(tmp_path)
    store.upsert(rows(range(10)))
    set_hubness(store, [f"d{i}" for i in range(10)], np.zeros((10, LANGUAGES), np.float32))
    store.upsert(rows(range(10, 20)))
    batches = list(store.scan(("id", "hubness"), batch_rows=5))
    assert all(batch.schema == batches[0].schema for batch in batches)
    assert sum(batch.num_rows for batch in batches) == 20
