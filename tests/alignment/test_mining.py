"""Mining: pairs against an oracle, duplicates, thresholds, blocks, sources of sentences."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import madeup
import numpy as np
import pytest

from cr5 import Cr5, Document, write
from cr5.alignment import ParallelSentences, links, mine, mining, read_sentences
from cr5.errors import Cr5Error, FewKnownWords
from cr5.retrieval.text_similarity import view_shares

PARALLEL, OTHERS = 30, 20
SAID = madeup.sentence_meanings(PARALLEL + 2 * OTHERS, seed=5)
ORDER = np.random.default_rng(1).permutation(PARALLEL + OTHERS).tolist()
A = madeup.sentences("aa", SAID[: PARALLEL + OTHERS])
B = [madeup.sentences("bb", SAID[:PARALLEL] + SAID[PARALLEL + OTHERS :])[i] for i in ORDER]
GOLD = {(i, ORDER.index(i)) for i in range(PARALLEL)}


@pytest.mark.parametrize("candidates", ["vectors", "views"])
def test_parallel_sentences_are_found_among_others(model: Cr5, candidates: mining.Candidates) -> None:
    found = mine(model, A, "aa", B, "bb", candidates=candidates)
    right = {(pair.a, pair.b) for pair in found} & GOLD
    assert len(right) >= 0.9 * len(GOLD)
    assert len(right) >= 0.9 * len(found)
    assert [pair.score for pair in found] == sorted((pair.score for pair in found), reverse=True)


def test_scores_by_all_views_are_margins_of_similarities_less_what_lengths_cost(model: Cr5) -> None:
    a, b = A[:6], [*madeup.sentences("bb", SAID[:5]), " ".join(madeup.sentences("bb", SAID[5:8]))]
    weights = {"strings": min(model.view_weights["strings"], mining.MAX_STRINGS_WEIGHT)}
    s = model.similarity(a, "aa", b, "bb", weights=weights) / view_shares(model.scorer(weights))["dense"]
    logs = [np.log(np.array([len(text) for text in side]) + links.LENGTH_PRIOR) for side in (a, b)]
    lengths = np.abs((logs[1] - logs[1].mean()) - (logs[0] - logs[0].mean())[:, None])
    s = s - mining.LENGTH_WEIGHT * np.minimum(lengths, links.MAX_LENGTH_RATIO)
    expected = s - (s.mean(axis=1, keepdims=True) + s.mean(axis=0)) / 2
    found = mine(model, a, "aa", b, "bb", neighbours=6, min_score=-10)
    assert {(i, i) for i in range(6)} == {(pair.a, pair.b) for pair in found}
    assert [pair.score for pair in found] == pytest.approx([expected[pair.a, pair.b] for pair in found], abs=5e-3)


def test_scores_by_vectors_are_margins_over_the_nearest_neighbours(model: Cr5) -> None:
    cosines = model.encode(A, "aa") @ model.encode(B, "bb").T
    k = 4
    near = np.zeros(cosines.shape, bool)
    np.put_along_axis(near, np.argsort(-cosines, axis=1)[:, :k], True, axis=1)
    np.put_along_axis(near, np.argsort(-cosines, axis=0)[:k], True, axis=0)
    means = [np.where(near, cosines, 0).sum(axis=axis) / near.sum(axis=axis) for axis in (1, 0)]
    scores = np.where(near, cosines - (means[0][:, None] + means[1]) / 2, -np.inf)
    best = {(i, int(scores[i].argmax())) for i in range(len(A))}
    expected = {(i, j): scores[i, j] for i, j in best if scores[:, j].argmax() == i}
    found = mine(model, A, "aa", B, "bb", rerank=False, neighbours=k, min_score=-10)
    assert {(pair.a, pair.b) for pair in found} == set(expected)
    assert all(pair.score == pytest.approx(expected[pair.a, pair.b], abs=2e-3) for pair in found)


def test_the_sizes_of_blocks_do_not_change_the_result(model: Cr5, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = mine(model, A, "aa", B, "bb")
    for name in ("ENCODED_ROWS", "SEARCHED_ROWS", "SCORED_ROWS"):
        monkeypatch.setattr(mining, name, 7)
    blocks = mine(model, A, "aa", B, "bb")
    assert [pair[:2] for pair in blocks] == [pair[:2] for pair in whole]
    assert [pair.score for pair in blocks] == pytest.approx([pair.score for pair in whole], abs=1e-5)


def test_inverted_lists_find_what_exact_search_finds_if_all_are_probed(model: Cr5) -> None:
    exact = mine(model, A, "aa", B, "bb")
    assert mine(model, A, "aa", B, "bb", exact_up_to=0, probes=len(B)) == exact
    few = mine(model, A, "aa", B, "bb", exact_up_to=0, probes=1)
    assert {pair[:2] for pair in few} <= {pair[:2] for pair in mine(model, A, "aa", B, "bb", min_score=-10)} | GOLD
    assert 0 < len(few) <= len(exact)


def test_of_equal_sentences_the_first_is_used_and_empty_ones_are_ignored(model: Cr5) -> None:
    plain = mine(model, A, "aa", B, "bb")
    repeated = mine(model, [A[0], "", *A, A[1] + " "], "aa", [*B, *B, "…"], "bb")
    assert {(max(pair.a - 2, 0), pair.b) for pair in repeated} == {(pair.a, pair.b) for pair in plain}


def test_a_higher_threshold_keeps_the_best_pairs(model: Cr5) -> None:
    found = mine(model, A, "aa", B, "bb", min_score=0)
    limit = found[9].score
    assert mine(model, A, "aa", B, "bb", min_score=limit) == [pair for pair in found if pair.score >= limit]


def test_collections_without_sentences_or_known_words_have_no_pairs(model: Cr5) -> None:
    assert mine(model, [], "aa", B, "bb") == []
    assert mine(model, ["…"], "aa", B, "bb") == []
    with pytest.warns(FewKnownWords, match=r"knows 0% of the words of the aa sentences.*`candidates="):
        assert mine(model, ["12345"], "aa", B, "bb") == []
    assert isinstance(
        mine(model, A[:1], "aa", madeup.sentences("bb", SAID[:1]), "bb", min_score=-10)[0], ParallelSentences
    )


def test_collections_in_one_language_and_wrong_parameters_are_refused(model: Cr5) -> None:
    with pytest.raises(Cr5Error, match="two languages"):
        mine(model, A, "aa", A, "aa")
    with pytest.raises(Cr5Error, match="`neighbours=0`"):
        mine(model, A, "aa", B, "bb", neighbours=0)
    with pytest.raises(Cr5Error, match="`probes=0`"):
        mine(model, A, "aa", B, "bb", probes=0)
    with pytest.raises(Cr5Error, match="`candidates="):
        mine(model, A, "aa", B, "bb", candidates="all")  # type: ignore[arg-type]


# Sources


def test_sentences_are_lines_or_those_of_documents(model: Cr5, tmp_path: Path) -> None:
    said = [madeup.text("aa", [i, i + 1]).capitalize() for i in range(4)]
    (tmp_path / "lines.txt").write_text(f"{said[0]}. {said[1]}.\n\n{said[2]}\n")
    write(tmp_path / "corpus.jsonl", [Document("Q1", "aa", f"{said[0]}. {said[1]}."), Document("Q2", "bb", "жажава")])
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "page.md").write_text(f"# {said[0]}\n\n{said[1]}. {said[2]}.")
    assert read_sentences(model, tmp_path / "lines.txt").texts == [f"{said[0]}. {said[1]}.", "", said[2]]
    split = read_sentences(model, tmp_path / "lines.txt", "aa", split=True)
    assert split == ([f"{said[0]}.", f"{said[1]}.", said[2]], "aa")
    assert read_sentences(model, tmp_path / "corpus.jsonl", "aa").texts == [f"{said[0]}.", f"{said[1]}."]
    assert read_sentences(model, tmp_path / "folder", "aa").texts == [said[0], f"{said[1]}.", f"{said[2]}."]
    with pytest.raises(Cr5Error, match="aa, bb"):
        read_sentences(model, tmp_path / "corpus.jsonl")
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(Cr5Error, match="no sentence"):
        read_sentences(model, tmp_path / "empty.txt", "aa")
    with pytest.raises(Cr5Error, match="no such file"):
        read_sentences(model, tmp_path / "missing.parquet", "aa")


@pytest.mark.parametrize("ending", ["", ".en", ".it", ".txt", ".text", ".log"])
def test_the_lines_of_a_text_file_are_its_sentences_whatever_its_ending(
    model: Cr5, tmp_path: Path, ending: str
) -> None:
    lines = [f"{A[0]}. {A[1]}.", A[2]]
    (tmp_path / f"lines{ending}").write_text("\n".join(lines))
    assert read_sentences(model, tmp_path / f"lines{ending}", "aa").texts == lines


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_the_lines_of_a_pipe_are_sentences(model: Cr5, tmp_path: Path) -> None:
    lines = [". ".join(madeup.sentences("aa", SAID[:2])), madeup.sentences("aa", SAID[2:3])[0]]
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor() as pool:
        pool.submit((tmp_path / "pipe").write_text, "\n".join(lines), "utf-8")
        assert read_sentences(model, tmp_path / "pipe", "aa").texts == lines
