"""Fixtures for the tests of the server: an index and servers for it."""

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cr5 import Document

if TYPE_CHECKING:
    from serving import StartServer
    from starlette.testclient import TestClient


@pytest.fixture(scope="session")
def index_folder(model_folder: Path, documents: list[Document], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of all documents of the made-up languages. Only to be read, or copied."""
    from cr5.index import Index

    folder = tmp_path_factory.mktemp("server") / "index"
    index = Index.create(folder, model_folder)
    index.add(documents)
    index.close()
    return folder


@pytest.fixture(scope="module")
def client(index_folder: Path) -> Iterator["TestClient"]:
    """A client of a read-only server."""
    from starlette.testclient import TestClient

    from cr5.index import Index
    from cr5.server.app import create_app
    from cr5.server.settings import ServerSettings

    with TestClient(create_app(Index.open(index_folder), ServerSettings(read_only=True))) as client:
        yield client


@pytest.fixture
def start_server(index_folder: Path, tmp_path: Path) -> Iterator["StartServer"]:
    """Starts servers with given settings, for a copy of the index in ``tmp_path / "index"``; returns their clients."""
    from starlette.testclient import TestClient

    from cr5.index import Index
    from cr5.server.app import create_app
    from cr5.server.settings import ServerSettings

    folder = tmp_path / "index"
    shutil.copytree(index_folder, folder)
    clients: list[TestClient] = []

    def start(**settings: Any) -> TestClient:
        app = create_app(Index.open(folder), ServerSettings(**settings))
        clients.append(TestClient(app, raise_server_exceptions=False).__enter__())
        return clients[-1]

    yield start
    for client in clients:
        client.__exit__(None, None, None)


@pytest.fixture
def restored_loggers() -> Iterator[None]:
    """The loggers are as before after a test."""
    from cr5.server import logs

    loggers = [logging.getLogger(name) for name in (*logs.LOGGERS, logs.REQUEST_LOG, logs.EVENT_LOG)]
    before = [(logger.handlers, logger.propagate, logger.level) for logger in loggers]
    yield
    logs.configure("text")  # closes a log file
    for logger, (handlers_before, propagate, level) in zip(loggers, before, strict=True):
        logger.handlers, logger.propagate = handlers_before, propagate
        logger.setLevel(level)
