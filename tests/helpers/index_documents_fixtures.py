"""Indexes of the made-up languages: empty ones in every store, and a full one."""

from collections.abc import Iterator
from pathlib import Path

import madeup
import pytest

from cr5 import Cr5, Document
from cr5.index import Index


@pytest.fixture(params=["lance", pytest.param("postgres", marks=pytest.mark.services)])
def address(request: pytest.FixtureRequest) -> str | None:
    """The address of the store; None for the folder of the index."""
    return str(request.getfixturevalue("url")) if request.param == "postgres" else None


@pytest.fixture(scope="session")
def other_model(documents: list[Document], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A smaller model that does not know the last language."""
    path = tmp_path_factory.mktemp("models") / "other"
    Cr5(**(madeup.SETTINGS | {"rank": 20})).fit([d for d in documents if d.lang != "cc"]).save(path)
    return path


@pytest.fixture
def index(tmp_path: Path, model_folder: Path, address: str | None) -> Iterator[Index]:
    """An empty index."""
    made = Index.create(tmp_path / "index", model_folder, store=address)
    yield made
    made.close()


@pytest.fixture(scope="session")
def full(documents: list[Document], model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    """All 450 documents of the made-up languages in a folder. Read-only."""
    made = Index.create(tmp_path_factory.mktemp("full") / "index", model_folder)
    made.add(documents)
    yield made
    made.close()
