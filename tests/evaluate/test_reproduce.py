"""The reproduction of the paper's table on a miniature of the published data."""

from pathlib import Path

import madeup
import numpy as np
import pytest
from miniature import write_miniature

from cr5.corpus.documents import Document
from cr5.errors import CorpusError
from cr5.evaluate.runs import REGIMES, Run
from cr5.evaluate.tasks.reproduce import reproduce
from cr5.features.tokeniser import Tokeniser

pytestmark = pytest.mark.slow

SMALL = {"document_words": (5, 1000), "query_words": (5, 1000), "queries": 20, "low_resource": 60}
CHANGES = {"rank": 30, "min_documents": 2}
NAMES = {"aa": "da", "bb": "en", "cc": "vi"}


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
    return reproduce(folder, **SMALL, overrides=CHANGES)[0]  # type: ignore[arg-type]


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


def test_languages_that_share_nothing_are_bridged_by_english(run: Run) -> None:
    assert {s.shared for s in run.scores if s.regime == "transitive"} == {0}
    assert {s.shared for s in run.scores if s.regime == "low-resource"} == {60}


def test_candidates_may_be_trained_on_as_in_the_scripts_and_the_signature_says_so(folder: Path, run: Run) -> None:
    other = reproduce(folder, **SMALL, candidates_train=True, overrides=CHANGES)[0]  # type: ignore[arg-type]
    assert "with trained candidates" in other.scores[0].signature
    assert "with trained candidates" not in run.scores[0].signature
    first = [next(s for s in r.scores if s.regime == "joint") for r in (run, other)]
    assert first[1].candidates > first[0].candidates
    assert (first[1].shared or 0) > (first[0].shared or 0) > 0


def test_only_documents_within_the_query_limits_become_queries(folder: Path) -> None:
    limits = SMALL | {"query_words": (20, 1000)}
    chosen = reproduce(folder, **limits, langs=["da", "vi"], overrides=CHANGES)[0]  # type: ignore[arg-type]
    assert min(length for queries in chosen.queries for length in queries.lengths) >= 20
    assert {s.regime for s in chosen.scores} == {"joint", "pairwise", "low-resource"}


def test_data_without_the_languages_of_the_paper_is_evaluated_on_all_its_own(tmp_path: Path) -> None:
    write_miniature(tmp_path, madeup.corpus(("aa", "bb", "cc"), concepts=300), Tokeniser())
    run = reproduce(tmp_path, **SMALL, overrides=CHANGES | {"ridge": 1.0})[0]  # type: ignore[arg-type]
    assert len({(s.source, s.target) for s in run.scores if s.regime == "pairwise"}) == 6
    # All languages share all concepts: dropping these leaves the paper's transitive training nothing.
    others = [note for note in run.notes if "shared concepts, too few for a good model" not in note]
    assert [note.split(":")[0] for note in others] == ["transitive aa-bb", "transitive aa-cc", "transitive bb-cc"]
    assert others[0] == "transitive aa-bb: nothing left to train on in aa, bb, cc"


def test_one_language_is_refused(tmp_path: Path) -> None:
    write_miniature(tmp_path, madeup.corpus(("aa",), concepts=20), Tokeniser())
    with pytest.raises(CorpusError, match=r"only one language \(aa\)"):
        reproduce(tmp_path)
    write_miniature(tmp_path, madeup.corpus(("bb",), concepts=20), Tokeniser())
    with pytest.raises(CorpusError, match="only one language"):
        reproduce(tmp_path, langs=["aa"])
