"""From counted documents to maps: what is refused, and what is reported."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import madeup
import numpy as np
import pytest
from madeup import word
from oracle import dense_maps
from scipy.sparse import hstack
from training_corpora import chosen, counted

from cr5 import CorpusError, Cr5, Document, NotConverged
from cr5.errors import Cr5Error, DocumentsLeftOut, LanguageLeftOut, RankLowered
from cr5.features.subwords import Subwords
from cr5.features.tfidf import Vocabulary
from cr5.progress import Progress
from cr5.retrieval.vectors import document_vectors
from cr5.settings import Ridge, make_settings
from cr5.storage.language_map import LanguageMap
from cr5.training import pipeline
from cr5.training.counted_corpus import CountedCorpus
from cr5.training.engines import cpu
from cr5.training.engines.cpu import CpuEngine
from cr5.training.pipeline import choose_rank, fingerprint, max_documents_per_concept, train
from cr5.training.ridge import DEFAULT_RIDGE, held_out_count
from cr5.training.selection import few_concepts_warnings
from cr5.training.view_weights import WEIGHTS, expected_weight


def few_concepts_notes(concepts: int) -> list[str]:
    return [str(note) for note in few_concepts_warnings(concepts, madeup.SETTINGS["min_documents"])]


@pytest.fixture(scope="module")
def corpus(documents: list[Document]) -> CountedCorpus:
    return counted(documents)


# What is refused


def assert_refused(corpus: CountedCorpus, *facts: str, **changes: Any) -> None:
    with pytest.raises(CorpusError) as caught:
        train(corpus, chosen(**changes))
    for fact in facts:
        assert fact in str(caught.value)


def test_one_language_is_not_enough(documents: list[Document]) -> None:
    alone = counted([d for d in documents if d.lang == "aa"])
    assert_refused(alone, "documents in one language only (aa)")
    nothing = counted([])
    assert_refused(nothing, "the corpus has no documents")


def test_documents_that_are_all_too_short_are_refused_with_the_limit(corpus: CountedCorpus) -> None:
    assert_refused(corpus, "of 450 documents, 450 too short", "`min_unique=1000`", min_unique=1000)


def test_a_corpus_without_a_frequent_word_is_refused(corpus: CountedCorpus) -> None:
    assert_refused(corpus, "450 with only rare words", "`min_documents=1000`", min_documents=1000)


def test_languages_that_share_one_concept_are_refused(documents: list[Document]) -> None:
    assert_refused(counted(documents[:3]), "share 1 concept", min_documents=1)


# A language that nothing can be learned of


def test_a_language_without_a_usable_document_is_left_out_with_a_warning(documents: list[Document]) -> None:
    apart = counted([replace(d, concept=f"other {d.concept}") if d.lang == "cc" else d for d in documents])
    with pytest.warns(
        LanguageLeftOut, match="language cc is left out: of 150 documents, 150 whose concept is in one language only"
    ):
        languages, report = train(apart, chosen())
    assert list(languages) == ["aa", "bb"]
    assert report["corpus"]["languages"]["cc"] == {
        "read": 150,
        "used": 0,
        "left_out": {"concept in one language only": 150},
    }
    assert report["notes"][1:] == few_concepts_notes(150)


def test_a_lower_limit_of_documents_is_advised_only_where_it_is_higher() -> None:
    advice = [
        ["`min_documents=2`" in str(note) for note in few_concepts_warnings(150, limit)] for limit in (1, 2, 3, 5)
    ]
    assert advice == [[False], [False], [True], [True]]


def test_limits_that_leave_out_most_documents_warn(documents: list[Document]) -> None:
    short = [Document(f"short {i}", lang, word(lang, i % 9)) for i in range(300) for lang in ("aa", "bb")]
    with pytest.warns(DocumentsLeftOut, match="of 1,050 documents, 600 too short") as caught:
        model = Cr5(**madeup.SETTINGS).fit([*documents, *short])
    assert "`min_unique=5`" in str(caught[0].message)
    assert caught[0].filename == __file__  # it points at whoever called fit
    assert model.report["notes"] == [str(caught[0].message), *few_concepts_notes(150)]


def test_short_and_long_texts_train_by_default(documents: list[Document]) -> None:
    usual = [d for d in documents if d.lang != "cc"]
    short = [Document(f"S{i:03d}", lang, word(lang, i)) for i in range(100) for lang in ("aa", "bb")]
    many = " ".join(f"w{i}" for i in range(1001))
    long = [Document(f"L{i}", lang, many) for i in range(2) for lang in ("aa", "bb")]
    changes: dict[str, Any] = {"rank": 60, "ridge": 0.3, "min_documents": 2}
    _, report = train(counted([*usual, *short, *long]), make_settings(**changes))
    assert report["corpus"]["documents"] == {"read": 504, "used": 504, "left_out": {}}
    with pytest.warns(DocumentsLeftOut, match="200 too short.*4 too long"):
        _, report = train(counted([*usual[:160], *short, *long]), make_settings("wsdm19", **changes, min_unique=2))
    assert report["corpus"]["documents"]["left_out"] == {"too short": 200, "too long": 4}


def test_a_corpus_whose_concepts_do_not_match_is_refused_with_one_of_each_language(documents: list[Document]) -> None:
    renamed = [replace(d, concept=f"{d.lang}/{d.concept}") for d in documents[:90]]
    assert_refused(counted(renamed), "probably have different names (aa: 'aa/Q", "; bb: 'bb/Q", ridge=0.3)


# Ranks


@pytest.mark.parametrize("rank", [150, 151, 3000])
def test_a_rank_beyond_the_concepts_is_refused(corpus: CountedCorpus, rank: int) -> None:
    assert_refused(corpus, f"`rank={rank}` is too large for 150 shared concepts; use ", "`rank<=149`", rank=rank)


def test_a_rank_beyond_the_vocabulary_is_refused(corpus: CountedCorpus) -> None:
    assert_refused(corpus, "`rank=60` is too large for the 30 words", "`rank<=30`", max_words=10)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "largest"),
    [({"ridge": 0.3}, 49), ({"ridge": "auto"}, 49 - held_out_count(50)), ({"ridge": 0.3, "max_words": 10}, 30)],
    ids=["concepts", "concepts without the held-out ones", "words"],
)
def test_the_one_rank_that_is_offered_works(documents: list[Document], changes: dict[str, Any], largest: int) -> None:
    few = counted([d for d in documents if int(d.concept[1:]) < 50])
    assert_refused(few, f"use `rank<={largest}`", rank=1000, **changes)
    assert_refused(few, f"use `rank<={largest}`", rank=largest + 1, **changes)
    languages, report = train(few, chosen(rank=largest, **changes))
    assert languages["aa"].map.shape[1] == report["rank"] == largest


@pytest.mark.slow
@pytest.mark.parametrize(("ridge", "expected"), [(0.3, 49), ("auto", 49 - held_out_count(50))])
def test_the_default_rank_is_lowered_for_a_small_corpus_with_a_warning(
    documents: list[Document], ridge: float | str, expected: int, tmp_path: Path
) -> None:
    settings = {name: value for name, value in madeup.SETTINGS.items() if name != "rank"} | {"ridge": ridge}
    with pytest.warns(RankLowered, match=f"the rank is {expected} instead of 300") as caught:
        model = Cr5(**settings).fit([d for d in documents if int(d.concept[1:]) < 50])
    [lowered] = [str(warning.message) for warning in caught if warning.category is RankLowered]
    assert (f'50 shared concepts, of which `ridge="auto"` holds out {49 - expected}, allow' in lowered) == (
        ridge == "auto"
    )
    assert model.rank == model.report["rank"] == expected
    assert model.encode(["some text"], "aa").shape == (1, expected)
    assert model.report["notes"] == [*few_concepts_notes(50), lowered]
    model.save(tmp_path / "model")
    loaded = Cr5.load(tmp_path / "model")
    assert (loaded.rank, loaded.settings) == (expected, model.settings)
    assert loaded.get_params()["rank"] is None


def word_by_word(words: int, count: int, copies: int = 1) -> list[Document]:
    """Texts of some words in two languages that are translations word by word, and copies of them."""
    rng = np.random.default_rng(0)
    drawn = [rng.integers(0, words, 40).tolist() for _ in range(count)] * copies
    return [Document(str(i), lang, madeup.text(lang, row)) for i, row in enumerate(drawn) for lang in ("aa", "bb")]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::cr5.errors.FewDocuments", "ignore::cr5.errors.RepeatedDocuments")
@pytest.mark.parametrize("ridge", [1.0, "auto"])
@pytest.mark.parametrize(
    ("documents", "dimensions"),
    [(word_by_word(20, 400), 20), (word_by_word(9, 300), 9), (word_by_word(200, 40, copies=4), 39)],
    ids=["word by word", "few words", "copies"],
)
def test_a_rank_beyond_what_the_documents_span_is_refused_once_with_the_one_that_works(
    documents: list[Document], dimensions: int, ridge: Ridge
) -> None:
    with pytest.warns(RankLowered, match=f"the rank is {dimensions} instead of 300: the documents span only "):
        assert Cr5(ridge=ridge, min_documents=1).fit(documents).rank == dimensions
    for rank in (dimensions + 1, 3 * dimensions, 5000):
        with pytest.raises(Cr5Error, match=rf"`rank={rank}` is .*{dimensions} dimensions.* use `rank<={dimensions}`"):
            Cr5(rank=rank, ridge=ridge, min_documents=1).fit(documents)
    assert Cr5(rank=dimensions, ridge=ridge, min_documents=1).fit(documents).rank == dimensions


def test_the_default_rank_is_lowered_to_the_number_of_words_with_a_warning(documents: list[Document]) -> None:
    with pytest.warns(RankLowered, match="the rank is 30 instead of 300, the most that the 30 words of all languages"):
        assert Cr5(ridge=1.0, max_words=10).fit(documents).rank == 30


def test_the_default_rank_stays_where_the_corpus_allows_it() -> None:
    assert choose_rank(make_settings(ridge=1.0), concepts=301, words=300) == 300
    held_out = held_out_count(1000)
    assert choose_rank(make_settings(rank=999 - held_out, ridge="auto"), concepts=1000, words=2000) == 999 - held_out
    with pytest.raises(CorpusError, match=f"use `rank<={999 - held_out}`"):
        choose_rank(make_settings(rank=1000 - held_out, ridge="auto"), concepts=1000, words=2000)


def test_a_rank_that_a_tiny_corpus_does_not_allow_is_refused_whatever_the_ridge(documents: list[Document]) -> None:
    few = counted([d for d in documents if int(d.concept[1:]) < 15])
    assert_refused(few, "`rank<=14`", rank=200, ridge="auto")
    assert choose_rank(chosen(rank=14, ridge=1.0), concepts=15, words=500) == 14


@pytest.fixture
def scarce(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has little memory left for what takes much."""
    monkeypatch.setattr(cpu, "available_memory", lambda: 4_234_567_890)
    monkeypatch.setattr(pipeline, "memory_needed", lambda blocks, concepts, rank: 98_765_432_100)


