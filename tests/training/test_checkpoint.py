"""The file of a checkpoint: what is saved is loaded, a failed write leaves the file before it, others are refused."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from cr5._typing import Array
from cr5.errors import Cr5Error, OutputWarning
from cr5.training import checkpoint
from cr5.training.checkpoint import Checkpoint

Columns = dict[str, Array]


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now = 1000.0  # when every checkpoint of these tests begins

    def monotonic(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Clock:
    monkeypatch.chdir(tmp_path)
    clock = Clock()
    monkeypatch.setattr(checkpoint, "time", clock)
    return clock


def columns(seed: int = 0) -> Columns:
    random = np.random.default_rng(seed)
    return {"en": random.standard_normal((7, 3)).astype(np.float32), "zh-TW": random.standard_normal((5, 3))}


def never() -> Columns:
    raise AssertionError("these columns must not be fetched")


def kept(fingerprint: str = "abc") -> Checkpoint:
    return Checkpoint(Path("fit.checkpoint"), fingerprint, last_save=1000.0)


def message(at: Checkpoint) -> str:
    with pytest.raises(Cr5Error) as caught:
        at.load()
    return str(caught.value)


UNREADABLE = "fit.checkpoint cannot be read as a checkpoint; delete it to start again"


def test_columns_and_their_state_are_loaded_as_they_were_saved() -> None:
    state = {"path": {"ridge": 0.3, "points": [1, None, "x"]}}
    kept().save(columns, state, force=True)
    found = kept().load()
    assert found is not None
    assert found[1] == state
    assert list(found[0]) == ["en", "zh-TW"]
    for lang, Z in columns().items():
        assert found[0][lang].dtype == Z.dtype
        np.testing.assert_array_equal(found[0][lang], Z)


def test_arrays_in_any_memory_order_come_back() -> None:
    Z = columns()["en"]
    kept().save(lambda: {"f": np.asfortranarray(Z), "slice": np.hstack([Z, Z])[:, ::2]}, {}, force=True)
    found = kept().load()
    assert found is not None
    np.testing.assert_array_equal(found[0]["f"], Z)
    np.testing.assert_array_equal(found[0]["slice"], np.hstack([Z, Z])[:, ::2])


def test_a_checkpoint_that_was_never_saved_loads_as_none() -> None:
    assert kept().load() is None


def test_the_file_is_replaced_at_most_every_so_many_seconds(clock: Clock) -> None:
    at = kept()
    written = []
    for second in range(100):
        clock.now = 1000.0 + second
        at.save(partial(columns, second), {"second": second})
        found = at.load()
        written.append(found[1]["second"] if found else None)
    assert written == [None] * 30 + [30] * 30 + [60] * 30 + [90] * 10


def test_columns_are_fetched_only_to_be_written(clock: Clock) -> None:
    at = kept()
    clock.now += 29
    at.save(never, {})
    assert at.load() is None
    clock.now += 1
    at.save(columns, {})
    at.save(never, {})
    assert at.load() is not None


def test_a_fetch_that_fails_leaves_the_last_file_whole() -> None:
    kept().save(partial(columns, 1), {"step": 1}, force=True)
    with pytest.raises(AssertionError, match="must not be fetched"):
        kept().save(never, {"step": 2}, force=True)
    found = kept().load()
    assert found is not None
    assert found[1] == {"step": 1}
    assert [path.name for path in Path().iterdir()] == ["fit.checkpoint"]


def test_a_forced_save_is_written_at_once_and_restarts_the_interval(clock: Clock) -> None:
    at = kept()
    at.save(columns, {"step": 1}, force=True)
    clock.now += 29
    at.save(columns, {"step": 2})
    found = at.load()
    assert found is not None
    assert found[1] == {"step": 1}


def test_other_documents_or_settings_are_refused() -> None:
    kept("abc").save(columns, {}, force=True)
    assert message(kept("xyz")).startswith("fit.checkpoint belongs to other documents or settings; ")
    assert Path("fit.checkpoint").exists()


def test_the_settings_that_differ_are_named() -> None:
    def kept_with(fingerprint: str, **settings: object) -> Checkpoint:
        return Checkpoint(Path("fit.checkpoint"), fingerprint, settings=settings, last_save=1000.0)

    kept_with("abc", seed=0, tol=0.1, weighting={"tf": "raw", "idf": "plain"}).save(columns, {}, force=True)
    changed = kept_with("xyz", seed=3, tol=0.1, weighting={"tf": "raw", "idf": "smooth"})
    assert "or settings (`idf` was plain and is smooth, `seed` was 0 and is 3); delete it" in message(changed)
    assert "or settings; delete it" in message(kept_with("xyz", seed=0, tol=0.1, weighting={"tf": "raw"}))


@pytest.mark.parametrize("content", [b"", b"\0" * 8, b"not a checkpoint", b"\xff" * 100])
def test_a_file_of_something_else_is_refused(content: bytes) -> None:
    Path("fit.checkpoint").write_bytes(content)
    assert message(kept()) == UNREADABLE


def test_a_file_that_was_cut_short_is_refused_wherever_the_cut() -> None:
    kept().save(columns, {}, force=True)
    whole = Path("fit.checkpoint").read_bytes()
    for size in range(0, len(whole), 7):
        Path("fit.checkpoint").write_bytes(whole[:size])
        assert message(kept()) == UNREADABLE


@pytest.mark.parametrize("metadata", [None, {"other": "{}"}, {"cr5": "{"}, {"cr5": "[1]"}, {"cr5": "1"}])
def test_a_safetensors_file_of_another_kind_is_refused(metadata: dict[str, str] | None) -> None:
    save_file(columns(), "fit.checkpoint", metadata)
    assert message(kept()) == UNREADABLE


def test_a_state_without_a_fingerprint_is_of_other_documents() -> None:
    save_file(columns(), "fit.checkpoint", {"cr5": json.dumps({})})
    assert message(kept()).startswith("fit.checkpoint belongs to other documents or settings; ")


def test_a_folder_in_its_place_is_refused() -> None:
    Path("fit.checkpoint").mkdir()
    assert message(kept()) == UNREADABLE


def test_a_write_that_fails_leaves_the_last_file_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    kept().save(partial(columns, 1), {"step": 1}, force=True)

    def fails(tensors: object, path: Path, metadata: object) -> None:
        path.write_bytes(b"half")
        raise OSError("no space left on device")

    monkeypatch.setattr(checkpoint, "write_tensors", fails)
    with pytest.warns(OutputWarning, match="no space"):
        kept().save(partial(columns, 2), {"step": 2}, force=True)
    found = kept().load()
    assert found is not None
    assert found[1] == {"step": 1}
    np.testing.assert_array_equal(found[0]["en"], columns(1)["en"])


def test_a_finished_write_leaves_one_file() -> None:
    at = kept()
    at.save(columns, {}, force=True)
    assert [path.name for path in Path().iterdir()] == ["fit.checkpoint"]
