"""The engines: what is put in, products, and parts, compared with dense arithmetic."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from engine_blocks import (
    DTYPES,
    assert_close,
    assert_near,
    assert_same,
    dense,
    get_documents,
    languages,
    many,
    names,
    put,
    set_words,
    subwords_of,
    whole_fit,
    words_of,
)
from problems import Problem
from scipy.sparse import csr_array

from cr5._typing import Array
from cr5.training.engines import BlockInfo, Engine

CONCEPTS = 34  # those of ``languages``, of which 30 to 32 occur nowhere


# Partitions come in blocks that an engine chooses: here they are put together and cut up.


def sizes(engine: Engine) -> dict[str, list[int]]:
    """The documents of every shard, by language."""
    return {lang: [f.documents for f in engine.block_info() if f.language == i] for i, lang in enumerate(engine.langs)}


def set_documents(engine: Engine, name: str, arrays: Mapping[str, Array]) -> None:
    parts = {lang: iter(np.split(arrays[lang], np.cumsum(rows)[:-1])) for lang, rows in sizes(engine).items()}
    engine.documents.set(name, [next(parts[engine.langs[block.language]]) for block in engine.block_info()])


def set_concepts(engine: Engine, name: str, S: Array) -> None:
    engine.concepts.set(name, [S[ids[:, 0]] for ids in engine.concepts.get("id")])


def get_words(engine: Engine, name: str) -> dict[str, Array]:
    return dict(zip(engine.langs, engine.words.get(name), strict=True))


def get_concepts(engine: Engine, name: str) -> Array:
    order = np.argsort(np.concatenate(engine.concepts.get("id"))[:, 0])
    return np.concatenate(engine.concepts.get(name))[order]


def documents_of(given: Problem) -> dict[str, int]:
    return {lang: X.shape[0] for lang, X in given.blocks.items()}


# What is put in


@pytest.mark.parametrize("dtype", DTYPES)
def test_block_info_describes_the_documents_that_were_put(engine: Engine, dtype: type) -> None:
    given = languages(dtype)
    put(engine, given)
    assert engine.langs == list(given.blocks)
    for i, X in enumerate(given.blocks.values()):
        shards = [block for block in engine.block_info() if block.language == i]
        assert (sum(b.documents for b in shards), sum(b.nonzeros for b in shards)) == (X.shape[0], X.nnz)
        assert {(block.words, block.dtype) for block in shards} == {(X.shape[1], np.dtype(dtype).name)}
    assert all(isinstance(block, BlockInfo) for block in engine.block_info())


def test_block_info_describes_the_subwords_of_every_language(engine: Engine) -> None:
    given = languages()
    subwords = subwords_of(given)
    put(engine, given, subwords)
    expected = [(subwords[k].shape[1], subwords[k].nnz) if k in subwords else (0, 0) for k in given.blocks]
    for block in engine.block_info():
        assert (block.subwords, block.subword_nonzeros) == expected[block.language]
    assert {lang for lang in given.blocks if lang not in subwords} == {"l1"}


def test_concepts_are_numbered_from_the_first_to_the_largest_that_occurs(engine: Engine) -> None:
    put(engine, languages())
    ids = np.concatenate(engine.concepts.get("id"))
    assert ids.shape == (CONCEPTS, 1)
    assert sorted(ids[:, 0].tolist()) == list(range(CONCEPTS))


@pytest.mark.parametrize("largest", ["first", "last"])
def test_the_largest_concept_may_come_with_any_language(engine: Engine, largest: str) -> None:
    X = csr_array(np.eye(2))
    few, more = np.array([0, 1]), np.array([2, 9])
    for lang, concepts in zip("ab", (more, few) if largest == "first" else (few, more), strict=True):
        engine.put(lang, X, concepts)
    assert len(np.concatenate(engine.concepts.get("id"))) == 10


def test_put_does_not_change_its_arguments(engine: Engine) -> None:
    given, before = languages(np.float32), languages(np.float32)
    subwords, subwords_before = subwords_of(given), subwords_of(before)
    put(engine, given, subwords)
    whole_fit(engine)
    for one, other in ((given.blocks, before.blocks), (subwords, subwords_before)):
        for lang, X in one.items():
            for name in ("data", "indices", "indptr"):
                np.testing.assert_array_equal(getattr(X, name), getattr(other[lang], name))
    assert_same(given.concepts, before.concepts)


# Products


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [1, 5, 64])
def test_multiply_is_the_product_of_every_languages_documents_with_its_words(
    engine: Engine, dtype: type, width: int
) -> None:
    given = languages(dtype)
    put(engine, given)
    V = dense(words_of(given), width, dtype)
    set_words(engine, "V", V)
    engine.multiply("V", "V")
    expected = {lang: X.toarray().astype(float) @ V[lang].astype(float) for lang, X in given.blocks.items()}
    assert_close(get_documents(engine, "V"), expected, dtype)
    assert_same(get_words(engine, "V"), V)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [1, 5, 64])
def test_a_product_can_start_from_a_row_for_every_block(engine: Engine, dtype: type, width: int) -> None:
    given = languages(dtype)
    put(engine, given)
    V = dense(words_of(given), width, dtype)
    set_words(engine, "V", V)
    rows = {lang: np.arange(width) + i for i, lang in enumerate(engine.langs)}
    engine.multiply("V", "G", [rows[engine.langs[block.language]].astype(float) for block in engine.block_info()])
    expected = {
        lang: X.toarray().astype(float) @ V[lang].astype(float) + rows[lang] for lang, X in given.blocks.items()
    }
    assert_close(get_documents(engine, "G"), expected, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [1, 5, 64])
def test_products_may_round_what_they_multiply_and_are_exact_for_words_rounded_before(
    engine: Engine, dtype: type, width: int
) -> None:
    given = languages(dtype)
    put(engine, given)
    V, U = dense(words_of(given), width, dtype), dense(documents_of(given), width, dtype)
    set_words(engine, "V", V)
    engine.round_words("V")
    engine.multiply("V", "G", may_round=True)
    multiplied = get_words(engine, "V")
    for lang, before in V.items():
        assert (np.abs(multiplied[lang] - before) <= np.abs(before) / 256).all()
        if dtype == np.float64:
            np.testing.assert_array_equal(multiplied[lang], before)
    expected = {lang: X.toarray().astype(float) @ multiplied[lang].astype(float) for lang, X in given.blocks.items()}
    assert_close(get_documents(engine, "G"), expected, dtype)
    set_documents(engine, "U", U)
    engine.multiply_transposed("U", "W", may_round=True)
    for lang, found in get_words(engine, "W").items():
        X = given.blocks[lang].toarray().T.astype(float)
        slack = np.abs(X) @ np.abs(U[lang].astype(float)) * (1 / 256 if dtype == np.float32 else 1e-12)
        assert (np.abs(found - X @ U[lang].astype(float)) <= slack + 1e-12).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [1, 5, 64])
def test_multiply_transposed_is_the_product_back_to_words_and_deletes_its_source(
    engine: Engine, dtype: type, width: int
) -> None:
    given = languages(dtype)
    put(engine, given)
    U = dense(documents_of(given), width, dtype)
    set_documents(engine, "U", U)
    set_documents(engine, "other", U)
    engine.multiply_transposed("U", "W")
    expected = {lang: X.toarray().T.astype(float) @ U[lang].astype(float) for lang, X in given.blocks.items()}
    assert_close(get_words(engine, "W"), expected, dtype)
    assert set(names(engine.documents)) == {"other"}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [1, 5, 64])
def test_fold_adds_what_words_share_by_their_subwords(engine: Engine, dtype: type, width: int) -> None:
    given = languages(dtype)
    subwords = subwords_of(given)
    put(engine, given, subwords)
    V = dense(words_of(given), width, dtype)
    set_words(engine, "V", V)
    expected: dict[str, Array] = {lang: array.astype(float) for lang, array in V.items()}
    for lang, M in subwords.items():
        expected[lang] = expected[lang] + M.toarray().astype(float) @ (M.toarray().astype(float).T @ expected[lang])
    for _ in range(2):  # the second time there are arrays to replace
        engine.fold("V", "F")
        assert_close(get_words(engine, "F"), expected, dtype)
    assert_same(get_words(engine, "V"), V)
    engine.multiply("F", "V")
    images = {lang: X.toarray().astype(float) @ expected[lang] for lang, X in given.blocks.items()}
    assert_close(get_documents(engine, "V"), images, dtype)
    assert_same(get_words(engine, "V"), V)


def test_a_folded_array_does_not_change_with_its_source(engine: Engine) -> None:
    given = languages()
    put(engine, given)  # no language has subwords
    V = dense(words_of(given), 3)
    set_words(engine, "V", V)
    engine.fold("V", "F")
    engine.words.map(lambda rows: rows.update(V=rows["V"] * 7))
    assert_same(get_words(engine, "F"), V)


@pytest.mark.parametrize("dtype", DTYPES)
def test_inverse_diagonal_sums_over_a_word_and_its_subwords(engine: Engine, dtype: type) -> None:
    given = languages(dtype)
    subwords = subwords_of(given)
    put(engine, given, subwords)
    engine.column_sums("spread", 2)
    engine.inverse_diagonal("spread", "sums", 0.5)
    expected = {}
    for lang, spread in get_words(engine, "spread").items():
        M = subwords[lang].toarray().astype(float) if lang in subwords else np.zeros((len(spread), 0))
        features = np.hstack([np.eye(len(spread)), M]) ** 2
        expected[lang] = np.hstack([features @ (1 / (features.T @ spread + 0.5)), features.sum(axis=1, keepdims=True)])
    assert_close(get_words(engine, "sums"), expected, np.float64)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_concept_sums_add_up_the_documents_of_each_concept_in_all_languages(engine: Engine, dtype: type) -> None:
    given = languages(dtype)
    put(engine, given)
    U = dense(documents_of(given), 5, dtype)
    set_documents(engine, "U", U)
    engine.concept_sums("U")
    expected = np.zeros((CONCEPTS, 5))
    for lang, ids in given.concepts.items():
        np.add.at(expected, ids, U[lang])
    found = get_concepts(engine, "U")
    assert found.dtype == dtype
    assert_near(found, expected, dtype)
    assert not found[30:33].any()  # no document is about these
    assert_same(get_documents(engine, "U"), U)


@pytest.mark.parametrize("dtype", DTYPES)
def test_broadcast_concepts_gives_every_document_the_row_of_its_concept(engine: Engine, dtype: type) -> None:
    given = languages(dtype)
    put(engine, given)
    S = dense({"": CONCEPTS}, 5, dtype)[""]
    set_concepts(engine, "S", S)
    engine.broadcast_concepts("S", "U")
    assert_same(get_documents(engine, "U"), {lang: S[ids] for lang, ids in given.concepts.items()})
    np.testing.assert_array_equal(get_concepts(engine, "S"), S)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("power", [1, 2])
def test_column_sums_are_those_of_the_dense_matrix_in_double_precision(engine: Engine, dtype: type, power: int) -> None:
    given = languages(dtype)
    put(engine, given)
    engine.column_sums("sums", power)
    expected = {lang: (X.toarray().astype(float) ** power).sum(axis=0)[:, None] for lang, X in given.blocks.items()}
    assert_close(get_words(engine, "sums"), expected, np.float64)
    assert get_words(engine, "sums")["l0"][5] == 0  # the word that occurs nowhere


def test_a_product_replaces_an_array_of_the_same_name(engine: Engine) -> None:
    given = languages()
    put(engine, given)
    for width in (3, 3, 8):
        V = dense(words_of(given), width)
        set_words(engine, "V", V)
        engine.multiply("V", "V")
        engine.concept_sums("V")
        engine.broadcast_concepts("V", "V")
        sums = sum(np.eye(CONCEPTS)[:, given.concepts[lang]] @ (X @ V[lang]) for lang, X in given.blocks.items())
        assert_close(get_documents(engine, "V"), {k: sums[ids] for k, ids in given.concepts.items()}, np.float64)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_products_of_more_rows_than_one_chunk_equal_those_of_scipy(engine: Engine, dtype: type) -> None:
    given = many(dtype)
    put(engine, given)
    V = dense(words_of(given), 40, dtype)
    set_words(engine, "V", V)
    engine.multiply("V", "V")
    G = {lang: X.astype(float) @ V[lang].astype(float) for lang, X in given.blocks.items()}
    assert_close(get_documents(engine, "V"), G, dtype)
    engine.concept_sums("V")
    S = np.zeros((6000, 40))
    for lang, ids in given.concepts.items():
        np.add.at(S, ids, G[lang])
    assert_near(get_concepts(engine, "V"), S, dtype)
    engine.broadcast_concepts("V", "U")
    engine.multiply_transposed("U", "W")
    expected = {lang: X.T.astype(float) @ S[given.concepts[lang]] for lang, X in given.blocks.items()}
    for lang, W in get_words(engine, "W").items():
        assert_near(W / 100, expected[lang] / 100, dtype)


# Parts


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_fetched_documents_are_those_of_the_selected_concepts_in_order(engine: Engine, share: float) -> None:
    given = languages()
    put(engine, given)
    kept = np.random.default_rng(0).random(CONCEPTS) < share
    blocks, concepts = engine.fetch_documents(kept)
    assert list(blocks) == list(concepts) == engine.langs
    for lang, X in given.blocks.items():
        inside = kept[given.concepts[lang]]
        np.testing.assert_array_equal(blocks[lang].toarray(), X.toarray()[inside])
        np.testing.assert_array_equal(concepts[lang], given.concepts[lang][inside])


def test_a_subset_has_some_documents_and_shares_words_and_concepts(engine: Engine) -> None:
    given = languages()
    put(engine, given)
    kept = np.arange(CONCEPTS) % 3 != 0
    part = engine.subset(kept)
    inside = {lang: kept[ids] for lang, ids in given.concepts.items()}
    assert part.langs == engine.langs
    assert {lang: sum(rows) for lang, rows in sizes(part).items()} == {k: int(i.sum()) for k, i in inside.items()}
    V = dense(words_of(given), 4)
    set_words(engine, "V", V)
    part.multiply("V", "V")
    G = {lang: (X @ V[lang])[inside[lang]] for lang, X in given.blocks.items()}
    assert_close(get_documents(part, "V"), G, np.float64)
    part.concept_sums("V")
    sums = get_concepts(engine, "V")
    expected = sum(np.eye(CONCEPTS)[:, ids[inside[lang]]] @ G[lang] for lang, ids in given.concepts.items())
    np.testing.assert_allclose(sums, expected, atol=1e-12)
    part.broadcast_concepts("V", "U")
    part.multiply_transposed("U", "W")
    back = {
        lang: X.toarray()[inside[lang]].T @ sums[given.concepts[lang][inside[lang]]] for lang, X in given.blocks.items()
    }
    assert_close(get_words(engine, "W"), back, np.float64)
    engine.multiply("V", "V")
    whole = {lang: X @ V[lang] for lang, X in given.blocks.items()}
    assert_close(get_documents(engine, "V"), whole, np.float64)
    assert_close(get_documents(part, "V"), G, np.float64)  # documents are its own


def test_a_subset_shares_subwords(engine: Engine) -> None:
    given = languages()
    subwords = subwords_of(given)
    put(engine, given, subwords)
    kept = np.arange(CONCEPTS) % 3 != 0
    part = engine.subset(kept)
    V = dense(words_of(given), 4)
    set_words(engine, "V", V)
    part.fold("V", "F")
    part.multiply("F", "V")
    folded = {k: V[k] + subwords[k] @ (subwords[k].T @ V[k]) if k in subwords else V[k] for k in V}
    inside = {lang: kept[ids] for lang, ids in given.concepts.items()}
    expected = {lang: (X @ folded[lang])[inside[lang]] for lang, X in given.blocks.items()}
    assert_close(get_documents(part, "V"), expected, np.float64)
    assert_close(get_words(engine, "F"), folded, np.float64)
    for block in part.block_info():
        lang = engine.langs[block.language]
        assert block.subwords == (subwords[lang].shape[1] if lang in subwords else 0)


def test_a_subset_of_a_subset_has_the_documents_of_both_selections(engine: Engine) -> None:
    given = languages()
    put(engine, given)
    one, other = np.arange(CONCEPTS) % 3 != 0, np.arange(CONCEPTS) % 2 != 0
    _, found = engine.subset(one).subset(other).fetch_documents(np.ones(CONCEPTS, bool))
    assert_same(found, {lang: ids[(one & other)[ids]] for lang, ids in given.concepts.items()})


def test_a_subset_of_a_subclass_has_its_methods_and_attributes(engine: Engine) -> None:
    def multiply(self: Engine, source: str, target: str, *more: Any, **options: bool) -> None:
        super(subclass, self).multiply(source, target, *more, **options)
        self.products.append(target)  # type: ignore[attr-defined]

    subclass: Any = type("Counting", (type(engine),), {"multiply": multiply})
    engine.__class__, engine.products = subclass, []  # type: ignore[attr-defined]
    given = languages()
    put(engine, given)
    part = engine.subset(np.arange(CONCEPTS) % 3 != 0)
    set_words(engine, "V", dense(words_of(given), 4))
    part.multiply("V", "G")
    assert engine.products == ["G"]  # type: ignore[attr-defined]
    assert names(part.documents) == ["G"]