@pytest.mark.usefixtures("scarce")
def test_a_fit_that_memory_cannot_hold_is_refused_before_it_begins(
    corpus: CountedCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "_fit", None)
    with pytest.raises(Cr5Error) as caught:
        train(corpus, chosen())
    for fact in ("98.8 GB", "4.2 GB", "`memory=2_000_000_000`", "`rank`"):
        assert fact in str(caught.value)


@pytest.mark.usefixtures("scarce")
def test_a_fit_that_memory_cannot_hold_takes_a_budget(corpus: CountedCorpus) -> None:
    _, report = train(corpus, chosen(), engine=CpuEngine(memory=2**30))
    assert report["converged"]


def test_too_few_concepts_to_choose_a_ridge_on_get_the_default_one(documents: list[Document], tmp_path: Path) -> None:
    few = counted([d for d in documents if int(d.concept[1:]) < 39])
    languages, report = train(few, chosen(rank=5, ridge="auto"), checkpoint=tmp_path / "fit.checkpoint")
    same, _ = train(few, chosen(rank=5, ridge=DEFAULT_RIDGE))
    assert (report["ridge"], report["ridge_path"]) == (DEFAULT_RIDGE, [])
    assert "39 shared concepts are too few" in report["ridge_note"]
    np.testing.assert_array_equal(languages["aa"].map, same["aa"].map)


