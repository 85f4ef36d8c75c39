"""Hybrid search: relevance beside dense arithmetic, and what is found by words, typos, phrases, fields and pages."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import madeup
import numpy as np
import pytest
from bm25_oracle import Words, bm25, inverse_document_frequencies, words_of

from cr5 import Cr5, Cr5Error, Document
from cr5._typing import Array
from cr5.index import Index, SearchHit, hybrid
from cr5.index.passages import PassageSettings, passage_spans
from cr5.index.pipeline import MIN_SORTED_RELEVANCE, PREFERENCE, SURE_CONFIDENCE
from cr5.index.query_words import CERTAIN_BOOST, FEW_WORDS, KNOWN_WORD_FORMS, MAX_WORDS_WITH_FORMS, match_forms
from cr5.index.stores.base import Store
from cr5.index.terms import QueryWord
from cr5.retrieval.word_forms import TermDictionary, find_forms, with_regular_forms

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
def oracle(model: Cr5) -> "Dense":
    return Dense(model, DOCUMENTS)


# The oracle: relevance by dense matrices, one document after the other


def logistic(z: float) -> float:
    return float(1 / (1 + np.exp(-(z - hybrid.CENTRE) / hybrid.WIDTH)))


def bounded(value: float) -> float:
    excess = max(value - hybrid.LINEAR_UP_TO, 0) / hybrid.CURVATURE
    return float(min(value, hybrid.LINEAR_UP_TO) + (1 - hybrid.LINEAR_UP_TO) * (1 - np.exp(-excess)))


def saturating(words: list[QueryWord]) -> list[QueryWord]:
    weights = np.array([word.weight for word in words])
    scale = max(1, weights.sum() ** 2 / (weights**2).sum() / FEW_WORDS)
    return [QueryWord(word.weight, {term: scale * boost for term, boost in word.terms.items()}) for word in words]


def mean_of_ten(cosines: Array) -> float:
    return float(np.sort(cosines)[-10:].mean())


class Dense:
    """The relevance of every document, as the formulas in ``cr5.index.hybrid`` say."""

    def __init__(self, model: Cr5, documents: list[Document]) -> None:
        self.model, self.ids = model, [f"{d.lang}:{d.concept}" for d in documents]
        self.documents = dict(zip(self.ids, documents, strict=True))
        self.words, self.passages = words_of(model, documents), dict[str, Words]()
        for name, d in self.documents.items():
            for number, (begin, end) in enumerate(passage_spans(d.text, PASSAGES)):
                tokens = model.settings.tokeniser.words(f"{d.title}\n{d.text[begin:end]}", d.lang)
                self.passages[f"{name} {number}"] = Words(d.lang, Counter(tokens))
        self.vectors = {name: model.encode(d.text, d.lang) for name, d in self.documents.items()}
        self.vocabularies = {
            lang: TermDictionary(
                sorted({word for words in self.words.values() if words.lang == lang for word in words.counts})
            )
            for lang in madeup.LANGS
        }

    def cosines(self, vector: Array, lang: str, concept: str | None = None) -> Array:
        """With all documents of a language, but that of a concept."""
        others = [self.vectors[n] for n, d in self.documents.items() if d.lang == lang and d.concept != concept]
        return np.stack(others) @ vector

    def csls(self, vector: Array, lang: str, concept: str | None, name: str) -> float:
        """Of a text in a language and a document."""
        d = self.documents[name]
        of_text = mean_of_ten(self.cosines(vector, d.lang, concept))
        return (
            float(2 * vector @ self.vectors[name])
            - of_text
            - mean_of_ten(self.cosines(self.vectors[name], lang, d.concept))
        )

    def relevance(self, text: str, lang: str) -> dict[str, float]:
        tokens = list(dict.fromkeys(self.model.settings.tokeniser.words(text, lang)))
        query, query_words = self.model.encode(text, lang), []
        idf = inverse_document_frequencies(
            self.words, {w for words in self.words.values() for w in [*words.counts, *tokens]}, lang
        )
        vocabulary = self.vocabularies[lang]
        forms = {token: with_regular_forms([vocabulary], token, find_forms([vocabulary], token)) for token in tokens}
        likely = {
            token: token
            if not found or found[0].kind == "same"
            else max(found, key=lambda f: f.boost * idf[f.word]).word
            for token, found in forms.items()
        }
        weights = np.array([idf[likely[token]] for token in tokens])
        number = weights.sum() ** 2 / (weights**2).sum()
        certainties = [min(1, found[0].boost / CERTAIN_BOOST) ** 2 if found else 1 for found in forms.values()]
        for token, found in forms.items():
            reduced = {token: 1.0}
            for f in found:
                boost = KNOWN_WORD_FORMS * f.boost / number if likely[token] == token else f.boost
                reduced[f.word] = 1.0 if f.kind == "same" else boost * min(1, idf[f.word] / idf[likely[token]])
            query_words.append(QueryWord(idf[likely[token]], reduced))
        total = sum(word.weight for word in query_words)
        own, evidence = self.own_language(text, query_words, certainties, total, idf, query, lang)
        words = dict(zip(tokens, query_words, strict=True))
        limit = hybrid.NO_FEEDBACK_RELEVANCE * self.model.encode_text(text, lang)[2].known
        return own | self.other_languages(own, evidence, words, total, query, lang, limit)

    def own_language(
        self,
        text: str,
        words: list[QueryWord],
        certainties: list[float],
        total: float,
        idf: dict[str, float],
        query: Array,
        lang: str,
    ) -> tuple[dict[str, float], dict[str, float]]:
        scaled = [
            QueryWord(c * word.weight, word.terms) for word, c in zip(saturating(words), certainties, strict=True)
        ]
        by_document, by_passage = bm25(self.words, scaled, lang), bm25(self.passages, scaled, lang)
        scores, by_vectors, evidence, shares = {}, {}, {}, {}
        for name in [name for name, d in self.documents.items() if d.lang == lang]:
            scores[name] = self.csls(query, lang, None, name) if query.any() else 0
            W = max([by_document.get(name, 0), *(b for p, b in by_passage.items() if p.split()[0] == name)]) / total
            if W:
                title = self.title_match(self.documents[name].title, words, total, idf)
                evidence[name], shares[name] = W + (1 - W) * title**hybrid.TITLE_POWER, W
            elif query.any():
                by_vectors[name] = hybrid.DENSE_LIMIT * logistic(scores[name])
        for name in sorted(evidence, key=lambda name: (-evidence[name], name))[: hybrid.PAIR_DEPTH]:
            part = min(shares[name] / hybrid.PAIR_SHARE, 1)
            evidence[name] += hybrid.PAIR_BONUS * part * self.share_of_pairs(text, words, name)
        found = {name: bounded(value + hybrid.TIE_WEIGHT * scores[name]) for name, value in evidence.items()}
        if sum(value >= hybrid.ENOUGH_RELEVANCE for value in found.values()) >= 10:
            return found, evidence
        return found | by_vectors, evidence | by_vectors

    def share_of_pairs(self, text: str, words: list[QueryWord], name: str) -> float:
        d, tokens = self.documents[name], text.lower().split()
        weight = dict(zip(dict.fromkeys(tokens), (word.weight for word in words), strict=True))
        pairs = {(a, b): min(weight[a], weight[b]) for a, b in pairwise(tokens)}
        present = sum(value for (a, b), value in pairs.items() if f"{a} {b}" in f"{d.title} {d.text}".lower())
        return present / sum(pairs.values()) if pairs else 0

    def title_match(self, title: str, words: list[QueryWord], total: float, idf: dict[str, float]) -> float:
        title_words = title.lower().split()
        terms = [{t: min(1, s / CERTAIN_BOOST) for t, s in word.terms.items()} for word in words]
        best = [max([0, *(boosts.get(t, 0) for t in title_words)]) for boosts in terms]
        of_query = sum(word.weight * boost for word, boost in zip(words, best, strict=True)) / total
        of_title = {t: max(boosts.get(t, 0) for boosts in terms) for t in title_words}
        places = [[i for i, t in enumerate(title_words) if t in boosts] for boosts in terms]
        order = [min(a) < max(b) for a, b in pairwise(filter(None, places))]
        in_order = (1 + np.mean(order)) / 2 if order else 1
        mass = sum(idf[t] for t in of_title)
        return float(of_query * in_order * sum(idf[t] * boost for t, boost in of_title.items()) / mass)

    def other_languages(
        self,
        own: dict[str, float],
        evidence: dict[str, float],
        words: dict[str, QueryWord],
        total: float,
        query: Array,
        lang: str,
        limit: float,
    ) -> dict[str, float]:
        best = sorted(own, key=lambda name: -evidence[name])[: hybrid.FEEDBACK_DOCUMENTS]
        raw = {name: np.exp(evidence[name] / hybrid.FEEDBACK_TEMPERATURE) for name in best}
        r = sum(raw[name] * own[name] for name in best) / (sum(raw.values()) or 1)
        s = min(r / hybrid.CONFIDENT_RELEVANCE, 1)
        weights = {name: s * raw[name] / sum(raw.values()) for name in best}
        of_query = (s * hybrid.QUERY_WEIGHT + (1 - s) * hybrid.UNCERTAIN_QUERY_WEIGHT) if query.any() else 0
        whole = sum(weights.values()) + of_query
        R = (s * r + of_query * hybrid.DENSE_LIMIT) / whole if whole else 0
        found = {}
        for name, d in self.documents.items():
            if d.lang == lang:
                continue
            idf = inverse_document_frequencies(self.words, words, d.lang)
            same = [QueryWord(min(idf[token], word.weight), {token: 1.0}) for token, word in words.items()]
            L = bm25({name: self.words[name]} | self.words, saturating(same), d.lang).get(name, 0) / total
            found[name] = hybrid.LITERAL_LIMIT * L
            if whole:
                z = sum(
                    w * self.csls(self.vectors[e], lang, self.documents[e].concept, name) for e, w in weights.items()
                )
                z = (z + (of_query * self.csls(query, lang, None, name) if of_query else 0)) / whole
                found[name] = max(R * logistic(z + hybrid.LITERAL_WEIGHT * L), found[name])
            if limit > R:
                found[name] = max([found[name], *(limit * p for p in self.by_passages(query, lang, name))])
        return found

    def by_passages(self, query: Array, lang: str, name: str) -> list[float]:
        """How likely a document is to be about a query by each of its passages."""
        d, found = self.documents[name], []
        for begin, end in passage_spans(d.text, PASSAGES):
            vector = self.model.encode(d.text[begin:end], d.lang)
            of_query = mean_of_ten(self.cosines(query, d.lang))
            of_passage = mean_of_ten(self.cosines(vector, lang, d.concept))
            found.append(logistic(float(2 * query @ vector) - of_query - of_passage))
        return found


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
def test_relevance_is_what_the_formulas_say(index: Index, oracle: Dense, kind: str) -> None:
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
