"""The reproduction of the paper's table on a miniature of the published data."""

from pathlib import Path
from typing import Any

import madeup
import numpy as np
import pytest
from miniature import write_miniature
from published_files import word_vectors, write_published

from cr5.corpus.documents import Document
from cr5.errors import CorpusError
from cr5.evaluate.api import words
from cr5.evaluate.runs import REGIMES, Run
from cr5.evaluate.tasks.reproduce import PaperData, reproduce, reproduce_published
from cr5.features.tokeniser import Tokeniser
from cr5.model import Cr5

pytestmark = pytest.mark.slow

LOW_RESOURCE = 60
CHANGES = {"rank": 30, "min_documents": 2}
NAMES = {"aa": "da", "bb": "en", "cc": "vi"}


def small(folder: Path, **changes: Any) -> PaperData:
    limits: dict[str, Any] = {"document_words": (5, 1000), "query_words": (5, 1000), "queries": 20}
    return PaperData(folder, **limits | changes)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three of the paper's languages; each lacks a fifth of the concepts, so that no two share all."""
    random = np.random.default_rng(0)
    present = [d for d in madeup.corpus(concepts=500) if random.random() < 0.8]
    path = tmp_path_factory.mktemp("published")
    write_miniature(path, [Document(d.concept, NAMES[d.lang], d.text) for d in present], Tokeniser())
    return path


@pytest.fixture(scope="module")
def run(folder: Path) -> Run:
    return reproduce(small(folder), low_resource=LOW_RESOURCE, overrides=CHANGES)


def test_every_section_of_the_table_is_evaluated_on_the_pairs_of_the_paper(run: Run) -> None:
    found = {regime: {(s.source, s.target) for s in run.scores if s.regime == regime} for regime in REGIMES}
    both = {("da", "vi"), ("vi", "da")}
    assert found["joint"] == both | {("da", "en"), ("en", "da"), ("en", "vi"), ("vi", "en")}
    assert found["pairwise"] == both | {("da", "en"), ("en", "da")}
    assert found["low-resource"] == found["transitive"] == both
    assert [note for note in run.notes if "shared concepts, too few for a good model" not in note] == []
    for mean in run.means():
        assert mean.precision[1] > 10 * 100 / 160  # ten times chance


def test_published_ridges_are_used_where_they_are_known(run: Run) -> None:
    signatures = {s.regime: s.signature for s in run.scores if (s.source, s.target) == ("da", "vi")}
    assert "|ridge 1.33|" in signatures["transitive"]
    assert "transitive via en" in signatures["transitive"]
    assert all("preset wsdm19" in signature for signature in signatures.values())
    reports = {t.regime: t.report for t in run.trained}
    assert not reports["transitive"]["ridge_path"]
    assert reports["joint"]["ridge_path"]  # three languages are not the four that the paper's ridge belongs to


def test_languages_that_share_nothing_are_trained_with_english_as_the_pivot(run: Run) -> None:
    assert {s.shared for s in run.scores if s.regime == "transitive"} == {0}
    assert {s.shared for s in run.scores if s.regime == "low-resource"} == {60}


def test_candidates_may_be_trained_on_as_in_the_scripts_and_the_signature_says_so(folder: Path, run: Run) -> None:
    data = small(folder, candidates_train=True)
    other = reproduce(data, low_resource=LOW_RESOURCE, overrides=CHANGES)
    assert "with trained candidates" in other.scores[0].signature
    assert "with trained candidates" not in run.scores[0].signature
    first = [next(s for s in r.scores if s.regime == "joint") for r in (run, other)]
    assert first[1].candidates > first[0].candidates
    assert (first[1].shared or 0) > (first[0].shared or 0) > 0


def test_only_documents_within_the_query_limits_become_queries(folder: Path) -> None:
    data = small(folder, query_words=(20, 1000), langs=["da", "vi"])
    chosen = reproduce(data, low_resource=LOW_RESOURCE, overrides=CHANGES)
    assert min(length for queries in chosen.queries for length in queries.lengths) >= 20
    assert {s.regime for s in chosen.scores} == {"joint", "pairwise", "low-resource"}


