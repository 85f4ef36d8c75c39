"""Search measured by known items: which queries are made, which answers are right, BM25, figures and files."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import madeup
import numpy as np
import pytest
from documentation import ROOT
from search_queries import CODES, SHORT, across, by_id, documents_of, edits, make, make_index, own, sentences, words

from cr5 import Cr5, Document, evaluate, read
from cr5.cli import run
from cr5.errors import Cr5Error
from cr5.evaluate.tasks.search.bm25 import K1, B, Bm25Search
from cr5.evaluate.tasks.search.documents import TITLE_COUNT, LanguageDocuments, read_documents
from cr5.evaluate.tasks.search.queries import SearchQuery, is_validation
from cr5.evaluate.tasks.search.query_files import read_queries
from cr5.evaluate.tasks.search.query_texts import QUESTIONS, codes
from cr5.evaluate.tasks.search.run import RankedQuery, SearchRun
from cr5.evaluate.tasks.search.task import TYPES
from cr5.index import Index
from cr5.progress import no_progress


@pytest.fixture(scope="module")
def tiny_model() -> Cr5:
    documents = [replace(d, lang=CODES[d.lang]) for d in madeup.corpus()]
    return Cr5(**madeup.SETTINGS).fit(documents)


@pytest.fixture(scope="module")
def corpus() -> list[Document]:
    return [document for lang in madeup.LANGS for document in documents_of(lang)]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, tiny_model: Cr5, corpus: list[Document]) -> Iterator[Index]:
    with make_index(tmp_path_factory.mktemp("known") / "index", tiny_model, corpus) as opened:
        yield opened


@pytest.fixture(scope="module")
def languages(index: Index) -> dict[str, LanguageDocuments]:
    return read_documents(index, None, no_progress)


@pytest.fixture(scope="module")
def queries(index: Index) -> list[SearchQuery]:
    """Test queries of all types."""
    return make(index)


# Which queries are made


def test_queries_depend_on_the_seed_and_on_nothing_else(index: Index, queries: list[SearchQuery]) -> None:
    assert make(index) == queries
    others = make(index, ["sentence-long"], seed=1)
    assert {query.text for query in others} != {q.text for q in queries if q.type == "sentence-long"}


def test_validation_and_test_queries_are_about_different_concepts(index: Index, queries: list[SearchQuery]) -> None:
    chosen = {half: {query.concept for query in make(index, ["title"], validation=half)} for half in (False, True)}
    chosen[False] |= {query.concept for query in queries}
    assert not chosen[False] & chosen[True]
    assert all(is_validation(concept) == half for half, concepts in chosen.items() for concept in concepts)
    assert 400 < sum(is_validation(f"Q{i}") for i in range(1000)) < 600


def test_there_are_as_many_queries_of_each_type_and_language_as_wanted(index: Index) -> None:
    counts = Counter((query.type, query.source) for query in own(make(index, queries=5)))
    assert set(counts.values()) == {5}
    assert set(counts) == set(product(TYPES, CODES.values())) - {("question", "tlh")}


def test_a_query_of_its_own_language_has_its_document_as_the_answer(
    queries: list[SearchQuery], corpus: list[Document]
) -> None:
    known = by_id(corpus)
    for query in own(queries):
        [answer] = query.answers
        document = known[answer]
        assert (document.lang, document.concept) == (query.source, query.concept)
        assert query.reference == query.text
        if query.type == "title":
            assert query.text == document.title
        elif query.type == "typo":
            assert edits(query.text, document.title) == 1
        elif query.type == "question":
            assert query.text in {question.format(document.title) for question in QUESTIONS[query.source]}
        else:
            assert words(query.text) <= words(document.text)


def test_sentences_come_from_documents_of_their_length(queries: list[SearchQuery], corpus: list[Document]) -> None:
    limits = {"sentence-short": (0, 1499), "sentence-medium": (1500, 6000), "sentence-long": (6001, 10**6)}
    known, seen = by_id(corpus), set()
    for query in own([query for query in queries if query.type in limits]):
        [answer] = query.answers
        low, high = limits[query.type]
        assert low <= len(known[answer].text) <= high
        assert query.text in known[answer].text
        seen.add(query.type)
    assert seen == set(limits)


def test_sentences_come_from_all_parts_of_texts(queries: list[SearchQuery], corpus: list[Document]) -> None:
    known = by_id(corpus)
    found = own([query for query in queries if query.type == "sentence-long"])
    parts = [known[min(q.answers)].text.index(q.text) / len(known[min(q.answers)].text) for q in found]
    assert min(parts) < 0.25
    assert max(parts) > 0.75


def test_strings_occur_in_one_document_and_codes_come_before_words(
    queries: list[SearchQuery], corpus: list[Document]
) -> None:
    found = own([query for query in queries if query.type == "string"])
    for query in found:
        holders = [d for d in corpus if d.lang == query.source and query.text in re.split(r"[\s]+", d.text)]
        assert len(holders) == 1
        assert not query.text.isalpha()
    assert not any(query.text == "common_42" for query in found)


def test_a_string_that_is_the_concept_of_another_document_is_not_used(tmp_path: Path, tiny_model: Cr5) -> None:
    text = sentences("aa", 1, (3000, 4000))
    documents = [Document("4711", "en", text), *(Document(f"C{i}", "en", f"{text}{4700 + i}") for i in range(10, 20))]
    with make_index(tmp_path / "index", tiny_model, documents) as index:
        both = [make(index, ["string"], queries=30, validation=half) for half in (True, False)]
    found = {query.text for half in both for query in own(half) if query.text.isdigit()}
    assert found == {str(4700 + i) for i in range(10, 20)} - {"4711"}


def test_codes_come_before_numbers_and_numbers_before_words(tmp_path: Path, tiny_model: Cr5) -> None:
    documents = []
    for i in range(30):
        string = (f"get_{i}_name", f"{1000 + i}", f"word{'abcdefghij'[i // 3]}")[i % 3]
        text = f"{sentences('aa', i, (3000, 4000))}{string}"
        documents.append(Document(f"C{i}", "en", text, madeup.text("aa", [i])))
    with make_index(tmp_path / "index", tiny_model, documents) as index:
        found = [query.text for query in own(make(index, ["string"], queries=30))]
    kinds = ["word" if text.isalpha() else "number" if text.isdigit() else "code" for text in found]
    assert set(kinds) == {"code", "number", "word"}
    assert kinds == sorted(kinds, key=["code", "number", "word"].index)


def test_codes_are_strings_with_digits_underscores_or_dots() -> None:
    text = "Call os.path.join or __init__, then my_function; error 0x80070005 in Excel2016を開く. Done. 12"
    assert codes(text) == ["os.path.join", "my_function", "0x80070005", "Excel2016"]
    assert codes("the end.The next Texte_cherché of node.js") == ["Texte_cherché", "node.js"]


def test_keywords_are_the_words_with_the_highest_tf_idf(
    index: Index, corpus: list[Document], languages: dict[str, LanguageDocuments]
) -> None:
    known = by_id(corpus)
    for query in own(make(index, ["keywords"], queries=5)):
        key = languages[query.source].key
        texts = [set(key(f"{d.title} {d.text}").split()) for d in corpus if d.lang == query.source]
        counts = Counter(key(known[min(query.answers)].text).split())
        weight = {w: n * math.log(len(texts) / sum(w in t for t in texts)) for w, n in counts.items() if len(w) > 1}
        best = sorted(weight.values(), reverse=True)[:3]
        assert [weight[word] for word in query.text.split()] == pytest.approx(best)


def test_of_documents_with_the_same_title_or_text_any_is_right(tmp_path: Path, tiny_model: Cr5) -> None:
    documents = documents_of("aa", 12)
    same_title = [replace(d, title=f"{d.title}!", concept=f"{d.concept}-title") for d in documents_of("aa", 3)]
    same_title = [replace(d, text=sentences("aa", 77 + i, SHORT)) for i, d in enumerate(same_title)]
    same_text = [replace(documents[i], title="another one", concept=f"C{i}-text") for i in (4, 5)]
    with make_index(tmp_path / "index", tiny_model, [*documents, *same_title, *same_text]) as index:
        for half in (False, True):
            for query in own(make(index, validation=half)):
                titled = query.type in ("title", "typo", "question")
                number = int(re.findall(r"\d+", query.concept)[0])
                if titled and number < 3:
                    assert query.answers >= {f"en:C{number}", f"en:C{number}-title"}
                if number in (4, 5):
                    assert query.answers >= {f"en:C{number}", f"en:C{number}-text"}


def test_a_code_that_another_document_has_in_capitals_is_no_query(tmp_path: Path, tiny_model: Cr5) -> None:
    documents = [
        replace(d, text=sentences("aa", i, (3000, 4000)) + ("Node.js", "node.js", f"other_{i}")[min(i, 2)])
        for i, d in enumerate(documents_of("aa", 12))
    ]
    with make_index(tmp_path / "index", tiny_model, documents) as index:
        found = [query.text for half in (False, True) for query in make(index, ["string"], validation=half)]
    assert {text for text in found if not text.isalpha()} == {f"other_{i}" for i in range(2, 12)}


def test_a_sentence_that_two_documents_have_is_no_query(tmp_path: Path, tiny_model: Cr5) -> None:
    shared = sentences("aa", 1, (50, 1000)).strip()
    documents = [replace(d, text=f"{shared}\n{shared}") for d in documents_of("aa", 10)]
    documents = [replace(d, text=f"{d.text}\n{madeup.text('aa', [i])}") for i, d in enumerate(documents)]
    with make_index(tmp_path / "index", tiny_model, documents) as index:
        assert [query for query in make(index, ["sentence-short"]) if query.text in shared] == []


# Across languages


def test_across_languages_any_document_of_the_concept_is_right(queries: list[SearchQuery]) -> None:
    found = across(queries)
    assert {query.type for query in found} == set(TYPES)
    for query in found:
        assert query.answers == {f"{query.target}:{query.concept}"}
    directions = Counter((query.source, query.target) for query in found if query.type == "title")
    assert len(directions) == 6  # the other languages in turn
    assert max(directions.values()) - min(directions.values()) <= 1


def test_across_languages_other_documents_with_the_title_are_right_too(tmp_path: Path, tiny_model: Cr5) -> None:
    """Q and R have the same English title, R and S the same Italian one: no title tells them apart."""
    titles = {"en:Q": "kamiren", "en:R": "Kamiren!", "en:S": "lolo", "it:Q": "жа", "it:R": "воги", "it:S": "воги"}
    documents = [
        Document(key[3:], key[:2], sentences({"en": "aa", "it": "bb"}[key[:2]], i, SHORT), title)
        for i, (key, title) in enumerate(titles.items())
    ]
    with make_index(tmp_path / "index", tiny_model, documents) as index:
        found = [query for half in (False, True) for query in across(make(index, ["title"], validation=half))]
    answers = {(query.source, query.concept): query.answers for query in found}
    assert answers["en", "Q"] == answers["en", "R"] == {"it:Q", "it:R", "it:S"}
    assert answers["en", "S"] == {"it:R", "it:S"}
    assert answers["it", "Q"] == {"en:Q", "en:R"}


def test_bm25_gets_the_true_translation_where_there_is_one(queries: list[SearchQuery], corpus: list[Document]) -> None:
    known = by_id(corpus)
    for query in across(queries):
        document = known[min(query.answers)]
        if query.type in ("title", "typo"):
            assert query.reference == document.title
        elif query.type == "question":
            assert query.reference in {question.format(document.title) for question in QUESTIONS[query.target]}
        elif query.type == "string":
            assert query.reference == query.text
            assert query.text.startswith("error")  # the other codes are not in the other languages
        else:
            assert words(query.reference) <= words(document.text)


def test_a_concept_of_one_language_has_no_query_across_languages(tmp_path: Path, tiny_model: Cr5) -> None:
    alone = [replace(d, concept=f"{d.concept}-{d.lang}") for lang in ("aa", "bb") for d in documents_of(lang, 8)]
    with make_index(tmp_path / "index", tiny_model, alone) as index:
        found = make(index, ["title"])
    assert found
    assert across(found) == []


# BM25


def oracle(documents: Sequence[Document], query: Sequence[str]) -> list[float]:
    """BM25 as the textbook has it."""
    words = [[*(d.title.split() * TITLE_COUNT), *d.text.split()] for d in documents]
    mean = sum(map(len, words)) / len(words)
    scores = []
    for own_words in words:
        score = 0.0
        for word in query:
            df, tf = sum(word in other for other in words), own_words.count(word)
            idf = math.log(1 + (len(words) - df + 0.5) / (df + 0.5))
            score += idf * tf * (K1 + 1) / (tf + K1 * (1 - B + B * len(own_words) / mean))
        scores.append(score)
    return scores


def test_bm25_ranks_as_the_formula_does(tmp_path: Path, tiny_model: Cr5) -> None:
    documents = [replace(d, lang="en", title=d.title.split()[0]) for d in madeup.corpus(["aa"], concepts=30)]
    random = np.random.default_rng(0)
    queries = [
        documents[i].text.split()[:n] for i, n in zip(random.integers(30, size=40), [1, 2, 3, 5] * 10, strict=True)
    ]
    with make_index(tmp_path / "index", tiny_model, documents) as index:
        [found] = read_documents(index, ["en"], no_progress).values()
    for query in queries:
        scores = dict(zip([f"en:{d.concept}" for d in documents], oracle(documents, query), strict=True))
        ranked = sorted((key for key in scores if scores[key] > 0), key=lambda key: (-round(scores[key], 9), key))
        asked = [[key] for key in scores]
        ranks = Bm25Search(found).ranks([" ".join(query)] * len(asked), asked, 10)
        expected = [ranked.index(key) + 1 if key in ranked[:10] else 0 for [key] in asked]
        assert ranks == expected


# Figures


def asked(rank: int, bm25: int, concept: str = "Q1", target: str = "en", query_type: str = "title") -> RankedQuery:
    query = SearchQuery(query_type, "text", "en", target, concept, frozenset({"x"}), "text")
    return RankedQuery(query, rank, bm25)


def test_success_and_reciprocal_rank_follow_from_the_ranks() -> None:
    ranks = [1, 2, 3, 10, 0]
    queries = [asked(rank, 1, f"Q{i}") for i, rank in enumerate(ranks)]
    [row] = SearchRun("test", "1", {}, queries, []).overall()
    assert row.search.success == {1: 20.0, 3: 60.0, 10: 80.0}
    assert row.search.reciprocal_rank == pytest.approx(100 * (1 + 1 / 2 + 1 / 3 + 1 / 10) / 5)
    assert row.bm25.success == {1: 100.0, 3: 100.0, 10: 100.0}
    assert row.search.interval.low <= 20 <= row.search.interval.high
    assert row.difference.value == pytest.approx(-80)


def test_own_language_and_other_languages_are_distinguished() -> None:
    run = SearchRun("test", "1", {}, [asked(1, 0), asked(0, 1, target="it"), asked(0, 1, target="da")], [])
    assert [(row.scope, row.search.success[1], row.queries) for row in run.overall()] == [
        ("own language", 100.0, 1),
        ("across languages", 0.0, 2),
    ]
    assert [(row.source, row.target) for row in run.scores()] == [("en", "en"), ("en", "it"), ("en", "da")]


def test_search_is_restricted_to_the_language_of_the_answer(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that knows the answers has full marks, and one that gives the answers in another language none."""
    calls: list[dict[str, Any]] = []
    original = Index.search

    def watched(self: Index, text: str, lang: str, **options: Any) -> Any:
        calls.append({"lang": lang, **options})
        return original(self, text, lang, **options)

    monkeypatch.setattr(Index, "search", watched)
    run = evaluate.search(index, types="title", queries=4, options={"measure": "cosine"})
    assert [(c["lang"], c["langs"]) for c in calls] == [(a.query.source, a.query.target) for a in run.queries]
    assert all(call["measure"] == "cosine" for call in calls)


