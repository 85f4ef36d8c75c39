"""Splits: which concepts are queries, candidates and training concepts, and that none is both held out and trained."""

import json
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import up_to

from cr5.corpus.documents import Document
from cr5.corpus.inputs import in_batches
from cr5.errors import Cr5Error
from cr5.evaluate.runs import REGIMES
from cr5.evaluate.splits import Split, choose_pivot, make_split, training_rows
from cr5.evaluate.texts import EvaluationCorpus, read_texts
from cr5.features.tokeniser import Tokeniser

LANGS = ("da", "en", "vi")


def make_corpus(
    presence: Sequence[tuple[bool, ...]], langs: tuple[str, ...] = LANGS, repeated: bool = False
) -> EvaluationCorpus:
    """Concept i has a document in the languages that row i marks; some have two."""
    documents = [
        Document(f"Q{i}", lang, f"{lang} word{i % 7} only{i} copy{copy}")
        for i, row in enumerate(presence)
        for lang, present in zip(langs, row, strict=True)
        if present
        for copy in range(1 + (repeated and i % 3 == 0))
    ]
    return read_texts(in_batches(documents), Tokeniser(), langs=list(langs))


def random_presence(size: int, seed: int = 0, share: float = 0.8) -> list[tuple[bool, ...]]:
    marks = np.random.default_rng(seed).random((size, len(LANGS))) < share
    marks[0] = True  # every language is there
    return [tuple(map(bool, row)) for row in marks]


@pytest.fixture(scope="module")
def ragged() -> EvaluationCorpus:
    return make_corpus(random_presence(600), repeated=True)


@pytest.fixture(scope="module")
def split(ragged: EvaluationCorpus) -> Split:
    return make_split(ragged, seed=3)


def names(corpus: EvaluationCorpus, lang: str, rows: np.ndarray | None = None) -> set[str]:
    concepts = corpus.languages[lang].concepts
    return {corpus.concepts[i] for i in (concepts if rows is None else concepts[rows])}


def everything_trained(split: Split, corpus: EvaluationCorpus) -> list[tuple[str, dict[str, set[str]]]]:
    """The training sets of all regimes and pairs, as concept names by language."""
    found: list[tuple[str, dict[str, set[str]]]] = []
    for regime in REGIMES:
        for pair in [None] if regime == "joint" else [p.langs for p in split.pairs]:
            for drop in (False, True):
                rows = training_rows(split, corpus, regime, pair, low_resource=20, drop_shared=drop)
                found.append((regime, {lang: names(corpus, lang, own) for lang, own in rows.items()}))
    return found


@pytest.mark.slow
@settings(max_examples=up_to(20), deadline=None)
@given(st.integers(0, 10_000), st.floats(0.6, 1.0))
def test_no_query_and_no_candidate_is_trained_on_in_any_regime(seed: int, share: float) -> None:
    corpus = make_corpus(random_presence(400, seed, share), repeated=True)
    made = make_split(corpus, seed=seed)
    query_names = {name for pair in made.pairs for name in (*pair.test, *pair.validation)}
    found = {name for own in made.candidates.values() for name in own}
    sets = everything_trained(made, corpus)
    assert any(trained for _, languages in sets for trained in languages.values())
    for _, languages in sets:
        for trained in languages.values():
            assert not trained & query_names
            assert not trained & found


def test_queries_are_shared_by_their_pair_and_are_among_the_candidates_of_both(
    split: Split, ragged: EvaluationCorpus
) -> None:
    assert [pair.langs for pair in split.pairs] == list(combinations(LANGS, 2))
    for pair in split.pairs:
        assert len(pair.test) == len(pair.validation) >= 10
        for name in (*pair.test, *pair.validation):
            for lang in pair.langs:
                assert name in names(ragged, lang)
                assert name in split.candidates[lang]


def test_no_concept_is_a_test_query_here_and_a_validation_query_there(split: Split) -> None:
    test = {name for pair in split.pairs for name in pair.test}
    validation = {name for pair in split.pairs for name in pair.validation}
    assert not test & validation


def test_sizes_are_those_requested_or_a_share_of_the_concepts(ragged: EvaluationCorpus) -> None:
    small = make_split(ragged, queries=12, candidates=150)
    assert {len(pair.test) for pair in small.pairs} == {12}
    assert {len(own) for own in small.candidates.values()} == {150}
    large = make_split(ragged)
    for pair in large.pairs:
        both = names(ragged, pair.langs[0]) & names(ragged, pair.langs[1])
        assert len(pair.test) == int(0.1 * len(both))
    for lang, own in large.candidates.items():
        assert len(own) == int(0.4 * len(names(ragged, lang)))


def test_documents_of_the_wrong_length_are_neither_queries_nor_candidates() -> None:
    documents = [
        Document(f"Q{i}", lang, " ".join(f"{lang}{j}" for j in range(5 if i % 2 else 9)))
        for i in range(300)
        for lang in ("en", "it")
    ]
    made = make_split(read_texts(in_batches(documents), Tokeniser()), min_unique=6, max_unique=9)
    assert made.held_out
    assert {int(name[1:]) % 2 for name in made.held_out} == {0}