# What comes out


@pytest.mark.slow
@pytest.mark.parametrize("subwords", [False, True])
def test_maps_in_the_metric_of_the_signal_scale_the_dense_eigenvectors(
    documents: list[Document], subwords: bool
) -> None:
    two = counted([d for d in documents if d.lang != "cc"])
    picked = chosen(rank=8, tol=3e-4, max_steps=300, subwords=subwords)
    languages, report = train(two, picked)
    vocabularies = two.fit_vocabularies(picked.weighting)
    words = {lang: vocabularies[lang].transform(d.local_counts) for lang, d in two.languages.items()}
    matrices = {lang: vocabulary.subword_matrix() for lang, vocabulary in vocabularies.items()}
    blocks = {lang: hstack([X, X @ matrices[lang]]).tocsr() if subwords else X for lang, X in words.items()}
    concepts = {lang: d.concepts for lang, d in two.languages.items()}
    phi, theta = dense_maps(blocks, concepts, rank=8, ridge=picked.ridge, intercept="language")  # type: ignore[arg-type]
    np.testing.assert_allclose(report["eigenvalues"], theta, rtol=1e-4)
    # Z V are B-orthonormal eigenvectors; squared, scaled and summed up they are free of sign.
    B = phi @ _pencil(blocks, float(picked.ridge)) @ phi.T
    A = phi @ _between(blocks, concepts) @ phi.T
    values, V = np.linalg.eig(np.linalg.solve(B, A))
    V = V[:, np.argsort(-values)].real
    V /= np.sqrt(np.einsum("ij,ik,kj->j", V, B, V))
    Z = phi.T @ V * np.sqrt(theta / (max_documents_per_concept(concepts) - theta))
    if subwords:  # words, and the n-grams that the model keeps
        ends = np.cumsum([X.shape[1] for X in blocks.values()])[:-1]
        parts = {}
        for (lang, X), own in zip(words.items(), np.split(Z, ends), strict=True):
            of_words, of_ngrams = own[: X.shape[1]], own[X.shape[1] :]
            kept = languages[lang].subwords
            assert kept is not None
            parts[lang] = np.vstack([of_words + matrices[lang] @ of_ngrams, of_ngrams[: len(kept.ngrams)]])
        Z = np.vstack(list(parts.values()))
    found = np.vstack([_all_rows(languages[lang]) for lang in blocks])
    np.testing.assert_allclose(found @ found.T, Z @ Z.T, atol=2e-3 * np.abs(Z @ Z.T).max())


