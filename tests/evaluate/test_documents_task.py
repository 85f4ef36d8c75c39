"""The document task on made-up languages, whose right answers are known."""

import json
from dataclasses import replace
from pathlib import Path

import madeup
import numpy as np
import pytest
from document_systems import OneWay, Spy, failing, paragraphs, shuffled

from cr5.corpus.documents import Document
from cr5.corpus.inputs import in_batches
from cr5.errors import Cr5Error, MissingPackageError
from cr5.evaluate.report.facts import describe_accounting, describe_facts
from cr5.evaluate.report.formatting import describe_failures
from cr5.evaluate.runs import REGIMES, Run
from cr5.evaluate.splits import Split, make_split, training_rows
from cr5.evaluate.systems.cr5_system import Cr5VectorSystem, cr5_system
from cr5.evaluate.systems.fitted_system import NotApplicableError, System
from cr5.evaluate.systems.precomputed import as_system, read_vectors
from cr5.evaluate.systems.within_language import within_language
from cr5.evaluate.tasks.documents import HeldOutDocuments, count_by_use, evaluate_documents, hold_out
from cr5.evaluate.texts import EvaluationCorpus, read_texts
from cr5.features.tokeniser import Tokeniser
from cr5.model import Cr5
from cr5.settings import Settings, make_settings

CONCEPTS = 400
SETTINGS = make_settings(**madeup.SETTINGS | {"rank": 40})


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    return madeup.corpus(concepts=CONCEPTS)


@pytest.fixture(scope="module")
def corpus(documents: list[Document]) -> EvaluationCorpus:
    return read_texts(in_batches(documents), Tokeniser())


@pytest.fixture(scope="module")
def split(corpus: EvaluationCorpus) -> Split:
    return make_split(corpus, min_unique=5, max_unique=1000)


@pytest.fixture(scope="module")
def held_out(corpus: EvaluationCorpus, split: Split) -> HeldOutDocuments:
    return hold_out(corpus, split)


@pytest.fixture(scope="module")
def run(held_out: HeldOutDocuments) -> Run:
    """Cr5 in all regimes."""
    return evaluate_documents(
        held_out, {"cr5": cr5_system(SETTINGS)}, title="made up", regimes=REGIMES, rank=40, low_resource=90
    )


def p1(run: Run, system: str, regime: str = "joint", measure: str = "csls") -> float:
    [mean] = [m for m in run.means() if (m.system, m.regime, m.measure) == (system, regime, measure)]
    return mean.precision[1]


def test_cr5_finds_the_counterparts_in_every_regime(run: Run) -> None:
    """Chance is 1 in 160; ten times as often is not chance."""
    assert [mean.regime for mean in run.means() if mean.measure == "csls"] == list(REGIMES)
    for regime in REGIMES:
        assert p1(run, "cr5", regime) > 10 * 100 / 160
        assert len(run.select("cr5", regime, "csls")) == 6
    [note] = [
        note for note in run.notes if " transitive " in note and "shares only" in note
    ]  # a pair without common concepts shares 120 of them each with the third language
    assert note.startswith("cr5, transitive aa-bb: language aa shares only 120 concepts with the others")


def test_the_ranks_are_those_of_a_model_that_is_trained_and_queried_by_hand(
    run: Run, documents: list[Document], split: Split
) -> None:
    model = Cr5(**madeup.SETTINGS | {"rank": 40}).fit([d for d in documents if d.concept not in split.held_out])
    own = {
        lang: [d for d in documents if d.lang == lang and d.concept in split.candidates[lang]] for lang in model.langs
    }
    vectors = {lang: model.encode([d.text for d in own[lang]], lang) for lang in own}
    for score in run.select("cr5", "joint", "cosine"):
        pair = next(p for p in split.pairs if set(p.langs) == {score.source, score.target})
        names = [d.concept for d in own[score.target]]
        expected = {}
        for document, vector in zip(own[score.source], vectors[score.source], strict=True):
            if document.concept in pair.test:
                cosines = vectors[score.target] @ vector
                right = cosines[names.index(document.concept)]
                expected[document.concept] = 1 + int((cosines > right + 1e-6).sum())
        concepts = run.direction(score.source, score.target).concepts
        assert score.ranks == [expected[name] for name in concepts]
        assert score.candidates == len(names)


