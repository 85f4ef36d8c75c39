"""Baselines against their definitions, and on made-up languages whose right answers are known."""

import importlib
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import madeup
import numpy as np
import pytest
from ranks import counterpart_ranks
from scipy.sparse import csr_array, issparse

from cr5 import Document
from cr5._typing import Array, Ints
from cr5.corpus.inputs import in_batches
from cr5.errors import Cr5Error
from cr5.evaluate.systems.bm25 import bm25
from cr5.evaluate.systems.esa import cl_esa
from cr5.evaluate.systems.fitted_system import FittedSystem, NotApplicableError, System
from cr5.evaluate.systems.inverted_indexing import inverted
from cr5.evaluate.systems.lsi import cl_lsi
from cr5.evaluate.systems.registry import SYSTEMS, make_systems
from cr5.evaluate.systems.shared_tokens import shared_tokens
from cr5.evaluate.systems.within_language import within_language
from cr5.evaluate.texts import TokenisedTexts, read_texts
from cr5.features.tokeniser import Tokeniser
from cr5.settings import make_settings

CROSSLINGUAL = [cl_lsi, cl_esa, inverted]
UNTRAINED = [shared_tokens, bm25]


def texts(documents: Sequence[Document]) -> dict[str, TokenisedTexts]:
    return read_texts(in_batches(documents), Tokeniser()).languages


def in_order(**languages: list[str]) -> dict[str, TokenisedTexts]:
    """Text i of every language is about concept i."""
    return texts([Document(f"Q{i:03d}", lang, text) for lang, own in languages.items() for i, text in enumerate(own)])


def several(seed: int = 1) -> dict[str, TokenisedTexts]:
    """Three languages: one lacks some concepts, some concepts have two documents, some only one language."""
    documents = [d for d in madeup.corpus(concepts=40, seed=seed) if d.lang != "cc" or int(d.concept[1:]) < 25]
    more = [replace(d, concept=f"Q{i % 7:03d}") for i, d in enumerate(madeup.corpus(("aa", "bb"), 8, seed + 1))]
    alone = [replace(d, concept=f"X{d.concept}") for d in madeup.corpus(("bb",), 5, seed + 2)]
    return texts([*documents, *more, *alone])


def empty(lang: str) -> TokenisedTexts:
    """A text without words between two with some."""
    documents = [Document(f"Q{i:03d}", name, text) for name in (lang, "zz") for i, text in enumerate(("x", "!", "y"))]
    return texts(documents)[lang]


def dense(X: Any) -> Array:
    return np.asarray(X.toarray() if issparse(X) else X)


def unit(X: Array) -> Array:
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    return np.asarray(X / np.where(norms > 0, norms, 1))


def precision(fitted: FittedSystem, held_out: dict[str, TokenisedTexts], source: str, target: str) -> float:
    queries, candidates = fitted.pair(held_out[source], source, held_out[target], target)
    ranks = counterpart_ranks(queries, held_out[source].concepts, candidates, held_out[target].concepts)
    return 100 * float((ranks == 1).mean())


def tfidf(own: TokenisedTexts, fitted: TokenisedTexts, power: float = 1.0) -> tuple[list[str], Array]:
    """TF-IDF rows, densely and by definition: (1 + ln tf) (ln((1 + n) / (1 + df)) + 1)^power, length 1."""
    bags = bags_of(fitted)
    df = {word: sum(word in bag for bag in bags) for word in {word for bag in bags for word in bag}}
    words = sorted(word for word in df if df[word] >= 3)
    idf = [(math.log((1 + len(bags)) / (1 + df[word])) + 1) ** power for word in words]
    found = np.array(
        [
            [(1 + math.log(bag[w])) * i if w in bag else 0.0 for w, i in zip(words, idf, strict=True)]
            for bag in bags_of(own)
        ]
    )
    return words, unit(found.reshape(len(own), len(words)))


def bags_of(own: TokenisedTexts) -> list[dict[str, int]]:
    return [{word: said.count(word) for word in said} for said in words_of(own)]


def words_of(own: TokenisedTexts) -> list[list[str]]:
    words, ids, offsets = own.tokens
    return [[words[j] for j in ids[offsets[i] : offsets[i + 1]]] for i in range(len(own))]


