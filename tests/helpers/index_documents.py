"""Documents of an index, as added and as stored."""

from collections.abc import Callable
from typing import Any

import madeup
import pytest

from cr5 import Document
from cr5.errors import Cr5Error
from cr5.index import Index

FEW = madeup.corpus(concepts=30)  # 90 documents


def refused(call: Callable[[], Any]) -> str:
    with pytest.raises(Cr5Error) as caught:
        call()
    return str(caught.value)


def contents(index: Index) -> dict[str, tuple[str, ...]]:
    """All documents of an index, by id."""
    store, names = index._active.store, ("id", "concept", "lang", "title", "url", "text")
    return {row["id"]: tuple(row.values()) for batch in store.scan(names) for row in batch.to_pylist()}


def given(documents: list[Document]) -> dict[str, tuple[str, ...]]:
    """What ``contents`` is for documents with different languages or concepts."""
    return {
        f"{d.lang}:{d.concept}": (f"{d.lang}:{d.concept}", d.concept, d.lang, d.title, d.url, d.text) for d in documents
    }