@pytest.mark.slow
def test_the_report_has_the_rank_that_was_used(held_out: HeldOutDocuments) -> None:
    settings = make_settings(**madeup.SETTINGS | {"rank": "auto"})
    run = evaluate_documents(
        held_out, {"cr5": cr5_system(settings)}, title="lowered", rank=300, facts={"settings": settings.to_json()}
    )
    used = run.trained[0].report["rank"]
    assert run.facts["rank"] == used < 300
    described = describe_facts(run.facts)
    [table] = [table for table in described.tables if table.title == "settings of cr5"]
    assert (described.single["rank"], table.rows["rank"]) == (str(used), [f"auto ({used})", ""])


def test_a_language_with_too_few_documents_for_queries_is_noted(documents: list[Document]) -> None:
    few = read_texts(in_batches([d for d in documents if d.lang != "cc" or int(d.concept[1:]) < 20]), Tokeniser())
    held_out = hold_out(few, make_split(few, min_unique=5, max_unique=1000))
    run = evaluate_documents(held_out, {"cr5": cr5_system(SETTINGS)}, title="few", rank=40)
    expected = (
        "cc has no queries: it shares at most 20 concepts with another language, and 100 are needed for 10 queries"
    )
    assert expected in run.notes


def test_a_model_of_shuffled_concepts_scores_at_chance(held_out: HeldOutDocuments) -> None:
    run = evaluate_documents(held_out, {"shuffled": shuffled(cr5_system(SETTINGS))}, title="control", rank=40)
    queries = sum(len(score.ranks) for score in run.select("shuffled", "joint", "csls"))
    chance = 100 / len(held_out.texts["aa"])
    assert p1(run, "shuffled") < chance + 4 * np.sqrt(chance * 100 / queries)


def test_no_held_out_concept_reaches_a_system(held_out: HeldOutDocuments, split: Split) -> None:
    seen: list[set[int]] = []
    evaluate_documents(
        held_out,
        {"spy": lambda training, *, rank, seed: Spy(training, seen)},
        title="",
        regimes=REGIMES,
        low_resource=50,
    )
    assert len(seen) == 1 + 3 * 3
    for concepts in seen:
        assert concepts
        assert not {held_out.filtered_corpus.concepts[i] for i in concepts} & split.held_out


def test_identical_vectors_score_nothing(held_out: HeldOutDocuments) -> None:
    run = evaluate_documents(held_out, {"spy": lambda training, *, rank, seed: Spy(training, [])}, title="")
    assert {score.precision(10) for score in run.scores} == {0.0}


def test_shared_is_the_number_of_training_concepts_of_the_pair(run: Run, held_out: HeldOutDocuments) -> None:
    free = CONCEPTS - len(held_out.split.held_out)
    assert {score.shared for score in run.select("cr5", "joint", "csls")} == {free}
    assert {score.shared for score in run.select("cr5", "low-resource", "csls")} == {90}
    assert {score.shared for score in run.select("cr5", "transitive", "csls")} == {0}


def test_a_signature_has_everything_that_a_score_depends_on(run: Run, split: Split) -> None:
    score = run.select("cr5", "low-resource", "csls")[0]
    from importlib.metadata import version

    assert score.signature == (
        f"cr5 {version('cr5')}|documents|corpus {split.corpus} aa-bb-cc|split 0 {split.digest}|aa>bb|"
        f"40 test queries|160 candidates|whole documents|low-resource 90|cr5|"
        "preset default|min_documents=2|min_unique=5|rank 40|ridge 0.3|csls k=10 over queries"
    )
    assert len({s.signature for s in run.scores}) == len(run.scores)
    assert "|transitive via cc|" in run.select("cr5", "transitive", "csls")[0].signature


def test_validation_queries_are_not_test_queries(corpus: EvaluationCorpus, split: Split) -> None:
    systems = {"cr5": cr5_system(SETTINGS)}
    roles = [
        evaluate_documents(hold_out(corpus, split, query_set=role), systems, title="")
        for role in ("test", "validation")
    ]
    for source, target in (("aa", "bb"), ("cc", "aa")):
        concepts = [set(run.direction(source, target).concepts) for run in roles]
        assert not concepts[0] & concepts[1]
    assert "validation queries" in roles[1].scores[0].signature