def summed(X: Array, concepts: Ints, chosen: Sequence[int]) -> Array:
    return np.array([X[concepts == concept].sum(axis=0) for concept in chosen])


def shared_by_two(training: dict[str, TokenisedTexts]) -> list[int]:
    sets = [set(own.concepts.tolist()) for own in training.values()]
    return sorted(c for c in set.union(*sets) if sum(c in own for own in sets) > 1)


# On languages that translate word for word


@pytest.fixture(scope="module")
def held_out(documents: list[Document]) -> dict[str, TokenisedTexts]:
    return texts(madeup.split(documents)[1])


@pytest.fixture(scope="module")
def training(documents: list[Document]) -> dict[str, TokenisedTexts]:
    return texts(madeup.split(documents)[0])


@pytest.mark.parametrize("system", CROSSLINGUAL)
def test_crosslingual_baselines_find_most_counterparts(
    system: System, training: dict[str, TokenisedTexts], held_out: dict[str, TokenisedTexts]
) -> None:
    fitted = system(training, rank=60, seed=0)
    for source, target in (("aa", "bb"), ("bb", "aa"), ("cc", "aa")):
        assert precision(fitted, held_out, source, target) > 70


@pytest.mark.parametrize("system", CROSSLINGUAL)
def test_two_languages_are_enough(
    system: System, training: dict[str, TokenisedTexts], held_out: dict[str, TokenisedTexts]
) -> None:
    fitted = system({lang: training[lang] for lang in ("cc", "bb")}, rank=60, seed=0)
    assert precision(fitted, held_out, "bb", "cc") > 70


@pytest.mark.parametrize("system", CROSSLINGUAL)
def test_shuffled_training_concepts_score_at_chance(
    system: System, documents: list[Document], held_out: dict[str, TokenisedTexts]
) -> None:
    found = []
    for seed in range(4):
        shuffled = madeup.shuffled(madeup.split(documents)[0], seed)
        fitted = system(texts(shuffled), rank=60, seed=0)
        found += [precision(fitted, held_out, *pair) for pair in (("aa", "bb"), ("cc", "bb"))]
    # 320 questions, each right with probability 1 / 40.
    p = 1 / madeup.HELD_OUT
    assert np.mean(found) < 100 * (p + 4 * math.sqrt(p * (1 - p) / (8 * madeup.HELD_OUT)))


@pytest.mark.parametrize("system", UNTRAINED)
def test_without_a_shared_string_the_shared_word_baselines_find_nothing(
    system: System, training: dict[str, TokenisedTexts], held_out: dict[str, TokenisedTexts]
) -> None:
    fitted = system(training, rank=60, seed=0)
    queries, candidates = fitted.pair(held_out["aa"], "aa", held_out["bb"], "bb")
    assert not (queries @ candidates.T).sum()
    assert precision(fitted, held_out, "aa", "bb") == 0


@pytest.mark.parametrize("system", CROSSLINGUAL)
def test_the_order_of_documents_and_languages_changes_nothing(
    system: System, held_out: dict[str, TokenisedTexts]
) -> None:
    training = several()
    turned = {lang: own.select_rows(np.arange(len(own))[::-1]) for lang, own in reversed(training.items())}
    products = []
    for given in (training, turned):
        left, right = system(given, rank=150, seed=0).pair(held_out["aa"], "aa", held_out["cc"], "cc")
        products.append(dense(left) @ dense(right).T)
    np.testing.assert_allclose(products[0], products[1], atol=1e-3)


