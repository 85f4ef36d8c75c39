"""One suite for every engine: its partitions, and its products against SciPy's."""

import errno
import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from problems import Problem, problem, random_subwords
from scipy.sparse import csr_array

from cr5._typing import Array, Sparse
from cr5.errors import Cr5Error
from cr5.training.engines import BlockInfo, Engine, Partition, cpu
from cr5.training.engines.cpu import SCRATCH_BYTES, CpuEngine
from cr5.training.solver import Fit, reduced_rank_ridge

ENGINES: dict[str, Callable[[], Engine]] = {
    "memory": CpuEngine,
    "disk": partial(CpuEngine, memory=2 * SCRATCH_BYTES),
}
"""What the suite runs on: a further engine is a further line."""

DTYPES = [np.float32, np.float64]
MANY = 10_000  # rows: more than a function sees at a time
CONCEPTS = 34  # those of ``languages``, of which 30 to 32 occur nowhere


@pytest.fixture(params=list(ENGINES.values()), ids=list(ENGINES))
def engine(request: pytest.FixtureRequest) -> Engine:
    made: Engine = request.param()
    return made


def languages(dtype: type = np.float64) -> Problem:
    """All that happens: missing concepts, an empty document, a word that occurs nowhere, languages of one word,
    of no document, and of one document alone."""
    blocks, concepts = problem(2, dtype=dtype)
    assert set(range(30)) - set(concepts["l0"]), "a concept is missing in a language"
    blocks["word"] = csr_array(np.arange(6, dtype=dtype)[:, None])
    blocks["none"] = csr_array((0, 7), dtype=dtype)
    blocks["lone"] = csr_array(np.array([[0, 3, 0, 1]], dtype))
    return Problem(
        blocks, concepts | {"word": np.array([3, 3, 33, 0, 3, 9]), "none": np.zeros(0, int), "lone": np.array([33])}
    )


def many(dtype: type = np.float64) -> Problem:
    """Languages of more documents and words than a function sees at a time."""
    random = np.random.default_rng(0)
    blocks, concepts = {}, {}
    for i, (rows, columns) in enumerate([(MANY, 5000), (4500, 900)]):
        shape, count = (rows, columns), 8 * rows
        places = random.integers(0, rows, count), (columns * random.random(count) ** 3).astype(int)
        blocks[f"l{i}"] = csr_array((random.random(count) + 0.5, places), shape=shape).astype(dtype)
        concepts[f"l{i}"] = random.integers(0, 6000, rows)
    return Problem(blocks, concepts)


def subwords_of(given: Problem) -> dict[str, Sparse]:
    """Subwords of some languages, among them the one without documents and the one of a single document."""
    X = given.blocks["none"]
    return random_subwords(given.blocks) | {"none": csr_array(np.eye(X.shape[1], 3).astype(X.dtype))}


def put(engine: Engine, given: Problem, subwords: Mapping[str, Sparse] | None = None) -> None:
    for lang, X in given.blocks.items():
        engine.put(lang, X, given.concepts[lang], (subwords or {}).get(lang))


# Partitions come in blocks that an engine chooses: here they are put together and cut up.


def sizes(engine: Engine) -> dict[str, list[int]]:
    """The documents of every shard, by language."""
    return {lang: [f.documents for f in engine.block_info() if f.language == i] for i, lang in enumerate(engine.langs)}


def set_words(engine: Engine, name: str, arrays: Mapping[str, Array]) -> None:
    engine.words.set(name, [arrays[lang] for lang in engine.langs])


def set_documents(engine: Engine, name: str, arrays: Mapping[str, Array]) -> None:
    parts = {lang: iter(np.split(arrays[lang], np.cumsum(rows)[:-1])) for lang, rows in sizes(engine).items()}
    engine.documents.set(name, [next(parts[engine.langs[block.language]]) for block in engine.block_info()])


