"""Hybrid search: relevance beside dense arithmetic, and what is found by words, typos, phrases, fields and pages."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import madeup
import pytest
from hybrid_oracle import DenseRelevance, logistic

from cr5 import Cr5, Cr5Error, Document
from cr5.index import Index, SearchHit, hybrid
from cr5.index.passages import PassageSettings
from cr5.index.pipeline import MIN_SORTED_RELEVANCE, PREFERENCE, SURE_CONFIDENCE
from cr5.index.query_words import MAX_WORDS_WITH_FORMS, match_forms
from cr5.index.stores.base import Store

PASSAGES = PassageSettings(20, 4)
LITERALS = {"aa:Q003": "Pelargonium mno7x", "bb:Q004": "E0412 qrs8y", "cc:Q007": "E0412 E0413 tuv9z"}


def made(concepts: int = 30) -> list[Document]:
    """Documents with a title of two words, some with a literal string at the end, and some with a year."""
    found = []
    for i, document in enumerate(madeup.corpus(concepts=concepts)):
        text = f"{document.text} {LITERALS.get(f'{document.lang}:{document.concept}', '')}".strip()
        fields = {"year": 2000 + i % 7} if i % 4 else {}
        found.append(replace(document, title=" ".join(text.split()[5:7]), text=text, fields=fields))
    return found


DOCUMENTS = made()


@pytest.fixture(scope="module", params=["lance", pytest.param("postgres", marks=pytest.mark.services)])
def address(request: pytest.FixtureRequest) -> str | None:
    """The address of the store; None for the folder of the index."""
    return str(request.getfixturevalue("url")) if request.param == "postgres" else None


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, model_folder: Path, address: str | None) -> Iterator[Index]:
    """All documents. Read-only."""
    folder = tmp_path_factory.mktemp("hybrid") / "index"
    with Index.create(
        folder, model_folder, store=address, passage_words=PASSAGES.words, passage_overlap=PASSAGES.overlap
    ) as made:
        made.add(DOCUMENTS)
        yield made


@pytest.fixture(scope="module")
def oracle(model: Cr5) -> DenseRelevance:
    return DenseRelevance(model, DOCUMENTS, PASSAGES)


TITLE = DOCUMENTS[15].title
QUERIES = {
    "title": TITLE,
    "words": " ".join(madeup.word("aa", i) for i in (7, 50, 99)),
    "unsure": f"{madeup.word('aa', 50)} zzyx qqqq wwvw",
    "literal": f"{madeup.word('aa', 50)} E0412",
    "only literal": "e0412",
    "typo": "Pelargonuim",
}


@pytest.mark.parametrize("kind", QUERIES)
def test_relevance_is_what_the_formulas_say(index: Index, oracle: DenseRelevance, kind: str) -> None:
    hits = index.search(QUERIES[kind], "aa", k=100).hits
    expected = {name: value for name, value in oracle.relevance(QUERIES[kind], "aa").items() if value > 0}
    assert {hit.id: hit.score for hit in hits} == pytest.approx(expected, rel=1e-3, abs=1e-6)
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert 0 <= scores[-1] <= scores[0] <= 1
    for hit in hits:
        assert sum(hit.parts.values()) == pytest.approx(hit.score)
    if kind != "only literal":
        assert Counter(hit.lang for hit in hits)["bb"] == 30


def concepts(hits: list[SearchHit]) -> list[str]:
    return [hit.concept for hit in hits]


def test_a_title_finds_its_document_and_its_versions_in_all_languages(index: Index) -> None:
    hits = index.search(TITLE, "aa", k=30).hits
    best = {lang: next(hit for hit in hits if hit.lang == lang) for lang in madeup.LANGS}
    assert {hit.concept for hit in best.values()} == {DOCUMENTS[15].concept}
    assert {"words", "title", "vectors"} == set(best["aa"].parts)
    begin, end = best["aa"].passage
    assert 0 < end - begin < len(best["aa"].text)
    assert {*best["aa"].words} & {*best["aa"].text[begin:end].split()}


def test_a_string_that_no_vector_has_is_found_in_all_languages(index: Index) -> None:
    result = index.search("E0412", "aa")
    assert not result.query.vector.any()
    assert {hit.id for hit in result.hits} == {"bb:Q004", "cc:Q007"}
    assert index.search("E0412", "aa", langs="bb").hits[0].words == ("e0412",)
    for unknown in ("qqqqq", "", " … "):
        assert index.search(unknown, "aa").hits == []


def test_a_query_of_many_words_has_no_forms_and_a_very_long_word_is_found(index: Index) -> None:
    store, words = index._active.store, [madeup.word("aa", i) for i in range(MAX_WORDS_WITH_FORMS)]
    code = "x" * 200
    assert any(len(word.terms) > 1 for word in match_forms(store, words, "aa").words)
    assert all(len(word.terms) == 1 for word in match_forms(store, [*words, code], "aa").words)
    assert match_forms(store, [code], "aa").words[0].terms == {code: 1.0}


@pytest.mark.parametrize("typed", ["Pelargonuim", "pelargoniums", "PELARGÓNIUM"])
def test_typos_inflected_forms_and_other_accents_are_found_and_the_first_two_corrected(
    index: Index, typed: str
) -> None:
    other = madeup.word("aa", 50)
    assert index.search(typed, "aa").hits[0].id == "aa:Q003"
    suggestion = index.search(f"{typed} {other}", "aa").suggestion
    assert suggestion == (None if "Ó" in typed else f"pelargonium {other}")
    assert index.search(f"pelargonium {other}", "aa").suggestion is None


def test_a_quoted_phrase_is_in_every_hit(index: Index) -> None:
    a, b = DOCUMENTS[15].text.split()[20:22]
    assert len(index.search(f"{a} {b}", "aa", k=90).hits) > 30
    hits = index.search(f'"{a} {b}"', "aa", k=90).hits
    assert "aa:Q005" in {hit.id for hit in hits}
    assert all(f" {a} {b} " in f" {hit.title} \n {hit.text} " for hit in hits)
    assert index.search(f'"{b} {a}" {a}', "aa").hits == [] or f"{b} {a}" in DOCUMENTS[15].text


def test_a_sentence_that_quotes_something_is_no_phrase(index: Index) -> None:
    for text, phrases in (
        ('"Kalo mi" “su”', (("kalo", "mi"), ("su",))),
        ("„kalo mi“ tav «pe»", (("kalo", "mi"), ("pe",))),
        ('tav "kalo" pe', ()),
        ('tav ""', ()),
    ):
        assert index.search(text, "aa").query.phrases == phrases


@pytest.mark.parametrize("kind", ["title", "unsure", "typo"])
def test_a_filter_chooses_hits_and_leaves_their_scores(index: Index, kind: str) -> None:
    everything = {hit.id: hit.score for hit in index.search(QUERIES[kind], "aa", k=90).hits}
    hits = index.search(QUERIES[kind], "aa", k=90, where={"year": {">=": 2004}}).hits
    assert {hit.id for hit in hits if hit.id in everything} == {
        f"{d.lang}:{d.concept}" for d in DOCUMENTS if d.fields.get("year", 0) >= 2004
    } & set(everything)
    shared = {hit.id: hit.score for hit in hits if hit.id in everything}
    assert shared == pytest.approx({name: everything[name] for name in shared})
    assert len(shared) > 10


def test_pages_are_consecutive_parts_of_one_list(index: Index) -> None:
    hits = index.search(TITLE, "aa", k=50).hits
    pages = [index.search(TITLE, "aa", k=20, offset=offset).hits for offset in (0, 20)]
    assert [*pages[0], *pages[1]] == hits[:40]
    for group in (None, "concept"):
        assert index.search(TITLE, "aa", offset=900, group=group).hits == []
    dense = index.search(TITLE, "aa", k=10, mode="dense").hits
    assert index.search(TITLE, "aa", k=4, offset=6, mode="dense").hits == dense[6:]


def test_languages_scores_and_words_alone_restrict_the_hits(index: Index) -> None:
    hits = index.search(TITLE, "aa", k=90).hits
    assert index.search(TITLE, "aa", k=90, min_score=0.3).hits == [hit for hit in hits if hit.score >= 0.3]
    for langs in ("bb", ["aa", "cc"]):
        found = {hit.id: hit.score for hit in index.search(TITLE, "aa", k=90, langs=langs).hits}
        assert found == pytest.approx({hit.id: hit.score for hit in hits if hit.lang in langs})
    lexical = index.search(TITLE, "aa", k=90, mode="lexical").hits
    assert {hit.id for hit in lexical} == {hit.id for hit in hits if "words" in hit.parts}
    assert {name for hit in lexical for name in hit.parts} == {"words", "title"}
    assert index.search(TITLE, "aa", langs="bb", mode="lexical").hits == []


def test_a_preferred_language_comes_first_among_nearly_equal_hits(index: Index) -> None:
    hits = index.search(TITLE, "aa", k=90).hits
    expected = sorted(hits, key=lambda hit: (-hit.score - PREFERENCE * (hit.lang == "cc"), hit.id))
    assert hits != expected
    assert index.search(TITLE, "aa", k=90, prefer="CC").hits == expected


def test_hits_are_sorted_by_a_field_and_those_without_it_come_last(index: Index) -> None:
    query = madeup.word("aa", 50)
    relevant = index.search(query, "aa", k=90, min_score=MIN_SORTED_RELEVANCE).hits
    for sort, sign in (("year", 1), ("-year", -1)):
        hits = index.search(query, "aa", k=90, sort=sort).hits
        assert {hit.id for hit in hits} == {hit.id for hit in relevant}
        years = [hit.fields.get("year") for hit in hits]
        known = [year for year in years if year is not None]
        assert known == sorted(known, key=lambda year: sign * year)
        assert 0 < len(known) < len(years)
        assert years[len(known) :] == [None] * (len(years) - len(known))


def test_each_concept_is_one_hit_that_lists_its_other_versions(index: Index) -> None:
    hits = index.search(TITLE, "aa", k=90).hits
    groups = index.search(TITLE, "aa", k=90, group="concept").hits
    assert concepts(groups) == list(dict.fromkeys(concepts(hits)))
    scores = {hit.id: hit.score for hit in hits}
    for group in groups:
        ids = [group.id, *(version.id for version in group.versions)]
        assert sorted(ids) == [f"{lang}:{group.concept}" for lang in madeup.LANGS]
        assert all(version.score == scores.get(version.id) for version in group.versions)
        assert group.score == max(scores[name] for name in ids if name in scores)
        assert sum(group.parts.values()) == pytest.approx(group.score)
    shown = index.search(TITLE, "aa", k=90, group="concept", prefer="cc").hits
    assert any(hit.lang == "cc" and scores[hit.id] < hit.score for hit in shown)  # another version is the best one
    assert all(sum(hit.parts.values()) == pytest.approx(hit.score) for hit in shown)
    only = index.search(TITLE, "aa", langs="bb", group="concept", prefer="bb").hits[0]
    assert only.lang == "bb"
    assert {version.lang: version.score for version in only.versions} == {"aa": None, "cc": None}


def test_a_filter_also_applies_to_versions(index: Index) -> None:
    years = {f"{each.lang}:{each.concept}": each.fields.get("year") for each in DOCUMENTS}
    groups = index.search(TITLE, "aa", k=90, group="concept", where={"year": {">=": 2003}}).hits
    versions = [version.id for group in groups for version in group.versions]
    assert versions
    assert all((years[name] or 0) >= 2003 for name in (*versions, *(group.id for group in groups)))


def test_the_language_of_a_query_that_is_not_surely_guessed_is_the_one_that_has_its_words(index: Index) -> None:
    for name, literals in LITERALS.items():
        result = index.search(literals.split()[-1])
        assert result.query.guessed
        assert result.query.confidence < SURE_CONFIDENCE
        assert result.query.lang == name[:2]
        assert result.hits[0].id == name
    assert index.search("mno7x", "bb").query.lang == "bb"


@pytest.mark.parametrize(("option", "value"), [("group", "concept"), ("prefer", "aa"), ("sort", "year")])
def test_hits_by_vectors_alone_are_neither_grouped_nor_sorted(index: Index, option: str, value: Any) -> None:
    with pytest.raises(Cr5Error, match=f'`{option}`.*`mode="dense"`'):
        index.search(TITLE, "aa", mode="dense", **{option: value})


def test_wrong_options_are_refused_with_their_values(index: Index) -> None:
    for options, facts in (
        ({"k": 500, "offset": 501}, "k=500.*offset=501.*1,000"),
        ({"offset": -1}, "offset=-1"),
        ({"offset": 1.5}, "offset=1.5"),
        ({"mode": "sparse"}, "mode.*sparse.*lexical"),
        ({"group": "title"}, "group.*title.*concept"),
        ({"prefer": "xx"}, "xx"),
        ({"langs": ["aa", "yy"]}, "yy"),
        ({"min_score": float("nan")}, "min_score=nan"),
        ({"min_score": "0.5"}, "min_score='0.5'"),
        ({"sort": "-"}, "sort='-'"),
        ({"sort": ["year"]}, r"sort=\['year'\]"),
    ):
        with pytest.raises(Cr5Error, match=facts):
            index.search("text", "aa", **options)
    assert len(index.search(TITLE, "aa", k=500, offset=0).hits) <= 90


# Other indexes


@pytest.fixture
def empty(tmp_path: Path, model_folder: Path, address: str | None) -> Iterator[Index]:
    with Index.create(tmp_path / "index", model_folder, store=address) as made:
        yield made


def test_hits_are_sorted_by_a_field_of_an_object(empty: Index) -> None:
    names = dict(zip(("Q0", "Q1", "Q2"), ("Bo", "Cy", "Ada"), strict=True))
    empty.add([Document(concept, "aa", TITLE, fields={"author": {"name": name}}) for concept, name in names.items()])
    for sort, expected in (("author.name", ["Q2", "Q0", "Q1"]), ("-author.name", ["Q1", "Q0", "Q2"])):
        assert concepts(empty.search(TITLE, "aa", sort=sort).hits) == expected


def test_a_deleted_document_is_neither_a_hit_nor_does_it_stand_for_the_query(empty: Index) -> None:
    assert empty.search(TITLE, "aa").hits == []
    empty.add(DOCUMENTS[:30])
    before = {hit.id: hit.score for hit in empty.search(TITLE, "aa", k=30).hits}
    empty.delete("aa:Q005")
    after = {hit.id: hit.score for hit in empty.search(TITLE, "aa", k=30, group="concept").hits}
    assert "aa:Q005" in before
    assert "aa:Q005" not in after
    assert before["bb:Q005"] > 2 * after.get("bb:Q005", 0)


def test_nearly_identical_documents_are_one_hit(empty: Index) -> None:
    copy = replace(DOCUMENTS[15], concept="copy")
    empty.add([*DOCUMENTS[:30], copy])
    assert {"Q005", "copy"} <= {*concepts(empty.search(TITLE, "aa").hits)}
    best, *rest = empty.search(TITLE, "aa", group="concept").hits
    assert {best.id, *(version.id for version in best.versions)} >= {"aa:Q005", "aa:copy", "bb:Q005"}
    assert not {"Q005", "copy"} & {*concepts(rest)}


def test_without_full_text_documents_are_ranked_by_vectors(empty: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    upsert = Store.upsert
    with monkeypatch.context() as patch:
        patch.setattr(Store, "upsert", lambda store, rows, terms: upsert(store, rows))  # as an earlier version did
        empty.add(DOCUMENTS[:60])
    hits = empty.search(TITLE, "aa", k=60).hits
    dense = empty.search(TITLE, "aa", k=60, mode="dense").hits
    assert [hit.id for hit in hits] == [hit.id for hit in dense]
    expected = [hybrid.NO_FEEDBACK_RELEVANCE * logistic(hit.score) for hit in dense]
    assert [hit.score for hit in hits] == pytest.approx(expected, rel=1e-4)


def test_a_passage_is_found_by_a_query_in_another_language_that_has_no_version_of_it(
    tmp_path: Path, model_folder: Path
) -> None:
    """Its document is about something else as a whole."""
    near = [d for d in DOCUMENTS if d.lang == "bb"][:12]
    aside, wanted = " ".join(d.text for d in near[1:9]), near[9]
    with Index.create(tmp_path / "index", model_folder, passage_words=20) as index:
        index.add([replace(near[0], text=f"{aside} {wanted.text}"), *near[1:9], *near[10:], *DOCUMENTS[36:60]])
        query = next(d.text for d in DOCUMENTS if d.lang == "aa" and d.concept == wanted.concept)
        hit = index.search(query, "aa", langs="bb").hits[0]
    assert hit.concept == near[0].concept
    assert hit.passage[0] > len(aside) / 2
