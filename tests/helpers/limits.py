"""Limits of the operating system that stand in for a disk that is full."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Within this block, a write beyond that many bytes of a file fails as if the disk were full."""
    resource = pytest.importorskip("resource")  # which Windows lacks
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
