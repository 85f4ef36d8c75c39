"""Counts and TF-IDF, against scikit-learn and against the formulas by hand."""

import itertools
import math
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import get_args

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import up_to
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import TfidfVectorizer

from cr5.features import tfidf
from cr5.features.counts import FEW_TEXTS, WordCounter, WordCounts, count_tokens, count_words
from cr5.features.tfidf import Idf, Tf, TfFormula, Vocabulary, Weighting, fit_vocabulary, remap_columns, tfidf_rows
from cr5.features.tokeniser import Tokeniser

CORPUS = [
    "The bear is a large mammal of the forest. The bear sleeps in winter.",
    "A forest is a large area of land with trees; a forest may burn.",
    "Winter is the coldest season of the year, and a bear sleeps through the winter.",
    "The year has four seasons: winter, spring, summer and autumn.",
    "Trees lose leaves in autumn. Trees grow leaves in spring.",
    "",
    "!!! ???",
    "Mammal mammal mammal",
]
NEW = ["A bear in the forest, a bear!", "zebra quagga", "", "zebra in winter"]


def counted(texts: list[str]) -> WordCounts:
    return count_words(texts, "en", Tokeniser())


def fitted(texts: list[str] = CORPUS, **options: object) -> Vocabulary:
    everything: dict[str, object] = {"min_documents": 1, "subwords": False}
    return fit_vocabulary(counted(texts), Weighting(**(everything | options)))  # type: ignore[arg-type]


def as_counters(counts: WordCounts) -> list[Counter[str]]:
    """Counts row by row, whatever the order of the columns."""
    table = counts.matrix.toarray()
    return [Counter({w: int(n) for w, n in zip(counts.words, row, strict=True) if n}) for row in table]


# Counting


def test_counts_are_those_of_a_counter() -> None:
    expected = [Counter(text.lower().translate(str.maketrans(".,;:!?", " " * 6)).split()) for text in CORPUS]
    counts = counted(CORPUS)
    assert as_counters(counts) == expected
    assert counts.unique_words.tolist() == [len(row) for row in expected]
    assert as_counters(counts.select_rows(np.array([7, 0]))) == [expected[7], expected[0]]


def test_counted_rows_are_sorted_and_without_duplicates() -> None:
    matrix = count_tokens(Tokeniser()(["b a b c a", "c b"], "en")).matrix
    matrix.check_format(full_check=True)
    assert all(np.all(np.diff(matrix.indices[a:b]) > 0) for a, b in zip(matrix.indptr, matrix.indptr[1:], strict=False))
    assert matrix.nnz == 5


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_chunks_and_threads_do_not_change_counts_or_order(threads: int, size: int) -> None:
    texts = CORPUS * 5
    with ThreadPoolExecutor(threads) as pool:
        counter = WordCounter("en", Tokeniser(), pool, max_pending=2)
        for i in range(0, len(texts), size):
            chunk = texts[i : i + size]
            counter.add(pa.array(chunk) if i % 2 else chunk)
        counts = counter.finish()
    assert as_counters(counts) == as_counters(counted(CORPUS)) * 5
    assert counts.words == counted(CORPUS).words  # in the order of their first use


def test_chunks_without_a_word_are_counted_as_empty_rows() -> None:
    with ThreadPoolExecutor(1) as pool:
        counter = WordCounter("en", Tokeniser(), pool)
        for chunk in (["", "!"], ["b a"], [], ["?"], ["c"]):
            counter.add(chunk)
        counts = counter.finish()
    assert counts.matrix.shape == (5, 3)
    assert counts.unique_words.tolist() == [0, 0, 2, 0, 1]


@pytest.mark.parametrize("chunks", [[], [[]], [["", "?"]]])
def test_nothing_to_count_gives_a_matrix_without_columns(chunks: list[list[str]]) -> None:
    with ThreadPoolExecutor(1) as pool:
        counter = WordCounter("en", Tokeniser(), pool)
        for chunk in chunks:
            counter.add(chunk)
        counts = counter.finish()
    assert counts.words == []
    assert counts.matrix.shape == (sum(map(len, chunks)), 0)


def test_few_short_texts_are_counted_as_those_of_a_large_batch() -> None:
    few = ["Il cane e il gatto", "", "l\u2019amico, l\u2019amico: Straße 42", "犬が好き"]
    many = count_words([*few, *["other words"] * FEW_TEXTS], "it", Tokeniser())
    counts = count_words(few, "it", Tokeniser())
    for i in range(len(few)):
        expected = dict(zip(many.words, many.matrix[[i]].toarray()[0].tolist(), strict=True))
        found = dict(zip(counts.words, counts.matrix[[i]].toarray()[0].tolist(), strict=True))
        assert found == {word: expected[word] for word in counts.words}
        assert sum(found.values()) == sum(expected.values())


