"""Similarities by all views of a model, on made-up languages."""

from copy import deepcopy
from pathlib import Path

import madeup
import numpy as np
import pytest

from cr5 import Cr5, Document
from cr5._typing import Array
from cr5.errors import Cr5Error, NotFittedError
from cr5.features.counts import WordCounts, count_words
from cr5.features.tfidf import Weighting, fit_vocabulary
from cr5.features.tokeniser import Tokeniser
from cr5.retrieval.strings import string_rows, string_statistics, vocabulary_statistics
from cr5.retrieval.text_similarity import explain_views, view_shares
from cr5.storage.model_files import save


@pytest.fixture(scope="module")
def articles() -> list[Document]:
    return madeup.corpus(("aa", "bb"))


@pytest.fixture(scope="module")
def fitted(articles: list[Document]) -> Cr5:
    return Cr5(**madeup.SETTINGS).fit(madeup.split(articles)[0])


def test_counterparts_are_more_similar_than_other_texts(fitted: Cr5, articles: list[Document]) -> None:
    held_out = madeup.split(articles)[1]
    found = fitted.similarity(madeup.texts(held_out, "aa"), "aa", madeup.texts(held_out, "bb"), "bb")
    assert found.shape == (madeup.HELD_OUT, madeup.HELD_OUT)
    assert (found.argmax(axis=1) == np.arange(len(found))).mean() > 0.9
    assert np.abs(found).max() <= 1
    assert abs(found[~np.eye(len(found), dtype=bool)].mean()) < 0.1


def test_the_similarity_of_two_texts_depends_on_no_other_text(fitted: Cr5, articles: list[Document]) -> None:
    a, b = (madeup.texts(articles[:40], lang) for lang in ("aa", "bb"))
    together = fitted.similarity(a, "aa", b, "bb")
    alone = [[fitted.similarity([x], "aa", [y], "bb")[0, 0] for y in b[:4]] for x in a[:3]]
    np.testing.assert_allclose(together[:3, :4], alone, atol=1e-5)
    np.testing.assert_allclose(fitted.similarity(b, "bb", a, "aa"), together.T, atol=1e-5)


def test_equal_texts_of_a_language_have_the_similarity_one_and_empty_texts_zero(fitted: Cr5) -> None:
    text = madeup.text("aa", [3, 17, 29, 41])
    assert fitted.similarity([text], "aa", [text], "aa")[0, 0] == pytest.approx(1, abs=1e-4)
    assert fitted.similarity([text], "aa", [""], "bb")[0, 0] == 0
    assert fitted.similarity([], "aa", [text], "bb").shape == (0, 1)


def test_one_text_may_be_a_string(fitted: Cr5, articles: list[Document]) -> None:
    a, b = (madeup.texts(articles[:6], lang) for lang in ("aa", "bb"))
    table = fitted.similarity(a, "aa", b, "bb")
    number = fitted.similarity(a[0], "aa", b[1], "bb")
    assert isinstance(number, float)
    assert number == pytest.approx(table[0, 1], abs=1e-6)
    np.testing.assert_allclose(fitted.similarity(a[0], "aa", b, "bb"), table[0], atol=1e-6)
    np.testing.assert_allclose(fitted.similarity(a, "aa", b[1], "bb"), table[:, 1], atol=1e-6)
    assert fitted.similarity(a[0], "aa", [], "bb").shape == (0,)


def test_languages_of_similar_texts_are_given_or_guessed_as_for_encode(fitted: Cr5, articles: list[Document]) -> None:
    a, b = (madeup.texts(articles[:6], lang) for lang in ("aa", "bb"))
    mixed = [a[0], b[0], a[1]]
    table = fitted.similarity(a + b, ["aa"] * len(a) + ["bb"] * len(b), mixed, None)
    for rows, texts, lang in ((slice(len(a)), a, "aa"), (slice(len(a), None), b, "bb")):
        columns = [
            fitted.similarity(texts, lang.upper(), one, of) for one, of in zip(mixed, ["AA", "bb", "aa"], strict=True)
        ]
        np.testing.assert_allclose(table[rows], np.transpose(columns), atol=1e-5)
    with pytest.raises(Cr5Error, match=r"`lang_b` has 2 codes for 1 text;"):
        fitted.similarity(a, "aa", b[:1], ["bb", "bb"])
    with pytest.raises(Cr5Error, match="'xx'"):
        fitted.similarity([], "xx", b, "bb")
    with pytest.raises(Cr5Error, match=r"`texts_b\[0\]` is 5"):
        fitted.similarity(a, "aa", [5], "bb")  # type: ignore[list-item]


