"""Lexicons against the definition, one pair of words and one pair of documents at a time."""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from cr5._typing import Array
from cr5.errors import Cr5Error
from cr5.features.counts import WordCounts, count_words
from cr5.features.tokeniser import Tokeniser
from cr5.retrieval.block_products import BlockSizes
from cr5.retrieval.lexicon import DocumentPairs, Lexicon, WordVectors, make_lexicon
from cr5.retrieval.vectors import unit_rows

LETTERS = "abcdeiorst"


def made_up(words: int, rank: int = 8, seed: int = 0) -> WordVectors:
    random = np.random.default_rng(seed)
    spelled = {"".join(random.choice(list(LETTERS), random.integers(2, 9))): None for _ in range(2 * words)}
    return WordVectors(list(spelled)[:words], random.standard_normal((words, rank)).astype(np.float32))


def ngrams(word: str) -> set[str]:
    padded = f"<{word}>"
    return {padded[i : i + n] for n in (2, 3, 4, 5) for i in range(len(padded) - n + 1)}


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


def made_up_documents(words: Sequence[str], number: int, seed: int) -> WordCounts:
    random = np.random.default_rng(seed)
    texts = [" ".join(random.choice([*words, "unknown"], random.integers(0, 30))) for _ in range(number)]
    return count_words(texts, "en", Tokeniser())


def one_step(
    pairs: DocumentPairs, lexicon: list[dict[str, float]], words: Sequence[str]
) -> dict[str, dict[str, float]]:
    """One step of expectation maximisation, from t(f|e) to the normalised expected counts, with dicts."""
    documents = []
    for counts in pairs:
        dense = counts.matrix.toarray()
        documents.append([{w: int(n) for w, n in zip(counts.words, row, strict=True) if n} for row in dense])
    t = dict(zip(words, lexicon, strict=True))
    targets = {f for row in lexicon for f in row}
    totals: Counter[str] = Counter()
    for document in documents[1]:
        totals.update(document)
    known = {f: n for f, n in totals.items() if f != "unknown"}
    expected: dict[str, dict[str, float]] = {}
    for e_counts, f_counts in zip(*documents, strict=True):
        for f, count in f_counts.items():
            if f not in targets:
                continue
            parts = {e: math.log(1 + n) * t[e].get(f, 0) for e, n in e_counts.items() if e in t}
            total = sum(parts.values()) + 3 * known[f] / sum(known.values())
            for e, part in parts.items():
                row = expected.setdefault(e, {})
                row[f] = row.get(f, 0) + math.log(1 + count) * part / total
    return {e: {f: c / sum(row.values()) for f, c in row.items()} for e, row in expected.items() if any(row.values())}


def test_pairs_of_documents_change_the_probabilities_by_one_step_of_expectation_maximisation() -> None:
    source, target = made_up(40), made_up(50, seed=1)
    pairs = DocumentPairs(made_up_documents(source.words[:35], 25, 2), made_up_documents(target.words, 25, 3))
    start = best(all_scores(source, target, 0.3), 0.1, 30)
    first = [{target.words[f]: float(p) for f, p in row} for row in start]
    after = one_step(pairs, first, source.words)
    lexicon = make_lexicon(source, target, pairs=pairs)
    for word, row in zip(source.words, first, strict=True):
        kept = sorted((after.get(word) or row).values(), reverse=True)[:10]
        found = lexicon.translations(word)
        total = 1 if word in after else sum(kept)
        np.testing.assert_allclose([p for _, p in found], np.array(kept)[: len(found)] / total, rtol=5e-3, atol=1e-6)
        for f, p in found:
            np.testing.assert_allclose(p, (after.get(word) or row)[f] / total, rtol=5e-3, atol=1e-6)
    assert not set(source.words[35:]) & set(after)
    assert make_lexicon(source, target).translations(source.words[38]) == lexicon.translations(source.words[38])


def test_pairs_of_documents_find_the_translation_that_vectors_cannot_tell() -> None:
    vectors = np.ones((3, 4), np.float32)
    source, target = WordVectors(["one", "two", "six"], vectors), WordVectors(["uno", "due", "sei"], vectors)
    texts = [("one two", "uno due"), ("one six", "uno sei"), ("two six", "due sei")] * 5
    counts = [count_words([pair[i] for pair in texts], "en", Tokeniser()) for i in range(2)]
    lexicon: Lexicon = make_lexicon(source, target, pairs=DocumentPairs(*counts), string_weight=0)
    assert [lexicon.translations(word, 1)[0][0] for word in source.words] == ["uno", "due", "sei"]
