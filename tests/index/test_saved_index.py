"""A model and an index that an earlier version wrote open and give the same answers.

``tests/data/index-format-1`` holds a model of rank 8 of three made-up languages, an index of 30 documents in a LanceDB
folder, most of them in an inverted-file index, and the answers of the version that wrote both.
"""

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import madeup
import numpy as np
import pytest

from cr5 import CorpusError, Cr5
from cr5.index import Index

SAVED = Path(__file__).parents[1] / "data" / "index-format-1"
ANSWERS: dict[str, Any] = json.loads((SAVED / "answers.json").read_text(encoding="utf-8"))


@pytest.fixture
def saved(tmp_path: Path) -> Iterator[Index]:
    """A copy of the index, which a test may change."""
    shutil.copytree(SAVED / "index", tmp_path / "index")
    index = Index.open(tmp_path / "index")
    yield index
    index.close()


def assert_same(hits: Any, expected: list[dict[str, Any]]) -> None:
    assert [(hit.id, hit.title) for hit in hits] == [(answer["id"], answer["title"]) for answer in expected]
    for name in ("score", "cosine"):
        np.testing.assert_allclose(
            [getattr(hit, name) for hit in hits], [answer[name] for answer in expected], atol=1e-5
        )


def test_a_saved_model_encodes_texts_as_before() -> None:
    model = Cr5.load(SAVED / "model")
    for lang, text in ANSWERS["texts"].items():
        np.testing.assert_allclose(model.encode([text], lang)[0], ANSWERS["encode"][lang], atol=1e-5)


def test_a_saved_index_belongs_to_its_model_and_holds_its_documents(saved: Index) -> None:
    about = saved.about()
    assert saved.built_with(SAVED / "model")
    assert (about["documents"], about["rank"], about["index"]) == (ANSWERS["documents"], 8, "cells")


def test_a_saved_index_answers_as_before(saved: Index) -> None:
    for lang, text in ANSWERS["texts"].items():
        expected = ANSWERS["search"][lang]
        result = saved.search(text, k=5, mode="dense")
        assert result.query.lang == expected["lang"]
        assert result.query.confidence == pytest.approx(expected["confidence"], abs=1e-5)
        assert_same(result.hits, expected["csls"])
        assert_same(saved.search(text, lang, k=5, mode="dense", measure="cosine").hits, expected["cosine"])
    for name, expected in ANSWERS["similar"].items():
        assert_same(saved.similar(name, k=5).hits, expected)
    pairs = saved.pairs("aa", "bb", k=5)
    assert [(pair.a.id, pair.b.id) for pair in pairs] == [(pair["a"], pair["b"]) for pair in ANSWERS["pairs"]]
    np.testing.assert_allclose([pair.score for pair in pairs], [pair["score"] for pair in ANSWERS["pairs"]], atol=1e-5)


def test_a_saved_index_can_be_added_to_and_encoded_with_another_model(saved: Index, model_folder: Path) -> None:
    documents = madeup.corpus(concepts=60)
    added = saved.add(documents[:40])
    assert (added.new, added.unchanged) == (10, 30)
    assert saved.reindex(model_folder).new == 40
    assert saved.search(documents[39].text, "aa", k=1).hits[0].concept == documents[39].concept


def test_a_saved_index_without_full_text_says_so_and_gets_it_when_it_is_refreshed(saved: Index) -> None:
    text, about = ANSWERS["texts"]["aa"], saved.about()
    assert about["full_text"] == 0
    assert about["outdated"] == (
        "30 documents cannot be found by their words, and long documents cannot be found by their passages, "
        "and documents cannot have fields; bring the index up to date with `refresh`"
    )
    assert saved.search_words(text, "aa") == []
    [first] = saved.search(text, "aa", k=1, langs="aa").hits
    saved.refresh()
    about = saved.about()
    assert (about["full_text"], about["outdated"]) == (30, None)
    assert saved.search_words(first.text, "aa", k=1)[0].id == first.id
    with Index.open(saved.folder) as reopened:
        assert reopened.search_words(first.text, "aa") == saved.search_words(first.text, "aa")


def test_documents_that_are_added_to_a_saved_index_are_found_by_their_words(saved: Index) -> None:
    new = madeup.corpus(concepts=60)[33:36]
    saved.add(new)
    assert saved.search_words(new[0].text, "aa", k=5)[0].concept == new[0].concept
    assert saved.about()["full_text"] == 3
    assert saved.about()["outdated"].startswith("30 documents")


def test_a_saved_index_takes_documents_with_fields_once_it_is_refreshed(saved: Index) -> None:
    old, new = madeup.corpus(concepts=60)[0], replace(madeup.corpus(concepts=60)[33], fields={"year": 2019})
    [before] = saved.get(f"{old.lang}:{old.concept}")
    assert before.fields == {}
    with pytest.raises(CorpusError, match="`refresh`"):
        saved.add([new])
    saved.refresh()
    saved.add([new])
    assert saved.get(f"{new.lang}:{new.concept}")[0].fields == {"year": 2019}
    assert saved.get(before.id) == [before]
    assert saved.add([old]).unchanged == 1


def test_an_index_that_is_being_searched_can_be_copied_and_moved(saved: Index, tmp_path: Path) -> None:
    text = ANSWERS["texts"][saved.langs[0]]
    expected = saved.search(text, saved.langs[0]).hits
    shutil.copytree(saved.folder, tmp_path / "copy")
    shutil.move(tmp_path / "copy", tmp_path / "elsewhere")
    with Index.open(tmp_path / "elsewhere") as copy:
        assert copy.search(text, saved.langs[0]).hits == expected
        assert copy.delete(expected[0].id) == 1
    assert saved.search(text, saved.langs[0]).hits == expected