def test_the_views_of_an_explanation_add_up_to_the_similarity(fitted: Cr5) -> None:
    a, b = madeup.text("aa", [3, 17, 29, 41]) + " Rotterdam", madeup.text("bb", [3, 17, 29, 60]) + " Rotterdam"
    explained = fitted.explain(a, "aa", b, "bb", views=True)
    total = sum(view.share * view.cosine for view in explained.views)
    assert total == pytest.approx(float(fitted.similarity([a], "aa", [b], "bb")[0, 0]), abs=1e-5)
    assert sum(view.share for view in explained.views) == pytest.approx(1)
    views = {view.view: view for view in explained.views}
    assert views["dense"].cosine == pytest.approx(explained.similarity, abs=1e-5)
    assert views["strings"].words_a[0].word == views["strings"].words_b[0].word == "rotterdam"
    translated = {word for word, _ in views["lexicon"].words_a}
    assert madeup.word("aa", 41) not in translated
    assert len(translated & {madeup.word("aa", i) for i in (3, 17, 29)}) >= 2
    without = fitted.explain(a.replace("Rotterdam", ""), "aa", b, "bb", views=True).views
    for view, other in zip(explained.views, without, strict=True):
        falls = {found.word: found.fall for found in view.words_a}
        assert max(falls.get("rotterdam", 0), 0) == pytest.approx(max(view.cosine - other.cosine, 0), abs=1e-5)
    plain = fitted.explain(a, "aa", b, "bb")
    assert plain == explained._replace(views=())


def test_the_words_of_a_long_text_are_chosen_by_their_own_similarity(fitted: Cr5) -> None:
    numbers, scorer = list(range(0, 120, 2)), fitted._languages.scorer()
    a = fitted._counts([madeup.text("aa", numbers) + " Rotterdam"], "aa")
    b = fitted._counts([madeup.text("bb", [4, 8]) + " Rotterdam"], "bb")
    exact = {view.view: view for view in explain_views(scorer, *a, *b, 2)}
    for view in explain_views(scorer, *a, *b, 2, max_removed_words=20):
        assert view.cosine == exact[view.view].cosine
        assert view.words_b == exact[view.view].words_b
        assert dict(view.words_a) == pytest.approx(dict(exact[view.view].words_a), abs=1e-6)
    assert all(len(view.words_a) <= 1 for view in explain_views(scorer, *a, *b, 50, max_removed_words=1))


def test_explaining_a_long_text_removes_a_limited_number_of_words(fitted: Cr5, monkeypatch: pytest.MonkeyPatch) -> None:
    largest, encode = 0, fitted._languages.encoder("aa").vectors

    def vectors(counts: WordCounts) -> Array:
        nonlocal largest
        largest = max(largest, counts.matrix.nnz)
        return encode(counts)

    monkeypatch.setattr(fitted._languages.encoder("aa"), "vectors", vectors)
    words = [f"{madeup.word('aa', i % 100)}x{i}" for i in range(3000)]
    fitted.explain(" ".join(words), "aa", madeup.text("bb", [4, 8]), "bb", views=True)
    assert 0 < largest <= 101 * len(words)


def test_texts_are_compared_with_the_weights_of_the_model_or_with_given_ones(
    articles: list[Document], tmp_path: Path
) -> None:
    training, held_out = madeup.split(articles)
    a, b = (madeup.texts(held_out, lang)[:3] for lang in ("aa", "bb"))
    model = Cr5(**madeup.SETTINGS, strings_weight=0.4).fit(training)
    assert dict(model.view_weights) == {"dense": 1, "lexicon": 0.6, "strings": 0.4}
    model.save(tmp_path / "model")
    other = Cr5(**madeup.SETTINGS, strings_weight=0).fit(training)
    for same in (model, Cr5.load(tmp_path / "model"), deepcopy(model)):
        assert same.view_weights == model.view_weights
        table = same.similarity(a, "aa", b, "bb")
        np.testing.assert_allclose(other.similarity(a, "aa", b, "bb", weights={"strings": 0.4}), table, atol=1e-6)
        for view in same.explain(a[0], "aa", b[0], "bb", views=True).views:
            assert view.share == view_shares(model._languages.scorer())[view.view]
    assert not np.allclose(other.similarity(a, "aa", b, "bb"), table, atol=1e-4)
    assert [view.view for view in other.explain(a[0], "aa", b[0], "bb", views=True).views] == ["dense", "lexicon"]
    vectors = (model.encode(texts, lang) for texts, lang in ((a, "aa"), (b, "bb")))
    alone = model.similarity(a, "aa", b, "bb", weights={"lexicon": 0, "strings": 0})
    np.testing.assert_allclose(alone, next(vectors) @ next(vectors).T, atol=1e-6)