def test_data_without_the_languages_of_the_paper_is_evaluated_on_all_its_own(tmp_path: Path) -> None:
    write_miniature(tmp_path, madeup.corpus(("aa", "bb", "cc"), concepts=300), Tokeniser())
    run = reproduce(small(tmp_path), low_resource=LOW_RESOURCE, overrides=CHANGES | {"ridge": 1.0})
    assert len({(s.source, s.target) for s in run.scores if s.regime == "pairwise"}) == 6
    # All languages share all concepts: dropping these leaves the paper's transitive training nothing.
    others = [note for note in run.notes if "shared concepts, too few for a good model" not in note]
    assert [note.split(":")[0] for note in others] == ["transitive aa-bb", "transitive aa-cc", "transitive bb-cc"]
    assert others[0] == "transitive aa-bb: nothing left to train on in aa, bb, cc"


def test_one_language_is_refused(tmp_path: Path) -> None:
    write_miniature(tmp_path, madeup.corpus(("aa",), concepts=20), Tokeniser())
    with pytest.raises(CorpusError, match=r"only one language \(aa\)"):
        reproduce(PaperData(tmp_path))
    write_miniature(tmp_path, madeup.corpus(("bb",), concepts=20), Tokeniser())
    with pytest.raises(CorpusError, match="only one language"):
        reproduce(PaperData(tmp_path, langs=["aa"]))


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Word vectors of the same languages, learned from other documents, in the authors' format."""
    trained = Cr5("wsdm19", rank=30, ridge=1.0, idf_power=0.0, min_documents=2, min_unique=5)
    vectors = word_vectors(trained.fit(madeup.corpus(concepts=300, seed=1)), NAMES)
    return write_published(tmp_path_factory.mktemp("models"), "joint_4", vectors)


def test_published_vectors_are_measured_on_documents_sentences_and_words(
    folder: Path, published: Path, tmp_path: Path
) -> None:
    model = Cr5.load_published(published, "joint_4")
    meanings = range(0, 240, 8)
    for lang, code in (("aa", "da"), ("bb", "en")):
        sentences = [madeup.text(lang, range(i, i + 8)) for i in meanings]
        (tmp_path / f"sentences.{code}").write_text("\n".join(sentences) + "\n", encoding="utf-8")
    pairs = [f"{madeup.word('aa', i)}\t{madeup.word('bb', i)}\n" for i in meanings]
    (tmp_path / "da-en.tsv").write_text("".join(pairs), encoding="utf-8")
    runs = reproduce_published(
        small(folder),
        model,
        sentences=[tmp_path / "sentences.da", tmp_path / "sentences.en"],
        words=[tmp_path / "da-en.tsv"],
    )
    assert runs.sentences
    assert runs.words
    for run, least in ((runs.documents, 60), (runs.sentences, 60), (runs.words, 60)):
        assert {score.system for score in run.scores} == {"cr5 as published"}
        assert run.role("cr5 as published") == "own"
        assert min(mean.precision[1] for mean in run.means()) > least
    assert {score.regime for score in runs.documents.scores} == {"joint"}
    assert {score.shared for score in runs.documents.scores} == {None}
    assert any("may be among them" in note for note in runs.documents.notes)
    with_views = words(model, [tmp_path / "da-en.tsv"], output=tmp_path / "report")  # as any other model
    assert {score.system for score in with_views.scores} == {"cr5", "cr5-dense"}
    # The control: vectors that belong to other words find nothing.
    rng, shuffled = np.random.default_rng(0), word_vectors(model, {code: code for code in NAMES.values()})
    for lang, vectors in shuffled.items():
        order = rng.permutation(len(vectors))
        shuffled[lang] = dict(zip(vectors, [list(vectors.values())[i] for i in order], strict=True))
    control = Cr5.load_published(write_published(tmp_path / "control", "joint_4", shuffled), "joint_4")
    for mean in reproduce_published(small(folder), control).documents.means():
        assert mean.precision[1] < 15


def test_pairwise_models_are_in_the_section_of_pairwise_training(folder: Path, published: Path, tmp_path: Path) -> None:
    for lang in ("da", "en"):
        (tmp_path / f"pairwise_2_da-en_{lang}.txt.gz").write_bytes((published / f"joint_4_{lang}.txt.gz").read_bytes())
    model = Cr5.load_published(tmp_path, "pairwise_2_da-en")
    run = reproduce_published(small(folder), model).documents
    assert {(s.regime, s.source, s.target) for s in run.scores} == {("pairwise", "da", "en"), ("pairwise", "en", "da")}
