"""Blocks of every engine, put together and cut up."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from gpu_stand_in import SMALL
from problems import Problem, problem, random_subwords
from scipy.sparse import csr_array

from cr5._typing import Array, Sparse
from cr5.training.engines import Engine, Partition
from cr5.training.engines.cpu import SCRATCH_BYTES, CpuEngine
from cr5.training.engines.gpu import GpuEngine
from cr5.training.solver import Fit, reduced_rank_ridge

# The engines of one machine that every test of engines runs on; that of a GPU computes with NumPy instead of CuPy.
ENGINES: dict[str, Callable[[], Engine]] = {
    "memory": CpuEngine,
    "disk": partial(CpuEngine, memory=2 * SCRATCH_BYTES),
    "gpu": partial(GpuEngine, sizes=SMALL),
}

DTYPES = [np.float32, np.float64]
MANY = 10_000  # rows: more than a function sees at a time


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


def set_words(engine: Engine, name: str, arrays: Mapping[str, Array]) -> None:
    engine.words.set(name, [arrays[lang] for lang in engine.langs])


def get_documents(engine: Engine, name: str) -> dict[str, Array]:
    blocks = list(zip(engine.block_info(), engine.documents.get(name), strict=True))
    return {
        lang: np.concatenate([block for facts, block in blocks if facts.language == i])
        for i, lang in enumerate(engine.langs)
    }


def dense(rows: Mapping[str, int], columns: int, dtype: Any = np.float64) -> dict[str, Array]:
    random = np.random.default_rng(1)
    return {lang: random.standard_normal((count, columns)).astype(dtype) for lang, count in rows.items()}


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


# Partitions


PARTITIONS = ["words", "documents", "concepts"]


def names(partition: Partition) -> list[str]:
    """The names of the arrays in every block, which are the same."""
    found: list[dict[str, Array]] = []

    def look(rows: dict[str, Array]) -> None:
        found.append(rows)

    partition.map(look)
    assert all(set(rows) == set(found[0]) for rows in found)
    return sorted(found[0])


# A whole fit


def whole_fit(engine: Engine, **options: Any) -> Fit:
    """A fit of what an engine holds."""
    return reduced_rank_ridge({}, {}, engine=engine, **{"rank": 4, "ridge": 1.0, "tol": 1e-4, **options})
