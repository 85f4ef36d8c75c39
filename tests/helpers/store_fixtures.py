"""Stores in a folder (LanceDB) and on a server (PostgreSQL with pgvector)."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from store_places import Place

from cr5.index.stores.base import Store
from cr5.index.stores.lance_versions import LanceLimits


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    """The address of a private PostgreSQL."""
    import postgres as private

    with private.server() as address:
        yield address


@pytest.fixture(params=["lance", "lance from disk", pytest.param("postgres", marks=pytest.mark.services)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    address = request.getfixturevalue("url") if request.param == "postgres" else None
    limits = LanceLimits(in_memory_bytes=-1) if request.param == "lance from disk" else None
    made = Place(request.param.partition(" ")[0], tmp_path / "index", address, limits)
    yield made
    for store in made.stores:
        store.close()


@pytest.fixture
def store(place: Place) -> Store:
    return place.create()