def _all_rows(language: LanguageMap) -> Any:
    own = language.subwords
    parts = [language.map, own.map.astype(float) * own.scale] if own else [language.map]
    return np.vstack(parts).astype(float)


def test_the_offset_is_the_vector_of_the_mean_document(documents: list[Document]) -> None:
    two = counted([d for d in documents if d.lang != "cc"])
    languages, report = train(two, chosen())
    for lang, vocabulary in two.fit_vocabularies(chosen().weighting).items():
        X = vocabulary.transform(two.languages[lang].local_counts)
        expected = X.mean(axis=0) @ languages[lang].map.astype(float)
        np.testing.assert_allclose(languages[lang].offset, expected, atol=1e-4 * np.abs(expected).max())
        own = languages[lang].subwords
        assert own is not None
        assert vocabulary.subwords is not None
        assert report["languages"][lang]["subwords"] == len(vocabulary.subwords.ngrams) >= len(own.ngrams)
        assert own.ngrams == vocabulary.subwords.ngrams[: len(own.ngrams)]
        np.testing.assert_array_equal(own.squares, vocabulary.subwords.squares)


def _centred(blocks: dict[str, Any]) -> list[Any]:
    return [X.toarray().astype(float) - X.toarray().astype(float).mean(axis=0) for X in blocks.values()]


def _pencil(blocks: dict[str, Any], ridge: float) -> Any:
    from scipy.linalg import block_diag

    X = block_diag(*_centred(blocks))
    return X.T @ X + ridge * np.eye(X.shape[1])


def _between(blocks: dict[str, Any], concepts: dict[str, Any]) -> Any:
    parts = []
    for X, ids in zip(_centred(blocks), concepts.values(), strict=True):
        sums = np.zeros((madeup.CONCEPTS, X.shape[1]))
        np.add.at(sums, ids, X)
        parts.append(sums)
    S = np.hstack(parts)
    return S.T @ S