@pytest.mark.slow
def test_the_csls_background_is_held_out_and_has_no_query(corpus: EvaluationCorpus, split: Split) -> None:
    held_out = hold_out(corpus, split, csls_over="background")
    for source in ("aa", "bb"):
        background = held_out.background(source, "cc")
        assert background is not None
        assert len(background)
        assert not set(background) & set(held_out.queries(source, "cc"))
        names = {held_out.filtered_corpus.concepts[i] for i in held_out.texts[source].concepts[background]}
        assert names <= split.held_out
    system = cr5_system(make_settings(**madeup.SETTINGS | {"rank": 40, "subwords": False}))  # which makes mistakes
    run = evaluate_documents(held_out, {"cr5": system}, title="")
    plain = evaluate_documents(hold_out(corpus, split), {"cr5": system}, title="")
    assert [s.ranks for s in run.select("cr5", "joint", "cosine")] == [
        s.ranks for s in plain.select("cr5", "joint", "cosine")
    ]
    assert [s.ranks for s in run.select("cr5", "joint", "csls")] != [
        s.ranks for s in plain.select("cr5", "joint", "csls")
    ]
    assert run.select("cr5", "joint", "csls")[0].signature.endswith("csls k=10 over background")
    assert p1(run, "cr5") > 80


@pytest.mark.slow
def test_csls_over_a_background_follows_the_definition(corpus: EvaluationCorpus, split: Split) -> None:
    held_out = hold_out(corpus, split, csls_over="background")
    run = evaluate_documents(held_out, {"cr5": cr5_system(SETTINGS)}, title="")
    rows = training_rows(split, held_out.filtered_corpus, "joint")
    fitted = cr5_system(SETTINGS)(
        {k: held_out.filtered_corpus.languages[k].select_rows(v) for k, v in rows.items()}, rank=40, seed=0
    )
    vectors = {lang: np.asarray(fitted.embed(held_out.texts[lang], lang), float) for lang in ("aa", "bb")}
    background, chosen = held_out.background("aa", "bb"), held_out.queries("aa", "bb")
    assert background is not None
    near = np.sort(vectors["bb"] @ vectors["aa"][background].T, axis=1)[:, -10:].mean(axis=1)
    csls = 2 * vectors["aa"][chosen] @ vectors["bb"].T - near
    concepts = held_out.texts["bb"].concepts
    expected = []
    for i, concept in zip(range(len(chosen)), held_out.texts["aa"].concepts[chosen], strict=True):
        right = csls[i, concepts == concept].max()
        expected.append(1 + int((csls[i, concepts != concept] > right).sum()))
    [score] = [s for s in run.select("cr5", "joint", "csls") if (s.source, s.target) == ("aa", "bb")]
    assert score.ranks == expected


def test_masked_documents_share_no_word_with_their_counterparts(split: Split) -> None:
    named = [
        Document(d.concept, d.lang, f"{d.text} name{d.concept} year{int(d.concept[1:]) % 9}")
        for d in madeup.corpus(concepts=CONCEPTS)
    ]
    corpus = read_texts(in_batches(named), Tokeniser())
    own = make_split(corpus, min_unique=5, max_unique=1000)
    whole, masked = (hold_out(corpus, own, mask_shared=mask) for mask in (False, True))
    assert any("name" in word for word in whole.plain_texts("aa")[0].split())
    for lang in ("aa", "bb"):
        for written in masked.plain_texts(lang):
            assert not any(word.startswith(("name", "year")) for word in written.split())
            assert len(written.split()) > 20


def test_the_upper_bound_compares_the_same_paragraphs_within_the_query_language() -> None:
    corpus = read_texts(in_batches(paragraphs()), Tokeniser(), comparable=True)
    held_out = hold_out(corpus, make_split(corpus, min_unique=5, max_unique=1000))
    there = held_out.monolingual_candidates("aa", "bb")
    own = corpus.raw_texts["aa"].to_pylist()
    number = {name: i for i, name in enumerate(corpus.concepts)}
    [i] = np.flatnonzero(corpus.languages["aa"].concepts == there.concepts[0])
    assert corpus.concepts[there.concepts[0]] in number
    words, ids, offsets = there.tokens
    expected = " ".join(own[i].split("\n")[1::2])
    assert [words[j] for j in ids[: offsets[1]]] == expected.split()
    systems = {"cr5": cr5_system(SETTINGS), "ceiling": within_language}
    run = evaluate_documents(held_out, systems, title="", preprocessing="comparable")
    assert p1(run, "ceiling") > p1(run, "cr5") > 10
    assert "|comparable|" in run.scores[0].signature


