"""The index: hits compared with dense arithmetic; adding, replacing and deleting documents; killed writers."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import madeup
import numpy as np
import pandas as pd
import polars as pl
import postgres as private
import psycopg
import pytest

from cr5 import Cr5, Document, Skipped, demo
from cr5._typing import Array
from cr5.errors import Cr5Error
from cr5.index import Index, IngestCounts, IngestSettings, full_text, snapshot
from cr5.index.background import Background
from cr5.index.hashing import hash_texts
from cr5.index.snapshot import Snapshot
from cr5.index.stores.lance import LanceStore
from cr5.index.stores.lance_words import LanceWords
from cr5.index.stores.postgres import PostgresStore
from cr5.retrieval.csls import NEIGHBOURS

FEW = madeup.corpus(concepts=30)  # 90 documents
SMALL_BATCHES = IngestSettings(batch_rows=40)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with private.server() as address:
        yield address


@pytest.fixture(params=["lance", pytest.param("postgres", marks=pytest.mark.services)])
def address(request: pytest.FixtureRequest) -> str | None:
    """The address of the store; None for the folder of the index."""
    return str(request.getfixturevalue("url")) if request.param == "postgres" else None


@pytest.fixture(scope="session")
def other_model(documents: list[Document], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A smaller model that does not know the last language."""
    path = tmp_path_factory.mktemp("models") / "other"
    Cr5(**(madeup.SETTINGS | {"rank": 20})).fit([d for d in documents if d.lang != "cc"]).save(path)
    return path


@pytest.fixture
def index(tmp_path: Path, model_folder: Path, address: str | None) -> Iterator[Index]:
    """An empty index."""
    made = Index.create(tmp_path / "index", model_folder, store=address)
    yield made
    made.close()


