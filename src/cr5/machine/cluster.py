"""A connection to a running Dask scheduler."""

from typing import TYPE_CHECKING

from cr5.errors import Cr5Error, needs_package

if TYPE_CHECKING:
    from distributed import Client


def connect_to_scheduler(address: str, timeout_seconds: float = 10.0) -> "Client":
    """Connect to the scheduler at ``address`` ("tcp://10.0.0.1:8786") without making it Dask's default client."""
    with needs_package("a cluster", "Dask", "dask"):
        from distributed import Client
    try:
        return Client(address, timeout=timeout_seconds, set_as_default=False)
    except (OSError, ValueError) as error:
        raise Cr5Error(
            f"no Dask scheduler answers at {address}; start one with dask scheduler, or correct the address"
        ) from error
