"""Quantities: a number and its unit, with a space or without one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cr5 import Cr5, Document, Index
from cr5.index.quantities import joined_quantities, split_quantities


def test_a_number_and_a_unit_are_two_words_and_nothing_else_is_split() -> None:
    assert split_quantities(["500ml", "16GB", "dog"]) == ["500", "ml", "16", "GB", "dog"]
    others = ["mp3", "3d", "1980s", "2nd", "ab12", "500", "ml", "h2o", "٥ml", "500ml2"]
    assert split_quantities(others) == others


def test_both_words_of_a_quantity_are_matched_by_the_word_of_both_together() -> None:
    assert joined_quantities(["the", "500", "ml", "bottle"]) == {"500": ["500ml"], "ml": ["500ml"]}
    assert joined_quantities(["ml", "500", "dog"]) == {}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    documents = [Document(f"Q{i}", lang, f"{lang}{i % 7} {lang}{i % 11}") for i in range(40) for lang in ("en", "it")]
    documents += [
        Document("spaced", "en", "en1 bottle of 500 ml"),
        Document("joined", "en", "en2 bottle of 500ml"),
        Document("foreign", "it", "it3 bottiglia di 500ml"),
        Document("apart", "en", "en4 ml with pages, about 500"),
    ]
    folder: Path = tmp_path_factory.mktemp("quantities")
    Cr5(rank=5, ridge=1.0, min_documents=1).fit(documents).save(folder / "model")
    with Index.create(folder / "index", folder / "model") as index:
        index.add(documents)
        yield index


@pytest.mark.parametrize("query", ["500ml", "500 ml", "bottle 500ml", "500 ml bottle"])
def test_a_quantity_is_found_with_and_without_a_space(index: Index, query: str) -> None:
    found = [hit.concept for hit in index.search(query, lang="en", langs="en").hits]
    assert set(found[:2]) == {"spaced", "joined"}
    assert index.search(query, lang="en", langs="it").hits[0].concept == "foreign"


def test_a_quantity_that_the_index_does_not_have_as_a_word_changes_nothing(index: Index) -> None:
    found = index.search("500 km", lang="en", langs="en")
    assert {hit.concept for hit in found.hits[:2]} == {"spaced", "apart"}
