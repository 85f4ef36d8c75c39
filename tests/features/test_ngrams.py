"""Character n-grams in hashed columns, against sets of strings."""

import tracemalloc

import numpy as np
import pytest

from cr5.features.ngrams import character_ngrams, cut_ngrams, hash_strings

COLUMNS = 2**20
WORDS = ["parlamento", "parlement", "a", "42", "", "日本", "banana", "наука", "𝒳𝒴z", "naïve"]


def ngrams(word: str, shortest: int, longest: int) -> set[str]:
    padded = f"<{word}>"
    found = {padded[i : i + n] for n in range(shortest, longest + 1) for i in range(len(padded) - n + 1)}
    return found or {padded}


def column(ngram: str, columns: int) -> int:
    """The hash, which files depend on, in Python's integers."""
    a, b, c = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
    result = a
    for character in ngram:
        result = (result ^ ord(character)) * a % 2**64
        result ^= result >> 32
    result = (result ^ (result >> 30)) * b % 2**64
    result = (result ^ (result >> 27)) * c % 2**64
    return (result ^ (result >> 31)) % columns


@pytest.mark.parametrize("lengths", [(4, 5), (2, 5), (3, 3)])
def test_words_share_the_columns_of_the_ngrams_that_they_share(lengths: tuple[int, int]) -> None:
    shared = (matrix := character_ngrams(WORDS, lengths, COLUMNS)) @ matrix.T
    sets = [ngrams(word, *lengths) for word in WORDS]
    assert shared.toarray().tolist() == [[len(a & b) for b in sets] for a in sets]


def test_a_column_depends_on_the_ngram_alone() -> None:
    alone = character_ngrams(["banana"], (4, 5), COLUMNS)
    assert alone.indices.tolist() == character_ngrams(WORDS, (4, 5), COLUMNS)[[6]].indices.tolist()
    assert character_ngrams(["ab"], (4, 5), 2**18).indices.tolist() == [column("<ab>", 2**18)]


@pytest.mark.parametrize("block_words", [1, 3, 10])
def test_words_that_are_cut_in_blocks_have_the_same_columns(block_words: int) -> None:
    whole, blocks = (character_ngrams(WORDS, (3, 5), COLUMNS, **given) for given in ({}, {"block_words": block_words}))
    assert blocks.shape == whole.shape
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(blocks, name), getattr(whole, name), strict=True)


def test_the_ngrams_of_many_words_take_little_more_memory_than_their_matrix() -> None:
    words = [f"{i:010x}" for i in range(100_000)]
    tracemalloc.start()
    found = character_ngrams(words, (4, 5), COLUMNS)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * (found.data.nbytes + found.indices.nbytes)


def test_no_words_have_no_ngrams() -> None:
    assert character_ngrams([], (2, 5), COLUMNS).shape == (0, COLUMNS)


@pytest.mark.parametrize("lengths", [(2, 5), (3, 5), (4, 4)])
def test_an_ngram_has_one_hash_within_a_word_and_alone(lengths: tuple[int, int]) -> None:
    found = cut_ngrams(WORDS, *lengths)
    strings = [found.text[start:end] for start, end in zip(*found.ends, strict=True)]
    expected = sorted(
        (i, f"<{word}>"[start : start + length])
        for i, word in enumerate(WORDS)
        for length in range(lengths[0], lengths[1] + 1)
        for start in range(len(word) + 3 - length)
    )
    assert sorted(zip(found.words.tolist(), strings, strict=True)) == expected
    assert hash_strings(strings).tolist() == found.hashes.tolist()
    assert len(set(found.hashes.tolist())) == len(set(strings))
