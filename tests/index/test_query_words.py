"""The weights of the words of a query, and how early they saturate, by searches in small indexes."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import madeup
import pytest

from cr5 import Cr5, Document
from cr5.index import Index, hybrid
from cr5.index.query_words import (
    CERTAIN_BOOST,
    FEW_WORDS,
    FUNCTION_WORD_SHARE,
    WeightedQuery,
    effective_number,
    match_forms,
)
from cr5.index.terms import QueryWord
from cr5.retrieval.word_forms import ACCENT_BOOST, Form

FILLER = {f"filler{i}": f"nothing about {'abcdefgh'[i]}{i} in particular here" for i in range(6)}


@pytest.fixture(scope="module")
def english(tmp_path_factory: pytest.TempPathFactory) -> Path:
    codes = dict(zip(madeup.LANGS, ("en", "it", "da"), strict=True))
    documents = [replace(document, lang=codes[document.lang]) for document in madeup.corpus(concepts=60)]
    folder = tmp_path_factory.mktemp("english") / "model"
    Cr5(rank=20).fit(documents).save(folder)
    return folder


@pytest.fixture
def index(tmp_path: Path, english: Path) -> Iterator[Index]:
    with Index.create(tmp_path / "index", english) as made:
        yield made


def add(index: Index, **texts: str) -> None:
    """Add texts as documents; a document needs a word that the model knows."""
    known = madeup.word(madeup.LANGS[0], 0)
    index.add([Document(concept, "en", f"{text} {known}") for concept, text in (FILLER | texts).items()])


def first(index: Index, query: str) -> str:
    return index.search(query, "en", langs="en", k=1).hits[0].concept


def test_a_question_finds_its_subject_rather_than_a_text_with_its_rare_question_words(index: Index) -> None:
    add(index, quake="the ground trembles when plates move", bohr="why does an atom stay whole, he asked")
    assert first(index, "why does ground shake") == "quake"


def test_the_weight_of_a_function_word_is_a_share_of_its_inverse_document_frequency(index: Index) -> None:
    add(index, quake="why plates move", other="other words")
    store = index._active.store
    words = match_forms(store, ["why", "plates"], "en").words
    idf = store.inverse_document_frequencies(["why", "plates"], "en")
    assert [word.weight for word in words] == pytest.approx([FUNCTION_WORD_SHARE * idf["why"], idf["plates"]])


def test_a_document_with_the_word_itself_comes_before_one_with_another_form_of_it(index: Index) -> None:
    rest = " ".join(f"filler{i}" for i in range(20))  # an opening, in which words count more
    add(index, itself=f"{rest} the mongols rode far {rest}", form=f"{rest} mongolia, mongolia, mongolia {rest}")
    assert [hit.concept for hit in index.search("mongols", "en", langs="en").hits[:2]] == ["itself", "form"]


def test_function_words_alone_are_found(index: Index) -> None:
    add(index, band="who sing whole evenings", other="other words")
    assert first(index, "who") == "band"


def test_a_long_query_prefers_a_document_with_all_its_words_to_one_that_repeats_some(index: Index) -> None:
    words = ["amber", "basalt", "coral", "dune", "ember", "fjord", "glacier", "harbour"]
    opening = " ".join(f"stone{i}" for i in range(20))  # in which words would count more
    once = " and ".join(words[::-1])  # not neighbours as in the query
    repeated = " and ".join(words[:5][::-1] * 6)
    add(index, once=f"{opening} {once} {opening} {opening}", repeated=f"{opening} {repeated}")
    assert first(index, " ".join(words)) == "once"
    assert first(index, " ".join(words[:3])) == "repeated"


def test_words_of_few_effective_words_are_unchanged_and_those_of_more_saturate_in_proportion() -> None:
    def matched(*weights: float) -> WeightedQuery:
        words = [QueryWord(weight, {f"w{i}": 1.0, f"v{i}": 0.5}) for i, weight in enumerate(weights)]
        return WeightedQuery("en", words, sum(weights), {})

    few, uneven, many = matched(1, 1, 1), matched(5, 0.1, 0.1, 0.1), matched(*[2.0] * 6)
    assert few.for_bm25 == few.words
    assert uneven.for_bm25 == uneven.words
    assert effective_number(word.weight for word in many.words) == pytest.approx(6)
    assert [word.terms for word in many.for_bm25] == [
        pytest.approx({term: 6 / FEW_WORDS * boost for term, boost in word.terms.items()}) for word in many.words
    ]
    assert matched().for_bm25 == []


def test_a_document_that_has_the_words_as_neighbours_comes_first(index: Index) -> None:
    add(index, apart="time is money, and real work pays", together="money pays in real time, is work")
    hits = index.search("real time", "en", langs="en", k=2).hits
    assert [hit.concept for hit in hits] == ["together", "apart"]
    assert hits[0].score > hits[1].score + 0.1


def test_a_query_without_accents_finds_words_with_them_where_most_words_have_some(index: Index) -> None:
    accented = {f"d{i}": f"cã{i} phõ{i} mũ{i} tẽ{i} sĩ{i} lạ{i} xế{i}" for i in range(4)}
    add(index, coffee="cà phê", other="ca các phe phép", **accented)
    assert match_forms(index._active.store, ["ca", "phe"], "en").words[0].terms["cà"] == ACCENT_BOOST
    add(index, plain="all of these are plain words of the language, as are many of the others and more of that kind")
    terms = match_forms(index._active.store, ["cà", "phe"], "en").words[1].terms  # typed with an accent
    assert terms["phê"] < ACCENT_BOOST


def test_a_misspelt_word_of_an_uncertain_language_is_read_in_the_language_that_has_the_most_similar_word(
    index: Index,
) -> None:
    known = {lang: madeup.word(own, 0) for own, lang in zip(madeup.LANGS, ("en", "it", "da"), strict=True)}
    index.add([Document(f"{lang}{i}", lang, f"text {known[lang]}") for lang in known for i in range(3)])
    index.add([Document("volcano", "it", f"vulcano {known['it']}")])
    result = index.search("vulcanno")
    assert (result.query.lang, result.hits[0].id, result.suggestion) == ("it", "it:volcano", "vulcano")


def test_a_word_of_another_language_is_not_corrected(index: Index) -> None:
    index.add([Document("dog", "en", f"canal {madeup.word(madeup.LANGS[0], 0)}")])
    assert index.search("canel", "en").suggestion == "canal"
    index.add([Document("cinnamon", "it", f"canel {madeup.word(madeup.LANGS[1], 0)}")])
    assert index.search("canel", "en").suggestion is None


def matched(lang: str, **forms: list[Form]) -> WeightedQuery:
    """Words of weight 1 with these forms."""
    words = [QueryWord(1.0, {name: 1.0} | {form.word: form.boost for form in forms[name]}) for name in forms]
    return WeightedQuery(lang, words, float(len(words)), forms)


def test_an_unknown_word_weighs_less_the_less_certain_its_forms_are() -> None:
    sure, half = Form("volcano", "typo", CERTAIN_BOOST + 0.1), Form("chi", "form", CERTAIN_BOOST / 2)
    words = matched("en", volcanno=[sure], chicken=[half], known=[Form("known", "same", 1.0)], nothing=[])
    assert [word.weight for word in words.for_bm25] == [1.0, 0.25, 1.0, 1.0]
    assert words.total == 4


def test_a_title_matches_by_content_words_by_probable_forms_and_in_order() -> None:
    question = matched("en", what=[], border=[], styles=[Form("style", "form", 0.6)])
    idf = {"border": 2.0, "style": 2.0, "page": 4.0}
    assert question.title_match(["border", "style"], idf) == 1
    assert question.title_match(["style", "border"], idf) == 0.5
    assert question.title_match(["border"], idf) == 0.5
    assert question.title_match(["page", "border", "style"], idf) == 0.5
    assert question.title_match(["page"], idf) == question.title_match([], idf) == 0
    assert matched("en", what=[]).title_match(["what"], {"what": 1.0}) == 1


def test_neighbouring_function_words_of_a_question_do_not_make_a_document_relevant(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(index, bug="how do i report a bug to somebody", other="they do")

    def score() -> float:
        return index.search("how do i do volcano", "en", langs="en", k=1).hits[0].score

    expected = score()
    monkeypatch.setattr(hybrid, "PAIR_SHARE", 1e-9)
    assert score() > expected + 0.05