def test_examples_show_their_best_candidates_and_every_query_has_its_coverage(run: Run) -> None:
    for queries in run.queries:
        assert len(queries.concepts) == len(queries.lengths) == len(queries.coverage) == 40
        assert 0 < min(queries.coverage) <= max(queries.coverage) <= 1
    assert {(e.system, e.regime) for e in run.examples} == {("cr5", "joint")}
    assert len({(e.source, e.target) for e in run.examples}) > 2
    for example in run.examples:
        assert example.query.startswith(example.source)
        assert all(hit.title.startswith(example.target) for hit in example.hits)
        assert [i for i, hit in enumerate(example.hits, 1) if hit.right] == [example.rank] * (example.rank <= 10)


def test_coverage_and_vectors_are_those_of_the_model(
    held_out: HeldOutDocuments, documents: list[Document], split: Split
) -> None:
    rows = training_rows(split, held_out.filtered_corpus, "joint")
    fitted = cr5_system(SETTINGS)(
        {k: held_out.filtered_corpus.languages[k].select_rows(v) for k, v in rows.items()}, rank=40, seed=0
    )
    assert isinstance(fitted, Cr5VectorSystem)
    model = Cr5(**madeup.SETTINGS | {"rank": 40}).fit([d for d in documents if d.concept not in split.held_out])
    texts = [" ".join([t, "unknown words"]) for t in held_out.plain_texts("bb")[:9]]
    own = read_texts(
        in_batches([Document("x", lang, t) for t in texts for lang in ("aa", "bb")]), Tokeniser()
    ).languages["bb"]
    np.testing.assert_allclose(fitted.coverage(own, "bb"), model.coverage(texts, "bb"), atol=1e-6)
    np.testing.assert_allclose(fitted.embed(own, "bb"), model.encode(texts, "bb"), atol=1e-5)
    assert fitted.words("bb") == model.words("bb")
    np.testing.assert_allclose(fitted.word_vectors("bb"), model.word_vectors("bb"), atol=1e-5)


def test_precomputed_vectors_are_matched_row_by_row(held_out: HeldOutDocuments, tmp_path: Path) -> None:
    names = sorted(held_out.split.held_out)
    random = np.random.default_rng(0)
    perfect = {name: random.normal(size=8) for name in names}
    for lang, texts in held_out.texts.items():
        rows = np.array([perfect[held_out.filtered_corpus.concepts[i]] for i in texts.concepts])
        np.save(tmp_path / f"{lang}.npy", rows * 3)
    run = evaluate_documents(held_out, {"oracle": as_system(read_vectors(tmp_path))}, title="")
    assert {score.precision(1) for score in run.scores} == {100.0}
    np.save(tmp_path / "bb.npy", np.ones((3, 8)))
    with pytest.raises(Cr5Error, match=rf"3 vectors for language bb, but {len(held_out.texts['bb'])} texts"):
        read_vectors(tmp_path).embed(held_out.texts["bb"], "bb")
    (tmp_path / "bb.npy").unlink()
    with pytest.raises(Cr5Error, match=r"no vectors for language bb; add bb\.npy"):
        read_vectors(tmp_path).embed(held_out.texts["bb"], "bb")
    with pytest.raises(Cr5Error, match="nowhere has no vectors"):
        read_vectors(tmp_path / "nowhere")