def test_the_report_tells_what_was_used(documents: list[Document]) -> None:
    short = [Document("Q000", "aa", "kaka lolo"), Document("short", "aa", "lolo"), Document("short", "bb", "жажа")]
    alone = [Document("alone", "cc", documents[2].text)]
    everything = counted([*documents, *short, *alone])
    languages, report = train(everything, chosen())
    assert report["concepts"] == 150
    assert report["corpus"] == {
        "documents": {
            "read": 454,
            "used": 450,
            "left_out": {"too short": 3, "concept in one language only": 1},
        },
        "languages": {
            "aa": {"read": 152, "used": 150, "left_out": {"too short": 2}},
            "bb": {"read": 151, "used": 150, "left_out": {"too short": 1}},
            "cc": {"read": 151, "used": 150, "left_out": {"concept in one language only": 1}},
        },
        "concepts": {
            "read": 152,
            "used": 150,
            "left_out": {"concept in one language only": 1, "counterparts left out": 1},
        },
    }
    assert (report["rank"], report["notes"]) == (60, few_concepts_notes(150))
    for lang, more in (("aa", 2), ("bb", 1), ("cc", 1)):
        facts = report["languages"][lang]
        assert (facts["documents"], facts["documents_read"]) == (150, 150 + more)
        assert facts["words"] == len(languages[lang].words) == len(languages[lang].map) == len(languages[lang].idf)
        known = set(languages[lang].words)
        assert facts["nonzeros"] == sum(len(known & set(d.text.split())) for d in documents if d.lang == lang)
    assert report["energy"] == pytest.approx(sum(report["eigenvalues"]))
    assert len(report["eigenvalues"]) == 60
    assert (report["ridge"], report["ridge_path"], report["ridge_queries"], report["path_seconds"]) == (0.3, [], 0, 0)
    expected = expected_weight(150)
    assert report["view_weights"] == {"dense": 1.0, "lexicon": 0.6, "strings": expected}
    assert (report["strings_weight_path"], report["strings_weight_expected"]) == ([], expected)
    assert (report["converged"], report["interrupted"], report["warning"]) == (True, False, "")
    assert 0 < report["residual"] <= chosen().tol
    assert report["steps"] > 0
    assert report["seconds"] > 0
    assert report["products"] > report["steps"] * 60


@pytest.mark.slow
def test_the_report_tells_the_path_to_the_ridge(corpus: CountedCorpus) -> None:
    seen: list[Progress] = []
    _, report = train(corpus, chosen(ridge="auto"), progress=seen.append)
    points = report["ridge_path"]
    best = max(point["log_likelihood"] for point in points)
    good = [point["ridge"] for point in points if point["log_likelihood"] >= best - point["standard_error"]]
    assert report["ridge"] == max(good)
    assert report["ridge_shares"] in ([1.0], [1.0, 0.7, 0.5])
    assert report["ridge_note"] == "" or len(good) == len(points)
    assert report["ridge_queries"] == 30 * 6  # thirty held-out concepts, six directions
    assert report["path_seconds"] == pytest.approx(sum(point["seconds"] for point in points))
    assert [p.stage for p in seen if p.stage != "fit"] == ["weight words"] + ["choose the ridge"] * len(points)


def named(documents: list[Document], noise: float) -> CountedCorpus:
    """Documents with the name of their concept, which is the same in all languages, and other concepts' words."""
    random = np.random.default_rng(0)
    names = ["".join(letters) for letters in random.choice(list("abdefghiklmnoprstuvz"), (madeup.CONCEPTS, 9))]
    texts = {(d.concept, d.lang): d.text for d in documents}
    changed = []
    for d in documents:
        other = f"Q{random.integers(madeup.CONCEPTS):03d}" if random.random() < noise else d.concept
        changed.append(replace(d, text=f"{texts[other, d.lang]} {names[int(d.concept[1:])]}"))
    return counted(changed)


@pytest.mark.slow
def test_names_get_a_larger_weight_where_the_vectors_find_less(documents: list[Document]) -> None:
    weights = []
    for noise in (0.0, 0.95):
        _, report = train(named(documents, noise), chosen(ridge="auto"))
        weights.append(report["view_weights"]["strings"])
        tried = [point["weight"] for point in report["strings_weight_path"]]
        assert set(tried) >= set(WEIGHTS)
    assert weights[0] < weights[1]
    _, report = train(named(documents, 0.95), chosen(ridge="auto", strings_weight=0.3))
    assert (report["view_weights"]["strings"], report["strings_weight_path"]) == (0.3, [])


@pytest.mark.slow
def test_a_chosen_ridge_gives_the_same_model_as_the_same_ridge_given(corpus: CountedCorpus) -> None:
    chosen_by_path, report = train(corpus, chosen(ridge="auto"))
    given, _ = train(corpus, chosen(ridge=report["ridge"]))
    for lang, language in chosen_by_path.items():
        np.testing.assert_array_equal(language.map, given[lang].map)


def test_a_fit_that_has_not_converged_warns(documents: list[Document]) -> None:
    with pytest.warns(NotConverged) as caught:
        model = Cr5(**madeup.SETTINGS | {"max_steps": 1, "tol": 1e-9}).fit(documents)
    message = (
        f"the fit stopped after 1 step at residual {model.report['residual']:.3g}, above the tolerance 1e-09; "
        "increase `max_steps` or `tol`"
    )
    assert [str(warning.message) for warning in caught] == [*few_concepts_notes(150), message]
    assert caught[0].filename == __file__  # it points at whoever called fit
    assert (model.report["warning"], model.report["converged"]) == (message, False)


