"""The sentence task on made-up languages."""

import json
import re
from dataclasses import replace

import madeup
import numpy as np
import pytest

from cr5 import Cr5
from cr5._typing import Array
from cr5.errors import Cr5Error
from cr5.evaluate.aligned_sentences import AlignedSentences
from cr5.evaluate.runs import CslsOver, Run
from cr5.evaluate.splits import QuerySet
from cr5.evaluate.systems.cr5_system import Cr5VectorSystem, model_system
from cr5.evaluate.systems.fitted_system import FittedSystem, NotApplicableError
from cr5.evaluate.systems.pretrained import PretrainedSystems
from cr5.evaluate.tasks.sentences import equivalent_sentences, evaluate_sentences, sample_sentences
from cr5.evaluate.texts import TokenisedTexts
from cr5.features.counts import count_words
from cr5.features.tokeniser import Tokeniser
from cr5.progress import Progress
from cr5.retrieval.block_products import Matrix
from cr5.retrieval.csls import NEIGHBOURS

TOKENISER = Tokeniser()


def sentences(n: int = 200, langs: tuple[str, str] = ("aa", "bb"), seed: int = 1, words: int = 8) -> AlignedSentences:
    """Sentences of a few different words, and their translations."""
    random = np.random.default_rng(seed)
    meanings = [random.choice(madeup.MEANINGS, words, replace=False).tolist() for _ in range(n)]
    left, right = ([madeup.text(lang, random.permutation(one).tolist()) for one in meanings] for lang in langs)
    return AlignedSentences(langs, (left, right), "made up")


def quoted(message: str) -> str:
    return f"^{re.escape(message)}$"


def test_pairs_that_were_left_out_for_an_empty_side_are_noted() -> None:
    pair = AlignedSentences(("en", "it"), (["one", "three"], ["uno", "tre"]), "made up", empty=1)
    run = evaluate_sentences(PretrainedSystems({}, TOKENISER), [pair])
    assert "en-it: 1 of 3 pairs left out because one side is empty" in run.notes


# Samples


@pytest.mark.parametrize("role", ["test", "validation"])
def test_separate_sentences_and_candidates_have_no_text_in_common(role: QuerySet) -> None:
    random = np.random.default_rng(0)
    # Of 500 sentences 200 share their texts with one another, and the others occur once.
    left, right = ([f"{side}{i}" for i in [*random.integers(0, 150, 200), *range(1000, 1300)]] for side in "ab")
    pair = AlignedSentences(("aa", "bb"), (left, right), "made up")
    drawn = sample_sentences(pair, queries=50, separate=200, seed=3, query_set=role)
    assert len(drawn.idf_rows)
    assert len(drawn.queries) == 50
    assert np.isin(drawn.queries, drawn.candidates).all()
    for side in pair.texts:
        assert not {side[i] for i in drawn.idf_rows} & {side[i] for i in drawn.candidates}
    if role == "test":
        assert sorted([*drawn.idf_rows, *drawn.candidates]) == list(range(500))
        assert len(drawn.idf_rows) <= 200


def test_validation_sentences_come_from_the_separate_sentences_of_the_test() -> None:
    pair = sentences(300)
    test = sample_sentences(pair, queries=40, separate=100, seed=3)
    other = sample_sentences(pair, queries=40, separate=100, seed=3, query_set="validation")
    assert sorted([*other.idf_rows, *other.candidates]) == test.idf_rows.tolist()
    assert len(test.idf_rows) == 100
    assert len(other.idf_rows) == 50


def test_a_share_is_kept_separate_in_large_pairs_only() -> None:
    small, large = (sentences(n, words=3) for n in (9_999, 10_000))
    sizes = [len(sample_sentences(pair, queries=1, separate=0.25, seed=0).idf_rows) for pair in (small, large)]
    assert sizes[0] == 0
    assert 2400 < sizes[1] <= 2500  # three words are sometimes said twice, and these stay together


def test_sentences_that_share_a_text_on_either_side_are_equivalent() -> None:
    pair = AlignedSentences(("aa", "bb"), (["x", "y", "x", "z", "w", "v"], ["p", "q", "r", "q", "s", "r"]), "made up")
    assert equivalent_sentences(pair).tolist() == [0, 1, 0, 1, 4, 0]


