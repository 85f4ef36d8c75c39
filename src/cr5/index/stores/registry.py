"""The store backends that an index can use."""

from collections.abc import Mapping
from typing import Any

from cr5.errors import Cr5Error
from cr5.index.stores import lance, postgres
from cr5.index.stores.base import StoreBackend

BACKENDS: tuple[StoreBackend, ...] = (lance.LanceBackend(), postgres.PostgresBackend())  # the first match is used


def backend_for(address: str | None) -> StoreBackend:
    """The backend for an address, or for None, the folder of the index."""
    for backend in BACKENDS:
        if backend.accepts(address):
            return backend
    raise Cr5Error("there is no store for this `store` address; use postgresql://USER@HOST:PORT/DATABASE")


def backend_of(record: Mapping[str, Any]) -> StoreBackend:
    """The backend that wrote a record in ``index.json``."""
    for backend in BACKENDS:
        if backend.recognises(record):
            return backend
    raise Cr5Error(f"the index is in a store of unknown kind, {record['store']!r}; use a newer version of cr5")