def set_concepts(engine: Engine, name: str, S: Array) -> None:
    engine.concepts.set(name, [S[ids[:, 0]] for ids in engine.concepts.get("id")])


def get_words(engine: Engine, name: str) -> dict[str, Array]:
    return dict(zip(engine.langs, engine.words.get(name), strict=True))


def get_documents(engine: Engine, name: str) -> dict[str, Array]:
    blocks = list(zip(engine.block_info(), engine.documents.get(name), strict=True))
    return {
        lang: np.concatenate([block for facts, block in blocks if facts.language == i])
        for i, lang in enumerate(engine.langs)
    }


def get_concepts(engine: Engine, name: str) -> Array:
    order = np.argsort(np.concatenate(engine.concepts.get("id"))[:, 0])
    return np.concatenate(engine.concepts.get(name))[order]


def dense(rows: Mapping[str, int], columns: int, dtype: Any = np.float64) -> dict[str, Array]:
    random = np.random.default_rng(1)
    return {lang: random.standard_normal((count, columns)).astype(dtype) for lang, count in rows.items()}


def documents_of(given: Problem) -> dict[str, int]:
    return {lang: X.shape[0] for lang, X in given.blocks.items()}


def words_of(given: Problem) -> dict[str, int]:
    return {lang: X.shape[1] for lang, X in given.blocks.items()}


def assert_close(found: Mapping[str, Array], expected: Mapping[str, Array], dtype: Any) -> None:
    """As near as the dtype allows, and of that dtype."""
    assert list(found) == list(expected)
    for lang, array in found.items():
        assert array.dtype == dtype, lang
        assert_near(array, expected[lang], dtype)