def test_impossible_samples_are_refused() -> None:
    pair = sentences(100)
    with pytest.raises(Cr5Error, match=r"`separate=100`.*100 sentences of aa-bb"):
        sample_sentences(pair, queries=10, separate=100, seed=0)
    with pytest.raises(Cr5Error, match=r"aa-bb.*10,000 or more"):
        sample_sentences(pair, queries=10, separate=0.25, seed=0, query_set="validation")
    with pytest.raises(Cr5Error, match="other files are also bb-aa"):
        evaluate_sentences(PretrainedSystems({}, TOKENISER), [pair, replace(pair, langs=("bb", "aa"))])
    with pytest.raises(Cr5Error, match="no background for queries in aa-bb"):
        evaluate_sentences(PretrainedSystems({}, TOKENISER), [pair], csls_over="background")


# Spaces


def test_the_space_of_a_model_encodes_as_the_model_does(model: Cr5) -> None:
    space, pair = model_system(model), sentences(20)
    own = texts(pair.texts[1], "bb")
    np.testing.assert_allclose(np.asarray(space.embed(own, "bb")), model.encode(pair.texts[1], "bb"), atol=1e-6)
    assert re.fullmatch(
        r"model [0-9a-f]{8}\|preset default\|min_documents=2\|min_unique=5\|rank 60\|ridge 0.3",
        space.report["signature"],
    )
    other = Cr5(**madeup.SETTINGS | {"seed": 1}).fit(madeup.split(madeup.corpus())[0])
    assert model_system(other).report["signature"].split("|")[0] != space.report["signature"].split("|")[0]
    assert "eigenvalues" not in space.report
    assert list(model_system(model, ["bb"]).encoders) == ["bb"]


def texts(strings: list[str], lang: str) -> TokenisedTexts:
    return TokenisedTexts(TOKENISER(strings, lang), np.arange(len(strings)), strings)


@pytest.mark.parametrize("preset", ["default", "wsdm19"])
def test_recomputed_idf_follows_the_formula_of_the_model(preset: str) -> None:
    documents = madeup.corpus(("aa", "bb"), concepts=60)
    fitted = Cr5(preset, rank=20, ridge=0.3, min_documents=2, min_unique=5).fit(documents)
    space, pair = model_system(fitted), sentences(40)
    other = space.with_idf_of({"aa": texts(pair.texts[0], "aa")})
    containing = count_words(pair.texts[0], "aa", TOKENISER)
    for i in range(0, len(space.words("aa")), 7):
        word = space.words("aa")[i]
        df = sum(word in text.split() for text in pair.texts[0])
        idf = (np.log(41 / (1 + df)) + 1) ** 1.25 if preset == "default" else np.log(40 / max(df, 1)) + 1
        assert other.languages["aa"].idf[i] == pytest.approx(idf, rel=1e-6)
    assert len(containing.words) < len(space.words("aa"))  # some words are in no sentence
    assert other.words("aa") == space.words("aa")
    assert other.languages["bb"] is space.languages["bb"]
    np.testing.assert_array_equal(other.word_vectors("aa"), space.word_vectors("aa"))
    assert other.encoders["aa"].vocabulary.weighting == space.encoders["aa"].vocabulary.weighting


class Norwegian(FittedSystem):
    """Knows one language."""

    @property
    def langs(self) -> list[str]:
        return ["nb"]


def test_nb_and_no_are_codes_of_the_same_language(model: Cr5) -> None:
    space = model_system(model)
    own = space.languages["aa"]
    both = Cr5VectorSystem({"nb": own, "no": own}, model.settings, {})
    one = Cr5VectorSystem({"no": own, "bb": space.languages["bb"]}, model.settings, {})
    assert [both.code_of(lang) for lang in ("nb", "no")] == ["nb", "no"]
    assert [one.code_of(lang) for lang in ("nb", "no")] == ["no", "no"]
    assert [Norwegian().code_of(lang) for lang in ("nb", "no")] == ["nb", "nb"]
    assert FittedSystem().code_of("no") == "no"
    with pytest.raises(
        NotApplicableError, match=quoted("it has no language it, of those of this evaluation only no, bb")
    ):
        one.code_of("it")
    pair = replace(sentences(50), langs=("nb", "bb"))
    run = evaluate_sentences(PretrainedSystems({"cr5": one}, TOKENISER), [pair])
    assert "cr5, nb-bb: nb is queried as no" in run.notes
    assert run.scores[0].source == "nb"
    assert run.scores[0].precision(1) > 50


# The task


@pytest.fixture(scope="module")
def run(model: Cr5) -> Run:
    pair = sentences(500)
    return evaluate_sentences(
        PretrainedSystems({"cr5": model_system(model)}, TOKENISER), [pair], queries=100, separate=200, title="made up"
    )