@pytest.mark.slow
def test_sentences_of_trained_documents_are_found_and_shuffled_concepts_are_not(
    tmp_path: Path, documents: list[Document], tiny_model: Cr5
) -> None:
    texts = [replace(d, lang=CODES[d.lang], title="") for d in documents]
    shuffled = [replace(d, lang=CODES[d.lang], title="") for d in madeup.shuffled(documents)]
    success = []
    for name, chosen in (("right", texts), ("shuffled", shuffled)):
        chosen = [replace(d, text=". ".join(re.findall(r"(?:\S+ ){8}", d.text))) for d in chosen]
        with make_index(tmp_path / name, tiny_model, chosen) as index:
            run = evaluate.search(index, types=["sentence-short"], queries=30)
        rows = {row.scope: row.search.success[10] for row in run.overall()}
        success.append(rows)
    assert success[0]["own language"] > 70
    assert success[0]["across languages"] > 50
    assert success[1]["own language"] > 70  # the document itself does not depend on its concept
    assert success[1]["across languages"] < 35  # 10 of 150 would be chance


# Queries of a file


@pytest.mark.parametrize("file", ["builtin", ROOT / "benchmarks" / "encyclopedia_queries.jsonl"])
def test_the_queries_for_the_encyclopedia_are_about_its_concepts(file: str | Path) -> None:
    queries = read_queries(file)
    concepts = {document.concept for document in read("builtin")}
    assert {query.concept for query in queries} <= concepts
    assert len({(query.query, query.lang) for query in queries}) == len(queries)
    counts = Counter(query.lang for query in queries)
    assert set(counts) == {"en", "it", "da", "vi"}
    assert min(counts.values()) >= 60
    kinds = {lang: {query.kind for query in queries if query.lang == lang} for lang in counts}
    assert all(kinds[lang] == kinds["en"] for lang in kinds)
    halves = Counter((query.lang, is_validation(query.concept)) for query in queries)
    assert min(halves.values()) >= 20


