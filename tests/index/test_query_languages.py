"""The language of a query is guessed."""

from collections.abc import Iterator

import numpy as np
import pytest
from index_documents import refused

from cr5 import Cr5, Document, FewDocuments, Index, demo

# The language of a query


@pytest.fixture(scope="module")
def encyclopedia() -> Cr5:
    return Cr5(rank=20, min_documents=2, ridge=1.0, subwords=False).fit(demo.encyclopedia())


@pytest.mark.parametrize(
    ("text", "lang"), [("cane", "it"), ("chó", "vi"), ("dog", "en"), ("hund", "da"), ("siêu máy tính", "vi")]
)
def test_one_word_is_enough_to_guess_a_language(encyclopedia: Cr5, text: str, lang: str) -> None:
    assert encyclopedia.guess_language(text).lang == lang


def test_the_confidence_of_a_guess_is_its_posterior_probability(encyclopedia: Cr5) -> None:
    assert encyclopedia.guess_language("the mountain and the sea").confidence > 0.999
    assert encyclopedia.guess_language("  123 ?").confidence == pytest.approx(0.25)
    assert encyclopedia.guess_language("cane", ["en", "vi"]).lang == "en"
    assert encyclopedia.guess_language("cane", ["da"]) == ("da", 1.0)
    assert refused(lambda: encyclopedia.guess_language("cane", [])) == ("`langs` is empty; name a language")


@pytest.mark.slow
def test_sentences_of_all_languages_are_recognised(encyclopedia: Cr5) -> None:
    documents = demo.encyclopedia()[::16]
    for words, least in [(1, 0.85), (3, 0.97), (10, 1.0)]:
        guesses = [encyclopedia.guess_language(" ".join(d.text.split()[5 : 5 + words])).lang for d in documents]
        assert np.mean([guess == d.lang for guess, d in zip(guesses, documents, strict=True)]) >= least


def test_a_text_without_spaces_is_recognised() -> None:
    chinese = ["狗是人类最早驯化的动物", "山上有雪和石头", "人类和动物住在山上", "雪和石头是白色的"]
    english = ["the dog is an animal of man", "snow and stones on the hill", "man and animal on the hill", "white snow"]
    pairs = zip(chinese, english, strict=True)
    documents = [
        Document(f"Q{i}", lang, text)
        for i, pair in enumerate(pairs)
        for lang, text in zip(("zh", "en"), pair, strict=True)
    ]
    model = Cr5(rank=2, ridge=1.0, min_documents=1, min_unique=1).fit(documents)
    assert model.guess_language("人类和动物在山上").lang == "zh"
    assert model.guess_language("the animal on the hill").lang == "en"


# A language with few documents


@pytest.fixture(scope="module")
def few_danish(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    """An index of many English and Italian articles and few Danish ones, with a model of the same."""
    articles = [d for d in demo.encyclopedia() if d.lang in ("en", "it")]
    articles += [d for d in demo.encyclopedia() if d.lang == "da"][::8]
    with pytest.warns(FewDocuments, match="language da"):
        model = Cr5(rank=20, min_documents=2, ridge=1.0, subwords=False).fit(articles)
    with Index.create(tmp_path_factory.mktemp("few") / "index", model) as index:
        index.add(articles)
        yield index


@pytest.mark.parametrize("text", ["titanic", "john", "michael", "c"])
def test_a_word_that_languages_share_is_taken_for_one_with_many_documents(few_danish: Index, text: str) -> None:
    query = few_danish.search(text).query
    assert query.lang in ("en", "it")
    assert query.guessed


@pytest.mark.parametrize(("text", "lang"), [("hund", "da"), ("videnskab", "da"), ("mountain", "en")])
def test_a_word_of_a_language_with_few_documents_is_recognised(few_danish: Index, text: str, lang: str) -> None:
    assert few_danish.search(text).query.lang == lang


@pytest.mark.parametrize("text", ["1234", "🙂", "", "?!"])
def test_a_text_that_says_nothing_about_its_language_gets_the_one_with_most_words(few_danish: Index, text: str) -> None:
    model = few_danish.model
    most = max(model.langs, key=lambda lang: len(model.words(lang)))
    assert most != model.langs[0]
    assert model.guess_language(text).lang == most
    assert model.guess_languages([text] * 20)[0].lang == most
    if not text.isalnum():  # an index has words that look like a number
        assert few_danish.search(text).query.lang == max(few_danish.count().items(), key=lambda pair: pair[1])[0]


def test_the_probabilities_of_all_languages_are_those_of_guesses(encyclopedia: Cr5) -> None:
    for text in ("opera", "cane", "1234", ""):
        probabilities = encyclopedia.language_probabilities(text)
        assert list(probabilities) == encyclopedia.langs
        assert sum(probabilities.values()) == pytest.approx(1)
        assert max(probabilities.values()) == encyclopedia.guess_language(text).confidence
    assert encyclopedia.language_probabilities("cane", ["da"]) == {"da": 1.0}
