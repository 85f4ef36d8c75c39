"""The stores that an index can use."""

from cr5.errors import Cr5Error
from cr5.index.stores.base import Store
from cr5.index.stores.lance import LanceStore
from cr5.index.stores.postgres import PostgresStore
from cr5.message_parts import quoted

STORES: tuple[type[Store], ...] = (LanceStore, PostgresStore)  # the first that accepts the address is used


def store_for(address: str) -> type[Store]:
    """The class of the store at an address."""
    for store in STORES:
        if store.accepts(address):
            return store
    kind = address.partition(":")[0]  # the rest may have a password
    forms = " or ".join(store.address_form for store in STORES if store.address_form)
    raise Cr5Error(f"there is no `store` of the kind {quoted(kind)}; use {forms}")