def test_queries_of_a_file_search_every_language(index: Index, tmp_path: Path, corpus: list[Document]) -> None:
    file = tmp_path / "queries.jsonl"
    rows = [{"query": d.title, "lang": "EN", "concept": d.concept, "kind": "names"} for d in documents_of("aa", 6)]
    rows.append({"query": "nothing", "lang": "en", "concept": "Q-missing"})
    file.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    run, validation, test = (evaluate.search(index, query_file=file, validation=half) for half in (None, True, False))
    known = by_id(corpus)
    found = [asked.query for asked in run.queries]  # of a file, all, unless a half is asked for
    assert {a.query.concept for a in validation.queries} == {q.concept for q in found if is_validation(q.concept)}
    assert {a.query.concept for a in test.queries} == {q.concept for q in found if not is_validation(q.concept)}
    assert [one.facts["query_set"] for one in (run, validation, test)] == ["all", "validation", "test"]
    assert Counter(query.target for query in found) == {"en": 6, "it": 6, "tlh": 6}
    assert {query.type for query in found} == {"names"}
    assert all(q.reference == known[f"{q.target}:{q.concept}"].title for q in found)
    assert any("'nothing'" in note for note in run.notes)


@pytest.mark.parametrize(
    "line", ["[]", "{", '{"query": "x", "lang": "en"}', '{"query": "", "lang": "en", "concept": "Q"}']
)
def test_a_line_that_is_not_a_query_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "queries.jsonl"
    file.write_text('{"query": "x", "lang": "en", "concept": "Q1"}\n' + line)
    with pytest.raises(Cr5Error, match="line 2"):
        read_queries(file)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"types": "titles"}, "titles"),
        ({"langs": "xx"}, "xx"),
        ({"queries": 0}, "queries"),
        ({"query_file": "nowhere.jsonl"}, "nowhere"),
        ({"query_file": "builtin"}, "concepts"),
        ({"query_file": "builtin", "types": ["title"]}, "types"),
        ({"types": "question", "langs": "tlh"}, "no queries could be generated"),
    ],
)
def test_what_cannot_be_measured_is_refused_with_the_reason(
    index: Index, parameters: dict[str, Any], message: str
) -> None:
    with pytest.raises(Cr5Error, match=message):
        evaluate.search(index, **parameters)


