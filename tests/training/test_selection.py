"""Every document that is read is used or left out for one reason, and the count of each is right."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cr5.corpus.documents import Document
from cr5.corpus.inputs import in_batches
from cr5.errors import CorpusError, CountryCode, FewDocuments, LanguageLeftOut, RepeatedDocuments, SeveralCodes
from cr5.features.tfidf import Weighting
from cr5.features.tokeniser import Tokeniser
from cr5.settings import make_settings
from cr5.training.counted_corpus import CountedCorpus, count_corpus
from cr5.training.pipeline import train
from cr5.training.selection import (
    ENOUGH_CONCEPTS,
    NO_COUNTERPART,
    NO_WORD,
    ONE_LANGUAGE,
    RARE_WORDS,
    REASONS,
    TOO_LONG,
    TOO_SHORT,
    Selection,
    Usage,
    explain_reason,
    few_concepts_warnings,
    select_documents,
)

WEIGHTING = Weighting(min_documents=2, min_unique=2, max_unique=4)


def counted(documents: list[Document]) -> CountedCorpus:
    return count_corpus(in_batches(documents), Tokeniser())


def chosen_concepts(selection: Selection) -> dict[str, list[str]]:
    corpus = selection.corpus
    return {lang: [corpus.concepts[i] for i in d.concepts] for lang, d in corpus.languages.items()}


def pair(concept: str, en: str, it: str) -> list[Document]:
    return [Document(concept, "en", en), Document(concept, "it", it)]


GOOD = [*pair("Q1", "dog cat", "cane gatto"), *pair("Q2", "dog cat", "cane gatto")]


def test_documents_of_a_good_corpus_are_all_used() -> None:
    selection = select_documents(counted(GOOD), WEIGHTING)
    assert chosen_concepts(selection) == {"en": ["Q1", "Q2"], "it": ["Q1", "Q2"]}
    assert selection.usage.documents == Usage(4, 4, {})
    assert selection.usage.concepts == Usage(2, 2, {})
    assert {lang: set(v.words) for lang, v in selection.vocabularies.items()} == {
        "en": {"dog", "cat"},
        "it": {"cane", "gatto"},
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [("! ?", NO_WORD), ("dog dog", TOO_SHORT), ("dog cat bird fish mouse", TOO_LONG), ("rare words", RARE_WORDS)],
)
def test_a_document_is_left_out_for_its_reason_and_its_counterpart_with_it(text: str, reason: str) -> None:
    selection = select_documents(counted([*GOOD, *pair("Q3", text, "cane gatto")]), WEIGHTING)
    assert chosen_concepts(selection) == {"en": ["Q1", "Q2"], "it": ["Q1", "Q2"]}
    assert selection.usage.languages == {"en": Usage(3, 2, {reason: 1}), "it": Usage(3, 2, {NO_COUNTERPART: 1})}
    assert selection.usage.concepts == Usage(3, 2, {NO_COUNTERPART: 1})


def test_a_concept_in_one_language_differs_from_one_that_lost_its_counterpart() -> None:
    alone = [Document("Q8", "en", "dog cat"), Document("Q8", "en", "cat dog")]
    selection = select_documents(counted([*GOOD, *alone]), WEIGHTING)
    assert selection.usage.languages["en"] == Usage(4, 2, {ONE_LANGUAGE: 2})
    assert selection.usage.concepts == Usage(3, 2, {ONE_LANGUAGE: 1})


def test_a_text_without_a_word_is_left_out_whatever_the_limits() -> None:
    none = Weighting(min_documents=0, min_unique=0)
    selection = select_documents(counted([*GOOD, Document("Q1", "en", "…")]), none)
    assert selection.usage.languages["en"] == Usage(3, 2, {NO_WORD: 1})


def test_a_language_that_has_nothing_left_is_not_in_the_selection() -> None:
    selection = select_documents(counted([*GOOD, Document("Q1", "da", "hund")]), WEIGHTING)
    assert list(selection.corpus.languages) == list(selection.vocabularies) == ["en", "it"]
    assert selection.usage.languages["da"] == Usage(1, 0, {TOO_SHORT: 1})


def test_a_language_with_fewer_documents_than_others_is_warned_of() -> None:
    many = [d for i in range(ENOUGH_CONCEPTS) for d in pair(f"Q{i}", f"dog cat x{i}", f"cane gatto x{i}")]
    for count, expected in ((ENOUGH_CONCEPTS - 1, ["da"]), (ENOUGH_CONCEPTS, [])):
        danish = [Document(f"Q{i}", "da", f"hund kat x{i}") for i in range(count)]
        found = select_documents(counted([*many, *danish, danish[0]]), WEIGHTING).warnings(WEIGHTING)
        assert [type(warning) for warning in found] == [FewDocuments] * len(expected)
        assert all(f"language da shares only {count} concepts" in str(warning) for warning in found)


@pytest.mark.parametrize("concepts", [0, 2, ENOUGH_CONCEPTS - 1, ENOUGH_CONCEPTS])
def test_a_corpus_that_is_small_as_a_whole_is_warned_of_and_not_language_by_language(concepts: int) -> None:
    documents = [d for i in range(concepts) for d in pair(f"Q{i}", f"dog cat x{i}", f"cane gatto x{i}")]
    found = select_documents(counted(documents), WEIGHTING).warnings(WEIGHTING)
    expected = 1 < concepts < ENOUGH_CONCEPTS
    assert [type(warning) for warning in found] == [FewDocuments] * expected
    assert all(
        str(warning).startswith(f"only {concepts} shared concepts, too few for a good model") for warning in found
    )


@pytest.mark.parametrize("copies", [1, 19, 20])
def test_few_concepts_with_many_documents_are_asked_about(copies: int) -> None:
    documents = [d for i in range(3) for j in range(copies) for d in pair(f"Q{i}", f"dog x{j}", f"cane x{j}")]
    found = select_documents(counted(documents), WEIGHTING).warnings(WEIGHTING)
    [warning] = [each for each in found if isinstance(each, FewDocuments)]
    question = "A concept has 20 documents in each language on average: is `concept` the right column?"
    assert (question in str(warning)) == (copies == 20)
    alone = [d for j in range(copies) for d in pair("2020-01-01", f"dog x{j}", f"cane x{j}")]
    with pytest.raises(CorpusError, match="the languages share 1 concept") as caught:
        train(counted(alone), make_settings(min_documents=1))
    assert (question in str(caught.value)) == (copies == 20)


@pytest.mark.parametrize("again", ["dog cat x7", "x7 cat dog"])
@pytest.mark.parametrize("concept", ["Q7", "Q8"])
def test_documents_that_repeat_others_are_warned_of(again: str, concept: str) -> None:
    documents = [d for i in range(200) for d in pair(f"Q{i}", f"dog cat x{i}", f"cane gatto x{i}")]
    one, two = [Document(concept, "en", again)], [Document(concept, "en", again)] * 3
    assert select_documents(counted(documents + one), WEIGHTING).warnings(WEIGHTING) == []  # 1 of 201
    [warning] = select_documents(counted(documents + two), WEIGHTING).warnings(WEIGHTING)
    assert type(warning) is RepeatedDocuments
    assert "(en 3 of 203)" in str(warning)
    other = [Document(concept, "en", f"{again} x7")] * 3  # one word more often: of these, two repeat the first
    assert counted(documents + other).count_same_words() == {"en": 2, "it": 0}


@pytest.mark.parametrize(
    ("codes", "are_one"),
    [
        (["en", "en-US"], True),
        (["pt", "pt-BR"], True),
        (["zh-Hant", "zh-TW"], True),
        (["pt-BR", "pt-PT"], False),
        (["zh", "zh-TW"], False),
        (["sr", "sr-Latn"], False),
        (["en", "en-simple"], False),
        (["nb", "no"], True),
        (["nb-NO", "no"], True),
        (["nb", "nn"], False),
    ],
)
def test_two_codes_of_one_language_are_warned_of(codes: list[str], are_one: bool) -> None:
    documents = [Document(f"Q{i}", code, f"a1 b2 x{i}") for i in range(200) for code in codes]
    found = select_documents(counted(documents), WEIGHTING).warnings(WEIGHTING)
    assert [type(warning) for warning in found] == [SeveralCodes] * are_one
    assert all(str(warning).startswith(" and ".join(codes) + " are treated as different") for warning in found)


def test_an_explanation_names_the_setting_with_its_value() -> None:
    assert "`min_unique=2`" in explain_reason(TOO_SHORT, WEIGHTING)
    assert "`max_unique=4`" in explain_reason(TOO_LONG, WEIGHTING)
    assert "`min_documents=2`" in explain_reason(RARE_WORDS, WEIGHTING)
    assert all(explain_reason(reason, WEIGHTING) for reason in REASONS)


TEXTS = st.lists(st.sampled_from(["a1", "b2", "c3", "d4", "!"]), min_size=1, max_size=6).map(" ".join)
DOCUMENTS = st.lists(st.builds(Document, st.sampled_from("QRST"), st.sampled_from(["en", "it", "da"]), TEXTS))


@given(DOCUMENTS, st.integers(0, 3), st.integers(3, 5), st.integers(0, 3))
def test_read_is_used_plus_left_out(documents: list[Document], least: int, most: int, frequent: int) -> None:
    weighting = Weighting(min_documents=frequent, min_unique=least, max_unique=most)
    selection = select_documents(counted(documents), weighting)
    usage = selection.usage
    for part in (*usage.languages.values(), usage.documents, usage.concepts):
        assert part.read == part.used + sum(part.left_out.values())
        assert all(part.left_out.values())
    assert usage.documents.read == len(documents)
    assert usage.concepts.read == len({d.concept for d in documents})
    here = selection.corpus.languages
    assert {lang: part.used for lang, part in usage.languages.items() if part.used} == {
        lang: len(d) for lang, d in here.items()
    }
    if here:  # every concept has two languages, and every row a known word
        assert ((selection.corpus.document_counts() > 0).sum(axis=1) != 1).all()
        for lang, d in here.items():
            X = selection.vocabularies[lang].transform(d.local_counts)
            assert (np.diff(X.indptr) > 0).all()


def test_a_language_whose_concepts_have_other_names_is_left_out_with_examples(documents: list[Document]) -> None:
    renamed = [replace(d, concept=f"{d.concept} ") if d.lang == "cc" else d for d in documents]
    [warning] = [each for each in select_documents(counted(renamed), Weighting()).warnings(Weighting())
                 if isinstance(each, LanguageLeftOut)]  # fmt: skip
    assert str(warning).endswith("have different names (cc: 'Q000 '; aa: 'Q000'; bb: 'Q000')")


@pytest.mark.parametrize(
    ("country", "code"),
    [("dk", "Danish is da"), ("jp", "Japanese is ja"), ("cn", "Chinese is zh"), ("GB", "English is en")],
)
def test_the_code_of_a_country_is_warned_of_with_that_of_its_language(country: str, code: str) -> None:
    documents = [d for i in range(200) for d in pair(f"Q{i}", f"dog cat x{i}", f"cane gatto x{i}")]
    renamed = [replace(d, lang=country) if d.lang == "it" else d for d in documents]
    found = select_documents(counted(renamed), WEIGHTING).warnings(WEIGHTING)
    assert [type(warning) for warning in found] == [CountryCode]
    assert f"{country.lower()!r} is not a language code; {code}; write that" in str(found[0])


@pytest.mark.parametrize("code", ["se", "ee", "br", "uk", "no", "da", "nn", "x-dk", "english_1"])
def test_codes_of_languages_and_names_of_ones_own_are_not_taken_for_countries(code: str) -> None:
    documents = [d for i in range(200) for d in pair(f"Q{i}", f"dog cat x{i}", f"cane gatto x{i}")]
    renamed = [replace(d, lang=code) if d.lang == "it" else d for d in documents]
    assert select_documents(counted(renamed), WEIGHTING).warnings(WEIGHTING) == []


def test_few_concepts_are_warned_of_with_what_helps_until_there_are_more() -> None:
    [warning] = few_concepts_warnings(150, 3)
    assert "`min_documents=2`" in str(warning)
    assert "all views (Cr5.similarity)" in str(warning)