@pytest.mark.parametrize("system", [*CROSSLINGUAL, shared_tokens])
def test_rows_have_length_one(
    system: System, training: dict[str, TokenisedTexts], held_out: dict[str, TokenisedTexts]
) -> None:
    for X in system(training, rank=20, seed=0).pair(held_out["aa"], "aa", held_out["bb"], "bb"):
        np.testing.assert_allclose(np.linalg.norm(dense(X), axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize(
    ("system", "name"),
    [(cl_lsi, "CL-LSI"), (cl_esa, "CL-ESA"), (inverted, "inverted indexing"), (within_language, "TF-IDF")],
)
def test_a_language_that_was_not_trained_is_refused(
    system: System, name: str, training: dict[str, TokenisedTexts]
) -> None:
    fitted = system({lang: training[lang] for lang in ("aa", "bb")}, rank=20, seed=0)
    with pytest.raises(NotApplicableError) as error:
        fitted.pair(training["cc"], "cc", training["aa"], "aa")
    assert str(error.value) == f"{name} was not trained on language cc; its languages are aa, bb"


def test_reports_are_plain_values(training: dict[str, TokenisedTexts]) -> None:
    report = cl_lsi(training, rank=20, seed=0).report
    sizes = {lang: len(tfidf(own, own)[0]) for lang, own in training.items()}
    assert report == {"concepts": madeup.CONCEPTS - madeup.HELD_OUT, "words": sizes, "rank": 20, "signature": "rank 20"}


def test_a_word_s_vector_is_that_of_a_text_of_this_word_alone(training: dict[str, TokenisedTexts]) -> None:
    for system in (cl_lsi, inverted):
        fitted = system(training, rank=20, seed=0)
        words = fitted.words("aa")[:9]
        texts = TokenisedTexts(Tokeniser()(words, "aa"), np.arange(len(words)), words)
        rows, vectors = np.asarray(fitted.embed(texts, "aa")), fitted.word_vectors("aa")[:9]
        np.testing.assert_allclose(rows, vectors / np.linalg.norm(vectors, axis=1, keepdims=True), atol=1e-5)


# Every registered baseline


@pytest.fixture(scope="module")
def named(documents: list[Document]) -> dict[str, TokenisedTexts]:
    """Training texts of two languages that share names, without which word vectors cannot be aligned."""
    given = [d for d in madeup.split(documents)[0] if d.lang != "cc"]
    return texts([replace(d, text=f"{d.text} name{int(d.concept[1:]) % 30}") for d in given])


BASELINES = {key: entry for key, entry in SYSTEMS.items() if entry.role == "baseline"}


@pytest.fixture(scope="module", params=BASELINES)
def baseline(request: pytest.FixtureRequest, named: dict[str, TokenisedTexts]) -> FittedSystem:
    entry = BASELINES[request.param]
    if entry.package:
        pytest.importorskip(entry.package.module)
    dictionary = [(madeup.word("aa", i), madeup.word("bb", i)) for i in range(200)]
    [system] = make_systems([entry], make_settings(**madeup.SETTINGS), named, {("aa", "bb"): dictionary}).values()
    return system(named, rank=20, seed=0)


def test_views_have_rows_of_one_width_in_single_precision(
    baseline: FittedSystem, held_out: dict[str, TokenisedTexts]
) -> None:
    few = held_out["bb"].select_rows(np.arange(7))
    for view in baseline.views(held_out["aa"], "aa", few, "bb"):
        assert (view.queries.shape[0], view.candidates.shape[0]) == (madeup.HELD_OUT, 7)
        assert view.queries.shape[1] == view.candidates.shape[1]
        assert view.queries.dtype == view.candidates.dtype == np.float32
        assert all(isinstance(X, np.ndarray | csr_array) for X in (view.queries, view.candidates))


def test_texts_without_words_get_empty_rows(baseline: FittedSystem) -> None:
    for view in baseline.views(empty("aa"), "aa", empty("bb"), "bb"):
        for X in (view.queries, view.candidates):
            assert not dense(X)[1].any()
            assert np.isfinite(dense(X)).all()
    none = empty("aa").select_rows(np.zeros(0, np.int64))
    for view in baseline.views(none, "aa", none, "bb"):
        assert view.queries.shape[0] == view.candidates.shape[0] == 0


def test_a_baseline_has_a_report_of_plain_values(baseline: FittedSystem) -> None:
    assert json.loads(json.dumps(dict(baseline.report))) == dict(baseline.report)


# CL-LSI


def test_lsi_is_the_dense_svd_of_merged_documents(held_out: dict[str, TokenisedTexts]) -> None:
    training = several()
    concepts = shared_by_two(training)
    blocks = {lang: tfidf(own, own, power=2.0)[1] for lang, own in training.items()}
    merged = np.hstack([summed(X, training[lang].concepts, concepts) for lang, X in blocks.items()])
    V = np.linalg.svd(merged, full_matrices=False)[2][:35].T
    parts = dict(zip(blocks, np.split(V, np.cumsum([X.shape[1] for X in blocks.values()])[:-1]), strict=True))
    fitted = cl_lsi(training, rank=35, seed=0)
    expected, found = {}, {}
    for lang in ("aa", "cc"):
        expected[lang] = unit(tfidf(held_out[lang], training[lang], power=2.0)[1] @ parts[lang])
        found[lang] = dense(fitted.embed(held_out[lang], lang))
    for source, target in (("aa", "aa"), ("aa", "cc")):  # signs are free, products are not
        np.testing.assert_allclose(found[source] @ found[target].T, expected[source] @ expected[target].T, atol=1e-4)


@pytest.mark.parametrize("system", [cl_lsi, inverted])
def test_the_rank_is_limited_by_the_data(system: System) -> None:
    training = several()
    repeated = {
        lang: own.select_rows(np.repeat(np.flatnonzero(own.concepts < 10), 2)) for lang, own in training.items()
    }
    fitted = system(repeated, rank=500, seed=0)
    assert 5 < fitted.report["rank"] <= 10
    assert dense(fitted.embed(training["aa"], "aa")).shape[1] == fitted.report["rank"]


@pytest.mark.parametrize("system", [cl_lsi, inverted])
def test_texts_of_words_that_no_shared_concept_has_are_zero(system: System) -> None:
    alone = [Document(f"X{i}", "aa", f"lonely words {i}") for i in range(5)]
    training = texts([*madeup.corpus(concepts=40), *alone])
    asked = texts([Document("Q", "aa", "lonely words"), Document("Q", "bb", "x")])["aa"]
    assert not dense(system(training, rank=30, seed=0).embed(asked, "aa")).any()


@pytest.mark.parametrize(("system", "name"), [(cl_lsi, "CL-LSI"), (inverted, "inverted indexing")])
def test_without_scikit_learn_the_error_says_what_to_install(
    system: System, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("sklearn", "sklearn.utils.extmath"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(Cr5Error) as error:
        system(several(), rank=5, seed=0)
    assert str(error.value) == f"{name} needs scikit-learn; install it with pip install 'cr5[eval]'"


@pytest.mark.parametrize(("system", "name"), [(cl_lsi, "CL-LSI"), (inverted, "inverted indexing")])
def test_an_svd_needs_shared_concepts_and_words(system: System, name: str) -> None:
    apart = texts([replace(d, concept=d.concept + d.lang) for d in madeup.corpus(concepts=10)])
    with pytest.raises(NotApplicableError) as error:
        system(apart, rank=5, seed=0)
    assert str(error.value) == f"{name} needs training concepts that two languages share; there are none"
    with pytest.raises(NotApplicableError) as error:
        system(in_order(en=["one", "two"], it=["uno", "due"]), rank=5, seed=0)
    assert str(error.value) == f"{name} needs words that occur in 3 documents or more"


# CL-ESA


def esa(own: TokenisedTexts, known: TokenisedTexts, index: Sequence[int], strongest: int) -> Array:
    """Cosines with the documents of the index, one by one."""
    X, D = (tfidf(part, known, power=2.0)[1] for part in (own, known))
    rows = []
    for x in X:
        cosines = []
        for concept in index:
            document = sum(d for d, c in zip(D, known.concepts, strict=True) if c == concept)
            cosines.append(x @ document / np.linalg.norm(document))
        least = sorted(cosines)[-strongest] if strongest < len(cosines) else 0
        rows.append([c if c >= least else 0 for c in cosines])
    return unit(np.array(rows))


@pytest.mark.parametrize("strongest", [500, 10])
def test_esa_is_the_cosines_with_the_documents_that_both_languages_have(
    held_out: dict[str, TokenisedTexts], strongest: int
) -> None:
    training = several()
    index = sorted(set(training["bb"].concepts.tolist()) & set(training["cc"].concepts.tolist()))
    assert len(index) == 25
    fitted = cl_esa(training, rank=1, seed=0, top_cosines=strongest, batch_texts=17)
    left, right = fitted.pair(held_out["cc"], "cc", held_out["bb"], "bb")
    np.testing.assert_allclose(dense(left), esa(held_out["cc"], training["cc"], index, strongest), atol=1e-5)
    np.testing.assert_allclose(dense(right), esa(held_out["bb"], training["bb"], index, strongest), atol=1e-5)


def test_esa_draws_a_large_index_by_its_seed(
    training: dict[str, TokenisedTexts], held_out: dict[str, TokenisedTexts]
) -> None:
    def rows(seed: int, source: str, target: str) -> list[Array]:
        fitted = cl_esa(training, rank=1, seed=seed, index_size=60)
        return [dense(X) for X in fitted.pair(held_out[source], source, held_out[target], target)]

    left, right = rows(0, "aa", "bb")
    assert left.shape == right.shape == (madeup.HELD_OUT, 60)
    assert (
        precision(cl_esa(training, rank=1, seed=0, index_size=60), held_out, "aa", "bb") > 50
    )  # both languages have the same
    for one, other in zip((right, left), rows(0, "bb", "aa"), strict=True):
        np.testing.assert_array_equal(one, other)
    assert not np.array_equal(left, rows(1, "aa", "bb")[0])


def test_esa_needs_concepts_that_the_pair_shares() -> None:
    documents = [
        replace(d, concept=d.concept + d.lang if d.lang != "aa" else d.concept) for d in madeup.corpus(concepts=10)
    ]
    named = [replace(d, lang={"aa": "da", "bb": "vi", "cc": "en"}[d.lang]) for d in documents]
    training = texts(named)
    with pytest.raises(NotApplicableError) as error:
        cl_esa(training, rank=1, seed=0).pair(training["da"], "da", training["vi"], "vi")
    assert str(error.value) == "CL-ESA needs training concepts that da and vi share; there are none"


# Inverted indexing


def test_inverted_indexing_is_the_mean_of_words_that_concepts_describe(held_out: dict[str, TokenisedTexts]) -> None:
    training = several()
    concepts = shared_by_two(training)
    vocabulary = {lang: tfidf(own, own)[0] for lang, own in training.items()}
    W = np.zeros((sum(map(len, vocabulary.values())), len(concepts)))
    order = [(lang, word) for lang, words in vocabulary.items() for word in words]
    for lang, own in training.items():
        for bag, concept in zip(bags_of(own), own.concepts.tolist(), strict=True):
            for word in bag:
                if (lang, word) in order and concept in concepts:
                    W[order.index((lang, word)), concepts.index(concept)] = 1
    U = np.linalg.svd(unit(W), full_matrices=False)[0][:, :35]
    fitted = inverted(training, rank=35, seed=0)
    expected, found = {}, {}
    for lang in ("aa", "cc"):
        places = [i for i, (name, _) in enumerate(order) if name == lang]
        expected[lang] = unit(tfidf(held_out[lang], training[lang], power=1.5)[1] @ U[places])
        found[lang] = dense(fitted.embed(held_out[lang], lang))
    for source, target in (("aa", "aa"), ("aa", "cc")):
        np.testing.assert_allclose(found[source] @ found[target].T, expected[source] @ expected[target].T, atol=1e-4)


# BM25

ENGLISH = ["Nokia sold phones, phones and phones", "the year 1789 in Paris", "Ouagadougou and Paris", "a house", "!"]
ITALIAN = ["Parigi nel 1789 e a 1789", "una casa a Ouagadougou", "Nokia a Paris Nokia", "a a a a house", "la casa"]


def test_bm25_scores_as_the_library_bm25s_does() -> None:
    own = in_order(en=ENGLISH, it=ITALIAN)
    library = importlib.import_module("bm25s")
    for source, target in (("en", "it"), ("it", "en")):
        index = library.BM25(method="lucene", k1=1.2, b=0.75)
        index.index(words_of(own[target]), show_progress=False)
        known = {word for said in words_of(own[target]) for word in said}
        asked = [[word for word in said if word in known] for said in words_of(own[source])]
        expected = [index.get_scores(said) if said else np.zeros(len(own[target])) for said in asked]
        queries, candidates = bm25({}, rank=1, seed=0).pair(own[source], source, own[target], target)
        np.testing.assert_allclose(dense(queries) @ dense(candidates).T, np.array(expected), rtol=1e-5, atol=1e-6)


def test_bm25_scores_long_texts_as_the_library_bm25s_does(held_out: dict[str, TokenisedTexts]) -> None:
    own = held_out["aa"]
    index = importlib.import_module("bm25s").BM25(method="lucene", k1=1.2, b=0.75)
    index.index(words_of(own), show_progress=False)
    expected = [index.get_scores(said) for said in words_of(own)]
    queries, candidates = bm25({}, rank=1, seed=0).pair(own, "aa", own, "aa")
    np.testing.assert_allclose(dense(queries) @ dense(candidates).T, expected, rtol=1e-5)


# Shared tokens

TRAINING = {"en": ["the dog and the cat", "the house", "the Nokia"], "it": ["il cane e il gatto", "la casa", "il 1984"]}


def test_texts_that_share_a_rare_string_are_matched() -> None:
    asked = {
        "en": ["the Shakespeare play", "the year 1789", "a house in Ouagadougou"],
        "it": ["l'opera di Shakespeare", "l'anno 1789", "una casa a Ouagadougou"],
    }
    fitted = shared_tokens(in_order(**TRAINING), rank=1, seed=0)
    assert precision(fitted, in_order(**asked), "en", "it") == 100


def test_idf_comes_from_the_training_texts_of_all_languages_only() -> None:
    # Of 6 training texts: "casa" in 1, "il" in 2, "nokia" in 1, "zzz" in none.
    def idf(df: int) -> float:
        return math.log((1 + 6) / (1 + df)) + 1

    asked = in_order(en=["zzz nokia"], it=["il casa zzz zzz"])
    left, right = shared_tokens(in_order(**TRAINING), rank=1, seed=0).pair(asked["en"], "en", asked["it"], "it")
    length = math.hypot(idf(0), idf(1)) * math.hypot(idf(2), idf(1), (1 + math.log(2)) * idf(0))
    cosine = dense(left @ right.T)[0, 0]
    assert cosine == pytest.approx(idf(0) * (1 + math.log(2)) * idf(0) / length, rel=1e-6)


def test_new_words_keep_their_columns_whatever_was_embedded_before() -> None:
    asked = in_order(en=["the zzz Nokia", "yyy"], it=["il zzz 1984 Nokia", "yyy xxx"])
    fresh, used = (shared_tokens(in_order(**TRAINING), rank=1, seed=0) for _ in range(2))
    first = used.embed(in_order(en=["www xxx"], it=["vvv"])["it"], "it")
    used.embed(in_order(en=["www xxx"], it=["vvv zzz"])["en"], "en")
    pairs = [fitted.pair(asked["en"], "en", asked["it"], "it") for fitted in (fresh, used)]
    one, other = (dense(left) @ dense(right).T for left, right in pairs)
    np.testing.assert_allclose(one, other, rtol=1e-6)
    assert pairs[1][0].shape[1] > first.shape[1]


def test_the_shared_token_baseline_takes_any_language() -> None:
    fitted = shared_tokens(in_order(**TRAINING), rank=1, seed=0)
    own = in_order(en=["Nokia zzz"], vi=["zzz Nokia"])
    left, right = fitted.pair(own["en"], "en", own["vi"], "vi")
    assert dense(left @ right.T)[0, 0] == pytest.approx(1)


# The upper bound


def test_the_upper_bound_is_tfidf_within_each_language(
    training: dict[str, TokenisedTexts], held_out: dict[str, TokenisedTexts]
) -> None:
    fitted = within_language(training, rank=1, seed=0)
    for lang in madeup.LANGS:
        X = dense(fitted.embed(held_out[lang], lang))
        expected = tfidf(held_out[lang], training[lang])[1]
        np.testing.assert_allclose(X @ X.T, expected @ expected.T, atol=1e-5)
    assert not dense(fitted.embed(empty("aa"), "aa"))[1].any()
