"""Function words by language."""

import pytest

from cr5.features.tokeniser import Tokeniser
from cr5.retrieval.function_words import SAME_LIST, _lists, is_function_word


@pytest.mark.parametrize(
    ("lang", "question", "subject"),
    [
        ("en", "who wrote The Ugly Duckling", {"wrote", "ugly", "duckling"}),
        ("it", "dov'è l'Etna", {"etna"}),
        ("da", "hvorfor ryster jorden", {"ryster", "jorden"}),
        ("de-AT", "Wo ist das", set()),
        ("no", "hva er en fjord", {"fjord"}),
        ("ru", "что такое опера", {"такое", "опера"}),
        ("ja", "猫はどこですか", {"猫"}),
        ("xx", "who is there", {"who", "is", "there"}),
    ],
)
def test_a_question_without_its_function_words_is_its_subject(lang: str, question: str, subject: set[str]) -> None:
    words = Tokeniser().words(question, lang)
    assert {word for word in words if not is_function_word(word, lang)} == subject


def test_every_listed_word_is_lower_case_and_a_list_is_sorted_out_once() -> None:
    lists = _lists()
    assert len(lists) >= 35
    for lang, words in lists.items():
        assert lang == lang.lower()
        assert len(words) >= 30
        assert all(word == word.lower() and " " not in word for word in words)
    assert set(SAME_LIST.values()) <= lists.keys()
    assert not set(SAME_LIST) & lists.keys()
