"""Mirrors of Wikipedia dumps."""

from collections.abc import Iterator

import pytest
from mirror import Mirror
from small_wikipedia import LANGS, publish


@pytest.fixture
def mirror(no_proxy: None) -> Iterator[Mirror]:
    with Mirror() as server:
        yield server


@pytest.fixture
def xml_mirror(mirror: Mirror) -> Mirror:
    for lang in LANGS:
        publish(mirror, "xml", lang)
    return mirror
