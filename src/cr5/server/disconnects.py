"""Clients that have closed the connection: what only they would have read is not computed."""

from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import TypeVar

Result = TypeVar("Result")

CLIENT_IS_GONE = "client_is_gone"  # key in the state of a request


class DisconnectError(Exception):
    """The client has closed the connection before its request was answered."""


def _is_never_gone() -> bool:
    return False


client_is_gone: ContextVar[Callable[[], bool]] = ContextVar("client_is_gone", default=_is_never_gone)
"""Tells whether the client of the request that is being answered has closed the connection."""


def unless_gone(work: Callable[[], Result]) -> Callable[[], Result]:
    """Work of a request that is not begun if the client has closed the connection while the work was waiting."""
    return partial(_run_unless_gone, work, client_is_gone.get())


def _run_unless_gone(work: Callable[[], Result], is_gone: Callable[[], bool]) -> Result:
    if is_gone():
        raise DisconnectError
    return work()
