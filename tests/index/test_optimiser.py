"""Optimising in a thread: who adds documents does not wait for it, and errors are logged."""

import logging
import threading
from pathlib import Path

import madeup
import pytest

from cr5.errors import Cr5Error
from cr5.index import Index, IngestSettings
from cr5.index.optimiser import Optimiser
from cr5.index.snapshot import Snapshot

FEW = madeup.corpus(concepts=10)


def test_additions_do_not_wait_for_the_optimiser_and_closing_does(
    tmp_path: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end, ended, optimise = threading.Event(), list[int](), Snapshot.optimise

    def wait(active: Snapshot) -> None:
        may_end.wait()
        optimise(active)
        ended.append(1)

    monkeypatch.setattr(Snapshot, "optimise", wait)
    index = Index.create(tmp_path / "index", model_folder, settings=IngestSettings(optimise_beside=True))
    for number in range(3):
        index.add(FEW[10 * number : 10 * number + 10])
        assert len(index) == 10 * number + 10
    assert not ended
    may_end.set()
    index.close()
    assert 1 <= len(ended) <= 3


def test_an_error_of_an_optimiser_is_logged_and_the_next_request_tries_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("cr5.index"), "propagate", True)  # a server in the same process changes it
    calls = list[int]()

    def fail() -> None:
        calls.append(1)
        raise Cr5Error("the disk is full")

    optimiser = Optimiser(fail)
    for number in (1, 2):
        optimiser.request()
        optimiser.wait()
        assert len(calls) == number
        assert caplog.text.count("could not be optimised: the disk is full") == number


def test_a_request_during_a_call_leads_to_another_call() -> None:
    started, may_end, calls = threading.Event(), threading.Event(), list[int]()

    def call() -> None:
        calls.append(1)
        started.set()
        may_end.wait()

    optimiser = Optimiser(call)
    optimiser.request()
    started.wait()
    for _ in range(5):
        optimiser.request()
    may_end.set()
    optimiser.wait()
    assert len(calls) == 2
