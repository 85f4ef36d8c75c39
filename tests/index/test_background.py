"""The background: hubness compared with an oracle that computes every cosine."""

from pathlib import Path

import numpy as np
import pytest

from cr5._typing import Array, Ints
from cr5.index.background import Background
from cr5.retrieval.csls import NEIGHBOURS

RANK = 12


def unit(number: int, seed: int) -> Array:
    X = np.random.default_rng(seed).standard_normal((number, RANK)).astype(np.float32)
    return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True), np.float32)


def digests(*numbers: int) -> Ints:
    return np.array(numbers, np.uint64)


def oracle(vectors: Array, concepts: list[int] | None, sample: Array, sampled: list[int]) -> list[float]:
    """The mean of the largest cosines with documents of other concepts; 0 without any."""
    result = []
    for i, vector in enumerate(vectors):
        others = [j for j, concept in enumerate(sampled) if concepts is None or concept != concepts[i]]
        cosines = sorted((float(vector @ sample[j]) for j in others), reverse=True)[:NEIGHBOURS]
        result.append(sum(cosines) / len(cosines) if cosines else 0.0)
    return result


@pytest.mark.parametrize("size", [1, 4, NEIGHBOURS, 40])
def test_hubness_is_the_mean_cosine_with_the_nearest_of_other_concepts(size: int) -> None:
    vectors, samples = unit(30, 0), {"aa": unit(size, 1), "bb": unit(7, 2)}
    concepts, sampled = [i % 9 for i in range(30)], {"aa": [i % 5 for i in range(size)], "bb": [100] * 7}
    background = Background(["aa", "bb"], samples, {lang: digests(*found) for lang, found in sampled.items()})
    for given in (concepts, None):
        found = background.hubness(vectors, None if given is None else digests(*given))
        expected = [oracle(vectors, given, samples[lang], sampled[lang]) for lang in ("aa", "bb")]
        np.testing.assert_allclose(found, np.transpose(expected), atol=1e-6)
        assert found.dtype == np.float32


def test_hubness_is_0_if_the_sample_has_only_counterparts() -> None:
    background = Background(["aa"], {"aa": unit(3, 0)}, {"aa": digests(7, 7, 7)})
    assert background.hubness(unit(2, 0), digests(7, 8))[0, 0] == 0
    assert background.hubness(unit(2, 0), digests(7, 8))[1, 0] != 0


def test_hubness_is_0_in_an_empty_background() -> None:
    background = Background.empty(["aa", "bb"], RANK)
    assert background.sizes == {"aa": 0, "bb": 0}
    np.testing.assert_array_equal(background.hubness(unit(3, 0), digests(1, 2, 3)), np.zeros((3, 2)))
    assert background.hubness(unit(0, 0)).shape == (0, 2)


def test_a_background_can_be_saved_and_loaded(tmp_path: Path) -> None:
    langs = ["zh-Hant", "aa"]
    background = Background(
        langs, {"aa": unit(4, 0), "zh-Hant": unit(2, 1)}, {"aa": digests(1, 2, 3, 4), "zh-Hant": digests(2**64 - 1, 5)}
    )
    background.save(tmp_path / "background-1.npz")
    again = Background.load(tmp_path / "background-1.npz", langs)
    assert again.sizes == {"zh-Hant": 2, "aa": 4}
    np.testing.assert_array_equal(
        again.hubness(unit(5, 3), digests(1, 2, 3, 4, 5)), background.hubness(unit(5, 3), digests(1, 2, 3, 4, 5))
    )
    assert [path.name for path in tmp_path.iterdir()] == ["background-1.npz"]
