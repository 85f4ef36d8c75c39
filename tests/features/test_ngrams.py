"""Character n-grams in hashed columns, against sets of strings."""

import pytest

from cr5.features.ngrams import character_ngrams

COLUMNS = 2**20
WORDS = ["parlamento", "parlement", "a", "42", "", "日本", "banana", "наука", "𝒳𝒴z", "naïve"]


def ngrams(word: str, shortest: int, longest: int) -> set[str]:
    padded = f"<{word}>"
    cut = {padded[i : i + n] for n in range(shortest, longest + 1) for i in range(len(padded) - n + 1)}
    return cut or {padded}


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


def test_no_words_have_no_ngrams() -> None:
    assert character_ngrams([], (2, 5), COLUMNS).shape == (0, COLUMNS)
