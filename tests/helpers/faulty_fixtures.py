"""A faulty HTTP server, and an empty folder to download to."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from faulty import Server


@pytest.fixture
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections to this machine are direct, whatever the environment says."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def isolated_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_proxy: None) -> None:
    """Work in an empty folder, without proxies and without waiting for the disk."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def server(isolated_folder: None) -> Iterator[Server]:
    """A server whose every answer the test can plan."""
    with Server() as server:
        yield server
