"""Indexes for the tests of LangChain, Haystack and LlamaIndex: one to read, and an empty one to write."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"  # read once, when Haystack is imported

import madeup
import pytest

from cr5 import Cr5, Document
from cr5.index import Index

CONCEPTS = [f"Q{i:03d}" for i in range(8)]


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever connects to anything fails."""

    def refuse(self: socket.socket, address: Any) -> None:
        raise AssertionError(f"someone calls {address}")

    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.fixture(scope="session")
def articles_with_fields(documents: list[Document]) -> list[dict[str, Any]]:
    """Documents of a few concepts in three languages, with fields."""
    own = [document for document in documents if document.concept in CONCEPTS]
    fields = {name: {"year": 2010 + i, "tags": ["even", "odd"][i % 2 :]} for i, name in enumerate(CONCEPTS)}
    names = ("concept", "lang", "text", "title")
    return [{name: getattr(each, name) for name in names} | {"fields": fields[each.concept]} for each in own]


@pytest.fixture(scope="session")
def filled_index_folder(
    model: Cr5, articles_with_fields: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The folder of an index of the articles."""
    folder = tmp_path_factory.mktemp("indexes") / "filled"
    with Index.create(folder, model) as index:
        index.add(articles_with_fields)
    return folder


@pytest.fixture(scope="session")
def filled_index(filled_index_folder: Path) -> Iterator[Index]:
    """An index of the articles. Only to be read."""
    with Index.open(filled_index_folder) as index:
        yield index


@pytest.fixture
def empty_index(model_folder: Path, tmp_path: Path) -> Iterator[Index]:
    """An index without documents."""
    with Index.create(tmp_path / "index", model_folder) as index:
        yield index


@pytest.fixture(scope="session")
def article_query() -> str:
    """A text in the first language about the first concept: words of its document."""
    [document] = [each for each in madeup.corpus() if each.concept == CONCEPTS[0] and each.lang == "aa"]
    return " ".join(document.text.split()[:8])