# The command


@pytest.mark.slow
def test_the_command_prints_tables_and_writes_files(
    index: Index, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    types = ["title", "question", "sentence-medium", "string"]
    arguments = ["eval", "search", str(index.folder), "--queries", "5", "--langs", "en,it", "--types", ",".join(types)]
    assert run([*arguments, "-o", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    assert "Own language, by type of query" in printed
    assert "Across languages, by language of the query" in printed
    assert max(map(len, printed.splitlines())) <= 80
    stored = json.loads((tmp_path / "out" / "search.json").read_text())
    assert {row["type"] for row in stored["by_type"]} == set(types)
    assert all(set(query) >= {"text", "answers", "search", "bm25"} for query in stored["queries"])
    assert "| title |" in (tmp_path / "out" / "report.md").read_text()
    assert len((tmp_path / "out" / "scores.csv").read_text().splitlines()) == 1 + 2 * len(stored["scores"])


def test_the_command_prints_json_of_the_validation_half(index: Index, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["eval", "search", str(index.folder), "--queries", "3", "--types", "title", "--json"]
    halves = []
    for half in ("--validation", "--test"):
        assert run([*arguments, half]) == 0
        halves.append({query["concept"] for query in json.loads(capsys.readouterr().out)["queries"]})
    assert halves[0]
    assert halves[1]
    assert not halves[0] & halves[1]


def test_the_command_names_its_options_in_errors(index: Index, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["eval", "search", str(index.folder), "--query-file", "builtin", "--queries", "3"]) == 1
    assert capsys.readouterr().err == "error: --queries does not apply to queries from a file; leave it out\n"
