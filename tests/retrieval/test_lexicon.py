"""Lexicons against the definition, one pair of words and one pair of documents at a time."""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from cr5._typing import Array
from cr5.errors import Cr5Error
from cr5.retrieval.block_products import BlockSizes
from cr5.retrieval.lexicon import WordVectors, make_lexicon
from cr5.retrieval.vectors import unit_rows

LETTERS = "abcdeiorst"


def made_up(words: int, rank: int = 8, seed: int = 0) -> WordVectors:
    random = np.random.default_rng(seed)
    spelled = {"".join(random.choice(list(LETTERS), random.integers(2, 9))): None for _ in range(2 * words)}
    return WordVectors(list(spelled)[:words], random.standard_normal((words, rank)).astype(np.float32))


def ngrams(word: str) -> set[str]:
    padded = f"<{word}>"
    return {padded[i : i + n] for n in (3, 4, 5) for i in range(len(padded) - n + 1)}


def string_cosines(source: Sequence[str], target: Sequence[str]) -> Array:
    frequency = Counter(ngram for word in [*source, *target] for ngram in ngrams(word))
    squares = {g: (math.log((1 + len(source) + len(target)) / (1 + n)) + 1) ** 2 for g, n in frequency.items()}
    norms = {word: math.sqrt(sum(squares[g] for g in ngrams(word))) for word in [*source, *target]}
    return np.array([
        [sum(squares[g] for g in ngrams(e) & ngrams(f)) / (norms[e] * norms[f]) for f in target] for e in source
    ])  # fmt: skip


def all_scores(source: WordVectors, target: WordVectors, string_weight: float) -> Array:
    cosines = unit_rows(source.vectors) @ unit_rows(target.vectors).T
    means = np.sort(cosines, axis=0)[-10:].mean(axis=0)
    return np.asarray(2 * cosines - means + string_weight * string_cosines(source.words, target.words))


def best(scores: Array, temperature: float, k: int) -> list[list[tuple[int, float]]]:
    result = []
    for row in scores:
        order = np.argsort(-row)[:k]
        exponentials = np.exp(row[order] / temperature)
        result.append(list(zip(order.tolist(), exponentials / exponentials.sum(), strict=True)))
    return result


@pytest.mark.parametrize("sizes", [None, BlockSizes(candidates=7, products=1, threads=3)])
@pytest.mark.parametrize("string_weight", [0.3, 0.0, 1.0])
def test_a_lexicon_has_the_ten_best_translations_with_their_probabilities(
    sizes: BlockSizes | None, string_weight: float
) -> None:
    source, target = made_up(60), made_up(90, seed=1)
    lexicon = make_lexicon(source, target, string_weight=string_weight, temperature=0.2, sizes=sizes)
    for i, expected in enumerate(best(all_scores(source, target, string_weight), 0.2, 10)):
        assert lexicon.indices[i].tolist() == [f for f, _ in expected]
        np.testing.assert_allclose(lexicon.probabilities[i], [p for _, p in expected], rtol=2e-3, atol=1e-6)
    word = source.words[3]
    assert lexicon.translations(word, 2) == [
        (target.words[lexicon.indices[3, j]], float(lexicon.probabilities[3, j])) for j in range(2)
    ]
    assert lexicon.matrix.shape == (60, 90)
    assert lexicon.matrix[[3]].toarray()[0, lexicon.indices[3, 0]] == lexicon.probabilities[3, 0]


def test_only_the_most_frequent_words_are_used() -> None:
    source, target = made_up(60), made_up(90, seed=1)
    first = [WordVectors(language.words[:40], language.vectors[:40]) for language in (source, target)]
    expected, found = make_lexicon(*first), make_lexicon(source, target, max_words=40)
    np.testing.assert_array_equal(found.matrix.toarray(), expected.matrix.toarray())
    assert found.source_words == expected.source_words


def test_fewer_words_than_ten_are_all_translations_and_no_words_have_none() -> None:
    source, few, none = made_up(5), made_up(3, seed=1), WordVectors([], np.zeros((0, 8), np.float32))
    assert make_lexicon(source, few).indices.shape == (5, 3)
    np.testing.assert_allclose(make_lexicon(source, few).matrix.sum(axis=1), 1, rtol=1e-3)
    assert make_lexicon(source, none).translations(source.words[0]) == []
    assert make_lexicon(source, none).matrix.shape == (5, 0)
    assert make_lexicon(none, few).matrix.shape == (0, 3)


def test_words_of_other_scripts_meet_by_their_spelling_when_they_are_transliterated() -> None:
    vectors = np.ones((2, 3), np.float32)
    source, target = WordVectors(["москва", "наука"], vectors), WordVectors(["nauka", "moskva"], vectors)
    plain, latin = (make_lexicon(source, target, transliterate=given).matrix.toarray() for given in (False, True))
    np.testing.assert_allclose(plain, 0.5)
    assert latin[0, 1] > 0.9
    assert latin[1, 0] > 0.9


def test_an_unknown_word_is_an_error_that_names_it() -> None:
    lexicon = make_lexicon(made_up(5), made_up(7, seed=1))
    with pytest.raises(Cr5Error, match="'zzz' is not one of the 5 words"):
        lexicon.translations("zzz")
    with pytest.raises(Cr5Error, match="`k=-1`"):
        lexicon.translations(lexicon.source_words[0], -1)


def test_a_lexicon_is_shown_by_its_sizes() -> None:
    assert repr(make_lexicon(made_up(5), made_up(7, seed=1))) == "Lexicon(source_words=5, target_words=7)"