def assert_near(found: Array, expected: Array, dtype: Any) -> None:
    close: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-4} if dtype == np.float32 else {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(found, expected, **close)


def assert_same(found: Mapping[str, Array], expected: Mapping[str, Array]) -> None:
    assert list(found) == list(expected)
    for lang, array in found.items():
        np.testing.assert_array_equal(array, expected[lang])


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
def test_inverse_spread_sums_over_a_word_and_its_subwords(engine: Engine, dtype: type) -> None:
    given = languages(dtype)
    subwords = subwords_of(given)
    put(engine, given, subwords)
    engine.column_sums("spread", 2)
    engine.inverse_spread("spread", "sums", 0.5)
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
def test_products_of_more_rows_than_one_panel_equal_those_of_scipy(engine: Engine, dtype: type) -> None:
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


# Partitions


ROOMS = ["words", "documents", "concepts"]


def names(partition: Partition) -> list[str]:
    """The names of the arrays in every block, which are the same."""
    found: list[dict[str, Array]] = []

    def look(rows: dict[str, Array]) -> None:
        found.append(rows)

    partition.map(look)
    assert all(set(rows) == set(found[0]) for rows in found)
    return sorted(found[0])


def fill(rows: dict[str, Array], width: int, dtype: str = "float64") -> None:
    """A = count, count + 1, ...: every number tells its row and column."""
    rows["A"] = (rows["count"] + np.arange(width)).astype(dtype)


@pytest.fixture(params=ROOMS)
def partition(request: pytest.FixtureRequest, engine: Engine) -> Partition:
    """A partition with more rows than one panel, whose array ``count`` numbers the rows of every block."""
    random = np.random.default_rng(0)
    for lang in "ab":
        X = csr_array((np.ones(50), random.integers(0, MANY, (2, 50))), shape=(MANY, MANY))
        engine.put(lang, X, random.permutation(MANY), X[:, ::2])
    partition: Partition = getattr(engine, request.param)
    heights = {
        "words": [MANY, MANY],
        "documents": [block.documents for block in engine.block_info()],
        "concepts": [len(ids) for ids in engine.concepts.get("id")],
    }[request.param]
    partition.set("count", [np.arange(height)[:, None] for height in heights])
    return partition


def counts(partition: Partition) -> list[Array]:
    return partition.get("count")


@pytest.mark.parametrize(("width", "dtype"), [(3, "float64"), (3, "float32"), (1, "float64"), (9, "int64")])
def test_an_assigned_array_is_stored_with_any_width_and_dtype(partition: Partition, width: int, dtype: str) -> None:
    partition.map(partial(fill, width=3))
    partition.map(partial(fill, width=width, dtype=dtype))
    for count, A in zip(counts(partition), partition.get("A"), strict=True):
        assert A.dtype == dtype
        np.testing.assert_array_equal(A, count + np.arange(width))


def test_a_deleted_array_is_gone_and_its_name_can_be_used_again(partition: Partition) -> None:
    def forget(rows: dict[str, Array]) -> None:
        rows["B"] = rows.pop("A") + 1

    before = names(partition)
    partition.map(partial(fill, width=2))
    assert set(names(partition)) == {*before, "A"}
    partition.map(forget)
    assert set(names(partition)) == {*before, "B"}
    with pytest.raises(KeyError):
        partition.get("A")
    for count, B in zip(counts(partition), partition.get("B"), strict=True):
        np.testing.assert_array_equal(B, count + np.array([1.0, 2.0]))
    partition.map(partial(fill, width=4))
    assert [A.shape[1] for A in partition.get("A")] == [4] * len(partition.get("A"))


def test_an_array_may_replace_another_of_any_width(partition: Partition) -> None:
    def move(rows: dict[str, Array]) -> None:
        rows["A"] = rows.pop("B")

    partition.map(partial(fill, width=2))
    for width in (2, 5):  # as wide as what was there, and not
        partition.set("B", [count * np.ones(width) - 0.5 for count in counts(partition)])
        partition.map(move)
        for count, A in zip(counts(partition), partition.get("A"), strict=True):
            np.testing.assert_array_equal(A, count * np.ones(width) - 0.5)


def test_two_arrays_may_swap_their_names(partition: Partition) -> None:
    def swap(rows: dict[str, Array]) -> None:
        rows["A"], rows["B"] = rows["B"], rows["A"]

    partition.map(partial(fill, width=2))
    partition.set("B", [-1.5 * count * np.ones(2) for count in counts(partition)])
    partition.map(swap)
    for count, A, B in zip(counts(partition), partition.get("A"), partition.get("B"), strict=True):
        np.testing.assert_array_equal(A, -1.5 * count * np.ones(2))
        np.testing.assert_array_equal(B, count + np.arange(2.0))


def test_an_array_may_be_kept_under_another_name_while_it_changes(partition: Partition) -> None:
    def step(rows: dict[str, Array]) -> None:
        rows["last"], rows["A"] = rows["A"], rows["A"] + 1

    partition.map(partial(fill, width=2))
    for i in range(3):
        partition.map(step)
        for count, A, last in zip(counts(partition), partition.get("A"), partition.get("last"), strict=True):
            np.testing.assert_array_equal(last, count + np.arange(2.0) + i)
            np.testing.assert_array_equal(A, last + 1)


def test_results_are_added_up_over_the_rows_of_a_block(partition: Partition) -> None:
    found = partition.map(lambda rows: rows["count"].sum(axis=0))
    assert [total.tolist() for total in found] == [[n * (n - 1) // 2] for n in map(len, counts(partition))]
    assert partition.map(lambda rows: None) == [None] * len(found)


def test_arguments_are_handed_out_block_by_block(partition: Partition) -> None:
    def scaled(rows: dict[str, Array], factor: float, shift: Array) -> float:
        rows["A"] = factor * rows["count"] + shift
        return factor * len(rows["count"])

    blocks = len(counts(partition))
    factors, shifts = [2.0 + i for i in range(blocks)], [np.array([i, -i]) for i in range(blocks)]
    found = partition.map(scaled, factors, shifts)
    assert found == [factor * n for factor, n in zip(factors, map(len, counts(partition)), strict=True)]
    for count, A, factor, shift in zip(counts(partition), partition.get("A"), factors, shifts, strict=True):
        np.testing.assert_array_equal(A, factor * count + shift)


def test_a_row_sees_its_own_row_of_every_array(partition: Partition) -> None:
    def add(rows: dict[str, Array]) -> float:
        rows["C"] = rows["A"] - rows["B"]
        return float(np.abs(rows["C"]).sum())

    partition.map(partial(fill, width=2))
    partition.set("B", [count + np.arange(2.0) for count in counts(partition)])
    assert partition.map(add) == [0.0] * len(counts(partition))


def test_an_error_in_a_mapped_function_is_raised_to_the_caller(partition: Partition) -> None:
    def fails(rows: dict[str, Array]) -> None:
        if (rows["count"] == len(rows["count"]) // 2).any():
            raise ZeroDivisionError("in the middle of the rows")

    with pytest.raises(ZeroDivisionError, match="in the middle of the rows"):
        partition.map(fails)


def test_arrays_from_get_are_copies(partition: Partition) -> None:
    partition.map(partial(fill, width=3))
    got, copies = partition.get("A"), [A.copy() for A in partition.get("A")]
    partition.map(lambda rows: rows.update(A=-rows["A"]))
    for A, copy in zip(got, copies, strict=True):
        np.testing.assert_array_equal(A, copy)
    for A, copy in zip(partition.get("A"), copies, strict=True):
        np.testing.assert_array_equal(A, -copy)


def test_an_array_that_was_set_keeps_its_dtype(partition: Partition) -> None:
    arrays = [
        np.random.default_rng(0).standard_normal((len(count), 3)).astype("float32") for count in counts(partition)
    ]
    partition.set("A", arrays)
    partition.set("A", [A[:, :2] for A in arrays])  # columns of wider arrays are fine
    for A, array in zip(partition.get("A"), arrays, strict=True):
        assert A.dtype == np.float32
        np.testing.assert_array_equal(A, array[:, :2])


def test_set_does_not_change_its_arguments(partition: Partition) -> None:
    given = [np.ones((len(count), 3)) for count in counts(partition)]
    partition.set("A", given)
    partition.map(lambda rows: rows.update(A=rows["A"] * 7))
    assert all((A == 1).all() for A in given)
    assert all((A == 7).all() for A in partition.get("A"))


def test_a_language_without_documents_is_a_block_without_rows(engine: Engine) -> None:
    put(engine, languages())
    set_words(engine, "V", dense(words_of(languages()), 3))
    engine.multiply("V", "V")
    found = engine.documents.map(lambda rows: rows["V"].sum(axis=0))
    empty = [total for total, block in zip(found, engine.block_info(), strict=True) if block.documents == 0]
    assert [total.tolist() for total in empty] == [[0.0, 0.0, 0.0]]
    engine.documents.map(lambda rows: rows.update(V=rows["V"][:, :2]))
    assert get_documents(engine, "V")["none"].shape == (0, 2)


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


# A whole fit


def whole_fit(engine: Engine, **options: Any) -> Fit:
    """A fit of what an engine holds."""
    return reduced_rank_ridge({}, {}, engine=engine, **{"rank": 4, "ridge": 1.0, "tol": 1e-4, **options})


def assert_same_fit(one: Fit, other: Fit) -> None:
    assert one.steps == other.steps
    np.testing.assert_array_equal(one.eigenvalues, other.eigenvalues)
    np.testing.assert_array_equal(one.eigenvectors, other.eigenvectors)
    assert_same(one.maps, other.maps)
    assert_same(one.folded_maps, other.folded_maps)
    assert_same(one.means, other.means)


@pytest.mark.slow
@pytest.mark.parametrize("memory", [None, 2 * SCRATCH_BYTES], ids=["memory", "disk"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_any_number_of_threads_gives_the_same_bits(memory: int | None, dtype: type) -> None:
    fits, given = [], many(dtype)
    for count in (1, 2, 3):
        engine = CpuEngine(memory, threads=count)
        put(engine, given, random_subwords(given.blocks))
        fits.append(whole_fit(engine, max_steps=3))
    for other in fits[1:]:
        assert_same_fit(fits[0], other)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("has_subwords", [False, True])
def test_a_whole_fit_gives_the_same_result_on_every_engine(engine: Engine, dtype: type, has_subwords: bool) -> None:
    plain, given = CpuEngine(), languages(dtype)
    subwords = subwords_of(given) if has_subwords else None
    put(plain, given, subwords)
    put(engine, given, subwords)
    one, other = whole_fit(plain), whole_fit(engine)
    assert {k: Z.shape for k, Z in other.folded_maps.items()} == {k: Z.shape for k, Z in one.folded_maps.items()}
    np.testing.assert_allclose(other.eigenvalues, one.eigenvalues, rtol=1e-3 if dtype == np.float32 else 1e-6)
    assert other.maps["none"].shape == (7, 4)
    assert not other.maps["none"].any()


# Within a budget


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("budget", [2**18, 2**21, 2 * SCRATCH_BYTES])
@pytest.mark.parametrize("has_subwords", [False, True])
def test_a_budget_does_not_change_a_bit_of_a_fit(budget: int, dtype: type, has_subwords: bool) -> None:
    given, plain, scarce = many(dtype), CpuEngine(), CpuEngine(memory=2 * SCRATCH_BYTES)
    scarce.memory = scarce.scratch.budget_bytes = budget  # small: several panels of columns, and many of rows
    subwords = random_subwords(given.blocks) if has_subwords else None
    put(plain, given, subwords)
    put(scarce, given, subwords)
    options: dict[str, Any] = {"rank": 20, "max_steps": 3}
    assert_same_fit(whole_fit(plain, **options), whole_fit(scarce, **options))


@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_a_panel_of_any_height_gives_the_same_rows(rows: int) -> None:
    given, scarce = languages(), CpuEngine(memory=2 * SCRATCH_BYTES, panel_rows=rows)
    put(scarce, given)
    V = dense(words_of(given), 5)
    set_words(scarce, "V", V)
    scarce.multiply("V", "V")
    assert_close(get_documents(scarce, "V"), {k: X @ V[k] for k, X in given.blocks.items()}, np.float64)
    found = scarce.documents.map(lambda rows: rows["V"].sum(axis=0))
    np.testing.assert_allclose(found, [(X @ V[k]).sum(axis=0) for k, X in given.blocks.items()], atol=1e-12)


@pytest.mark.parametrize("memory", [0, 1, 2 * SCRATCH_BYTES - 1])
def test_a_budget_that_is_too_small_is_refused(memory: int) -> None:
    with pytest.raises(Cr5Error, match=rf"`memory={memory:_}` is too small; use `memory>=512 \* 2\*\*20`"):
        CpuEngine(memory)


def test_a_full_scratch_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = CpuEngine(2 * SCRATCH_BYTES, tmp_path)

    def full(file: int, begin: int, size: int) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(Cr5Error) as caught:
        engine.put("a", csr_array(np.eye(20_000, 1)), np.arange(20_000))
    assert re.fullmatch(
        re.escape(f"{tmp_path} has no space for 8 bytes of scratch files; free some, or use a larger disk"),
        str(caught.value),
    )
    assert list(tmp_path.iterdir()) == []


def test_another_error_of_the_scratch_disk_is_not_called_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(file: int, begin: int, size: int) -> NoReturn:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "posix_fallocate", broken)
    with pytest.raises(OSError, match="Input/output error"):
        CpuEngine(2 * SCRATCH_BYTES, tmp_path).put("a", csr_array(np.eye(2)), np.arange(2))


def test_scratch_files_have_no_name(tmp_path: Path) -> None:
    """So that nothing is left behind, however the process ends."""
    engine = CpuEngine(2 * SCRATCH_BYTES, tmp_path)
    seen: list[int] = []
    put(engine, languages())
    whole_fit(engine, progress=lambda _: seen.append(len(list(tmp_path.iterdir()))))
    assert seen
    assert not any(seen)

    def breaks(_: object) -> NoReturn:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        whole_fit(engine, progress=breaks)
    assert list(tmp_path.iterdir()) == []


def test_arrays_of_a_budget_lie_on_the_disk_and_are_given_back(tmp_path: Path) -> None:
    """Open files are not counted: an array that is forgotten takes its file with it."""

    def mapped() -> int:
        lines = Path("/proc/self/maps").read_text().splitlines()
        return sum(str(tmp_path) in line for line in lines)

    engine = CpuEngine(2 * SCRATCH_BYTES, tmp_path)
    put(engine, languages())
    documents = mapped()
    assert documents > 0
    whole_fit(engine)
    after = mapped()
    whole_fit(engine)
    assert mapped() == after > documents
    del engine
    assert mapped() == 0


def resident(scratch: Path) -> int:
    """The bytes of files in a folder that this process has in its memory."""
    total, inside = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            inside = str(scratch) in line
        elif inside and line.startswith("Rss:"):
            total += 1024 * int(line.split()[1])
    return total


VERBS: dict[str, Callable[[Engine], object]] = {
    "set": lambda engine: engine.words.set("V", [np.ones((50_000, 100))]),
    "get": lambda engine: engine.words.get("V"),
    "map": lambda engine: engine.words.map(lambda rows: rows.update(V=rows["V"] + 1)),
    "times": lambda engine: engine.multiply("V", "V"),
    "transposed_times": lambda engine: engine.multiply_transposed("V", "W"),
    "concept_sums": lambda engine: engine.concept_sums("V"),
    "spread": lambda engine: engine.broadcast_concepts("V", "U"),
    "column_sums": lambda engine: engine.column_sums("sums", 2),
    "fold": lambda engine: engine.fold("V", "F"),
    "inverse_spread": lambda engine: engine.inverse_spread("spread", "sums", 1.0),
    "part": lambda engine: engine.subset(np.arange(50_000) % 2 == 0),
}


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="only Linux tells what of a file is in memory")
@pytest.mark.parametrize("verb", VERBS)
def test_no_operation_leaves_the_pages_of_its_arrays_in_memory(verb: str, tmp_path: Path) -> None:
    engine = CpuEngine(2 * SCRATCH_BYTES, tmp_path)
    X = csr_array((np.ones(50_000), (np.arange(50_000), np.arange(50_000)[::-1])))
    engine.put("a", X, np.arange(50_000), X)
    for partition in (engine.words, engine.documents, engine.concepts):
        partition.set("V", [np.ones((50_000, 100))])
    engine.words.set("spread", [np.ones((50_000, 1))])
    array = 50_000 * 100 * 8
    VERBS[verb](engine)
    assert resident(tmp_path) < array / 20
    assert engine.words.arrays[0]["V"].sum() in (array / 8, array / 4)  # who reads it has it in memory
    assert resident(tmp_path) > array / 2


@pytest.mark.parametrize(("free", "advice"), [(10**8, 1), (3 * 10**9, 1), (9 * 10**9, 4)])
def test_what_memory_cannot_hold_is_refused_with_a_budget_to_try(
    free: int, advice: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu, "available_memory", lambda: free)
    CpuEngine().check_memory(free)
    with pytest.raises(Cr5Error) as caught:
        CpuEngine().check_memory(12_340_000_000)
    assert str(caught.value) == (
        f"the fit needs 12.3 GB of memory, {free / 1e9:.1f} GB are free; "
        f"set a budget with `memory={advice * 10**9:_}`, or lower `rank` or `max_words`"
    )
    CpuEngine(memory=2 * SCRATCH_BYTES).check_memory(12_340_000_000)  # what is on the disk needs no memory