def test_sentences_find_their_translation(run: Run) -> None:
    assert {score.system for score in run.scores} == {"cr5", "cr5 (training IDF)"}
    assert len(run.scores) == 8
    for score in run.scores:
        assert score.candidates == 300
        assert len(score.ranks) == 100
        assert score.precision(1) > 60  # chance is a third of a percent
        assert score.interval.low <= score.precision(1) <= score.interval.high
    assert run.facts["pairs"]["aa-bb"] | {"digest": ""} == {
        "source": "made up", "digest": "", "sentences": 500, "empty": 0,
        "separate": 200, "candidates": 300, "repeated": 0, "queries": 100,
    }  # fmt: skip
    assert set(run.direction("aa", "bb").lengths) == {8}
    assert min(run.direction("aa", "bb").coverage) > 0.9
    assert run.direction("aa", "bb").concepts == run.direction("bb", "aa").concepts
    assert {e.source for e in run.examples} == {"aa", "bb"}
    assert all(e.hits[0].right == (e.rank == 1) for e in run.examples)


def test_every_score_carries_its_signature(run: Run) -> None:
    digest = run.facts["pairs"]["aa-bb"]["digest"]
    begin = f"cr5 {run.version}|sentences|corpus {digest} aa-bb|seed 0|"
    model = run.trained[0].report["signature"]
    assert run.scores[1].signature == (
        f"{begin}aa>bb|100 test queries|300 candidates|pretrained|cr5|{model}|idf of 200 sentences|"
        "csls k=10 over queries"
    )
    assert run.scores[-2].signature == (
        f"{begin}bb>aa|100 test queries|300 candidates|pretrained|cr5 (training IDF)|{model}|idf of training|cosine"
    )
    assert len({score.signature for score in run.scores}) == len(run.scores)


def test_a_run_is_the_same_after_reading_it_again(run: Run) -> None:
    assert Run.from_json(json.loads(json.dumps(run.to_json()))) == run


def test_a_seed_gives_the_same_run_again_and_another_one_does_not(model: Cr5) -> None:
    space, pair = model_system(model), sentences(200)
    first, second, other = (
        evaluate_sentences(PretrainedSystems({"cr5": space}, TOKENISER), [pair], queries=30, separate=50, seed=seed)
        for seed in (5, 5, 6)
    )
    assert first == second
    assert first.queries != other.queries


def test_shuffled_alignment_scores_at_chance(model: Cr5) -> None:
    pair = sentences(400)
    shuffled = np.random.default_rng(2).permutation(pair.texts[1]).tolist()
    run = evaluate_sentences(
        PretrainedSystems({"cr5": model_system(model)}, TOKENISER), [replace(pair, texts=(pair.texts[0], shuffled))]
    )
    for score in run.scores:
        assert score.precision(10) < 100 * 10 / 400 + 4 * 0.8  # four standard errors of 400 questions


@pytest.mark.parametrize("csls_over", ["queries", "background"])
@pytest.mark.parametrize("separate", [0, 60])
def test_ranks_equal_those_of_all_comparisons(model: Cr5, csls_over: CslsOver, separate: int) -> None:
    pair = sentences(200, words=5)
    copies = [0, 0, 1, 1, 2]  # some sentences occur again, one with another translation
    left = pair.texts[0] + [pair.texts[0][i] for i in copies]
    right = pair.texts[1] + [pair.texts[1][i] for i in copies[:4]] + [pair.texts[1][0][::-1]]
    pair = replace(pair, texts=(left, right))
    space = model_system(model)
    run = evaluate_sentences(
        PretrainedSystems({"cr5": space}, TOKENISER), [pair], queries=60, separate=separate, seed=1, csls_over=csls_over
    )
    drawn = sample_sentences(pair, queries=60, separate=separate, seed=1)
    if separate:
        apart = {lang: [own[i] for i in drawn.idf_rows] for lang, own in zip(pair.langs, pair.texts, strict=True)}
        space = space.with_idf_of({lang: texts(own, lang) for lang, own in apart.items()})
    for source, target, here, there in (("aa", "bb", left, right), ("bb", "aa", right, left)):
        A, B = (np.asarray(space.embed(texts(own, lang), lang)) for own, lang in ((here, source), (there, target)))
        concepts = drawn.concepts[drawn.candidates]
        asked = drawn.concepts[drawn.queries]
        S = (A[drawn.queries] @ B[drawn.candidates].T).astype(float)
        background = drawn.queries if csls_over == "queries" else drawn.candidates[~np.isin(concepts, asked)]
        near = np.sort(A[background] @ B[drawn.candidates].T, axis=0)[-NEIGHBOURS:].mean(axis=0)
        for measure, scores in (("cosine", S), ("csls", 2 * S - near)):
            mine = asked[:, None] == concepts
            best = np.where(mine, scores, -np.inf).max(axis=1, keepdims=True)
            expected = 1 + (~mine & (scores >= best - 2e-6)).sum(axis=1)
            found = [s for s in run.select("cr5", "pretrained", measure) if s.source == source]
            assert found[0].ranks == expected.tolist()