@pytest.fixture(scope="module")
def full(documents: list[Document], model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    """All 450 documents of the made-up languages in a folder. Read-only."""
    made = Index.create(tmp_path_factory.mktemp("full") / "index", model_folder)
    made.add(documents)
    yield made
    made.close()


def test_an_index_has_a_length_and_says_what_it_holds(full: Index, tmp_path: Path, model_folder: Path) -> None:
    assert len(full) == 450
    assert repr(full) == f"Index({str(full.folder)!r}, store='LanceDB', rank=60, langs=['aa', 'bb', 'cc'])"
    with Index.create(tmp_path / "index", model_folder) as empty:
        assert len(empty) == 0
        assert empty
    assert repr(empty) == f"Index({str(tmp_path / 'index')!r}, closed)"


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


# The oracle: dense matrices, and neighbourhood means by sorting


class Dense:
    def __init__(self, model: Cr5, documents: list[Document]) -> None:
        self.ids = [f"{d.lang}:{d.concept}" for d in documents]
        self.langs, self.concepts = np.array([d.lang for d in documents]), np.array([d.concept for d in documents])
        self.vectors = np.vstack([model.encode([d.text], d.lang) for d in documents])
        documents_of = list(zip(self.vectors, self.concepts, strict=True))
        self.means = {
            lang: [self.mean(x, lang, concept) for x, concept in documents_of] for lang in sorted(set(self.langs))
        }

    def mean(self, vector: Array, lang: str, concept: str | None) -> float:
        others = self.vectors[(self.langs == lang) & (self.concepts != concept)]
        return float(np.sort(others @ vector)[-NEIGHBOURS:].mean())

    def csls(self, vector: Array, lang: str, concept: str | None = None) -> dict[str, float]:
        """The CSLS of every document for a query of a language."""
        query_means = {other: self.mean(vector, other, concept) for other in self.means}
        return {
            name: 2 * float(x @ vector) - query_means[other] - mean
            for name, x, other, mean in zip(self.ids, self.vectors, self.langs, self.means[lang], strict=True)
        }


@pytest.fixture(scope="module")
def dense(model: Cr5, documents: list[Document]) -> Dense:
    return Dense(model, documents)


# Input of other kinds


@pytest.mark.slow
def test_a_data_frame_and_a_model_in_memory_are_enough(documents: list[Document], model: Cr5, tmp_path: Path) -> None:
    frame, two, three = pd.DataFrame(documents), cast(int, np.int8(2)), cast(int, np.int64(3))
    with Index.create(tmp_path / "index", model) as index:
        assert index.add(frame).new == len(documents)
        assert index.add(pl.from_pandas(frame)).unchanged == len(documents)
        assert index.add(frame.drop(columns="url").to_dict("records")).unchanged == len(documents)
        text = documents[0].text
        plain = index.search(text, k=3).hits
        assert index.search(text, k=three).hits == plain
        assert [hit.id for hit in index.similar(plain[0].id, k=two).hits] == [
            hit.id for hit in index.similar(plain[0].id, k=2).hits
        ]
        smaller = Cr5(**(madeup.SETTINGS | {"rank": 20})).fit(frame)
        assert index.reindex(smaller).total == len(documents)
        assert index.model.rank == 20
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def test_rows_that_cannot_be_indexed_are_named_or_counted(model_folder: Path, tmp_path: Path) -> None:
    frame = pd.DataFrame({"concept": ["1", "2"], "lang": ["aa", "aa"], "text": [madeup.word("aa", 3), None]})
    with Index.create(tmp_path / "index", model_folder) as index:
        assert refused(lambda: index.add(frame)).startswith("row 2: field 'text' is ")
        skipped = Skipped()
        assert index.add(frame, on_error="skip", skipped=skipped).new == 1
        assert skipped.counts == {"missing field": 1}
        assert refused(lambda: index.search("x", k=2.5)) == "`k=2.5` must be a whole number of at least 0"  # type: ignore[arg-type]


def test_a_model_that_is_not_fitted_makes_no_index(tmp_path: Path) -> None:
    assert refused(lambda: Index.create(tmp_path / "index", Cr5())).startswith("the model is not fitted")
    assert list(tmp_path.iterdir()) == []


# Reading


@pytest.mark.parametrize("lang", madeup.LANGS)
def test_a_search_ranks_by_csls_as_dense_arithmetic_does(full: Index, dense: Dense, model: Cr5, lang: str) -> None:
    query = madeup.text(lang, [1, 2, 3, 40, 41])
    expected = dense.csls(model.encode([query], lang)[0], lang)
    result = full.search(query, lang, k=450, mode="dense")
    hits = result.hits
    assert (result.query.lang, result.query.confidence, result.query.guessed) == (lang, 1.0, False)
    assert len(hits) == 450
    np.testing.assert_allclose([hit.score for hit in hits], sorted(expected.values(), reverse=True), atol=1e-5)
    np.testing.assert_allclose([hit.score for hit in hits], [expected[hit.id] for hit in hits], atol=1e-5)


def test_a_search_by_cosine_can_be_restricted_to_languages(full: Index, dense: Dense, model: Cr5) -> None:
    query = madeup.text("aa", [7, 8, 9])
    cosines = dict(zip(dense.ids, (dense.vectors @ model.encode([query], "aa")[0]).tolist(), strict=True))
    hits = full.search(query, "aa", k=7, langs=["bb", "cc"], mode="dense", measure="cosine").hits
    best = sorted((cosine for name, cosine in cosines.items() if not name.startswith("aa")), reverse=True)[:7]
    np.testing.assert_allclose([hit.score for hit in hits], best, atol=1e-5)
    assert {hit.lang for hit in hits} <= {"bb", "cc"}
    assert all(hit.score == hit.cosine for hit in hits)


def test_a_held_out_document_finds_its_counterparts_first(full: Index, documents: list[Document]) -> None:
    found = 0
    for document in madeup.split(documents)[1][::5]:
        hits = full.search(document.text, document.lang, k=3).hits
        found += len({hit.lang for hit in hits if hit.concept == document.concept})
    assert found >= 0.9 * 3 * len(madeup.split(documents)[1][::5])


def test_folders_may_be_named_by_strings(documents: list[Document], model_folder: Path, tmp_path: Path) -> None:
    folder, model = str(tmp_path / "index"), str(model_folder)
    assert not Index.exists(folder)
    Index.create(folder, model).close()
    index = Index.open(folder)
    index.add(documents[:3])
    assert Index.exists(folder)
    assert index.built_with(model)
    index.reindex(model)
    assert sum(index.count().values()) == 3
    index.close()


def test_the_language_of_a_query_is_guessed(full: Index) -> None:
    result = full.search(madeup.word("bb", 17))
    assert (result.query.lang, result.query.guessed) == ("bb", True)
    assert result.query.confidence > 0.9
    assert len(result.hits) == 10


def test_a_query_is_made_once_and_gives_the_same_hits_as_its_text(full: Index, model: Cr5) -> None:
    text = f"{madeup.text('bb', [3, 4, 5, 4])} unknown"
    query = full.query(text)
    assert query.tokens == text.split()
    assert query.coverage.known == pytest.approx(0.8)
    assert query.coverage == model.coverage_parts(text, "bb")
    np.testing.assert_array_equal(query.vector, model.encode([text], "bb")[0])
    assert full.search(query) == full.search(text) == full.search(query, "bb")
    with pytest.raises(Cr5Error, match="lang='aa'"):
        full.search(query, "aa")


def test_an_explanation_of_a_hit_is_that_of_its_text(full: Index) -> None:
    result = full.search(madeup.text("bb", [3, 4, 5]), k=3)
    for hit in result.hits:
        of_hit, [document] = full.explain(result.query, hit, 3), full.get([hit.id])
        of_text = full.explain(result.query, document, 3)
        assert of_hit.similarity == pytest.approx(of_text.similarity, abs=1e-5)
        assert of_hit.similarity == pytest.approx(hit.cosine, abs=1e-5)
        assert of_hit[1:] == of_text[1:]


def test_a_query_made_before_a_reindex_is_encoded_with_the_new_model(index: Index, other_model: Path) -> None:
    index.add(FEW)
    query = index.query(FEW[0].text)
    index.reindex(other_model)
    result = index.search(query, k=1)
    assert (result.hits[0].concept, result.query.vector.shape) == ("Q000", (20,))


def test_a_query_without_a_known_word_finds_nothing(full: Index) -> None:
    assert full.search("zzz", "aa").hits == []
    assert full.search("").hits == []


def test_similar_documents_are_ranked_by_csls_without_the_document_itself(full: Index, dense: Dense) -> None:
    expected = dense.csls(dense.vectors[dense.ids.index("bb:Q010")], "bb", "Q010")
    del expected["bb:Q010"]
    result = full.similar("bb:Q010", k=5)
    hits = result.hits
    assert (result.query.lang, result.query.coverage) == ("bb", (1, 0, 0))
    np.testing.assert_allclose([hit.score for hit in hits], sorted(expected.values(), reverse=True)[:5], atol=1e-5)
    assert {hit.id for hit in hits[:2]} == {"aa:Q010", "cc:Q010"}


def test_nearest_gives_the_hits_of_search_for_vectors(full: Index, model: Cr5, documents: list[Document]) -> None:
    texts = [document.text for document in documents if document.lang == "aa"][:3]
    vectors = np.vstack([model.encode(texts, "aa"), np.zeros((1, 60), np.float32)])
    found = full.nearest(vectors, "aa", k=4)
    for hits, text in zip(found[:3], texts, strict=True):
        expected = full.search(text, "aa", k=4, mode="dense").hits
        assert [replace(hit, score=0.0, cosine=0.0) for hit in hits] == [
            replace(hit, score=0.0, cosine=0.0) for hit in expected
        ]
        # A product of matrices rounds differently from a product with one vector.
        scores, expected_scores = ([(hit.score, hit.cosine) for hit in each] for each in (hits, expected))
        np.testing.assert_allclose(scores, expected_scores, atol=1e-6)
    assert found[3] == []


def test_pairs_are_each_others_nearest_by_csls(full: Index, dense: Dense) -> None:
    names = {lang: [name for name in dense.ids if name.startswith(lang)] for lang in ("aa", "bb")}
    vector = dict(zip(dense.ids, dense.vectors, strict=True))
    scores = [dense.csls(vector[a], "aa", a.partition(":")[2]) for a in names["aa"]]
    S = np.array([[score[b] for b in names["bb"]] for score in scores])
    rows = np.flatnonzero(S.argmax(axis=0)[S.argmax(axis=1)] == np.arange(len(S)))
    expected = {(names["aa"][i], names["bb"][S[i].argmax()]): S[i].max() for i in rows}
    found = full.pairs("aa", "bb", k=1000)
    assert {(match.a.id, match.b.id) for match in found} == set(expected)
    np.testing.assert_allclose([m.score for m in found], sorted(expected.values(), reverse=True), atol=1e-5)
    np.testing.assert_allclose([m.cosine for m in found], [vector[m.a.id] @ vector[m.b.id] for m in found], atol=1e-5)
    assert full.pairs("aa", "bb", k=3) == found[:3]


def test_pairs_within_a_language_never_pair_a_document_with_itself(index: Index) -> None:
    twice = [*FEW, replace(FEW[0], concept="copy", text=FEW[0].text + " " + madeup.word("aa", 3))]
    index.add(twice)
    first, *others = index.pairs("aa", "aa")
    assert {first.a.id, first.b.id} == {"aa:Q000", "aa:copy"}
    assert all(match.a.id != match.b.id for match in others)
    index.delete([f"aa:Q{i:03d}" for i in range(30)])
    assert index.pairs("aa", "aa") == []
    index.delete(["aa:copy"])
    assert index.pairs("aa", "bb") == []


def test_recall_is_the_share_of_true_neighbours_without_the_query_itself(
    full: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert full.check(queries=20)[:3] == (1.0, 20, 10)
    store, searched = full._active.store, list[Array]()
    right = store.nearest

    def poor(vectors: Array, k: int, *, exact: bool = False, **options: Any) -> Any:
        searched.append(vectors)
        found = right(vectors, k, exact=exact, **options)
        return found if exact else [table.slice(0, 6) for table in found]

    monkeypatch.setattr(store, "nearest", poor)
    assert full.check(queries=30).recall == pytest.approx(0.5)  # five of ten, and the document itself
    drawn = {tuple(np.round(vector, 5).tolist()) for vector in searched[0]}
    of = dict.fromkeys(madeup.LANGS, 0)
    for batch in store.scan(("lang", "vector")):
        vectors = np.array(batch["vector"].to_pylist(), np.float32)
        for lang, vector in zip(batch["lang"].to_pylist(), vectors, strict=True):
            of[lang] += tuple(np.round(vector, 5).tolist()) in drawn
    assert sum(of.values()) == 30
    assert min(of.values()) >= 4  # drawn from all of the index


def test_one_vector_is_one_query_and_a_wrong_shape_is_named(full: Index, model: Cr5) -> None:
    vectors = model.encode([madeup.word("aa", 5)], "aa")
    ids = [[hit.id for hit in hits] for hits in full.nearest(vectors, "aa")]
    assert [[hit.id for hit in hits] for hits in full.nearest(vectors[0], "aa")] == ids
    for wrong in (vectors[:, :7], vectors[None]):
        expected = f"`vectors` has the shape {wrong.shape}; the index needs queries x 60, as its model encodes them"
        assert refused(partial(full.nearest, wrong, "aa")) == expected


def test_an_open_index_follows_one_that_was_built_anew_with_another_model(
    index: Index, documents: list[Document]
) -> None:
    index.add(FEW)
    assert index.search(FEW[0].text, FEW[0].lang, k=1, mode="dense").hits[0].cosine == pytest.approx(1, abs=1e-3)
    for path in index.folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    with Index.create(index.folder, Cr5(rank=7, ridge=1.0).fit(documents), store=index._address) as other:
        other.add(FEW)
        again = index.search(FEW[0].text, FEW[0].lang, k=1, mode="dense").hits[0]
        assert index.model.rank == 7
        assert again.cosine == pytest.approx(1, abs=1e-3)


def test_a_closed_index_says_so(index: Index) -> None:
    index.close()
    index.close()
    for call in (
        lambda: index.search("kaka", "aa"),
        lambda: index.add(FEW),
        lambda: index.delete("aa:Q001"),
        index.count,
    ):
        assert refused(call) == "the index is closed; open it again"


@pytest.mark.parametrize("lang", [None, "aa"])
def test_a_query_that_is_no_text_is_refused(full: Index, lang: str | None) -> None:
    wrong: Any
    for wrong, shown in ((None, "None"), (["a"], "a list"), (5, "5")):
        for call in (full.search, full.query):
            assert refused(partial(call, wrong, lang)) == f"`text` is {shown}, not a string; give one text"


def test_one_language_or_id_may_be_a_string(full: Index, index: Index) -> None:
    text = madeup.word("aa", 5)
    assert full.search(text, "aa", langs="bb").hits == full.search(text, "aa", langs=["bb"]).hits
    index.add(FEW)
    assert [document.id for document in index.get("aa:Q001")] == ["aa:Q001"]
    assert index.delete("aa:Q001") == 1
    assert index.get(["aa:Q001"]) == []


def test_a_measure_that_does_not_exist_is_refused(full: Index, model: Cr5) -> None:
    wrong: Any = "dot"
    for call in (
        lambda: full.search("kaka", "aa", measure=wrong),
        lambda: full.similar("aa:Q001", measure=wrong),
        lambda: full.nearest(model.encode(["kaka"], "aa"), "aa", measure=wrong),
    ):
        assert refused(call) == """`measure='dot'` must be "cosine" or "csls\""""


def test_unknown_languages_and_ids_are_errors(full: Index) -> None:
    for call in (
        lambda: full.search("kaka", "xx"),
        lambda: full.search("kaka", "aa", langs=["xx"]),
        lambda: full.query("kaka", "xx"),
        lambda: full.pairs("aa", "xx"),
    ):
        with pytest.raises(Cr5Error, match=r"no language 'xx'.* aa, bb, cc"):
            call()
    with pytest.raises(Cr5Error, match="'aa:Q999'"):
        full.similar("aa:Q999")


# Writing


def test_documents_are_returned_as_added_and_adding_them_again_changes_nothing(index: Index) -> None:
    assert index.add(FEW) == IngestCounts(new=90)
    assert contents(index) == given(FEW)
    assert index.add(FEW) == IngestCounts(unchanged=90)
    assert contents(index) == given(FEW)
    assert [entry.title for entry in index.get(["bb:Q003", "nothing", "aa:Q001"])] == ["bb 3", "aa 1"]
    about = index.about()
    assert about["documents"] == {"aa": 30, "bb": 30, "cc": 30} == about["background"]
    assert about["rows"] == 90


def test_another_text_or_title_replaces_a_document(index: Index) -> None:
    index.add(FEW)
    changed = [replace(FEW[0], text=FEW[3].text), replace(FEW[1], title="new"), FEW[2]]
    assert index.add(changed) == IngestCounts(renewed=2, unchanged=1)
    assert contents(index) == given([*changed, *FEW[3:]])
    assert {hit.id for hit in index.search(FEW[3].text, "aa", k=2, langs=["aa"]).hits} == {"aa:Q000", "aa:Q001"}


def test_documents_without_known_words_are_counted_and_deleted(index: Index) -> None:
    index.add(FEW[:6])
    gone = [replace(FEW[0], text="zzz"), Document("Q1", "fr", "le chien"), Document("Q2", "bb", "zzz")]
    added = index.add(gone)
    assert (added.total, added.blank, added.unknown) == (0, {"aa": 1, "bb": 1}, {"fr": 1})
    assert contents(index) == given(FEW[1:6])


def test_several_documents_of_one_concept_are_numbered(index: Index) -> None:
    several = [replace(FEW[0], title=str(i)) for i in range(3)] + [replace(FEW[0], concept="Q000#2", title="its own")]
    index.add(several)
    titles = {name: fields[3] for name, fields in contents(index).items()}
    assert titles == {"aa:Q000": "0", "aa:Q000#2": "1", "aa:Q000#3": "2", "aa:Q000#2#2": "its own"}
    assert index.add(several) == IngestCounts(unchanged=4)


def test_ids_may_be_given(index: Index) -> None:
    skipped = Skipped()
    texts = [FEW[0], replace(FEW[1], text=""), replace(FEW[0], title="another")]
    index.add(texts, ids=["a", "b", "c"], on_error="skip", skipped=skipped)
    assert [(document.id, document.title) for document in index.get(["a", "b", "c"])] == [
        ("a", FEW[0].title), ("c", "another")
    ]  # fmt: skip
    assert skipped.total == 1
    index.add([replace(FEW[1], title="new")], ids=["c"])
    assert [(document.lang, document.title) for document in index.get("c")] == [(FEW[1].lang, "new")]
    assert len(index) == 2


@pytest.mark.parametrize(
    ("ids", "facts"),
    [
        (["a"], ["`ids`", "1 ids"]),
        (["a", "b", "c"], ["`ids`", "3 ids", "2 documents"]),
        (["a", "a"], ["`ids[1]`", "'a'"]),
        (["a", ""], ["`ids[1]`", "''"]),
    ],
)
def test_ids_that_are_too_few_too_many_or_not_unique_are_errors(index: Index, ids: list[str], facts: list[str]) -> None:
    with pytest.raises(Cr5Error) as caught:
        index.add(FEW[:2], ids=ids)
    assert all(fact in str(caught.value) for fact in facts)
    assert len(index) == 0


def test_a_document_whose_language_is_no_longer_one_of_the_model_is_deleted(index: Index) -> None:
    index.add(FEW[:2], ids=["a", "b"])
    counts = index.add([replace(FEW[0], lang="fr"), FEW[1]], ids=["a", "b"])
    assert (counts.unknown, counts.unchanged) == ({"fr": 1}, 1)
    assert [document.id for document in index.get(["a", "b"])] == ["b"]
    assert index.search(FEW[0].text, "aa", k=90, langs=[FEW[0].lang]).hits == []


def test_nul_characters_become_spaces(index: Index) -> None:
    index.add([replace(FEW[0], text=FEW[0].text + "\0end", title="a\0b")])
    [entry] = index.get(["aa:Q000"])
    assert (entry.title, entry.text) == ("a b", FEW[0].text + " end")


def test_deleted_documents_are_not_found(index: Index) -> None:
    index.add(FEW)
    assert index.delete(["aa:Q000", "bb:Q000", "missing"]) == 2
    assert {hit.id for hit in index.search(FEW[0].text, "aa", k=90).hits} == set(given(FEW)) - {"aa:Q000", "bb:Q000"}


def test_the_background_grows_with_the_index_and_does_not_depend_on_the_order(
    tmp_path: Path, model_folder: Path
) -> None:
    settings = IngestSettings(batch_rows=7, sample_rows=12, min_sample_rows=1)
    samples = []
    for name, order in [("a", FEW), ("b", FEW[::-1])]:
        index = Index.create(tmp_path / name, model_folder, settings=settings)
        index.add(order[:6])
        small = index.about()["background"]
        index.add(order)
        assert set(small.values()) == {2}
        assert index.about()["background"] == {"aa": 12, "bb": 12, "cc": 12}
        index.refresh()
        assert len(list(index._active.folder.glob("background-*.npz"))) == 1
        samples.append(index._active.background)
        for batch in index._active.store.scan(("concept", "vector", "hubness")):
            vectors = np.array(batch["vector"].to_pylist(), np.float32)
            expected = index._active.background.hubness(vectors, hash_texts(batch["concept"].to_pylist()))
            np.testing.assert_allclose(np.array(batch["hubness"].to_pylist()), expected, atol=1e-6)
        index.close()
    for lang in madeup.LANGS:
        np.testing.assert_array_equal(samples[0].vectors[lang], samples[1].vectors[lang])


# Reindexing


def tables(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        query = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        return {row[0] for row in connection.execute(query).fetchall()}


def test_reindexing_keeps_ids_and_readers_follow(
    index: Index, model_folder: Path, other_model: Path, address: str | None
) -> None:
    before = tables(address) if address else set()
    some = [*FEW, replace(FEW[0], title="second")]
    index.add(some)
    kept = contents(index)
    reader = Index.open(index.folder, store=address)
    assert reader.search(FEW[0].text, "aa").hits[0].concept == "Q000"
    assert index.built_with(model_folder)
    added = index.reindex(other_model)
    assert (added.new, added.unknown) == (61, {"cc": 30})
    assert not index.built_with(model_folder)
    assert contents(index) == {name: fields for name, fields in kept.items() if fields[2] != "cc"}
    for opened in (index, reader):
        assert opened.search(FEW[0].text, "aa").hits[0].concept == "Q000"
        assert opened.langs == ["aa", "bb"]
        assert opened.model.settings.rank == 20
    assert reader.add(FEW[:2]) == IngestCounts(unchanged=2)
    assert sorted(path.name for path in index.folder.iterdir()) == ["generation-2", "index.json", "lock"]
    assert not address or len(tables(address)) == len(before)
    reader.close()


@pytest.mark.slow
def test_readers_see_no_error_during_reindexing(index: Index, model_folder: Path, other_model: Path) -> None:
    index.add(FEW)
    failed, stop, answers = list[BaseException](), threading.Event(), [0]
    reader = Index.open(index.folder, store=index._address)

    def ask() -> None:
        while not stop.is_set():
            try:
                assert reader.search(FEW[0].text, "aa", k=2, langs=["aa", "bb"]).hits[0].concept == "Q000"
                answers[0] += 1
            except BaseException as error:
                failed.append(error)
                return

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for model in (other_model, model_folder, other_model):
        index.reindex(model)
    stop.set()
    for thread in threads:
        thread.join()
    reader.close()
    assert failed == []
    assert answers[0] > 3


def test_a_read_is_repeated_whenever_the_snapshot_was_replaced(
    index: Index, model_folder: Path, other_model: Path
) -> None:
    index.add(FEW)
    writer, models = Index.open(index.folder, store=index._address), iter([other_model, model_folder])

    def read(active: Snapshot) -> int:
        for model in models:
            writer.reindex(model)
            raise RuntimeError("the snapshot is gone")
        return active.number

    assert index._read(read) == 3
    writer.close()


# Killed writers


class Killed(BaseException):
    """An exception that no code catches."""


class Killer:
    """Ends a run before one of its writing steps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, address: str | None) -> None:
        self.steps, self.at = 0, 10**9
        kind = LanceStore if address is None else PostgresStore
        places: list[tuple[Any, str]] = [
            (kind, name) for name in ("create", "upsert", "delete", "set_all_hubness", "optimise")
        ]
        places += [(snapshot, "write_json"), (Background, "save"), (full_text, "write_json"), (LanceWords, "add")]
        places += [(shutil, "copytree"), (shutil, "rmtree")]
        for place, name in places:
            monkeypatch.setattr(place, name, self._killable(getattr(place, name)))

    def _killable(self, step: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            self.steps += 1
            if self.steps == self.at:
                raise Killed
            return step(*arguments, **options)

        return run

    def kill(self, run: Callable[[], Any], at: int) -> bool:
        """Run until a step; return whether the run was killed."""
        self.steps, self.at = 0, at
        try:
            run()
        except Killed:
            return True
        finally:
            self.at = 10**9
        return False


def stages(run: Callable[[], Any], killer: Killer) -> int:
    assert not killer.kill(run, 10**9)
    return killer.steps


@pytest.mark.slow
def test_a_killed_ingest_can_be_repeated_at_every_step(
    tmp_path: Path, model_folder: Path, address: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    killer, tables_before = Killer(monkeypatch, address), tables(address) if address else set()

    def fill(folder: Path) -> None:
        index = (Index.open if Index.exists(folder) else make)(folder, store=address, settings=SMALL_BATCHES)
        try:
            index.add(FEW)
        finally:
            index.close()

    def make(folder: Path, *, store: str | None, settings: IngestSettings) -> Index:
        return Index.create(folder, model_folder, store=store, settings=settings)

    steps = stages(lambda: fill(tmp_path / "whole"), killer)
    assert steps > 8
    for at in range(1, steps + 1):
        folder = tmp_path / f"killed{at}"
        assert killer.kill(lambda folder=folder: fill(folder), at)  # type: ignore[misc]
        if Index.exists(folder):
            index = Index.open(folder, store=address)
            kept = contents(index)
            assert kept.items() <= given(FEW).items()
            assert len(kept) in (0, 40, 80, 90)  # whole batches
            assert bool(index.search(FEW[0].text, "aa").hits) == bool(kept)
            assert index.about()["full_text"] == len(kept)
            index.close()
        fill(folder)
        index = Index.open(folder, store=address)
        assert contents(index) == given(FEW)
        assert index.search(FEW[0].text, "aa", k=1).hits[0].concept == "Q000"
        assert min(index.about()["background"].values()) >= 20
        assert (index.about()["full_text"], index.about()["outdated"]) == (len(FEW), None)
        index.close()
        assert sorted(path.name for path in folder.iterdir()) == ["generation-1", "index.json", "lock"]
    if address:
        assert len(tables(address) - tables_before) == 10 * (steps + 1)  # none is left over


@pytest.mark.slow
def test_a_killed_reindexing_can_be_repeated_at_every_step(
    tmp_path: Path, model_folder: Path, other_model: Path, address: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, wanted = tmp_path / "index", given([d for d in FEW if d.lang != "cc"])
    index = Index.create(folder, model_folder, store=address, settings=SMALL_BATCHES)
    index.add(FEW)
    before = len(tables(address)) if address else 0
    killer, at, killed = Killer(monkeypatch, address), 0, True
    while killed:
        at += 1
        if not index.built_with(model_folder):
            index.reindex(model_folder)
            index.add(FEW)
        killed = killer.kill(lambda: index.reindex(other_model), at)
        other = Index.open(folder, store=address)
        assert other.search(FEW[0].text, "aa", k=1).hits[0].concept == "Q000"
        assert contents(other) == (given(FEW) if other.built_with(model_folder) else wanted)
        other.close()
        index.reindex(other_model)
        assert contents(index) == wanted
        assert index.built_with(other_model)
    index.delete([])
    assert at > 8
    assert len(list(folder.iterdir())) == 3
    assert not address or len(tables(address)) == before
    index.close()


def test_an_interrupted_reindexing_is_resumed_unless_the_index_was_written(
    tmp_path: Path, model_folder: Path, other_model: Path, address: str | None
) -> None:
    index = Index.create(tmp_path / "index", model_folder, store=address, settings=SMALL_BATCHES)
    index.add(FEW)

    def stop(progress: Any) -> None:
        raise Killed

    with pytest.raises(Killed):
        index.reindex(other_model, progress=stop)
    assert index.built_with(model_folder)
    assert index.reindex(other_model).unchanged > 0
    with pytest.raises(Killed):
        index.reindex(model_folder, progress=stop)
    index.delete(["aa:Q000"])  # what was begun does not know of this, and is dropped
    assert index.reindex(model_folder).unchanged == 0
    assert "aa:Q000" not in contents(index)
    index.close()


@pytest.mark.slow
def test_a_killed_process_loses_no_committed_batch(index: Index, tmp_path: Path, address: str | None) -> None:
    code = f"""
import sys
from pathlib import Path
import madeup
from cr5.corpus.inputs import in_batches
from cr5.index import Index, IngestSettings
single = [batch for document in madeup.corpus(concepts=30) for batch in in_batches([document])]
index = Index.open(Path({str(index.folder)!r}), store={address!r}, settings=IngestSettings(batch_rows=5))
print("ready", flush=True)
index.add(single, progress=lambda progress: print(progress.stage, progress.done, flush=True))
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        done = 0
        for line in process.stdout:
            if line.startswith("index "):
                done = int(line.split()[1])
            if done >= 40:
                break
        message = refused(lambda: index.add(FEW))
        process.send_signal(signal.SIGKILL)
    assert message == f"{index.folder}: another process is writing this index; wait until it ends"
    kept = contents(index)
    assert len(kept) >= done
    assert kept.items() <= given(FEW).items()
    assert index.search(FEW[0].text, "aa").hits
    added = index.add(FEW)
    assert added.unchanged == len(kept)
    assert contents(index) == given(FEW)


# Folders


def test_a_missing_or_damaged_index_is_an_error(tmp_path: Path, model_folder: Path) -> None:
    folder = tmp_path / "index"
    assert refused(lambda: Index.open(folder)).startswith(f"{folder}: there is no index in this folder")
    refused(lambda: Index.create(folder, tmp_path))  # there is no model
    assert not folder.exists()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    message = refused(lambda: Index.create(tmp_path / "full", model_folder))
    assert message.startswith(f"{tmp_path / 'full'}: the folder is not empty (thesis.tex)")
    index = Index.create(folder, model_folder)
    assert refused(lambda: Index.create(folder, model_folder)).startswith(f"{folder}: there is an index already")
    message = refused(lambda: Index.open(folder, store="postgresql://localhost/x"))
    assert message == f"{folder}: the documents are in this folder, not on a server; leave out `store`"
    record = json.loads((folder / "index.json").read_text())
    for content in ("", "[]", "{}", json.dumps({"format": 1}), json.dumps(record)[:-9]):
        (folder / "index.json").write_text(content)
        assert refused(lambda: Index.open(folder)).startswith(f"{folder}: its index.json is damaged")
    (folder / "index.json").write_text(json.dumps(record | {"format": 9}))
    assert refused(lambda: Index.open(folder)).startswith(f"{folder}: the index has format 9, this version reads 1")
    (folder / "index.json").write_text(json.dumps(record | {"store": "papyrus"}))
    assert "'papyrus'" in refused(lambda: Index.open(folder))
    index.close()


@pytest.mark.services
def test_no_password_is_stored(tmp_path: Path, model_folder: Path, url: str) -> None:
    secret = url.replace("postgres:@", "postgres:swordfish@")
    assert "swordfish" in secret
    index = Index.create(tmp_path / "index", model_folder, store=secret)
    index.add(FEW[:3])
    index.close()
    for path in tmp_path.rglob("*.json"):
        assert "swordfish" not in path.read_text()
    again = Index.open(tmp_path / "index")
    assert len(contents(again)) == 3
    again.close()


def test_an_index_contains_its_model_and_can_be_moved(tmp_path: Path, model_folder: Path, address: str | None) -> None:
    shutil.copytree(model_folder, tmp_path / "model")
    index = Index.create(tmp_path / "index", tmp_path / "model", store=address)
    index.add(FEW)
    index.close()
    shutil.rmtree(tmp_path / "model")
    (tmp_path / "index").rename(tmp_path / "moved")
    second = Index.create(tmp_path / "index", model_folder, store=address)
    moved = Index.open(tmp_path / "moved", store=address)
    assert contents(moved) == given(FEW)
    assert moved.search(FEW[0].text).hits[0].concept == "Q000"
    assert contents(second) == {}
    moved.close()
    second.close()


# The language of a query


@pytest.fixture(scope="module")
def encyclopedia() -> Cr5:
    return Cr5(rank=20, min_documents=2, ridge=1.0, subwords=False).fit(demo.encyclopedia())


@pytest.mark.parametrize(
    ("text", "lang"), [("cane", "it"), ("chó", "vi"), ("dog", "en"), ("hund", "da"), ("siêu máy tính", "vi")]
)
def test_one_word_is_enough_to_guess_a_language(encyclopedia: Cr5, text: str, lang: str) -> None:
    assert encyclopedia.guess_language(text).lang == lang


def test_the_confidence_of_a_guess_is_its_posterior_probability(encyclopedia: Cr5) -> None:
    assert encyclopedia.guess_language("the mountain and the sea").confidence > 0.999
    assert encyclopedia.guess_language("  123 ?").confidence == pytest.approx(0.25)
    assert encyclopedia.guess_language("cane", ["en", "vi"]).lang == "en"
    assert encyclopedia.guess_language("cane", ["da"]) == ("da", 1.0)
    assert refused(lambda: encyclopedia.guess_language("cane", [])) == ("`langs` is empty; name a language")


@pytest.mark.slow
def test_sentences_of_all_languages_are_recognised(encyclopedia: Cr5) -> None:
    documents = demo.encyclopedia()[::16]
    for words, least in [(1, 0.85), (3, 0.97), (10, 1.0)]:
        guesses = [encyclopedia.guess_language(" ".join(d.text.split()[5 : 5 + words])).lang for d in documents]
        assert np.mean([guess == d.lang for guess, d in zip(guesses, documents, strict=True)]) >= least


def test_a_text_without_spaces_is_recognised() -> None:
    chinese = ["狗是人类最早驯化的动物", "山上有雪和石头", "人类和动物住在山上", "雪和石头是白色的"]
    english = ["the dog is an animal of man", "snow and stones on the hill", "man and animal on the hill", "white snow"]
    pairs = zip(chinese, english, strict=True)
    documents = [
        Document(f"Q{i}", lang, text)
        for i, pair in enumerate(pairs)
        for lang, text in zip(("zh", "en"), pair, strict=True)
    ]
    model = Cr5(rank=2, ridge=1.0, min_documents=1, min_unique=1).fit(documents)
    assert model.guess_language("人类和动物在山上").lang == "zh"
    assert model.guess_language("the animal on the hill").lang == "en"