def test_the_weights_of_a_model_cannot_be_changed_and_given_ones_are_checked(fitted: Cr5) -> None:
    with pytest.raises(TypeError):
        fitted.view_weights["strings"] = 1  # type: ignore[index]
    with pytest.raises(Cr5Error, match="no view 'string'; the views are dense, lexicon, strings"):
        fitted.similarity("a", "aa", "b", "bb", weights={"string": 1})
    with pytest.raises(Cr5Error, match="the weight -1 of the view 'strings' must be 0 or more"):
        fitted.similarity("a", "aa", "b", "bb", weights={"strings": -1})
    with pytest.raises(NotFittedError):
        Cr5().view_weights  # noqa: B018


def test_a_model_of_an_older_version_has_the_weights_that_were_the_same_for_all(fitted: Cr5, tmp_path: Path) -> None:
    report, settings = fitted.report, fitted.settings.to_json()
    del report["view_weights"], settings["strings_weight"]
    languages = {lang: fitted._language(lang) for lang in fitted.langs}
    save(tmp_path / "model", {"settings": settings, "report": report}, languages)
    assert dict(Cr5.load(tmp_path / "model").view_weights) == {"dense": 1, "lexicon": 0.6, "strings": 0.15}


def test_the_shares_are_those_of_the_weights(fitted: Cr5) -> None:
    scorer = fitted._languages.scorer()
    assert list(view_shares(scorer)) == ["dense", "lexicon", "strings"]
    assert view_shares(scorer.only("dense")) == {"dense": 1}


def test_a_fit_forgets_the_views_of_the_last_one(articles: list[Document]) -> None:
    model = Cr5(**madeup.SETTINGS).fit(articles)
    texts = madeup.texts(articles, "aa")[:3], madeup.texts(articles, "bb")[:3]
    before = model.similarity(texts[0], "aa", texts[1], "bb")
    model.fit(articles[: len(articles) // 2])
    fresh = Cr5(**madeup.SETTINGS).fit(articles[: len(articles) // 2])
    after = model.similarity(texts[0], "aa", texts[1], "bb")
    np.testing.assert_allclose(after, fresh.similarity(texts[0], "aa", texts[1], "bb"), atol=1e-6)
    assert not np.allclose(before, after, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("letters", ["abcdefghij", "абвгдежзик"])
def test_the_statistics_of_a_vocabulary_are_close_to_those_of_texts_with_independent_words(letters: str) -> None:
    random = np.random.default_rng(0)
    words = ["".join(random.choice(list(letters), random.integers(3, 9))) for _ in range(400)]
    chances = random.uniform(0.005, 0.3, 400)
    texts = [" ".join(w for w, p in zip(words, chances, strict=True) if random.random() < p) for _ in range(2000)]
    counts = count_words(texts, "en", Tokeniser())
    vocabulary = fit_vocabulary(counts, Weighting(idf_power=1.5, min_documents=1))
    estimated = vocabulary.document_frequency(2000)
    counted = dict(zip(counts.words, np.diff(counts.matrix.tocsc().indptr).tolist(), strict=True))
    np.testing.assert_allclose(estimated, [counted[word] for word in vocabulary.words], rtol=1e-3)
    expected, found = string_statistics(counts), vocabulary_statistics(vocabulary.words, estimated, 2000)
    np.testing.assert_allclose(found.idf, expected.idf, atol=0.2)
    assert np.linalg.norm(found.mean - expected.mean) < 0.1 * np.linalg.norm(expected.mean)
    assert string_rows(counts, found).shape == string_rows(counts, expected).shape