def test_an_error_while_counting_is_not_lost() -> None:
    with ThreadPoolExecutor(1) as pool:
        counter = WordCounter("en", Tokeniser(), pool)
        counter.add([1])  # a number is no text
        with pytest.raises(TypeError):
            counter.finish()


# Vocabulary


def test_the_vocabulary_has_the_most_frequent_words_first_and_ties_by_name() -> None:
    features = fitted(["b b a", "c a d", "d é b", "e"])
    assert features.words == ["b", "a", "d", "c", "e", "é"]


def test_words_of_too_few_documents_are_left_out_however_frequent() -> None:
    texts = ["x x x x y", "y z", "z y"]
    assert fitted(texts, min_documents=2).words == ["y", "z"]
    assert fitted(texts, min_documents=3).words == ["y"]
    assert fitted(texts, min_documents=4).words == []


def test_only_the_most_frequent_words_are_kept() -> None:
    texts = ["c c c b b a d"]
    assert fitted(texts, max_words=3).words == ["c", "b", "a"]
    assert fitted(texts, max_words=0).words == []


def test_the_order_of_documents_does_not_change_the_vocabulary_or_its_idf() -> None:
    one, other = fitted(CORPUS), fitted(CORPUS[::-1])
    assert one.words == other.words
    np.testing.assert_array_equal(one.idf, other.idf)


# Weights


@pytest.mark.parametrize("tf", ["raw", "log"])
@pytest.mark.parametrize("min_documents", [1, 2])
def test_rows_equal_those_of_scikit_learn_where_the_definitions_agree(tf: str, min_documents: int) -> None:
    features = fitted(tf=tf, idf="smooth", idf_power=1.0, min_documents=min_documents)
    other = TfidfVectorizer(
        vocabulary=features.words, token_pattern=r"\w+", smooth_idf=True, sublinear_tf=tf == "log", norm="l2"
    ).fit(CORPUS)
    np.testing.assert_allclose(features.idf, other.idf_, rtol=1e-6)
    for texts in (CORPUS, NEW):
        rows = features.transform(counted(texts))
        assert rows.dtype == np.float32
        np.testing.assert_allclose(rows.toarray(), other.transform(texts).toarray(), atol=1e-6)


TF: dict[str, Callable[[float], float]] = {
    "raw": lambda count: count,
    "log": lambda count: 1 + math.log(count),
    "log1p": math.log1p,
}
IDF: dict[str, Callable[[int, int], float]] = {
    "plain": lambda df, n: math.log(n / max(df, 1)) + 1,
    "smooth": lambda df, n: math.log((1 + n) / (1 + df)) + 1,
}


@pytest.mark.parametrize("power", [1.0, 1.5])
@pytest.mark.parametrize("tf", get_args(Tf))
@pytest.mark.parametrize("idf", get_args(Idf))
def test_rows_are_those_of_the_formulas(tf: Tf, idf: Idf, power: float) -> None:
    documents = [Counter(text.split()) for text in ("a a a b", "a c", "a b d d")]
    df = {"a": 3, "b": 2, "c": 1, "d": 1}
    features = fitted(["a a a b", "a c", "a b d d"], tf=tf, idf=idf, idf_power=power)
    rows = features.transform(counted(["a a a b", "a c", "a b d d"])).toarray()
    for row, document in zip(rows, documents, strict=True):
        weights = {word: TF[tf](n) * IDF[idf](df[word], 3) ** power for word, n in document.items()}
        length = math.hypot(*weights.values())
        expected = [weights.get(word, 0) / length for word in features.words]
        np.testing.assert_allclose(row, expected, rtol=1e-6)


@pytest.mark.parametrize("tf", [*get_args(Tf), "log1p"])
def test_rows_of_counts_have_the_term_frequency_that_is_named(tf: TfFormula) -> None:
    row = tfidf_rows(csr_array([[3, 0, 2]]), np.array([1.0, 2.0, 4.0]), tf).toarray()[0]
    values = np.array([TF[tf](3), 0, 4 * TF[tf](2)])
    np.testing.assert_allclose(row, values / np.linalg.norm(values), rtol=1e-6)


def test_a_term_frequency_that_does_not_exist_is_not_taken_for_another() -> None:
    with pytest.raises(KeyError, match="logs"):
        tfidf_rows(csr_array([[3]]), np.ones(1), "logs")  # type: ignore[arg-type]


@pytest.mark.parametrize("power", [0.5, 1.0, 1.5])
@pytest.mark.parametrize("idf", get_args(Idf))
def test_the_document_frequency_follows_from_the_idf(idf: Idf, power: float) -> None:
    features = fitted(idf=idf, idf_power=power)
    documents = [set(Tokeniser().words(text, "en")) for text in CORPUS]
    expected = [sum(word in document for document in documents) for word in features.words]
    np.testing.assert_allclose(features.document_frequency(len(CORPUS)), expected, rtol=1e-5)