def test_a_split_depends_on_its_seed_and_not_on_the_order_of_the_corpus() -> None:
    documents = [Document(f"Q{i}", lang, f"{lang} {i}") for i in range(200) for lang in ("en", "it")]
    one, other = (read_texts(in_batches(d), Tokeniser()) for d in (documents, documents[::-1]))
    assert make_split(one) == make_split(other)
    assert make_split(one, seed=1) != make_split(one)
    assert make_split(one, seed=1).digest != make_split(one).digest


def test_the_digest_does_not_depend_on_the_order_of_the_languages() -> None:
    documents = [Document(f"Q{i}", lang, f"{lang} {i}") for i in range(200) for lang in ("en", "it")]
    orders = (["en", "it"], ["it", "en"])
    splits = [make_split(read_texts(in_batches(documents), Tokeniser(), langs=langs)) for langs in orders]
    assert splits[0].digest == splits[1].digest
    assert splits[0].pairs[0].test == splits[1].pairs[0].test


def test_joint_training_takes_all_free_concepts_that_two_languages_share(
    split: Split, ragged: EvaluationCorpus
) -> None:
    rows = training_rows(split, ragged, "joint")
    free = {lang: names(ragged, lang) - split.held_out for lang in LANGS}
    for lang in LANGS:
        others = set.union(*(free[other] for other in LANGS if other != lang))
        assert names(ragged, lang, rows[lang]) == free[lang] & others


def test_pairwise_training_takes_the_concepts_of_both_languages_and_low_resource_training_some_of_them(
    split: Split, ragged: EvaluationCorpus
) -> None:
    for a, b in combinations(LANGS, 2):
        both = (names(ragged, a) & names(ragged, b)) - split.held_out
        rows = training_rows(split, ragged, "pairwise", (a, b))
        assert set(rows) == {a, b}
        assert names(ragged, a, rows[a]) == names(ragged, b, rows[b]) == both
        few = training_rows(split, ragged, "low-resource", (a, b), low_resource=25)
        assert names(ragged, a, few[a]) == names(ragged, b, few[b]) < both
        assert len(names(ragged, a, few[a])) == 25


@pytest.mark.parametrize("drop", [False, True])
def test_in_transitive_training_the_two_languages_share_concepts_with_the_pivot_only(
    split: Split, ragged: EvaluationCorpus, drop: bool
) -> None:
    rows = training_rows(split, ragged, "transitive", ("da", "vi"), pivot="en", drop_shared=drop)
    found = {lang: names(ragged, lang, own) for lang, own in rows.items()}
    assert set(found) == {"da", "vi", "en"}
    assert not found["da"] & found["vi"]
    assert found["da"] | found["vi"] == found["en"]
    both = names(ragged, "da") & names(ragged, "vi")
    assert bool((found["da"] | found["vi"]) & both) != drop
    if not drop:
        assigned = [len(found[lang] & both) for lang in ("da", "vi")]
        assert abs(assigned[0] - assigned[1]) < 0.3 * sum(assigned)


def test_the_pivot_is_the_language_that_shares_most() -> None:
    presence = [(True, True, i % 2 == 0, i % 3 > 0) for i in range(300)]
    corpus = make_corpus(presence, ("da", "vi", "fo", "en"))
    assert choose_pivot(make_split(corpus), corpus, ("da", "vi")) == "en"


def test_transitive_training_needs_a_third_language() -> None:
    corpus = make_corpus([(True, True)] * 200, ("da", "vi"))
    with pytest.raises(Cr5Error, match=r"third language.*`langs`"):
        training_rows(make_split(corpus), corpus, "transitive", ("da", "vi"))


def test_a_corpus_with_too_few_shared_concepts_is_refused() -> None:
    with pytest.raises(Cr5Error, match=r"needs at least 100 concepts .* there are 99.*`min_unique`"):
        make_split(make_corpus([(True, True, True)] * 99), min_unique=2, max_unique=50)


def test_a_stored_split_is_the_same_split(split: Split, tmp_path: Path) -> None:
    split.save(tmp_path / "split.json")
    loaded = Split.load(tmp_path / "split.json")
    assert loaded == split
    assert loaded.digest == split.digest
    assert [path.name for path in tmp_path.iterdir()] == ["split.json"]


def test_files_that_are_not_splits_are_named(tmp_path: Path, split: Split) -> None:
    path = tmp_path / "split.json"

    def message() -> str:
        with pytest.raises(Cr5Error) as caught:
            Split.load(path)
        return str(caught.value)

    assert message().startswith(f"{path} does not exist; leave out `split`")
    listed = json.dumps(split.to_json() | {"candidates": []})
    for content in ("{", "[]", "{}", '{"format": 1}', listed, json.dumps(split.to_json() | {"concepts": []})):
        path.write_text(content)
        assert message().startswith(f"{path} is not a split")
    path.write_text('{"format": 9}')
    assert message().startswith(f"{path} has the format 9, but this version reads 1")
    with pytest.raises(Cr5Error, match=f"there is no folder {tmp_path / 'no'}; create it first"):
        split.save(tmp_path / "no" / "split.json")
