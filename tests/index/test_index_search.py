"""Search in an index: hits compared with dense arithmetic, pairs, recall, vectors."""

import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import madeup
import numpy as np
import pytest
from index_documents import FEW, refused

from cr5 import Cr5, Document
from cr5._typing import Array
from cr5.errors import Cr5Error
from cr5.index import Index
from cr5.retrieval.csls import NEIGHBOURS

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


# Reading


def test_a_result_is_used_like_the_list_of_its_hits(full: Index) -> None:
    result = full.search(madeup.text("aa", [1, 2, 3]), "aa", k=5)
    assert len(result) == len(result.hits) == 5
    assert (list(result), result[0], result[1:3]) == (result.hits, result.hits[0], result.hits[1:3])
    assert not full.search(madeup.text("aa", [1, 2, 3]), "aa", k=5, min_score=1.0)


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
    index.reindex(other_model, drop_languages=["cc"])
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
