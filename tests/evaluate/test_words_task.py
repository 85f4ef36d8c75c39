"""The word task: a dictionary whose answers are known, on made-up languages."""

import json
import re
from pathlib import Path

import madeup
import numpy as np
import pytest
from scipy.sparse import csr_array

from cr5 import Cr5, evaluate
from cr5._typing import Array
from cr5.errors import Cr5Error
from cr5.evaluate.dictionaries import dictionary_languages
from cr5.evaluate.runs import CslsOver, Run
from cr5.evaluate.systems.cr5_system import Cr5VectorSystem, model_system
from cr5.evaluate.systems.fitted_system import FittedSystem, WordSpellings
from cr5.evaluate.systems.pretrained import PretrainedSystems
from cr5.evaluate.tasks.words import answer_ranks, evaluate_words
from cr5.features.tokeniser import Tokeniser
from cr5.progress import Progress
from cr5.retrieval.csls import NEIGHBOURS

TOKENISER = Tokeniser()


def write(path: Path, pairs: list[tuple[str, str]]) -> Path:
    path.write_text("".join(f"{a}\t{b}\n" for a, b in pairs), encoding="utf-8")
    return path


def translations(source: str = "aa", target: str = "bb", meanings: range = range(150)) -> list[tuple[str, str]]:
    return [(madeup.word(source, i), madeup.word(target, i)) for i in meanings]


def unit(n: int, size: int = 6, seed: int = 0) -> Array:
    X = np.random.default_rng(seed).standard_normal((n, size)).astype(np.float32)
    return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True))


# Ranks


@pytest.mark.parametrize("cells", [7, 500, 2**24])  # blocks of one candidate, of a few, of all
def test_ranks_equal_those_of_all_comparisons(cells: int) -> None:
    random = np.random.default_rng(1)
    Q, C = unit(40, seed=2), unit(90, seed=3)
    C[50:60] = C[40:50]  # some candidates are the same
    penalty = random.random(90)
    answers = [np.sort(random.choice(90, random.integers(1, 5), replace=False)) for _ in Q]
    for cost in (None, penalty):
        scores = (Q @ C.T).astype(float) - (0 if cost is None else cost)
        expected = []
        for own, row in zip(answers, scores, strict=True):
            others = np.delete(row, own)
            expected.append(1 + int((others >= row[own].max() - 2e-6).sum()))
        assert answer_ranks(Q, C, answers, penalty=cost, block_cells=cells).tolist() == expected


@pytest.mark.parametrize("cells", [7, 2**24])
def test_ranks_with_spellings_equal_those_of_all_comparisons(cells: int) -> None:
    random = np.random.default_rng(5)
    Q, C = unit(30, seed=6), unit(70, seed=7)
    S, T = (csr_array(random.random((n, 12)) * (random.random((n, 12)) < 0.4)) for n in (30, 70))
    answers = [np.sort(random.choice(70, 2, replace=False)) for _ in Q]
    scores = Q @ C.T + 0.7 * (S @ T.T).toarray()
    expected = [
        1 + int((np.delete(row, own) >= row[own].max() - 2e-6).sum()) for own, row in zip(answers, scores, strict=True)
    ]
    ranks = answer_ranks(Q, C, answers, spellings=WordSpellings(S, T, 0.7), block_cells=cells)
    assert ranks.tolist() == expected


def test_a_word_may_answer_several_queries_and_a_query_have_several_answers() -> None:
    C = np.eye(4, dtype=np.float32)
    Q = np.array([[0.9, 0.8, 0.1, 0], [0.9, 0.8, 0.7, 0], [0.9, 0.8, 0.7, 0]], np.float32)
    answers = [np.array([0, 1]), np.array([1, 3]), np.array([3])]
    assert answer_ranks(Q, C, answers).tolist() == [1, 2, 4]


def test_identical_vectors_find_nothing() -> None:
    ones = np.ones((5, 1), np.float32)
    assert answer_ranks(ones, ones, [np.array([0, 1])] * 5).tolist() == [4] * 5


def test_without_queries_there_are_no_ranks() -> None:
    assert answer_ranks(unit(0), unit(5), []).tolist() == []


# Files


@pytest.mark.parametrize(
    ("name", "langs"),
    [("en-it.test.tsv", ("en", "it")), ("a/b/eng-ita.txt", ("en", "it")), ("en-it", ("en", "it")),
     ("en-it.5000-6500.txt", ("en", "it")), ("yacle.test.freq.2k.en-fr.tsv", ("en", "fr")),
     ("en_it.tsv", ("en", "it"))],
)  # fmt: skip
def test_the_file_name_of_a_dictionary_says_its_languages(name: str, langs: tuple[str, str]) -> None:
    assert dictionary_languages(name) == langs