@pytest.mark.parametrize("idf", get_args(Idf))
def test_a_word_that_no_document_has_gets_at_least_the_idf_of_the_rarest_to_the_power_of_one(idf: Idf) -> None:
    weighting = Weighting(idf=idf, idf_power=1.5)
    rarest = float(weighting.idf_weights(np.ones(1), 8)[0]) ** (1 / 1.5)
    assert rarest <= weighting.unseen_idf(8) * (1 + 1e-9)
    assert weighting.unseen_idf(8) == pytest.approx(IDF[idf](0, 8))
    assert weighting.unseen_idf(0) == 1


def test_a_word_of_every_document_has_the_least_idf_and_it_is_one() -> None:
    for idf in get_args(Idf):
        features = fitted(["a b", "a c", "a"], idf=idf)
        assert features.idf[features.index["a"]] == features.idf.min() == 1


@given(st.lists(st.text("abc z", max_size=12), max_size=6), st.sampled_from(get_args(Tf)))
@settings(max_examples=up_to(40), deadline=None)
def test_rows_have_length_one_or_are_empty(texts: list[str], tf: str) -> None:
    features = fitted(["a b c", "a a b"], tf=tf)
    rows = features.transform(counted(texts))
    known = [bool(set(text.split()) & {"a", "b", "c"}) for text in texts]
    lengths = np.sqrt((rows.toarray() ** 2).sum(axis=1))
    np.testing.assert_allclose(lengths, np.array(known, float), atol=1e-6)
    assert (np.diff(rows.indptr) > 0).tolist() == known


def test_unknown_words_are_left_out_and_change_nothing() -> None:
    features = fitted()
    with_unknown, without = features.transform(counted(["bear zebra quagga winter zebra", "bear winter"])).toarray()
    np.testing.assert_array_equal(with_unknown, without)
    assert features.transform(counted(["zebra"])).nnz == 0


def test_a_vocabulary_without_words_gives_rows_without_columns() -> None:
    features = fitted([])
    assert (features.words, features.idf.shape) == ([], (0,))
    assert features.transform(counted(["a", ""])).shape == (2, 0)
    assert fitted().transform(counted([])).shape == (0, len(fitted().words))


# The parts


def test_remapping_moves_drops_and_sorts_columns() -> None:
    table = np.array([[1, 2, 3, 0], [0, 0, 4, 0], [0, 0, 0, 0], [5, 0, 6, 7]])
    moved = remap_columns(csr_array(table), np.array([4, -1, 0, 2]), 5)
    expected = np.zeros((4, 5), int)
    expected[:, [4, 0, 2]] = table[:, [0, 2, 3]]
    np.testing.assert_array_equal(moved.toarray(), expected)
    moved.check_format(full_check=True)
    assert moved.has_sorted_indices


@pytest.mark.parametrize(("shape", "width"), [((0, 3), 2), ((3, 0), 2), ((0, 0), 0), ((3, 2), 0)])
def test_remapping_and_weighting_accept_matrices_without_rows_or_columns(shape: tuple[int, int], width: int) -> None:
    dropped = np.full(shape[1], -1)
    rows = remap_columns(csr_array(shape, dtype=np.int32), dropped, width)
    assert rows.shape == tfidf_rows(rows, np.ones(width), "log").shape == (shape[0], width)


def test_empty_rows_at_either_end_and_in_the_middle_stay_empty() -> None:
    table = np.array([[0, 0], [3, 4], [0, 0], [0, 0], [0, 2], [0, 0]])
    rows = tfidf_rows(csr_array(table), np.ones(2), "raw").toarray()
    expected = np.array([[0, 0], [0.6, 0.8], [0, 0], [0, 0], [0, 1], [0, 0]])
    np.testing.assert_allclose(rows, expected, rtol=1e-6)


def test_the_length_of_a_row_has_the_same_bits_alone_and_among_others() -> None:
    sizes = np.repeat(np.arange(1, 60), 5)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    squares = np.random.default_rng(0).random(offsets[-1])
    alone = [tfidf._norms(squares[i:j], np.array([0, j - i])) for i, j in itertools.pairwise(offsets)]
    np.testing.assert_array_equal(np.repeat(np.array(alone), sizes), tfidf._norms(squares, offsets))


def test_weighting_does_not_change_the_counts() -> None:
    counts = counted(CORPUS)
    before = counts.matrix.toarray()
    fitted().transform(counts)
    np.testing.assert_array_equal(counts.matrix.toarray(), before)