def test_systems_that_fail_are_recorded_with_the_reason_and_the_others_are_evaluated(
    held_out: HeldOutDocuments,
) -> None:
    errors = {
        "never": NotApplicableError("it never works"),
        "huge": MemoryError(),
        "extra": MissingPackageError("it needs numerals"),
        "wrong": KeyError("word"),
    }
    systems = {name: failing(error) for name, error in errors.items()}
    systems["one"] = lambda training, *, rank, seed: OneWay()
    run = evaluate_documents(held_out, systems, title="")
    assert [(f.system, f.regime, f.kind, f.reason) for f in run.failed[:4]] == [
        ("never", "joint", "not applicable", "it never works"),
        ("huge", "joint", "out of memory", "there is not enough memory"),
        ("extra", "joint", "missing package", "it needs numerals"),
        ("wrong", "joint", "error", "KeyError: 'word'"),
    ]
    assert {score.source for score in run.scores} == {"aa"}
    assert [f.langs for f in run.failed[4:]] == [["bb", "aa"], ["cc", "aa"], ["bb", "cc"], ["cc", "bb"]]
    assert list(run.not_measured()) == [(name, "joint") for name in errors]
    assert run.notes == []


def test_a_split_of_another_corpus_is_refused(held_out: HeldOutDocuments) -> None:
    other = read_texts(in_batches(madeup.corpus(seed=1)), Tokeniser())
    with pytest.raises(Cr5Error, match=f"{held_out.split.corpus}.* but this is {other.digest}.*`split`"):
        hold_out(other, held_out.split)


def test_a_run_is_plain_json_and_comes_back(run: Run) -> None:
    again = Run.from_json(json.loads(json.dumps(run.to_json())))
    assert again == run
    assert again.means() == run.means()


def test_the_facts_include_the_settings(run: Run, split: Split) -> None:
    assert run.facts["split"] == {"seed": 0, "digest": split.digest, "smallest": 5, "largest": 1000}
    nothing = dict.fromkeys(("short", "long", "set_aside", "single"), 0)
    assert run.facts["corpus"]["languages"]["aa"] == {
        "read": 400, "trained": 240, "held_out": 160, "documents": 400, "concepts": 400, **nothing,
    }  # fmt: skip
    assert isinstance(SETTINGS, Settings)


def test_every_document_is_accounted_for(documents: list[Document]) -> None:
    kept = [d for d in documents if (d.lang, d.concept) not in {("cc", "Q001"), ("cc", "Q002")}]
    short = [Document(f"S{i}", lang, "kalo mi", "") for i in range(7) for lang in ("aa", "bb")]
    long = [Document("L", "aa", " ".join(f"word{i}" for i in range(1200)), "")]
    alone = [replace(d, concept=f"A{i}") for i, d in enumerate(documents[:9]) if d.lang == "bb"]
    corpus = read_texts(in_batches([*kept, *short, *long, *alone]), Tokeniser())
    split = make_split(corpus, min_unique=5, max_unique=1000)
    counted = count_by_use(hold_out(corpus, split))
    reasons = ("trained", "held_out", "short", "long", "set_aside", "single")
    for lang, texts in corpus.languages.items():
        assert counted[lang]["read"] == len(texts) == sum(counted[lang][reason] for reason in reasons)
    assert {lang: of_lang["short"] for lang, of_lang in counted.items()} == {"aa": 7, "bb": 7, "cc": 0}
    assert {lang: of_lang["long"] for lang, of_lang in counted.items()} == {"aa": 1, "bb": 0, "cc": 0}
    assert counted["bb"]["single"] + counted["bb"]["held_out"] >= len(alone)
    facts = {"corpus": {"languages": counted}, "split": {"smallest": 5, "largest": 1000}, "skipped": {"bad line": 2}}
    sentence = describe_accounting(facts)
    assert sentence.startswith(f"Of {len(kept) + 14 + 1 + len(alone):,} documents, ")
    assert "14 with fewer than 5 different words, 1 with more than 1,000 different words" in sentence
    assert sentence.endswith("besides, 2 could not be read (2 × bad line).")


def test_a_split_of_whole_documents_keeps_all_its_queries_in_the_comparable_corpus() -> None:
    """Parts may be shorter than the limits of the split allow, but the queries and their counterparts stay."""
    whole = read_texts(in_batches(paragraphs()), Tokeniser())
    made = make_split(whole, min_unique=18, max_unique=1000)
    comparable = read_texts(in_batches(paragraphs()), Tokeniser(), comparable=True)
    held_out = hold_out(comparable, made)
    assert len(held_out.filtered_corpus.languages["aa"]) < len(held_out.corpus.languages["aa"])
    run = evaluate_documents(held_out, {"spy": lambda training, *, rank, seed: Spy(training, [])}, title="")
    for pair in made.pairs:
        assert sorted(run.direction(*pair.langs).concepts) == sorted(pair.test)
    assert all(rank > 0 for score in run.scores for rank in score.ranks)