@pytest.mark.parametrize("name", ["words.tsv", "word-list.tsv"])
def test_a_dictionary_whose_file_name_does_not_say_its_languages_is_refused(name: str) -> None:
    with pytest.raises(Cr5Error, match=name):
        dictionary_languages(name)


def test_two_dictionaries_of_one_direction_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "aa-bb.tsv", translations())
    with pytest.raises(Cr5Error, match="aa>bb"):
        evaluate_words(PretrainedSystems({}, TOKENISER), [path, path])


# The task


@pytest.fixture(scope="module")
def run(model: Cr5, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("dictionaries")
    paths = [write(folder / f"{a}-{b}.tsv", translations(a, b)) for a, b in (("aa", "bb"), ("bb", "aa"))]
    return evaluate_words(PretrainedSystems({"cr5": model_system(model)}, TOKENISER), paths, title="made up")


def test_words_find_their_translation(run: Run, model: Cr5) -> None:
    assert [(s.source, s.target, s.measure) for s in run.scores] == [
        ("aa", "bb", "cosine"), ("aa", "bb", "csls"), ("bb", "aa", "cosine"), ("bb", "aa", "csls"),
    ]  # fmt: skip
    for score in run.scores:
        assert score.candidates == len(model.words(score.target))
        assert score.precision(1) > 50  # chance is less than half a percent
        assert score.interval.low <= score.precision(1) <= score.interval.high
    assert run.direction("aa", "bb").concepts[0] == f"aa:{madeup.word('aa', 0)}"
    assert set(run.direction("aa", "bb").coverage) <= {0.0, 1.0}
    assert run.examples[0].rank == 1
    assert run.examples[0].hits[0].right
    scores = [hit.score for hit in run.examples[0].hits]
    assert scores == sorted(scores, reverse=True)


def test_every_score_carries_its_signature(run: Run, model: Cr5) -> None:
    digest, size = run.facts["dictionaries"]["aa>bb"]["digest"], len(model.words("bb"))
    assert run.scores[1].signature == (
        f"cr5 {run.version}|words|dictionary {digest}|aa>bb|150 queries|{size} candidates|pretrained|cr5|"
        f"{run.trained[0].report['signature']}|csls k=10 over queries"
    )


def test_a_run_is_the_same_after_reading_it_again(run: Run) -> None:
    assert Run.from_json(json.loads(json.dumps(run.to_json()))) == run


def test_a_shuffled_dictionary_scores_at_chance(model: Cr5, tmp_path: Path) -> None:
    pairs = translations(meanings=range(madeup.MEANINGS))
    targets = np.random.default_rng(4).permutation([b for _, b in pairs]).tolist()
    path = write(tmp_path / "aa-bb.tsv", [(a, b) for (a, _), b in zip(pairs, targets, strict=True)])
    run = evaluate_words(PretrainedSystems({"cr5": model_system(model)}, TOKENISER), [path])
    for score in run.scores:
        assert score.precision(10) < 100 * 10 / 250 + 4 * 1.25  # four standard errors of 250 questions


@pytest.mark.parametrize("csls_over", ["queries", "background"])
def test_the_ranks_of_the_task_equal_those_of_all_comparisons(model: Cr5, tmp_path: Path, csls_over: CslsOver) -> None:
    # Several answers, of which the model knows some; queries that share an answer.
    pairs = [
        *translations(meanings=range(60)),
        *((a, b) for (a, _), (_, b) in zip(translations(), translations()[9:30], strict=False)),
    ]
    path = write(tmp_path / "aa-bb.tsv", [*pairs, (pairs[0][0], "ничто")])  # fmt: skip
    run = evaluate_words(PretrainedSystems({"cr5": model_system(model)}, TOKENISER), [path], csls_over=csls_over)
    own, others = model.words("aa"), model.words("bb")
    A, B = (V / np.linalg.norm(V, axis=1, keepdims=True) for V in map(model.word_vectors, ("aa", "bb")))
    asked = list(dict.fromkeys(a for a, _ in pairs))
    right = {a: [others.index(b) for x, b in pairs if x == a and b in others] for a in asked}
    known = [a for a in asked if a in own and right[a]]
    rows = [own.index(a) for a in known]
    background = rows if csls_over == "queries" else [i for i, word in enumerate(own) if word not in asked]
    S = A[rows] @ B.T
    near = np.sort(A[background] @ B.T, axis=0)[-NEIGHBOURS:].mean(axis=0)
    for score, table in zip(run.scores, (S, 2 * S - near), strict=True):
        ranks = dict(zip(asked, score.ranks, strict=True))
        for word, row in zip(known, table, strict=True):
            assert ranks[word] == 1 + (np.delete(row, right[word]) >= row[right[word]].max() - 2e-6).sum()
        assert all(ranks[word] == 0 for word in asked if word not in known)


def test_all_views_put_first_what_the_lexicon_does(model: Cr5, tmp_path: Path) -> None:
    known = [(a, b) for a, b in translations(meanings=range(madeup.MEANINGS)) if a in model.words("aa")]
    assert {a for a, _ in known} == set(model.words("aa"))  # so that CSLS is over the same words
    path = write(tmp_path / "aa-bb.tsv", known)
    run = evaluate.words(model, path)
    assert run.failed == []
    of_system = {score.system: score for score in run.scores if score.measure == "csls"}
    assert list(of_system) == ["cr5", "cr5-dense"]
    first = [model.translate_words(word, "aa", "bb", 1)[0][0] for word, _ in known]
    assert [rank == 1 for rank in of_system["cr5"].ranks] == [
        answer == right for answer, (_, right) in zip(first, known, strict=True)
    ]
    assert "spelling 0.15" in of_system["cr5"].signature
    assert "spelling" not in of_system["cr5-dense"].signature


def test_unknown_words_are_misses_and_are_counted(model: Cr5, tmp_path: Path) -> None:
    pairs = translations(meanings=range(30))
    bad = [("neverheard", pairs[0][1]), ("two words", pairs[1][1]), (madeup.word("aa", 200), "неслыханно")]
    path = write(tmp_path / "aa-bb.tsv", [*bad, *pairs, (pairs[3][0].upper(), "неслыханно")])
    run = evaluate_words(PretrainedSystems({"cr5": model_system(model)}, TOKENISER), [path])
    cosine, csls = run.scores
    assert len(cosine.ranks) == 33  # the word in capitals is one of the thirty
    assert cosine.ranks[:3] == csls.ranks[:3] == [0, 0, 0]
    assert min(cosine.ranks[3:]) == 1
    assert run.facts["known"] == {"cr5": {"aa>bb": {"known": 30, "unknown": 2, "unanswered": 1}}}
    assert run.direction("aa", "bb").coverage == [0.0, 0.0] + [1.0] * 31
    among = [100 * sum(rank == 1 for rank in score.ranks) / 30 for score in run.scores]
    assert run.notes == [
        "cr5, aa>bb: of 33 queries, 2 not in its vocabulary and 1 without a translation in it count as "
        "misses; P@1 among the other 30: "
        f"{among[0]:.1f} by cosine, {among[1]:.1f} by CSLS"
    ]
    assert among[0] == pytest.approx(cosine.precision(1) * 33 / 30)


def test_a_dictionary_of_unknown_words_scores_nothing(model: Cr5, tmp_path: Path) -> None:
    path = write(tmp_path / "aa-bb.tsv", [("neverheard", "неслыханно")])
    run = evaluate_words(PretrainedSystems({"cr5": model_system(model)}, TOKENISER), [path])
    assert [score.ranks for score in run.scores] == [[0], [0]]
    assert [(e.query, e.rank, e.hits) for e in run.examples] == [("neverheard", 0, [])]


def test_a_background_needs_words_that_are_not_queries(model: Cr5, tmp_path: Path) -> None:
    path = write(tmp_path / "aa-bb.tsv", translations(meanings=range(madeup.MEANINGS)))
    run = evaluate_words(PretrainedSystems({"cr5": model_system(model)}, TOKENISER), [path], csls_over="background")
    assert re.search("background for queries in aa.*`csls_over", run.failed[0].reason)


def test_systems_without_word_vectors_or_without_a_language_are_recorded_as_failed(model: Cr5, tmp_path: Path) -> None:
    seen: list[Progress] = []
    path = write(tmp_path / "aa-bb.tsv", translations())
    fitted_systems = {"texts": FittedSystem(), "half": model_system(model, ["aa", "cc"]), "cr5": model_system(model)}
    run = evaluate_words(PretrainedSystems(fitted_systems, TOKENISER), [path], progress=seen.append)
    assert [(f.system, f.langs, f.reason) for f in run.failed] == [
        ("texts", ["aa", "bb"], "it embeds texts only, and has no vectors of single words"),
        ("half", ["aa", "bb"], "it has no language bb, of those of this evaluation only aa, cc"),
    ]
    assert {score.system for score in run.scores} == {"cr5"}
    assert [trained.system for trained in run.trained] == ["cr5"]
    assert [p.note for p in seen] == ["aa>bb: texts", "aa>bb: half", "aa>bb: cr5"]


def test_nb_is_queried_as_no_if_a_system_has_only_that(model: Cr5, tmp_path: Path) -> None:
    fitted = model_system(model)
    languages = {"no": fitted.languages["aa"], "bb": fitted.languages["bb"]}
    fitted = Cr5VectorSystem(languages, model.settings, fitted.report)
    path = write(tmp_path / "nb-bb.tsv", translations())
    run = evaluate_words(PretrainedSystems({"cr5": fitted}, TOKENISER), [path])
    assert run.notes[0] == "cr5, nb>bb: nb is queried as no"
    assert run.scores[0].precision(1) > 50