def test_any_copy_of_a_translation_is_right(model: Cr5) -> None:
    pair = sentences(60)
    twice = replace(pair, texts=(pair.texts[0] * 3, pair.texts[1] * 3))
    once, thrice = (
        evaluate_sentences(PretrainedSystems({"cr5": model_system(model)}, TOKENISER), [one]) for one in (pair, twice)
    )
    for a, b in zip(once.scores, thrice.scores, strict=True):
        if a.measure == "cosine":  # a rank counts every copy of a wrong answer, and none of the right one
            assert b.ranks == [3 * (rank - 1) + 1 for rank in a.ranks] * 3
    assert thrice.facts["pairs"]["aa-bb"]["repeated"] == 180
    assert thrice.notes[0] == (
        "aa-bb: 180 of 180 candidates share a text with another one, at most 3 with each other; "
        "these count as one sentence, and any of them is a right answer"
    )
    assert thrice.notes[1] == (
        "aa-bb: 180 sentences are too few to keep some separate for IDF weights; models keep their own"
    )


class Constant(FittedSystem):
    """Knows every language and nothing about it; gives the rows of both sides at once."""

    def pair(
        self, queries: TokenisedTexts, source: str, candidates: TokenisedTexts, target: str
    ) -> tuple[Matrix, Matrix]:
        return self._rows(queries), self._rows(candidates)

    def _rows(self, own: TokenisedTexts) -> Array:
        return np.ones((len(own), 1), np.float32)


def test_systems_that_lack_a_language_are_recorded_as_failed(model: Cr5) -> None:
    seen: list[Progress] = []
    spaces = {"constant": Constant(), "half": model_system(model, ["aa", "cc"]), "cr5": model_system(model)}
    run = evaluate_sentences(PretrainedSystems(spaces, TOKENISER), [sentences(80)], queries=20, progress=seen.append)
    assert [(f.system, f.langs, f.reason) for f in run.failed] == [
        ("half", ["aa", "bb"], "it has no language bb, of those of this evaluation only aa, cc")
    ]
    assert list(dict.fromkeys(score.system for score in run.scores)) == ["constant", "cr5"]
    assert {rank for score in run.select("constant", "pretrained", "csls") for rank in score.ranks} == {80}
    assert [trained.system for trained in run.trained] == ["constant", "cr5"]
    assert [p.note for p in seen if p.stage == "evaluate"] == ["aa-bb: constant", "aa-bb: half", "aa-bb: cr5"]


def test_a_pair_that_the_first_system_does_not_know_is_left_out_for_all(model: Cr5) -> None:
    spaces = {"half": model_system(model, ["aa", "cc"]), "constant": Constant()}
    pairs = [sentences(80), sentences(60, ("cc", "aa"))]
    run = evaluate_sentences(PretrainedSystems(spaces, TOKENISER), pairs, queries=20)
    assert {(s.source, s.target) for s in run.scores} == {("cc", "aa"), ("aa", "cc")}
    assert {s.system for s in run.scores} == {"half", "constant"}
    assert "aa-bb: left out, half has no language bb" in run.notes


def test_several_pairs_are_measured_in_one_run(model: Cr5) -> None:
    pairs = [sentences(80), sentences(60, ("cc", "aa"))]
    run = evaluate_sentences(PretrainedSystems({"cr5": model_system(model)}, TOKENISER), pairs, queries=20)
    assert [(q.source, q.target) for q in run.queries] == [("aa", "bb"), ("bb", "aa"), ("cc", "aa"), ("aa", "cc")]
    assert min(score.precision(5) for score in run.scores) > 50
    assert all(score.shared is None for score in run.scores)  # the model has three languages


def test_validation_queries_and_candidates_are_separate_sentences(model: Cr5) -> None:
    run = evaluate_sentences(
        PretrainedSystems({"cr5": model_system(model)}, TOKENISER),
        [sentences(300)],
        queries=30,
        separate=120,
        query_set="validation",
    )
    assert run.facts["pairs"]["aa-bb"]["separate"] == 60
    assert run.facts["queries"] == "validation"
    assert {score.candidates for score in run.scores} == {60}
    assert "|30 validation queries|60 candidates|" in run.scores[0].signature