def test_the_upper_bound_has_as_many_candidates_as_the_systems() -> None:
    corpus = read_texts(in_batches(paragraphs()), Tokeniser(), comparable=True)
    held_out = hold_out(corpus, make_split(corpus, min_unique=5, max_unique=1000))
    for source, target in (("aa", "bb"), ("bb", "aa")):
        there = held_out.monolingual_candidates(source, target)
        assert sorted(there.concepts) == sorted(held_out.texts[target].concepts)


def test_a_failed_training_is_described_and_the_others_are_evaluated(held_out: HeldOutDocuments) -> None:
    run = evaluate_documents(
        held_out, {"cr5": cr5_system(SETTINGS)}, title="", regimes=["joint", "low-resource"], rank=40, low_resource=30
    )
    assert {score.regime for score in run.scores} == {"joint"}
    assert describe_failures(run.failed) == [
        "cr5, low-resource (3 language pairs): `rank=40` is too large for 30 shared concepts; "
        "use `rank<=29`, or add documents"
    ]


def test_few_concepts_are_noted(held_out: HeldOutDocuments) -> None:
    run = evaluate_documents(
        held_out, {"cr5": cr5_system(SETTINGS)}, title="", regimes=["low-resource"], rank=40, low_resource=5000
    )
    assert run.notes == ["low-resource aa-bb: 240 concepts to train on, fewer than 5000 (and 2 more like it)"]


def test_a_stopped_evaluation_keeps_what_was_measured(held_out: HeldOutDocuments) -> None:
    seen: list[str] = []
    systems: dict[str, System] = {
        name: lambda training, *, rank, seed: Spy(training, []) for name in ("first", "second", "third")
    }
    run = evaluate_documents(
        held_out, systems, title="", progress=lambda p: seen.append(p.note), should_stop=lambda: len(seen) >= 2
    )
    assert {score.system for score in run.scores} == {"first", "second"}
    assert run.notes == ["stopped before joint, third: 1 of 3 trainings are missing"]


def test_trainings_of_the_same_languages_with_different_pivots_are_all_listed(run: Run) -> None:
    assert [t.langs for t in run.trained if t.regime == "transitive"] == [
        ["aa", "bb", "cc"], ["aa", "cc", "bb"], ["bb", "cc", "aa"],
    ]  # fmt: skip


def test_the_signature_says_that_shared_concepts_were_dropped() -> None:
    documents = [d for i, d in enumerate(madeup.corpus(concepts=CONCEPTS)) if i % 4]
    corpus = read_texts(in_batches(documents), Tokeniser())
    held_out = hold_out(corpus, make_split(corpus, min_unique=5, max_unique=1000))
    systems: dict[str, System] = {"spy": lambda training, *, rank, seed: Spy(training, [])}
    runs = [
        evaluate_documents(held_out, systems, title="", regimes=["transitive"], drop_shared=drop)
        for drop in (False, True)
    ]
    assert "|transitive via cc|" in runs[0].scores[0].signature
    assert "|transitive via cc, shared concepts dropped|" in runs[1].scores[0].signature


def test_an_unknown_pivot_is_refused_before_anything_is_trained(held_out: HeldOutDocuments) -> None:
    seen: list[set[int]] = []
    systems: dict[str, System] = {"spy": lambda training, *, rank, seed: Spy(training, seen)}
    with pytest.raises(Cr5Error, match=r"`pivot=xx`.* aa, bb, cc"):
        evaluate_documents(held_out, systems, title="", regimes=REGIMES, pivot="xx")
    assert not seen


def test_candidates_that_were_trained_on_cannot_be_the_csls_background(corpus: EvaluationCorpus, split: Split) -> None:
    trained = replace(split, candidates_train=True)
    held_out = hold_out(corpus, trained, csls_over="background")
    with pytest.raises(Cr5Error, match=r"trained on.*`csls_over"):
        held_out.background("aa", "bb")
