"""Cleaning documents: language codes, guessed languages, foreign texts, near-duplicates."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cr5 import Document, demo
from cr5.errors import CorpusError
from cr5.sources.accounting import Accounting
from cr5.sources.clean import SAMPLE_DOCUMENTS, SourceSummary, clean

ENGLISH = [d for d in demo.encyclopedia() if d.lang == "en"][:40]
DANISH = [d for d in demo.encyclopedia() if d.lang == "da"][:40]


def kept(given_: list[Document], summary: SourceSummary | None = None, **options: object) -> list[Document]:
    found = clean(given_, summary or SourceSummary(), **options)  # type: ignore[arg-type]
    return [document for batch in found for document in batch.documents()]


def test_codes_become_bcp_47_and_the_summary_has_their_former_spelling() -> None:
    summary = SourceSummary()
    codes = ["pt_br", "deu", "en", "sr@latin"]
    found = kept([Document(str(i), code, "x", "t", "u") for i, code in enumerate(codes)], summary)
    assert [document.lang for document in found] == ["pt-BR", "de", "en", "sr-Latn"]
    assert summary.renamed == {"pt_br": "pt-BR", "deu": "de", "sr@latin": "sr-Latn"}
    assert (found[0].concept, found[0].text, found[0].title, found[0].url) == ("0", "x", "t", "u")


def test_a_missing_language_is_guessed_with_its_confidence() -> None:
    summary = SourceSummary()
    found = kept([Document(d.concept, "", d.text) for d in ENGLISH + DANISH], summary)
    assert [document.lang for document in found] == ["en"] * 40 + ["da"] * 40
    figures = summary.by_language()
    assert (figures["en"].guessed, figures["da"].guessed) == (40, 40)
    assert figures["en"].confidence is not None
    assert 0.8 < figures["en"].confidence <= 1.0


def test_an_invalid_language_code_is_an_error() -> None:
    bad = [Document("a", "this is no code", "text"), Document("b", "en", "text")]
    with pytest.raises(CorpusError, match=r"^a: "):
        kept(bad)
    summary = SourceSummary(Accounting("skip"))
    assert [document.concept for document in kept(bad, summary)] == ["b"]
    assert summary.accounting.errors.counts == {"invalid language code": 1}


def test_a_text_whose_language_cannot_be_guessed_is_an_error() -> None:
    with pytest.raises(CorpusError) as caught:
        kept([Document("a", "", "12 34 56")])
    assert str(caught.value).startswith("a: ")


def test_only_the_wanted_languages_are_kept_in_any_spelling() -> None:
    given_ = [Document("a", "pt-BR", "x"), Document("a", "pt", "y"), Document("a", "en", "z")]
    assert [d.text for d in kept(given_, langs=["pt_br", "eng"])] == ["x", "z"]


@pytest.mark.parametrize("drop", [False, True])
def test_untranslated_pages_are_counted_and_dropped_on_request(drop: bool) -> None:
    summary = SourceSummary()
    pages = [*DANISH, Document("forgotten", "da", ENGLISH[0].text)]
    assert len(kept(pages, summary, drop_foreign=drop)) == 41 - drop
    assert summary.by_language()["da"].foreign == {"en": 1}
    assert summary.foreign_examples == {("da", "en"): "forgotten"}


@pytest.mark.parametrize("drop", [False, True])
def test_near_duplicates_are_counted_and_dropped_on_request(drop: bool) -> None:
    summary = SourceSummary()
    pages = [*ENGLISH, Document("copy", "en", ENGLISH[3].text + " And more.")]
    assert len(kept(pages, summary, dedupe=drop)) == 41 - drop
    assert summary.by_language()["en"].duplicates == 1
    assert summary.by_language()["en"].documents == 41 - drop


def test_each_pair_of_declared_and_evident_language_has_its_own_example() -> None:
    summary = SourceSummary()
    vietnamese = next(d for d in demo.encyclopedia() if d.lang == "vi")
    pages = [("vi", vietnamese.text), ("en 1", ENGLISH[0].text), ("en 2", ENGLISH[1].text)]
    kept([Document(concept, "da", text) for concept, text in pages], summary)
    assert summary.foreign == {("da", "vi"): 1, ("da", "en"): 2}
    assert summary.foreign_examples == {("da", "vi"): "vi", ("da", "en"): "en 1"}


def test_guesses_of_languages_that_are_not_wanted_are_not_counted() -> None:
    summary = SourceSummary()
    kept([Document(d.concept, "", d.text) for d in ENGLISH + DANISH], summary, langs=["da"])
    assert set(summary.by_language()) == {"da"}
    assert summary.read == {"en": 40, "da": 40}


def test_concepts_are_counted_once_and_shared_ones_when_a_second_language_has_them() -> None:
    summary = SourceSummary()
    pairs = [("a", "en"), ("a", "it"), ("a", "it"), ("a", "da"), ("b", "en"), ("b", "en"), ("c", "it")]
    kept([Document(concept, lang, "x") for concept, lang in pairs], summary)
    assert (summary.concepts, summary.shared) == (3, 1)


def test_short_documents_are_those_with_too_few_different_words() -> None:
    summary = SourceSummary()
    texts = ["one two three", "one two two", "One one, TWO: three!", "", "1 2 3 4"]
    given_ = [Document(str(i), "en", text) for i, text in enumerate(texts) if text]
    kept([*given_, Document("z", "zh", "我爱北京天安门")], summary, min_unique=3)
    assert summary.by_language()["en"].short == 0.25
    assert summary.by_language()["zh"].short == 0.0


def test_the_share_of_short_documents_is_estimated_from_a_sample_of_every_language() -> None:
    summary = SourceSummary()
    found = [Document(str(i), lang, f"word {i}") for lang in ("en", "it") for i in range(2 * SAMPLE_DOCUMENTS)]
    kept(found, summary, min_unique=3)
    assert summary.sampled == summary.short == {"en": SAMPLE_DOCUMENTS, "it": SAMPLE_DOCUMENTS}
    assert summary.documents == {"en": 2 * SAMPLE_DOCUMENTS, "it": 2 * SAMPLE_DOCUMENTS}


def test_the_share_of_short_documents_is_right_where_the_first_ones_are_unlike_the_rest() -> None:
    summary = SourceSummary()
    short, long = SAMPLE_DOCUMENTS, 3 * SAMPLE_DOCUMENTS
    texts = ["word"] * short + ["three different words"] * long  # the first documents would say 100%
    kept([Document(str(i), "en", text) for i, text in enumerate(texts)], summary, min_unique=3)
    share = summary.by_language()["en"].short
    assert share is not None
    assert abs(share - short / (short + long)) < 0.05  # 3.6 standard errors of the sample


TEXT = st.text(st.characters(codec="utf-8"), min_size=1).filter(str.strip)


KEY = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1).filter(str.strip)


@given(st.lists(st.builds(Document, KEY, st.sampled_from(["en", "it", "xx"]), TEXT, st.just("t"), st.just("u"))))
def test_clean_documents_are_unchanged(given_: list[Document]) -> None:
    assert kept(given_) == given_
