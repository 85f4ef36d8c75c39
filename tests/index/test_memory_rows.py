"""Rows in memory: the nearest ones in some languages."""

from itertools import chain, combinations

import numpy as np
import pyarrow as pa

from cr5.index.stores.lance_reader import MAX_LANGUAGE_SETS, MemoryRows

LANGS = ("aa", "bb", "cc", "dd", "ee", "ff", "gg")


def test_the_nearest_rows_are_those_of_the_languages_however_many_sets_of_languages_are_asked_for() -> None:
    rng = np.random.default_rng(0)
    vectors, langs = rng.normal(size=(50, 3)).astype(np.float32), rng.choice(LANGS, 50).tolist()
    lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 3)
    columns = {"id": [f"d{i}" for i in range(50)], "lang": langs, "slot": np.arange(50), "vector": lists}
    rows = MemoryRows.load(pa.table(columns))
    slots = np.arange(50) % 2 == 0
    sets = [None, *chain.from_iterable(combinations(LANGS, n) for n in range(len(LANGS) + 1)), ("aa", "unknown")]
    assert len(sets) > MAX_LANGUAGE_SETS
    for chosen in [*sets, *sets]:
        for allowed in (None, slots):
            kept = [chosen is None or lang in chosen for lang in langs]
            is_allowed = np.array(kept) & (True if allowed is None else allowed)
            products = np.where(is_allowed, vectors @ vectors[0], -np.inf)
            expected = np.argsort(-products, kind="stable")[: min(5, is_allowed.sum())]
            found, cosines = rows.nearest_rows(vectors[0], 5, None if chosen is None else list(chosen), allowed)
            assert found.tolist() == expected.tolist()
            np.testing.assert_allclose(cosines, products[expected], rtol=1e-5)
    assert len(rows._recent_rows_in) <= MAX_LANGUAGE_SETS