@pytest.mark.slow
@pytest.mark.parametrize("ridge", [0.3, "auto"])
def test_an_engine_that_keeps_to_a_budget_learns_the_same_model(corpus: CountedCorpus, ridge: float | str) -> None:
    plain, report = train(corpus, chosen(ridge=ridge))
    scarce, other = train(corpus, chosen(ridge=ridge), engine=CpuEngine(memory=2**29))
    timed = {"seconds", "path_seconds", "ridge_path"}
    assert {k: v for k, v in report.items() if k not in timed} == {k: v for k, v in other.items() if k not in timed}
    for lang in plain:
        np.testing.assert_array_equal(plain[lang].map, scarce[lang].map)
        np.testing.assert_array_equal(plain[lang].offset, scarce[lang].offset)


def test_the_vector_of_an_empty_document_is_zero() -> None:
    from scipy.sparse import csr_array

    X = csr_array(np.array([[3, 0], [0, 0], [1, 1]], np.float32))
    found = document_vectors(X, np.eye(2, dtype=np.float32), np.array([0, 1], np.float32))
    expected = np.array([[3 / 10**0.5, -1 / 10**0.5], [0, 0], [1, 0]])
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("change", [{"seed": 1}, {"tol": 0.01}, {"tf": "raw"}, {"rank": 59}, {"lowercase": False}])
def test_a_fingerprint_knows_every_setting(change: dict[str, Any]) -> None:
    assert fingerprint({}, {}, {}, chosen()) == fingerprint({}, {}, {}, chosen())
    assert fingerprint({}, {}, {}, chosen()) != fingerprint({}, {}, {}, chosen(**change))


def test_a_fingerprint_knows_the_data_in_any_order() -> None:
    features = {"aa": Vocabulary(["x", "y"], np.array([1.0, 2.0], np.float32), chosen().weighting)}
    concepts, lengths = {"aa": np.array([3, 1, 2])}, {"aa": np.array([30, 10, 20])}
    mark = fingerprint(features, concepts, lengths, chosen())
    assert fingerprint(features, {"aa": np.array([1, 2, 3])}, {"aa": np.array([10, 20, 30])}, chosen()) == mark
    assert fingerprint(features, concepts, {"aa": np.array([10, 30, 20])}, chosen()) != mark  # texts changed places
    assert fingerprint(features, {"aa": np.array([3, 1, 1])}, lengths, chosen()) != mark
    for words, idf in ((["x", "z"], [1, 2]), (["x", "y"], [1, 3])):
        other = {"aa": Vocabulary(words, np.array(idf, np.float32), chosen().weighting)}
        assert fingerprint(other, concepts, lengths, chosen()) != mark
    marks = set()
    for ngrams, weights in ((["<x>"], [1]), (["<y>"], [1]), (["<y>"], [2])):
        own = Subwords(ngrams, np.array(weights, np.float32), np.ones(2, np.float32))
        marks.add(fingerprint({"aa": replace(features["aa"], subwords=own)}, concepts, lengths, chosen()))
    assert len(marks | {mark}) == 4


"""Writes a checkpoint after every step; the ridges take several steps to fit."""


@pytest.mark.filterwarnings("ignore::cr5.errors.RepeatedDocuments")
def test_swapped_columns_and_equal_texts_are_recognised(documents: list[Document]) -> None:
    swapped = [Document(d.lang, d.concept, d.text) for d in documents if d.concept < "Q010"]
    assert_refused(counted(swapped), "there are 10 languages and 3 concepts: check that lang and concept", rank=5)
    facts = "`rank=5` is too large", "there are 10 languages and 3 concepts"
    assert_refused(counted(swapped), *facts, rank=5, min_documents=0)
    pair = [d for d in documents if d.concept == documents[0].concept][:2]  # two languages, and not swapped
    with pytest.raises(CorpusError, match="no document can be trained on") as caught:
        train(counted(pair), chosen(rank=5))
    assert "swapped" not in str(caught.value)
    equal = [replace(d, text="kaka lolo mimi nana popo") for d in documents]
    with pytest.raises(Cr5Error, match=r"more than the 0 dimensions .*; all documents have the same words"):
        train(counted(equal), chosen(min_documents=0, rank=5))
