"""Rows for stores, and places where stores are created, opened again and opened by other processes."""

import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from cr5.errors import Cr5Error
from cr5.index.stores.base import Location, Store
from cr5.index.stores.lance import LanceStore
from cr5.index.stores.lance_versions import LanceLimits
from cr5.index.stores.postgres import PostgresStore
from cr5.index.stores.rows import Floats, to_lists
from cr5.retrieval.vectors import unit_rows

RANK, LANGUAGES = 8, 2
LANGS = ["da", "en", "it", "vi"]


class Kind(NamedTuple):
    """A kind of store: its class, and what messages and statistics say about one of these.

    ``label`` is the name of a place in messages, ``without_index`` the error where there is no index yet, and
    ``approximate_index`` the name of that of a large store.
    """

    store: type[Store]
    label: str
    without_index: str
    approximate_index: str


KINDS = {
    "lance": Kind(LanceStore, "{folder}", "there is no index", "cells"),
    "postgres": Kind(PostgresStore, "PostgreSQL at {server}, table {name}", "there is no index {name}", "HNSW"),
}
"""The stores that the tests run on. CONTRIBUTING.md says where a new one is added."""


class Place:
    """A folder or a database in which a store can be created, opened again, and opened by other processes."""

    def __init__(self, kind: str, folder: Path, address: str | None, limits: LanceLimits | None = None) -> None:
        self.kind, self.folder, self.address, self.limits = kind, folder, address, limits
        self.name = f"t{uuid.uuid4().hex}"
        self.stores: list[Store] = []

    @property
    def location(self) -> Location:
        return Location(self.folder) if self.address is None else Location(self.folder, self.address, self.name)

    @property
    def options(self) -> dict[str, Any]:
        return {"limits": self.limits} if self.limits and self.kind == "lance" else {}

    def create(self, rank: int = RANK) -> Store:
        store = KINDS[self.kind].store
        return self._kept(store.create(self.location, rank=rank, language_count=LANGUAGES, **self.options))

    def open(self, rank: int | None = None) -> Store:
        return self._kept(KINDS[self.kind].store.open(self.location, rank=rank, **self.options))

    def describe(self, text: str) -> str:
        """One of the texts of the kind of store, for this place."""
        server = (self.address or "").partition("host=")[2]
        return text.format(folder=self.folder, name=self.name, server=server)

    def label(self) -> str:
        """The name of the place in messages."""
        return self.describe(KINDS[self.kind].label)

    def without_index(self) -> str:
        """What the error says that opening the place raises before an index is created in it."""
        return self.describe(KINDS[self.kind].without_index)

    def approximate_index(self) -> str:
        """The name of the approximate index of a large store."""
        return KINDS[self.kind].approximate_index

    def run(self, code: str) -> "subprocess.Popen[str]":
        """Run code in another process, in which ``place`` is this place."""
        arguments = repr((self.kind, str(self.folder), self.address))
        start = f"import pathlib, store_places\nk, f, a = {arguments}\n"
        start += "place = store_places.Place(k, pathlib.Path(f), a)\n"
        start += f"place.name = {self.name!r}\n"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        return subprocess.Popen(
            [sys.executable, "-c", start + code], stdout=subprocess.PIPE, text=True, env=environment
        )

    def _kept(self, store: Store) -> Store:
        self.stores.append(store)
        return store


def set_hubness(store: Store, ids: Sequence[str], values: Floats) -> None:
    """Replace the hubness of some rows."""
    store.set_all_hubness([(ids, values)])


def unit(number: int, rank: int = RANK, seed: int = 0) -> Floats:
    """Random vectors of length 1."""
    X = np.random.default_rng(seed).standard_normal((number, rank)).astype(np.float32)
    return np.asarray(unit_rows(X), np.float32)


def clustered(number: int, rank: int, seed: int = 0) -> Floats:
    """Random vectors of length 1 in clusters of about 50."""
    generator = np.random.default_rng(seed)
    centres = unit(number // 50, rank, seed + 1)
    noise = generator.standard_normal((number, rank)).astype(np.float32) / np.float32(rank**0.5)
    X = centres[generator.integers(len(centres), size=number)] + noise
    return np.asarray(unit_rows(X), np.float32)


def rows(numbers: Any, vectors: Floats | None = None, **columns: Any) -> pa.Table:
    """Documents d0, d1, … in four languages in turn; ``columns`` replaces columns."""
    numbers = list(numbers)
    vectors = unit(max(numbers, default=0) + 1)[numbers] if vectors is None else vectors
    given = {
        "id": [f"d{i}" for i in numbers],
        "concept": [f"Q{i // 4}" for i in numbers],
        "lang": [LANGS[i % 4] for i in numbers],
        "title": [f"title {i}" for i in numbers],
        "url": [f"https://example.org/{i}" for i in numbers],
        "text": [f"text of {i}" for i in numbers],
        "digest": [f"{i:08x}" for i in numbers],
        "fields": ["{}" for _ in numbers],
    }
    hubness = (
        np.stack([np.arange(len(numbers)), np.ones(len(numbers))], axis=1) if numbers else np.empty((0, LANGUAGES))
    )
    table = {key: pa.array(value, pa.string()) for key, value in (given | columns).items() if key in given}
    table |= {"vector": columns.get("vector", to_lists(vectors)), "hubness": columns.get("hubness", to_lists(hubness))}
    return pa.table(table)


def ids(table: pa.Table) -> list[str]:
    """The ids of rows."""
    return list(table["id"].to_pylist())


def all_rows(store: Store) -> dict[str, dict[str, Any]]:
    """All rows of a store, by id."""
    names = store.schema.names
    return {row["id"]: row for batch in store.scan(names) for row in batch.to_pylist()}


def by_id(table: pa.Table) -> dict[str, dict[str, Any]]:
    """Rows by id."""
    return {row["id"]: row for row in table.to_pylist()}


def refused(call: Callable[[], Any]) -> str:
    """The message of the error that a call raises."""
    with pytest.raises(Cr5Error) as caught:
        call()
    return str(caught.value)
