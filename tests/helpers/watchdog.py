"""A process of pytest that hangs prints where all of its threads are, and ends.

pytest-timeout raises an exception in the test, but only once and only in Python code of the main thread: a test that
hangs in a compiled library, in the ``__exit__`` of a thread pool, or in a fixture's teardown after it has failed, hangs
on. The timer of ``faulthandler`` needs neither the interpreter nor the main thread. pytest-xdist reports the test as
failed, replaces the process, and goes on with the other tests.
"""

import faulthandler
import os
from collections.abc import Generator
from typing import Any

import pytest

STDERR = pytest.StashKey[int]()
SHUTDOWN_SECONDS = 120


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("hang_seconds", "a process whose test, with its fixtures, takes longer ends", default="360")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[STDERR] = os.dup(2)  # not what the tests capture


def _start_timer(config: pytest.Config, seconds: float) -> None:
    if not config.getoption("usepdb"):
        faulthandler.dump_traceback_later(seconds, exit=True, file=config.stash[STDERR])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    _start_timer(item.config, float(item.config.getini("hang_seconds")))
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector, report: pytest.TestReport) -> None:
    """After a failure, which makes pytest stop the timer, the fixtures are still to be torn down."""
    if isinstance(node, pytest.Item):
        _start_timer(node.config, float(node.config.getini("hang_seconds")))


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    _start_timer(session.config, SHUTDOWN_SECONDS)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """A process of pytest-xdist waits for the others here, and is killed if it does not end after them."""
    if hasattr(config, "workerinput"):
        faulthandler.cancel_dump_traceback_later()
